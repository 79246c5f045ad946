// SPDX-License-Identifier: Apache-2.0
// What the README shows exists: every `slipstream` command in its code blocks is one of the binary's, every flag is in that
// command's --help, and every file or folder of the project that it names is there.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return out;
}

// Lines of indented or fenced code.
std::vector<std::string> code_lines(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  std::string line;
  for (bool fenced = false; std::getline(in, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced || line.starts_with("    ")) {
      out.push_back(line);
    }
  }
  return out;
}

// The commands that a line shows: the one that it calls, first, and every `bench WORD`, which comments name too.
std::vector<std::string> commands_in(const std::string& line) {
  static const std::regex command(R"(slipstream ([a-z]+))"), bench(R"(\bbench [a-z]+)");
  std::vector<std::string> out;
  std::smatch m;
  if (std::regex_search(line, m, command) && m[1] != "bench") out.push_back(m[1].str());
  for (std::sregex_iterator b(line.begin(), line.end(), bench), end; b != end; ++b) out.push_back(b->str());
  return out;
}

TEST(Readme, ShowsCommandsThatExist) {
  static const std::regex flag(R"((--[a-z][a-z-]+))");
  std::set<std::string> commands;
  for (const char* page : {"README.md", "CONTRIBUTING.md"}) {
    for (const std::string& line : code_lines(fs::path(SLIP_SOURCE_DIR) / page)) {
      const std::vector<std::string> names = commands_in(line);
      for (size_t i = 0; i < names.size(); ++i) {
        commands.insert(names[i]);
        const std::string help = output_of(std::string(SLIP_BINARY) + " " + names[i] + " --help");
        EXPECT_NE(help.find("slipstream " + names[i] + " [OPTIONS]"), std::string::npos) << page << ": " << line;
        for (std::sregex_iterator f(line.begin(), line.end(), flag), end; i == 0 && f != end; ++f)
          EXPECT_NE(help.find(f->str()), std::string::npos) << page << ": " << line << ": " << names[i] << " has no " << f->str();
      }
    }
  }
  for (const char* bench : {"bench forward", "bench prefill", "bench vision", "bench answer", "bench decoders"})
    EXPECT_TRUE(commands.contains(bench)) << bench;
  EXPECT_GT(commands.size(), 10U);
}

TEST(Readme, NamesFilesThatExist) {
  static const std::regex path(R"(`((?:src|tests|docs|configs|models|tools|bench|include)/[A-Za-z0-9_./-]+)`)");
  for (const char* page : {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}) {
    std::ifstream in(fs::path(SLIP_SOURCE_DIR) / page);
    std::string line;
    while (std::getline(in, line))
      for (std::sregex_iterator m(line.begin(), line.end(), path), end; m != end; ++m)
        EXPECT_TRUE(fs::exists(fs::path(SLIP_SOURCE_DIR) / (*m)[1].str()) ||
                    fs::exists(fs::path(SLIP_SOURCE_DIR) / "src" / (*m)[1].str()))
            << page << ": " << (*m)[1];
  }
}

}  // namespace
