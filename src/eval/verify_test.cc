// SPDX-License-Identifier: Apache-2.0
// The proof passes for a model that keeps contract W and fails for models that break it in one way each.
#include "eval/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "decode/testing/keeping_lm_testing.h"

namespace slip {
namespace {

const std::filesystem::path kModels = std::filesystem::path(SLIP_FIXTURES) / "decode" / "models";
constexpr std::array<int, 2> kThreads = {1, 2};

enum class Fault { kNone, kWidth, kWidthOfArgmax, kSlots, kThreads, kCompany };

/// A model with one fault: the logits of some rows are one unit in the last place too high.
class FaultyLm : public Lm {
 public:
  FaultyLm(std::unique_ptr<Model> model, Fault fault, int threads) : model_(std::move(model)), fault_(fault), threads_(threads) {}
  const LmInfo& info() const override { return model_->lm().info(); }
  Status forward(const Pass& pass, PassOutput& out) override {
    SLIP_TRY_(model_->lm().forward(pass, out));
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      if (!strikes(pass, i)) continue;
      if (fault_ == Fault::kWidthOfArgmax)
        out.argmax[i].value ^= 1;
      else if (out.logits_row[i] >= 0)
        nudge(out, i);
    }
    return {};
  }

 private:
  bool strikes(const Pass& pass, size_t i) const {
    switch (fault_) {
      case Fault::kNone:
        return false;
      case Fault::kWidth:
        return pass.rows.size() > 7;
      case Fault::kWidthOfArgmax:
        return pass.rows.size() == 5 && pass.rows[i].want == Want::kArgmax;
      case Fault::kSlots:
        return pass.rows[i].slot > 300;
      case Fault::kThreads:
        return threads_ == 2;
      case Fault::kCompany:
        return pass.rows.front().position.t != 0 && pass.rows.back().position.t < pass.rows.front().position.t;
    }
    return false;
  }
  static void nudge(PassOutput& out, size_t row) {
    float& x = out.logits_NV[static_cast<size_t>(out.logits_row[row]) * static_cast<size_t>(out.vocab) + 5];
    x = std::nextafter(x, INFINITY);
  }
  std::unique_ptr<Model> model_;
  Fault fault_;
  int threads_;
};

LmFactory with(Fault fault, WeightType type = WeightType::kF32) {
  return [=](int threads) -> Result<std::shared_ptr<Lm>> {
    SLIP_TRY(std::unique_ptr<Model> model, load_model(kModels / "shift", {type, threads, 512}));
    return std::shared_ptr<Lm>(std::make_shared<FaultyLm>(std::move(model), fault, threads));
  };
}

/// The name of the first check that fails, "" when none does.
std::string first_failure(Fault fault, WeightType type = WeightType::kF32) {
  const auto proof = prove_rows(with(fault, type), kThreads, {.prompt_rows = 48, .max_width = 24});
  EXPECT_TRUE(proof) << proof.error().message;
  for (const Check& c : proof->checks) {
    EXPECT_GT(c.bytes, 0) << c.name;
    EXPECT_EQ(c.passed, c.difference.empty()) << c.name;
    if (!c.passed) return c.name;
  }
  return "";
}

TEST(Verify, PassesForAModelThatKeepsTheContractInEveryType) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8})
    EXPECT_EQ(first_failure(Fault::kNone, type), "");
}

TEST(Verify, FindsOneUnitInTheLastPlaceThatDependsOnTheWidth) { EXPECT_EQ(first_failure(Fault::kWidth), "widths"); }
TEST(Verify, FindsAnArgmaxThatDependsOnTheWidth) { EXPECT_EQ(first_failure(Fault::kWidthOfArgmax), "widths"); }
TEST(Verify, FindsDependenceOnSlots) { EXPECT_EQ(first_failure(Fault::kSlots), "layouts"); }
TEST(Verify, FindsDependenceOnThreads) { EXPECT_EQ(first_failure(Fault::kThreads), "threads"); }
TEST(Verify, FindsDependenceOnCompany) { EXPECT_EQ(first_failure(Fault::kCompany), "company"); }

