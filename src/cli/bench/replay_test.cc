// SPDX-License-Identifier: Apache-2.0
// Replayed answers: decoders over a model that says what was recorded give the recorded answer, in the published numbers of passes.
#include "cli/bench/replay.h"

#include <gmock/gmock.h>

#include <fstream>

#include "cli/bench/recorded_acceptance.h"
#include "decode/decoder.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/testing/keeping_lm_testing.h"
#include "forecast/stand_in.h"

namespace slip::cli {
namespace {

constexpr int32_t kPromptRows = 20;

Prompt prompt() {
  Prompt out;
  for (int32_t i = 0; i < kPromptRows; ++i) {
    out.inputs.emplace_back(TokenId{ReplayIds::kWords + i});
    out.positions.push_back(Position::text(i));
  }
  out.next_position = kPromptRows;
  return out;
}

LmInfo info() {
  LmInfo out{.name = "replay", .vocab = ReplayIds::kAll, .hidden_size = 2, .slots = 2048};
  out.rule = {.shift = true, .has_mask = true, .has_null = true, .mask = ReplayIds::kMask, .null_token = ReplayIds::kNull};
  return out;
}

struct Ran {
  Decoded decoded;
  std::vector<ReplayPass> log;
};
Ran run(const RecordedForm& answer, const char* preset, float odds, Lm* inner = nullptr, int every = 1) {
  Recording recording = record(answer, odds);
  recording.first_position = kPromptRows;
  ReplayLm lm(inner, info(), std::move(recording), every);
  DecodeOptions options;
  options.visibility = std::string_view(preset).starts_with("fields") ? Visibility::kGraph : Visibility::kChain;
  options.forced = true;
  auto d = decode(lm, prompt(), &answer.form, preset, options);
  EXPECT_TRUE(d) << preset << ": " << (d ? "" : d.error().message);
  return {d ? std::move(*d) : Decoded{}, lm.log()};
}

TEST(Replay, FastDDrivesAnswerHasThePublishedShape) {
  const auto answer = fast_ddrive_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->form.length(), 404);
  EXPECT_EQ(answer->form.fixed_tokens(), 124);
  EXPECT_EQ(answer->form.blocks().size(), 11u);
}

TEST(Replay, EveryDecoderGivesTheRecordedAnswer) {
  const auto chain = fast_ddrive_answer();
  const auto graph = drive_cot_answer();
  ASSERT_TRUE(chain && graph) << (graph ? "" : graph.error().message);
  for (const float odds : {0.0F, 0.7F, 1.0F}) {
    for (const char* preset : {"ar", "scaffold-ar", "scaffold-spec"})
      EXPECT_EQ(run(*chain, preset, odds).decoded.fields, chain->contents) << preset << " " << odds;
    for (const char* preset : {"fields", "fields-spec"})
      EXPECT_EQ(run(*graph, preset, odds).decoded.fields, graph->contents) << preset << " " << odds;
  }
}

TEST(Replay, OddsDecideThePasses) {
  const auto answer = fast_ddrive_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(run(*answer, "ar", 0).decoded.statistics.forwards, 404) << "a pass per token, the first from the prefill";
  const Statistics never = run(*answer, "scaffold-spec", 0).decoded.statistics;
  const Statistics often = run(*answer, "scaffold-spec", 0.8F).decoded.statistics;
  const Statistics always = run(*answer, "scaffold-spec", 1).decoded.statistics;
  EXPECT_EQ(never.accepted, 0);
  EXPECT_LT(always.forwards, often.forwards);
  EXPECT_LT(often.forwards, never.forwards);
  EXPECT_EQ(always.accepted, always.tested);
  EXPECT_LE(always.forwards, 24) << "eleven blocks, each drafted and verified, and the prefill";
}

TEST(Replay, RunsTheRealPassesAndSkipsNoneButThoseOfOneRow) {
  const auto answer = fast_ddrive_answer();
  ASSERT_TRUE(answer);
  test::HashLm real({.vocab = ReplayIds::kAll, .slots = 2048});
  const Ran all = run(*answer, "scaffold-spec", 0.8F, &real);
  EXPECT_EQ(real.passes, all.decoded.statistics.forwards) << "what the decoder counts is what ran";
  int64_t rows = 0;
  for (const ReplayPass& p : all.log) rows += p.rows;
  EXPECT_EQ(rows, all.decoded.statistics.rows);
  // Passes of one row: each fourth runs. HashLm throws where a row sees a slot that nothing was written to, so nothing else is asked.
  int64_t ran = 0, ones = 0;
  for (const ReplayPass& p : run(*answer, "scaffold-ar", 0, nullptr, 4).log) ones += p.rows == 1, ran += p.ran;
  EXPECT_GT(ones, 100);
  EXPECT_EQ(ran, 0) << "without a model nothing runs";
}

// A model on a device keeps its logits where the device can write them.
TEST(Replay, SaysTheRecordedAnswerWhereverTheModelKeepsItsLogits) {
  const auto answer = fast_ddrive_answer();
  ASSERT_TRUE(answer);
  test::HashLm real({.vocab = ReplayIds::kAll, .slots = 2048});
  test::KeepingLm keeping(real);
  for (const int every : {1, 4}) {
    test::HashLm plain({.vocab = ReplayIds::kAll, .slots = 2048});
    const Ran here = run(*answer, "scaffold-spec", 0.8F, &keeping, every),
              there = run(*answer, "scaffold-spec", 0.8F, &plain, every);
    EXPECT_EQ(here.decoded.fields, answer->contents) << every;
    EXPECT_EQ(here.decoded.statistics.forwards, there.decoded.statistics.forwards) << every;
  }
}

// ---- drafts that hold as calibration saw it

std::filesystem::path demo_cot() { return std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo-cot"; }

Decoded run_as_seen(const RecordedAcceptance& seen, const Method& method, const PreviousAnswer* earlier = nullptr,
                    Lm* inner = nullptr) {
  ReplayLm lm(inner, info(), record(seen.answer, 0));
  StandInLm says(info(), {.survival = &seen.model.survival}, seen.model.pass, kPromptRows);
  says.begin(StandInAnswer::of_form(seen.answer.form, seen.answer.contents, seen.visibility == Visibility::kChain), 1);
  lm.say_by(says);
  DecodeOptions options;
  options.visibility = seen.visibility;
  options.forced = true;
  DraftLengthTracker tracker;
  const DecodeContext context{.previous = earlier, .draft_length_model = &seen.model, .draft_length_tracker = &tracker};
  auto d = Decoder(lm, method).decode(prompt(), &seen.answer.form, options, context);
  EXPECT_TRUE(d) << (d ? "" : d.error().message);
  return d ? std::move(*d) : Decoded{};
}

TEST(RecordedAcceptance, DraftsHoldAsTheFileSaysAndEveryDecoderGivesTheAnswer) {
  const auto seen = recorded_acceptance(demo_cot(), *CostTable::make({1, 128}, {10, 20}, "test"));
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->visibility, Visibility::kGraph);
  double kept = 0, tested = 0;
  seen->model.survival.for_each([&](const Survival::Cell&, const Survival::Count& n) {
    kept += static_cast<double>(n.kept);
    tested += static_cast<double>(n.tested);
  });
  for (const char* preset : {"ar", "fields", "fields-spec"}) {
    const auto method = method_of(preset);
    ASSERT_TRUE(method) << preset;
    const Decoded d = run_as_seen(*seen, *method);
    EXPECT_EQ(d.fields, seen->answer.contents) << preset;
    if (d.statistics.tested == 0) continue;
    const double share = static_cast<double>(d.statistics.accepted) / static_cast<double>(d.statistics.tested);
    EXPECT_NEAR(share, kept / tested, 0.05) << preset;
    EXPECT_GT(d.statistics.tested, 200) << preset;
  }
}

TEST(RecordedAcceptance, DraftsHoldTheSameWhereverTheModelKeepsItsLogits) {
  const auto seen = recorded_acceptance(demo_cot(), *CostTable::make({1, 128}, {10, 20}, "test"));
  ASSERT_TRUE(seen) << seen.error().message;
  const auto method = method_of("fields-spec");
  ASSERT_TRUE(method);
  test::HashLm real({.vocab = ReplayIds::kAll, .slots = 2048});
  test::KeepingLm keeping(real);
  const Decoded alone = run_as_seen(*seen, *method), behind = run_as_seen(*seen, *method, nullptr, &keeping);
  EXPECT_EQ(behind.fields, seen->answer.contents);
  EXPECT_EQ(behind.statistics.forwards, alone.statistics.forwards);
  EXPECT_EQ(behind.statistics.accepted, alone.statistics.accepted);
}

TEST(RecordedAcceptance, AutoDraftsWhereWeightsComeFromMemory) {
  const auto seen = recorded_acceptance(demo_cot() / "width.json", *CostTable::make({1, 128}, {10, 20}, "test"));
  ASSERT_TRUE(seen) << seen.error().message;
  DecodeOptions options;
  options.visibility = seen->visibility;
  options.forced = true;
  const auto alone = quickest_method(*seen, info(), options, kPromptRows, false, {});
  const auto behind = quickest_method(*seen, info(), options, kPromptRows, true, {});
  ASSERT_TRUE(alone && behind);
  const Decoded first = run_as_seen(*seen, alone->method);
  EXPECT_EQ(first.fields, seen->answer.contents);
  EXPECT_LT(first.statistics.forwards, 40) << alone->name;
  const PreviousAnswer same{.form = seen->answer.form.name(), .fields = seen->answer.contents, .tokens = {}};
  const Decoded next = run_as_seen(*seen, behind->method, &same);
  EXPECT_EQ(next.fields, seen->answer.contents);
  EXPECT_LT(next.statistics.forwards, first.statistics.forwards) << behind->why;
}

TEST(RecordedAcceptance, AFileOfAnotherFormIsRefusedWithTheFieldThatIsMissing) {
  std::ifstream in(demo_cot() / "width.json");
  std::string text(std::istreambuf_iterator<char>(in), {});
  text.replace(text.find("\"weather\""), 9, "\"climate\"");
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "slip_other_width.json";
  std::ofstream(file) << text;
  const auto refused = recorded_acceptance(file, *CostTable::make({1, 128}, {10, 20}, "test"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("`weather`"));
  EXPECT_FALSE(recorded_acceptance("/nowhere", *CostTable::make({1}, {1}, "test")));
}

}  // namespace
}  // namespace slip::cli
