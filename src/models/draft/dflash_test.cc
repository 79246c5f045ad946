// SPDX-License-Identifier: Apache-2.0
// A DFlash head against the reference's numbers and its traces of greedy decoding, and against folders that are not its target's.
#include "models/draft/dflash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "base/file.h"
#include "models/draft/dflash_config.h"
#include "models/reference_testing.h"

namespace slip {
namespace {

using test::distance, test::kTolerance;

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";
const fs::path kHead = kModels / "qwen3_dflash";

std::vector<TokenId> ids(const json::value& list) {
  std::vector<TokenId> out;
  for (const json::value& id : list.as_array()) out.push_back(TokenId{static_cast<int32_t>(id.as_int64())});
  return out;
}

std::unique_ptr<Model> load_target(WeightType type = WeightType::kF32, const std::string& name = "qwen3") {
  auto model = load_model(kModels / name, {type, 2, 64});
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

// Target and head; the target's slot s holds position s.
struct Pair {
  std::unique_ptr<Model> target;
  std::unique_ptr<DFlashHead> head;
  PassOutput target_out, draft_out;

  explicit Pair(const fs::path& folder = kHead, WeightType type = WeightType::kF32) : target(load_target(type)) {
    auto loaded = load_dflash(folder, *target, 32);
    EXPECT_TRUE(loaded) << loaded.error().message;
    head = std::move(*loaded);
    EXPECT_TRUE(target->lm().set_taps(head->info().tap_layers));
  }

  // A causal pass of the target over `tokens` at `first`, with taps.
  void run_target(std::span<const TokenId> tokens, int32_t first) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int32_t p = first + static_cast<int32_t>(i);
      spans.push_back({0, p + 1});
      rows.push_back({tokens[i], Position::text(p), p, static_cast<uint32_t>(i), 1, Want::kArgmax});
    }
    const Status ran = target->lm().forward({rows, spans, {}, false, true}, target_out);
    ASSERT_TRUE(ran) << ran.error().message;
  }

  // Rows [0, n) of the last target pass become context.
  void store(int32_t first, size_t n) {
    std::vector<int32_t> slots;
    for (size_t i = 0; i < n; ++i) slots.push_back(first + static_cast<int32_t>(i));
    const Status stored =
        head->store(slots, slots, std::span(target_out.taps_NE).first(n * static_cast<size_t>(head->info().taps_width)));
    ASSERT_TRUE(stored) << stored.error().message;
  }

