// SPDX-License-Identifier: Apache-2.0
// Decoder and tower against transformers' numbers (max |d| <= 2e-5 (1 + |ref|) in f32, intermediates included),
// and contract W through the rows file: the same bits whatever the passes, the threads and the slots.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "models/adapter.h"
#include "models/config/config.h"
#include "models/loader.h"
#include "models/reference_testing.h"
#include "models/rows_file.h"

namespace slip {
namespace {

using test::distance, test::kTolerance, test::tensor, test::tensors;

namespace fs = std::filesystem;
const fs::path kFixtures = SLIP_FIXTURES;

// A fixture's model with as many slots as its cases need.
struct Loaded {
  std::unique_ptr<ThreadPool> pool;
  ModelConfig config;
  std::unique_ptr<DecoderLm> lm;
  std::unique_ptr<QwenVision> vision;
  std::vector<std::string> notes;
};

Loaded load(const fs::path& folder, WeightType type = WeightType::kF32, int threads = 1, int32_t slots = 512) {
  Loaded m;
  m.pool = std::make_unique<ThreadPool>(threads);
  auto config = read_model_config(folder);
  EXPECT_TRUE(config) << config.error().message;
  m.config = *config;
  auto checkpoint = Checkpoint::open_folder(folder);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  auto weights = load_weights(*checkpoint, m.config, type, slots, *m.pool);
  EXPECT_TRUE(weights) << weights.error().message;
  m.notes = weights->notes;
  if (weights->vision) m.vision = std::make_unique<QwenVision>(*m.config.vision, std::move(*weights->vision), *m.pool);
  if (fs::exists(folder / kDraftAdapterFolder)) {
    auto adapter = load_draft_adapter(folder / kDraftAdapterFolder, m.config.decoder, type, *m.pool);
    EXPECT_TRUE(adapter) << adapter.error().message;
    weights->decoder.adapter = std::move(*adapter);
  }
  auto lm = DecoderLm::create(m.config.decoder, std::move(weights->decoder), slots, *m.pool);
  EXPECT_TRUE(lm) << lm.error().message;
  m.lm = std::move(*lm);
  return m;
}

// The stored pixels of the fixture's images, so that these tests do not depend on preprocessing.
std::vector<PatchGrid> stored_pixels(const Checkpoint& c, const VisionConfig& vision) {
  std::vector<PatchGrid> images;
  const std::vector<float> values = tensor(c, "pixel_values");
  const std::vector<float> grid = tensor(c, "grid_thw");
  auto first = values.begin();
  for (size_t i = 0; i < grid.size(); i += 3) {
    PatchGrid g{static_cast<int>(grid[i]),
                static_cast<int>(grid[i + 1]),
                static_cast<int>(grid[i + 2]),
                vision.patch_numbers(),
                vision.merge,
                {}};
    const auto last = first + int64_t{g.patches()} * g.patch_dim;
    g.values.assign(first, last);
    first = last;
    images.push_back(std::move(g));
  }
  return images;
}

RowFeatures features_of(Loaded& m, const fs::path& folder) {
  RowFeatures out;
  if (!m.vision) return out;
  const Checkpoint c = tensors(folder / "expected_images.safetensors");
  const std::vector<PatchGrid> images = stored_pixels(c, *m.config.vision);
  const Status encoded = m.vision->encode(images, out.features.numbers_ND);
  EXPECT_TRUE(encoded) << encoded.error().message;
  int32_t end = 0;
  for (const PatchGrid& g : images) out.ends.push_back(end += static_cast<int32_t>(g.merged()));
  return out;
}

RowsFile rows_of(const fs::path& file) {
  auto rows = read_rows_file(file);
  EXPECT_TRUE(rows) << rows.error().message;
  return *rows;
}

std::vector<float> logits_of(Loaded& m, const RowsFile& rows, const RowFeatures& features, const RowsRun& run = {}) {
  auto logits = forward_rows(*m.lm, rows, features, run);
  EXPECT_TRUE(logits) << logits.error().message;
  return logits ? *logits : std::vector<float>{};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<std::string> cases_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    if (stem.starts_with("rows_")) names.push_back(stem.substr(5));
  }
  std::sort(names.begin(), names.end());
  EXPECT_FALSE(names.empty());
  return names;
}

// Cases that end so are run with the folder's draft adapter.
bool with_adapter(const std::string& name) { return name.ends_with("_lora"); }

class ModelFixture : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return kFixtures / "models" / GetParam(); }
};

