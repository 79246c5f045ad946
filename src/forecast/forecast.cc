// SPDX-License-Identifier: Apache-2.0
#include "forecast/forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/pause.h"
#include "decode/pass/choice.h"

namespace slip {
namespace {

/// An adapter that was trained to draft: 0.920 to 0.929 of tested drafts on models/demo, 5.46 to 6.82 tokens accepted in
/// [Nemotron-Labs-Diffusion, table 10]. Odds, where nothing was calibrated with it.
constexpr double kAdapterLift = 1.15;

Prompt plain_prompt(int32_t rows) {
  Prompt p;
  for (int32_t i = 0; i < rows; ++i) {
    p.inputs.emplace_back(TokenId{0});
    p.positions.push_back(Position::text(i));
  }
  p.next_position = rows;
  return p;
}

constexpr TokenId kEnd{2};  // of free text

/// Greedy but for what makes rollouts part, however warm that is drawn, and nothing that only costs.
DecodeOptions options_of(const ForecastSettings& s) {
  DecodeOptions o = s.options;
  if (s.rollouts == 1) {
    o.temperature = 0;
    o.section_temperature.clear();
  }
  const auto drawn_or_not = [](float& t) { t = t > 0 ? 1 : 0; };  // where rollouts part, the stand-in says
  drawn_or_not(o.temperature);
  for (auto& [section, t] : o.section_temperature) drawn_or_not(t);
  o.sampling = {};
  o.forced = s.form != nullptr;
  o.reuse_prompt = o.trace = o.log_forced = false;
  if (s.form) return o;
  o.end_tokens = {kEnd};
  o.limit = s.text_tokens;
  o.denied.clear();
  return o;
}

bool by_adapter(const Method& m) {
  const auto* d = std::get_if<DiffusionSpec>(&m.drafter);
  return d && d->adapter;
}

double lift_of(const Method& m, const DraftLengthModel& model) {
  return by_adapter(m) && model.drafter.find("lora") == std::string::npos ? kAdapterLift : 1;
}

void add(const Statistics& s, double ms, double drafter_ms, Forecast& to) {
  to.ms += ms + drafter_ms;
  to.drafter_ms += drafter_ms;
  to.drafter_forwards += static_cast<double>(s.drafter_forwards);
  to.forwards += static_cast<double>(s.forwards);
  to.draft_forwards += static_cast<double>(s.draft_forwards);
  to.rows += static_cast<double>(s.rows);
  to.tokens += static_cast<double>(s.tokens);
  to.tested += static_cast<double>(s.tested);
  to.accepted += static_cast<double>(s.accepted);
}

/// Sums over `answers` to means. The mean of equal counts is that count, which a sum of shares is not.
void divide(int32_t answers, Forecast& sums) {
  for (double* x : {&sums.ms, &sums.drafter_ms, &sums.drafter_forwards, &sums.forwards, &sums.draft_forwards, &sums.rows,
                    &sums.tokens, &sums.tested, &sums.accepted, &sums.first_ms, &sums.first_rows})
    *x /= answers;
}

constexpr int32_t kTextVocab = 128;

/// Fields in an order in which parents come before their children.
std::vector<size_t> parents_first(const Form& form) {
  const size_t n = form.fields().size();
  std::vector<std::vector<size_t>> children(n);
  std::vector<size_t> waits(n), order;
  for (size_t f = 0; f < n; ++f) {
    waits[f] = form.fields()[f].parents.size();
    for (const int32_t q : form.fields()[f].parents) children[static_cast<size_t>(q)].push_back(f);
    if (waits[f] == 0) order.push_back(f);
  }
  for (size_t i = 0; i < order.size(); ++i)
    for (const size_t child : children[order[i]])
      if (--waits[child] == 0) order.push_back(child);
  return order;
}

bool is_drawn(const DecodeOptions& o, int32_t section) {
  for (const auto& [s, t] : o.section_temperature)
    if (s == section) return t > 0;
  return o.temperature > 0;
}

/// Ways to go on from a field's beginning.
double ways_of(const Field& f, int32_t vocab) {
  std::vector<TokenId> listed;
  double ways = 0;
  for_each_allowed(allowed_in(f, 0, listed), vocab, [&](TokenId) { ++ways; });
  return std::max(1.0, ways);
}

/// Where rollouts part, by form position: at the first token of fields that are drawn (in free text at every token), one after another until there
/// are ways enough that few of so many rollouts go the same. Along a graph a field goes on with the ways of its parents.
std::vector<uint8_t> parts_of(const Form* form, const StandInAnswer& answer, const DecodeOptions& o, int32_t rollouts,
                              int32_t vocab) {
  const double enough = 4.0 * rollouts;
  std::vector<uint8_t> out(answer.target.size(), 0);
  double ways = 1;
  for (size_t i = 0; !form && i < out.size() && o.temperature > 0 && ways < enough; ++i, ways *= vocab) out[i] = 1;
  if (!form) return out;
  const size_t n = form->fields().size();
  const bool chain = o.visibility == Visibility::kChain;
  std::vector<double> behind(n, 1);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  for (const size_t f : chain ? order : parents_first(*form)) {
    const Field& x = form->fields()[f];
    const auto start = static_cast<size_t>(x.start);
    for (const int32_t q : x.parents) behind[f] = std::max(behind[f], behind[static_cast<size_t>(q)]);
    double& met = chain ? ways : behind[f];
    if (met >= enough || !answer.drawn[start] || !is_drawn(o, x.section)) continue;
    out[start] = 1;
    met *= ways_of(x, vocab);
  }
  return out;
}

}  // namespace

PreviousAnswer earlier_of(const Form* form, const Contents& contents, const StandInAnswer& answer, const Persistence& persistence,
                          PhiloxStream& random) {
  PreviousAnswer out;
  if (!form) {
    for (size_t i = 0; i < answer.target.size(); ++i)
      out.tokens.push_back(random.chance(persistence.with_parents) ? answer.target[i] : answer.other[i]);
    return out;
  }
  out.form = form->name();
  out.fields = contents;
  std::vector<uint8_t> another(out.fields.size(), 0);
  for (const size_t f : parents_first(*form)) {
    const bool behind =
        std::ranges::any_of(form->fields()[f].parents, [&](int32_t q) { return another[static_cast<size_t>(q)] != 0; });
    if (out.fields[f].empty() || random.chance(behind ? persistence.behind_others : persistence.with_parents)) continue;
    another[f] = 1;
    for (size_t i = 0; i < out.fields[f].size(); ++i)
      if (i == 0 || random.chance(0.5)) out.fields[f][i] = answer.other[static_cast<size_t>(form->fields()[f].start) + i];
  }
  return out;
}

// So many that their draws say what drafts are worth: the standard error of 2,400 at odds of .8 is .008. Who asks for one answer of as many
// draws waits for no second.
int32_t answers_of(const ForecastSettings& s) {
  constexpr int32_t kDraws = 2400, kLeast = 3, kMost = 64;
  if (s.answers > 0) return s.answers;
  int64_t draws = s.form ? 0 : s.text_tokens;
  for (size_t f = 0; s.form && f < s.form->fields().size(); ++f) draws += s.form->fields()[f].budget;
  const int64_t least = draws > kDraws ? 1 : kLeast;
  return static_cast<int32_t>(std::clamp<int64_t>(kDraws / std::max<int64_t>(1, draws * s.rollouts), least, kMost));
}

Result<const CompactForm*> TypicalAnswers::form(const Form& form) {
  if (!form_) {
    SLIP_TRY(form_, compact(form));
  }
  return &*form_;
}

const TypicalAnswers::One& TypicalAnswers::of(const DraftLengthModel& model, int32_t n, uint64_t seed, bool chain) {
  const auto at = answers_.find({&model, n});
  if (at != answers_.end()) return at->second;
  One one{.contents = {}, .answer = {}, .random = PhiloxStream(seed, static_cast<uint64_t>(n))};
  const TokenId mask{form_->vocab - 1};
  one.contents = typical_contents(form_->form, model.lengths, model.survival, form_->vocab, mask, one.random);
  one.answer = StandInAnswer::of_form(form_->form, one.contents, chain);
  return answers_.emplace(std::pair{&model, n}, std::move(one)).first->second;
}

Result<Forecast> forecast(const Method& method, const ForecastSettings& s) {
  SLIP_CHECK(s.model && !s.model->pass.empty(), "a forecast is made with what passes cost");
  const int32_t answers = answers_of(s);
  const bool by_head = std::holds_alternative<DFlashSpec>(method.drafter);
  if (by_head && !s.head) return unsupported("forecast: expected a draft head for drafter dflash, got none");
  const DraftLengthModel& model = by_head ? *s.head->model : s.adapter && by_adapter(method) ? *s.adapter : *s.model;
  const Prompt prompt = plain_prompt(std::max(1, s.prompt_rows));
  TypicalAnswers own;
  TypicalAnswers& typical = s.typical ? *s.typical : own;
  const CompactForm* small = nullptr;
  if (s.form) {
    SLIP_TRY(small, typical.form(*s.form));
  }
  const Form* form = small ? &small->form : nullptr;
  LmInfo info = s.info;
  info.slots = 1 << 24;
  info.vocab = small ? small->vocab : kTextVocab;
  info.rule.mask = {info.vocab - 1};
  info.hidden_size = 1;  // nobody reads what taps bring
  DecodeOptions options = options_of(s);
  StandInLm lm(info, {&model.survival, s.tracker, lift_of(method, model)}, model.pass, prompt.next_position);
  StandInHead head(lm, by_head ? s.head->block : 2, model.draft);
  Decoder decoder(lm, method);
  Forecast out;
  for (int32_t n = 0; n < answers; ++n) {
    SLIP_TRY_(pause_point());
    PhiloxStream random(s.seed, static_cast<uint64_t>(n));
    options.seed = s.seed + static_cast<uint64_t>(n);  // rollouts part in other ways in every answer
    Contents contents;
    StandInAnswer answer;
    if (form) {
      const TypicalAnswers::One& one = typical.of(model, n, s.seed, options.visibility == Visibility::kChain);
      contents = one.contents, answer = one.answer, random = one.random;
    } else {
      answer = StandInAnswer::of_text(s.text_tokens, info.vocab, kEnd);
    }
    if (s.rollouts > 1) answer.parts = parts_of(form, answer, options, s.rollouts, info.vocab);
    PreviousAnswer earlier;
    if (std::holds_alternative<PreviousSpec>(method.drafter)) earlier = earlier_of(form, contents, answer, s.persistence, random);
    lm.begin(std::move(answer), s.seed + static_cast<uint64_t>(n));
    head.begin();
    DraftLengthTracker tracker = s.tracker ? *s.tracker : DraftLengthTracker();
    const DecodeContext context{.previous = &earlier,
                                .draft_head = &head,
                                .draft_length_model = &model,
                                .draft_length_tracker = &tracker,
                                .cancel = s.cancel};
    SLIP_TRY(const std::vector<Decoded> d, decoder.rollouts(prompt, form, options, s.rollouts, context));
    add(d.front().statistics, lm.ms(), head.ms(), out);
    out.first_ms += lm.first_ms();
    out.first_rows += static_cast<double>(lm.first_rows());
  }
  divide(answers, out);
  if (by_head) out.ms += s.head->prompt_ms;
  return out;
}

double shared_ms(double forwards, double rows, const CostTable& costs) {
  const double passes = std::max(1.0, forwards), mean = std::max(1.0, rows / passes);
  const auto low = static_cast<int32_t>(std::floor(mean));
  const double share = mean - low;
  return passes * ((1 - share) * costs.ms(low) + share * costs.ms(low + 1));
}

double priced_ms(const Statistics& s, const CostTable& costs, int32_t prompt_rows) {
  const auto prompt = static_cast<int32_t>(std::max<int64_t>(1, prompt_rows - s.reused_rows));
  const int64_t passes = std::max<int64_t>(0, s.forwards - 1), rows = std::max<int64_t>(0, s.rows - prompt);
  if (passes == 0) return costs.ms(prompt + static_cast<int32_t>(rows));
  return costs.ms(prompt) + shared_ms(static_cast<double>(passes), static_cast<double>(rows), costs);
}

}  // namespace slip