  // A block behind context [0, position), its rows in slots from `offset` on behind the context's.
  void draft(TokenId anchor, int32_t position, Want want, int32_t offset = 0) {
    const int32_t block = head->info().block, base = head->info().context_slots + offset;
    const std::vector<SlotSpan> spans = {{0, position}, {base, base + block}};
    std::vector<Row> rows;
    for (int32_t j = 0; j < block; ++j)
      rows.push_back({j == 0 ? anchor : head->info().mask, Position::text(position + j), base + j, 0, 2, want});
    const Status ran = head->forward({rows, spans}, draft_out);
    ASSERT_TRUE(ran) << ran.error().message;
  }
};

TEST(DFlash, PublishedRuleChoosesTheTappedLayers) {
  EXPECT_EQ(dflash_tap_layers(24, 5), (std::vector<int32_t>{1, 6, 11, 16, 21}));
  EXPECT_EQ(dflash_tap_layers(28, 5), (std::vector<int32_t>{1, 7, 13, 19, 25}));
  EXPECT_EQ(dflash_tap_layers(36, 5), (std::vector<int32_t>{1, 9, 17, 25, 33}));
  EXPECT_EQ(dflash_tap_layers(48, 5), (std::vector<int32_t>{1, 12, 23, 34, 45}));
  EXPECT_EQ(dflash_tap_layers(64, 5), (std::vector<int32_t>{1, 16, 31, 46, 61}));
  EXPECT_EQ(dflash_tap_layers(36, 1), (std::vector<int32_t>{18}));
}

TEST(DFlash, ContextLayersAndLogitsMatchTheReferenceWithAndWithoutCachedContext) {
  Pair pair;
  std::map<std::string, std::vector<float>> taps;
  pair.head->set_tap(
      [&](std::string_view name, std::span<const float> x, int64_t) { taps[std::string(name)].assign(x.begin(), x.end()); });
  for (const std::string name : {"first", "second"}) {  // the second's first 17 rows of context are the first's
    const json::value wanted = *read_json(kHead / ("draft_" + name + ".json"));
    const auto expected = Checkpoint::open_file(kHead / ("expected_" + name + ".safetensors"));
    ASSERT_TRUE(expected);
    const std::vector<TokenId> context = ids(wanted.at("context"));
    const auto cached = static_cast<int32_t>(wanted.at("cached").as_int64());
    pair.run_target(std::span(context).subspan(static_cast<size_t>(cached)), cached);
    EXPECT_LE(distance(pair.target_out.taps_NE, read_as_f32(*expected->find("taps_SX"))), kTolerance) << name;
    pair.store(cached, context.size() - static_cast<size_t>(cached));
    pair.draft(TokenId{static_cast<int32_t>(wanted.at("anchor").as_int64())}, static_cast<int32_t>(context.size()), Want::kLogits);
    EXPECT_LE(distance(taps["context_TD"], read_as_f32(*expected->find("context_SD"))), kTolerance) << name;
    EXPECT_LE(distance(taps["layer_0_TD"], read_as_f32(*expected->find("layer_0_JD"))), kTolerance) << name;
    EXPECT_LE(distance(taps["layer_1_TD"], read_as_f32(*expected->find("layer_1_JD"))), kTolerance) << name;
    EXPECT_LE(distance(taps["final_norm_TD"], read_as_f32(*expected->find("final_norm_JD"))), kTolerance) << name;
    const double worst = distance(pair.draft_out.logits_NV, read_as_f32(*expected->find("logits_JV")));
    EXPECT_LE(worst, kTolerance) << name;
    std::printf("qwen3_dflash %s: largest |d| / (1 + |ref|) %.2g\n", name.c_str(), worst);
    const std::vector<TokenId> drafted(pair.draft_out.argmax.begin() + 1, pair.draft_out.argmax.end());
    EXPECT_EQ(drafted, ids(wanted.at("draft_tokens"))) << name;
  }
}

// Greedy decoding with drafts, as in z-lab/dflash. Rejected rows are forgotten by overwriting their slots.
struct Round {
  int32_t position;
  std::vector<TokenId> drafted;
  size_t accepted;
};
struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<Round> rounds;
};
Decoded decode(Pair& pair, const std::vector<TokenId>& prompt, size_t wanted) {
  Decoded out;
  pair.run_target(prompt, 0);
  pair.store(0, prompt.size());
  out.tokens = {pair.target_out.argmax.back()};
  auto position = static_cast<int32_t>(prompt.size());
  while (out.tokens.size() < wanted) {
    pair.draft(out.tokens.back(), position, Want::kArgmax);
    std::vector<TokenId> rows = pair.draft_out.argmax;
    const std::vector<TokenId> drafted(rows.begin() + 1, rows.end());
    rows[0] = out.tokens.back();
    pair.run_target(rows, position);
    size_t accepted = 0;
    while (accepted < drafted.size() && drafted[accepted] == pair.target_out.argmax[accepted]) ++accepted;
    pair.store(position, accepted + 1);
    for (size_t i = 0; i <= accepted; ++i) out.tokens.push_back(pair.target_out.argmax[i]);
    out.rounds.push_back({position, drafted, accepted});
    position += static_cast<int32_t>(accepted) + 1;
  }
  return out;
}

