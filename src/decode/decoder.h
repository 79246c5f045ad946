// SPDX-License-Identifier: Apache-2.0
// Decoders: the same answer in different time. A method (types/method.h) says how; presets are listed in types/presets.h.
//
// Who sees whom (docs/design.md): DecodeOptions::visibility says which of the two ways the model was trained for. Under chain
// visibility a form is decoded by the schedules chain or sections, under graph visibility by fields, or, with schedule chain, one field
// after another. Exact presets that decode a form under one visibility give equal tokens, greedy and at any temperature. The text
// presets read a form in the same way (`self-spec` over a form is chain x diffusion with a fixed draft length); `ar` over a form costs a pass
// per token (docs/decisions/0003). Without `forced` they decode freely until an end token, know nothing of the form, and the answer is
// then read against it.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "decode/types/context.h"
#include "decode/types/method.h"
#include "decode/types/options.h"
#include "decode/types/result.h"
#include "form/form.h"
#include "lm/lm.h"

namespace slip {

struct Scratch;

/// What can be said of a method and its options before there is a model: is there a form, and who sees whom in it? kUsage, kUnsupported.
Status check_choice(const Method& method, bool form, const DecodeOptions& options);
Status check_visibility(const Method& method, bool form, Visibility visibility);

/// Decodes one answer. Buffers live as long as the object: after the first round of the first answer of a size nothing
/// allocates (with trace off and the Lm's own buffers settled). Not for two threads at once. The arena's slots 0 .. are used.
class Decoder {
 public:
  Decoder(Lm& lm, Method method);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  /// `form` may be null for free text. Errors: kUnsupported (the model cannot draft, a form with ENDs for section-diffusion),
  /// kResource (arena too small), kBadInput (ids beyond the vocabulary, empty prompt), kCancelled (DecodeContext::cancel).
  Result<Decoded> decode(const Prompt& prompt, const Form* form, const DecodeOptions& options, const DecodeContext& context = {});
  /// `count` answers, number r with request number options.request + r: what is greedy is decoded once, branches fork where the
  /// first token is sampled and run side by side in the same passes. Each equals its own decode() call. Statistics are those of
  /// all together, in the first answer.
  Result<std::vector<Decoded>> rollouts(const Prompt& prompt, const Form* form, const DecodeOptions& options, int32_t count,
                                        const DecodeContext& context = {});

 private:
  Status one_after_another(const Prompt& prompt, const Form* form, const DecodeOptions& options, const DecodeContext& context,
                           std::vector<Decoded>& answers);
  Lm* lm_;
  Method method_;
  std::unique_ptr<Scratch> scratch_;
};

/// One answer, buffers and all.
Result<Decoded> decode(Lm& lm, const Prompt& prompt, const Form* form, std::string_view preset, const DecodeOptions& options,
                       const DecodeContext& context = {});

}  // namespace slip
