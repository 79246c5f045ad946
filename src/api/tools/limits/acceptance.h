// SPDX-License-Identifier: Apache-2.0
// What slipstream::limits forecasts: the decoders of a model, and with which acceptance, at which prices.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "api/tools/limits/work.h"
#include "decode/draft_length/model.h"
#include "forecast/automatic.h"

namespace slip::api {

/// How drafts of the model itself, of its adapter and of its head hold.
struct AcceptanceProfile {
  DraftLengthModel own;
  std::optional<DraftLengthModel> adapter, head;
  bool head_calibrated = true;
  bool guessed = true;  // how the model's own drafts hold: neither calibrated nor asked for
  double odds = 0;      // where one number stands for all
  std::string words;
};

/// Forecasts at some prices of passes.
struct Prices {
  AcceptanceProfile profile;
  ForecastSettings settings;
  double head_prompt_ms = 0;
};

/// Points into itself: filled in place. `rounds`: of the model's own draft head; null: none.
Status fill_prices(const LimitsWork& w, const CostTable& pass, const CostTable* rounds, double head_prompt, int32_t text_tokens,
                   Prices& to);

/// The exact ones that `auto` chooses among, then every preset that is not there yet.
std::vector<Candidate> candidates_of(const LimitsWork& w, const OwnHead* head);
/// Why a decoder is not run over the stand-in; empty: it is.
std::string refusal_of(const Candidate& c, const LimitsWork& w, bool head);

}  // namespace slip::api