TEST(DFlash, GreedyDecodingMakesTheReferencesRoundsAndTheTargetsTokens) {
  Pair pair;
  const json::value trace = *read_json(kHead / "decode.json");
  const std::vector<TokenId> tokens = ids(trace.at("tokens"));
  const Decoded decoded = decode(pair, ids(trace.at("prompt")), tokens.size());
  EXPECT_EQ(decoded.tokens, tokens);
  const json::array& rounds = trace.at("rounds").as_array();
  ASSERT_EQ(decoded.rounds.size(), rounds.size());
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(decoded.rounds[i].position, rounds[i].at("anchor_position").as_int64()) << i;
    EXPECT_EQ(decoded.rounds[i].drafted, ids(rounds[i].at("drafted"))) << i;
    EXPECT_EQ(static_cast<int64_t>(decoded.rounds[i].accepted), rounds[i].at("accepted").as_int64()) << i;
  }
}

TEST(DFlash, TheSameBitsWhateverTheWidthOfStoresTheSlotsAndEarlierDrafts) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
    Pair whole(kHead, type), parts(kHead, type);
    const std::vector<TokenId> context = ids(read_json(kHead / "draft_second.json")->at("context"));
    whole.run_target(context, 0);
    whole.store(0, context.size());
    whole.draft(TokenId{7}, 21, Want::kLogits);
    // Row by row, over slots that held rows since rejected, after other drafts, in other slots.
    parts.run_target(std::vector<TokenId>(30, TokenId{9}), 0);
    parts.store(0, 30);
    parts.draft(TokenId{8}, 25, Want::kArgmax);
    for (size_t i = 0; i < context.size(); ++i) {
      parts.run_target({&context[i], 1}, static_cast<int32_t>(i));
      parts.store(static_cast<int32_t>(i), 1);
    }
    parts.draft(TokenId{7}, 21, Want::kLogits, 16);
    ASSERT_EQ(whole.draft_out.logits_NV.size(), parts.draft_out.logits_NV.size());
    EXPECT_EQ(std::memcmp(whole.draft_out.logits_NV.data(), parts.draft_out.logits_NV.data(),
                          whole.draft_out.logits_NV.size() * sizeof(float)),
              0);
  }
}

// ---- folders ----

struct DFlashFolder : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("slip_dflash_" + std::to_string(getpid()));
  std::unique_ptr<Model> target = load_target();

  void SetUp() override {
    fs::remove_all(folder);
    fs::copy(kHead, folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  void change_config(const std::function<void(json::object&)>& change) {
    json::value config = *read_json(kHead / "config.json");
    change(config.get_object());
    ASSERT_TRUE(write_file(folder / "config.json", pretty(config)));
  }
  void write_vocab(const json::value& list) { ASSERT_TRUE(write_file(folder / "draft_vocab.json", pretty(list))); }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string_view> words, int32_t slots = 32) {
    const auto head = load_dflash(folder, *target, slots);
    ASSERT_FALSE(head);
    EXPECT_EQ(head.error().kind, kind) << head.error().message;
    for (const std::string_view word : words) EXPECT_NE(head.error().message.find(word), std::string::npos) << head.error().message;
  }
  // The fixture's tensors, one of them under another name or with others beside it.
  void rewrite_tensors(const std::function<void(std::vector<TensorToWrite>&)>& change) {
    const auto stored = Checkpoint::open_folder(kHead);
    ASSERT_TRUE(stored);
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, view] : stored->tensors()) tensors.push_back({name, view.dtype, view.shape, view.bytes});
    change(tensors);
    ASSERT_TRUE(write_safetensors(folder / "model.safetensors", tensors));
  }
};

