// SPDX-License-Identifier: Apache-2.0
// What comes back: the answer whole, or field by field while it is decoded.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {

/// A field of the form with its content: a text, a number, or numbers. `json`: as it stands in the result object ("\"no\"", "1.25E1"
/// or "17", "[1E0,2E0]"); `text`: for people (no, 12.5, [1, 2]).
struct FieldValue {
  std::string name, json, text;
};

using Point = std::array<double, 2>;  // x forward, y to the left, metres, in the ego frame of t = 0

/// The plan of a driving answer.
struct Trajectory {
  std::vector<Point> waypoints;   // as the answer says, 1 Hz: t = 1, 2, ... s
  std::vector<Point> points_4hz;  // after the fit: t = 0.25, 0.5, ... s; empty without a plan
  std::vector<double> spread_m;   // of rollouts, per point: root mean square distance from their mean
  /// Why a car could not follow the plan ("acceleration: expected at most 9.8 m/s^2, got 24.1 at 0.25 s"); empty where one could. The limits
  /// are those of an evaluation's `infeasible`, and the ego's own speed at t = 0.
  std::vector<std::string> infeasible;
  std::vector<std::vector<Point>> rollouts;  // waypoints of each, where there are several
  /// As the result object has it, one line.
  std::string to_json() const;
};

/// A plan that a trajectory head has read before all that it reads was decided (Request::fast_plan).
struct EarlyPlan {
  Trajectory trajectory;
  std::string after_section;  // "prompt", or the last section that it has read
  int64_t forwards = 0;       // passes of the model before it
  double ms = 0;              // of the request's time when it was there
};

/// A robot's action in physical units.
struct Action {
  std::string unnorm_key;
  std::vector<double> values, normalized;
};

/// The decoder that ran, as words. Exact: its tokens are those that the model draws one at a time. Lossy: they may be others than the model's
/// probabilities give. Neither (verifier rejection): other tokens, the same probabilities.
struct DecoderUsed {
  std::string preset, schedule, drafter, verifier, width;
  bool lossy = false;
  bool exact = true;   // the bytes that every exact decoder gives
  std::string chosen;  // preset auto: what it took and what it expected of the others, in one line
};

/// One of the tokens that might have come.
struct LikelyToken {
  int32_t id = 0;
  double log_prob = 0;
};
/// Natural logarithms of the drawn tokens' probabilities at temperature 1 among what the form allows there; the last one is the END's where
/// it was drawn. Tokens that the form left no choice have 0.
struct LogProbs {
  std::string field;  // empty: free text
  double sum = 0;
  std::vector<double> tokens;
  /// Request::top_log_probs: the likeliest tokens at each of these places, the likeliest first; none where the form left no choice.
  std::vector<std::vector<LikelyToken>> top;
};

/// Counts and times as the result object has them (docs/guide/first-answer.md): `forwards` are all passes of the big model, prefill
/// and drafts by itself included.
struct Statistics {
  int64_t prompt_rows = 0;  // of the prompt, image rows included
  int64_t forwards = 0, draft_forwards = 0, drafter_forwards = 0, rounds = 0, rows = 0, reused_rows = 0;
  int64_t tokens = 0, forced_tokens = 0, proposed = 0, tested = 0, accepted = 0, relaxed_accepts = 0, discarded = 0;
  int64_t all_tokens = 0;            // of all rollouts together, where `tokens` are the first one's
  std::vector<int64_t> accepted_at;  // of `accepted`: first, second, ... tested drafts of a round
  int64_t critical_path = 0;         // passes of the longest path through the graph, without the prefill
  int64_t head_forwards = 0;         // passes of a trajectory head (Request::trajectory_head)
  int64_t nan_rows = 0;              // > 0: the weights gave numbers that are none; do not trust the answer
  double encode_ms = 0, form_ms = 0, prefill_ms = 0, draft_ms = 0, verify_ms = 0, plan_ms = 0, total_ms = 0;
  double head_ms = 0;    // of a trajectory head, while the answer was decoded
  double choice_ms = 0;  // of `auto`: what passes cost, measured or looked up, and its forecasts
};

