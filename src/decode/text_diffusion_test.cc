// SPDX-License-Identifier: Apache-2.0
// Block diffusion over free text against the plain algorithm, written again in whole passes over the sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "decode/decoder.h"
#include "decode/testing/decode_testing.h"
#include "decode/testing/hash_lm_testing.h"
#include "decode/types/capacity.h"

namespace slip::test {
namespace {

constexpr TokenId kMask{1};

Method diffusion(int32_t width, float threshold) {
  Method m = *method_of("text-diffusion");
  m.draft_length.tokens = width;
  m.verifier = ConfidenceSpec{threshold};
  return m;
}

Prompt prompt_of(int32_t n) {
  Prompt p;
  for (int32_t i = 0; i < n; ++i) {
    p.inputs.emplace_back(TokenId{4 + i % 7});
    p.positions.push_back(Position::text(i));
  }
  p.next_position = n;
  return p;
}

/// Argmax and its probability in double, from logits.
std::pair<TokenId, double> best(std::span<const float> z) {
  const auto at = std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const float x : z) sum += std::exp(static_cast<double>(x) - static_cast<double>(*at));
  return {TokenId{static_cast<int32_t>(at - z.begin())}, 1 / sum};
}

/// The paper's loop over a list of tokens. Before every pass all that is causal is written anew, so nothing is a cache's doing.
class Plain {
 public:
  Plain(Lm& lm, const Prompt& prompt) : lm_(lm), prompt_(prompt) {}

  std::vector<TokenId> run(int32_t width, double threshold, int32_t limit, TokenId end) {
    std::vector<TokenId> text;
    while (static_cast<int32_t>(text.size()) < limit) {
      const size_t begin = text.size(), n = std::min<size_t>(static_cast<size_t>(width), static_cast<size_t>(limit) - begin);
      text.push_back(best(logits(text, text.size(), text.size())[0]).first);  // of the row before the block
      text.resize(begin + n, kMask);
      std::vector<uint8_t> masked(n, 1);
      masked[0] = 0;
      while (std::count(masked.begin(), masked.end(), 1) > 0 && !complete(text, begin, masked, end))
        step(text, begin, masked, threshold);
      const auto at = std::find(text.begin() + static_cast<ptrdiff_t>(begin), text.end(), end);
      if (at != text.end()) {
        text.erase(at + 1, text.end());
        return text;
      }
    }
    return text;
  }

 private:
  static bool complete(const std::vector<TokenId>& text, size_t begin, const std::vector<uint8_t>& masked, TokenId end) {
    for (size_t i = 0; i < masked.size() && masked[i] == 0; ++i)
      if (text[begin + i] == end) return true;
    return false;
  }

  void step(std::vector<TokenId>& text, size_t begin, std::vector<uint8_t>& masked, double threshold) {
    const auto z = logits(text, begin, text.size());
    const size_t shift = lm_.info().rule.shift ? 1 : 0;
    size_t top = 0;
    double most = -1;
    bool above = false;
    std::vector<std::pair<TokenId, double>> picks(masked.size());
    for (size_t i = 0; i < masked.size(); ++i) {
      if (!masked[i]) continue;
      picks[i] = best(z[i - shift]);
      above |= picks[i].second > threshold;
      if (picks[i].second > most) most = picks[top = i].second;
    }
    for (size_t i = 0; i < masked.size(); ++i) {
      if (!masked[i] || (above ? picks[i].second <= threshold : i != top)) continue;
      text[begin + i] = picks[i].first;
      masked[i] = 0;
    }
  }

  /// Rows of the text from `begin` on in one pass that see each other; the row before `begin` alone where that is the end.
  std::vector<std::vector<float>> logits(const std::vector<TokenId>& text, size_t begin, size_t end) {
    const auto p = static_cast<int32_t>(prompt_.inputs.size());
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    const auto flush = [&](PassOutput& out) {
      const Status ran = lm_.forward({.rows = rows, .spans = spans}, out);
      EXPECT_TRUE(ran) << ran.error().message;
      rows.clear();
      spans.clear();
    };
    const auto add = [&](TokenId id, int32_t at, int32_t sees_end, Want want) {
      rows.push_back({.input = id,
                      .position = Position::text(at),
                      .slot = at,
                      .sees_first = static_cast<uint32_t>(spans.size()),
                      .sees_count = 1,
                      .want = want});
      spans.push_back({0, sees_end});
    };
    PassOutput out;
    const auto known = p + static_cast<int32_t>(begin);
    for (int32_t i = 0; i < known; ++i)
      add(i < p ? std::get<TokenId>(prompt_.inputs[static_cast<size_t>(i)]) : text[static_cast<size_t>(i - p)], i, i + 1,
          begin == end && i + 1 == known ? Want::kLogits : Want::kNothing);
    flush(out);
    if (begin < end) {
      for (size_t i = begin; i < end; ++i) add(text[i], p + static_cast<int32_t>(i), p + static_cast<int32_t>(end), Want::kLogits);
      flush(out);
    }
    std::vector<std::vector<float>> z;
    const auto V = static_cast<size_t>(out.vocab);
    for (size_t at = 0; at < out.logits_NV.size(); at += V)
      z.emplace_back(out.logits_NV.begin() + static_cast<ptrdiff_t>(at), out.logits_NV.begin() + static_cast<ptrdiff_t>(at + V));
    return z;
  }

