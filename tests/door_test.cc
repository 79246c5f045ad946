// SPDX-License-Identifier: Apache-2.0
// The front door: the command line, the server and the language bindings stand on include/slipstream (and on the helpers of base/, which
// say nothing of models); the benchmarks alone look behind it. The door itself is small, and made of the standard library.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// What a file includes, with its quotes or brackets.
std::vector<std::string> includes_of(const fs::path& file) {
  static const std::regex include(R"re(^\s*#\s*include\s+(["<][^">]+[">]))re");
  std::vector<std::string> out;
  std::smatch m;
  for (const std::string& line : lines_of(file))
    if (std::regex_search(line, m, include)) out.push_back(m[1]);
  return out;
}

bool is_source(const fs::path& p) { return p.extension() == ".h" || p.extension() == ".cc"; }

/// May a file of `room` ("cli") include this?
bool is_before_the_door(const std::string& include, const std::string& room) {
  if (include.starts_with('<')) return true;
  for (const std::string& folder : {std::string("slipstream"), std::string("base"), room})
    if (include.starts_with('"' + folder + '/')) return !include.starts_with('"' + folder + "/bench/");
  if (room == "cli" && include.starts_with("\"server/")) return true;  // the server stands before the door, too
  return include.find('/') == std::string::npos || include == "\"slipstream.h\"";
}

std::string offences_in(const fs::path& folder, const std::string& room) {
  std::string all;
  if (!fs::exists(folder)) return all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!is_source(entry.path()) || entry.path().parent_path().filename() == "bench") continue;
    for (const std::string& include : includes_of(entry.path()))
      if (!is_before_the_door(include, room)) all += entry.path().string() + ": includes " + include + "\n";
  }
  return all;
}

const fs::path kRoot = SLIP_SOURCE_DIR, kDoor = kRoot / "include" / "slipstream";

std::vector<fs::path> headers() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(kDoor)) out.push_back(entry.path());
  return out;
}

TEST(Door, CommandLineServerAndBindingsStandOnThePublicHeaders) {
  ASSERT_TRUE(fs::exists(kRoot / "src" / "cli" / "main.cc"));
  EXPECT_EQ(offences_in(kRoot / "src" / "cli", "cli"), "");
  for (const char* room : {"server", "python", "capi"})
    EXPECT_EQ(offences_in(kRoot / "src" / room, room) + offences_in(kRoot / room, room), "");
  EXPECT_EQ(offences_in(kRoot / "examples", "examples"), "");
}

TEST(Door, WouldNoticeAnOffence) {
  EXPECT_TRUE(is_before_the_door("\"slipstream/engine.h\"", "cli"));
  EXPECT_TRUE(is_before_the_door("\"base/file.h\"", "cli"));
  EXPECT_TRUE(is_before_the_door("<vector>", "cli"));
  EXPECT_FALSE(is_before_the_door("\"engine/engine.h\"", "cli"));
  EXPECT_FALSE(is_before_the_door("\"cli/bench/measure.h\"", "cli"));
  EXPECT_FALSE(is_before_the_door("\"cli/options.h\"", "server"));
}

TEST(Door, IsSixHeadersOfAThousandLines) {
  size_t lines = 0;
  for (const fs::path& header : headers()) lines += lines_of(header).size();
  EXPECT_LE(headers().size(), 6U);
  EXPECT_LE(lines, 1000U);
  EXPECT_GT(lines, 300U);
}

TEST(Door, IsMadeOfTheStandardLibrary) {
  static const std::regex standard("<[a-z_]+>"), own("\"slipstream/[a-z_]+\\.h\"");
  for (const fs::path& header : headers())
    for (const std::string& include : includes_of(header))
      EXPECT_TRUE(std::regex_match(include, standard) || std::regex_match(include, own)) << header << ": includes " << include;
}

/// The library's dynamic symbols that it defines, readable.
std::vector<std::string> exports_of(const std::string& library) {
  std::vector<std::string> out;
  FILE* pipe = ::popen(("nm -D --defined-only -C '" + library + "' 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  while (pipe && std::fgets(part.data(), part.size(), pipe)) {
    text += part.data();
    if (text.back() != '\n') continue;
    text.pop_back();
    const size_t at = text.find_first_not_of("0123456789abcdef ");  // the address; then the kind, and the name
    if (at != std::string::npos && text.size() > at + 2) out.push_back(text.substr(at + 2));
    text.clear();
  }
  if (pipe) ::pclose(pipe);
  return out;
}

TEST(Library, ExportsItsPublicFunctionsAndNothingElse) {
  const std::vector<std::string> names = exports_of(SLIP_LIBRARY);
  const auto is_public = [](const std::string& name) {
    for (const char* beginning : {"slipstream::", "slip_", "SLIPSTREAM_",
                                  "typeinfo for slipstream::", "typeinfo name for slipstream::", "vtable for slipstream::"})
      if (name.starts_with(beginning)) return name.find("::Impl::") == std::string::npos;
    return false;
  };
  bool answers = false;
  for (const std::string& name : names) {
    EXPECT_TRUE(is_public(name)) << name;
    answers |= name.starts_with("slipstream::Engine::answer(");
  }
  EXPECT_TRUE(answers) << names.size() << " symbols";
}

}  // namespace
