// SPDX-License-Identifier: Apache-2.0
// The decoder `auto`: which exact one is quickest here. All exact decoders give the same tokens, so that the choice may go by anything, measured
// times and what earlier answers took included; it can change time alone.
//
// Candidates are the combinations that this model and request allow. Each is run over a stand-in of the model (forecast.h) at the prices
// of this machine and with calibrated survival; the least expected time wins. During an answer the measured draft lengths follow its own
// acceptance. From answer to answer a candidate's forecast is corrected by what its answers really took, by their counts.
#pragma once
#include <string>
#include <vector>

#include "forecast/forecast.h"

namespace slip {

struct Candidate {
  Method method;
  std::string name;  // the preset that it is, or the nearest one with the parts that differ
  Forecast expected;
  bool guessed = false;  // its drafts were never calibrated, though the model's own were
  double learned = 1;    // what its answers behind the prompt took over what was expected
  int64_t answers = 0;   // that it gave
};

/// Exact methods for what is asked: without drafts first. `earlier`: there is an answer to draft from. Draft lengths that need no file but a
/// DraftLengthModel. `head`: the model has a draft head of its own (its folder and block are read; null: none). Lossy ones, and rejection
/// sampling, whose tokens are others, are never among them.
std::vector<Candidate> exact_candidates(const LmInfo& info, bool form, Visibility visibility, bool earlier, const OwnHead* head);

/// What forecasts came to, so that another choice by the same settings needs none.
struct Foretold {
  int32_t prompt_rows = 0;                                                  // which may be others: what they cost is known
  double head_prompt_ms = 0;                                                // likewise, of what a draft head keeps of the prompt
  std::vector<std::pair<std::string, std::optional<Forecast>>> candidates;  // all, by name; nothing where the model cannot run one
  bool operator==(const Foretold&) const = default;
};

class AutomaticChoice {
 public:
  /// Forecasts all candidates that `fits` lets through (null: all); those that the model cannot run are left out. The settings' form, model
  /// and tracker outlive it. `kept`: of the same settings; used where it is of the same candidates.
  static Result<AutomaticChoice> make(const ForecastSettings& settings, bool earlier,
                                      const std::function<bool(const Method&)>& fits, const Foretold* kept = nullptr);
  /// The forecasts that make() went by, `kept` or its own.
  const Foretold& foretold() const { return foretold_; }
  const Candidate& best() const { return candidates_[best_]; }
  std::span<const Candidate> candidates() const { return candidates_; }
  /// Milliseconds that are expected of a candidate now.
  double expected_ms(const Candidate& c) const { return fixed_ms(c) + c.learned * (forecast_ms(c) - fixed_ms(c)); }
  /// The best candidate has given an answer.
  void ran(const Statistics& statistics, int32_t prompt_rows);
  /// Forecasts the candidates that draft from an earlier answer anew: so many of its fields stay (ForecastSettings::persistence).
  Status persist(const Persistence& persistence);
  /// Forecasts all candidates anew where free text turned out much longer or shorter than it was taken to be: the first tokens of an answer and its
  /// last block cost more than those between. To be called between answers.
  Status follow_lengths();
  /// "fields with drafts ahead (measured width): 3.1 ms expected, 12 passes; fields 4.0, ..."
  std::string why() const;

 private:
  void choose();
  Status forecast_all(const ForecastSettings& s, std::vector<Candidate> all);
  bool take(std::vector<Candidate> all, const Foretold& kept);  // false: of other candidates
  double forecast_ms(const Candidate& c) const;
  double fixed_ms(const Candidate& c) const;  // of the prompt, and what its draft head makes of that: answers say nothing of it
  /// Of the candidates that it concerns, by these settings, which are the choice's from then on; all or none, and `renew` each.
  Status forecast_again(const ForecastSettings& then, const std::function<bool(const Candidate&)>& concerns,
                        const std::function<void(Candidate&)>& renew);
  bool leaves_the_others(const Candidate& c) const;
  ForecastSettings settings_;
  const CostTable* costs_ = nullptr;
  std::vector<Candidate> candidates_;
  Foretold foretold_;
  size_t best_ = 0;
  bool calibrated_ = true, settled_ = false;
  double prompt_ms_ = 0;    // that every candidate pays; 0 where requests share passes, whose prompts fill others'
  double text_tokens_ = 0;  // of free text, in the mean of the answers so far
  int64_t texts_ = 0;
  double kept_rows_ = 0;  // of a prompt that were found and not run, in the mean of the answers so far; of shared passes
};

}  // namespace slip
