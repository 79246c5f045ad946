// SPDX-License-Identifier: Apache-2.0
// `auto` on the models of the tree, by counted costs: passes and their rows are counted, their prices are given, no clock is read. On every
// model, form and price it is within 5 % of the best exact preset, and never slower than the best decoder without drafts. Of free text that nobody
// has calibrated only the second is asked. What is compared is everything behind the prompt's rows, which are the same for all. SLIP_SCENES: scenes a model.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/must_testing.h"
#include "decode/types/presets.h"
#include "engine/automatic.h"
#include "eval/evaluate.h"
#include "models/draft/dflash.h"
#include "sim/record/make.h"
#include "task/scene_text.h"

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
  Status set_taps(std::span<const int32_t> layers) override { return inner_.set_taps(layers); }
  std::vector<int32_t> rows;  // of each pass

 private:
  Lm& inner_;
};

class CountingHead final : public DraftHead {
 public:
  explicit CountingHead(DraftHead& inner) : inner_(inner) {}
  const DraftHeadInfo& info() const override { return inner_.info(); }
  Status store(std::span<const int32_t> slots, std::span<const int32_t> positions, std::span<const float> taps) override {
    return inner_.store(slots, positions, taps);
  }
  Status forward(const Pass& pass, PassOutput& out) override {
    rows.push_back(static_cast<int32_t>(pass.rows.size()));
    return inner_.forward(pass, out);
  }
  std::vector<int32_t> rows;  // of each round

 private:
  DraftHead& inner_;
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
    if (!form) o.end_tokens = ends_;
    return o;
  }
  ForecastSettings settings(const Form* form, const DraftLengthModel& model, bool calibrated) const {
    return {.info = engine_->model().lm().info(),
            .form = form,
            .options = options(form),
            .prompt_rows = static_cast<int32_t>(prompts_.front().inputs.size()),
            .model = &model,
            .calibrated = calibrated};
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

  struct Ran {
    std::string name;
    bool plain;
    std::vector<std::vector<int32_t>> passes;  // by scene
  };
  /// What a scene's passes take at a price, its prompt's own left out.
  double cost(const Price& price, const std::vector<int32_t>& passes, size_t scene) const {
    const auto prompt = static_cast<int32_t>(prompts_[scene].inputs.size());
    return priced(passes, price.table, price.table.ms(prompt), prompt);
  }
  void run_presets(const Form* form);
  struct Quickest {
    double best = 0, plain = 0;  // plain: of those without drafts
    std::string best_name, plain_name;
  };
  Quickest quickest_preset(const Price& price) const;
  void compare(const Form* form, const Price& price);
  void compare(const Form* form);

  std::unique_ptr<Engine> engine_;
  std::vector<Prompt> prompts_;
  std::vector<TokenId> ends_;                // of free text; empty: it goes on to its limit
  std::vector<Ran> ran_;                     // of every preset
  std::vector<std::vector<TokenId>> truth_;  // by scene
};

void AutomaticOnModels::run_presets(const Form* form) {
  Statistics statistics;
  std::vector<TokenId> tokens;
  for (const Method& m : presets(form)) {
    Ran& r = ran_.emplace_back(Ran{m.preset, std::holds_alternative<NoDraftSpec>(m.drafter), {}});
    for (size_t i = 0; i < prompts_.size(); ++i) {
      r.passes.push_back(passes(m, form, prompts_[i], {}, statistics, tokens));
      if (truth_.size() == i) truth_.push_back(tokens);
      ASSERT_EQ(tokens, truth_[i]) << m.preset;
    }
  }
}

AutomaticOnModels::Quickest AutomaticOnModels::quickest_preset(const Price& price) const {
  Quickest q;
  for (const Ran& r : ran_) {
    double sum = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) sum += cost(price, r.passes[i], i);
    if (q.best == 0 || sum < q.best) q.best = sum, q.best_name = r.name;
    if (r.plain && (q.plain == 0 || sum < q.plain)) q.plain = sum, q.plain_name = r.name;
  }
  return q;
}

