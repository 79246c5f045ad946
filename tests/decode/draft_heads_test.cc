// SPDX-License-Identifier: Apache-2.0
// Real draft heads through the decoders: the DFlash folder over its target, round for round as recorded, and the low-rank adapter of
// Nemotron-Labs-Diffusion, which changes drafts and never tokens.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "decode/decoder.h"
#include "models/draft/dflash.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

std::vector<TokenId> ids(const json::value& v) {
  std::vector<TokenId> out;
  for (const auto& x : v.as_array()) out.push_back({static_cast<int32_t>(x.as_int64())});
  return out;
}

Prompt prompt_of(std::span<const TokenId> tokens) {
  Prompt p;
  for (const TokenId t : tokens) {
    p.positions.push_back(Position::text(static_cast<int32_t>(p.inputs.size())));
    p.inputs.emplace_back(t);
  }
  p.next_position = static_cast<int32_t>(p.inputs.size());
  return p;
}

std::unique_ptr<Model> load(const char* name, WeightType type = WeightType::kF32) {
  auto m = load_model(kModels / name, {.type = type, .slots = 128});
  if (!m) throw std::runtime_error(m.error().message);
  return std::move(*m);
}

TEST(DraftHeads, DFlashDraftsAsRecordedAndWritesWhatTheTargetWrites) {
  const json::value trace = *read_json(kModels / "qwen3_dflash" / "decode.json");
  const std::vector<TokenId> expected = ids(trace.at("tokens"));
  const Prompt prompt = prompt_of(ids(trace.at("prompt")));
  const auto target = load("qwen3");
  auto head = load_dflash(kModels / "qwen3_dflash", *target, 64);
  ASSERT_TRUE(head) << head.error().message;
  Method m = *method_of("dflash");
  m.draft_length.tokens = (*head)->info().block - 1;
  DecodeOptions o{.limit = static_cast<int32_t>(expected.size()), .trace = true};
  const auto d = Decoder(target->lm(), m).decode(prompt, nullptr, o, {.draft_head = head->get()});
  ASSERT_TRUE(d) << d.error().message;
  EXPECT_EQ(d->tokens, expected);
  EXPECT_EQ(d->tokens, decode(target->lm(), prompt, nullptr, "ar", o)->tokens);
  const auto& rounds = trace.at("rounds").as_array();
  ASSERT_EQ(d->rounds.size(), rounds.size());
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(d->rounds[i].draft, ids(rounds[i].at("drafted"))) << i;
    EXPECT_EQ(d->rounds[i].accepted, rounds[i].at("accepted").as_int64()) << i;
  }
}

TEST(DraftHeads, DFlashIsExactOverFormsGraphsAndTemperatures) {
  const auto target = load("qwen3", WeightType::kBF16);
  auto head = load_dflash(kModels / "qwen3_dflash", *target, 64);
  ASSERT_TRUE(head) << head.error().message;
  Form::Parts parts{.name = "two lines", .section_names = {"all"}};
  parts.pieces = {FixedRun{{{11}, {12}}, 0}, FieldRef{0}, FixedRun{{{13}, {14}}, 0}, FieldRef{1},
                  FixedRun{{{13}, {15}}, 0}, FieldRef{2}};
  parts.fields = {Field{.name = "a", .budget = 9, .end = TokenId{13}}, Field{.name = "b", .budget = 7, .end = TokenId{13}},
                  Field{.name = "c", .budget = 6, .parents = {0, 1}}};
  const Form form = *Form::make(std::move(parts));
  const std::vector<TokenId> words{{21}, {22}, {23}, {24}};
  for (const Visibility visibility : {Visibility::kChain, Visibility::kGraph}) {
    for (const float temperature : {0.0F, 0.9F}) {
      DecodeOptions o{.temperature = temperature, .visibility = visibility, .seed = 5, .forced = true};
      const auto slow = decode(target->lm(), prompt_of(words), &form, "scaffold-ar", o);
      Method m = *method_of("dflash");
      m.draft_length.tokens = 7;
      m.schedule = visibility == Visibility::kGraph ? Schedule::kFields : Schedule::kChain;
      const auto fast = Decoder(target->lm(), m).decode(prompt_of(words), &form, o, {.draft_head = head->get()});
      ASSERT_TRUE(slow && fast) << (fast ? slow.error().message : fast.error().message);
      EXPECT_EQ(fast->tokens, slow->tokens);
      EXPECT_GT(fast->statistics.drafter_forwards, 0);
    }
  }
}

TEST(DraftHeads, TheAdapterChangesDraftsAndNeverTokens) {
  const auto model = load("nemotron_labs_diffusion");
  ASSERT_TRUE(model->lm().info().has_draft_adapter);
  int64_t different = 0;
  for (int32_t n = 0; n < 20; ++n) {
    const std::vector<TokenId> words{{5 + n}, {31 + 2 * n}, {77}};
    DecodeOptions o{.temperature = n % 2 ? 0.7F : 0, .seed = 3, .limit = 24, .trace = true};
    const auto slow = decode(model->lm(), prompt_of(words), nullptr, "ar", o);
    std::vector<TokenId> drafts[2];
    for (const bool adapter : {false, true}) {
      Method m = *method_of("self-spec");
      m.drafter = DiffusionSpec{.adapter = adapter};
      const auto d = Decoder(model->lm(), m).decode(prompt_of(words), nullptr, o);
      ASSERT_TRUE(slow && d) << d.error().message;
      EXPECT_EQ(d->tokens, slow->tokens);
      drafts[adapter] = d->rounds.front().draft;
    }
    different += drafts[0] != drafts[1];
  }
  EXPECT_GT(different, 0) << "an adapter that drafts as the model does is no adapter";
}

}  // namespace
}  // namespace slip
