// SPDX-License-Identifier: Apache-2.0
// The distributions that tokens are drawn from: settings against a plain reference, the mixture of two readings, and speculative
// sampling's law by enumeration of every draft and verification (docs/gates.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/json.h"
#include "base/philox.h"
#include "decode/pass/sampling.h"

namespace slip {
namespace {

using Pmf = std::map<int32_t, double>;

Pmf law_of(const Distribution& p) {
  Pmf out;
  for (size_t i = 0; i < p.ids.size(); ++i) out[p.ids[i].value] = p.weights[i];
  return out;
}

void expect_equal(const Pmf& a, const Pmf& b, double tolerance) {
  std::set<int32_t> ids;
  for (const Pmf* law : {&a, &b})
    for (const auto& [id, w] : *law) ids.insert(id);
  for (const int32_t id : ids) {
    const auto x = a.find(id), y = b.find(id);
    ASSERT_NEAR(x == a.end() ? 0 : x->second, y == b.end() ? 0 : y->second, tolerance) << "id " << id;
  }
}

// ---- settings, by sorting

struct Candidate {
  int32_t id;
  double x;
};

std::vector<Candidate> candidates(const std::vector<float>& logits, const std::vector<bool>& allowed, const Sampling& s,
                                  const std::vector<TokenId>& history) {
  std::vector<Candidate> out;
  std::set<int32_t> recent;
  for (size_t i = 0; i < history.size(); ++i)
    if (static_cast<int32_t>(history.size() - i) <= s.repetition_last) recent.insert(history[i].value);
  for (size_t id = 0; id < logits.size(); ++id) {
    double x = logits[id];
    if (!allowed[id] || std::isnan(x)) continue;
    if (recent.count(static_cast<int32_t>(id)))
      x = x > 0 ? x / static_cast<double>(s.repetition) : x * static_cast<double>(s.repetition);
    out.push_back({static_cast<int32_t>(id), x});
  }
  return out;
}

Pmf normal(const std::vector<Candidate>& c) {  // x: log weights
  Pmf out;
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const Candidate& k : c) top = std::max(top, k.x);
  for (const Candidate& k : c) sum += out[k.id] = std::exp(k.x - top);
  for (auto& [id, w] : out) w /= sum;
  return out;
}

Pmf reference(std::vector<Candidate> c, const Sampling& s) {
  std::stable_sort(c.begin(), c.end(), [](const Candidate& a, const Candidate& b) { return a.x > b.x; });
  if (s.temperature == 0) return {{c.front().id, 1.0}};
  for (Candidate& k : c) k.x /= static_cast<double>(s.temperature);
  if (s.top_k > 0 && c.size() > static_cast<size_t>(s.top_k)) c.resize(static_cast<size_t>(s.top_k));
  if (s.top_p < 1) {
    const Pmf p = normal(c);
    size_t n = 0;
    double sum = 0;
    while (n < c.size() && sum < static_cast<double>(s.top_p)) sum += p.at(c[n++].id);
    c.resize(std::max<size_t>(n, 1));
  }
  if (s.min_p > 0)
    std::erase_if(c,
                  [first = c.front().x, &s](const Candidate& k) { return std::exp(k.x - first) < static_cast<double>(s.min_p); });
  return normal(c);
}

struct Case {
  std::vector<float> logits;
  std::vector<bool> allowed;
  std::vector<TokenId> listed, denied, history;
  bool any = true;
  Sampling s;
  Allowed rules() const { return {any, denied, listed}; }
};

Case random_case(PhiloxStream& r) {
  Case c;
  const uint32_t vocab = 2 + r.below(14);
  const bool coarse = r.chance(0.4);  // many ties
  for (uint32_t i = 0; i < vocab; ++i)
    c.logits.push_back(coarse ? static_cast<float>(r.below(3)) - 1 : static_cast<float>(r.uniform(-4, 4)));
  c.any = r.chance(0.5);
  c.allowed.assign(vocab, c.any);
  for (uint32_t i = 0; i < vocab; ++i) {
    if (r.chance(0.3)) {
      c.denied.push_back({static_cast<int32_t>(i)});
      if (c.any) c.allowed[i] = false;
    }
    if (r.chance(0.5) || (i + 1 == vocab && c.listed.empty())) {
      c.listed.push_back({static_cast<int32_t>(i)});
      c.allowed[i] = true;
    }
  }
  for (uint32_t n = r.below(8); n > 0; --n) c.history.push_back({static_cast<int32_t>(r.below(vocab))});
  c.s.temperature = r.chance(0.2) ? 0 : static_cast<float>(r.uniform(0.1, 2.5));
  if (r.chance(0.5)) c.s.top_k = static_cast<int32_t>(1 + r.below(vocab + 2));
  if (r.chance(0.5)) c.s.top_p = static_cast<float>(r.uniform(0.05, 1));
  if (r.chance(0.5)) c.s.min_p = static_cast<float>(r.uniform(0.01, 0.9));
  if (r.chance(0.5)) c.s.repetition = static_cast<float>(r.uniform(0.5, 2));
  if (r.chance(0.3)) c.s.repetition_last = static_cast<int32_t>(r.below(6));
  return c;
}

TEST(Sampling, DistributionsAreThoseOfThePlainReference) {
  PhiloxStream r(1, 1);
  ChoiceBuffers out;
  for (int trial = 0; trial < 20000; ++trial) {
    const Case c = random_case(r);
    distribution(c.logits, c.rules(), c.s, c.history, out);
    ASSERT_TRUE(std::is_sorted(out.ids.begin(), out.ids.end()));
    expect_equal(law_of(out), reference(candidates(c.logits, c.allowed, c.s, c.history), c.s), 1e-12);
    if (HasFatalFailure()) FAIL() << "trial " << trial;
  }
}

TEST(Sampling, DefaultsDrawWhatThePlainDrawDraws) {
  PhiloxStream r(2, 1);
  ChoiceBuffers out;
  for (int trial = 0; trial < 5000; ++trial) {
    Case c = random_case(r);
    const float t = c.s.temperature;
    c.s = {.temperature = t};
    const double u = r.uniform();
    const TokenId plain = t == 0 ? greedy_choice(c.logits, c.rules()) : keyed_draw(c.logits, c.rules(), t, u);
    ASSERT_EQ(choose(c.logits, c.rules(), c.s, c.history, u, out), plain) << trial;
  }
}

TEST(Sampling, RepetitionMovesGreedyChoicesAndKeepsToWhatIsAllowed) {
  ChoiceBuffers out;
  const std::vector<float> logits{2, 3, -1, 2.5F};
  const std::vector<TokenId> said{{1}, {1}}, listed{{0}, {2}};
  const Sampling s{.repetition = 2};
  EXPECT_EQ(choose(logits, {}, s, {}, 0, out), TokenId{1});
  EXPECT_EQ(choose(logits, {}, s, said, 0, out), TokenId{3}) << "3 / 2 < 2.5: divided once, however often it was said";
  EXPECT_EQ(choose(logits, {false, {}, listed}, s, said, 0, out), TokenId{0});
  EXPECT_EQ(choose(std::vector<float>{-1, -1.5F}, {}, s, std::vector<TokenId>{{0}}, 0, out), TokenId{1}) << "negative: multiplied";
}

TEST(Sampling, NumbersThatAreNoneAreNeverDrawn) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  ChoiceBuffers out;
  const Sampling s{.temperature = 1, .top_k = 3, .top_p = 0.9F, .min_p = 0.01F, .repetition = 1.1F};
  const std::vector<TokenId> said{{0}, {1}};
  for (const double u : {1e-9, 0.5, 1 - 1e-9}) {
    EXPECT_EQ(choose(std::vector<float>{nan, 1, nan}, {}, s, said, u, out), TokenId{1});
    EXPECT_EQ(choose(std::vector<float>{nan, nan}, {}, s, said, u, out), TokenId{0});
    EXPECT_EQ(choose(std::vector<float>{-inf, 0, -inf}, {}, s, said, u, out), TokenId{1});
    EXPECT_EQ(choose(std::vector<float>{0, inf, 1}, {}, s, said, u, out), TokenId{1});
    EXPECT_EQ(choose(std::vector<float>{-inf, -inf}, {}, s, said, u, out), TokenId{0});
  }
}