void AutomaticOnModels::compare(const Form* form, const Price& price) {
  const Quickest q = quickest_preset(price);
  bool calibrated = false;
  const DraftLengthModel model = known_acceptance(*engine_, form, price.table, calibrated);
  const ForecastSettings s = settings(form, model, calibrated);
  auto choice = AutomaticChoice::make(s, false, {});
  ASSERT_TRUE(choice) << choice.error().message;
  const std::string first = choice->why();
  DraftLengthTracker tracker;
  Statistics statistics;
  std::vector<TokenId> tokens;
  double own = 0;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const DecodeContext context{.draft_length_model = &model, .draft_length_tracker = &tracker};
    own += cost(price, passes(choice->best().method, form, prompts_[i], context, statistics, tokens), i);
    EXPECT_EQ(tokens, truth_[i]);
    choice->ran(statistics, static_cast<int32_t>(prompts_[i].inputs.size()));
  }
  const std::string what =
      fmt::format("{}, {}, {}: auto {:.1f}, best preset {} {:.1f}, without drafts {} {:.1f}; {}", GetParam(),
                  form ? form->name() : "free text", price.name, own, q.best_name, q.best, q.plain_name, q.plain, first);
  if (calibrated || form) {  // elsewhere doubt keeps from losing, not from missing a gain
    EXPECT_LE(own, 1.05 * q.best) << what;
  }
  EXPECT_LE(own, q.plain * (1 + 1e-9)) << what;
  if (std::getenv("SLIP_PRINT")) fmt::print("{:.3f} {:.3f} {}\n", own / q.best, own / q.plain, what);
}

void AutomaticOnModels::compare(const Form* form) {
  ASSERT_NO_FATAL_FAILURE(run_presets(form));
  for (const Price& price : prices()) ASSERT_NO_FATAL_FAILURE(compare(form, price));
}

TEST_P(AutomaticOnModels, IsWithinFivePercentOfTheBestPresetOverItsForm) {
  const auto form = engine_->form("model");
  ASSERT_TRUE(form) << form.error().message;
  compare(&(*form)->form);
}

TEST_P(AutomaticOnModels, IsNeverSlowerThanOneTokenAPassInFreeText) { compare(nullptr); }

/// Questions whose drafts somebody has calibrated: `bench text --calibrate` wrote text.width.json.
class AutomaticOnText : public AutomaticOnModels {
 protected:
  void SetUp() override {
    auto loaded = Engine::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models" / GetParam(), {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    engine_ = std::move(*loaded);
    ends_ = engine_->model().config().eos;
    for (int64_t i = 0; i < 90; ++i) {
      const SceneText text = must(scene_text_at(900'003'000, i));
      prompts_.push_back(must(engine_->model().build_prompt(std::vector{ChatMessage{"user", {TextItem{text.prompt}}}})));
    }
  }
};

TEST_P(AutomaticOnText, IsWithinFivePercentOfTheBestPreset) { compare(nullptr); }

INSTANTIATE_TEST_SUITE_P(Shipped, AutomaticOnText, ::testing::Values("tri"));

class AutomaticWithAHead : public AutomaticOnModels {
 protected:
  void SetUp() override {
    AutomaticOnModels::SetUp();
    auto loaded = load_dflash(engine_->folder() / "dflash", engine_->model(), 64);
    ASSERT_TRUE(loaded) << loaded.error().message;
    head_ = std::move(*loaded);
  }
  double rounds_ms(const Price& price, const std::vector<int32_t>& rows) const {
    double ms = 0;
    for (const int32_t n : rows) ms += kShare * price.table.ms(n);
    return ms;
  }
  /// A round of the head, of a pass of as many rows: it has 2 of the model's 5 layers, and no cameras.
  static constexpr double kShare = 0.4;
  std::unique_ptr<DFlashHead> head_;
};

