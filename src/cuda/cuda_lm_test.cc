// SPDX-License-Identifier: Apache-2.0
// The device's decoder on the emulated device: against transformers' numbers (as near as the processor's own bf16 path, which
// shares none of this code), and contract W by ==.
#include "cuda/cuda_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>

#include "cuda/features.h"
#include "lm/features_testing.h"
#include "models/adapter.h"
#include "models/config/config.h"
#include "models/loader.h"
#include "models/rows_file.h"

namespace slip::cuda {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kSlots = 640;

/// A test program that travels to a machine with a device finds its fixtures by SLIPSTREAM_FIXTURES.
fs::path fixtures() {
  const char* asked = std::getenv("SLIPSTREAM_FIXTURES");
  return asked != nullptr ? asked : SLIP_FIXTURES;
}

struct Case {
  std::string folder, rows;
  WeightType type = WeightType::kBF16;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.folder << " " << c.rows << " " << word_of_type(c.type); }

DecoderWeights read_weights(const std::string& folder, ModelConfig& config, ThreadPool& pool, WeightType type = WeightType::kBF16) {
  const fs::path path = fixtures() / "models" / folder;
  auto read = read_model_config(path);
  EXPECT_TRUE(read) << read.error().message;
  config = *read;
  auto checkpoint = Checkpoint::open_folder(path);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  auto weights = load_weights(*checkpoint, config, type, kSlots, pool);
  EXPECT_TRUE(weights) << weights.error().message;
  return std::move(weights->decoder);
}

std::unique_ptr<Device> device() {
  auto opened = Device::open(0);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::exit(static_cast<int>(opened.error().kind));
  }
  return std::move(*opened);
}

std::unique_ptr<CudaLm> on_device(const std::string& folder, ThreadPool& pool, WeightType type = WeightType::kBF16) {
  ModelConfig config;
  const DecoderWeights weights = read_weights(folder, config, pool, type);
  auto lm = CudaLm::create(device(), config.decoder, weights, kSlots, pool);
  EXPECT_TRUE(lm) << lm.error().message;
  return std::move(*lm);
}

std::unique_ptr<DecoderLm> on_processor(const std::string& folder, ThreadPool& pool, WeightType type) {
  ModelConfig config;
  DecoderWeights weights = read_weights(folder, config, pool, type);
  return std::move(*DecoderLm::create(config.decoder, std::move(weights), kSlots, pool));
}

RowsFile rows_of(const Case& c) {
  auto file = read_rows_file(fixtures() / "models" / c.folder / ("rows_" + c.rows + ".json"));
  EXPECT_TRUE(file) << file.error().message;
  return *file;
}

std::vector<float> logits(Lm& lm, const RowsFile& file, const RowsRun& run = {}) {
  auto out = forward_rows(lm, file, {}, run);
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : std::vector<float>{};
}

double root_mean_square(std::span<const float> x, std::span<const float> ref) {
  double sum = 0;
  for (size_t i = 0; i < ref.size(); ++i) sum += (double{x[i]} - ref[i]) * (double{x[i]} - ref[i]);
  return std::sqrt(sum / static_cast<double>(ref.size()));
}

class OnDevice : public testing::TestWithParam<Case> {};

// Of integers too, whose activations the processor rounds to eight bits and a device to bf16.
TEST_P(OnDevice, IsAsNearToTheReferenceAsTheProcessorOfTheSameType) {
  ThreadPool pool(1);
  const RowsFile file = rows_of(GetParam());
  const auto expected =
      Checkpoint::open_file(fixtures() / "models" / GetParam().folder / ("expected_" + GetParam().rows + ".safetensors"));
  ASSERT_TRUE(expected) << expected.error().message;
  const std::vector<float> ref = read_as_f32(*expected->find("logits_TV"));
  const std::vector<float> here = logits(*on_device(GetParam().folder, pool, GetParam().type), file);
  const std::vector<float> there = logits(*on_processor(GetParam().folder, pool, GetParam().type), file);
  ASSERT_EQ(here.size(), ref.size());
  const double mine = root_mean_square(here, ref), processors = root_mean_square(there, ref);
  EXPECT_LT(mine, (GetParam().type == WeightType::kBF16 ? 1.5 : 1) * processors);
  EXPECT_GT(mine, 0);
}

