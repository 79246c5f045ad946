// SPDX-License-Identifier: Apache-2.0
// safetensors: memory-mapped reading of one file or a sharded folder, and writing. Format: u64 little-endian header length N,
// N bytes of JSON, data; docs/notes/checkpoints.md#safetensors lists the checks (N <= 100 MB and <= file, offsets in range, no
// overlap or hole, end - begin = product(shape) * size, no duplicate key).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "core/dtype.h"

namespace slip {

/// A view of one stored tensor; `bytes` may be misaligned for its type: use the readers below.
struct TensorView {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;  // outermost first
  std::span<const std::byte> bytes;
  int64_t elements() const;
};

/// One or many safetensors files seen as one map from name to tensor. Copyable, cheap; views live as long as a copy lives.
class Checkpoint {
 public:
  /// One .safetensors file. Errors name file, tensor, expected and found.
  static Result<Checkpoint> open_file(const std::filesystem::path& file);
  /// A Hugging Face folder: model.safetensors, else model.safetensors.index.json with its shards.
  static Result<Checkpoint> open_folder(const std::filesystem::path& folder);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const TensorView* find(std::string_view name) const;
  /// The tensor, or kBadInput "<folder>: tensor <name>: expected shape [..], got .."; shape {-1, 5}: -1 matches any.
  /// kUnsupported for one of a type that is not read.
  Result<const TensorView*> get(std::string_view name, std::span<const int64_t> shape = {}) const;
  /// The type's name of a tensor that is stored in one that is not read here (find() does not know it); null: no such tensor.
  const std::string* unread(std::string_view name) const;
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }
  /// For matrices that are streamed where they lie.
  void prefer_large_pages() const {
    for (const MappedFile& file : files_) file.prefer_large_pages();
  }

 private:
  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, std::string, std::less<>> unread_;
};

/// Elements first, first + out.size() as f32 (exact for bf16/f16/f32/i8/u8/f8; rounded for f64/i32/i64). Any alignment.
void read_as_f32(const TensorView& t, int64_t first, std::span<float> out);
std::vector<float> read_as_f32(const TensorView& t);
/// Whether all elements are finite (a NaN scale is an error of the file, not of the arithmetic).
bool all_finite(const TensorView& t);

/// "[48, 64]", as messages show a shape.
std::string shape_text(std::span<const int64_t> shape);

struct TensorToWrite {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
/// Writes beside and renames. Tensors are stored in the given order, data 64-byte aligned by padding the header with spaces.
Status write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata = {{"format", "pt"}});

}  // namespace slip
