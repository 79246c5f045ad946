// SPDX-License-Identifier: Apache-2.0
// The page's files: src/server/page/ as it was when the program was built (page_files.cc is made of it), or a folder at run time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip::server {

struct PageFile {
  std::string_view path, type, content;  // "/index.html"
};
/// Of the page built in; null for another path. "/" is /index.html.
const PageFile* built_in_page(std::string_view path);
std::string_view type_of_file(std::string_view path);

/// A file below `folder`; nothing for what is not there or leads out of it.
struct FolderFile {
  std::string type, content;
};
std::optional<FolderFile> page_in_folder(const std::string& folder, std::string_view path);

}  // namespace slip::server
