// SPDX-License-Identifier: Apache-2.0
// What the targets share: findings, the scratch folder, fixtures.
#include "fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace slip::fuzz {

namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    const fs::path base = ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
    path = base / ("slip-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path);
  }
  ~Folder() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
};

}  // namespace

void require(bool ok, std::string_view why) {
  if (ok) return;
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(why.size()), why.data());
  std::abort();
}

void require_refusal(const Error& e) {
  require(e.kind == ErrorKind::kBadInput || e.kind == ErrorKind::kUnsupported || e.kind == ErrorKind::kResource,
          "an input is refused as bad, unsupported or too large: " + e.message);
  require(!e.message.empty(), "a refusal has words");
}

const fs::path& scratch() {
  static const Folder folder;
  return folder.path;
}

void put(std::string_view name, std::string_view bytes) {
  const fs::path folder = (scratch() / name).parent_path();
  if (folder != scratch()) fs::create_directories(folder);
  const int fd = ::open((scratch() / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  require(fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
          "the scratch folder takes files");
  ::close(fd);
}

std::string fixture(const fs::path& below) {
  const fs::path file = fs::path(SLIP_FIXTURES) / below;
  std::ifstream in(file, std::ios::binary);
  require(in.good(), "the fixture " + file.string() + " is there");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> fixtures_in(const fs::path& below, std::string_view extension, size_t largest) {
  std::vector<fs::path> files;
  for (const auto& e : fs::recursive_directory_iterator(fs::path(SLIP_FIXTURES) / below)) {
    if (e.is_regular_file() && e.path().extension() == extension && e.file_size() <= largest) files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> out;
  for (const fs::path& f : files) out.push_back(fixture(fs::relative(f, SLIP_FIXTURES)));
  return out;
}

std::string safetensors_file(std::string_view header, size_t data) {
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  out += header;
  for (size_t i = 0; i < data; ++i) out += static_cast<char>(i * 37);
  return out;
}

}  // namespace slip::fuzz
