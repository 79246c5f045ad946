// SPDX-License-Identifier: Apache-2.0
// Rollouts that have forked draft on, in shared passes, where rows are cheap beside a pass; their answers are those of any other draft length.
#include <gtest/gtest.h>

#include "decode/draft_length/costs.h"
#include "decode/draft_length/model_file.h"
#include "engine/engine.h"
#include "sim/record.h"
#include "sim/record/make.h"

namespace slip {
namespace {

struct Spent {
  int64_t passes = 0;
  std::string texts;
};

Spent spent(Engine& engine, const DraftLengthModel* costs, int rollouts) {
  Spent out;
  for (uint64_t scene = 900'000'000; scene < 900'000'003; ++scene) {
    const sim::Record record = *sim::make_record(scene);
    Request r;
    r.ego = ego_of(record.labels);
    r.images = camera_images(record.images);
    r.method = *method_of("scaffold-spec");
    if (costs) r.method.draft_length = {.kind = DraftLengthSpec::Kind::kMeasured};
    r.context.draft_length_model = costs;
    r.rollouts = rollouts;
    r.section_temperatures = {{"trajectory", 0.5F}};
    r.reuse_prompt = false;
    const auto a = engine.run(r);
    EXPECT_TRUE(a) << (a ? "" : a.error().message);
    if (!a) return out;
    out.passes += a->decoded.statistics.forwards;
    for (const std::string& t : a->texts) out.texts += t;
  }
  return out;
}

TEST(ForkedRollouts, DraftOnWhereRowsAreCheap) {
  const auto engine = Engine::load(SLIP_SOURCE_DIR "/models/demo", {.threads = 2, .slots = 8192});
  ASSERT_TRUE(engine) << engine.error().message;
  auto costs = read_draft_length_model(SLIP_SOURCE_DIR "/models/demo/width.json");
  ASSERT_TRUE(costs) << costs.error().message;
  // Milliseconds of a pass of the 3B shape on two cores (docs/benchmarks.md): 32 rows for less than two.
  costs->pass = *CostTable::make({1, 8, 32, 128}, {134, 151, 247, 700}, "3b");
  const Spent one = spent(**engine, &*costs, 1), four = spent(**engine, &*costs, 4), plain = spent(**engine, nullptr, 4);
  EXPECT_LE(static_cast<double>(four.passes), 1.5 * static_cast<double>(one.passes));
  EXPECT_GT(plain.passes, 2 * one.passes);  // which is what it would cost
  EXPECT_EQ(four.texts, plain.texts);
}

// Greedy up to the trajectory, four rollouts are one answer's passes up to there: `auto` must not give them up as if all four ran all of them.
TEST(Rollouts, AreDecodedAsOneAnswerIsUpToTheSectionThatIsDrawn) {
  const auto engine = Engine::load(SLIP_SOURCE_DIR "/models/demo", {.threads = 2, .slots = 8192});
  ASSERT_TRUE(engine) << engine.error().message;
  (*engine)->use_costs(*CostTable::make({1, 8, 32, 128}, {134, 151, 247, 700}, "3b"));
  const sim::Record record = *sim::make_record(900'000'000);
  const auto chosen = [&](int rollouts, const char* section) {
    Request r;
    r.ego = ego_of(record.labels);
    r.images = camera_images(record.images);
    r.method = *method_of("auto");
    r.rollouts = rollouts;
    r.section_temperatures = {{section, 0.5F}};
    r.reuse_prompt = false;
    const double alone = 1;
    r.context.company = &alone;  // the prices that were lent
    const auto a = (*engine)->run(r);
    EXPECT_TRUE(a) << (a ? "" : a.error().message);
    return a ? a->chosen : ChosenDecoder{};
  };
  const ChosenDecoder one = chosen(1, "trajectory"), four = chosen(4, "trajectory"), all = chosen(4, "critical_objects");
  EXPECT_GT(four.expected_ms, one.expected_ms);
  EXPECT_LT(four.expected_ms, 1.5 * one.expected_ms) << one.name << ", of four " << four.name;
  EXPECT_GT(all.expected_ms, four.expected_ms) << "rollouts that part at once have rows of their own in every pass";
}

}  // namespace
}  // namespace slip
