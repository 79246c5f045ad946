// SPDX-License-Identifier: Apache-2.0
// See decoders.h. Tests: tests/cli/limits_test.cc
#include "api/tools/limits/decoders.h"

#include <algorithm>

#include "api/tools/limits/acceptance.h"
#include "decode/types/presets.h"
#include "limits/speculation_algebra.h"

namespace slip::api {

namespace {

constexpr int32_t kGamma = 4;  // of preset draft-model

Result<CostTable> head_costs(const LimitsWork& w) {
  std::vector<int32_t> rows;
  std::vector<double> ms;
  for (const int32_t n : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512}) {
    SLIP_TRY(const PassTime t, draft_head_round(w.model.head->shape, w.machine, w.pass_of(w.model, n, w.keys(), n)));
    rows.push_back(n);
    ms.push_back(t.total_ms);
  }
  return CostTable::make(std::move(rows), std::move(ms), "limits");
}

/// Of the head: the prompt's rows as its context.
Result<double> head_prompt_ms(const LimitsWork& w) {
  const HeadCase& h = *w.model.head;
  const int64_t pictures = h.image_context ? 0 : w.model.pictures.count * w.model.pictures.rows;
  const int64_t rows = std::max<int64_t>(1, w.model.prompt_rows - pictures);
  SLIP_TRY(const PassTime t, draft_head_context(h.shape, w.machine, w.pass_of(w.model, rows, 0, 1)));
  return t.total_ms;
}

struct Predicted {
  double passes = 0, rows = 0, decode_ms = 0, drafter_ms = 0;  // drafter_ms: of the prompt, by a drafter of its own
  double tokens = 0;
};

Result<Predicted> predict(const Method& method, const Prices& prices) {
  SLIP_TRY(const Forecast x, forecast(method, prices.settings));
  const bool by_head = std::holds_alternative<DFlashSpec>(method.drafter);
  return Predicted{.passes = x.forwards,
                   .rows = x.rows - x.first_rows,
                   .decode_ms = x.ms - x.first_ms,
                   .drafter_ms = by_head ? prices.head_prompt_ms : 0,
                   .tokens = x.tokens};
}

/// A second model: prices of its steps, and of its own tower and prompt.
struct SecondModel {
  CostTable steps;
  double before_ms = 0;
};

Result<std::optional<SecondModel>> second_model(LimitsWork& w) {
  if (w.options.draft_model.empty()) return std::optional<SecondModel>();
  SLIP_TRY(const LimitsCase draft, LimitsCase::load(w.options.draft_model, w.options));
  SLIP_TRY(const Machine machine, machine_for(w, draft));
  note_foreign_rates(w, draft);
  SecondModel out;
  SLIP_TRY(out.steps, roofline_costs(w, draft, machine));
  SLIP_TRY(const PassTime tower, tower_of(w, draft, machine));
  SLIP_TRY(const PassTime prompt, prompt_of(w, draft, machine, 0));
  out.before_ms = tower.total_ms + prompt.total_ms;
  return std::optional(std::move(out));
}

/// An answer of one token is the prompt's.
constexpr double kOneToken = 1.5;

Predicted predict_second(const Prices& prices, const CostTable& steps, double before_ms, double tokens) {
  if (tokens < kOneToken) return {.passes = 1, .rows = 0, .decode_ms = 0, .drafter_ms = before_ms, .tokens = tokens};
  const int n = std::max(1, static_cast<int>(std::lround(tokens)) - 1);  // the prompt's pass gives the first
  const FiniteRun run = finite_run(n, prices.profile.odds, kGamma);
  return {.passes = run.rounds + 1,
          .rows = run.rounds + run.draft_steps,
          .decode_ms = run.rounds * prices.settings.model->pass.ms(kGamma + 1) + run.draft_steps * steps.ms(1),
          .drafter_ms = before_ms,
          .tokens = tokens};
}

// ---- tables

struct DecoderTables {
  Table decoders, answers, left_out;
  std::optional<double> first_ms;
  double first_tokens = 0;
};

/// Nothing where there is nothing to divide by: an answer of one token is not decoded.
json::value ratio(double part, double whole) { return whole > 0 ? json::value(part / whole) : json::value(nullptr); }

DecoderTables empty_tables(const LimitsWork& w, const Prices& prices) {
  const Form* f = w.model.plain_form();
  DecoderTables t;
  t.decoders = {.name = "decoders",
                .title = fmt::format(
                    "Decoders over {}, behind a prompt of {} rows; {}{}:",
                    f ? f->name() : fmt::format("free text of {} tokens", prices.settings.text_tokens), w.model.prompt_rows,
                    prices.profile.words,
                    w.options.draft_model.empty() ? "" : fmt::format("; draft-model: {:.3g} of drafts hold", prices.profile.odds)),
                .columns = {"decoder", "lossy", "passes", "rows", "predicted_ms", "speed_up", "at_measured_costs_ms",
                            "measured_passes", "measured_ms", std::string(kPredictedOverMeasured)},
                .rows = {}};
  t.answers = {.name = "answers",
               .title = "Whole answers by stage, predicted milliseconds:",
               .columns = {"decoder", "tower_ms", "prompt_ms", "drafter_prompt_ms", "decode_ms", "answer_ms", "of_decoding"},
               .rows = {}};
  t.left_out = {
      .name = "left_out", .title = "Decoders that were not forecast, and why:", .columns = {"decoder", "reason"}, .rows = {}};
  return t;
}

void add_prediction(const Candidate& c, const Predicted& p, const AnswerStages& stages, DecoderTables& t) {
  if (!t.first_ms) t.first_ms = p.decode_ms;
  if (t.first_tokens == 0) t.first_tokens = p.tokens;
  t.decoders.rows.push_back({json::string(c.name), c.method.lossy() ? "lossy" : "exact", p.passes, p.rows, p.decode_ms,
                             ratio(*t.first_ms, p.decode_ms), nullptr, nullptr, nullptr, nullptr});
  const double whole = stages.tower_ms + stages.prompt_ms + p.drafter_ms + p.decode_ms;
  t.answers.rows.push_back(
      {json::string(c.name), stages.tower_ms, stages.prompt_ms, p.drafter_ms, p.decode_ms, whole, ratio(p.decode_ms, whole)});
}

/// The last row's measured cells. Answers stand behind their own prompts: prices behind other keys (--keys) are not compared with them.
void add_measurement(const MeasuredDecoder& m, const Predicted& at_costs, bool same_keys, DecoderTables& t) {
  json::array& row = t.decoders.rows.back();
  row[6] = at_costs.decode_ms;
  row[7] = m.forwards();
  row[8] = m.ms();
  if (same_keys && at_costs.decode_ms > 0) row[9] = ratio(at_costs.decode_ms, m.ms());
}

bool counted_alone(const Method& m) { return std::holds_alternative<ConfidenceSpec>(m.verifier); }

/// Passes and rows as counted, those of the prompt's pass left out, at some prices.
Predicted priced(const MeasuredDecoder& m, int32_t first_rows, const Prices& prices) {
  const double rows = std::max(1.0, m.rows() - first_rows);
  return {.passes = m.forwards(),
          .rows = rows,
          .decode_ms = m.tokens() < kOneToken ? 0 : shared_ms(m.forwards() - 1, rows, prices.settings.model->pass),
          .drafter_ms = 0,
          .tokens = m.tokens()};
}

class Predicting {
 public:
  Predicting(LimitsWork& w, const Measured* measured, AnswerStages& stages) : w_(w), measured_(measured), stages_(stages) {}