TEST_P(OnDevice, GivesARowTheSameBitsInAnyCompanyAndAnySlot) {
  ThreadPool pool(1);
  const RowsFile file = rows_of(GetParam());
  const auto lm = on_device(GetParam().folder, pool, GetParam().type);
  const std::vector<float> whole = logits(*lm, file);
  std::vector<int32_t> slots(static_cast<size_t>(kSlots));
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937 random(7);
  std::shuffle(slots.begin(), slots.end(), random);
  slots.resize(file.rows.size());
  EXPECT_EQ(whole, logits(*lm, file, {.split = 5}));
  EXPECT_EQ(whole, logits(*lm, file, {.split = 20, .slots = slots}));
}

// Long passes go tile by tile, shorter ones run by run.
TEST(CudaLm, GivesAPromptTheSameBitsInOnePassAndInMany) {
  ThreadPool pool(1);
  for (const WeightType type : {WeightType::kBF16, WeightType::kI8}) {
    const auto lm = on_device("qwen3", pool, type);
    RowsFile file;
    const int32_t rows =
        type == WeightType::kBF16 ? 530 : 200;  // the first: rows of a walk that have two chunks of keys, and three
    for (int32_t i = 0; i < rows; ++i)
      file.rows.push_back({TokenId{(i * 37 + 5) % lm->info().vocab}, Position::text(i), {{0, i + 1}}});
    const std::vector<float> whole = logits(*lm, file);
    for (const int64_t split : {270, 129, 70, 9}) EXPECT_EQ(whole, logits(*lm, file, {.split = split})) << split;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OnDevice,
                         testing::Values(Case{"qwen2", "causal"}, Case{"qwen2", "field_graph"}, Case{"qwen3", "tree"},
                                         Case{"qwen3", "forked"}, Case{"llama3", "causal"}, Case{"ministral3", "jumps"},
                                         Case{"ministral3_ramp", "causal"}, Case{"nemotron_labs_diffusion", "block"},
                                         Case{"qwen2", "field_graph", WeightType::kI8}, Case{"qwen3", "tree", WeightType::kI8},
                                         Case{"llama3", "causal", WeightType::kI8}, Case{"ministral3", "jumps", WeightType::kI8},
                                         Case{"qwen3", "forked", WeightType::kI4}, Case{"llama3", "causal", WeightType::kI4}));

// A pass of 1 .. 80 rows behind 300 cached ones, all wanting their argmax.
std::vector<TokenId> picks(CudaLm& lm, int32_t first, int32_t rows, Want want, bool listed = false) {
  const std::vector<TokenId> some{{3}, {8}, {40}};
  const std::span<const TokenId> list(some);
  std::vector<Row> asked;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t at = first + i;
    spans.push_back({0, at + 1});
    asked.push_back({TokenId{(at * 31 + 5) % lm.info().vocab}, Position::text(at), at, static_cast<uint32_t>(i), 1, want});
    if (listed && i % 2 == 0) asked.back().allowed = 0;
  }
  PassOutput out;
  const Status done = lm.forward({.rows = asked, .spans = spans, .allowed = {&list, 1}}, out);
  EXPECT_TRUE(done) << done.error().message;
  return out.argmax;
}

TEST(CudaLm, GivesARowAloneTheSameBits) {
  ThreadPool pool(1);
  const RowsFile file = rows_of({"qwen2", "causal"});
  const auto lm = on_device("qwen2", pool);
  EXPECT_EQ(logits(*lm, file), logits(*lm, file, {.split = 1}));
}