TEST(Verify, ReadsLogitsThatTheModelKeepsItself) {
  struct Kept : Lm {
    explicit Kept(std::unique_ptr<Model> m) : model(std::move(m)) {}
    const LmInfo& info() const override { return keeping.info(); }
    Status forward(const Pass& pass, PassOutput& out) override { return keeping.forward(pass, out); }
    std::unique_ptr<Model> model;
    test::KeepingLm keeping{model->lm()};
  };
  const LmFactory factory = [](int threads) -> Result<std::shared_ptr<Lm>> {
    SLIP_TRY(std::unique_ptr<Model> model, load_model(kModels / "shift", {WeightType::kF32, threads, 512}));
    return std::shared_ptr<Lm>(std::make_shared<Kept>(std::move(model)));
  };
  const auto kept = prove_rows(factory, kThreads, {.prompt_rows = 48, .max_width = 24});
  const auto own = prove_rows(with(Fault::kNone), kThreads, {.prompt_rows = 48, .max_width = 24});
  ASSERT_TRUE(kept && own);
  for (const Check& c : kept->checks) EXPECT_TRUE(c.passed) << c.name << ": " << c.difference;
  EXPECT_EQ(kept->alone.hash(48), own->alone.hash(48));
}

TEST(Verify, NamesTheFirstDifferenceInHex) {
  const auto proof = prove_rows(with(Fault::kWidth), std::array{1}, {.prompt_rows = 48, .max_width = 24});
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->checks[0].difference.find("passes of 8 rows, row "), 0u) << proof->checks[0].difference;
  EXPECT_NE(proof->checks[0].difference.find("logit 5: expected 0x"), std::string::npos);
}

TEST(Verify, TheGoldenHashStandsForTheLogitsAndNotForTheWidths) {
  const auto narrow = prove_rows(with(Fault::kNone), std::array{1}, {.prompt_rows = 48, .max_width = 3});
  const auto wide = prove_rows(with(Fault::kNone), std::array{1}, {.prompt_rows = 48, .max_width = 9});
  const auto other = prove_rows(with(Fault::kThreads), std::array{2}, {.prompt_rows = 48, .max_width = 3});
  ASSERT_TRUE(narrow && wide && other);
  EXPECT_EQ(narrow->alone.hash(48), wide->alone.hash(48));
  EXPECT_NE(narrow->alone.hash(48), other->alone.hash(48));
}

TEST(Verify, ExactDecodersAgreeAndAFaultInWidePassesIsFound) {
  auto model = load_model(kModels / "shift", {WeightType::kF32, 1, 512});
  ASSERT_TRUE(model) << model.error().message;
  auto form = plain_form((*model)->lm().info().vocab);
  ASSERT_TRUE(form) << form.error().message;
  const Prompt prompt = random_tokens(20, (*model)->lm().info().vocab, 4);
  FaultyLm good(std::move(*model), Fault::kNone, 1);
  for (const Form* f : {static_cast<const Form*>(nullptr), static_cast<const Form*>(&*form)}) {
    const auto check = check_decoders(good, prompt, f, {.limit = 24});
    ASSERT_TRUE(check) << check.error().message;
    EXPECT_TRUE(check->passed) << check->difference;
    EXPECT_GT(check->bytes, 0);
  }
  auto again = load_model(kModels / "shift", {WeightType::kF32, 1, 512});
  class WrongBlocks : public FaultyLm {
   public:
    using FaultyLm::FaultyLm;
    Status forward(const Pass& pass, PassOutput& out) override {
      SLIP_TRY_(FaultyLm::forward(pass, out));
      if (pass.rows.size() == 8)
        for (TokenId& id : out.argmax) id.value ^= 1;
      return {};
    }
  } bad(std::move(*again), Fault::kNone, 1);
  const auto check = check_decoders(bad, prompt, nullptr, {.limit = 24});
  ASSERT_TRUE(check);
  EXPECT_FALSE(check->passed);
}

}  // namespace
}  // namespace slip
