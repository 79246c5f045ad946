// SPDX-License-Identifier: Apache-2.0
// The floors: a file of src/ includes its own room or a room on a lower floor, nothing beside or above. A room is a folder of this
// table; a folder that is not in it belongs to the one around it. The table is the architecture; ARCHITECTURE.md shows it to people.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

// Numbers order the rooms within a floor of ARCHITECTURE.md and between floors: what has a lower one may be included. Roughly a hundred is
// a floor; a room that its own floor's others stand on may lie just below.
const std::map<std::string, int> kFloor = {
    {"base", 0},
    {"base/json", 10},
    {"base/clock", 10},
    {"base/words", 10},
    {"base/threads", 20},
    {"core", 100},
    {"image", 100},
    {"plot", 100},
    {"text/unicode", 95},
    {"text/jinja", 100},
    {"text", 110},
    {"kernels/body", 180},
    {"kernels/isa", 190},
    {"kernels", 200},
    {"kernels/testing", 210},
    {"form/automaton", 190},
    {"plan", 195},
    {"form", 200},
    {"form/schema/typed", 205},
    {"form/schema", 210},
    {"form/builtin", 220},
    {"sim", 200},
    {"sim/bodies", 210},
    {"sim/render", 220},
    {"sim/reach", 210},
    {"sim/record", 230},
    {"lm", 300},
    {"limits", 300},
    {"nn", 310},
    {"task", 310},
    {"import", 310},
    {"decode/types", 400},
    {"decode/sequence", 410},
    {"decode/pass", 420},
    {"decode/draft_length", 430},
    {"decode/draft", 430},
    {"decode/verify", 440},
    {"decode/rounds", 450},
    {"decode/schedule", 460},
    {"decode", 470},
    {"decode/testing", 480},
    {"forecast", 490},
    {"models/config", 400},
    {"models/weights", 410},
    {"models/vision", 420},
    {"models", 430},
    {"models/draft", 440},
    {"convert", 450},
    {"cuda/device", 395},
    {"cuda", 400},
    {"cuda/emulated", 410},
    {"engine", 500},
    {"service", 510},
    {"train/data", 500},
    {"train/model", 510},
    {"train/objective", 520},
    {"train/heads", 525},
    {"train/parallel", 525},
    {"train/loop", 530},
    {"train", 540},
    {"drive/score", 590},
    {"drive", 600},
    {"drive/reach", 603},
    {"eval", 607},
    {"picture", 610},
    {"api", 620},
    {"api/tools", 625},
    {"capi", 630},
    {"server/files", 675},
    {"server", 680},
    {"cli/pages", 690},
    {"cli", 700},
    {"cli/bench", 710},
    {"python", 700},
};

// Neighbours on one floor, whatever their rooms' numbers.
bool are_neighbours(const std::string& a, const std::string& b) {
  const auto top = [](const std::string& room) { return room.substr(0, room.find('/')); };
  const std::set<std::string> pair{top(a), top(b)};
  return pair == std::set<std::string>{"decode", "models"} || pair == std::set<std::string>{"decode", "convert"} ||
         pair == std::set<std::string>{"decode", "cuda"} || pair == std::set<std::string>{"models", "cuda"};
}

/// The room of a path: the longest folder around it that the table knows.
std::string room_of(const std::string& path) {
  for (std::string folder = fs::path(path).parent_path().string(); !folder.empty();
       folder = fs::path(folder).parent_path().string())
    if (kFloor.contains(folder)) return folder;
  return {};
}

// "src/decode/rounds/rounds.cc: includes models/config/config.h (floor 4.0, not below floor 4.5)", one line per offence.
std::string offence(const std::string& file, const std::string& room, const std::string& included) {
  const std::string target = room_of(included);
  if (target.empty() || target == room) return {};
  const int from = kFloor.at(room), to = kFloor.at(target);
  if (to < from && !are_neighbours(room, target)) return {};
  const auto floor = [](int f) { return std::to_string(f / 100) + "." + std::to_string(f % 100 / 10); };
  return file + ": includes " + included + " (floor " + floor(to) + ", not below floor " + floor(from) + ")\n";
}

std::string offences_in(const fs::path& file, const std::string& room) {
  static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+/[^"]+)")re");
  std::ifstream in(file);
  std::string all, line;
  std::smatch m;
  while (std::getline(in, line))
    if (std::regex_search(line, m, include)) all += offence(file.string(), room, m[1]);
  return all;
}

bool is_test(const fs::path& p) {
  const std::string stem = p.stem().string();
  return stem.ends_with("_test") || stem.ends_with("_testing");
}

TEST(Floors, AFileIncludesItsOwnFolderOrALowerFloor) {
  const fs::path src = fs::path(SLIP_SOURCE_DIR) / "src";
  std::string all;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const std::string ext = entry.path().extension().string();
    if ((ext != ".h" && ext != ".cc" && ext != ".cu" && ext != ".cuh") || is_test(entry.path())) continue;
    const std::string room = room_of(entry.path().lexically_relative(src).string());
    ASSERT_NE(room, "") << entry.path() << " stands on no floor: add its folder to the table and to ARCHITECTURE.md";
    all += offences_in(entry.path(), room);
    ++files;
  }
  EXPECT_GT(files, 20);
  EXPECT_EQ(all, "");
}