TEST(CudaLm, PicksWhatTheLogitsSayThroughCapturedGraphs) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  picks(*lm, 0, 280, Want::kNothing);
  for (const int32_t rows : {1, 8, 9, 40, 80}) {
    const std::vector<TokenId> first =
        picks(*lm, 280, rows, Want::kArgmax);  // launched as it is: kernels are loaded before any capture
    EXPECT_EQ(first, picks(*lm, 280, rows, Want::kLogits)) << rows;
    EXPECT_EQ(first, picks(*lm, 280, rows, Want::kArgmax)) << rows;
  }
  const int graphs = lm->graphs();
  EXPECT_GE(graphs, 3);
  for (const int32_t rows : {2, 7, 10, 33}) picks(*lm, 280, rows, Want::kArgmax);
  EXPECT_EQ(lm->graphs(), graphs) << "passes of like size share a graph";
}

std::vector<float> held_logits(CudaLm& lm, const FeatureView& features, int32_t rows) {
  std::vector<Row> list;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < rows; ++i) {
    spans.push_back({0, i + 1});
    const RowInput input = i % 3 == 2 ? RowInput(TokenId{i % lm.info().vocab}) : RowInput(Feature{(i * 7) % 10});
    list.push_back({input, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
  }
  PassOutput out;
  const Status done = lm.forward({.rows = list, .spans = spans, .features = features}, out);
  EXPECT_TRUE(done) << done.error().message;
  std::vector<float> all;
  for (size_t i = 0; done && i < list.size(); ++i) all.insert(all.end(), out.logits_V(i).begin(), out.logits_V(i).end());
  return all;
}

// Through captured graphs too, which hold no address of theirs.
TEST(CudaLm, ReadsFeaturesWhereTheyLie) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  const int32_t width = lm->info().hidden_size;
  const auto memory = std::make_shared<FeatureMemory>(std::shared_ptr<Device>(device()));
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  const auto block = [&](std::span<const float> numbers) {
    Memory there = std::move(*memory->take(numbers.size_bytes()));
    EXPECT_TRUE(memory->device().copy_in(there.data(), numbers.data(), numbers.size_bytes()));
    EXPECT_TRUE(memory->device().wait());
    return std::make_shared<CudaFeatures>(memory, std::move(there), static_cast<int32_t>(numbers.size()) / width, width,
                                          content_hash(numbers));
  };
  for (int again = 0; again < 4; ++again) {
    std::vector<float> numbers(static_cast<size_t>(10 * width));
    for (float& x : numbers) x = normal(random);
    const std::span<const float> all = numbers;
    const auto row = [&](int32_t i) { return static_cast<size_t>(i * width); };
    const Features split{{block(all.first(row(4))), block(all.subspan(row(4), row(3)))}, {all.begin() + 7 * width, all.end()}};
    for (const int32_t rows : {8, 80}) {
      const std::vector<float> here = held_logits(*lm, FeatureView(numbers), rows);
      EXPECT_EQ(held_logits(*lm, split, rows), here) << rows;
      EXPECT_EQ(held_logits(*lm, Features{{block(all)}, {}}, rows), here) << rows;
    }
  }
  EXPECT_GE(lm->graphs(), 1);
}

TEST(CudaLm, RefusesFeaturesOfAnotherPlace) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  const int32_t width = lm->info().hidden_size;
  const auto refused = [&](int32_t its) {
    const std::vector<Row> rows{{Feature{0}, Position::text(0), 0, 0, 1, Want::kArgmax}};
    const std::vector<SlotSpan> spans{{0, 1}};
    PassOutput out;
    const Features there{{std::make_shared<test::HeldFeatures>(std::vector<float>(static_cast<size_t>(its)), its)}, {}};
    const Status done = lm->forward({.rows = rows, .spans = spans, .features = there}, out);
    return done ? "" : done.error().message;
  };
  EXPECT_NE(refused(width).find("features of this device"), std::string::npos) << refused(width);
  EXPECT_NE(refused(width + 1).find(std::to_string(width)), std::string::npos) << refused(width + 1);
}

