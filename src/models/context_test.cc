// SPDX-License-Identifier: Apache-2.0
// Long contexts through a cache that is forked and cropped: YaRN, query scale and windows go by a row's own position and order, so
// every row has the bits that a fresh run of its strand gives it. And Qwen's windows from a layer on, against windows written out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "base/file.h"
#include "models/loader.h"
#include "nn/decoder.h"
#include "nn/window.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

using Lines = std::vector<std::vector<float>>;

struct Strand {
  std::vector<int32_t> tokens, slots;
  std::vector<int32_t> positions = {};  // empty: 0, 1, ...
};

struct Loaded {
  std::unique_ptr<ThreadPool> pool = std::make_unique<ThreadPool>(2);
  std::unique_ptr<DecoderLm> lm;

  explicit Loaded(const fs::path& weights, const json::value& config_json, WeightType type = WeightType::kBF16) {
    auto config = parse_model_config(config_json, "config.json");
    EXPECT_TRUE(config) << config.error().message;
    auto checkpoint = Checkpoint::open_folder(weights);
    auto loaded = load_weights(*checkpoint, *config, type, 512, *pool);
    EXPECT_TRUE(loaded) << loaded.error().message;
    auto made = DecoderLm::create(config->decoder, std::move(loaded->decoder), 512, *pool);
    EXPECT_TRUE(made);
    lm = std::move(*made);
  }
  explicit Loaded(const std::string& name) : Loaded(kModels / name, *read_json(kModels / name / "config.json")) {}

  /// Rows [first, last) of strands that see their own past, in one pass; logits per strand and row.
  std::vector<Lines> run(const std::vector<const Strand*>& strands, size_t first, size_t last) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (const Strand* s : strands) {
      for (size_t i = first; i < last; ++i) {
        const auto begin = static_cast<uint32_t>(spans.size());
        for (size_t k = 0; k <= i; ++k) {
          const int32_t slot = s->slots[k];
          if (spans.size() > begin && spans.back().end == slot) {
            ++spans.back().end;
          } else {
            spans.push_back({slot, slot + 1});
          }
        }
        const int32_t position = s->positions.empty() ? static_cast<int32_t>(i) : s->positions[i];
        rows.push_back({TokenId{s->tokens[i]}, Position::text(position), s->slots[i], begin,
                        static_cast<uint32_t>(spans.size()) - begin, Want::kLogits});
      }
    }
    PassOutput out;
    const Status done = lm->forward({rows, spans}, out);
    EXPECT_TRUE(done) << done.error().message;
    std::vector<Lines> lines(strands.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto line = out.logits_V(i);
      lines[i / (last - first)].emplace_back(line.begin(), line.end());
    }
    return lines;
  }
};

std::vector<int32_t> tokens(int32_t n, int32_t seed) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < n; ++i) out.push_back((i * 37 + seed * 101 + i * i) % 190 + 3);
  return out;
}
std::vector<int32_t> slots(int32_t n, int32_t from) {
  std::vector<int32_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), from);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class LongContext : public ::testing::TestWithParam<std::string> {};

// 48 rows in front pass YaRN's 32 original positions and Mistral's window of 16.
TEST_P(LongContext, ForksHaveTheBitsOfFreshRuns) {
  constexpr int32_t kPrefix = 48, kTail = 9;
  Loaded m(GetParam());
  Strand a{tokens(kPrefix + kTail, 1), slots(kPrefix + kTail, 0)}, b = a;
  for (int32_t i = 0; i < kTail; ++i) {
    b.tokens[static_cast<size_t>(kPrefix + i)] = 5 + 7 * i;
    b.slots[static_cast<size_t>(kPrefix + i)] = 300 + 3 * i;  // holes: a slot is no position
  }
  m.run({&a}, 0, kPrefix);
  const std::vector<Lines> forked = m.run({&a, &b}, kPrefix, kPrefix + kTail);
  for (size_t k = 0; k < 2; ++k) {
    Loaded fresh(GetParam());
    Strand s = k == 0 ? a : b;
    s.slots = slots(kPrefix + kTail, 100);
    const Lines alone = fresh.run({&s}, 0, kPrefix + kTail)[0];
    for (size_t i = 0; i < kTail; ++i) EXPECT_TRUE(same_bits(forked[k][i], alone[kPrefix + i])) << k << ' ' << i;
  }
}

