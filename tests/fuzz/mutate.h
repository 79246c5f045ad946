// SPDX-License-Identifier: Apache-2.0
// Deterministic damage to files: as bytes, as JSON (a value replaced, doubled, dropped, renamed ...), and as a safetensors file
// whose header is changed as JSON with the length in front kept true, so that the reader's own checks are reached.
#pragma once
#include <string>

#include "base/json.h"
#include "base/philox.h"
#include "fuzz/target.h"

namespace slip::fuzz {

/// 1 to 8 changes: a byte replaced, a bit flipped, a run cut out or doubled, the tail cut off, a change near the front.
void mutate_bytes(std::string& bytes, PhiloxStream& random);
/// 1 to 3 changes of the document.
void mutate_json(json::value& document, PhiloxStream& random);
/// By shape; one in four as bytes all the same, and whatever does not parse.
void mutate(std::string& input, Shape shape, PhiloxStream& random);

}  // namespace slip::fuzz
