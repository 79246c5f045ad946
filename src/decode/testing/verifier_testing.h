// SPDX-License-Identifier: Apache-2.0
// For tests of verifiers: a preset with another verifier, options that trace, windows of a fixed length.
#pragma once
#include <utility>

#include "decode/decoder.h"
#include "decode/draft_length/policy.h"

namespace slip::test {

inline Method with(std::string_view preset, VerifierSpec v, int32_t tokens) {
  Method m = *method_of(preset);
  m.verifier = std::move(v);
  m.draft_length = {DraftLengthSpec::Kind::kFixed, tokens, {}};
  return m;
}

inline DecodeOptions text_options(float temperature, int32_t limit) {
  DecodeOptions o;
  o.temperature = temperature;
  o.limit = limit;
  o.trace = true;
  return o;
}

/// So many drafts in every round.
class FixedWindow : public DraftLengthPolicy {
 public:
  explicit FixedWindow(int32_t drafts) : drafts_(drafts) {}
  void open(DraftView s) override { s.set_window(drafts_, kNoEnd); }

 private:
  int32_t drafts_;
};

}  // namespace slip::test
