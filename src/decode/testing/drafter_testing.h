// SPDX-License-Identifier: Apache-2.0
// For tests of drafters: random trials on text, chain and graph, and the slow way whose tokens every drafter owes.
#pragma once
#include <gtest/gtest.h>

#include "decode/testing/random_testing.h"

namespace slip::test {

enum class Path { kText, kChain, kFields, kOneByOne };
inline constexpr Path kPaths[] = {Path::kText, Path::kChain, Path::kFields, Path::kOneByOne};

inline Method method_on(Path path, DrafterSpec drafter, int32_t tokens) {
  Method m{.preset = "test", .drafter = std::move(drafter), .verifier = ExactSpec{}};
  m.schedule = path == Path::kText ? Schedule::kText : path == Path::kFields ? Schedule::kFields : Schedule::kChain;
  m.draft_length.tokens = tokens;
  return m;
}

inline const Form* form_on(Path path, const Trial& t) { return path == Path::kText ? nullptr : &t.form; }

/// The slow way: each answer alone, one token a pass.
inline std::vector<Decoded> one_at_a_time(const Trial& t, Path path, int32_t count) {
  std::vector<Decoded> out;
  for (int32_t r = 0; r < count; ++r) {
    DecodeOptions o = t.options;
    o.request += static_cast<uint32_t>(r);
    HashLm lm(t.lm);
    auto d = Decoder(lm, method_on(path == Path::kFields ? Path::kOneByOne : path, NoDraftSpec{}, 1))
                 .decode(t.prompt, form_on(path, t), o, t.context);
    if (!d) throw std::runtime_error(d.error().message);
    out.push_back(std::move(*d));
  }
  return out;
}

inline Trial trial_on(Path path, uint64_t n) {
  Trial t = random_trial(n);
  t.options.visibility = path == Path::kFields || path == Path::kOneByOne ? Visibility::kGraph : Visibility::kChain;
  return t;
}

/// Decodes with a drafter and expects the slow way's tokens; returns the statistics.
inline Statistics expect_same(const Trial& t, Path path, Lm& lm, const Method& m, int32_t count, uint64_t n) {
  const auto slow = one_at_a_time(t, path, count);
  const auto d = Decoder(lm, m).rollouts(t.prompt, form_on(path, t), t.options, count, t.context);
  if (!d) {
    ADD_FAILURE() << n << " " << d.error().message;
    return {};
  }
  for (size_t r = 0; r < slow.size(); ++r) {
    EXPECT_EQ((*d)[r].tokens, slow[r].tokens) << "trial " << n << " path " << static_cast<int>(path) << " rollout " << r;
    EXPECT_EQ((*d)[r].fields, slow[r].fields) << n;
  }
  const Statistics& s = d->front().statistics;
  EXPECT_LE(s.accepted, s.tested);
  EXPECT_LE(s.tested, s.proposed);
  EXPECT_LE(s.discarded, s.proposed);
  return s;
}

/// Some drafts must hold and some must not, or the trials prove nothing.
inline void expect_mixed(const Statistics& sum) {
  EXPECT_GT(sum.accepted * 20, sum.tested);
  EXPECT_LT(sum.accepted, sum.tested);
}

inline int32_t rollouts_of(uint64_t n) { return n % 3 == 0 ? 3 : 1; }

/// Hands passes on, changed or looked at.
class Wrapped : public Lm {
 public:
  explicit Wrapped(Lm& lm) : lm_(lm) {}
  const LmInfo& info() const override { return lm_.info(); }
  std::function<void(const Pass&)> look = [](const Pass&) {};
  std::function<void(std::vector<Row>&, std::vector<SlotSpan>&)> change;
  Status forward(const Pass& pass, PassOutput& out) override {
    look(pass);
    if (!change) return lm_.forward(pass, out);
    rows_.assign(pass.rows.begin(), pass.rows.end());
    spans_.assign(pass.spans.begin(), pass.spans.end());
    change(rows_, spans_);
    return lm_.forward({rows_, spans_, pass.features, pass.draft_adapter, pass.taps, pass.allowed}, out);
  }

 private:
  Lm& lm_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
};

/// A model that writes 3 4 5 6 over and over.
class CycleLm : public Lm {
 public:
  CycleLm() {
    info_.vocab = kTrialVocab;
    info_.slots = 256;
  }
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override {
    out.vocab = kTrialVocab;
    out.argmax.clear();
    for (const Row& r : pass.rows)
      out.argmax.push_back({std::get<TokenId>(r.input).value >= 6 ? 3 : std::get<TokenId>(r.input).value + 1});
    out.logits_row.assign(pass.rows.size(), -1);
    return {};
  }

 private:
  LmInfo info_;
};

}  // namespace slip::test
