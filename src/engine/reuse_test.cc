// SPDX-License-Identifier: Apache-2.0
// A prompt's rows that the request before had too are not run again, and no answer knows: same tokens, same waypoints, with ==.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "sim/record.h"
#include "sim/record/make.h"

namespace slip {
namespace {

std::unique_ptr<Engine> load() {
  auto engine = Engine::load(SLIP_SOURCE_DIR "/models/demo", {.threads = 2});
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

Request request(uint64_t scene, const char* preset, bool reuse, float temperature = 0) {
  const sim::Record record = *sim::make_record(scene);
  Request r;
  r.ego = ego_of(record.labels);
  r.images = camera_images(record.images);
  r.method = *method_of(preset);
  r.decode.temperature = temperature;
  r.decode.seed = 3;
  r.reuse_prompt = reuse;
  return r;
}

Answer answer(Engine& engine, const Request& r) {
  auto a = engine.run(r);
  EXPECT_TRUE(a) << (a ? "" : a.error().message);
  return a ? std::move(*a) : Answer{};
}

TEST(PromptReuse, ChangesNoAnswer) {
  const auto engine = load(), fresh = load();
  ASSERT_TRUE(engine && fresh);
  // Other scenes share the text before the pictures, the same scene all but what must run.
  float temperature = 0;
  for (const uint64_t scene : {900000001u, 900000001u, 900000002u})
    for (const char* preset : {"scaffold-spec", "scaffold-ar", "self-spec", "ar"})
      for (int twice = 0; twice < 2; ++twice) {
        temperature = 0.8F - temperature;
        const Answer a = answer(*engine, request(scene, preset, true, temperature));
        const Answer b = answer(*fresh, request(scene, preset, false, temperature));
        ASSERT_EQ(a.decoded.tokens, b.decoded.tokens) << scene << " " << preset;
        ASSERT_EQ(a.plan.waypoints.size(), b.plan.waypoints.size());
        EXPECT_EQ(b.decoded.statistics.reused_rows, 0);
        EXPECT_EQ(a.decoded.statistics.rows + a.decoded.statistics.reused_rows, b.decoded.statistics.rows)
            << scene << " " << preset;
      }
}

TEST(PromptReuse, KeepsTheTextBeforeThePicturesAndNoMore) {
  const auto engine = load();
  ASSERT_TRUE(engine);
  const Request one = request(900000001, "scaffold-spec", true), other = request(900000002, "scaffold-spec", true);
  auto prompt = engine->prompt(one);
  ASSERT_TRUE(prompt);
  int64_t text = 0;
  while (std::holds_alternative<TokenId>(prompt->inputs[static_cast<size_t>(text)])) ++text;
  ASSERT_GT(text, 0);
  EXPECT_EQ(answer(*engine, one).decoded.statistics.reused_rows, 0) << "the first request";
  EXPECT_EQ(answer(*engine, other).decoded.statistics.reused_rows, text) << "other pictures";
  EXPECT_EQ(answer(*engine, other).decoded.statistics.reused_rows, static_cast<int64_t>(prompt->inputs.size())) << "the same again";
}

TEST(PromptReuse, EndsWhereSomebodyElseRanTheModel) {
  const auto engine = load();
  ASSERT_TRUE(engine);
  const Request one = request(900000001, "scaffold-spec", true);
  const Answer first = answer(*engine, one);
  PassOutput out;
  const Row row{TokenId{5}, Position::text(0), 0, 0, 1, Want::kArgmax};
  const SlotSpan self{0, 1};
  ASSERT_TRUE(engine->model().lm().forward({{&row, 1}, {&self, 1}}, out));
  const Answer second = answer(*engine, one);
  EXPECT_EQ(second.decoded.statistics.reused_rows, 0);
  EXPECT_EQ(second.decoded.tokens, first.decoded.tokens);
}

}  // namespace
}  // namespace slip
