// SPDX-License-Identifier: Apache-2.0
// See below.h.
#include "server/files/below.h"

#include <algorithm>

namespace slip::server {

namespace fs = std::filesystem;

std::optional<fs::path> file_below(const fs::path& root, const fs::path& path) {
  // An error code each: a second call clears the first one's error, and every path begins with an empty root.
  std::error_code of_root, of_file, of_kind;
  const fs::path folder = fs::canonical(root, of_root);
  if (of_root || folder.empty() || !fs::is_directory(folder, of_root)) return std::nullopt;
  fs::path file = fs::canonical(path, of_file);
  if (of_file || file.empty()) return std::nullopt;
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (end != folder.end() || rest == file.end()) return std::nullopt;
  if (!fs::is_regular_file(file, of_kind)) return std::nullopt;
  return file;
}

Status check_folder(std::string_view option, const std::string& folder) {
  std::error_code ec;
  const fs::file_status status = fs::status(folder, ec);
  if (fs::is_directory(status)) return {};
  return bad_input("{}: expected a folder, got {}", option,
                   fs::exists(status) ? fmt::format("{}, which is none", folder)
                                      : fmt::format("{}: {}", folder, ec ? ec.message() : "there is none"));
}

}  // namespace slip::server
