// SPDX-License-Identifier: Apache-2.0
// What a decoder is expected to take: the decoder itself, run over a stand-in for the model (stand_in.h) that answers as calibration says
// such answers are, its passes priced by what passes cost.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/philox.h"
#include "decode/decoder.h"
#include "decode/draft_length/model.h"
#include "forecast/stand_in.h"

namespace slip {

/// A draft head beside the model, under chain visibility (heads are trained under no other).
struct OwnHead {
  std::string folder;
  int32_t block = 16;
  const DraftLengthModel* model = nullptr;  // costs of passes and, as `draft`, of its rounds; survival and lengths with its drafts
  bool calibrated = true;
  double prompt_ms = 0;  // of the prompt's rows as its context
};

/// What forecasts of several decoders have in common: the compact form, and its answers as they usually are. Of one form, visibility and seed.
class TypicalAnswers {
 public:
  struct One {
    Contents contents;
    StandInAnswer answer;
    PhiloxStream random;  // behind them
  };
  Result<const CompactForm*> form(const Form& form);
  /// Answer n by what `model`, which outlives this, knows of lengths.
  const One& of(const DraftLengthModel& model, int32_t n, uint64_t seed, bool chain);

 private:
  std::optional<CompactForm> form_;
  std::map<std::pair<const DraftLengthModel*, int32_t>, One> answers_;
};

/// What is foreseen: the request, the model's abilities, what is known of costs and acceptance.
struct ForecastSettings {
  LmInfo info;                 // vocabulary, draft rule, adapter; its slots are not asked
  const Form* form = nullptr;  // null: free text
  DecodeOptions
      options;  // visibility, activation, row limit; of one answer greedy whatever it says, of rollouts drawn where it says
  int32_t rollouts = 1;  // of a request, together
  int32_t prompt_rows = 512;
  int32_t text_tokens = 48;                     // of free text
  const DraftLengthModel* model = nullptr;      // costs, survival, lengths; for this form (or none in particular)
  const DraftLengthTracker* tracker = nullptr;  // what the answers so far have corrected; may be null
  bool calibrated = true;                       // acceptance was seen, not assumed
  bool shared = false;  // the model's costs are a share of passes that other requests are in, each at its own place: shared_ms
  int32_t answers = 0;  // typical answers that are decoded; 0: as many as some 2,400 draws take
  uint64_t seed = 1;
  Persistence persistence;                     // how much of an earlier answer stays
  std::optional<OwnHead> head = std::nullopt;  // for drafter dflash
  const DraftLengthModel* adapter = nullptr;   // what is known of the draft adapter's drafts; null: the model's own, a little surer
  CancelToken cancel = {};
  std::shared_ptr<TypicalAnswers> typical = {};  // of all forecasts that share these settings; null: each makes its own
};

struct Forecast {
  double ms = 0;                                // mean, the prompt's pass included; of a request's rollouts together
  double first_ms = 0, first_rows = 0;          // of the prompt's pass, and of what of the form runs in it
  double drafter_ms = 0, drafter_forwards = 0;  // of that: a draft head's rounds
  double forwards = 0, draft_forwards = 0, rows = 0, tokens = 0, tested = 0, accepted = 0;
  bool operator==(const Forecast&) const = default;
};

/// How many answers a forecast with these settings decodes.
int32_t answers_of(const ForecastSettings& settings);
/// Errors are the decoder's: kUnsupported where this model cannot run the method.
Result<Forecast> forecast(const Method& method, const ForecastSettings& settings);

/// The answer of the frame before one that says `contents` (free text, without a form: what `answer` says): fields and tokens stay with
/// these chances; of a field that does not, the first token and, as a guess, half of the others are other ones.
PreviousAnswer earlier_of(const Form* form, const Contents& contents, const StandInAnswer& answer, const Persistence& persistence,
                          PhiloxStream& random);

/// What so many passes of an answer cost where other requests' are in them, at other places of their answers than this one. Their rows are the
/// mean of all their passes, whatever this one brings, and so are its own over the answer: prompts, and drafts that few passes hold, fill passes
/// of others. `costs`: this request's share of a pass in which all bring as many rows; `rows`: that run, the prompt's too.
double shared_ms(double forwards, double rows, const CostTable& costs);

/// What an answer took by its counts: the prompt's pass, and the others as if each had the mean of their rows.
double priced_ms(const Statistics& statistics, const CostTable& costs, int32_t prompt_rows);

}  // namespace slip
