// SPDX-License-Identifier: Apache-2.0
// What the pages say exists does: every file and folder that a page names, every test, every page that it links to. And nothing in
// the repository cites a page that is not in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SLIP_SOURCE_DIR;
constexpr std::array kFolders = {"src", "include", "tests", "docs", "configs", "models", "bench", "tools", "cmake", "examples"};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Files with one of the endings, recorded ones left out: tests/fixtures, models, results of measurements.
std::vector<fs::path> files_with(std::initializer_list<const char*> endings) {
  std::vector<fs::path> out;
  const auto take = [&](const fs::path& file) {
    for (const char* ending : endings)
      if (file.extension() == ending) out.push_back(file);
  };
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.is_regular_file()) take(entry.path());
  for (const char* folder : kFolders) {
    if (!fs::exists(kRoot / folder) || std::string(folder) == "models") continue;
    for (auto it = fs::recursive_directory_iterator(kRoot / folder); it != fs::recursive_directory_iterator(); ++it) {
      if (it->path().filename() == "fixtures") it.disable_recursion_pending();
      if (it->is_regular_file()) take(it->path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string name_of(const fs::path& file) { return file.lexically_relative(kRoot).string(); }

std::vector<std::string> matches(const std::string& text, const std::regex& pattern, size_t group = 1) {
  std::vector<std::string> out;
  for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m) out.push_back((*m)[group].str());
  return out;
}

/// "Suite.Name" of every test, and "Suite.".
std::set<std::string> tests() {
  static const std::regex test(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  std::set<std::string> out;
  for (const fs::path& file : files_with({".cc"})) {
    const std::string text = text_of(file);
    for (std::sregex_iterator m(text.begin(), text.end(), test), end; m != end; ++m) {
      out.insert((*m)[1].str() + ".");
      out.insert((*m)[1].str() + "." + (*m)[2].str());
    }
  }
  return out;
}

/// GitHub's anchor of a heading.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') out += static_cast<char>(std::tolower(c));
    if (c == ' ') out += '-';
  }
  return out;
}

bool has_anchor(const fs::path& page, const std::string& anchor) {
  static const std::regex heading(R"((?:^|\n)#+ ([^\n]+))");
  for (const std::string& h : matches(text_of(page), heading))
    if (anchor_of(h) == anchor) return true;
  return false;
}

/// What is wrong with a reference to a page, "lab/0011" or "notes/speculation.md#quadratic"; empty if nothing is.
std::string broken(const fs::path& folder, const std::string& reference) {
  const size_t hash = reference.find('#');
  const std::string path = reference.substr(0, hash);
  fs::path target = path.empty() ? folder : folder / path;
  if (!fs::exists(target) && fs::exists(kRoot / "src" / path)) return {};  // as includes name it
  if (!fs::exists(target)) {                                               // "docs/lab/0011" names the one page that begins so
    const fs::path parent = target.parent_path();
    const std::string stem = target.filename().string();
    bool found = false;
    if (fs::is_directory(parent) && stem.size() == 4 && std::all_of(stem.begin(), stem.end(), ::isdigit))
      for (const auto& entry : fs::directory_iterator(parent)) found |= entry.path().filename().string().starts_with(stem + "-");
    return found ? "" : "no such file";
  }
  if (hash != std::string::npos && !has_anchor(target, reference.substr(hash + 1))) return "no such heading";
  return {};
}

TEST(Docs, NameFilesThatExist) {
  static const std::regex quoted(R"(`((?:src|include|tests|docs|configs|models|bench|tools|examples)/[A-Za-z0-9_./-]+)`)");
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  int names = 0;
  for (const fs::path& page : files_with({".md"})) {
    if (page.filename() == "CHANGELOG.md") continue;  // tells of files that are gone
    const std::string text = text_of(page);
    for (const std::string& name : matches(text, quoted)) {
      EXPECT_EQ(broken(kRoot, name), "") << name_of(page) << ": " << name;
      ++names;
    }
    for (const std::string& target : matches(text, link)) {
      if (target.find("://") != std::string::npos) continue;
      EXPECT_EQ(broken(target.starts_with('#') ? page : page.parent_path(), target), "") << name_of(page) << ": " << target;
      ++names;
    }
  }
  EXPECT_GT(names, 200);
}

/// A page to which nothing leads is not read.
TEST(Docs, EveryPageIsLinkedFromAnother) {
  static const std::regex link(R"(\]\(([^)\s#]+)(?:#[^)\s]*)?\))");
  std::set<std::string> linked;
  for (const fs::path& page : files_with({".md"}))
    for (const std::string& target : matches(text_of(page), link))
      linked.insert(name_of((page.parent_path() / target).lexically_normal()));
  for (const fs::path& page : files_with({".md"})) {
    const std::string name = name_of(page);
    EXPECT_TRUE(!name.starts_with("docs/") || linked.contains(name)) << name;
  }
}

TEST(Docs, NameTestsThatExist) {
  static const std::regex quoted(R"(`([A-Z][A-Za-z0-9]+\.(?:[A-Z][A-Za-z0-9]+|\*))`)");
  const std::set<std::string> all = tests();
  EXPECT_GT(all.size(), 900U);
  int names = 0;
  for (const fs::path& page : files_with({".md"})) {
    for (std::string name : matches(text_of(page), quoted)) {
      if (name.ends_with('*')) name.pop_back();
      EXPECT_TRUE(all.contains(name)) << name_of(page) << ": " << name;
      ++names;
    }
  }
  EXPECT_GT(names, 100);
}

/// Paths that begin with `folder` in a text, "docs/lab/0011" and "docs/notes/speculation.md#quadratic"; not parts of longer paths.
std::vector<std::string> paths_in(const std::string& text, const std::string& folder) {
  std::vector<std::string> out;
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + 1)) {
    if (at > 0 &&
        (std::isalnum(static_cast<unsigned char>(text[at - 1])) || std::string("/_-.}").find(text[at - 1]) != std::string::npos))
      continue;
    const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./#-", at);
    std::string name = text.substr(at, end - at);
    while (name.ends_with('.') || name.ends_with('/') || name.ends_with('-')) name.pop_back();  // a sentence may end behind it
    out.push_back(name);
  }
  return out;
}

