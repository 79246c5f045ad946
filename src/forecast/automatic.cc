// SPDX-License-Identifier: Apache-2.0
// Tests: Automatic.*, tests/models/automatic_test.cc
#include "forecast/automatic.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/pause.h"
#include "decode/types/usual_preset.h"

namespace slip {
namespace {

/// Nearly equal forecasts: what drafts nothing cannot be wrong, and what adapts corrects itself while it runs.
constexpr double kPlainBonus = 0.98, kAdaptiveBonus = 0.99;
/// The same of what drafts nothing where acceptance is a guess.
constexpr double kPlainBonusInDoubt = 0.8;
/// And what a head has to be quicker by that was never calibrated, beside drafts that were.
constexpr double kDoubtOfHead = 1 / kPlainBonusInDoubt;
/// The same where passes are shared, which are fuller: there a forecast that thinks drafts a tenth too good costs everybody rows.
constexpr double kPlainBonusShared = 0.9;
/// The same of what drafts nothing in free text whose drafts are calibrated: one text is not like the next, as a form's answers are, and a
/// calibration is a mean over all.
constexpr double kPlainBonusText = 0.92;
/// Where passes are shared, drafts with the adapter and without it have passes of their own: a mixture of both costs everybody more than either. So
/// the one gives way to the other only where that is a tenth cheaper.
constexpr double kOtherPasses = 1.1;
/// How frames hang together shows only where one is drafted from the other. Where most fields stay, what does so is tried so many times, and again
/// after every change of how much stays, even if its forecast is up to a sixth dearer.
constexpr double kUntried = 0.85, kMostStay = 0.5;
constexpr int64_t kTries = 3;
/// Candidates that a first look puts within this factor of the best are looked at again. Forecasting takes time that the answer waits for.
constexpr double kNear = 1.3;
/// The forecast weighs as much as so many answers; the newest one never less than this.
constexpr double kForecast = 4, kNewest = 0.1;
/// The same of free text, whose answers differ more: a decoder that was left by chance would not be tried again.
constexpr double kNewestText = 0.02;
/// Texts are foretold as long as they were, anew when that has become another length by this factor, and not before so many: a forecast of other
/// candidates takes milliseconds. The newest text counts so much; what comes behind so many tokens is like what was before them.
constexpr double kOtherLength = 1.5, kNewestLength = 0.1, kMostTextTokens = 128;
constexpr int64_t kLeastTexts = 2;

class List {
 public:
  std::vector<Candidate> take() { return std::move(out_); }
  void add(std::string_view preset, std::string_view drafter = "", std::string_view width = "") {
    auto base = method_of(preset);
    SLIP_CHECK(base.has_value(), "candidates are named after presets");
    auto m = with_parts(std::move(*base), "", drafter, "", width);
    SLIP_CHECK(m.has_value() && !m->lossy(), "candidates are put together of parts that go together");
    Candidate c{.method = std::move(*m), .name = std::string(preset), .expected = {}};
    const bool of_file = drafter.starts_with("previous:") || drafter.starts_with("dflash:");
    if (!drafter.empty()) c.name += fmt::format(" --drafter {}", of_file ? drafter.substr(0, drafter.find(':')) : drafter);
    if (!width.empty()) c.name += fmt::format(" --width {}", width);
    out_.push_back(std::move(c));
  }

