// SPDX-License-Identifier: Apache-2.0
// Regular expressions of JSON Schema's `pattern` (ECMA-262, Unicode mode): alternatives, groups, classes, repetitions, `^` and `$`
// anywhere, and look-ahead at the top of a pattern that begins with `^`, or in its last group. What no automaton does here (other
// look-around, back references, word borders) is refused by name.
#pragma once
#include <string_view>

#include "form/automaton/byte_dfa.h"

namespace slip {

/// The texts in which the pattern is found (JSON Schema does not anchor), each as it stands inside of a JSON string, or, without
/// `json`, as UTF-8. kUnsupported or kBadInput: "expected ..., got '(?=' at character 3".
Result<ByteDfa> compile_regex(std::string_view pattern, bool json = true);

/// Texts of `least` to `most` characters (-1: any number), written likewise.
Result<ByteDfa> texts_of_length(int64_t least, int64_t most, bool json = true);

}  // namespace slip