TEST_P(ModelFixture, EveryCaseMatchesTheReferenceLayerByLayer) {
  Loaded m = load(folder());
  const RowFeatures features = features_of(m, folder());
  for (const std::string& name : cases_of(folder())) {
    const RowsFile rows = rows_of(folder() / ("rows_" + name + ".json"));
    const Checkpoint expected = tensors(folder() / ("expected_" + name + ".safetensors"));
    std::map<std::string, std::vector<float>> taps;
    m.lm->set_tap(
        [&](std::string_view tap, std::span<const float> x, int64_t) { taps[std::string(tap)].assign(x.begin(), x.end()); });
    const std::vector<float> logits = logits_of(m, rows, features, {0, {}, with_adapter(name)});
    m.lm->set_tap({});
    double worst = distance(logits, tensor(expected, "logits_TV"));
    EXPECT_LE(worst, kTolerance) << name << " logits_TV";
    EXPECT_EQ(taps.size(), static_cast<size_t>(m.config.decoder.layers) + 2);
    for (const auto& [tap, x] : taps) {
      const double d = distance(x, tensor(expected, tap));
      EXPECT_LE(d, kTolerance) << name << ' ' << tap;
      worst = std::max(worst, d);
    }
    RecordProperty(name, std::to_string(worst));
    std::printf("%s %s: largest |d| / (1 + |ref|) %.2g\n", GetParam().c_str(), name.c_str(), worst);
    EXPECT_TRUE(same_bits(logits, logits_of(m, rows, features, {0, {}, with_adapter(name)}))) << "the tap changed bits";
  }
}

TEST_P(ModelFixture, SplittingThePassesThreadsAndSlotsKeepTheBits) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16}) {
    Loaded one = load(folder(), type, 1);
    Loaded two = load(folder(), type, 2);
    const RowFeatures features = features_of(one, folder());
    EXPECT_EQ(features.features.numbers_ND, features_of(two, folder()).features.numbers_ND);
    for (const std::string& name : cases_of(folder())) {
      const RowsFile rows = rows_of(folder() / ("rows_" + name + ".json"));
      const bool lora = with_adapter(name);
      const std::vector<float> whole = logits_of(one, rows, features, {0, {}, lora});
      for (const int64_t split : {1, 3, 7}) {
        EXPECT_TRUE(same_bits(whole, logits_of(one, rows, features, {split, {}, lora}))) << name << " split " << split;
        EXPECT_TRUE(same_bits(whole, logits_of(two, rows, features, {split, {}, lora}))) << name << " two threads, split " << split;
      }
      EXPECT_TRUE(same_bits(whole, logits_of(two, rows, features, {0, {}, lora}))) << name << " two threads";
      std::vector<int32_t> slots(rows.rows.size());  // 7 is prime to 512: no slot twice, neighbours far apart
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>((i * 7 + 300) % 512);
      EXPECT_TRUE(same_bits(whole, logits_of(two, rows, features, {3, slots, lora}))) << name << " other slots";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelFixture,
                         ::testing::Values("qwen2", "qwen3", "qwen2_5_vl", "qwen2_5_vl_flat", "llama", "llama3", "mistral",
                                           "ministral3", "ministral3_ramp", "nemotron_labs_diffusion"),
                         [](const auto& info) { return info.param; });

class VisionFixture : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return kFixtures / "models" / GetParam(); }
};