TEST_F(DFlashFolder, AHeadForAnotherTargetIsRefusedNamingBoth) {
  const std::string where = folder.string(), name = target->folder().string();
  change_config([](json::object& o) { o["num_target_layers"] = 36; });
  expect_refused(ErrorKind::kBadInput, {where, name, "num_target_layers: expected 6", "got 36"});
  change_config([](json::object& o) { o["hidden_size"] = 64; });
  expect_refused(ErrorKind::kBadInput, {where, name, "hidden_size: expected 48", "got 64"});
  change_config([](json::object& o) { o["vocab_size"] = 400; });
  expect_refused(ErrorKind::kBadInput, {where, name, "vocab_size: expected 300", "got 400"});
  change_config([](json::object& o) { o["dflash_config"].as_object()["target_layer_ids"] = {1, 6}; });
  expect_refused(ErrorKind::kBadInput, {where, name, "target_layer_ids", "got 6"});
  change_config([](json::object&) {});
  target = load_target(WeightType::kF32, "qwen2");
  expect_refused(ErrorKind::kBadInput, {where, target->folder().string(), "num_target_layers"});
}

TEST_F(DFlashFolder, WhatIsNotDoneIsRefused) {
  change_config([](json::object& o) { o["layer_types"] = {"full_attention", "sliding_attention"}; });
  expect_refused(ErrorKind::kUnsupported, {"layer_types", "sliding_attention"});
  change_config([](json::object& o) { o["attention_bias"] = true; });
  expect_refused(ErrorKind::kUnsupported, {"attention_bias: expected false", "got true"});
  change_config([](json::object& o) { o.erase("dflash_config"); });
  expect_refused(ErrorKind::kBadInput, {"dflash_config", "DFlashDraftModel"});
  change_config([](json::object& o) { o["dflash_config"].as_object().erase("mask_token_id"); });
  expect_refused(ErrorKind::kBadInput, {"mask_token_id"});
  change_config([](json::object&) {});
  expect_refused(ErrorKind::kUsage, {"8, one block, got 7"}, 7);
  static const float zero = 0;
  const TensorToWrite more{"layers.0.attention_conv.base_kernel", DType::kF32, {1}, std::as_bytes(std::span(&zero, 1))};
  rewrite_tensors([&](std::vector<TensorToWrite>& tensors) { tensors.push_back(more); });
  expect_refused(ErrorKind::kUnsupported, {"DFlash 2", "attention_conv"});
  rewrite_tensors([&](std::vector<TensorToWrite>& tensors) {
    tensors.push_back(more);
    tensors.back().name = "markov.weight";
  });
  expect_refused(ErrorKind::kUnsupported, {"expected the 25 tensors", "got 26"});
  rewrite_tensors(
      [](std::vector<TensorToWrite>& tensors) { std::erase_if(tensors, [](const auto& t) { return t.name == "fc.weight"; }); });
  expect_refused(ErrorKind::kBadInput, {"fc.weight"});
}

TEST_F(DFlashFolder, WithoutAListThePublishedRuleChoosesTheLayers) {
  change_config([](json::object& o) { o["dflash_config"].as_object().erase("target_layer_ids"); });
  const auto head = load_dflash(folder, *target, 32);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ((*head)->info().tap_layers, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ((*head)->info().block, 8);
  EXPECT_EQ((*head)->info().mask, TokenId{299});
  EXPECT_TRUE((*head)->info().image_context);
}

TEST_F(DFlashFolder, RowsOfImagesAreContextOnlyWhereTheFolderSaysSo) {
  target = load_target(WeightType::kF32, "qwen2_5_vl");
  const auto fit = [](json::object& o) {
    o["num_target_layers"] = 3;
    o["hidden_size"] = 64;
    o["vocab_size"] = 320;
    o["dflash_config"].as_object()["target_layer_ids"] = {0, 2};
  };
  change_config(fit);
  auto config = read_dflash_config(folder, *target);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->image_context);
  change_config([&](json::object& o) {
    fit(o);
    o["dflash_config"].as_object()["image_context"] = true;
  });
  config = read_dflash_config(folder, *target);
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->image_context);
}

