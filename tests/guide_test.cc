// SPDX-License-Identifier: Apache-2.0
// The guide is run: what docs/guide/README.md says of its pages holds. Each page has an empty folder of its own, with the project's
// folders linked into it; its shell blocks run there in order. So do the README's commands.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SLIP_SOURCE_DIR;

struct Block {
  int line = 0;  // of its fence
  std::string language;
  std::vector<std::string> lines;
  std::map<std::string, std::string> marks;  // "exits" -> "3"
  bool has(const std::string& mark) const { return marks.contains(mark); }
  std::string text() const {
    std::string out;
    for (const std::string& l : lines) out += l + "\n";
    return out;
  }
};

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

/// "<!-- exits: 3 -->" as {"exits", "3"}, "<!-- prints -->" as {"prints", ""}.
std::optional<std::pair<std::string, std::string>> mark_of(const std::string& line) {
  if (!line.starts_with("<!--") || !line.ends_with("-->")) return std::nullopt;
  const std::string inside = trimmed(line.substr(4, line.size() - 7));
  const size_t colon = inside.find(':');
  if (colon == std::string::npos) return std::pair(inside, std::string());
  return std::pair(inside.substr(0, colon), trimmed(inside.substr(colon + 1)));
}

std::vector<Block> blocks_of(const std::string& page) {
  std::istringstream in(page);
  std::vector<Block> out;
  std::map<std::string, std::string> marks;
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) out.push_back({.line = number, .language = line.substr(3), .lines = {}, .marks = std::exchange(marks, {})});
    } else if (inside) {
      out.back().lines.push_back(line);
    } else if (const auto mark = mark_of(line)) {
      marks.insert(*mark);
    } else {
      marks.clear();
    }
  }
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// "12000 => 60; demo.json => demo.json --steps 2": each of the first in `text` becomes the second. A first that is not there fails.
std::string shortened(std::string text, const std::string& rules) {
  std::istringstream in(rules);
  for (std::string rule; std::getline(in, rule, ';');) {
    const size_t arrow = rule.find(" => ");
    if (arrow == std::string::npos) {
      ADD_FAILURE() << "expected A => B, got " << rule;
      continue;
    }
    const std::string from = trimmed(rule.substr(0, arrow)), to = trimmed(rule.substr(arrow + 4));
    EXPECT_NE(text.find(from), std::string::npos) << from << " is not in\n" << text;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return text;
}

/// What a page starts and lets go on: a server at port 8080 of the page, which is a free one here.
class Server {
 public:
  Server(fs::path folder, const std::string& commands) : folder_(std::move(folder)), port_(free_port()) {
    std::ofstream(folder_ / "server.sh") << "PATH='" << fs::path(SLIP_BINARY).parent_path().string() << "':\"$PATH\"\nexec "
                                         << at_port(commands);
    const std::string start = "cd '" + folder_.string() +
                              "' && (bash server.sh >server.log 2>&1 </dev/null & echo $! >server.pid; wait $!; " +
                              "echo $? >server.exit) >/dev/null 2>&1 &";
    EXPECT_EQ(std::system(start.c_str()), 0);
    std::ofstream(folder_ / "ready.sh") << "for i in $(seq 600); do\n  { exec 3<>/dev/tcp/127.0.0.1/" << port_
                                        << " && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3 | grep -q ' 200 ' "
                                           "&& exit 0; } 2>/dev/null\n  sleep 0.2\ndone\nexit 1\n";
    EXPECT_EQ(std::system(("bash '" + (folder_ / "ready.sh").string() + "'").c_str()), 0) << text_of(folder_ / "server.log");
  }
  /// SIGTERM, as the guide says of it: exit status 0.
  ~Server() {
    const std::string stop = "cd '" + folder_.string() +
                             "' && kill $(cat server.pid) && for i in $(seq 600); do [ -s server.exit ] && break; " +
                             "sleep 0.1; done; grep -qx 0 server.exit";
    EXPECT_EQ(std::system(stop.c_str()), 0) << text_of(folder_ / "server.log");
  }
  std::string at_port(const std::string& text) const { return std::regex_replace(text, std::regex("\\b8080\\b"), port_); }

 private:
  static std::string free_port() {
    const int s = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&at), size) | ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size), 0);
    ::close(s);
    return std::to_string(ntohs(at.sin_port));
  }

  fs::path folder_;
  std::string port_;
};