 private:
  std::vector<Candidate> out_;
};

}  // namespace

std::vector<Candidate> exact_candidates(const LmInfo& info, bool form, Visibility visibility, bool earlier, const OwnHead* head) {
  const bool drafts = info.rule.has_mask && !info.rule.block_causal_context, graph = form && visibility == Visibility::kGraph;
  const std::string_view plain = usual_preset(form, graph, false), spec = usual_preset(form, graph, true);
  List list;
  list.add(plain);
  if (earlier) list.add(plain, "previous:earlier", "fixed:24");
  if (head && !graph) {
    const std::string drafter = "dflash:" + head->folder;
    const int32_t most = std::max(1, head->block - 1);
    list.add(plain, drafter, fmt::format("fixed:{}", most));
    if (most > 3) list.add(plain, drafter, fmt::format("fixed:{}", (most + 1) / 2));
    list.add(plain, drafter, "measured");
  }
  if (!drafts) return list.take();
  list.add(spec);
  if (graph) {
    list.add(spec, "", "measured");  // masks ahead, by levels
    list.add(spec, "diffusion:ahead", "fixed:4");
    list.add(spec, "diffusion:ahead", "fixed:8");
    list.add(spec, "diffusion", "measured");
  } else {
    list.add(spec, "", "measured");
    list.add(spec, "diffusion", "fixed:8");
    list.add(spec, "diffusion", "fixed:16");
    if (form) list.add(plain, "quadratic", "fixed:3");
    list.add(plain, "quadratic", "fixed:4");
  }
  if (info.has_draft_adapter) {
    list.add(spec, "diffusion:lora");
    list.add(spec, "diffusion:lora", "measured");
  }
  if (earlier) {
    list.add(spec, "previous:earlier");
    list.add(spec, "previous:earlier", "measured");
  }
  return list.take();
}

Result<AutomaticChoice> AutomaticChoice::make(const ForecastSettings& s, bool earlier,
                                              const std::function<bool(const Method&)>& fits, const Foretold* kept) {
  AutomaticChoice out;
  out.settings_ = s;
  out.settings_.cancel = {};  // of the request that asked first
  out.costs_ = &s.model->pass;
  out.calibrated_ = s.calibrated;
  if (!s.shared) out.prompt_ms_ = s.model->pass.ms(s.prompt_rows);
  std::vector<Candidate> all =
      exact_candidates(s.info, s.form != nullptr, s.options.visibility, earlier, s.head ? &*s.head : nullptr);
  // Text is calibrated by the drafts of a pass of their own; beside what they verify, fewer hold where nothing was taught (docs/lab/0021-auto.md).
  if (!s.form && s.calibrated)
    std::erase_if(all, [](const Candidate& c) { return std::holds_alternative<QuadraticSpec>(c.method.drafter); });
  const auto fitting = std::stable_partition(all.begin(), all.end(), [&](const Candidate& c) { return !fits || fits(c.method); });
  all.erase(fitting == all.begin() ? std::next(fitting) : fitting,
            all.end());  // where none fits, the plainest says itself what it lacks
  for (Candidate& c : all)
    c.guessed = s.calibrated && s.head && !s.head->calibrated && std::holds_alternative<DFlashSpec>(c.method.drafter);
  if (!kept || !out.take(all, *kept)) SLIP_TRY_(out.forecast_all(s, std::move(all)));
  out.choose();
  out.settled_ = true;
  return out;
}

/// A first look by a quarter of the answers; candidates that come near the best get all.
Status AutomaticChoice::forecast_all(const ForecastSettings& s, std::vector<Candidate> all) {
  ForecastSettings whole = s, look;
  whole.typical = std::make_shared<TypicalAnswers>();
  look = whole;
  look.answers = std::max(1, answers_of(s) / 4);
  for (Candidate& c : all) {
    SLIP_TRY_(pause_point());  // some milliseconds each: where requests share a thread, passes of others go first
    auto expected = forecast(c.method, look);
    if (!expected && expected.error().kind != ErrorKind::kUnsupported) return expected.error();
    if (expected) {
      c.expected = *expected;
      candidates_.push_back(c);
    }
  }
  if (candidates_.empty()) return unsupported("--decoder auto: expected a decoder that this model can run, got none");
  choose();
  const double near = kNear * (forecast_ms(best()) - prompt_ms_);
  for (Candidate& c : candidates_) {
    if (forecast_ms(c) - prompt_ms_ > near) continue;
    SLIP_TRY_(pause_point());
    SLIP_TRY(c.expected, forecast(c.method, whole));
  }
  foretold_.prompt_rows = s.prompt_rows;
  if (s.head) foretold_.head_prompt_ms = s.head->prompt_ms;
  for (const Candidate& c : all) {
    const auto at = std::ranges::find(candidates_, c.name, &Candidate::name);
    foretold_.candidates.emplace_back(c.name, at == candidates_.end() ? std::nullopt : std::optional(at->expected));
  }
  return {};
}

bool AutomaticChoice::take(std::vector<Candidate> all, const Foretold& kept) {
  const bool same = std::ranges::equal(all, kept.candidates, {}, &Candidate::name, [](const auto& k) { return k.first; });
  if (!same || std::ranges::none_of(kept.candidates, [](const auto& k) { return k.second.has_value(); })) return false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!kept.candidates[i].second) continue;
    Forecast& f = all[i].expected;
    f = *kept.candidates[i].second;
    const auto then = static_cast<int32_t>(std::lround(f.first_rows)), now = then + settings_.prompt_rows - kept.prompt_rows;
    const double prompt = costs_->ms(std::max(1, now)) - costs_->ms(then);
    f.first_rows += now - then;
    f.first_ms += prompt;
    f.ms += prompt;
    if (settings_.head && std::holds_alternative<DFlashSpec>(all[i].method.drafter))
      f.ms += settings_.head->prompt_ms - kept.head_prompt_ms;
    candidates_.push_back(std::move(all[i]));
  }
  foretold_ = kept;
  return true;
}

double AutomaticChoice::forecast_ms(const Candidate& c) const {
  if (!settings_.shared) return c.expected.ms;
  return shared_ms(c.expected.forwards, c.expected.rows - kept_rows_, *costs_) + c.expected.drafter_ms;
}

bool AutomaticChoice::leaves_the_others(const Candidate& c) const {
  const auto by_adapter = [](const Candidate& k) {
    const auto* diffusion = std::get_if<DiffusionSpec>(&k.method.drafter);
    return diffusion && diffusion->adapter;
  };
  return settings_.shared && settled_ && by_adapter(c) != by_adapter(best());
}