  Lm& lm_;
  const Prompt& prompt_;
};

Decoded decoded(Lm& lm, const Prompt& prompt, const Method& method, const DecodeOptions& options) {
  Result<Decoded> d = Decoder(lm, method).decode(prompt, nullptr, options);
  if (!d) throw std::runtime_error(d.error().message);
  return std::move(*d);
}

TEST(TextDiffusion, CommitsWhatThePlainAlgorithmCommits) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const bool shift = seed % 2 == 0;
    HashLm lm({.seed = seed, .shift = shift, .habit = 0.3 + 0.05 * static_cast<double>(seed % 9)}),
        other({.seed = seed, .shift = shift, .habit = 0.3 + 0.05 * static_cast<double>(seed % 9)});
    const Prompt prompt = prompt_of(1 + static_cast<int32_t>(seed % 5));
    const auto width = static_cast<int32_t>(2 + seed % 6);
    const double threshold = 0.1 + 0.1 * static_cast<double>(seed % 8);
    DecodeOptions options;
    options.limit = 23;
    options.end_tokens = {TokenId{static_cast<int32_t>(seed % 24)}};
    const Decoded d = decoded(lm, prompt, diffusion(width, static_cast<float>(threshold)), options);
    EXPECT_EQ(d.tokens, Plain(other, prompt).run(width, static_cast<float>(threshold), 23, options.end_tokens[0]))
        << "seed " << seed;
    EXPECT_TRUE(d.lossy);
  }
}

TEST(TextDiffusion, AModelThatNeedsNoNeighboursAnswersAsOneAtATimeInFewerPasses) {
  HashLm lm({.seed = 3, .shift = false, .habit = 1.0});
  const Prompt prompt = prompt_of(4);
  DecodeOptions options;
  options.limit = 24;
  options.denied = {kMask};  // a mask that was drawn would be read as one
  const Decoded slow = decoded(lm, prompt, *method_of("ar"), options), fast = decoded(lm, prompt, diffusion(8, 0.0F), options);
  EXPECT_EQ(fast.tokens, slow.tokens);
  EXPECT_EQ(fast.statistics.forwards, 1 + 3 * 2 - 1) << "the prompt, per block a draft and a refresh, none behind the last";
  EXPECT_LT(fast.statistics.forwards, slow.statistics.forwards);
}

TEST(TextDiffusion, RolloutsAreTheirOwnRequests) {
  HashLm lm({.seed = 8, .shift = false});
  const Prompt prompt = prompt_of(3);
  DecodeOptions options;
  options.limit = 12;
  options.temperature = 1;
  const auto all = Decoder(lm, diffusion(4, 0.3F)).rollouts(prompt, nullptr, options, 3);
  ASSERT_TRUE(all) << all.error().message;
  int64_t tokens = 0;
  for (const Decoded& one : *all) tokens += static_cast<int64_t>(one.tokens.size());
  EXPECT_EQ(all->front().statistics.all_tokens, tokens);
  EXPECT_EQ(all->front().statistics.tokens, static_cast<int64_t>(all->front().tokens.size()));
  for (uint32_t r = 0; r < 3; ++r) {
    options.request = r;
    EXPECT_EQ(decoded(lm, prompt, diffusion(4, 0.3F), options).tokens, (*all)[r].tokens);
  }
}

TEST(TextDiffusion, WhatMakesNoSenseIsRefused) {
  const Method text = *method_of("self-spec");
  EXPECT_FALSE(with_parts(text, "", "lookup", "confidence:0.9", "")) << "nobody but the model itself fills masks";
  EXPECT_FALSE(with_parts(*method_of("text-diffusion"), "", "", "", "blocks"));
  EXPECT_FALSE(with_parts(*method_of("text-diffusion"), "", "", "", "measured"));
  const Result<Method> built = with_parts(text, "", "", "confidence:0.8", "fixed:6");
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_TRUE(diffuses_text(*built));
}

}  // namespace
}  // namespace slip::test
