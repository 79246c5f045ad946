// SPDX-License-Identifier: Apache-2.0
// Running the real binary in tests of the command line: arguments in; exit code, stdout and stderr out. Every test owns a temporary
// folder, which goes with it.
#pragma once
#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace slip::test {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;  // exit code; 128 + signal when one ended it; -1: it ran over the limit and was killed
  std::string out, err;
};

/// One process of the binary. Its output lies in files of `folder` (stdout in `out` where given), so nothing can block on a pipe.
class Process {
 public:
  Process(const fs::path& folder, const std::vector<std::string>& arguments, const std::string& input = "",
          const fs::path& out = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void send(int signal);
  /// Waits until it ends, at most so long.
  Ran wait(std::chrono::milliseconds limit = std::chrono::minutes(2));

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

class Cli : public testing::Test {
 protected:
  Cli();
  ~Cli() override;
  Ran run(const std::vector<std::string>& arguments, const std::string& input = "");
  /// Runs with --json and expects exit code 0 and one JSON document, alone on stdout.
  json::value run_json(std::vector<std::string> arguments);
  /// Expects the exit code, one line "slipstream: <thing>: expected <x>, got <y>" on stderr that contains `names`, nothing on
  /// stdout; and with --json, the same code and {"error": {...}} with the same message alone on stdout.
  void refused(std::vector<std::string> arguments, int code, std::string_view names);
  /// The half of it for commands without --json.
  void refused_in_words(const std::vector<std::string>& arguments, int code, std::string_view names);

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, std::string_view bytes) const;
  /// A binary PPM of one colour.
  std::string write_ppm(const std::string& name, int width, int height) const;
  /// A writable copy of a folder of tests/fixtures.
  std::string copy_fixture(const std::string& relative, const std::string& name) const;

 private:
  void expect_one_line(const Ran& ran, int code, std::string_view names);
  fs::path folder_, work_;
};

std::string fixture(const std::string& relative);
std::string read_bytes(const fs::path& file);
void write_bytes(const fs::path& file, std::string_view bytes);
/// "{a, b}" of an object's keys that are missing from `wanted`'s list; empty when all are there.
std::string missing_keys(const json::value& object, const std::vector<std::string>& wanted);
/// The driving model of the tree: a test that needs it fails without it.
std::string demo_model();
/// A folder of test inputs beside the checkout that may be absent.
std::optional<std::string> shared_data(const std::string& relative);

}  // namespace slip::test
