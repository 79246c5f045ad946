// SPDX-License-Identifier: Apache-2.0
// JSON Schemas as forms, and random answers of those forms, validated by a reader that we did not write.
#include <algorithm>
#include <numeric>

#include "base/json/flaws.h"
#include "form/builtin/builtin.h"
#include "form/schema/random_answer_testing.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"
#include "fuzz/byte_tokens.h"
#include "fuzz/targets.h"

namespace slip::fuzz {

void run_form(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "form.json");
  if (!v) return require_refusal(v.error());
  for (const bool null : {true, false}) {
    FormTokens tokens = byte_tokens();
    if (!null) tokens.null_token.reset();
    const auto f = compile_schema(*v, "form", tokens);
    if (!f) {
      require_refusal(f.error());
      continue;
    }
    require(f->meanings.size() == f->form.fields().size(), "every field has a meaning");
    require(!describe(f->form, tokens.tokenizer).empty() && critical_path(f->form) >= 0, "a form can be described");
    describe_json(f->form, tokens.tokenizer);
  }
}

std::vector<std::string> seeds_form() {
  std::vector<std::string> out;
  for (const std::string_view name : builtin_forms()) out.push_back(json::serialize(*builtin_schema(name)));
  out.emplace_back(
      R"({"type":"object","x-block-size":8,"properties":{"a":{"enum":["yes","no"],"x-null-pad":true,"x-budget":4,"x-aliases":{"y":"yes"}},)"
      R"("b":{"type":"boolean"},"c":{"type":"string","x-budget":5},"d":{"type":"number","x-format":"0.0"},"e":{"const":[1,2.5,"x",null]},)"
      R"("f":{"type":"array","items":{"type":"number","x-format":"0"},"minItems":2,"maxItems":2,"x-separator":", ","x-independent":true}}})");
  out.emplace_back(
      R"({"type":"object","x-layout":"lines","properties":{"l":{"type":"string","x-budget":9,"x-instances":2,"x-label":"L"},)"
      R"("m":{"type":"object","x-instance-of":"l","x-instance":0,"properties":{"n":{"type":"string","x-budget":6}}},)"
      R"("o":{"type":"string","x-budget":4,"x-parents":["l"],"x-section":"s"}}})");
  out.emplace_back(
      R"({"type":"object","x-layout":"tokens","x-end":true,"properties":{"t":{"type":"array","minItems":3,"maxItems":3,"items":)"
      R"({"type":"integer","x-bins":{"first":"a","last":"z","count":26}}},"u":{"type":"number","x-before":["!"],"x-after":["?"],)"
      R"("x-bins":{"first":"A","last":"Z","count":26,"low":-1,"high":1,"descending":true}}}})");
  return out;
}

namespace {

/// What valijson 1.0 reads otherwise than JSON Schema: patterns go over bytes, fractions are divided in doubles, OpenAPI's word is none of
/// its own, identifiers are fetched, and names and texts end at their first zero byte.
bool is_beyond_valijson(const json::value& v) {
  constexpr char kZero = '\0';
  if (const json::string* s = v.if_string()) return std::string_view(*s).find(kZero) != std::string_view::npos;
  if (const json::array* a = v.if_array()) return std::any_of(a->begin(), a->end(), is_beyond_valijson);
  const json::object* o = v.if_object();
  if (o == nullptr) return false;
  for (const char* key : {"pattern", "patternProperties", "nullable", "$id", "id", "$schema"})
    if (o->contains(key)) return true;
  if (const json::value* m = o->if_contains("multipleOf"); m && m->is_double()) return true;
  return std::any_of(o->begin(), o->end(),
                     [](const auto& m) { return m.key().find(kZero) != std::string_view::npos || is_beyond_valijson(m.value()); });
}

}  // namespace

/// What a schema's masks allow is valid for it, by a validator that we did not write.
void run_answer(Bytes bytes) {
  const auto schema = parse_json(text_of(bytes), "schema.json");
  if (!schema) return require_refusal(schema.error());
  if (!check_json(text_of(bytes), "schema.json") || is_trained_form(*schema) || is_beyond_valijson(*schema)) return;
  const auto form = compile_schema(*schema, "form", byte_tokens());
  if (!form) return require_refusal(form.error());
  PhiloxStream r(bytes.size(),
                 static_cast<uint64_t>(std::accumulate(bytes.begin(), bytes.end(), uint64_t{7},
                                                       [](uint64_t h, std::byte b) { return h * 31 + static_cast<uint64_t>(b); })));
  for (int k = 0; k < 3; ++k) {
    const auto tokens = test::random_answer(form->form, r);
    const std::string text = answer_text(*form, tokens, byte_tokenizer());
    const auto document = parse_json(text, "answer");
    require(static_cast<bool>(document), "an answer is JSON: " + text);
    int gave_up = 0;
    const std::string why = test::why_invalid(json::parse(json::serialize(*schema)), *document, &gave_up);
    require(why.empty(), "an answer is valid: " + why + "\n" + text + "\n" + json::serialize(*schema));
  }
}

std::vector<std::string> seeds_answer() {
  std::vector<std::string> out;
  for (uint64_t n = 0; n < 12; ++n) out.push_back(json::serialize(test::RandomSchema(n).root()));
  out.emplace_back(
      R"({"type":"object","properties":{"k":{"enum":["a","b"]},"n":{"type":"integer","minimum":-3},"u":{"type":"string","format":"date-time"}},)"
      R"("required":["k","n"],"if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"n":{"maximum":9}}}})");
  out.emplace_back(
      R"({"oneOf":[{"type":"object","properties":{"t":{"const":1},"v":{"type":["number","null"]}},"required":["t","v"]},)"
      R"({"type":"object","properties":{"t":{"const":2},"l":{"type":"array","items":{"type":"boolean"},"maxItems":3}},"required":["t"]}]})");
  return out;
}

}  // namespace slip::fuzz
