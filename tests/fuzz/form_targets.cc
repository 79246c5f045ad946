// SPDX-License-Identifier: Apache-2.0
// Forms and what is read for them: JSON Schemas and their answers, earlier answers, calibrations of widths, and the classifier
// of block sizes, which reads its matrices out of a safetensors file itself.
#include <algorithm>
#include <numeric>

#include "base/json/repeated_keys.h"
#include "decode/draft_length/model_file.h"
#include "engine/resources.h"
#include "form/automaton/token_automaton.h"
#include "form/builtin/builtin.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"
#include "fuzz/targets.h"
#include "models/draft/block_pilot.h"
#include "sim/record/make.h"
#include "task/wod.h"

namespace slip::fuzz {

namespace {

/// One token per byte, and END, MASK, NULL behind them.
const Tokenizer& byte_tokenizer() {
  static const Tokenizer kTokenizer = [] {
    json::object vocab, added;
    int moved = 0;
    for (int b = 0; b < 256; ++b) {
      const bool shown = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
      const int c = shown ? b : 256 + moved++;
      const std::string spelling = c < 0x80 ? std::string(1, static_cast<char>(c))
                                            : std::string{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
      vocab[spelling] = b;
    }
    const char* const contents[] = {"<|endoftext|>", "|<MASK>|", "<|NULL|>"};
    for (int i = 0; i < 3; ++i) added[std::to_string(256 + i)] = json::object{{"content", contents[i]}, {"special", i == 0}};
    const std::filesystem::path folder = scratch() / "bytes";
    std::filesystem::create_directories(folder);
    put("bytes/vocab.json", json::serialize(vocab));
    put("bytes/merges.txt", "#version: 0.2\n");
    put("bytes/tokenizer_config.json",
        json::serialize(json::object{{"tokenizer_class", "Qwen2Tokenizer"}, {"added_tokens_decoder", added}}));
    auto t = Tokenizer::load(folder);
    require(static_cast<bool>(t), "the byte tokenizer loads");
    return std::move(*t);
  }();
  return kTokenizer;
}

FormTokens byte_tokens() { return {&byte_tokenizer(), TokenId{258}, 259}; }

const CompiledForm& waypoint_form() {
  static const CompiledForm kForm = [] {
    auto f = wod_e2e_form(byte_tokens(), {.explanation_budget = 400, .behaviour_budget = 24});  // tokens are bytes
    require(static_cast<bool>(f), f ? "" : f.error().message);
    return std::move(*f);
  }();
  return kForm;
}

}  // namespace

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

/// Ids that may come next, END and ends that lead on included.
std::vector<TokenId> allowed(const Field& f, int32_t state) {
  std::vector<TokenId> out;
  if (const TokenAutomaton* a = f.rules.automaton()) {
    for (int32_t id = 0; id < 259; ++id)
      if (a->mask(state).contains({id})) out.push_back({id});
    return out;
  }
  for (const auto& e : f.rules.state(state).edges) out.push_back(e.id);
  if (f.exits.empty() && f.end && f.rules.may_end(state)) out.push_back(*f.end);
  for (const Exit& e : f.exits)
    if (e.at_start ? state == 0 : f.rules.may_end(state)) out.push_back(e.end);
  return out;
}

/// One field's content; the piece that it leads to, -1 where that is the next.
int32_t random_field(const Field& f, PhiloxStream& r, std::vector<TokenId>& tokens) {
  int32_t state = 0;
  for (int32_t i = 0; !f.exits.empty() || i < f.budget; ++i) {
    const auto choices = allowed(f, state);
    require(!choices.empty() && i <= f.budget, "a field can always be ended");
    const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
    if (ends(f, state, id))
      return f.exits.empty() ? -1 : exit_piece(f, std::vector<TokenId>(state == 0 ? size_t{1} : size_t{2}, id));
    tokens.push_back(id);
    state = f.rules.next(state, id);
    require(state >= 0, "a mask allows what the rules do");
    if (f.closes && f.rules.complete(state)) return -1;
  }
  return -1;
}

std::vector<TokenId> random_answer(const Form& form, PhiloxStream& r) {
  std::vector<TokenId> tokens;
  for (int32_t at = 0; at < static_cast<int32_t>(form.pieces().size());) {
    const Piece& piece = form.pieces()[static_cast<size_t>(at)];
    int32_t next = -1;
    if (const auto* run = std::get_if<FixedRun>(&piece))
      tokens.insert(tokens.end(), run->ids.begin(), run->ids.end());
    else
      next = random_field(form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)], r, tokens);
    at = next >= 0 ? next : form.next_piece(at);
  }
  return tokens;
}

/// What valijson 1.0 reads otherwise than JSON Schema: patterns go over bytes, fractions are divided in doubles, OpenAPI's word is none of
/// its own, and identifiers are fetched.
bool is_beyond_valijson(const json::value& v) {
  if (const json::array* a = v.if_array()) return std::any_of(a->begin(), a->end(), is_beyond_valijson);
  const json::object* o = v.if_object();
  if (o == nullptr) return false;
  for (const char* key : {"pattern", "patternProperties", "nullable", "$id", "id", "$schema"})
    if (o->contains(key)) return true;
  if (const json::value* m = o->if_contains("multipleOf"); m && m->is_double()) return true;
  return std::any_of(o->begin(), o->end(), [](const auto& m) { return is_beyond_valijson(m.value()); });
}

}  // namespace

