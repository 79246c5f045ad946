// SPDX-License-Identifier: Apache-2.0
// What models/tri/README.md says, on questions that no run has seen: one folder, three modes. Self-speculation gives the tokens of one token a
// pass in fewer passes; block diffusion gives others, most of them right.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "base/json.h"

namespace slip {
namespace {

double number(const json::object& o, std::string_view key) { return o.at(key).to_number<double>(); }

/// The lines of `bench text --json`, by decoder.
std::map<std::string, json::object> asked(int count) {
  const std::string command =
      std::string(SLIP_BINARY) + " bench text --json --model " + SLIP_SOURCE_DIR + "/models/tri --count " + std::to_string(count);
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 0) << command;
  std::map<std::string, json::object> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    const auto v = parse_json(line, "bench text");
    EXPECT_TRUE(v && v->is_object()) << line;
    if (v && v->is_object()) lines[std::string(v->at("decoder").as_string())] = v->get_object();
  }
  return lines;
}

TEST(TriModel, OneFolderAnswersInThreeModes) {
  const auto lines = asked(40);
  for (const char* decoder : {"ar", "self-spec", "self-spec-quadratic", "text-diffusion"})
    ASSERT_TRUE(lines.contains(decoder)) << decoder;
  const double right = number(lines.at("ar"), "right");
  EXPECT_GE(right, 0.8);
  EXPECT_EQ(number(lines.at("ar"), "tokens_per_forward"), 1);
  for (const char* exact : {"self-spec", "self-spec-quadratic"}) {
    EXPECT_EQ(number(lines.at(exact), "as_first"), 1) << exact << ": the tokens of ar";
    EXPECT_EQ(number(lines.at(exact), "right"), right) << exact;
    EXPECT_GE(number(lines.at(exact), "tokens_per_forward"), 2.3) << exact;
    EXPECT_FALSE(lines.at(exact).at("lossy").as_bool());
  }
  const json::object& diffusion = lines.at("text-diffusion");
  EXPECT_TRUE(diffusion.at("lossy").as_bool());
  EXPECT_GE(number(diffusion, "right"), 0.5);
  EXPECT_GE(number(diffusion, "tokens_per_forward"), 2.2);
}

}  // namespace
}  // namespace slip
