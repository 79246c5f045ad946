// SPDX-License-Identifier: Apache-2.0
// What the README and the guide show exists: every `slipstream` command in their code blocks is one of the binary's, every flag is in
// that command's --help, and no command is left out. (Files that pages name: docs_test.cc.)
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
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

/// README, CONTRIBUTING and the guide.
std::vector<fs::path> pages() {
  std::vector<fs::path> out = {"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(SLIP_SOURCE_DIR) / "docs" / "guide"))
    if (entry.path().extension() == ".md") out.push_back(entry.path().lexically_relative(SLIP_SOURCE_DIR));
  return out;
}

/// The words of "Subcommands:" in a --help.
std::vector<std::string> subcommands_of(const std::string& help) {
  static const std::regex word(R"(\n  ([a-z]+) )");
  std::vector<std::string> out;
  const std::string part = help.substr(help.find("Subcommands:"));
  for (std::sregex_iterator m(part.begin(), part.end(), word), end; m != end; ++m) out.push_back((*m)[1]);
  return out;
}

TEST(Readme, ShowsCommandsThatExist) {
  static const std::regex flag(R"((--[a-z][a-z-]+))");
  std::set<std::string> commands;
  std::map<std::string, std::string> helps;
  for (const fs::path& page : pages()) {
    for (const std::string& line : code_lines(fs::path(SLIP_SOURCE_DIR) / page)) {
      const std::vector<std::string> names = commands_in(line);
      for (size_t i = 0; i < names.size(); ++i) {
        commands.insert(names[i]);
        std::string& help = helps[names[i]];
        if (help.empty()) help = output_of(std::string(SLIP_BINARY) + " " + names[i] + " --help");
        EXPECT_NE(help.find("slipstream " + names[i] + " [OPTIONS]"), std::string::npos) << page << ": " << line;
        for (std::sregex_iterator f(line.begin(), line.end(), flag), end; i == 0 && f != end; ++f)
          EXPECT_NE(help.find(f->str()), std::string::npos) << page << ": " << line << ": " << names[i] << " has no " << f->str();
      }
    }
  }
  for (const char* bench : {"bench forward", "bench prefill", "bench vision", "bench answer", "bench decoders"})
    EXPECT_TRUE(commands.contains(bench)) << bench;
  for (const std::string& command : subcommands_of(output_of(std::string(SLIP_BINARY) + " --help")))
    EXPECT_TRUE(commands.contains(command) || command == "bench" || command == "help") << "shown nowhere: " << command;
  EXPECT_GT(commands.size(), 16U);
}

}  // namespace
