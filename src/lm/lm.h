// SPDX-License-Identifier: Apache-2.0
// The pass: a set of rows, and each row says what it sees (docs/design.md). Every decoder is written against `Lm`; models/
// implements it with weights, tests with scripts and hashes.
//
// Within a pass, every layer first stores the keys and values of all rows in the rows' slots, then each row attends to the
// slots of its spans, in the spans' order. So a row may see any other row of its own pass, itself included, and whatever
// earlier passes left in the arena. Contract W: a row's outputs depend on the row, the weights and the ordered keys that it
// sees, not on company, threads, slots or requests.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "lm/features.h"

namespace slip {

/// Row `index` of Pass::features in place of a token's embedding (an image patch, for example).
struct Feature {
  int32_t index = 0;
  bool operator==(const Feature&) const = default;
};
using RowInput = std::variant<TokenId, Feature>;

/// What the caller wants back for a row. kArgmax: largest logit's id, lowest id on ties; NaN never wins, and where no logit is a
/// number the id is the lowest allowed one (as greedy_choice). kLikely: the largest logits, and the others where they are needed: an Lm whose
/// logits lie elsewhere gives a line of KeptLogits, any other all of them. kLogits: all V logits. With both the argmax too.
enum class Want : uint8_t { kNothing, kArgmax, kLikely, kLogits };
/// Of an Lm that has its logits at hand: does the row get them?
constexpr bool brings_logits(Want want) { return want == Want::kLikely || want == Want::kLogits; }

struct Row {
  RowInput input;
  Position position;
  int32_t slot = 0;                         // where this row's key and value go
  uint32_t sees_first = 0, sees_count = 0;  // into Pass::spans; order matters
  Want want = Want::kNothing;
  std::optional<int32_t> allowed;  // index into Pass::allowed: only these ids compete for the argmax; none: all do
  bool statistics = false;         // with kArgmax: PassOutput::statistics is wanted
};

/// Who waits for a long pass. Asked and told on the thread that called forward, between pieces of its work; implementations may do neither.
struct PassWatch {
  std::function<bool()> stop;  // true: forward returns kCancelled; keys that it was to write are not valid
  std::function<void(int64_t done, int64_t total)> tell;  // may be empty
};

/// One forward pass. Views only: the caller keeps rows, spans and features alive during forward.
struct Pass {
  std::span<const Row> rows;
  std::span<const SlotSpan> spans;
  FeatureView features = {};
  bool draft_adapter =
      false;          // run with the drafter's low-rank adapter (LmInfo::has_draft_adapter); keys of such passes are drafts'
  bool taps = false;  // PassOutput::taps_NE is wanted, for every row
  std::span<const std::span<const TokenId>> allowed = {};  // lists of ids that rows name: ascending, none empty
  const PassWatch* watch = nullptr;                        // for passes that take long
};

/// What policies on draft lengths and verifiers ask of a row's logits, over the ids that it allows.
struct RowStatistics {
  float largest = 0, second = 0;  // second: of the other ids (equal on a tie); -inf where there is none
  float log_sum_exp = 0;          // NaN where a logit is NaN
};

/// Logits of the last pass that lie where reading all of them takes long, as on a device, until the next pass of the Lm. A line of V for each row
/// that wanted kLikely; an Lm may have one for rows that wanted kLogits too, so that draws are the same whatever else was asked. Of such a line none are told as
/// likeliest.
class KeptLogits {
 public:
  struct Likely {
    TokenId id;
    float logit = 0;
  };
  virtual ~KeptLogits() = default;
  /// The largest of the line's logits that are numbers, the largest first, the lower id on ties. Fewer than V of them, as a rule.
  virtual std::span<const Likely> likeliest(int32_t line) const = 0;
  /// Over all ids; NaN where a logit is NaN.
  virtual float log_sum_exp(int32_t line) const = 0;
  /// All of them, until another line is asked for. Takes about as long as kLogits for this row.
  virtual Result<std::span<const float>> all(int32_t line) = 0;
  /// The smallest id whose cumulative probability exceeds u: softmax(logits / temperature) in double, ascending, over the ids whose bit is set
  /// (id i: bit i % 64 of word i / 64; no bits: over all). None where no such logit is finite. Sums are taken in parts, so that a u
  /// within rounding of an edge may give the other side of it.
  virtual Result<std::optional<TokenId>> draw(int32_t line, std::span<const uint64_t> bits, double temperature, double u) = 0;
};

/// Outputs of one pass; reused by the caller so that a steady-state round allocates nothing.
struct PassOutput {
  std::vector<TokenId> argmax;      // per row; meaningful where want != kNothing
  std::vector<int32_t> logits_row;  // per row: line of logits, or -1
  std::vector<float> logits_NV;     // lines in the order of the rows that want kLogits
  float* kept_NV = nullptr;         // where an Lm keeps these lines itself, until its next pass; null: in logits_NV
  KeptLogits* kept = nullptr;       // with it lines of rows that want kLikely, in place of logits
  std::vector<int32_t> kept_line;   // per row: its line of `kept`, or -1; meaningful where `kept` is there
  int32_t vocab = 0;
  std::vector<RowStatistics> statistics;  // per row, meaningful where asked for; empty where no row asks
  std::vector<float> taps_NE;  // with Pass::taps: per row the hidden states behind LmInfo::tap_layers, joined; E = layers x D
  int64_t nan_rows = 0;        // rows that want something and whose activations or largest logit are not finite
  std::optional<int32_t> kept_line_of(size_t row) const {
    return kept != nullptr && kept_line[row] >= 0 ? std::optional(kept_line[row]) : std::nullopt;
  }
  std::span<const float> logits_V(size_t row) const {
    return {(kept_NV != nullptr ? kept_NV : logits_NV.data()) + first_of(row), static_cast<size_t>(vocab)};
  }
  std::span<float> logits_V(size_t row) {
    return {(kept_NV != nullptr ? kept_NV : logits_NV.data()) + first_of(row), static_cast<size_t>(vocab)};
  }