void AutomaticChoice::choose() {
  const auto price = [&](const Candidate& c) {
    const bool plain = std::holds_alternative<NoDraftSpec>(c.method.drafter);
    const double behind = expected_ms(c) - prompt_ms_;
    if (plain)
      return behind * (!calibrated_       ? kPlainBonusInDoubt
                       : !settings_.form  ? kPlainBonusText
                       : settings_.shared ? kPlainBonusShared
                                          : kPlainBonus);
    const bool untried = !settings_.shared && settings_.rollouts == 1 && c.answers < kTries &&
                         settings_.persistence.with_parents > kMostStay && std::holds_alternative<PreviousSpec>(c.method.drafter);
    return behind * (c.method.draft_length.kind == DraftLengthSpec::Kind::kMeasured ? kAdaptiveBonus : 1) *
           (c.guessed ? kDoubtOfHead : 1) * (untried ? kUntried : 1);
  };
  size_t chosen = best_;
  const auto asked = [&](const Candidate& c) { return price(c) * (leaves_the_others(c) ? kOtherPasses : 1); };
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (asked(candidates_[i]) < asked(candidates_[chosen])) chosen = i;
  best_ = chosen;
}

void AutomaticChoice::ran(const Statistics& statistics, int32_t prompt_rows) {
  Candidate& c = candidates_[best_];
  const double prompt = costs_->ms(std::max<int32_t>(1, prompt_rows - static_cast<int32_t>(statistics.reused_rows)));
  const double rounds = c.expected.drafter_forwards > 0
                            ? static_cast<double>(statistics.drafter_forwards) * c.expected.drafter_ms / c.expected.drafter_forwards
                            : 0;
  const double weight = std::max(settings_.form ? kNewest : kNewestText, 1 / (kForecast + 1 + static_cast<double>(c.answers)));
  if (settings_.shared) kept_rows_ += kNewest * (static_cast<double>(statistics.reused_rows) - kept_rows_);
  const double took =
      settings_.shared ? shared_ms(static_cast<double>(statistics.forwards), static_cast<double>(statistics.rows), *costs_) + rounds
                       : priced_ms(statistics, *costs_, prompt_rows) + rounds - prompt;
  const double expected = forecast_ms(c) - fixed_ms(c);
  if (!(expected > 0) || !(took > 0)) return;
  // Text is as long as it is, by whatever decoder: what is learned of one is what it takes for a token.
  const bool text = !settings_.form && c.expected.tokens > 0 && statistics.tokens > 0;
  const double longer = text ? static_cast<double>(statistics.tokens) / c.expected.tokens : 1;
  if (text) {
    text_tokens_ +=
        std::max(kNewestLength, 1 / static_cast<double>(texts_ + 1)) * (static_cast<double>(statistics.tokens) - text_tokens_);
    ++texts_;
  }
  c.learned += weight * (std::clamp(took / (expected * longer), 0.05, 20.0) - c.learned);
  ++c.answers;
  choose();
}

Status AutomaticChoice::follow_lengths() {
  if (texts_ < kLeastTexts) return {};
  const double now = std::clamp(text_tokens_, 2.0, kMostTextTokens), taken = settings_.text_tokens;
  if (now < kOtherLength * taken && taken < kOtherLength * now) return {};
  ForecastSettings then = settings_;
  then.text_tokens = static_cast<int32_t>(std::lround(now));
  return forecast_again(
      then, [](const Candidate&) { return true; }, [](Candidate&) {});
}

Status AutomaticChoice::persist(const Persistence& persistence) {
  ForecastSettings then = settings_;
  then.persistence = persistence;
  return forecast_again(
      then, [](const Candidate& c) { return std::holds_alternative<PreviousSpec>(c.method.drafter); },
      [](Candidate& c) { c.learned = 1, c.answers = 0; });
}

Status AutomaticChoice::forecast_again(const ForecastSettings& then, const std::function<bool(const Candidate&)>& concerns,
                                       const std::function<void(Candidate&)>& renew) {
  std::vector<std::optional<Forecast>> fresh(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!concerns(candidates_[i])) continue;
    SLIP_TRY_(pause_point());  // here the request may end: nothing has changed so far
    SLIP_TRY(fresh[i], forecast(candidates_[i].method, then));
  }
  settings_ = then;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!fresh[i]) continue;
    candidates_[i].expected = *fresh[i];
    renew(candidates_[i]);
  }
  choose();
  return {};
}

double AutomaticChoice::fixed_ms(const Candidate& c) const {
  const bool by_head = settings_.head && std::holds_alternative<DFlashSpec>(c.method.drafter);
  return prompt_ms_ + (by_head ? settings_.head->prompt_ms : 0);
}

std::string AutomaticChoice::why() const {
  std::string out =
      fmt::format("{}: {:.3g} ms expected in {:.0f} passes", best().name, expected_ms(best()), best().expected.forwards);
  for (const Candidate& c : candidates_)
    if (&c != &best()) out += fmt::format("; {} {:.3g}", c.name, expected_ms(c));
  return out;
}

}  // namespace slip