TEST(Ensemble, TheMixtureIsOfProbabilities) {
  PhiloxStream r(3, 1);
  ChoiceBuffers scratch, out;
  for (int trial = 0; trial < 5000; ++trial) {
    const Case c = random_case(r);
    std::vector<float> other;
    for (size_t i = 0; i < c.logits.size(); ++i) other.push_back(static_cast<float>(r.uniform(-4, 4)));
    const double w = trial % 5 == 0 ? trial % 2 : r.uniform();
    mixture(other, c.logits, w, c.rules(), c.s, c.history, scratch, out);
    const Pmf ar = normal(candidates(c.logits, c.allowed, c.s, c.history)),
              diffusion = normal(candidates(other, c.allowed, c.s, c.history));
    std::vector<Candidate> mixed;
    for (const auto& [id, p] : ar) mixed.push_back({id, std::log((1 - w) * diffusion.at(id) + w * p)});
    expect_equal(law_of(out), reference(mixed, c.s), 1e-11);
    if (HasFatalFailure()) FAIL() << "trial " << trial;
  }
}

TEST(Ensemble, AddingLogitsWouldChooseAnother) {  // the published code's reading, a mutant of the paper's
  const std::vector<float> diffusion{0, 4, -9}, ar{0, -9, 4};
  ChoiceBuffers scratch, out;
  mixture(diffusion, ar, 0.5, {}, {}, {}, scratch, out);
  EXPECT_EQ(out.ids, std::vector<TokenId>{{1}}) << "the sum of logits is largest at 0";
}

