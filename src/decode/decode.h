// SPDX-License-Identifier: Apache-2.0
// Decoders: the same answer in different time. A decoder is four small parts (design, idea 1.2): a schedule says which
// positions may be worked on, a drafter proposes, a verifier commits, a width policy says how many. A preset names a choice;
// with_parts (method.h) puts any other together.
//
//   preset               schedule  drafter    verifier    reference
//   ar                   text      none       exact       one token a pass
//   self-spec            text      diffusion  exact       Nemotron-Labs-Diffusion, linear self-speculation; Fast-dVLM
//   self-spec-quadratic  text      quadratic  exact       Nemotron-Labs-Diffusion: drafts for every outcome in the verifying pass
//   draft-model          text      model      exact       speculative decoding with a second model [Leviathan; OpenVLA + MiniVLA]
//   dflash               text      dflash     exact       DFlash: a head on the model's own hidden states
//   scaffold-ar          chain     none       exact       fixed tokens forced, one pass per drawn token
//   scaffold-spec        chain     diffusion  exact       Fast-dDrive, scaffold speculation
//   section-diffusion    sections  diffusion  confidence  Fast-dDrive, block diffusion over sections; lossy
//   fields               fields    none       exact       FastDriveCoT: all ready fields of the graph in every pass
//   fields-spec          fields    diffusion  exact       the same with drafts in every field, children started on them
//
// Two laws (design, section 2): DecodeOptions::law says which one the model was trained for. Under the chain law a form is decoded
// by chain or sections, under the graph law by fields, or, with schedule chain, one field after another. Exact presets that decode
// a form under one law give equal tokens, greedy and at any temperature. The text presets read a form in the same way (`self-spec`
// over a form is chain x diffusion with a fixed width); `ar` over a form costs a pass per token (docs/decisions/0003). Without
// `forced` they decode freely until an end token, know nothing of the form, and the answer is then read against it.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "form/form.h"
#include "nn/lm.h"

namespace slip {

/// Which positions may be worked on now.
enum class Schedule : uint8_t { kText, kChain, kSections, kFields };
/// Who sees whom in a form.
enum class Law : uint8_t { kChain, kGraph };

struct NoDrafter {};
/// The model itself, masks in a block; with `adapter` its low-rank draft adapter is on in draft passes. `ahead`, along a graph: no
/// draft passes, masks travel behind the verifying passes' last rows (draft_ahead.cc).
struct DiffusionDrafter {
  bool adapter = false;
  bool ahead = false;
};
/// k rows of one head and k masks in every pass; width: k.
struct QuadraticDrafter {};
/// The longest run of last tokens, at most `longest`, that occurred before in prompt or answer: what followed it then.
struct LookupDrafter {
  int32_t longest = 4;
};
/// What an earlier answer said at the same place of the same field (DecodeOptions::previous).
struct PreviousDrafter {
  std::string name;                      // file, for words
  std::optional<DiffusionDrafter> then;  // drafts the rest of a field in which the earlier answer has missed
};
/// Another, smaller model (DecodeOptions::draft_model).
struct ModelDrafter {
  std::string name;      // folder, for words
  bool coupled = false;  // draws with the verifier's own uniforms in place of the argmax
};
/// A head on tapped hidden states (DecodeOptions::draft_head).
struct DFlashDrafter {
  std::string name;
};
using Drafter =
    std::variant<NoDrafter, DiffusionDrafter, QuadraticDrafter, LookupDrafter, PreviousDrafter, ModelDrafter, DFlashDrafter>;

struct ExactVerifier {};  // the model's own law
/// Speculative sampling with residuals: the same law, not the same tokens. Drafts are drawn from the drafter's distribution.
struct RejectionVerifier {};
/// Lossy: a draft within `radius` bins of the law's token is kept, where both are ids in [first, end).
struct RelaxedVerifier {
  int32_t radius = 0;
  TokenId first{}, end{};
  std::vector<int32_t> radius_of_field;  // in bins; where empty `radius` holds for all
  /// Asked for in physical units (relaxed:Xu) in place of `radius`: each number of a field gets the bins that are no further.
  std::optional<double> units = {};
  /// By field and number in it, where whoever knows the form has filled them: the radius, and what a bin is in physical units.
  std::vector<std::vector<int32_t>> radius_of_number = {};
  std::vector<std::vector<double>> unit_of_number = {};

