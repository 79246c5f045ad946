// SPDX-License-Identifier: Apache-2.0
// What the README says of models/demo, on held-out scenes: valid answers, the same tokens from scaffold-spec, dflash and scaffold-ar, with
// at most 35 % of the passes, cameras that matter, and (with all 500 scenes: the long suite) the limits of configs/demo_limits.json.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/json.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class DemoModel : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(model_ / "model.safetensors")) << "the tree ships " << model_;
    if (const char* n = std::getenv("SLIP_DEMO_RECORDS")) records_ = std::atoi(n);
  }
  // The JSON of one evaluation; `code` gets the exit code.
  json::object eval(const std::string& more, int expected_code = 0) const {
    const std::string command =
        fmt::format("{} eval --json --model {} --count {} {}", SLIP_BINARY, model_.string(), records_, more);
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), expected_code) << command;
    const auto v = parse_json(out.substr(0, out.find('\n')), "eval");
    EXPECT_TRUE(v && v->is_object()) << out;
    return v && v->is_object() ? v->get_object() : json::object{};
  }
  static double number(const json::object& o, std::string_view key) { return o.at(key).to_number<double>(); }
  static double pre_onset_ade(const json::object& o) { return o.at("pre_onset").at("model").at("ade_5s").to_number<double>(); }

  fs::path model_ = fs::path(SLIP_SOURCE_DIR) / "models" / "demo";
  int records_ = 40;
};

TEST_F(DemoModel, KeepsWhatTheReadmeSays) {
  const bool whole = records_ >= 500;
  const json::object spec =
      eval("--decoder scaffold-spec" +
           (whole ? " --require " + (fs::path(SLIP_SOURCE_DIR) / "configs" / "demo_limits.json").string() : ""));
  EXPECT_EQ(number(spec, "valid"), 1);
  EXPECT_LT(pre_onset_ade(spec), spec.at("pre_onset").at("constant_velocity").at("ade_5s").to_number<double>());
  const json::object slow = eval("--decoder scaffold-ar");
  EXPECT_LE(number(spec, "forwards_per_answer"), 0.35 * number(slow, "forwards_per_answer"));
  for (const char* key : {"macro_f1", "longitudinal_accuracy", "tokens_per_answer"})
    EXPECT_EQ(number(spec, key), number(slow, key)) << key;
  EXPECT_EQ(pre_onset_ade(spec), pre_onset_ade(slow)) << "the same tokens give the same plan, to the last bit";
  const json::object head = eval("--decoder dflash");  // its own, from the folder
  EXPECT_LT(number(head, "forwards_per_answer"), number(spec, "forwards_per_answer"));
  EXPECT_EQ(pre_onset_ade(head), pre_onset_ade(slow));
  const json::object blind = eval("--decoder scaffold-spec --blank-images");
  EXPECT_LT(number(blind, "macro_f1"), 0.5 * number(spec, "macro_f1")) << "the cameras must matter";
  EXPECT_GT(pre_onset_ade(blind), pre_onset_ade(spec));
}

}  // namespace
}  // namespace slip
