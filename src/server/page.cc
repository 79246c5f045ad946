// SPDX-License-Identifier: Apache-2.0
#include "server/page.h"

#include <filesystem>
#include <span>

#include "base/file.h"
#include "server/files/below.h"

namespace slip::server {

/// Made by cmake/embed.cmake.
extern const std::span<const PageFile> kPageFiles;

std::string_view type_of_file(std::string_view path) {
  const std::string_view end = path.substr(std::min(path.rfind('.'), path.size()));
  if (end == ".html") return "text/html; charset=utf-8";
  if (end == ".js" || end == ".mjs") return "text/javascript; charset=utf-8";
  if (end == ".css") return "text/css; charset=utf-8";
  if (end == ".json") return "application/json";
  if (end == ".svg") return "image/svg+xml";
  if (end == ".png") return "image/png";
  if (end == ".jpg") return "image/jpeg";
  if (end == ".woff2") return "font/woff2";
  return "application/octet-stream";
}

const PageFile* built_in_page(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const PageFile& f : kPageFiles)
    if (f.path == path) return &f;
  return nullptr;
}

std::optional<FolderFile> page_in_folder(const std::string& folder, std::string_view path) {
  if (path == "/") path = "/index.html";
  if (path.empty()) return std::nullopt;
  const auto file = file_below(folder, std::filesystem::path(folder) / path.substr(1));
  if (!file) return std::nullopt;
  auto content = read_file(*file, size_t{64} << 20);
  if (!content) return std::nullopt;
  return FolderFile{std::string(type_of_file(path)), std::move(*content)};
}

}  // namespace slip::server