std::vector<float> tapped(CudaLm& lm, int32_t rows) {
  std::vector<Row> asked;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < rows; ++i) {
    spans.push_back({0, i + 1});
    asked.push_back({TokenId{(i * 31 + 5) % lm.info().vocab}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kArgmax});
  }
  PassOutput out;
  const Status done = lm.forward({.rows = asked, .spans = spans, .taps = true}, out);
  EXPECT_TRUE(done) << done.error().message;
  return out.taps_NE;
}

// Captured passes too; the same layers once more leave graphs as they are.
TEST(CudaLm, TellsHiddenStatesOfTheLayersThatWereChosenLast) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  const std::vector<int32_t> settings[] = {{0}, {1, 0}, {1}};
  for (const std::vector<int32_t>& layers : settings) {
    ASSERT_TRUE(lm->set_taps(layers));
    const auto fresh = on_device("qwen3", pool);
    ASSERT_TRUE(fresh->set_taps(layers));
    for (int i = 0; i < 3; ++i)
      for (const int32_t rows : {64, 70}) EXPECT_EQ(tapped(*lm, rows), tapped(*fresh, rows)) << i << " " << rows;
    EXPECT_EQ(lm->graphs(), 1);
    ASSERT_TRUE(lm->set_taps(layers));
    EXPECT_EQ(lm->graphs(), 1) << "the same layers";
  }
}

// What an answer needs is there before its first pass, and prompts of any length leave it there.
TEST(CudaLm, CapturesWhatAnswersNeed) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool), other = on_device("qwen3", pool);
  ASSERT_TRUE(lm->capture_usual());
  const int graphs = lm->graphs();
  EXPECT_EQ(graphs, 8) << "of 8, 16, 32 and 64 rows, with and without logits that stay";
  for (const int32_t prompt : {70, 560}) {  // the second is longer than what any before left room for
    EXPECT_EQ(picks(*lm, 0, prompt, Want::kArgmax), picks(*other, 0, prompt, Want::kArgmax)) << prompt;
    for (const int32_t rows : {5, 64})
      for (const Want want : {Want::kArgmax, Want::kLikely})
        EXPECT_EQ(picks(*lm, prompt - 5, rows, want, true), picks(*other, prompt - 5, rows, want, true)) << prompt << " " << rows;
  }
  EXPECT_EQ(lm->graphs(), graphs);
}

TEST(CudaLm, TakesTheSameGraphHoweverManyKeysThereAre) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  picks(*lm, 0, 620, Want::kNothing);
  int graphs = 0;
  for (const int32_t rows : {3, 12, 20}) {
    for (const int32_t keys : {40, 300, 560})
      for (int again = 0; again < 2; ++again)
        picks(*lm, keys, rows, Want::kArgmax);  // the second is captured, where it is of a new shape
    EXPECT_EQ(lm->graphs(), ++graphs) << rows;
  }
}

// Rows that name a list of ids, or ask for statistics, or both, beside rows that do neither: what comes back is what their logits say.
TEST(CudaLm, ChoosesAmongListsAndTellsStatisticsWithoutLogits) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  picks(*lm, 0, 280, Want::kNothing);
  const int32_t vocab = lm->info().vocab;
  std::vector<TokenId> few{TokenId{3}}, half, last{TokenId{vocab - 1}};
  for (int32_t id = 0; id < vocab; id += 2) half.push_back(TokenId{id});
  const std::vector<std::span<const TokenId>> lists = {few, half, last};
  for (const int32_t n : {1, 9, 80, 150}) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i < n; ++i) {
      spans.push_back({0, 281 + i});
      rows.push_back({TokenId{(i * 37 + 5) % vocab}, Position::text(280 + i), 280 + i, static_cast<uint32_t>(i), 1, Want::kArgmax});
      if (i % 4 > 0) rows.back().allowed = i % 4 - 1;
      rows.back().statistics = i % 3 != 0;
    }
    PassOutput chosen, said;
    ASSERT_TRUE(lm->forward({rows, spans, {}, false, false, lists}, chosen));
    EXPECT_TRUE(chosen.logits_NV.empty());
    for (Row& row : rows) row.want = Want::kLogits;
    ASSERT_TRUE(lm->forward({rows, spans, {}, false, false, lists}, said));
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::optional<int32_t> allowed = rows[i].allowed;
      const RowChoice host =
          choose_from(said.logits_V(i), allowed ? lists[static_cast<size_t>(*allowed)] : std::span<const TokenId>());
      EXPECT_EQ(chosen.argmax[i], host.argmax) << i;
      if (!rows[i].statistics) continue;
      EXPECT_EQ(chosen.statistics[i].largest, host.statistics.largest);
      EXPECT_EQ(chosen.statistics[i].second, host.statistics.second);
      EXPECT_NEAR(chosen.statistics[i].log_sum_exp, host.statistics.log_sum_exp, 1e-5);
    }
  }
}

