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

/// A field of the form with its content: a text, a number, or numbers. `json`: as it stands in the result object ("\"no\"", "1.25E1",
/// "[1E0,2E0]"); `text`: for people (no, 12.5, [1, 2]).
struct FieldValue {
  std::string name, json, text;
};

using Point = std::array<double, 2>;  // x forward, y to the left, metres, in the ego frame of t = 0

struct Trajectory {
  std::vector<Point> waypoints;   // as the answer says, 1 Hz: t = 1, 2, ... s
  std::vector<Point> points_4hz;  // after the fit: t = 0.25, 0.5, ... s; empty without a plan
  std::vector<double> spread_m;   // of rollouts, per point: root mean square distance from their mean
};

/// A robot's action in physical units.
struct Action {
  std::string unnorm_key;
  std::vector<double> values, normalized;
};

/// The decoder that ran, as words. Lossy ones may answer otherwise than the model's own law.
struct DecoderUsed {
  std::string preset, schedule, drafter, verifier, width;
  bool lossy = false;
};

/// Counts of the contract: `forwards` are all passes of the big model, prefill and drafts by itself included.
struct Statistics {
  int64_t forwards = 0, draft_forwards = 0, drafter_forwards = 0, rounds = 0, rows = 0, reused_rows = 0;
  int64_t tokens = 0, forced_tokens = 0, proposed = 0, tested = 0, accepted = 0, relaxed_accepts = 0, discarded = 0;
  int64_t critical_path = 0;  // passes of the longest path through the graph, without the prefill
  int64_t nan_rows = 0;       // > 0: the weights gave numbers that are none; do not trust the answer
  double encode_ms = 0, form_ms = 0, prefill_ms = 0, draft_ms = 0, verify_ms = 0, plan_ms = 0, total_ms = 0;
};

class Answer {
 public:
  std::string text;                // as the form writes it; free text as decoded
  std::vector<FieldValue> fields;  // in the form's order; empty for free text
  std::vector<int32_t> tokens;
  bool valid = true;  // the text is one of the form's
  Trajectory trajectory;
  std::optional<Action> action;
  DecoderUsed decoder;
  Statistics statistics;

  /// The content of a field; null where the form has none of that name.
  const FieldValue* field(std::string_view name) const;
  /// The result object of the command line's contract, one line.
  std::string to_json() const;
  /// What a person reads: the text, the numbers that bins stand for, an action in its units. Whole lines.
  std::string to_text() const;
  /// Chrome trace JSON of stages and rounds (Request::trace), for chrome://tracing or Perfetto.
  std::string trace_json() const;
  /// A PNG: the cameras with the plan, the form filled in, the plan from above.
  Result<std::string> to_png() const;

  /// What the methods above go by; made by Engine.
  struct Impl;
  std::shared_ptr<const Impl> impl;
};

/// Something was decided while an answer is decoded. Views hold during the call.
struct Event {
  enum class Kind : uint8_t {
    kField,  // a field is complete: `field`
    kText,   // free text grew: `text` are the bytes that are new, whole characters
    kPass,   // a forward pass has run
  };
  Kind kind = Kind::kPass;
  const FieldValue* field = nullptr;
  std::string_view text;
  int64_t forwards = 0, tokens = 0;  // so far
  double elapsed_ms = 0;
};
/// Called on the decoding thread; cheap work only. Fields come in the order in which they are decided, each once; the finished answer
/// has the same contents.
using OnEvent = std::function<void(const Event&)>;

}  // namespace slipstream
