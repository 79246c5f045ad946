// SPDX-License-Identifier: Apache-2.0
// write_seeds FOLDER: for each target FOLDER/<target>/seed-<n>, and FOLDER/<target>.dict with the words that the seeds' JSON uses.
// write_seeds --list: the targets' names.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>

#include "fuzz/targets.h"

namespace {

// Words in quotes, as libFuzzer's dictionaries want them; a few hundred are enough.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> out;
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos && out.size() < 300; ++at) {
    size_t end = at + 1;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || std::strchr("_-.|<> ", text[end]) != nullptr))
      ++end;
    if (end < text.size() && text[end] == '"' && end > at + 1 && end < at + 40) out.insert(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "write_seeds: expected a folder or --list, got %d arguments\n", argc - 1);
    return 2;
  }
  const bool list = std::strcmp(argv[1], "--list") == 0;
  for (const slip::fuzz::Target& t : slip::fuzz::kTargets) {
    if (list) {
      std::printf("%.*s\n", static_cast<int>(t.name.size()), t.name.data());
      continue;
    }
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / t.name;
    std::filesystem::create_directories(folder);
    std::set<std::string> words;
    int n = 0;
    for (const std::string& seed : t.seeds()) {
      std::ofstream(folder / ("seed-" + std::to_string(n++)), std::ios::binary) << seed;
      if (t.shape != slip::fuzz::Shape::kBytes) words.merge(words_of(seed));
    }
    if (words.empty()) continue;  // libFuzzer takes no empty dictionary
    std::ofstream dict(folder.string() + ".dict");
    for (const std::string& w : words) dict << '"' << w << "\"\n";
  }
  return 0;
}
