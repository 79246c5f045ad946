// SPDX-License-Identifier: Apache-2.0
// The LK-hybrid loss against stored values and gradients (tests/fixtures/train, lk.json) and against finite differences.
#include "train/objective/lk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/philox.h"
#include "core/safetensors.h"

namespace slip {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(SLIP_FIXTURES) / "train";

template <class T>
T must(Result<T> r) {
  if (!r) ADD_FAILURE() << r.error().message;
  return std::move(*r);
}

std::vector<double> tensor(const Checkpoint& stored, const std::string& name) {
  const TensorView* t = stored.find(name);
  std::vector<double> out(static_cast<size_t>(t->elements()));
  if (t->dtype == DType::kF64) {
    std::memcpy(out.data(), t->bytes.data(), t->bytes.size());
    return out;
  }
  std::vector<float> narrow(out.size());
  read_as_f32(*t, 0, narrow);
  std::copy(narrow.begin(), narrow.end(), out.begin());
  return out;
}

TEST(Lk, ValuesAndGradientsAreTheStoredOnes) {
  const json::object f = must(read_json(kFixtures / "lk.json")).as_object();
  const Checkpoint stored = must(Checkpoint::open_file(kFixtures / "lk.safetensors"));
  const auto number = [&](const char* key) { return f.at(key).to_number<double>(); };
  const auto V = static_cast<size_t>(number("vocab")), width = static_cast<size_t>(number("width"));
  const std::vector<double> draft = tensor(stored, "draft_logits"), verify = tensor(stored, "verify_logits"),
                            expected = tensor(stored, "grad_draft_logits");
  std::vector<double> gradient(draft.size(), 0.0);
  LkLoss lk({.tau = number("tau"), .eta = number("eta"), .top = static_cast<int32_t>(number("top"))});
  const json::array& blocks = f.at("blocks_detail").as_array();
  double loss = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const json::object& o = blocks[b].as_object();
    const auto active = static_cast<size_t>(o.at("active").as_int64());
    for (size_t i = 0; i < active; ++i) {
      const size_t at = (b * width + i) * V;
      const double scale = 1.0 / static_cast<double>(active * blocks.size());
      const LkPosition p = lk.position<double>(std::span(draft).subspan(at, V), std::span(verify).subspan(at, V), {}, scale,
                                               std::span(gradient).subspan(at, V));
      const json::object& e = o.at("positions").as_array()[i].as_object();
      EXPECT_EQ(p.ids, e.at("union").as_int64());
      EXPECT_EQ(p.target, o.at("target").as_array()[i].as_int64());
      // The verifier's argmax ends the active set where the draft is another id.
      const bool held = p.target == f.at("drafts").as_array()[b].as_array()[i].as_int64();
      EXPECT_TRUE(held || i + 1 == active);
      for (const auto& [key, value] : {std::pair{"alpha", p.alpha}, {"lambda", p.lambda}, {"kl", p.kl}, {"tv", p.tv}, {"ce", p.ce}})
        EXPECT_NEAR(value, e.at(key).to_number<double>(), 1e-9) << key;
      loss += scale * (p.lk + p.ce);
    }
  }
  EXPECT_NEAR(loss, number("loss"), 1e-9);
  double worst = 0;
  for (size_t i = 0; i < gradient.size(); ++i) worst = std::max(worst, std::abs(gradient[i] - expected[i]));
  EXPECT_LE(worst, 1e-9);
}

/// The loss with lambda held, as the gradient sees it.
double frozen(LkLoss& lk, std::span<const double> draft, std::span<const double> verify, std::span<const TokenId> allowed,
              double lambda) {
  const LkPosition p = lk.position<double>(draft, verify, allowed, 1, {});
  return lk.rule().lk_weight * (lambda * p.kl + (1 - lambda) * p.tv) + lk.rule().ce_weight * p.ce;
}

TEST(Lk, GradientAmongAllowedIdsIsThatOfFiniteDifferences) {
  LkLoss lk({.tau = 2, .top = 50, .lk_weight = 0.7, .ce_weight = 0.4});
  PhiloxStream draw(1, 2);
  std::vector<double> draft(12), verify(12), gradient(12, 0.0);
  for (size_t i = 0; i < draft.size(); ++i) draft[i] = draw.uniform(-2, 2), verify[i] = draw.uniform(-2, 2);
  verify[4] = 9;  // the largest, but not allowed
  const std::vector<TokenId> allowed{{1}, {2}, {5}, {7}, {11}};
  const LkPosition p = lk.position<double>(draft, verify, allowed, 1, gradient);
  EXPECT_EQ(p.ids, 5);
  EXPECT_NE(p.target, 4);
  EXPECT_NEAR(p.tv, 1 - p.alpha, 1e-15);
  EXPECT_GE(p.lambda, std::exp(-0.5));
  EXPECT_LE(p.lambda, 1);
  for (size_t i = 0; i < draft.size(); ++i) {
    constexpr double kStep = 1e-6;
    std::vector<double> more = draft, less = draft;
    more[i] += kStep, less[i] -= kStep;
    const double slope = (frozen(lk, more, verify, allowed, p.lambda) - frozen(lk, less, verify, allowed, p.lambda)) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope, 1e-8) << i;
  }
}

TEST(Lk, FarDraftsGiveFiniteNumbersAndAPull) {
  LkLoss lk({});
  std::vector<float> draft(8, 0.0F), verify(8, 0.0F), gradient(8, 0.0F);
  draft[0] = 4000, verify[1] = 4000;  // q underflows where p is 1
  const LkPosition p = lk.position<float>(draft, verify, {}, 1, gradient);
  EXPECT_NEAR(p.kl, 4000.0 / 3, 1e-9);
  EXPECT_NEAR(p.tv, 1, 1e-12);
  EXPECT_LT(gradient[1], -1.0F);  // a third from KL (lambda is 1), one from CE
  EXPECT_GT(gradient[0], 1.0F);
}

}  // namespace
}  // namespace slip
