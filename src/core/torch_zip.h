// SPDX-License-Identifier: Apache-2.0
// torch.save's files (.pt, .pth, .bin since torch 1.6), read without torch and without executing anything: a zip archive of stored
// entries (zip64 where it is large), its pickle (pickle.h), and one entry per storage, memory-mapped
// [docs/notes/checkpoints.md#minivla]. Not read: the older format without a zip around it, TorchScript archives, compressed or
// encrypted entries, big-endian files.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "core/safetensors.h"

namespace slip {

/// Names and bytes of an archive's stored entries, views into `bytes`. kBadInput for anything that does not fit, kUnsupported for
/// compressed and encrypted entries.
Result<std::map<std::string, std::span<const std::byte>, std::less<>>> read_zip(std::span<const std::byte> bytes,
                                                                                std::string_view where);

class TorchFile {
 public:
  /// A tensor somewhere in nested dicts and lists: {"model", "llm_backbone", "llm.lm_head.weight"}.
  struct Entry {
    std::vector<std::string> path;
    TensorView view;  // its name is the path's parts joined by "/"
  };
  /// kBadInput names the file and what is wrong; kUnsupported for the older formats.
  static Result<TorchFile> open(const std::filesystem::path& file);
  /// In the file's order. Tensors that are not contiguous were copied into order.
  const std::vector<Entry>& tensors() const { return tensors_; }

 private:
  TorchFile() = default;
  MappedFile file_;
  std::vector<std::shared_ptr<std::vector<std::byte>>> copies_;
  std::vector<Entry> tensors_;
  friend class TorchWalk;
};

}  // namespace slip