/// Slow blocks run where this says so: `ctest -L long`.
bool long_ones() { return std::getenv("SLIP_GUIDE_LONG") != nullptr; }
/// Blocks that train, or use what one has trained, run where the trainer was built.
#ifdef SLIP_HAS_TRAINER
constexpr bool kTrainer = true;
#else
constexpr bool kTrainer = false;
#endif
bool wants_trainer(const std::string& text) {
  for (const char* words : {"slipstream train", "slipstream-train", "slipstream study", " out/"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}
bool is_there(const std::string& program) { return std::system(("command -v '" + program + "' >/dev/null").c_str()) == 0; }

/// A page's empty folder, and its commands in there.
class Page : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '-');
    folder_ = fs::temp_directory_path() / ("slip-guide-" + std::to_string(::getpid()) + "-" + name);
    fs::create_directories(folder_);
    for (const char* name : {"models", "configs", "tests", "examples", "include"})
      if (fs::exists(kRoot / name)) fs::create_directory_symlink(kRoot / name, folder_ / name);
  }
  void TearDown() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  /// The block's commands as one script that stops at the first failure; what it printed on both streams is in printed_.
  int run(const Block& block) {
    std::string text = block.has("shortened") ? shortened(block.text(), block.marks.at("shortened")) : block.text();
    if (server_) text = server_->at_port(text);
    const fs::path folder = block.has("in source") ? source() : folder_;
    std::ofstream(folder / "block.sh") << "set -euo pipefail\n" << variables_ << text;
    const std::string command = "cd '" + folder.string() + "' && PATH='" + fs::path(SLIP_BINARY).parent_path().string() +
                                "':\"$PATH\" bash block.sh 2>&1 </dev/null";
    printed_.clear();
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) printed_ += static_cast<char>(c);
    for (const std::string& line : block.lines)
      if (line.find('=') < line.find(' ')) variables_ += line + "\n";  // NAME=value stays for the page
    since_prints_ += printed_;
    return WEXITSTATUS(::pclose(pipe));
  }

  /// A copy of the project's own files, to build in.
  fs::path source() {
    fs::path copy = folder_ / "source";
    if (fs::create_directory(copy)) {
      const std::string all =
          "cd '" + kRoot.string() + "' && git ls-files -z | tar c --null -T - | tar x -C '" + copy.string() + "'";
      EXPECT_EQ(std::system(all.c_str()), 0);
    }
    return copy;
  }

  static bool runs(const Block& b) {
    if (b.language != "sh" || b.has("not run") || (!kTrainer && wants_trainer(b.text()))) return false;
    return (!b.has("long") || long_ones()) && (!b.has("needs") || is_there(b.marks.at("needs")));
  }

  void check(const Block& b, const std::string& page) {
    const std::string where = page + ":" + std::to_string(b.line);
    if (b.language == "json") {
      EXPECT_TRUE(parse_json(b.text(), where)) << where;
    }
    if (b.has("file")) std::ofstream(folder_ / b.marks.at("file")) << b.text();
    if (b.has("from")) expect_lines(b, text_of(kRoot / b.marks.at("from")), where + ": " + b.marks.at("from"));
    if (b.has("prints")) expect_lines(b, std::exchange(since_prints_, {}), where);
    if (b.has("until stopped")) {
      server_.emplace(folder_, b.has("shortened") ? shortened(b.text(), b.marks.at("shortened")) : b.text());
    } else if (runs(b)) {
      const int expected = b.has("exits") ? std::stoi(b.marks.at("exits")) : 0;
      EXPECT_EQ(run(b), expected) << where << "\n" << b.text() << printed_;
    }
    if (b.has("beside")) put_beside(b.marks.at("beside"));
    if (b.has("compiles") || b.has("compiles and runs")) {
      const Block program{.line = b.line, .language = "sh", .lines = lines_of_program(b), .marks = {}};
      EXPECT_EQ(run(program), 0) << where << "\n" << printed_;
    }
    static const std::set<std::string> kMarks{
        "file", "from",      "prints",        "exits", "not run",   "compiles",         "beside",
        "long", "shortened", "until stopped", "needs", "in source", "compiles and runs"};
    for (const auto& [mark, value] : b.marks) EXPECT_TRUE(kMarks.contains(mark)) << where << ": " << mark;
  }

  /// "a/b.png as c.png d.png": the project's file under the names that the page knows.
  void put_beside(const std::string& mark) const {
    std::istringstream in(mark);
    std::string file, as;
    in >> file >> as;
    ASSERT_EQ(as, "as") << "expected A as B, got " << mark;
    for (std::string name; in >> name;) fs::copy_file(kRoot / file, folder_ / name);
  }

  /// A program of the page: compiled, and where it is to run and a library is there, linked to it and run.
  static std::vector<std::string> lines_of_program(const Block& b) {
    const std::string compile = "c++ -std=c++20 -Wall -Wextra -Werror -Iinclude '" + b.marks.at("file") + "' ";
#ifdef SLIP_LIBRARY
    const std::string library = SLIP_LIBRARY, folder = fs::path(library).parent_path().string();
    if (b.has("compiles and runs")) return {compile + "'" + library + "' '-Wl,-rpath," + folder + "' -o program", "./program"};
#endif
    return {compile + "-fsyntax-only"};
  }

  /// Each line of the block stands in `text`, one behind the other.
  static void expect_lines(const Block& b, const std::string& text, const std::string& where) {
    size_t at = 0;
    for (const std::string& line : b.lines) {
      const std::string wanted = trimmed(line);
      if (wanted.empty() || wanted == "...") continue;
      const size_t found = text.find(wanted, at);
      EXPECT_NE(found, std::string::npos) << where << ": " << wanted << "\nin\n" << text.substr(0, 4000);
      if (found != std::string::npos) at = found + wanted.size();
    }
  }

  fs::path folder_;
  std::optional<Server> server_;
  std::string variables_, printed_, since_prints_;
};