/// KeptLogits::draw by its definition.
TokenId draw_of(std::span<const float> logits_V, std::span<const uint64_t> bits_W, double temperature, double u) {
  std::vector<double> weights_V;
  double sum = 0, cumulative = 0;
  for (size_t i = 0; i < logits_V.size(); ++i) {
    const bool allowed = bits_W.empty() || (bits_W[i / 64] >> (i % 64) & 1) != 0;
    weights_V.push_back(allowed ? std::exp(logits_V[i] / temperature) : 0);
    sum += weights_V.back();
  }
  for (size_t i = 0; i < weights_V.size(); ++i)
    if ((cumulative += weights_V[i] / sum) > u) return TokenId{static_cast<int32_t>(i)};
  return TokenId{-1};
}

// Rows whose largest logits are asked for, beside others of each kind: what the lines of KeptLogits say is what their logits say.
TEST(CudaLm, KeepsLogitsOnTheDeviceAndTellsTheLargest) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  picks(*lm, 0, 280, Want::kNothing);
  const int32_t vocab = lm->info().vocab;
  for (const int32_t n : {1, 9, 9, 40, 80, 9}) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i < n; ++i) {
      spans.push_back({0, 281 + i});
      const Want want = i % 4 == 1             ? Want::kArgmax
                        : i % 4 == 2           ? Want::kLogits
                        : i % 4 == 3 && n < 80 ? Want::kNothing
                                               : Want::kLikely;
      rows.push_back({TokenId{(i * 37 + 5) % vocab}, Position::text(280 + i), 280 + i, static_cast<uint32_t>(i), 1, want});
    }
    PassOutput kept, said;
    ASSERT_TRUE(lm->forward({rows, spans}, kept));
    std::vector<std::vector<float>> lines;
    std::vector<float> sums;
    std::vector<std::vector<KeptLogits::Likely>> largest;
    std::vector<std::vector<std::optional<TokenId>>> drawn;
    const std::vector<uint64_t> bits(static_cast<size_t>(vocab + 63) / 64, 0x00FF'0F0F'3333'5555);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto line = kept.kept_line_of(i);
      ASSERT_EQ(line.has_value(), brings_logits(rows[i].want));
      ASSERT_EQ(kept.logits_row[i] >= 0, rows[i].want == Want::kLogits);
      if (line && rows[i].want == Want::kLogits) {
        EXPECT_TRUE(kept.kept->likeliest(*line).empty());
        const auto drawn_id = *kept.kept->draw(*line, {}, 1.5, 0.4);
        EXPECT_EQ(drawn_id, draw_of(kept.logits_V(i), {}, 1.5, 0.4)) << "those that came over are drawn from as well";
      }
      if (rows[i].want != Want::kLikely) continue;
      const auto likely = kept.kept->likeliest(*line);
      largest.emplace_back(likely.begin(), likely.end());
      sums.push_back(kept.kept->log_sum_exp(*line));
      auto& draws = drawn.emplace_back();
      for (const double u : {0.05, 0.5, 0.93}) {
        draws.push_back(*kept.kept->draw(*line, {}, 1.5, u));
        draws.push_back(*kept.kept->draw(*line, bits, 0.7, u));
      }
      const auto all = kept.kept->all(*line);
      ASSERT_TRUE(all);
      lines.emplace_back(all->begin(), all->end());
    }
    std::vector<uint8_t> likely_rows;
    for (Row& row : rows) {
      likely_rows.push_back(row.want == Want::kLikely);
      if (row.want != Want::kNothing) row.want = Want::kLogits;
    }
    ASSERT_TRUE(lm->forward({rows, spans}, said));
    size_t at = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].want == Want::kNothing) continue;
      EXPECT_EQ(kept.argmax[i], said.argmax[i]);
      if (likely_rows[i] == 0) continue;
      const auto logits_V = said.logits_V(i);
      ASSERT_TRUE(std::ranges::equal(lines[at], logits_V)) << n << " " << i;
      const RowChoice host = choose_from(logits_V, {});
      EXPECT_NEAR(sums[at], host.statistics.log_sum_exp, 1e-5);
      ASSERT_EQ(largest[at].size(), 16u);
      EXPECT_EQ(largest[at][0].id, host.argmax);
      for (size_t k = 0; k < largest[at].size(); ++k) {
        EXPECT_EQ(largest[at][k].logit, logits_V[static_cast<size_t>(largest[at][k].id.value)]);
        const auto more = std::ranges::count_if(logits_V, [&](float x) { return x > largest[at][k].logit; });
        EXPECT_LE(static_cast<size_t>(more), k);
      }
      size_t d = 0;
      for (const double u : {0.05, 0.5, 0.93}) {
        EXPECT_EQ(drawn[at][d++], draw_of(logits_V, {}, 1.5, u));
        EXPECT_EQ(drawn[at][d++], draw_of(logits_V, bits, 0.7, u));
      }
      ++at;
    }
  }
}

