// SPDX-License-Identifier: Apache-2.0
// Replayed answers: decoders over a model that says what was recorded give the recorded answer, in the published numbers of passes.
#include "cli/bench/replay.h"

#include <gtest/gtest.h>

#include "decode/decoder.h"
#include "decode/testing/hash_lm_testing.h"

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

}  // namespace
}  // namespace slip::cli