TEST_P(AutomaticWithAHead, IsWithinFivePercentOfTheBestPresetAndOfTheHeadAlone) {
  const auto own = engine_->form("model");
  ASSERT_TRUE(own) << own.error().message;
  const Form* form = &(*own)->form;
  ASSERT_NO_FATAL_FAILURE(run_presets(form));
  const Method alone = must(with_parts(must(method_of("scaffold-ar")), "", "dflash", "", "fixed:11"));
  std::vector<std::vector<int32_t>> passes_alone, rounds_alone;
  Statistics statistics;
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    CountingHead head(*head_);
    passes_alone.push_back(passes(alone, form, prompts_[i], {.draft_head = &head}, statistics, tokens));
    rounds_alone.push_back(head.rows);
    ASSERT_EQ(tokens, truth_[i]);
  }
  int taken = 0;
  for (const Price& price : prices()) {
    bool calibrated = false, head_calibrated = false;
    const DraftLengthModel model = known_acceptance(*engine_, form, price.table, calibrated);
    DraftLengthModel of_head = acceptance_of_head((engine_->folder() / "dflash").string(), model, form, head_calibrated);
    ASSERT_TRUE(calibrated && head_calibrated);
    std::vector<double> rounds;
    for (const int32_t n : price.table.rows()) rounds.push_back(kShare * price.table.ms(n));
    of_head.pass = price.table;
    of_head.draft = must(CostTable::make({price.table.rows().begin(), price.table.rows().end()}, std::move(rounds), "rounds"));
    ForecastSettings s = settings(form, model, calibrated);
    s.head = OwnHead{.folder = "own", .block = head_->info().block, .model = &of_head};
    const auto adapter =
        acceptance_of_adapter(*engine_, price.table, form);  // the folder has one beside the head, with odds of its own
    ASSERT_TRUE(adapter);
    s.adapter = &*adapter;
    auto choice = AutomaticChoice::make(s, false, {});
    ASSERT_TRUE(choice) << choice.error().message;
    const bool by_head = std::holds_alternative<DFlashSpec>(choice->best().method.drafter);
    taken += by_head;
    const auto* diffusion = std::get_if<DiffusionSpec>(&choice->best().method.drafter);
    const DraftLengthModel& drafts = by_head ? of_head : diffusion && diffusion->adapter ? *adapter : model;
    DraftLengthTracker tracker;
    double mine = 0, its = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      CountingHead head(*head_);
      const DecodeContext context{.draft_head = &head, .draft_length_model = &drafts, .draft_length_tracker = &tracker};
      mine += cost(price, passes(choice->best().method, form, prompts_[i], context, statistics, tokens), i);
      mine += rounds_ms(price, head.rows);
      EXPECT_EQ(tokens, truth_[i]);
      its += cost(price, passes_alone[i], i) + rounds_ms(price, rounds_alone[i]);
    }
    const Quickest q = quickest_preset(price);
    EXPECT_LE(mine, 1.05 * std::min(q.best, its)) << price.name << ": " << choice->why();
    if (std::getenv("SLIP_PRINT")) fmt::print("{:.3f} {:.3f} {} {}\n", mine / q.best, mine / its, price.name, choice->why());
  }
  EXPECT_GT(taken, 0) << "it drafts in half of the rows, and its passes are cheaper";
}

INSTANTIATE_TEST_SUITE_P(Shipped, AutomaticWithAHead, ::testing::Values("demo"));

/// A shipped adapter has a calibration of its own.
class AutomaticWithAnAdapter : public AutomaticOnModels {};

TEST_P(AutomaticWithAnAdapter, IsWithinFivePercentOfTheBestPresetAndOfTheAdapterAlone) {
  const auto own = engine_->form("model");
  ASSERT_TRUE(own) << own.error().message;
  const Form* form = &(*own)->form;
  ASSERT_NO_FATAL_FAILURE(run_presets(form));
  Method alone = must(method_of(engine_->visibility() == Visibility::kGraph ? "fields-spec" : "scaffold-spec"));
  alone.drafter = DiffusionSpec{.adapter = true};
  std::vector<std::vector<int32_t>> passes_alone;
  Statistics statistics;
  std::vector<TokenId> tokens;
  for (const Prompt& prompt : prompts_) passes_alone.push_back(passes(alone, form, prompt, {}, statistics, tokens));
  int taken = 0;
  for (const Price& price : prices()) {
    bool calibrated = false;
    const DraftLengthModel model = known_acceptance(*engine_, form, price.table, calibrated);
    const auto adapter = acceptance_of_adapter(*engine_, price.table, form);
    ASSERT_TRUE(calibrated && adapter);
    EXPECT_EQ(adapter->drafter, "diffusion:lora");
    ForecastSettings s = settings(form, model, calibrated);
    s.adapter = &*adapter;
    auto choice = AutomaticChoice::make(s, false, {});
    ASSERT_TRUE(choice) << choice.error().message;
    const auto* diffusion = std::get_if<DiffusionSpec>(&choice->best().method.drafter);
    const bool by_adapter = diffusion && diffusion->adapter;
    taken += by_adapter;
    DraftLengthTracker tracker;
    double mine = 0, its = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const DecodeContext context{.draft_length_model = by_adapter ? &*adapter : &model, .draft_length_tracker = &tracker};
      mine += cost(price, passes(choice->best().method, form, prompts_[i], context, statistics, tokens), i);
      EXPECT_EQ(tokens, truth_[i]);
      its += cost(price, passes_alone[i], i);
    }
    const Quickest q = quickest_preset(price);
    EXPECT_LE(mine, 1.05 * std::min(q.best, its)) << price.name << ": " << choice->why();
    if (std::getenv("SLIP_PRINT")) fmt::print("{:.3f} {:.3f} {} {}\n", mine / q.best, mine / its, price.name, choice->why());
  }
  EXPECT_GT(taken, 0) << "its drafts hold more often";
}

INSTANTIATE_TEST_SUITE_P(Shipped, AutomaticWithAnAdapter, ::testing::Values("demo"));

INSTANTIATE_TEST_SUITE_P(Shipped, AutomaticOnModels, ::testing::Values("demo", "demo-cot", "pair-target", "pair-draft"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace slip