/// What only tests need is named so: in src/ a file that includes GoogleTest or a *_testing.h is a *_test.cc or a *_testing file itself.
TEST(Floors, HelpersOfTestsSayTesting) {
  static const std::regex include(R"re(^\s*#\s*include\s+(<g(test|mock)/|"[^"]*_testing\.h"))re");
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SLIP_SOURCE_DIR) / "src")) {
    const std::string ext = entry.path().extension().string();
    if ((ext != ".h" && ext != ".cc") || is_test(entry.path())) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) EXPECT_FALSE(std::regex_search(line, include)) << entry.path() << ": " << line;
  }
}

TEST(Floors, WouldNoticeAnOffence) {
  EXPECT_EQ(offence("f", "decode", "lm/lm.h"), "");
  EXPECT_EQ(offence("f", "decode", "decode/x.h"), "");
  EXPECT_EQ(offence("f", "decode/rounds", "decode/draft/drafter.h"), "");
  EXPECT_EQ(room_of("decode/draft/lookup.cc"), "decode/draft");
  EXPECT_EQ(room_of("decode/new_room/x.cc"), "decode");
  EXPECT_NE(offence("f", "decode/draft", "decode/rounds/rounds.h"), "");
  EXPECT_NE(offence("f", "decode/draft", "decode/draft_length/policy.h"), "");
  EXPECT_NE(offence("f", "decode", "models/config/config.h"), "");
  EXPECT_NE(offence("f", "convert", "decode/decoder.h"), "");
  EXPECT_NE(offence("f", "base", "cli/main.h"), "");
}

/// decode is written against the interface of a model alone: every decoder runs in tests on a model without weights.
TEST(Floors, DecodeSeesModelsThroughTheirInterface) {
  const fs::path src = fs::path(SLIP_SOURCE_DIR) / "src";
  static const std::regex include(R"re(^\s*#\s*include\s+"(core|kernels|nn|models|text|image|sim|plan)/)re");
  for (const auto& entry : fs::recursive_directory_iterator(src / "decode")) {
    if (!entry.is_regular_file() || is_test(entry.path())) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) EXPECT_FALSE(std::regex_search(line, include)) << entry.path() << ": " << line;
  }
}

/// A header that says "Inside of" in its first lines is its top folder's own.
TEST(Floors, WhatIsInsideOfAFolderStaysThere) {
  const fs::path root = SLIP_SOURCE_DIR, src = root / "src";
  std::set<std::string> inside;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    std::string line;
    for (int i = 0; i < 4 && std::getline(in, line) && line.starts_with("//"); ++i)
      if (line.find("Inside of") != std::string::npos) inside.insert(entry.path().lexically_relative(src).string());
  }
  EXPECT_GT(inside.size(), 10U);
  static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+/[^"]+)")re");
  for (const char* folder : {"src", "tests", "bench", "examples"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
      const std::string file = entry.path().lexically_relative(src).string();
      std::ifstream in(entry.path());
      std::smatch m;
      for (std::string line; std::getline(in, line);) {
        if (!std::regex_search(line, m, include) || !inside.contains(m[1])) continue;
        EXPECT_EQ(file.substr(0, file.find('/')), m[1].str().substr(0, m[1].str().find('/'))) << file << ": " << line;
      }
    }
  }
}

/// A reader knows from the path what a file is for: no folder holds more than 28 sources and headers, their tests not counted.
TEST(Floors, NoFolderIsAHeap) {
  constexpr int kMostFiles = 28;
  const fs::path src = fs::path(SLIP_SOURCE_DIR) / "src";
  std::map<std::string, int> files;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const std::string ext = entry.path().extension().string();
    if ((ext == ".h" || ext == ".cc" || ext == ".cu" || ext == ".cuh") && !is_test(entry.path()))
      ++files[entry.path().parent_path().lexically_relative(src).string()];
  }
  for (const auto& [folder, count] : files) EXPECT_LE(count, kMostFiles) << folder;
}

/// A policy on draft lengths reaches no drafted ids: its room sees views of strands (decode/sequence/draft_view.h), never a Strand.
TEST(DraftLengthPolicies, SeeNoStrand) {
  const fs::path room = fs::path(SLIP_SOURCE_DIR) / "src/decode/draft_length";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(room)) {
    const std::string name = entry.path().filename().string();
    // What is learned from answers, by whom the answers are given.
    if (is_test(entry.path()) || name.starts_with("collect.") || name.starts_with("costs.")) continue;
    ++files;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      for (const char* header : {"strand.h", "rounds.h", "drafter.h", "passes.h", "verifier.h"})
        EXPECT_FALSE(line.starts_with("#include") && line.find(header) != std::string::npos) << name << ": " << line;
  }
  EXPECT_GT(files, 10);
}

TEST(Project, KeepsToFiveMacros) {
  static const std::regex macro(R"(^\s*#\s*define\s+(SLIP_\w+))");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SLIP_SOURCE_DIR) / "src")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    std::string line;
    std::smatch m;
    while (std::getline(in, line))
      if (std::regex_search(line, m, macro) && m[1].str().rfind("SLIP_CAT", 0) != 0) names.insert(m[1]);
  }
  EXPECT_LE(names.size(), 5u) << "SLIP_TRY, SLIP_TRY_, SLIP_CHECK are the ones in use";
}

}  // namespace
