// SPDX-License-Identifier: Apache-2.0
// `auto` on the models of the tree, by counted costs: passes and their rows are counted, their prices are given, no clock is read. On every
// model, form and price: within 5 % of the best exact preset, and never slower than the best decoder without drafts; in free text, whose
// drafts nobody has calibrated, the latter. What is compared is
// everything behind the prompt's rows, which are the same for all. SLIP_SCENES: scenes a model.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/automatic.h"
#include "eval/evaluate.h"
#include "sim/record/make.h"

namespace slip {
namespace {

class CountingLm final : public Lm {
 public:
  explicit CountingLm(Lm& inner) : inner_(inner) {}
  const LmInfo& info() const override { return inner_.info(); }
  Status forward(const Pass& pass, PassOutput& out) override {
    rows.push_back(static_cast<int32_t>(pass.rows.size()));
    return inner_.forward(pass, out);
  }
  std::vector<int32_t> rows;  // of each pass

 private:
  Lm& inner_;
};

struct Price {
  std::string name;
  CostTable table;
};

// c + r n, and stairs of eight rows as kernels have them.
std::vector<Price> prices() {
  std::vector<Price> out;
  for (const double pass : {0.5, 2.0, 4.0, 11.6, 40.0}) {
    out.push_back({fmt::format("c = {} r", pass), *CostTable::make({1, 128}, {pass + 1, pass + 128}, "price")});
    std::vector<int32_t> n;
    std::vector<double> ms;
    for (int32_t i = 1; i <= 128; ++i) {
      n.push_back(i);
      ms.push_back(pass + (i + 7) / 8 * 8);
    }
    out.push_back({fmt::format("c = {} r, stairs of 8", pass), *CostTable::make(std::move(n), std::move(ms), "price")});
  }
  return out;
}

class AutomaticOnModels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto loaded = Engine::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models" / GetParam(), {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    engine_ = std::move(*loaded);
    const char* asked = std::getenv("SLIP_SCENES");
    const int64_t usual = std::string_view(GetParam()).starts_with("pair") ? 24 : 3;  // of seven tokens, and of hundreds
    for (int64_t i = 0; i < (asked ? std::atoi(asked) : usual); ++i) {
      const auto record = sim::make_record(static_cast<uint64_t>(900'002'000 + i));
      ASSERT_TRUE(record);
      const auto prompt = engine_->prompt(request_of(record->labels, record->images, {}));
      ASSERT_TRUE(prompt) << prompt.error().message;
      prompts_.push_back(*prompt);
    }
  }

  DecodeOptions options(const Form* form) const {
    DecodeOptions o{.visibility = engine_->visibility(), .limit = 48, .forced = form != nullptr};
    return o;
  }
  /// Rows of each pass behind the prompt's, of one answer; the prompt's own rows are taken off the pass that carried them.
  std::vector<int32_t> passes(const Method& m, const Form* form, const Prompt& prompt, const DecodeContext& context,
                              Statistics& statistics, std::vector<TokenId>& tokens) {
    CountingLm lm(engine_->model().lm());
    auto d = Decoder(lm, m).decode(prompt, form, options(form), context);
    EXPECT_TRUE(d) << d.error().message;
    if (!d) return {};
    statistics = d->statistics;
    tokens = d->tokens;
    lm.rows.front() -= static_cast<int32_t>(prompt.inputs.size());
    return lm.rows;
  }
  static double priced(const std::vector<int32_t>& rows, const CostTable& table, double prompt_ms, int32_t prompt) {
    double ms = table.ms(prompt + rows.front()) - prompt_ms;
    for (size_t i = 1; i < rows.size(); ++i) ms += table.ms(rows[i]);
    return ms;
  }

  std::vector<Method> presets(const Form* form) const {
    const bool graph = form && engine_->visibility() == Visibility::kGraph;
    std::vector<Method> out{*method_of("ar")};
    const auto add = [&](std::string_view name) { out.push_back(*method_of(name)); };
    if (form) add("scaffold-ar");
    if (graph) add("fields");
    for (const char* name : {"self-spec", "self-spec-quadratic"}) add(name);
    if (form) add("scaffold-spec");
    if (graph) add("fields-spec");
    return out;
  }