// ---- speculative sampling

std::vector<double> doubles_of(const json::value& v) {
  std::vector<double> out;
  for (const auto& x : v.as_array()) out.push_back(x.to_number<double>());
  return out;
}

/// A distribution over 0 .. n-1, ids without mass left out as a drafter's top_k leaves them out.
struct Table {
  std::vector<TokenId> ids;
  std::vector<double> weights;
  explicit Table(const std::vector<double>& p) {
    for (size_t i = 0; i < p.size(); ++i)
      if (p[i] > 0) {
        ids.push_back({static_cast<int32_t>(i)});
        weights.push_back(p[i]);
      }
  }
  operator Distribution() const { return {ids, weights}; }
};

TEST(Residuals, RatesAndResidualsAreTheRecordedOnes) {
  const auto file = read_json(std::filesystem::path(SLIP_FIXTURES) / "decode/rejection.json");
  ASSERT_TRUE(file);
  ChoiceBuffers out;
  for (const auto& law : file->at("laws").as_array()) {
    const auto p1 = doubles_of(law.at("p1")), q1 = doubles_of(law.at("q1"));
    const Table p(p1), q(q1);
    double alpha = 0, rest = 0;
    for (size_t x = 0; x < q1.size(); ++x) {
      const double accepted = q1[x] * acceptance(p, q, {static_cast<int32_t>(x)});
      EXPECT_NEAR(accepted, doubles_of(law.at("accept1"))[x], 1e-12);
      alpha += accepted;
    }
    EXPECT_NEAR(alpha, law.at("alpha1").to_number<double>(), 1e-12);
    const auto expected = doubles_of(law.at("residual1"));
    for (const double w : expected) rest += w;
    if (rest < 1e-12) continue;  // p = q: nothing is refused
    residual(p, q, {0}, out);
    for (size_t y = 0; y < expected.size(); ++y)
      EXPECT_NEAR(Distribution(out).of({static_cast<int32_t>(y)}), expected[y] / rest, 1e-12);
  }
}

TEST(Residuals, ARefusedTokenIsNotDrawnAgain) {
  PhiloxStream r(4, 1);
  ChoiceBuffers out;
  for (int trial = 0; trial < 5000; ++trial) {
    const uint32_t n = 2 + r.below(6);
    std::vector<double> a(n), b(n);
    double sum_a = 0, sum_b = 0;
    for (double& x : a) sum_a += x = r.chance(0.3) ? 0 : r.uniform();
    for (double& x : b) sum_b += x = r.chance(0.3) ? 0 : r.uniform();
    if (sum_a == 0 || sum_b == 0) continue;
    for (double& x : a) x /= sum_a;
    for (double& x : b) x /= sum_b;
    const Table p(a), q(b);
    for (uint32_t x = 0; x < n; ++x) {
      const TokenId id{static_cast<int32_t>(x)};
      if (b[x] > 0 && acceptance(p, q, id) < 1) {
        residual(p, q, id, out);
        ASSERT_EQ(Distribution(out).of(id), 0);
      }
      if (a[x] < 1) {  // all of q on the draft
        ASSERT_DOUBLE_EQ(acceptance(p, {}, id), a[x]);
        residual(p, {}, id, out);
        ASSERT_EQ(Distribution(out).of(id), 0);
      }
    }
  }
  const Table same({0.5, 0.5});
  residual(same, same, {0}, out);
  EXPECT_EQ(law_of(out), law_of(same)) << "without mass left the residual is p";
}

