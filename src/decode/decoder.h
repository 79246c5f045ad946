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
// Two laws (design, section 2): DecodeOptions::law says which one the model was trained for. Under chain visibility a form is decoded
// by chain or sections, under graph visibility by fields, or, with schedule chain, one field after another. Exact presets that decode
// a form under one law give equal tokens, greedy and at any temperature. The text presets read a form in the same way (`self-spec`
// over a form is chain x diffusion with a fixed width); `ar` over a form costs a pass per token (docs/decisions/0003). Without
// `forced` they decode freely until an end token, know nothing of the form, and the answer is then read against it.
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