TEST(CudaLm, DraftAdapterAndTapsAreTheProcessorsUpToRounding) {
  ThreadPool pool(1);
  const fs::path folder = fixtures() / "models" / "nemotron_labs_diffusion";
  ModelConfig config;
  DecoderWeights weights = read_weights("nemotron_labs_diffusion", config, pool);
  weights.adapter = *load_draft_adapter(folder / kDraftAdapterFolder, config.decoder, WeightType::kBF16, pool);
  const auto here = *CudaLm::create(device(), config.decoder, weights, kSlots, pool);
  const auto there = *DecoderLm::create(config.decoder, std::move(weights), kSlots, pool);
  const RowsFile file = rows_of({"nemotron_labs_diffusion", "causal"});
  const std::vector<float> with = logits(*here, file, {.draft_adapter = true}), without = logits(*here, file);
  const std::vector<float> ref_with = logits(*there, file, {.draft_adapter = true}), ref_without = logits(*there, file);
  // What the adapter does is many times what rounding does.
  EXPECT_LT(root_mean_square(with, ref_with), 0.1 * root_mean_square(ref_with, ref_without));
  EXPECT_LT(root_mean_square(without, ref_without), 0.1 * root_mean_square(ref_with, ref_without));
  const std::vector<int32_t> none = {0, config.decoder.layers};
  ASSERT_FALSE(there->set_taps(none));
  EXPECT_EQ(here->set_taps(none).error().message, there->set_taps(none).error().message);
  const std::vector<int32_t> taps = {1, 0};
  for (Lm* lm : {static_cast<Lm*>(here.get()), static_cast<Lm*>(there.get())}) ASSERT_TRUE(lm->set_taps(taps));
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < 11; ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({TokenId{i + 3}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kNothing});
  }
  PassOutput mine, theirs;
  ASSERT_TRUE(here->forward({rows, spans, {}, false, true}, mine));
  ASSERT_TRUE(there->forward({rows, spans, {}, false, true}, theirs));
  ASSERT_EQ(mine.taps_NE.size(), theirs.taps_NE.size());
  const std::vector<float> zeros(theirs.taps_NE.size(), 0.0F);
  EXPECT_LT(root_mean_square(mine.taps_NE, theirs.taps_NE), 0.01 * root_mean_square(theirs.taps_NE, zeros));
}

