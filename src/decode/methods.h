// SPDX-License-Identifier: Apache-2.0
// Inside of decode.h: one function per combination of parts that is built. Each fills `answer.tokens` (forms: fields too),
// statistics and rounds; checks that concern the model and the request are done by Decoder::decode.
#pragma once
#include "decode/passes.h"

namespace slip {

/// Buffers of one decoder, kept from answer to answer.
struct Work {
  Passes passes;
  std::vector<TokenId> draft, verify;
  std::vector<int32_t> positions;
  std::vector<float> kept_logits_V;
};

Status decode_text(Work& work, const LmInfo& info, const Method& method, Decoded& answer);
Status decode_text_self_spec(Work& work, const LmInfo& info, const Method& method, Decoded& answer);
Status decode_scaffold(Work& work, const Form& form, Decoded& answer);
Status decode_scaffold_spec(Work& work, const LmInfo& info, const Form& form, Decoded& answer);
Status decode_sections(Work& work, const LmInfo& info, const Form& form, const ConfidenceVerifier& verifier, Decoded& answer);

}  // namespace slip
