// SPDX-License-Identifier: Apache-2.0
// The LK-hybrid loss against stored values and gradients (tests/fixtures/train, lk.json) and against finite differences.
#include "train/objective/lk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/must_testing.h"
#include "base/philox.h"
#include "core/safetensors.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const std::filesystem::path kFixtures = std::filesystem::path(SLIP_FIXTURES) / "train";

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

/// Drawn targets, which need not be in U, scaled lambdas, both averages (tests/fixtures/heads/lora_drafter).
void check_averaged(const json::object& file, const std::string& name, bool by_blocks) {
  const fs::path folder = fs::path(SLIP_FIXTURES) / "heads/lora_drafter";
  const Checkpoint inputs = must(Checkpoint::open_file(folder / "lk_inputs.safetensors")),
                   truth = must(Checkpoint::open_file(folder / "lk_f64.safetensors"));
  const json::object& c = file.at("cases").as_object().at(name).as_object();
  const json::object& expected = c.at(by_blocks ? "blocks" : "positions").as_object();
  const auto number = [&](const char* key) { return c.at(key).to_number<double>(); };
  const auto V = static_cast<size_t>(file.at("vocab").as_int64()), width = static_cast<size_t>(file.at("width").as_int64());
  const std::vector<double> draft = tensor(inputs, "draft_logits"), verify = tensor(inputs, "verify_logits");
  const LkRule rule{.tau = number("tau"),
                    .eta = number("decay"),
                    .top = static_cast<int32_t>(number("top")),
                    .lk_weight = number("lk_weight"),
                    .ce_weight = number("ce_weight"),
                    .scale = number("scale")};
  LkLoss lk(rule);
  const auto& drafts = c.at("drafts").as_array();
  const auto& targets = c.at("targets").as_array();
  std::vector<size_t> active;
  std::vector<size_t> with_ce;
  const auto position = [&](size_t b, size_t j, LkLoss::Shares shares, std::span<double> gradient) {
    const size_t at = (b * width + j) * V;
    return lk.position<double>(std::span(draft).subspan(at, V), std::span(verify).subspan(at, V), {}, shares, gradient,
                               static_cast<int32_t>(targets[b].as_array()[j].as_int64()));
  };
  double all_active = 0, all_ce = 0;
  for (size_t b = 0; b < drafts.size(); ++b) {
    size_t n = 0, inside = 0;
    for (bool miss = false; n < width && !miss; ++n) {
      inside += position(b, n, {}, {}).has_ce;
      miss = drafts[b].as_array()[n].as_int64() != targets[b].as_array()[n].as_int64();
    }
    active.push_back(n);
    with_ce.push_back(inside);
    all_active += static_cast<double>(n);
    all_ce += static_cast<double>(inside);
    EXPECT_EQ(n, static_cast<size_t>(expected.at("blocks").as_array()[b].as_object().at("active").as_int64()));
    EXPECT_EQ(inside, static_cast<size_t>(expected.at("blocks").as_array()[b].as_object().at("in_top").as_int64()));
  }
  std::vector<double> gradient(draft.size(), 0);
  double sum_lk = 0, sum_ce = 0;
  const auto blocks = static_cast<double>(drafts.size());
  for (size_t b = 0; b < drafts.size(); ++b)
    for (size_t j = 0; j < active[b]; ++j) {
      const double ce_count = by_blocks ? blocks * static_cast<double>(std::max<size_t>(1, with_ce[b])) : all_ce;
      const LkLoss::Shares shares{by_blocks ? 1 / (blocks * static_cast<double>(active[b])) : 1 / all_active, 1 / ce_count};
      const LkPosition p = position(b, j, shares, std::span(gradient).subspan((b * width + j) * V, V));
      sum_lk += shares.lk * p.lk;
      sum_ce += shares.ce * p.ce;
    }
  EXPECT_NEAR(sum_lk, expected.at("lk").to_number<double>(), 1e-10) << name;
  EXPECT_NEAR(sum_ce, expected.at("ce").to_number<double>(), 1e-10) << name;
  const std::vector<double> stored = tensor(truth, name + (by_blocks ? ".blocks.grad" : ".positions.grad"));
  for (size_t i = 0; i < stored.size(); ++i) ASSERT_NEAR(gradient[i], stored[i], 1e-9) << name << " " << i;
}

TEST(Lk, DrawnTargetsOutsideTheUnionLeaveTheCrossEntropyAlone) {
  const json::object file = must(read_json(fs::path(SLIP_FIXTURES) / "heads/lora_drafter/lk.json")).as_object();
  for (const auto& [name, c] : file.at("cases").as_object())
    for (const bool by_blocks : {true, false}) check_averaged(file, std::string(name), by_blocks);
}

}  // namespace
}  // namespace slip