TEST_P(LongContext, CroppedCachesHaveTheBitsOfFreshRuns) {
  constexpr int32_t kLength = 60;
  Loaded m(GetParam()), fresh(GetParam());
  const Strand wanted{tokens(kLength, 2), slots(kLength, 0)};
  Strand rejected = wanted;
  for (size_t i = 30; i < 50; ++i) rejected.tokens[i] = 199 - static_cast<int32_t>(i);
  m.run({&rejected}, 0, 50);  // drafts that fail: their slots are written again
  const Lines cropped = m.run({&wanted}, 30, kLength)[0], whole = fresh.run({&wanted}, 0, kLength)[0];
  for (size_t i = 30; i < kLength; ++i) EXPECT_TRUE(same_bits(cropped[i - 30], whole[i])) << i;
}

// A row's rotation and query scale are its position's, wherever the row stands in the cache.
TEST_P(LongContext, PositionsThatJumpGiveTheSameBitsAtEverySplit) {
  constexpr int32_t kLength = 40;
  Loaded m(GetParam()), other(GetParam());
  Strand s{tokens(kLength, 3), slots(kLength, 7)};
  for (int32_t i = 0; i < kLength; ++i) s.positions.push_back(i < 10 ? i : i < 25 ? 70 + i : 5000 + i);
  const Lines whole = m.run({&s}, 0, kLength)[0];
  s.slots = slots(kLength, 400);
  for (size_t i = 0; i < kLength; ++i) EXPECT_TRUE(same_bits(other.run({&s}, i, i + 1)[0][0], whole[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, LongContext,
                         ::testing::Values("ministral3", "ministral3_ramp", "nemotron_labs_diffusion", "mistral", "llama3",
                                           "qwen2"),
                         [](const auto& info) { return info.param; });

// ---- windows from a layer on

struct QwenWindow : ::testing::Test {
  static constexpr int32_t kLength = 40, kWindow = 6;
  static Loaded with(int32_t from) {
    json::value config = *read_json(kModels / "qwen2/config.json");
    json::object& o = config.as_object();
    o["use_sliding_window"] = true;
    o["sliding_window"] = kWindow;
    o["max_window_layers"] = from;
    o.erase("layer_types");
    return Loaded(kModels / "qwen2", config, WeightType::kF32);
  }
  // Rows with the window of every row written out, or not.
  static std::vector<float> logits(Loaded& m, bool written, std::map<std::string, std::vector<float>>* taps = nullptr) {
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    const std::vector<int32_t> ids = tokens(kLength, 4);
    for (int32_t i = 0; i < kLength; ++i) {
      spans.push_back({written ? std::max(0, i - kWindow + 1) : 0, i + 1});
      rows.push_back({TokenId{ids[static_cast<size_t>(i)]}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
    }
    if (taps)
      m.lm->set_tap(
          [&](std::string_view name, std::span<const float> x, int64_t) { (*taps)[std::string(name)].assign(x.begin(), x.end()); });
    PassOutput out;
    EXPECT_TRUE(m.lm->forward({rows, spans}, out));
    m.lm->set_tap({});
    return out.logits_NV;
  }
};

TEST_F(QwenWindow, InEveryLayerItIsTheWindowWrittenOut) {
  Loaded full("qwen2"), sliding = with(0);
  Loaded plain(kModels / "qwen2", *read_json(kModels / "qwen2/config.json"), WeightType::kF32);
  EXPECT_TRUE(same_bits(logits(sliding, false), logits(plain, true)));
  EXPECT_TRUE(same_bits(logits(sliding, true), logits(plain, true)));
  EXPECT_FALSE(same_bits(logits(sliding, false), logits(plain, false)));
}

TEST_F(QwenWindow, FromALayerOnTheLayersBeforeSeeEverything) {
  Loaded plain(kModels / "qwen2", *read_json(kModels / "qwen2/config.json"), WeightType::kF32), half = with(1);
  ASSERT_EQ(half.lm->options().slides_L, (std::vector<uint8_t>{0, 1}));
  std::map<std::string, std::vector<float>> all, some;
  const std::vector<float> full = logits(plain, false, &all), from_one = logits(half, false, &some);
  EXPECT_TRUE(same_bits(all["layer_0_TD"], some["layer_0_TD"]));
  EXPECT_FALSE(same_bits(all["layer_1_TD"], some["layer_1_TD"]));
  EXPECT_FALSE(same_bits(full, from_one));
  EXPECT_FALSE(same_bits(logits(plain, true), from_one));
}

TEST_F(QwenWindow, BeyondTheLastLayerThereIsNone) { EXPECT_EQ(with(2).lm->options().window, 0); }

}  // namespace
}  // namespace slip
