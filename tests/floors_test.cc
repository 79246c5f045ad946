// SPDX-License-Identifier: Apache-2.0
// The floors: a file of src/ includes its own folder or a folder on a lower floor, nothing beside or above.
// The table is the architecture; ARCHITECTURE.md shows it to people.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, int> kFloor = {
    {"base", 0},   {"core", 1},  {"text", 1},   {"image", 1}, {"kernels", 2}, {"form", 2},   {"plan", 2},
    {"sim", 2},    {"nn", 3},    {"limits", 3}, {"task", 3},  {"models", 4},  {"cuda", 4},   {"decode", 4},
    {"engine", 5}, {"train", 5}, {"eval", 6},   {"drive", 6}, {"cli", 7},     {"server", 7}, {"python", 7},
};

// "src/decode/round.cc: includes models/config/config.h (floor 4, not below floor 4)", one line per offence.
std::string offence(const std::string& file, const std::string& folder, const std::string& included) {
  const std::string target = included.substr(0, included.find('/'));
  if (target == folder || target == "slipstream") return {};
  const auto to = kFloor.find(target);
  if (to == kFloor.end()) return {};
  const int from = kFloor.at(folder);
  if (to->second < from) return {};
  return file + ": includes " + included + " (floor " + std::to_string(to->second) + ", not below floor " + std::to_string(from) +
         ")\n";
}

std::string offences_in(const fs::path& file, const std::string& folder) {
  static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+/[^"]+)")re");
  std::ifstream in(file);
  std::string all, line;
  std::smatch m;
  while (std::getline(in, line))
    if (std::regex_search(line, m, include)) all += offence(file.string(), folder, m[1]);
  return all;
}

bool is_test(const fs::path& p) { return p.stem().string().ends_with("_test"); }

TEST(Floors, AFileIncludesItsOwnFolderOrALowerFloor) {
  const fs::path src = fs::path(SLIP_SOURCE_DIR) / "src";
  std::string all;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const std::string ext = entry.path().extension().string();
    if ((ext != ".h" && ext != ".cc" && ext != ".cu" && ext != ".cuh") || is_test(entry.path())) continue;
    const std::string folder = entry.path().lexically_relative(src).begin()->string();
    ASSERT_TRUE(kFloor.contains(folder)) << folder << " stands on no floor: add it to the table and to ARCHITECTURE.md";
    all += offences_in(entry.path(), folder);
    ++files;
  }
  EXPECT_GT(files, 20);
  EXPECT_EQ(all, "");
}

TEST(Floors, WouldNoticeAnOffence) {
  EXPECT_EQ(offence("f", "decode", "lm/lm.h"), "");
  EXPECT_EQ(offence("f", "decode", "decode/x.h"), "");
  EXPECT_NE(offence("f", "decode", "models/config/config.h"), "");
  EXPECT_NE(offence("f", "base", "cli/main.h"), "");
}

/// A width policy reaches no drafted ids: its file sees views of strands (decode/sequence/draft_view.h), never a Strand.
TEST(WidthPolicies, SeeNoStrand) {
  for (const char* name :
       {"width.h", "width_methods.h", "draft_length_model.h", "width_pilot.h", "width_plan.h", "width_choice.h", "width_view.h",
        "width.cc", "width_levels.cc", "width_measured.cc", "width_pilot.cc", "width_plan.cc", "width_choice.cc"}) {
    std::ifstream in(fs::path(SLIP_SOURCE_DIR) / "src" / "decode" / name);
    ASSERT_TRUE(in) << name;
    for (std::string line; std::getline(in, line);)
      for (const char* header : {"strand.h", "rounds.h", "drafting.h", "passes.h", "judge.h"})
        EXPECT_FALSE(line.starts_with("#include") && line.find(header) != std::string::npos) << name << ": " << line;
  }
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
