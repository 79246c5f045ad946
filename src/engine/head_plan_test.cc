// SPDX-License-Identifier: Apache-2.0
// A trajectory head in a request: it reads what the answer's own passes leave, whichever exact decoder they belong to, and nothing of the answer
// depends on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "engine/engine.h"
#include "models/draft/flow_head.h"
#include "models/draft/flow_head_testing.h"
#include "sim/record/make.h"

namespace slip {
namespace {

constexpr const char* kExact[] = {"ar", "scaffold-ar", "scaffold-spec", "self-spec", "self-spec-quadratic"};

class HeadPlans : public testing::Test {
 protected:
  static std::unique_ptr<Engine> load(EngineOptions options = {.threads = 2}, const char* folder = "/models/demo") {
    auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + folder, options);
    EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
    return engine ? std::move(*engine) : nullptr;
  }
  static void SetUpTestSuite() {
    engine_ = load().release();
    folder_ = new test::TemporaryFolder;
    test::write_random_head(engine_->model(), head("cut"), {.until = "trajectory"});
    test::write_random_head(engine_->model(), head("whole"), {.reads = "answer"});
    test::write_random_head(engine_->model(), head("prompt"), {.reads = "prompt"});
    test::write_random_head(engine_->model(), head("elsewhere"), {.until = "no such section"});
    test::write_random_head(engine_->model(), head("short"), {.rows = 8});
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete folder_;
  }
  static std::string head(const std::string& name) { return (folder_->path / name).string(); }
  static Request asked(std::string_view preset, const std::string& head, bool fast = false, float temperature = 0,
                       uint64_t seed = 3) {
    static const sim::Record record = *sim::make_record(900000017);
    Request r;
    r.ego = ego_of(record.labels);
    r.images = camera_images(record.images);
    r.method = *method_of(preset);
    r.decode.temperature = temperature;
    r.decode.seed = seed;
    r.trajectory_head = head;
    r.fast_plan = fast;
    return r;
  }
  static Answer run(const Request& request, Engine& engine = *engine_) {
    auto out = engine.run(request);
    EXPECT_TRUE(out) << (out ? "" : out.error().message);
    return out ? std::move(*out) : Answer();
  }
  static std::vector<Waypoint> points(const Plan& plan) { return plan.fitted ? plan.fitted->points : std::vector<Waypoint>(); }
  static std::vector<std::vector<Waypoint>> early(const Answer& a) {
    std::vector<std::vector<Waypoint>> out;
    for (const HeadPlan& p : a.early_plans) out.push_back(points(p.plan));
    return out;
  }
  static std::string refusal(const Request& request, ErrorKind kind) {
    const auto out = engine_->run(request);
    if (out) return "it was answered";
    EXPECT_EQ(out.error().kind, kind) << out.error().message;
    return out.error().message;
  }