TEST_P(VisionFixture, EveryBlockAndTheFeaturesMatchTheReference) {
  Loaded m = load(folder());
  ASSERT_TRUE(m.vision);
  const Checkpoint c = tensors(folder() / "expected_images.safetensors");
  const std::vector<PatchGrid> images = stored_pixels(c, *m.config.vision);
  int taps = 0;
  m.vision->set_tap([&](std::string_view name, std::span<const float> x, int64_t) {
    ++taps;
    EXPECT_LE(distance(x, tensor(c, std::string(name))), kTolerance) << name;
  });
  std::vector<float> features;
  const Status encoded = m.vision->encode(images, features);
  ASSERT_TRUE(encoded) << encoded.error().message;
  EXPECT_EQ(taps, m.config.vision->depth + 1);
  std::vector<float> expected;
  for (size_t k = 0; k < images.size(); ++k) {
    const std::vector<float> one = tensor(c, "features_" + std::to_string(k));
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const double worst = distance(features, expected);
  EXPECT_LE(worst, kTolerance);
  std::printf("%s features: largest |d| / (1 + |ref|) %.2g\n", GetParam().c_str(), worst);
}

TEST_P(VisionFixture, AnImageHasTheSameFeaturesAloneAndInCompany) {
  Loaded m = load(folder(), WeightType::kBF16, 2);
  const Checkpoint c = tensors(folder() / "expected_images.safetensors");
  const std::vector<PatchGrid> images = stored_pixels(c, *m.config.vision);
  std::vector<float> together, alone, one;
  ASSERT_TRUE(m.vision->encode(images, together));
  for (const PatchGrid& g : images) {
    ASSERT_TRUE(m.vision->encode({&g, 1}, one));
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_TRUE(same_bits(together, alone));
}

TEST_P(VisionFixture, GridsThatDoNotFitTheirPixelsAreRefused) {
  Loaded m = load(folder());
  std::vector<float> features;
  const std::vector<float> some(100);
  for (const PatchGrid& g :
       {PatchGrid{1, 2, 2, 1176, 2, some}, PatchGrid{1, 3, 2, 1176, 2, some}, PatchGrid{0, 2, 2, 1176, 2, some},
        PatchGrid{1, 1 << 30, 1 << 30, 1176, 2, some}, PatchGrid{1, -2, -2, 1176, 2, {}}}) {
    const Status refused = m.vision->encode({&g, 1}, features);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  }
  ASSERT_TRUE(m.vision->encode({}, features));
  EXPECT_TRUE(features.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, VisionFixture, ::testing::Values("qwen2_5_vl", "qwen2_5_vl_flat"),
                         [](const auto& info) { return info.param; });

// Published order for a 6 x 10 grid of cells in windows of 4 (block by block, ragged at the right and below).
TEST(WindowOrder, RaggedWindowsHoldTheirValidCellsOnly) {
  const WindowOrder order = window_order(1, 6, 10, 4);
  EXPECT_EQ(order.ends, (std::vector<int32_t>{16, 32, 40, 48, 56, 60}));
  const std::vector<int32_t> start = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33, 4, 5, 6, 7, 14};
  EXPECT_TRUE(std::equal(start.begin(), start.end(), order.cells.begin()));
  const std::vector<int32_t> end = {44, 45, 46, 47, 54, 55, 56, 57, 48, 49, 58, 59};
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), order.cells.rbegin()));
}

TEST(WindowOrder, ExactMultiplesMakeNoEmptyWindowAndFramesFollowEachOther) {
  const WindowOrder order = window_order(2, 4, 4, 4);
  EXPECT_EQ(order.ends, (std::vector<int32_t>{16, 32}));
  std::vector<int32_t> identity(32);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_EQ(order.cells, identity);
}

class DecodeRows : public ::testing::TestWithParam<std::string> {};

TEST_P(DecodeRows, EveryVisibilityMatchesTheReferenceAtEverySplit) {
  Loaded m = load(kFixtures / "decode/models" / GetParam());
  const fs::path folder = kFixtures / "decode/rows";
  const Checkpoint expected = tensors(folder / "logits.safetensors");
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    const RowsFile rows = rows_of(entry.path());
    const std::vector<float> whole = logits_of(m, rows, {});
    EXPECT_LE(distance(whole, tensor(expected, GetParam() + "/" + name)), kTolerance) << name;
    for (const int64_t split : {1, 3, 7})
      EXPECT_TRUE(same_bits(whole, logits_of(m, rows, {}, {split, {}}))) << name << ' ' << split;
    ++cases;
  }
  EXPECT_GE(cases, 10);
}

INSTANTIATE_TEST_SUITE_P(Models, DecodeRows, ::testing::Values("same", "shift"), [](const auto& info) { return info.param; });

TEST(DecodeModels, DraftRuleIsReadFromTheConfig) {
  const auto same = read_model_config(kFixtures / "decode/models/same");
  const auto shift = read_model_config(kFixtures / "decode/models/shift");
  ASSERT_TRUE(same);
  ASSERT_TRUE(shift);
  EXPECT_FALSE(same->decoder.rule.shift);
  EXPECT_TRUE(shift->decoder.rule.shift);
  EXPECT_EQ(shift->decoder.rule.block_size, 8);
  EXPECT_EQ(shift->decoder.rule.mask, TokenId{1});
  EXPECT_EQ(shift->decoder.rule.null_token, TokenId{2});
  EXPECT_FALSE(shift->decoder.rule.block_causal_context);
}

// ---- DecoderLm: what a pass may ask for ----

struct QuestionedLm : ::testing::Test {
  Loaded m = load(kFixtures / "models/qwen2", WeightType::kF32, 2, 16);
  std::vector<SlotSpan> spans = {{0, 1}, {0, 2}, {0, 0}, {0, 17}};
  PassOutput out;

