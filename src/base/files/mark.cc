// SPDX-License-Identifier: Apache-2.0
#include "base/files/mark.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/content_hash.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

uint64_t sampled(const fs::path& file, uint64_t h) {
  constexpr uint64_t kPieces = 16, kPiece = 4096;
  std::error_code ec;
  const uintmax_t size = fs::file_size(file, ec);
  if (ec) return h;
  h = fnv1a(fmt::format("{} {}", file.filename().string(), size), h);
  std::ifstream in(file, std::ios::binary);
  std::string piece(kPiece, '\0');
  for (uint64_t i = 0; i < kPieces && in; ++i) {
    const uint64_t last = size > kPiece ? size - kPiece : 0;
    in.seekg(static_cast<std::streamoff>(last * i / (kPieces - 1)));
    in.read(piece.data(), static_cast<std::streamsize>(kPiece));
    h = fnv1a(std::string_view(piece).substr(0, static_cast<size_t>(in.gcount())), h);
    in.clear();
  }
  return h;
}

}  // namespace

std::string mark_of_files(std::vector<fs::path> files) {
  std::sort(files.begin(), files.end());
  uint64_t h = kFnvStart;
  for (const fs::path& file : files) h = sampled(file, h);
  return fmt::format("{:016x}", h);
}

}  // namespace slip