  static Engine* engine_;
  static test::TemporaryFolder* folder_;
};
Engine* HeadPlans::engine_ = nullptr;
test::TemporaryFolder* HeadPlans::folder_ = nullptr;

TEST_F(HeadPlans, AreTheSameBitsUnderEveryExactDecoderAndChangeNoToken) {
  for (const float temperature : {0.0F, 0.8F}) {
    const Answer alone = run(asked("scaffold-ar", "", false, temperature));
    const Answer first = run(asked("scaffold-ar", head("cut"), true, temperature));
    ASSERT_TRUE(first.own_plan);
    EXPECT_EQ(points(*first.own_plan), points(alone.plan));
    EXPECT_NE(points(first.plan), points(alone.plan));
    ASSERT_EQ(points(first.plan).size(), 25U) << "6.4 s at 4 Hz";
    EXPECT_EQ(first.early_plans.size(), 3U) << "behind the prompt, and two of the three sections before the trajectory";
    for (const char* preset : kExact) {
      SCOPED_TRACE(preset);
      for (const bool fast : {false, true}) {
        const Answer a = run(asked(preset, head("cut"), fast, temperature));
        EXPECT_EQ(a.decoded.tokens, alone.decoded.tokens);
        EXPECT_EQ(points(a.plan), points(first.plan)) << fast;
        EXPECT_EQ(early(a), fast ? early(first) : decltype(early(a))());
      }
    }
  }
}

TEST_F(HeadPlans, AHeadThatSaysOtherThanItsWeightsIsRefused) {
  const auto fresh = load();
  const auto refused = [&](std::string_view key, const json::value& v) {
    const test::TemporaryFolder other;
    std::filesystem::copy(head("cut"), other.path, std::filesystem::copy_options::recursive);
    json::value config = *read_json(other.path / "config.json");
    config.as_object()[key] = v;
    EXPECT_TRUE(write_file(other.path / "config.json", json::serialize(config)));
    const auto loaded = load_flow_head(other.path, fresh->model());
    return loaded ? std::string("it was loaded") : loaded.error().message;
  };
  EXPECT_THAT(refused("fourier_features", 21), testing::HasSubstr("fourier_features: expected an even number, got 21"));
  EXPECT_THAT(refused("reads", "prompts"), testing::HasSubstr("reads: expected prompt, answer or sections, got \"prompts\""));
}

TEST_F(HeadPlans, ReadWhatOneCausalPassOverPromptAndAnswerLeaves) {
  const Request request = asked("scaffold-spec", head("cut"), true);
  const Answer a = run(request);
  const auto fresh = load();
  const auto head_of = load_flow_head(head("cut"), fresh->model());
  ASSERT_TRUE(head_of);
  const auto prompt = fresh->prompt(request);
  ASSERT_TRUE(prompt);
  const Form& form = a.form->form;
  const auto n = static_cast<int32_t>(prompt->inputs.size());
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < n + static_cast<int32_t>(a.decoded.tokens.size()); ++i) {
    const auto at = static_cast<size_t>(i);
    rows.push_back({.input = i < n ? prompt->inputs[at] : RowInput(a.decoded.tokens[static_cast<size_t>(i - n)]),
                    .position = i < n ? prompt->positions[at] : Position::text(prompt->next_position + i - n),
                    .slot = i,
                    .sees_first = static_cast<uint32_t>(i),
                    .sees_count = 1});
    spans.push_back({0, i + 1});
  }
  PassOutput out;
  ASSERT_TRUE(fresh->model().lm().forward({.rows = rows, .spans = spans, .features = prompt->features}, out));
  std::vector<float> action;
  for (size_t k = 0; k <= a.early_plans.size(); ++k) {
    const int32_t end = k == 0 ? 0 : form.sections()[k - 1].end;  // this form's fields are padded: positions are tokens
    ASSERT_TRUE((*head_of)->read(n + end, prompt->next_position + end));
    ASSERT_TRUE((*head_of)->sample((*head_of)->noise_of(3), action));
    double x = 0, y = 0;
    for (size_t i = 0; i < 30; ++i) x += static_cast<double>(action[3 * i]), y += static_cast<double>(action[3 * i + 1]);
    const Plan& plan = k < a.early_plans.size() ? a.early_plans[k].plan : a.plan;
    EXPECT_NEAR(plan.waypoints[2].x, x, 1e-9) << k;
    EXPECT_NEAR(plan.waypoints[2].y, y, 1e-9) << k;
    if (k == 0) continue;
    EXPECT_NE(points(a.early_plans[k - 1].plan), points(plan)) << "what was decided since is read";
  }
}

TEST_F(HeadPlans, AreTheSameBitsAtOneAndTwoThreads) {
  const auto one = load({.threads = 1});
  for (const char* name : {"cut", "whole", "prompt"}) {
    const Request request = asked("scaffold-spec", head(name), std::string(name) == "cut");
    const Answer a = run(request), b = run(request, *one);
    EXPECT_EQ(points(a.plan), points(b.plan)) << name;
    EXPECT_EQ(early(a), early(b)) << name;
    EXPECT_EQ(a.head_forwards, b.head_forwards);
    EXPECT_GT(a.stages.head_ms, 0);
  }
}

TEST_F(HeadPlans, AreTheSeedsAtTemperatureZeroToo) {
  const Answer a = run(asked("scaffold-spec", head("cut"))), b = run(asked("scaffold-spec", head("cut"), false, 0, 4));
  EXPECT_EQ(a.decoded.tokens, b.decoded.tokens);
  EXPECT_NE(points(a.plan), points(b.plan));
  EXPECT_EQ(points(a.plan), points(run(asked("scaffold-spec", head("cut"))).plan));
}

// Its rows see their whole block: the head reads the answer again, causally, when it is done.
TEST_F(HeadPlans, OfSectionDiffusionAreThoseOfItsAnswer) {
  const Answer alone = run(asked("section-diffusion", ""));
  const Answer a = run(asked("section-diffusion", head("cut"), true)), causal = run(asked("scaffold-spec", head("cut"), true));
  EXPECT_EQ(a.decoded.tokens, alone.decoded.tokens);
  ASSERT_EQ(a.early_plans.size(), 1U);
  EXPECT_EQ(a.early_plans[0].after_section, "prompt");
  EXPECT_EQ(points(a.early_plans[0].plan), points(causal.early_plans[0].plan));
  EXPECT_NE(points(a.plan), points(causal.plan)) << "of another answer";
}