  int32_t radius_at(int32_t field, int32_t index) const;
};
/// Lossy: the law is (1 - weight) p_diffusion + weight p_ar [Nemotron-Labs-Diffusion].
struct EnsembleVerifier {
  float weight = 0.5F;
};
struct ConfidenceVerifier {
  float threshold = 0.9F;
};
/// Lossy: a small network says which places of a block are right (DecodeOptions::commit_sampler).
struct SamplerVerifier {
  std::string name;
  std::optional<float> threshold = {};  // empty: what the sampler's folder advises
};
using Verifier =
    std::variant<ExactVerifier, RejectionVerifier, RelaxedVerifier, EnsembleVerifier, ConfidenceVerifier, SamplerVerifier>;

/// How many tokens a round looks at. kFixed: `tokens`, anchor included where the drafter is diffusion (a block of that many rows),
/// drafts otherwise; k for quadratic. kBlocks: the form's blocks. kMeasured: from costs and calibrated survival (width.h).
/// kBlockPilot: chosen once per request by a classifier.
struct Width {
  enum class Kind : uint8_t { kFixed, kBlocks, kMeasured, kBlockPilot };
  Kind kind = Kind::kFixed;
  int32_t tokens = 8;
  std::string name;  // file of a classifier or table
};

struct Method {
  std::string preset;
  Schedule schedule = Schedule::kText;
  Drafter drafter;
  Verifier verifier;
  Width width;
  bool lossy() const {
    return !std::holds_alternative<ExactVerifier>(verifier) && !std::holds_alternative<RejectionVerifier>(verifier);
  }
};

/// kUsage with the list of presets for an unknown name.
Result<Method> method_of(std::string_view preset);
std::span<const std::string_view> preset_names();
/// "chain", "diffusion", "exact", "blocks": the words of a result's `decoder` object.
struct MethodWords {
  std::string schedule, drafter, verifier, width;
};
MethodWords words_of(const Method& method);

struct Statistics {
  int64_t forwards = 0;        // passes of the big model: prefill, own drafts, commit passes included
  int64_t draft_forwards = 0;  // of these: passes that only draft
  int64_t rows = 0;
  int64_t tokens = 0;         // of the answer
  int64_t forced_tokens = 0;  // of these: scaffold
  int64_t proposed = 0, tested = 0, accepted = 0;
  int64_t critical_path = 0;     // graph law: drawn tokens on the longest path, ENDs included
  int64_t drafter_forwards = 0;  // passes of another model or of a draft head
  int64_t relaxed_accepts = 0;   // relaxed verifier: kept though the law says another token
  int64_t rounds = 0;            // passes that verified something
  int64_t discarded = 0;         // proposed for a child whose parent turned out otherwise
  int64_t reused_rows = 0;       // rows of the prompt that were in the arena already and did not run
  int64_t nan_rows = 0;          // not finite rows (PassOutput::nan_rows); answers with any are not to be trusted
  struct Milliseconds {
    double prefill = 0, draft = 0, verify = 0, total = 0;
    double drafter_prompt = 0;  // of draft: the pass that carried another model's prompt
  } ms;
  /// What several answers cost together; tokens stay this one's.
  void add(const Statistics& more);
};

/// One round of one strand as it happened; only filled with DecodeOptions::trace. Positions count from the start of the answer.
struct Round {
  int64_t number = 0;  // rounds that ran in one pass share it
  int32_t field = -1;  // graph law
  bool closed = false, discarded = false;
  Block block{};                   // scaffold-spec, section-diffusion
  Block rows{};                    // rows of the passes
  std::vector<int32_t> positions;  // of the drafts
  std::vector<TokenId> draft, verify;
  std::vector<double> confidence;  // section-diffusion
  std::vector<int32_t> committed;  // section-diffusion
  int32_t accepted = 0;
  std::optional<int32_t> stop;   // position of the first miss
  std::optional<TokenId> bonus;  // the token after the block, for nothing
  std::vector<TokenId> emitted;  // self-spec
};

/// What the model itself would have drawn in the template's place (DecodeOptions::log_forced): greedily among all ids, behind what the row
/// before it sees. Left out are tokens whose row no pass runs, behind the last draw; the one behind a field that closed with its END, which
/// the row before it drew; and along a graph the one behind any field, where no row of the scaffold sees the field.
struct ForcedLog {
  struct Miss {
    int32_t position = 0;  // of the form
    TokenId forced, own;
    double p_forced = 0, p_own = 0;
  };
  int64_t compared = 0;
  std::vector<Miss> misses;  // by position
};

struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenId>> fields;  // content per field of the form, END left out
  bool valid = true;                         // the answer is one of the form's (only free text read against a form can fail)
  bool lossy = false;
  Statistics statistics;
  std::vector<Round> rounds;
  ForcedLog forced;  // of rollouts: the first one's
};

