// SPDX-License-Identifier: Apache-2.0
// JSON Schema -> Form. The answer's text is `json.dumps(ensure_ascii=False)` of the document, properties in the schema's order;
// what is fixed becomes scaffold, what may vary becomes fields.
//
//   {"type": "object", "properties": {...}}          members in order
//   {"enum": ["yes", "no"]}                          one of these strings; x-budget, x-null-pad, x-aliases {"alias": "word"}
//   {"type": "boolean"}                              true or false
//   {"type": "string", "x-budget": 192}              text without quotes, backslashes, control characters; x-null-pad
//   {"type": "number", "x-format": " +000.00"}       [space][+] digits [. digits]: every digit one token; a sign and more than one
//                                                    digit before the point inside x-content alone, since JSON's numbers have neither
//   {"type": "array", "items": S, "minItems": 5, "maxItems": 5}   x-separator (default ", "; outside x-content a comma and spaces)
//   {"type": "string", "x-content": S}               the text of S inside quotes
//   {"const": x}                                     fixed; numbers as Python writes them
// x-section (a top-level member and those after it), x-parents (names of fields or of what holds them; without any in the whole
// schema each field's parent is the one before), x-block-size (root), x-end: true (close by END even where NULL exists).
// A field closes by NULL padding where x-null-pad is set and the model has NULL, needs no closing where all its values are of one
// length, and otherwise ends by END = the fixed token after it. Array items are a chain: each has the one before as parent; with
// x-independent: true on the array each has the array's own parents.
// Canonical tokens: a schema whose values merge with the fixed text around them is refused (kBadInput), except that free text may
// begin or end in a character that the tokenizer would merge: there the cut is forced.
//
// x-layout (root) "lines" [FastDriveCoT]: a line `label: content` per value. Label: x-label, or the field's name with spaces for
// underscores and dots. A field's last fixed token is the colon, its content begins with the space (which is no part of the value)
// and is never empty; END is the line break. Text may hold quotes and backslashes. x-content is not needed around arrays.
// x-layout "tokens": values between vocabulary entries, x-before and x-after on any node: ["<|cot_start|>"], as the vocabulary spells
// them; x-space: true lets a content begin with a space. Instead of numbers, ids of a range, alone or as an array = one field (on a line
// too, directly behind the colon, where they are added tokens, which no text merges with):
//   {"type": "integer", "x-bins": {"first": "<i0>", "last": "<i767>", "count": 768}}      the value is the id's place, descending: true
//   {"type": "number", "x-bins": {..., "low": -1, "high": 1}}                             the middle of the bin (BinsMeaning)
// Two stages: x-instances: 4 makes a text field an enumeration of at most four things with x-instance-separator (default ";", one
// character) between them; x-placeholder (default "N/A") is what it says of none. Fields after it with x-instance-of: its name and
// x-instance: 0 .. 3 (on them or on what holds them) say more of one, and exactly the placeholder where it names fewer. With x-unused:
// "absent" beside x-instances (on lines, with x-parents) the lines of instances that are not named are not there at all.
#pragma once
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "form/compiled_form.h"

namespace slip {

/// kUnsupported: a keyword that is not done here; kBadInput: a schema that contradicts itself or the tokenizer. Messages name the
/// place as a JSON path: "form wod-e2e: $.properties.explanation: expected x-budget, got none".
/// Schemas with keywords of trained forms (x-null-pad, x-layout ...) keep to what is said above; any other may use all of typed.h.
Result<CompiledForm> compile_schema(const json::value& schema, std::string_view name, const FormTokens& tokens);
/// The kind of form that is described above, alone.
Result<CompiledForm> compile_trained(const json::value& schema, std::string_view name, const FormTokens& tokens);
/// All that is wrong with a schema whatever the tokenizer, in one error: what compile_schema would say of a schema that is no trained form's.
Status check_schema(const json::value& schema, std::string_view name);
/// Has the schema keywords that only forms of trained checkpoints have (typed/trained_keywords.h)?
bool is_trained_form(const json::value& schema);

}  // namespace slip