TEST_F(DFlashFolder, AShortVocabularyGivesTheSameLogitsInItsRowsAndNothingElsewhere) {
  const std::vector<int32_t> kept = {3, 15, 77, 132, 231, 263, 298};
  write_vocab(json::value_from(kept));
  Pair all, cut(folder);
  EXPECT_EQ(cut.head->draft_vocab().size(), kept.size());
  const std::vector<TokenId> context = ids(read_json(kHead / "draft_first.json")->at("context"));
  for (Pair* pair : {&all, &cut}) {
    pair->run_target(context, 0);
    pair->store(0, context.size());
    pair->draft(TokenId{211}, 17, Want::kLogits);
  }
  ASSERT_EQ(cut.draft_out.vocab, 300);
  for (size_t row = 0; row < 8; ++row) {
    int32_t best = -1;
    for (int32_t id = 0; id < 300; ++id) {
      const float logit = cut.draft_out.logits_V(row)[static_cast<size_t>(id)],
                  ref = all.draft_out.logits_V(row)[static_cast<size_t>(id)];
      const bool in = std::find(kept.begin(), kept.end(), id) != kept.end();
      ASSERT_EQ(logit, in ? ref : -std::numeric_limits<float>::infinity()) << row << ' ' << id;
      if (in && (best < 0 || ref > all.draft_out.logits_V(row)[static_cast<size_t>(best)])) best = id;
    }
    EXPECT_EQ(cut.draft_out.argmax[row].value, best);
  }
  cut.draft(TokenId{211}, 17, Want::kArgmax);
  for (size_t row = 0; row < 8; ++row) EXPECT_TRUE(std::count(kept.begin(), kept.end(), cut.draft_out.argmax[row].value)) << row;
  // A poorer drafter costs rounds, never tokens.
  const json::value trace = *read_json(kHead / "decode.json");
  Pair fresh(folder);
  const std::vector<TokenId> tokens = ids(trace.at("tokens"));
  std::vector<TokenId> decoded = decode(fresh, ids(trace.at("prompt")), tokens.size()).tokens;
  decoded.resize(tokens.size());
  EXPECT_EQ(decoded, tokens);
}

TEST_F(DFlashFolder, ShortVocabulariesThatAreNotAscendingIdsOfTheTargetAreRefused) {
  for (const json::value& list : {json::value{3, 2}, json::value{3, 3}, json::value{-1, 2}, json::value{3, 300}, json::value("a"),
                                  json::value(json::array{})}) {
    write_vocab(list);
    expect_refused(ErrorKind::kBadInput, {"draft_vocab.json"});
  }
}

TEST_F(DFlashFolder, RowsAndContextOutsideTheirSlotsAreRefused) {
  Pair pair;
  const std::vector<float> taps(static_cast<size_t>(pair.head->info().taps_width));
  const std::vector<int32_t> good = {0}, outside = {64}, none;
  EXPECT_TRUE(pair.head->store(good, good, taps));
  EXPECT_EQ(pair.head->store(outside, good, taps).error().kind, ErrorKind::kResource);
  EXPECT_EQ(pair.head->store(good, none, taps).error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(pair.head->store(good, good, std::span(taps).first(5)).error().kind, ErrorKind::kBadInput);
  const std::vector<SlotSpan> spans = {{0, 1}};
  const auto kind = [&](Row row, bool with_taps = false) {
    const Status s = pair.head->forward({{&row, 1}, spans, {}, false, with_taps}, pair.draft_out);
    return s ? ErrorKind::kInternal : s.error().kind;
  };
  const Row row{TokenId{5}, Position::text(1), 64, 0, 1, Want::kArgmax};
  EXPECT_EQ(kind(row), ErrorKind::kInternal) << "good";
  Row wrong = row;
  wrong.slot = 63;  // a slot of the context
  EXPECT_EQ(kind(wrong), ErrorKind::kResource);
  wrong.slot = 96;
  EXPECT_EQ(kind(wrong), ErrorKind::kResource);
  wrong = row;
  wrong.input = Feature{0};
  EXPECT_EQ(kind(wrong), ErrorKind::kBadInput);
  EXPECT_EQ(kind(row, true), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace slip