/// What a caller sees while decoding: tokens that are decided, in order.
struct DecodeProgress {
  std::span<const TokenId> tokens;               // chain and text: the answer so far
  std::span<const std::vector<TokenId>> fields;  // graph law: contents so far
  int64_t decided = 0;                           // tokens of either
  int64_t forwards = 0;
};

/// What the draws obey beside the field's rules, in this order: repetition, temperature, top_k, top_p, min_p. Greedy with temperature
/// 0; then only repetition matters. Defaults change nothing.
struct Sampling {
  float temperature = 0;
  int32_t top_k = 0;             // > 0: the k largest (lower id first on ties)
  float top_p = 1;               // < 1: the fewest largest whose probabilities reach p
  float min_p = 0;               // > 0: ids of at least min_p times the largest probability
  float repetition = 1;          // logits of ids in the history are divided by it where positive, multiplied where negative
  int32_t repetition_last = 64;  // the history: so many last tokens of the field's content, or of free text
  bool plain() const { return top_k <= 0 && top_p >= 1 && min_p <= 0 && repetition == 1; }
};

class DraftHead;
class CommitSampler;
class PromptMemory;

/// An earlier answer of the same form: contents per field, or free text.
struct PreviousAnswer {
  std::string form;  // name of the form it answers
  std::vector<std::vector<TokenId>> fields;
  std::vector<TokenId> tokens;
};

/// A second model that drafts: its own prompt for the same request, and how its ids and the target's name the same token.
struct DraftModel {
  Lm* lm = nullptr;
  Prompt prompt;
  std::vector<TokenId> to_draft;   // per target id; -1: the drafter has no such token
  std::vector<TokenId> to_target;  // per drafter id; -1: the target has none: such a draft is dropped, never put to another id
  /// With DecodeOptions::reuse_prompt, what `lm`'s arena holds of the prompt, for callers whose decoders do not live from answer to answer.
  PromptMemory* memory = nullptr;
};

/// Rows of a prompt whose keys are in an arena's first slots, so that a later prompt runs only what differs. Holds for one Lm; whoever
/// calls decoders one after another on it keeps one.
class PromptMemory {
 public:
  /// Forgets what an Lm that ran other passes in between may have overwritten, and all but the longest common prefix with `prompt`:
  /// equal tokens, equal positions, and for image rows equal feature bits. How many rows are left.
  int32_t crop_to(const Lm& lm, const Prompt& prompt, const DraftHead* head);
  /// Forgets all but the first `rows`.
  void crop(size_t rows);
  /// The prompt's rows are all there.
  void assign(const Prompt& prompt, int32_t width, const DraftHead* head);
  /// Passes of the Lm after which this holds.
  void ran(const Lm& lm);
  int32_t rows() const { return static_cast<int32_t>(inputs_.size()); }

 private:
  std::vector<RowInput> inputs_;  // features numbered by their order among the rows
  std::vector<Position> positions_;
  std::vector<float> features_ND_;
  const DraftHead* head_ = nullptr;  // that was given the rows' taps
  uint64_t passes_ = 0;
};

