// SPDX-License-Identifier: Apache-2.0
// An answer as a form's answers usually are: contents as long as calibration saw them, as many instances, legal under every field's rules.
// What its words say is of no matter; how many draws they take is.
#pragma once
#include <vector>

#include "base/philox.h"
#include "decode/draft_length/model.h"
#include "form/form.h"

namespace slip {

/// The same form over few ids: its own in their order, and some that only text uses. Laws and counts are the same; rows of logits are short.
/// Of fields with thousands of values some hundreds stand for all, so that what a forecast takes is bounded whatever schema comes.
struct CompactForm {
  Form form;
  int32_t vocab = 0;  // the last id is nobody's: a mask
};
Result<CompactForm> compact(const Form& form);

using Contents = std::vector<std::vector<TokenId>>;  // by field of the form

/// `lengths`: of a form with as many fields; where a field was never seen it gets seven tenths of its budget, or all where it has no END.
/// Text that is padded to its budget says as much before its padding as `survival` has tests of it in an answer. Ids below `vocab`, never
/// `mask`.
Contents typical_contents(const Form& form, const Lengths& lengths, const Survival& survival, int32_t vocab, TokenId mask,
                          PhiloxStream& random);

}  // namespace slip