  Result<std::string> run() {
    SLIP_TRY_(prepare());
    tables_ = empty_tables(w_, predicted_);
    const std::vector<Candidate> all = candidates_of(w_, predicted_.settings.head ? &*predicted_.settings.head : nullptr);
    for (size_t i = 0; i < all.size(); ++i) {
      w_.tell("predicting", static_cast<int64_t>(i), static_cast<int64_t>(all.size()));
      SLIP_TRY_(w_.cancel.check("limits", static_cast<int64_t>(i), "decoders"));
      SLIP_TRY_(one(all[i]));
    }
    w_.tables.push_back(std::move(tables_.decoders));
    w_.tables.push_back(std::move(tables_.answers));
    if (!tables_.left_out.rows.empty()) w_.tables.push_back(std::move(tables_.left_out));
    return predicted_.profile.words;
  }

 private:
  Status prepare() {
    SLIP_TRY(const CostTable pass, roofline_costs(w_, w_.model, w_.machine));
    std::optional<CostTable> rounds;
    double head_prompt = 0;
    if (w_.model.head) {
      SLIP_TRY(rounds, head_costs(w_));
      SLIP_TRY(head_prompt, head_prompt_ms(w_));
    }
    const int32_t tokens = w_.text_tokens();
    SLIP_TRY_(fill_prices(w_, pass, rounds ? &*rounds : nullptr, head_prompt, tokens, predicted_));
    SLIP_TRY(second_, second_model(w_));
    if (!measured_) return {};
    const std::optional<CostTable>& rounds_here = measured_->head_rounds;
    here_.emplace();
    return fill_prices(w_, measured_->passes, rounds_here ? &*rounds_here : nullptr, head_prompt, tokens, *here_);
  }