struct WidthModel;
class WidthTracker;
class WidthObserver;
class BlockPilot;

struct DecodeOptions {
  float temperature = 0;                                       // 0: greedy
  std::vector<std::pair<int32_t, float>> section_temperature;  // (section, temperature), overriding
  Sampling sampling;                                           // its temperature is not read
  Law law = Law::kChain;
  uint64_t seed = 0;
  uint32_t request = 0;
  std::vector<TokenId> end_tokens;  // free text ends with one of these, which is emitted
  int32_t limit = 1024;             // most tokens of free text
  std::vector<TokenId> denied;      // ascending: what free text may not draw, such as ids without a text, and the mask
  bool forced = false;              // text presets with a form: decode the form
  bool activation = true;           // fields: children may start on their parents' drafts
  int32_t most_rows = 0;            // > 0: rows of a pass after the prefill; fields with the longest way to go first
  const PreviousAnswer* previous = nullptr;
  const DraftModel* draft_model = nullptr;
  DraftHead* draft_head = nullptr;
  CommitSampler* commit_sampler = nullptr;
  const WidthModel* width_model = nullptr;  // width measured (width_model.h)
  WidthTracker* width_tracker = nullptr;    // what the width learns from answer to answer; without: from each answer alone
  WidthObserver* width_observer = nullptr;  // sees every tested draft's facts, whatever the width
  const BlockPilot* block_pilot = nullptr;  // width blockpilot (width_pilot.h)
  /// The arena's first slots may still hold this prompt's first rows from an earlier call: of this decoder, or, with `prompt_memory`, of
  /// any that was given the same one. These rows are not run again, but for the last one where the first token is drawn from it.
  /// Compared by content; an Lm that does not count its passes (Lm::passes) must not have been run by others since (the caller's
  /// word). Same tokens either way.
  bool reuse_prompt = false;
  PromptMemory* prompt_memory = nullptr;
  bool trace = false;
  bool log_forced = false;  // Decoded::forced, for logits of the rows before forced tokens; without, it costs nothing
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* cancel = nullptr;  // polled before every pass, and while images are cut into patches
  std::function<void(const DecodeProgress&)> on_progress = {};
};

/// kCancelled where Ctrl-C, `cancel` or the deadline says that nobody waits for the answer any more; told after `done` of `what`:
/// "<stage>: expected to finish, got cancelled after 3 passes". For work of a request between whose parts one may stop.
Status check_wanted(const DecodeOptions& options, std::string_view stage, int64_t done, std::string_view what);

/// Decodes one answer. Buffers live as long as the object: after the first round of the first answer of a size nothing
/// allocates (with trace off and the Lm's own buffers settled). Not for two threads at once. The arena's slots 0 .. are used.
class Decoder {
 public:
  Decoder(Lm& lm, Method method);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  /// `form` may be null for free text. Errors: kUnsupported (the model cannot draft, a form with ENDs for section-diffusion),
  /// kResource (arena too small), kBadInput (ids beyond the vocabulary, empty prompt), kCancelled (cancel, deadline, Ctrl-C).
  Result<Decoded> decode(const Prompt& prompt, const Form* form, const DecodeOptions& options);
  /// `count` answers, number r with request number options.request + r: what is greedy is decoded once, branches fork where the
  /// first token is sampled and run side by side in the same passes. Each equals its own decode() call. Statistics are those of
  /// all together, in the first answer.
  Result<std::vector<Decoded>> rollouts(const Prompt& prompt, const Form* form, const DecodeOptions& options, int32_t count);

 private:
  Status one_after_another(const Prompt& prompt, const Form* form, const DecodeOptions& options, std::vector<Decoded>& answers);
  struct Scratch;
  Lm* lm_;
  Method method_;
  std::unique_ptr<Scratch> scratch_;
};

/// One answer, buffers and all.
Result<Decoded> decode(Lm& lm, const Prompt& prompt, const Form* form, std::string_view preset, const DecodeOptions& options);

}  // namespace slip