// What was kept of a prompt is trusted only while nobody else ran the model, and statistics belong to one pass.
TEST(CudaLm, CountsPassesAndForgetsTheLastOnesStatistics) {
  ThreadPool pool(1);
  const auto lm = on_device("qwen3", pool);
  const Row row{.input = TokenId{1}, .position = Position::text(0), .slot = 0, .sees_count = 1, .want = Want::kArgmax};
  const std::vector<SlotSpan> spans = {{0, 1}};
  PassOutput out;
  out.statistics.resize(3);
  const uint64_t before = lm->passes();
  ASSERT_TRUE(lm->forward({{&row, 1}, spans}, out));
  EXPECT_NE(lm->passes(), before);
  EXPECT_TRUE(out.statistics.empty());
}

// A device has the processor's integers and scales: it gives what bf16 gives whose weights are those products of both, but for their rounding.
TEST(CudaLm, IntegersAreTheProcessors) {
  ThreadPool pool(1);
  for (const WeightType type : {WeightType::kI8, WeightType::kI4}) {
    ModelConfig config;
    const DecoderWeights weights = read_weights("qwen3", config, pool, type);
    const PackedMatrix& w = weights.layers.front().gate_up;
    const auto opened = device();
    const auto on = upload_gate_up(*opened, w, pool);
    ASSERT_TRUE(on) << on.error().message;
    const Tiles& t = on->tiles;
    ASSERT_NE(t.scale_N, nullptr);
    const size_t bytes = static_cast<size_t>(t.tiles) * static_cast<size_t>(t.steps) * kTileNumbers;
    std::vector<uint8_t> held(bytes);
    std::vector<float> scales(static_cast<size_t>(t.tiles) * kTileChannels), row(static_cast<size_t>(w.k()));
    ASSERT_TRUE(opened->copy_out(held.data(), t.data, bytes));
    ASSERT_TRUE(opened->copy_out(scales.data(), t.scale_N, scales.size() * sizeof(float)));
    ASSERT_TRUE(opened->wait());
    for (int64_t f = 0; f < w.n() / 2; ++f)
      for (const bool up : {false, true}) {
        const auto place = static_cast<size_t>(f / 8 * 16 + (up ? 8 : 0) + f % 8);
        w.row(up ? w.n() / 2 + f : f, row);
        for (size_t k = 0; k < row.size(); ++k) {
          const size_t tile = place / kTileChannels * static_cast<size_t>(t.steps) + k / kInnerStep;
          const auto at = byte_place(static_cast<int>(place % kTileChannels), static_cast<int>(k % kInnerStep));
          const int number = held[tile * kTileNumbers + static_cast<size_t>(at)] - kByteZero;
          ASSERT_EQ(static_cast<float>(number) * scales[place], row[k]) << word_of_type(type) << " " << f << " " << k;
        }
      }
  }
}

TEST(CudaLm, RefusesWhatItCannotRun) {
  ThreadPool pool(1);
  ModelConfig config;
  const DecoderWeights wide = read_weights("qwen3", config, pool, WeightType::kF32);
  const auto refused = CudaLm::create(device(), config.decoder, wide, kSlots, pool);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("expected bf16, int8 or int4 weights (--dtype bf16), got f32"));
  const auto lm = on_device("qwen3", pool);
  Row row{TokenId{lm->info().vocab}, Position::text(0), 0, 0, 1, Want::kArgmax};
  const std::vector<SlotSpan> spans = {{0, 1}};
  PassOutput out;
  EXPECT_EQ(lm->forward({{&row, 1}, spans}, out).error().kind, ErrorKind::kBadInput);
  row = {TokenId{1}, Position::text(0), kSlots, 0, 1, Want::kArgmax};
  EXPECT_EQ(lm->forward({{&row, 1}, spans}, out).error().kind, ErrorKind::kResource);
  EXPECT_EQ(Device::open(1000).error().kind, ErrorKind::kResource);
}

}  // namespace
}  // namespace slip::cuda
