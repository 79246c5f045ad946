// SPDX-License-Identifier: Apache-2.0
// See kept.h.
#include "base/files/kept.h"

#include <filesystem>

namespace slip {

namespace {

namespace fs = std::filesystem;

/// A hard link too: what is appended to the one stands in the other.
bool is_one_place(const fs::path& a, const fs::path& b) {
  std::error_code ec;
  if (fs::exists(a, ec) && !fs::is_regular_file(a, ec) && !fs::is_directory(a, ec)) return false;
  if (fs::equivalent(a, b, ec) && !ec) return true;
  return fs::weakly_canonical(fs::absolute(a, ec), ec) == fs::weakly_canonical(fs::absolute(b, ec), ec);
}

}  // namespace

Status check_inputs_kept(const FilesByOption& inputs, const FilesByOption& outputs) {
  for (const auto& [reads, input] : inputs)
    for (const auto& [writes, output] : outputs)
      if (!input.empty() && !output.empty() && is_one_place(input, output))
        return usage_error("{}: expected another place to write than what {} reads, got {} for both", writes, reads, output);
  return {};
}

}  // namespace slip
