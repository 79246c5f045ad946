// SPDX-License-Identifier: Apache-2.0
// Rotary positions in a text configuration: `rope_scaling` (4.x) or `rope_parameters` (5.x, theta inside), type by `rope_type` or
// `type`: default, mrope (chunked sections), linear, llama3, yarn. Used by config_decoder.cc alone.
#pragma once
#include "kernels/rope.h"
#include "models/config/config_reader.h"
#include "models/config/families.h"
#include "nn/decoder.h"

namespace slip {

/// Sets decoder's query scale too (Ministral 3: `llama_4_scaling_beta`); needs its head width. kUnsupported names other types.
Result<RopeSpec> read_rope(const Keys& text, const ConfigClass& defaults, DecoderOptions& decoder, int32_t max_positions);

}  // namespace slip
