// SPDX-License-Identifier: Apache-2.0
// `--decoder auto` for a loaded model: what passes cost here (measured once and kept in the user's cache), what is known of acceptance (the
// folder's calibration, and the answers so far), and by them the quickest exact decoder for each kind of request.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/earlier_fields.h"
#include "engine/engine.h"
#include "forecast/automatic.h"
#include "forecast/cost_store.h"
#include "forecast/forecast_store.h"
#include "forecast/price_watch.h"

namespace slip {

/// How often drafts of this form (null: free text) hold: from the folder's calibration (calibration_file), or, where it has none
/// (`calibrated` false), from doubt until answers correct it: half of a form's hold, a third of a text's.
DraftLengthModel known_acceptance(const Engine& engine, const Form* form, CostTable costs, bool& calibrated);

/// The same of a head's drafts, from the calibration in the head's folder; `own` is the model's.
DraftLengthModel acceptance_of_head(const std::string& folder, const DraftLengthModel& own, const Form* form, bool& calibrated);

/// The same of the draft adapter's drafts, from the calibration in its folder; nothing where there is none of this form.
std::optional<DraftLengthModel> acceptance_of_adapter(const Engine& engine, const CostTable& costs, const Form* form);

/// What is known of requests that differ in their words and pictures alone. Answers under way hold on to it.
struct KindOfRequest {
  FormPtr form;
  DraftLengthModel model;   // what a draft length goes by while an answer is decoded: prices of passes of its own rows
  DraftLengthModel shared;  // what the choice goes by: the same, prices being a request's share of passes of many (company)
  bool calibrated = false;
  std::optional<DraftLengthModel>
      of_head;  // the same of the model's own draft head: survival with its drafts, prices of its rounds
  std::optional<DraftLengthModel> of_adapter,
      shared_of_adapter;  // `model` and `shared` of its draft adapter, where that was calibrated
  std::map<std::string, DraftLengthTracker, std::less<>> trackers;  // by drafter
  std::optional<AutomaticChoice> choice;
  EarlierFields stays;    // how much of an earlier answer its next one says too: as seen
  Persistence chosen_at;  // and what the choice goes by
  int32_t rollouts = 1;
};

class Automatic {
 public:
  /// Puts the chosen parts into `method`, lends `context` what its draft length needs, and tells what was chosen. `context.previous` may be used where
  /// it is of the form. kCancelled while costs are measured. What comes back is the request's kind, for ran(). Where requests share passes
  /// (`context.company`) nothing is measured: the rows of others lie where measuring writes.
  Result<std::shared_ptr<KindOfRequest>> choose(Engine& engine, const Request& request, const FormPtr& form, const Prompt& prompt,
                                                const DecodeOptions& options, Method& method, DecodeContext& context,
                                                ChosenDecoder& chosen);
  /// The chosen decoder has answered, with `previous` at hand (may be null); `alone`: its passes were its own, so that their time says what
  /// passes cost.
  void ran(KindOfRequest& kind, const Decoded& answer, const PreviousAnswer* previous, const Prompt& prompt, bool alone);
  /// What passes cost, measured by somebody who has the engine to himself.
  void lend(const CostTable& costs);

 private:
  Status measure(Engine& engine, const Prompt& prompt, const DecodeContext& context);
  /// Of the model's own draft head, whose rounds have prices; nothing: none, no time to measure, or passes that others share. It is loaded where
  /// they are measured, else by choose() when it is taken.
  Result<std::optional<HeadFacts>> head_for(Engine& engine, const Prompt& prompt, const DecodeContext& context);
  Result<std::shared_ptr<KindOfRequest>> known(Engine& engine, const Request& request, const FormPtr& form, const Prompt& prompt,
                                               const DecodeOptions& options, bool earlier, const std::optional<HeadFacts>& head,
                                               const DecodeContext& context);
  std::string forecasts_key(const Engine& engine, const Request& request, const ForecastSettings& s, const std::string& kind) const;

  /// Kinds are forgotten together, when they are many or large: their forms come from whoever asks.
  std::shared_ptr<KindOfRequest> keep(const std::string& key, std::shared_ptr<KindOfRequest> kind);
  void forget();

  std::map<std::string, std::shared_ptr<KindOfRequest>, std::less<>> known_;
  size_t known_bytes_ = 0;
  std::optional<CostTable> costs_, lent_, rounds_;  // rounds_: of the model's own draft head
  std::string here_, costs_key_, rounds_key_, costs_from_;
  CostTimes times_;  // of a measurement that was cancelled
  PriceWatch watch_;
};

}  // namespace slip