/// One finished answer.
class Answer {
 public:
  std::string text;                // as the form writes it; free text as decoded
  std::vector<std::string> texts;  // of every rollout; the first is `text`
  std::vector<FieldValue> fields;  // in the form's order; empty for free text
  std::vector<int32_t> tokens;
  bool valid = true;   // the text is one of the form's
  std::string finish;  // of free text: "end" (the model's own), "stop" (Request::stop), "length" (Request::max_tokens)
  std::vector<std::string> finishes;  // of free text: every rollout's; the first is `finish`
  std::vector<LogProbs> log_probs;    // Request::log_probs: by field, or free text's; of rollouts the first one's
  std::vector<std::string>
      remarks;  // what a person should know of the request: a form that the model was not trained for, an option that cannot act
  Trajectory trajectory;                     // the head's where a request names one and it has read all that it reads
  std::string plan_source;                   // "answer", "head"; empty without a plan
  std::optional<Trajectory> own_trajectory;  // where `trajectory` is a head's: what the answer itself says
  std::vector<EarlyPlan> early_plans;        // Request::fast_plan: the head's plans before its last, in order
  std::optional<Action> action;
  DecoderUsed decoder;
  Statistics statistics;

  /// The content of a field; null where the form has none of that name.
  const FieldValue* field(std::string_view name) const;
  /// `log_probs` beside `tokens`, one for each: tokens that the form writes itself have 0. What is drawn and stands in no text, an END, has no
  /// place here. Empty without Request::log_probs.
  std::vector<double> token_log_probs() const;
  /// LogProbs::top beside `tokens`, likewise.
  std::vector<std::vector<LikelyToken>> token_top_log_probs() const;
  /// The result object that `run --json` prints, one line.
  std::string to_json() const;
  /// What a person reads: the text, the numbers that bins stand for, an action in its units. Whole lines.
  std::string to_text() const;
  /// Chrome trace JSON of stages and rounds (Request::trace), for chrome://tracing or Perfetto.
  std::string trace_json() const;
  /// A PNG or an SVG: the cameras with the plan, the form filled in, the plan from above. kUnsupported in a build without Cairo.
  Result<std::string> to_png() const;
  Result<std::string> to_svg() const;

  /// What the methods above go by; made by Engine.
  struct Impl;
  std::shared_ptr<const Impl> impl;
};

/// Something was decided while an answer is decoded. Views hold during the call.
struct Event {
  enum class Kind : uint8_t {
    kField,  // a field is complete: `field`
    kText,  // the text grew: `text` are the bytes that are new, whole characters; of a form's answer as a Service tells it: what is
            // certain from the beginning on
    kPass,  // a round is over, of one forward pass or several
    kPrefill,  // a part of the prompt's pass has run: `done` of `total`
    kPlan,  // all that the plan is made of is complete, whatever else is not: `plan`, of rollouts the first one's; and every plan
            // of a trajectory head, the early ones with `final` false
  };
  Kind kind = Kind::kPass;
  const FieldValue* field = nullptr;
  std::string_view text;
  int64_t forwards = 0, tokens = 0;  // so far
  double elapsed_ms = 0;
  int64_t done = 0, total = 0;                               // of kPrefill
  int64_t rows = 0, proposed = 0, tested = 0, accepted = 0;  // so far, as in Statistics
  const Trajectory* plan = nullptr;
  std::string_view plan_source = "answer",
                   after_section;  // of kPlan: whose; of a head's "prompt" or the last section that it has read
  bool final = true;               // of kPlan: none of this source follows
};
/// Fields come in the order in which they are decided, each once; the finished answer has the same contents, and what was told stays
/// true where there is none, as after a deadline. Called while the answer is decoded, maybe on another thread than the caller's, for one
/// answer never on two at once; cheap work only, because passes wait for it. It may cancel the request's token. Asking the same engine is kUsage,
/// because it would wait for itself. What it throws ends the answer (kInternal, "on_event: ..."); the engine stays as good as it was.
using OnEvent = std::function<void(const Event&)>;

}  // namespace slipstream