 private:
  size_t first_of(size_t row) const { return static_cast<size_t>(logits_row[row]) * static_cast<size_t>(vocab); }
};

/// For implementations that have the logits: a row's argmax and statistics, as the row wants them.
struct RowChoice {
  TokenId argmax;
  RowStatistics statistics;
};
RowChoice choose_from(std::span<const float> logits_V, std::span<const TokenId> allowed);
/// The ids that a row allows, none: every id.
inline std::span<const TokenId> allowed_of(const Pass& pass, const Row& row) {
  return row.allowed ? pass.allowed[static_cast<size_t>(*row.allowed)] : std::span<const TokenId>();
}
/// Does the row see rows behind itself, as rows of a block that drafts do?
bool looks_ahead(const Pass& pass, const Row& row);
/// Fills argmax and statistics of row `i` from its logits; `out.argmax` has its length already.
void answer_row(const Pass& pass, size_t i, std::span<const float> logits_V, PassOutput& out);

/// How the checkpoint was trained to draft (docs/notes/block-diffusion.md#draft-rules). Read from its config, never assumed.
struct DraftRule {
  bool shift = false;                 // true: the row before a mask predicts it; false: the mask's own row
  bool block_causal_context = false;  // finished tokens see their whole block (SDAR, v2): cannot verify itself
  bool has_mask = false, has_null = false;
  TokenId mask, null_token;
  int32_t block_size = 32;
};

struct LmInfo {
  std::string name;         // "qwen2_5_vl", ... for messages
  int32_t vocab = 0;        // V: rows of the head
  int32_t hidden_size = 0;  // D: numbers of a feature row
  int32_t slots = 0;        // capacity of the key/value arena
  DraftRule rule;
  bool has_draft_adapter = false;
  std::vector<int32_t>
      tap_layers;  // decoder layers, from 0, whose outputs a draft head reads; empty: none asked for (Lm::set_taps)
};

class Lm {
 public:
  virtual ~Lm() = default;
  virtual const LmInfo& info() const = 0;
  /// Runs the pass. kResource when a slot is outside the arena, kBadInput when a token is outside the vocabulary or a span is
  /// outside the arena or empty visibility is asked for (a row must see at least one slot). Slots seen must have been written
  /// by this or an earlier pass (not checked).
  virtual Status forward(const Pass& pass, PassOutput& out) = 0;
  /// Changes with every pass, so that a prefix cache sees whether another caller ran one in between. 0: not counted.
  virtual uint64_t passes() const { return 0; }
  /// Chooses LmInfo::tap_layers. kUnsupported where there are no layers to speak of, kBadInput for a layer that does not exist.
  virtual Status set_taps(std::span<const int32_t> layers);
};

/// A prompt as decoders get it: rows in order, causal, with positions; `next_position` is the position of the first token after.
struct Prompt {
  std::vector<RowInput> inputs;
  std::vector<Position> positions;
  Features features;
  int32_t next_position = 0;
};

}  // namespace slip