class GuidePage : public Page, public testing::WithParamInterface<std::string> {};

TEST_P(GuidePage, DoesWhatItSays) {
  const std::vector<Block> blocks = blocks_of(text_of(kRoot / "docs" / "guide" / GetParam()));
  for (const Block& b : blocks) check(b, GetParam());
}

/// What the README's commands are shortened by; the two that install, build and run this test are not run.
struct Shorter {
  std::string_view begins, rules;
};
constexpr Shorter kShorterOfReadme[] = {
    {"./run demo", ""},
    {"./run test", ""},
    {"slipstream serve ", "models/demo => models/demo --port 8080"},
    {"slipstream import ", "FOLDER => tests/fixtures/import/nuscenes --no-pictures --history 0; SET => imported"},
    {"slipstream drive ", "--count 1 => --count 1 --family cut_in"},
    {"slipstream train ", "demo.json => demo.json --steps 2"},
};

/// The README's indented commands, its comments left out and a shipped model in the place of its words in capitals.
std::vector<Block> commands_of_readme() {
  static const std::regex model(R"(\bMODEL\b)"), packed(R"(\bPACKED\b)");
  std::istringstream in(text_of(kRoot / "README.md"));
  std::vector<Block> out;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.starts_with("    slipstream ") && !line.starts_with("    ./run ")) continue;
    const std::string command = trimmed(line.substr(0, line.find('#')));
    out.push_back({.line = number,
                   .language = "sh",
                   .lines = {std::regex_replace(std::regex_replace(command, model, "models/demo"), packed, "packed")},
                   .marks = {}});
  }
  return out;
}

using ReadmePage = Page;

TEST_F(ReadmePage, ShowsCommandsThatRun) {
  size_t changed = 0;
  std::vector<Block> commands = commands_of_readme();
  for (Block& b : commands) {
    const auto* shorter = std::find_if(std::begin(kShorterOfReadme), std::end(kShorterOfReadme),
                                       [&](const Shorter& s) { return b.lines.front().starts_with(s.begins); });
    if (shorter == std::end(kShorterOfReadme)) {
      check(b, "README.md");
      continue;
    }
    ++changed;
    if (shorter->rules.empty()) continue;
    b.marks["shortened"] = shorter->rules;
    if (b.lines.front().starts_with("slipstream serve ")) b.marks["until stopped"] = "";
    check(b, "README.md");
  }
  EXPECT_EQ(changed, std::size(kShorterOfReadme)) << "of each kind the README has one";
}

std::vector<std::string> pages() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kRoot / "docs" / "guide"))
    if (entry.path().extension() == ".md") out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Guide, GuidePage, testing::ValuesIn(pages()), [](const auto& info) {
  std::string name = fs::path(info.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GuideRules, MarksBelongToTheBlockBelow) {
  const auto blocks = blocks_of("<!-- exits: 3 -->\n```sh\nfalse\n```\n\n<!-- prints -->\n\n```\nx\n```\n");
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].marks.at("exits"), "3");
  EXPECT_FALSE(blocks[1].has("prints")) << "a line between them parts them";
}

TEST(GuideRules, EveryPageIsInTheIndex) {
  const std::string index = text_of(kRoot / "docs" / "guide" / "README.md");
  for (const std::string& page : pages())
    EXPECT_TRUE(page == "README.md" || index.find("(" + page + ")") != std::string::npos) << page;
}

}  // namespace
}  // namespace slip