  void leave_out(const Candidate& c, std::string reason) {
    tables_.left_out.rows.push_back({json::string(c.name), json::string(reason)});
  }

  /// A method that this model or form cannot run is named with the decoder's own reason.
  Status one(const Candidate& c) {
    if (std::holds_alternative<ModelSpec>(c.method.drafter)) return second(c);
    if (const std::string why = refusal_of(c, w_, predicted_.settings.head.has_value()); !why.empty()) {
      leave_out(c, why);
      return {};
    }
    const auto x = predict(c.method, predicted_);
    if (!x && (x.error().kind == ErrorKind::kUnsupported || x.error().kind == ErrorKind::kUsage)) {
      leave_out(c, x.error().message);
      return {};
    }
    if (!x) return x.error();
    if (counted_alone(c.method) || (here_ && guesses(c.method))) return counted(c);
    add_prediction(c, *x, stages_, tables_);
    if (!here_) return {};
    SLIP_TRY(const Predicted y, predict(c.method, *here_));
    if (const MeasuredDecoder* m = measured(c)) add_measurement(*m, y, same_keys(), tables_);
    return {};
  }

  /// Where nothing says how its drafts hold, what it takes here is counted too.
  bool guesses(const Method& m) const {
    return predicted_.profile.guessed && m.drafts() && !std::holds_alternative<DFlashSpec>(m.drafter);
  }

  /// Null where it could not run.
  const MeasuredDecoder* measured(const Candidate& c) {
    const auto at = measured_->decoders.find(c.name);
    if (at == measured_->decoders.end()) return nullptr;
    if (!stages_.measured_prompt_ms && !c.method.drafts()) stages_.measured_prompt_ms = at->second.prompt_ms();
    return &at->second;
  }

  Status counted(const Candidate& c) {
    if (!here_) {
      leave_out(c, "lossy: its passes hang on confidences that no calibration holds; --measure counts them");
      return {};
    }
    const MeasuredDecoder* const m = measured(c);
    if (!m) {
      leave_out(c, "expected a model that can run it, got one that cannot");
      return {};
    }
    const int32_t first_rows = w_.model.prompt_rows + w_.scaffold_rows;
    add_prediction(c, priced(*m, first_rows, predicted_), stages_, tables_);
    add_measurement(*m, priced(*m, first_rows, *here_), same_keys(), tables_);
    return {};
  }

  Status second(const Candidate& c) {
    if (!second_ || tables_.first_tokens == 0) {
      leave_out(c, "expected a second model (--draft-model), got none");
      return {};
    }
    if (measured_ && !measured_->draft_model_refused.empty()) {
      leave_out(c, measured_->draft_model_refused);
      return {};
    }
    add_prediction(c, predict_second(predicted_, second_->steps, second_->before_ms, tables_.first_tokens), stages_, tables_);
    if (!here_) return {};
    const MeasuredDecoder* const m = measured(c);
    if (m && measured_->draft_steps)
      add_measurement(*m, predict_second(*here_, *measured_->draft_steps, second_->before_ms, tables_.first_tokens), same_keys(),
                      tables_);
    return {};
  }
  bool same_keys() const { return w_.options.keys == 0; }

  LimitsWork& w_;
  const Measured* measured_;
  AnswerStages& stages_;
  Prices predicted_;
  std::optional<Prices> here_;
  std::optional<SecondModel> second_;
  DecoderTables tables_;
};

}  // namespace

Result<int32_t> scaffold_rows_of(const LimitsWork& w) {
  if (!w.model.form) return 0;
  SLIP_TRY(CostTable flat, CostTable::make({1, 2}, {1, 1}, "limits"));
  Prices prices;
  SLIP_TRY_(fill_prices(w, flat, nullptr, 0, 0, prices));
  prices.settings.head.reset();
  prices.settings.answers = 1;
  SLIP_TRY(const Method ar, method_of("ar"));
  SLIP_TRY(const Forecast x, forecast(ar, prices.settings));
  return std::max(0, static_cast<int32_t>(std::lround(x.first_rows)) - w.model.prompt_rows);
}

Result<std::string> predict_decoders(LimitsWork& w, const Measured* measured, AnswerStages& stages) {
  return Predicting(w, measured, stages).run();
}

}  // namespace slip::api
