// SPDX-License-Identifier: Apache-2.0
// A model folder whose matrices are stored as the product kernels read them: the files of the folder that it was made from, with
//   model.safetensors  one U8 tensor per packed matrix (PackedMatrix::blob, under the name of its first part; the other parts of a
//                      fused matrix are gone), norms and biases as F32 under their own names; metadata: format = slipstream-packed
//   slipstream.json    {"packed": {"version", "type", "source", "errors", "hash", "matrices": {name: {"type", "rows", "columns", "padding", "parts"}}}}
// Loading maps the file and computes on the matrices where they lie. A folder of another kPackedVersion has to be made again.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "core/safetensors.h"
#include "kernels/kernels.h"

namespace slip {

/// "f32", "bf16", "int8", "int4": the words of the command line.
std::string_view word_of_type(WeightType type);
std::optional<WeightType> weight_type_named(std::string_view word);

inline constexpr const char* kPackedFile = "slipstream.json";
inline constexpr const char* kPackedFormat = "slipstream-packed";

struct PackedEntry {
  WeightType type{};
  int64_t rows = 0, columns = 0;
  std::vector<std::string> parts;
  int64_t padding = 0;  // rows of zeros, which no checkpoint stores
};

struct PackedFolder {
  WeightType type{};  // what --dtype names; some matrices may be wider
  std::map<std::string, PackedEntry, std::less<>> matrices;
  json::object source, errors;
  std::string hash;  // checksum of model.safetensors, 16 hex digits; empty: made by a program that wrote none
};

/// Reads slipstream.json beside a checkpoint's files; nothing when the folder is not a packed one. kBadInput for a file that is not
/// as described; kUnsupported for another version.
Result<std::optional<PackedFolder>> read_packed_folder(const std::filesystem::path& folder);
json::value packed_folder_json(const PackedFolder& folder);
/// The checksum of a packed folder's weights as they are now. kCancelled between pieces.
Result<std::string> hash_of_weights(const std::filesystem::path& folder, const CancelToken& cancel);

/// The type that a folder asks to be loaded as: its own when packed; else the one that it is `meant` to run in; else f32 for f32 numbers and
/// bf16 for all others.
Result<WeightType> natural_type(const std::filesystem::path& folder, std::string_view stored_dtype,
                                std::optional<WeightType> meant = std::nullopt);

}  // namespace slip