/// What a schema's masks allow is valid for it, by a validator that we did not write.
void run_answer(Bytes bytes) {
  const auto schema = parse_json(text_of(bytes), "schema.json");
  if (!schema) return require_refusal(schema.error());
  if (!check_keys(text_of(bytes), "schema.json") || is_trained_form(*schema) || is_beyond_valijson(*schema)) return;
  const auto form = compile_schema(*schema, "form", byte_tokens());
  if (!form) return require_refusal(form.error());
  PhiloxStream r(bytes.size(),
                 static_cast<uint64_t>(std::accumulate(bytes.begin(), bytes.end(), uint64_t{7},
                                                       [](uint64_t h, std::byte b) { return h * 31 + static_cast<uint64_t>(b); })));
  for (int k = 0; k < 3; ++k) {
    const auto tokens = random_answer(form->form, r);
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

void run_previous(Bytes bytes) {
  put("previous.json", text_of(bytes));
  for (const Form* form : {static_cast<const Form*>(nullptr), &waypoint_form().form}) {
    const auto previous = read_previous(scratch() / "previous.json", form);
    if (!previous) {
      require_refusal(previous.error());
    } else if (form) {
      require(previous->fields.size() == form->fields().size(), "an answer has the form's fields");
      require(static_cast<bool>(parse(waypoint_form(), previous->tokens, byte_tokenizer())), "what was split can be parsed");
    }
  }
}

std::vector<std::string> seeds_previous() {
  std::vector<std::string> out = {R"({"tokens":[1,2,3]})"};
  const CompiledForm& form = waypoint_form();
  for (const uint64_t seed : {1, 2}) {
    const auto record = sim::make_record(seed, {}, false);
    require(static_cast<bool>(record), "a record is made");
    const auto values = truth_values(record->labels, form, byte_tokenizer());
    require(static_cast<bool>(values), "a record has an answer");
    const auto ids = render(form, *values, byte_tokenizer());
    require(static_cast<bool>(ids), "an answer is rendered");
    json::array tokens;
    for (const TokenId id : *ids) tokens.emplace_back(id.value);
    out.push_back(json::serialize(json::object{{"form", form.form.name()}, {"tokens", std::move(tokens)}, {"text", "x"}}));
  }
  return out;
}

void run_width(Bytes bytes) {
  put("width.json", text_of(bytes));
  const auto m = read_draft_length_model(scratch() / "width.json");
  if (!m) return require_refusal(m.error());
  for (const int32_t rows : {1, 7, 4096}) require(m->pass.ms(rows) > 0, "a pass takes time");
  const auto fits = check_draft_length_model(*m, &waypoint_form().form);
  if (!fits) require_refusal(fits.error());
  for (int32_t f = 0; f < m->lengths.fields(); ++f) {
    const double p = m->lengths.at_least(f, 2, 1);
    require(p >= 0 && p <= 1, "a probability lies between 0 and 1");
  }
  require(static_cast<bool>(write_draft_length_model(*m, scratch() / "again.json")), "a calibration is written");
  require(static_cast<bool>(read_draft_length_model(scratch() / "again.json")), "what was written is read");
}

std::vector<std::string> seeds_width() {
  return {R"({"format":"slipstream-width","version":1,"model":"m","form":"","drafter":"diffusion","machine":"x","visible":512,)"
          R"("most_draws":32,"static_width":8,"ece_per_million":12000,"pass":{"rows":[1,8,64],"microseconds":[900,1200,4000]},)"
          R"("draft":{"rows":[1,4],"microseconds":[20,50]},"survival":[[0,0,0,3,4],[1,2,3,7,9]],)"
          R"("fields":[{"name":"a","lengths":[0,3,1],"survival":[[0,0,5,10,12]]},{"name":"b","lengths":[4],"survival":[]}]})"};
}

void run_pilot(Bytes bytes) {
  put("pilot.safetensors", text_of(bytes));
  const auto pilot = load_block_pilot(scratch() / "pilot.safetensors");
  if (!pilot) return require_refusal(pilot.error());
  require((*pilot)->vocab() > 0 && (*pilot)->classes() > 0, "a classifier has inputs and outputs");
  std::vector<float> logits(static_cast<size_t>((*pilot)->vocab()));
  std::iota(logits.begin(), logits.end(), -2.0F);
  const int32_t picked = (*pilot)->pick(logits);
  require(picked >= 0 && picked < (*pilot)->classes(), "a class is picked");
}

std::vector<std::string> seeds_pilot() {
  return {safetensors_file(R"({"layers.0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("layers.0.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
                           R"("layers.1.weight":{"dtype":"BF16","shape":[2,2],"data_offsets":[32,40]},)"
                           R"("layers.1.bias":{"dtype":"BF16","shape":[2],"data_offsets":[40,44]},)"
                           R"("fc_out.weight":{"dtype":"F32","shape":[5,2],"data_offsets":[44,84]},)"
                           R"("fc_out.bias":{"dtype":"F32","shape":[5],"data_offsets":[84,104]}})",
                           104)};
}

}  // namespace slip::fuzz
