// SPDX-License-Identifier: Apache-2.0
// `limits` through the binary: tables that need no model, a published machine, this machine measured, files, refusals.
#include <algorithm>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

double number(const json::value& v) { return v.to_number<double>(); }

TEST_F(Demo, LimitsWithoutAModelGivesTheAlgebraAndTheReport) {
  const json::value v = run_json({"limits"});
  ASSERT_EQ(missing_keys(v, {"break_even", "landscape", "finite_answers", "report"}), "");
  for (const json::value& row : v.at("report").as_array())
    EXPECT_NEAR(number(row.at("ratio")), 1, 0.2) << json::serialize(row);  // the papers' tables within 20 %
}

TEST_F(Demo, LimitsOfAPublishedMachineFollowItsFigures) {
  const auto of = [&](const char* machine) { return run_json({"limits", "--machine", machine, "--model", model_}); };
  const json::value h100 = of("h100"), orin = of("orin");
  ASSERT_EQ(missing_keys(h100, {"machine", "model", "operations", "passes", "decoders", "acceptance", "weights"}), "");
  const auto one = [](const json::value& v) { return number(v.at("passes").at(0).at("predicted_ms")); };
  EXPECT_NEAR(one(orin) / one(h100), 3350 / 204.8, 0.5) << "one row is a read of the weights";
  double last = 0;
  for (const json::value& row : h100.at("passes").as_array()) {
    EXPECT_GE(number(row.at("predicted_ms")), last);
    EXPECT_TRUE(row.at("measured_ms").is_null()) << "nothing runs for another machine";
    last = number(row.at("predicted_ms"));
  }
  // Where a pass costs what reading costs, drafts that always hold are worth a block a pass.
  const json::value sure = run_json({"limits", "--machine", "h100", "--model", model_, "--acceptance", "1"});
  double best = 0;
  for (const json::value& row : sure.at("decoders").as_array()) best = std::max(best, number(row.at("speed_up")));
  EXPECT_GT(best, 5) << json::serialize(sure.at("decoders"));
}

TEST_F(Demo, LimitsPutsMeasurementsBesidePredictionsAndWritesTables) {
  const json::value v =
      run_json({"limits", "--model", model_, "--measure", "--scenes", "1", "--keys", "64", "--out", path("tables")});
  for (const json::value& row : v.at("passes").as_array()) {
    EXPECT_GT(number(row.at("measured_ms")), 0);
    EXPECT_NEAR(number(row.at("predicted_over_measured")), number(row.at("predicted_ms")) / number(row.at("measured_ms")), 1e-9);
  }
  bool measured = false;
  for (const json::value& row : v.at("decoders").as_array())
    if (!row.at("measured_ms").is_null()) {
      measured = true;
      EXPECT_GT(number(row.at("measured_passes")), 0);
    }
  EXPECT_TRUE(measured);
  for (const char* name : {"operations.csv", "passes.csv", "decoders.csv", "break_even.csv", "landscape.csv", "limits.json"})
    EXPECT_FALSE(read_bytes(path("tables") + "/" + name).empty()) << name;
  // What draws one token a pass takes exactly the passes that were foreseen: a form of fixed size.
  for (const json::value& row : v.at("decoders").as_array())
    if (row.at("decoder") == "scaffold-ar") {
      EXPECT_NEAR(number(row.at("passes")), number(row.at("measured_passes")), 1e-6);
    }
}

TEST_F(Demo, LimitsMeasuresModelsOfTextByFreeText) {
  const json::value v =
      run_json({"limits", "--model", SLIP_SOURCE_DIR "/models/tri", "--measure", "--scenes", "1", "--keys", "64"});
  int measured = 0;
  for (const json::value& row : v.at("decoders").as_array()) measured += !row.at("measured_ms").is_null();
  EXPECT_GT(measured, 2);
  EXPECT_EQ(v.at("decoders").as_array().front().at("decoder"), "ar");
}

TEST_F(Demo, LimitsSearchesTheFewestPassesOfDiffusion) {
  run({"simulate", "--seed", "900001000", "--count", "1", "--out", path("light")});
  const json::value v = run_json({"limits", "--model", model_, "--speed-of-light", "1", "--records", path("light")});
  std::vector<double> passes;
  for (const json::value& row : v.at("speed_of_light").as_array()) passes.push_back(number(row.at("passes_a_block")));
  ASSERT_GE(passes.size(), 4U);
  const double serial = passes.front(), light = passes[passes.size() - 2];
  EXPECT_LE(passes[1], serial);
  EXPECT_LT(light, serial / 2) << "a model that was trained to fill blocks";
  EXPECT_GE(light, 2) << "a commit and the pass over the finished block";
}

TEST_F(Demo, LimitsRefusesWhatItCannotSay) {
  refused({"limits", "--speed-of-light", "1"}, 2, "--speed-of-light: expected a model");
  refused({"limits", "--model", model_, "--records", path("x")}, 2, "--records: expected --speed-of-light");
  refused({"limits", "--model", (fs::path(model_).parent_path() / "demo-cot").string(), "--speed-of-light", "1"}, 4,
          "section-diffusion");
  refused({"limits", "--machine", "warp", "--model", model_}, 2, "--machine: expected h100");
  refused({"limits", "--machine", write("m.json", R"({"gb_per_s": -1, "bf16_tflops": 1})"), "--model", model_}, 3, "gb_per_s");
  refused({"limits", "--machine", write("m.json", "{"), "--model", model_}, 3, "m.json");
  refused({"limits", "--measure"}, 2, "--measure: expected a model");
  refused({"limits", "--measure", "--machine", "h100", "--model", model_}, 2, "--measure: expected this machine");
  refused({"limits", "--model", path("nowhere")}, 3, "nowhere");
}

}  // namespace
}  // namespace slip::test
