// SPDX-License-Identifier: Apache-2.0
// A model that answers its trajectory in codes: exact decoders agree on it, its plan is the codebook's path, and what it is told for is refused
// where the folder or the request does not fit.
#include "task/codes.h"

#include <gmock/gmock.h>

#include "engine/engine.h"
#include "plan/fit.h"
#include "sim/record/make.h"
#include "task/codes_folder_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

class Codes : public testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = new test::CodesFolder; }
  static void TearDownTestSuite() { delete folder_; }

  static std::unique_ptr<Engine> engine(const std::filesystem::path& at) { return must(Engine::load(at, {.threads = 2})); }
  static Request request(std::string_view decoder, uint64_t scene = 900'000'003) {
    const sim::Record record = must(sim::make_record(scene));
    Request r;
    r.ego = ego_of(record.labels);
    r.images = camera_images(record.images);
    r.method = must(method_of(decoder));
    return r;
  }
  static std::vector<int32_t> codes(const Answer& a) { return codes_of(std::get<std::vector<double>>(a.values.back())); }

  static inline test::CodesFolder* folder_ = nullptr;
};

TEST_F(Codes, EveryExactDecoderGivesTheSameTokens) {
  const auto engine = Codes::engine(folder_->path);
  for (const uint64_t scene : {900'000'003, 900'000'004}) {
    for (const float temperature : {0.0F, 1.0F}) {  // drawn, so that codes differ
      Request first = request("ar", scene);
      first.decode.temperature = temperature;
      const Answer ar = must(engine->run(first));
      ASSERT_TRUE(ar.decoded.valid);
      EXPECT_EQ(codes(ar).size(), 6U);
      for (const char* decoder : {"scaffold-ar", "scaffold-spec", "fields", "fields-spec"}) {
        Request other = request(decoder, scene);
        other.decode.temperature = temperature;
        const Answer a = must(engine->run(other));
        EXPECT_EQ(a.decoded.tokens, ar.decoded.tokens) << decoder;
        EXPECT_EQ(a.plan.fitted->points, ar.plan.fitted->points) << decoder;
        if (decoder != std::string_view("scaffold-ar")) {  // which takes a pass for each token that is drawn, as ar does
          EXPECT_LT(a.decoded.statistics.forwards, ar.decoded.statistics.forwards) << decoder;
        }
      }
    }
  }
}

TEST_F(Codes, ThePlanIsTheCodebooksPath) {
  const auto engine = Codes::engine(folder_->path);
  const Answer a = must(engine->run(request("fields")));
  const auto book = must(TrajectoryCodebook::load(folder_->path / "codebook.json"));
  const std::vector<Pose> path = book->decode(codes(a));
  ASSERT_EQ(a.plan.waypoints.size(), 6U);
  for (size_t k = 0; k < 6; ++k) EXPECT_EQ(a.plan.waypoints[k], (Waypoint{path[10 * k + 9].x, path[10 * k + 9].y})) << k;
  ASSERT_TRUE(a.plan.fitted);
  EXPECT_EQ(a.plan.fitted->rate_hz, 4);
  ASSERT_EQ(a.plan.fitted->points.size(), 25U) << "to 6.25 s";
  // Between 0.2 s and 0.3 s, and at 0.5 s.
  EXPECT_NEAR(a.plan.fitted->points[0].x, (path[1].x + path[2].x) / 2, 1e-9);
  EXPECT_NEAR(a.plan.fitted->points[1].y, path[4].y, 1e-9);
  const json::object result = answer_json(a, request("fields"), "m");
  const json::object& told = result.at("trajectory").as_object();
  for (const char* key : {"waypoints", "rate_hz", "fit", "spread_m", "infeasible"}) EXPECT_TRUE(told.contains(key)) << key;
  EXPECT_EQ(result.at("fields").at("trajectory").as_array().size(), 6U);
}

TEST_F(Codes, RolloutsAreAveragedAsPaths) {
  const auto engine = Codes::engine(folder_->path);
  Request r = request("fields");
  r.rollouts = 3;
  r.section_temperatures = {{"trajectory", 2.0F}};
  const Answer a = must(engine->run(r));
  ASSERT_EQ(a.plan.fitted_rollouts.size(), 3U);
  ASSERT_EQ(a.plan.rollouts.size(), 3U);
  bool differ = false;
  for (size_t i = 0; i < a.plan.fitted->points.size(); ++i) {
    Waypoint sum;
    for (const Trajectory& t : a.plan.fitted_rollouts) sum = {sum.x + t.points[i].x, sum.y + t.points[i].y};
    EXPECT_NEAR(a.plan.fitted->points[i].x, sum.x / 3, 1e-9);
    EXPECT_NEAR(a.plan.fitted->points[i].y, sum.y / 3, 1e-9);
    differ = differ || a.plan.spread_m[i] > 0.01;
  }
  EXPECT_TRUE(differ) << "otherwise nothing was averaged";
}

TEST_F(Codes, AFormOfItsOwnHasThePlanToo) {
  const auto engine = Codes::engine(folder_->path);
  Request r = request("fields");
  r.form_schema =
      R"({"title": "way alone", "type": "object", "x-layout": "lines", "properties": {"way": {"type": "array", "x-section": "trajectory",
    "x-parents": [], "minItems": 5, "maxItems": 5, "items": {"type": "integer", "x-bins": {"first": "<|code_0|>", "last": "<|code_11|>", "count": 12}}}}})";
  const Answer a = must(engine->run(r));
  EXPECT_EQ(a.plan.waypoints.size(), 5U);  // 5.5 s
  EXPECT_EQ(a.plan.fitted->points.size(), 22U);
}

TEST_F(Codes, CodesAreNoBinsToARelaxedVerifier) {
  const auto engine = Codes::engine(folder_->path);
  Request r = request("scaffold-spec");
  r.method.verifier = RelaxedSpec{};
  const auto a = engine->run(r);
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, HasSubstr("expected a form with action bins, got drive-cot"));
}

TEST_F(Codes, AFolderWithoutItsCodebookIsRefused) {
  const test::CodesFolder bare;
  std::filesystem::remove(bare.path / "codebook.json");
  const auto missing = Engine::load(bare.path, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(missing.error().message, HasSubstr("expected the codebook codebook.json that its config.json names"));
  bare.write("codebook.json",
             json::object{{"format", "slipstream-codebook"}, {"step_s", 0.1}, {"steps", 1}, {"codes", json::array{}}});
  const auto empty = Engine::load(bare.path, {});
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("codebook.json: codes: expected 2 to 65536, got 0"));
}

}  // namespace
}  // namespace slip
