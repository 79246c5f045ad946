// SPDX-License-Identifier: Apache-2.0
// The low-rank adapter that a checkpoint drafts with, from PEFT's folder: adapter_config.json and adapter_model.safetensors
// (Nemotron-Labs-Diffusion ships one as `linear_spec_lora/`: o_proj, rank 128, alpha 512
// [docs/notes/speculation.md#draft-adapter]).
//
//   tensors: base_model.model.<layout>layers.<i>.self_attn.o_proj.lora_A.weight [R, HK] and ...lora_B.weight [D, R]
//   scale:   lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora
//
// Only o_proj of every layer: that is what has been published, and what keeps keys and values of a layer free of the adapter.
#pragma once
#include <filesystem>

#include "base/result.h"
#include "kernels/kernels.h"
#include "nn/decoder.h"

namespace slip {

/// The folder's name inside a model's folder.
inline constexpr std::string_view kDraftAdapterFolder = "linear_spec_lora";

/// kUnsupported for another kind of adapter (other modules, DoRA, ranks per layer, biases), kBadInput for tensors that are missing,
/// of another rank or for another base model. int8 models keep it in bf16: it is small.
Result<DraftAdapter> load_draft_adapter(const std::filesystem::path& folder, const DecoderOptions& decoder, WeightType type,
                                        ThreadPool& pool);

}  // namespace slip