TEST_F(HeadPlans, AreToldAsTheyComeAndCostPassesOnlyAtTheEnd) {
  Request request = asked("scaffold-spec", head("cut"), true);
  std::vector<std::string> told;
  int64_t forwards = 0;
  request.on_plan = [&](const HeadPlan& p) {
    told.push_back(p.after_section + (p.final ? "!" : ""));
    EXPECT_GE(p.forwards, forwards);
    forwards = p.forwards;
  };
  const Answer a = run(request), without = run(asked("scaffold-spec", ""));
  EXPECT_EQ(told, (std::vector<std::string>{"prompt", "critical_objects", "explanation", "future_meta_behavior!"}));
  EXPECT_LT(forwards, a.decoded.statistics.forwards) << "before the trajectory was decoded";
  EXPECT_EQ(a.decoded.statistics.forwards, without.decoded.statistics.forwards) << "rows that it reads travel with the next round";
  EXPECT_EQ(a.head_forwards, 4 * 3);
  const Answer whole = run(asked("scaffold-spec", head("whole")));
  EXPECT_EQ(whole.decoded.statistics.forwards, without.decoded.statistics.forwards + 1) << "the last rows, which no pass has fed";
}

TEST_F(HeadPlans, AlongAGraphAreTheSameBitsUnderEveryExactDecoder) {
  const auto graph = load({.threads = 2}, "/models/demo-cot");
  test::write_random_head(graph->model(), head("graph"), {.until = "trajectory", .visibility = "graph"});
  const Answer alone = run(asked("fields", ""), *graph), first = run(asked("fields", head("graph"), true), *graph);
  ASSERT_TRUE(first.own_plan && !first.early_plans.empty());
  EXPECT_EQ(points(*first.own_plan), points(alone.plan));
  for (const char* preset : {"fields", "fields-spec", "scaffold-ar", "scaffold-spec"})
    for (const bool fast : {false, true}) {
      const Answer a = run(asked(preset, head("graph"), fast), *graph);
      EXPECT_EQ(a.decoded.tokens, alone.decoded.tokens) << preset;
      EXPECT_EQ(points(a.plan), points(first.plan)) << preset;
      EXPECT_EQ(early(a), fast ? early(first) : decltype(early(a))()) << preset;
    }
  const auto other = graph->run(asked("fields", head("cut")));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("under graph visibility"), std::string::npos) << other.error().message;
  EXPECT_NE(refusal(asked("ar", head("graph")), ErrorKind::kUnsupported).find("under chain visibility"), std::string::npos);
}

TEST_F(HeadPlans, ReadBytesOfInt8Keys) {
  const auto bytes = load({.dtype = "f32", .threads = 2, .kv_type = "int8"}),
             wide = load({.dtype = "f32", .threads = 2, .kv_type = "f32"});
  const Request request = asked("scaffold-spec", head("prompt"));
  const Answer a = run(request, *bytes), b = run(request, *wide);
  ASSERT_EQ(points(a.plan).size(), 25U);
  for (size_t i = 0; i < 25; ++i)
    EXPECT_NEAR(distance_m(points(a.plan)[i], points(b.plan)[i]), 0, 0.05 * static_cast<double>(i + 1)) << i;
}

TEST_F(HeadPlans, AreRefusedInWords) {
  Request text = asked("ar", head("cut"));
  text.form = "";
  text.ego.reset();
  text.turns = {{"user", "where to?"}};
  EXPECT_NE(refusal(text, ErrorKind::kUsage).find("expected a form with a plan"), std::string::npos);
  EXPECT_NE(refusal(asked("ar", "", true), ErrorKind::kUsage).find("expected --trajectory-head"), std::string::npos);
  EXPECT_NE(refusal(asked("ar", head("whole"), true), ErrorKind::kUnsupported).find("\"cut\""), std::string::npos);
  EXPECT_NE(refusal(asked("ar", head("elsewhere")), ErrorKind::kBadInput).find("no such section"), std::string::npos);
  EXPECT_NE(refusal(asked("ar", head("short")), ErrorKind::kUnsupported).find("at least 2 s"), std::string::npos);
  EXPECT_NE(refusal(asked("ar", "/nowhere"), ErrorKind::kBadInput).find("/nowhere"), std::string::npos);
  Request several = asked("ar", head("cut"), false, 0.5F);
  several.rollouts = 2;
  EXPECT_NE(refusal(several, ErrorKind::kUsage).find("one rollout"), std::string::npos);
  DecoderOptions another = engine_->model().decoder()->options();
  another.layers -= 1;
  test::RandomHeadWriter(another, {}).write(head("of another"));
  EXPECT_NE(refusal(asked("ar", head("of another")), ErrorKind::kBadInput).find("for another target"), std::string::npos);
}

}  // namespace
}  // namespace slip