/// p and q of a place as functions of everything before it (q also of where the round began), with corners.
class Tables {
 public:
  Tables(uint64_t seed, uint32_t vocab) : seed_(seed), vocab_(vocab) {}
  std::vector<double> p(const std::vector<int32_t>& prefix) const { return table(prefix, 1); }
  /// Empty: one-hot on hot(prefix).
  std::vector<double> q(const std::vector<int32_t>& prefix, size_t start) const {
    if (key(prefix, 3) % 5 == 0) return p(prefix);
    return table(prefix, 10 + start);
  }
  bool one_hot(const std::vector<int32_t>& prefix) const { return key(prefix, 4) % 5 == 0; }
  int32_t hot(const std::vector<int32_t>& prefix) const { return static_cast<int32_t>(key(prefix, 5) % vocab_); }

 private:
  uint64_t key(const std::vector<int32_t>& prefix, uint64_t what) const {
    uint64_t k = seed_ * 1000003 + what;
    for (const int32_t x : prefix) k = k * 31 + static_cast<uint64_t>(x) + 7;
    PhiloxStream r(k, 9);
    return r.bits();
  }
  std::vector<double> table(const std::vector<int32_t>& prefix, uint64_t what) const {
    PhiloxStream r(key(prefix, what), what);
    std::vector<double> out(vocab_, 0);
    if (r.chance(0.15)) {
      out[r.below(vocab_)] = 1;
      return out;
    }
    double sum = 0;
    for (double& x : out) sum += x = r.chance(0.25) ? 0 : r.uniform();
    if (sum == 0) sum = out[0] = 1;
    for (double& x : out) x /= sum;
    return out;
  }
  uint64_t seed_;
  uint32_t vocab_;
};

/// The law of the first `length` tokens that rounds of `width` drafts emit: every draft and every verification, weighted.
struct Enumeration {
  const Tables& tables;
  size_t length, width;
  std::map<std::vector<int32_t>, double> law;

  void round(const std::vector<int32_t>& prefix, double weight) { place(prefix, prefix.size(), weight); }

  void emit(std::vector<int32_t> prefix, int32_t token, double weight, bool ends_round, size_t start) {
    if (weight == 0) return;
    prefix.push_back(token);
    if (prefix.size() == length)
      law[prefix] += weight;
    else if (ends_round)
      round(prefix, weight);
    else
      place(prefix, start, weight);
  }

  void place(const std::vector<int32_t>& prefix, size_t start, double weight) {
    const auto p_V = tables.p(prefix);
    const Table p(p_V);
    if (prefix.size() - start == width) {  // all kept: one more
      for (size_t y = 0; y < p_V.size(); ++y) emit(prefix, static_cast<int32_t>(y), weight * p_V[y], true, start);
      return;
    }
    const bool hot = tables.one_hot(prefix);
    const auto q_V = tables.q(prefix, start);
    const Table table(q_V);
    const Distribution q = hot ? Distribution{} : table;
    ChoiceBuffers rest;
    for (size_t x = 0; x < q_V.size(); ++x) {
      const TokenId id{static_cast<int32_t>(x)};
      const double drafted = hot ? tables.hot(prefix) == id.value : q_V[x];
      if (drafted == 0) continue;
      const double keep = acceptance(p, q, id);
      emit(prefix, id.value, weight * drafted * keep, false, start);
      if (keep == 1) continue;
      residual(p, q, id, rest);
      for (size_t i = 0; i < rest.ids.size(); ++i)
        emit(prefix, rest.ids[i].value, weight * drafted * (1 - keep) * rest.weights[i], true, start);
    }
  }
};

TEST(Residuals, TheEnumeratedLawOfThreeTokensIsTheTargets) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Tables tables(seed, static_cast<uint32_t>(2 + seed % 5));
    Enumeration e{tables, 3, 1 + seed % 3, {}};
    e.round({}, 1);
    double total = 0;
    for (const auto& [x, w] : e.law) {
      double law = 1;
      std::vector<int32_t> prefix;
      for (const int32_t id : x) {
        law *= tables.p(prefix)[static_cast<size_t>(id)];
        prefix.push_back(id);
      }
      ASSERT_NEAR(w, law, 1e-12) << seed;
      total += w;
    }
    ASSERT_NEAR(total, 1, 1e-12);
  }
}

}  // namespace
}  // namespace slip