TEST(Docs, AreCitedWhereTheyAre) {
  int names = 0;
  for (const fs::path& file : files_with({".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".txt", ".md"})) {
    if (file.filename() == "docs_test.cc" || file.filename() == "CHANGELOG.md") continue;
    for (const char* folder : {"docs/", "tests/"}) {
      for (const std::string& name : paths_in(text_of(file), folder)) {
        EXPECT_EQ(broken(kRoot, name), "") << name_of(file) << ": " << name;
        ++names;
      }
    }
  }
  EXPECT_GT(names, 100);
}

/// A checkpoint says where it was trained, so that it can go on there; that is nobody's business once it is shipped.
TEST(Docs, ShippedModelsNameNoFolderOfAMachine) {
  for (auto it = fs::recursive_directory_iterator(kRoot / "models"); it != fs::recursive_directory_iterator(); ++it)
    if (it->path().filename() == "trainer.json")
      EXPECT_EQ(text_of(it->path()).find("working_folder"), std::string::npos) << name_of(it->path());
}

TEST(Docs, CiteNoPageFromOutside) {
  for (const fs::path& file : files_with({".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".txt", ".md"})) {
    if (file.filename() == "docs_test.cc") continue;
    const std::string text = text_of(file);
    for (const char* word : {"reference/models", "reference/speculation", "reference/block_diffusion", "reference/driving",
                             "DESIGN", "CONTRACT", "STYLE", "aesthetics", "(design, ", "; design, "})
      EXPECT_EQ(text.find(word), std::string::npos) << name_of(file) << ": " << word;
  }
}

/// Every folder of src/ that holds code is in ARCHITECTURE.md's table; `testing` ones are spoken of together.
TEST(Docs, ArchitectureShowsEveryRoom) {
  const std::string page = text_of(kRoot / "ARCHITECTURE.md");
  std::set<std::string> rooms;
  for (const fs::path& file : files_with({".h", ".cc"})) rooms.insert(name_of(file.parent_path()));
  for (const std::string& room : rooms) {
    if (!room.starts_with("src/") || room.ends_with("testing")) continue;
    EXPECT_NE(page.find("`" + room.substr(4) + "`"), std::string::npos) << "in src/, and not in ARCHITECTURE.md: " << room;
  }
}

/// docs/DIMS.md: each example is in the file that it names, and every letter of the pass's headers is explained.
TEST(Docs, ExplainTheSuffixesOfTheCode) {
  static const std::regex row(R"(\n\| ([A-Z]) \|[^|]*\|([^|]*)\|)"), name(R"(`([a-z]\w*_[A-Z]+)`)"), file(R"(`(src/[^`]+)`)");
  static const std::regex used(R"(\b[a-z][a-z0-9_]*_([A-Z]{1,3})\b)");
  const std::string page = text_of(kRoot / "docs" / "DIMS.md");
  std::set<char> letters;
  for (std::sregex_iterator m(page.begin(), page.end(), row), end; m != end; ++m) {
    letters.insert((*m)[1].str()[0]);
    const std::string examples = (*m)[2].str();
    std::string sources;
    for (const std::string& f : matches(examples, file)) sources += text_of(kRoot / f);
    for (const std::string& n : matches(examples, name)) {
      EXPECT_TRUE(std::regex_search(sources, std::regex("\\b" + n + "\\b"))) << (*m)[1] << ": " << n;
      EXPECT_NE(n.substr(n.rfind('_')).find((*m)[1].str()), std::string::npos) << n;
    }
  }
  EXPECT_GE(letters.size(), 12U);
  for (const char* header :
       {"src/lm/lm.h", "src/lm/draft_head.h", "src/lm/commit_sampler.h", "src/kernels/kernels.h", "src/nn/decoder.h"})
    for (const std::string& suffix : matches(text_of(kRoot / header), used))
      for (const char letter : suffix) EXPECT_TRUE(letters.contains(letter)) << header << ": _" << suffix;
}

}  // namespace