  void compare(const Form* form);

  std::unique_ptr<Engine> engine_;
  std::vector<Prompt> prompts_;
};

void AutomaticOnModels::compare(const Form* form) {
  struct Ran {
    std::string name;
    bool plain;
    std::vector<std::vector<int32_t>> passes;  // by scene
  };
  std::vector<Ran> ran;
  std::vector<std::vector<TokenId>> truth;
  Statistics statistics;
  std::vector<TokenId> tokens;
  for (const Method& m : presets(form)) {
    Ran& r = ran.emplace_back(Ran{m.preset, std::holds_alternative<NoDraftSpec>(m.drafter), {}});
    for (size_t i = 0; i < prompts_.size(); ++i) {
      r.passes.push_back(passes(m, form, prompts_[i], {}, statistics, tokens));
      if (truth.size() == i) truth.push_back(tokens);
      ASSERT_EQ(tokens, truth[i]) << m.preset;
    }
  }
  const auto rows = static_cast<int32_t>(prompts_.front().inputs.size());
  for (const Price& price : prices()) {
    const auto cost = [&](const std::vector<int32_t>& p, size_t i) {
      const auto prompt = static_cast<int32_t>(prompts_[i].inputs.size());
      return priced(p, price.table, price.table.ms(prompt), prompt);
    };
    double best = 0, plain = 0;
    std::string best_name, plain_name;
    for (const Ran& r : ran) {
      double sum = 0;
      for (size_t i = 0; i < prompts_.size(); ++i) sum += cost(r.passes[i], i);
      if (best == 0 || sum < best) best = sum, best_name = r.name;
      if (r.plain && (plain == 0 || sum < plain)) plain = sum, plain_name = r.name;
    }
    bool calibrated = false;
    const DraftLengthModel model = known_acceptance(*engine_, form, price.table, calibrated);
    ForecastSettings s{.info = engine_->model().lm().info(),
                       .form = form,
                       .options = options(form),
                       .prompt_rows = rows,
                       .model = &model,
                       .calibrated = calibrated};
    auto choice = AutomaticChoice::make(s, false, {});
    ASSERT_TRUE(choice) << choice.error().message;
    const std::string first = choice->why();
    DraftLengthTracker tracker;
    double own = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const DecodeContext context{.draft_length_model = &model, .draft_length_tracker = &tracker};
      own += cost(passes(choice->best().method, form, prompts_[i], context, statistics, tokens), i);
      EXPECT_EQ(tokens, truth[i]);
      choice->ran(statistics, static_cast<int32_t>(prompts_[i].inputs.size()));
    }
    const std::string what =
        fmt::format("{}, {}, {}: auto {:.1f}, best preset {} {:.1f}, without drafts {} {:.1f}; {}", GetParam(),
                    form ? form->name() : "free text", price.name, own, best_name, best, plain_name, plain, first);
    if (form) {  // free text has no calibration: there doubt keeps from losing, not from missing a gain
      EXPECT_LE(own, 1.05 * best) << what;
    }
    EXPECT_LE(own, plain * (1 + 1e-9)) << what;
    if (std::getenv("SLIP_PRINT")) fmt::print("{:.3f} {:.3f} {}\n", own / best, own / plain, what);
  }
}

TEST_P(AutomaticOnModels, IsWithinFivePercentOfTheBestPresetOverItsForm) {
  const auto form = engine_->form("model");
  ASSERT_TRUE(form) << form.error().message;
  compare(&(*form)->form);
}

TEST_P(AutomaticOnModels, IsNeverSlowerThanOneTokenAPassInFreeText) { compare(nullptr); }

INSTANTIATE_TEST_SUITE_P(Shipped, AutomaticOnModels, ::testing::Values("demo", "demo-cot", "pair-target", "pair-draft"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace slip
