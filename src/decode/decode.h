// SPDX-License-Identifier: Apache-2.0
// Decoders: the same answer in different time. A decoder is four small parts (design, idea 1.2): a schedule says which
// positions may be worked on, a drafter proposes, a verifier commits, a width policy says how many. A preset names a choice.
//
//   preset             schedule  drafter    verifier    reference
//   ar                 text      none       exact       one token a pass
//   self-spec          text      diffusion  exact       Nemotron-Labs-Diffusion, linear self-speculation; Fast-dVLM
//   scaffold-ar        chain     none       exact       fixed tokens forced, one pass per drawn token
//   scaffold-spec      chain     diffusion  exact       Fast-dDrive, scaffold speculation
//   section-diffusion  sections  diffusion  confidence  Fast-dDrive, block diffusion over sections; lossy
//
// Exact presets that decode a form give equal tokens, greedy and at any temperature (ScaffoldSpec.CommitsTheSameTokensAsOneAtATime).
// `ar` has two readings of a form. With `ar_forced`, which the engine sets (docs/decisions/0003), it decodes the form as scaffold-ar
// does, but every fixed token costs a pass too: same tokens, more passes. Without it, it decodes freely until an end token, knows
// nothing of the form's law, and the answer is then read against the form (`Decoded::valid`); so does `self-spec`.
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
enum class Schedule { kText, kChain, kSections };

struct NoDrafter {};
struct DiffusionDrafter {};  // the model itself, masks in a block
using Drafter = std::variant<NoDrafter, DiffusionDrafter>;

struct ExactVerifier {};  // the model's own causal law
struct ConfidenceVerifier {
  float threshold = 0.9F;
};
using Verifier = std::variant<ExactVerifier, ConfidenceVerifier>;

/// Tokens a round looks at, anchor included (self-spec); forms take their blocks instead.
struct FixedWidth {
  int32_t tokens = 8;
};

struct Method {
  std::string preset;
  Schedule schedule = Schedule::kText;
  Drafter drafter;
  Verifier verifier;
  FixedWidth width;
  bool lossy() const { return std::holds_alternative<ConfidenceVerifier>(verifier); }
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
  int64_t critical_path = 0;  // graph schedules only
  int64_t nan_rows = 0;       // not finite rows (PassOutput::nan_rows); answers with any are not to be trusted
  struct Milliseconds {
    double prefill = 0, draft = 0, verify = 0, total = 0;
  } ms;
};

/// One round as it happened; only filled with DecodeOptions::trace. Positions count from the start of the answer.
struct Round {
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

struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenId>> fields;  // content per field of the form, END left out
  bool valid = true;                         // the answer is one of the form's (only free text read against a form can fail)
  bool lossy = false;
  Statistics statistics;
  std::vector<Round> rounds;
};

/// What a caller sees while decoding: tokens that are decided, in order.
struct DecodeProgress {
  std::span<const TokenId> tokens;
  int64_t forwards = 0;
};

struct DecodeOptions {
  float temperature = 0;                                       // 0: greedy
  std::vector<std::pair<int32_t, float>> section_temperature;  // (section, temperature), overriding
  uint64_t seed = 0;
  uint32_t request = 0;
  std::vector<TokenId> end_tokens;  // free text ends with one of these, which is emitted
  int32_t limit = 1024;             // most tokens of free text
  bool ar_forced = false;           // `ar` with a form: decode the form, a pass per token
  /// The prompt's slots may still hold this prompt from this decoder's last call, and nobody else ran the Lm since (the caller's
  /// word): then its rows are not run again, or only the last one where the first token is drawn from it. Compared by content;
  /// without a match the prompt is run as ever. Same tokens either way.
  bool reuse_prompt = false;
  bool trace = false;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* cancel = nullptr;  // polled before every pass
  std::function<void(const DecodeProgress&)> on_progress = {};
};

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

 private:
  struct Scratch;
  Lm* lm_;
  Method method_;
  std::unique_ptr<Scratch> scratch_;
};

/// One answer, buffers and all.
Result<Decoded> decode(Lm& lm, const Prompt& prompt, const Form* form, std::string_view preset, const DecodeOptions& options);

}  // namespace slip
