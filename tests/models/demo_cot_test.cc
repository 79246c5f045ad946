// SPDX-License-Identifier: Apache-2.0
// What the README says of models/demo-cot, the model that was trained under graph visibility, on frames of held-out scenes: fields-spec
// needs at most a tenth of ar's passes for the same tokens, the frame before at most half of that again, and the cameras matter.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/json.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class DemoCot : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(model_ / "model.safetensors")) << "the tree ships " << model_;
    if (const char* n = std::getenv("SLIP_DEMO_RECORDS")) scenes_ = std::atoi(n);
  }
  json::object eval(const std::string& more) const {
    const std::string command = std::string(SLIP_BINARY) + " eval --json --model " + model_.string() + " --count " +
                                std::to_string(scenes_) + " " + more + " 2>/dev/null";
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 0) << command;
    const auto v = parse_json(out.substr(0, out.find('\n')), "eval");
    EXPECT_TRUE(v && v->is_object()) << out;
    return v && v->is_object() ? v->get_object() : json::object{};
  }
  static double number(const json::object& o, std::string_view key) { return o.at(key).to_number<double>(); }
  static double ade(const json::object& o) { return o.at("all").at("model").at("ade_5s").to_number<double>(); }

  fs::path model_ = fs::path(SLIP_SOURCE_DIR) / "models" / "demo-cot";
  int scenes_ = 16;
};

TEST_F(DemoCot, TheGraphWithDraftsNeedsATenthOfThePassesForTheSameTokens) {
  const json::object slow = eval("--decoder ar --every 0.5"), graph = eval("--decoder fields --every 0.5"),
                     spec = eval("--decoder fields-spec --every 0.5");
  EXPECT_EQ(number(spec, "valid"), 1);
  EXPECT_LE(number(spec, "forwards_per_answer"), 0.1 * number(slow, "forwards_per_answer"));
  EXPECT_LT(number(graph, "forwards_per_answer"), 0.4 * number(slow, "forwards_per_answer"));
  for (const json::object* other : {&graph, &spec}) {
    for (const char* key : {"text_agreement", "longitudinal_accuracy", "tokens_per_answer"})
      EXPECT_EQ(number(*other, key), number(slow, key)) << key;
    EXPECT_EQ(ade(*other), ade(slow)) << "the same tokens give the same plan, to the last bit";
  }
  const json::object previous = eval("--decoder fields-spec --drafter previous --every 0.5");
  EXPECT_LE(number(previous, "forwards_per_answer"), 0.5 * number(spec, "forwards_per_answer"));
}

TEST_F(DemoCot, ReadsTheSceneFromItsCameras) {
  const json::object seen = eval(""), blind = eval("--blank-images");
  EXPECT_GT(number(seen, "text_agreement"), number(seen, "text_prior") + 0.05);
  EXPECT_LT(number(blind, "text_agreement"), number(seen, "text_agreement") - 0.1);
  EXPECT_LT(ade(seen), seen.at("all").at("constant_velocity").at("ade_5s").to_number<double>());
}

}  // namespace
}  // namespace slip
