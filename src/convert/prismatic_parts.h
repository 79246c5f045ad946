// SPDX-License-Identifier: Apache-2.0
// Inside of convert/: what a converted Prismatic checkpoint (prismatic.h) says in its JSON files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "core/safetensors.h"
#include "models/config/vit_config.h"

namespace slip {

using TensorsByName = std::map<std::string, TensorView>;  // by their names in OpenVLA's layout

/// A member of that kind; an empty text, null where there is none.
std::string text_at(const json::object& o, std::string_view key);
const json::object* object_at(const json::object& o, std::string_view key);

/// config.json but for pad_to_multiple_of: sizes from the tensors' shapes, overridden by what the run's config gives.
Result<json::object> prismatic_config(const TensorsByName& tensors, const json::object& given, const std::string& where);
/// preprocessor_config.json for images as the first tower takes them. A tower with a class token is DINOv2's, any other SigLIP's, each with
/// its own means and deviations.
json::object prismatic_preprocessor(std::span<const VitConfig> towers, const std::string& strategy);

/// Whether actions are MiniVLA's 256 extra tokens behind the tokenizer's own, or the last 256 of the base vocabulary. The action
/// tokenizer's name says which; only runs without one are judged by the name of the model below. kUnsupported for the other published
/// names (libero_vq_extra_action_tokenizer, bridge_vq_extra_...), which decode ids through a learned codebook.
Result<bool> has_extra_tokens(const json::object& config, const std::string& where);
/// Copies a tokenizer's files, tokenizer.json with <|extra_0|> .. <|extra_255|> behind its ids unless they are there. Gives one past the
/// largest action id.
Result<int32_t> write_prismatic_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to, bool extra,
                                          int32_t vocab);
/// The same without a tokenizer, for the published vocabularies.
Result<int32_t> known_action_bound(int32_t vocab, bool extra);

}  // namespace slip