  ErrorKind refusal(Row row, std::span<const SlotSpan> seen) {
    const Status s = m.lm->forward({{&row, 1}, seen}, out);
    EXPECT_FALSE(s);
    return s ? ErrorKind::kInternal : s.error().kind;
  }
};

TEST_F(QuestionedLm, RefusesWhatIsOutsideVocabularyArenaOrSight) {
  const auto sees = std::span<const SlotSpan>(spans).first(3);
  const Row good{TokenId{5}, Position::text(0), 0, 0, 1, Want::kArgmax};
  ASSERT_TRUE(m.lm->forward({{&good, 1}, sees}, out));
  const auto with = [&](auto change) {
    Row row = good;
    change(row);
    return row;
  };
  EXPECT_EQ(refusal(with([](Row& r) { r.input = TokenId{300}; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(with([](Row& r) { r.input = TokenId{-1}; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(with([](Row& r) { r.input = Feature{0}; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(with([](Row& r) { r.slot = 16; }), sees), ErrorKind::kResource);
  EXPECT_EQ(refusal(with([](Row& r) { r.slot = -1; }), sees), ErrorKind::kResource);
  EXPECT_EQ(refusal(with([](Row& r) { r.sees_count = 0; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(with([](Row& r) { r.sees_first = 2; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(with([](Row& r) { r.sees_count = 4; }), sees), ErrorKind::kBadInput);
  EXPECT_EQ(refusal(good, spans), ErrorKind::kBadInput);
  const std::vector<Row> twice = {good, good};
  EXPECT_FALSE(m.lm->forward({twice, sees}, out));
  EXPECT_TRUE(m.lm->forward({{}, {}}, out));
}

TEST_F(QuestionedLm, ARowWithoutANumberGetsTheLowestIdAndIsCounted) {
  std::vector<float> features(static_cast<size_t>(m.lm->info().hidden_size), 0.1F);
  features[3] = std::numeric_limits<float>::quiet_NaN();
  for (const Want want : {Want::kArgmax, Want::kLogits}) {
    std::vector<Row> rows;
    for (int32_t i = 0; i < 3; ++i) rows.push_back({TokenId{5 + i}, Position::text(i), i, static_cast<uint32_t>(i), 1, want});
    const std::vector<SlotSpan> own = {{0, 1}, {1, 2}, {2, 3}};
    ASSERT_TRUE(m.lm->forward({rows, own}, out));
    EXPECT_EQ(out.nan_rows, 0);
    const std::vector<TokenId> good = out.argmax;
    rows[1].input = Feature{0};
    ASSERT_TRUE(m.lm->forward({rows, own, features}, out));
    EXPECT_EQ(out.nan_rows, 1);
    EXPECT_EQ(out.argmax, (std::vector<TokenId>{good[0], {0}, good[2]}));
    rows[1].want = Want::kNothing;
    ASSERT_TRUE(m.lm->forward({rows, own, features}, out));
    EXPECT_EQ(out.nan_rows, 0) << "nobody asked";
  }
}

TEST_F(QuestionedLm, ArgmaxIsTheLargestLogitAndRowsThatWantNothingChangeNothing) {
  std::vector<Row> rows;
  std::vector<SlotSpan> causal;
  for (int32_t i = 0; i < 12; ++i) {
    causal.push_back({0, i + 1});
    rows.push_back({TokenId{(i * 37) % 300}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
  }
  ASSERT_TRUE(m.lm->forward({rows, causal}, out));
  const PassOutput all = out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto logits = all.logits_V(i);
    EXPECT_EQ(all.argmax[i].value, std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  for (size_t i = 0; i < rows.size(); ++i) rows[i].want = i % 3 == 0 ? Want::kNothing : i % 3 == 1 ? Want::kArgmax : Want::kLogits;
  ASSERT_TRUE(m.lm->forward({rows, causal}, out));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % 3 != 0) {
      EXPECT_EQ(out.argmax[i], all.argmax[i]) << i;
    }
    if (i % 3 != 2) {
      EXPECT_EQ(out.logits_row[i], -1);
    }
    if (i % 3 == 2) {
      EXPECT_EQ(std::memcmp(out.logits_V(i).data(), all.logits_V(i).data(), 300 * sizeof(float)), 0) << i;
    }
  }
  for (Row& row : rows) row.want = Want::kNothing;
  ASSERT_TRUE(m.lm->forward({rows, causal}, out));
  EXPECT_TRUE(out.logits_NV.empty());
}

}  // namespace
}  // namespace slip
