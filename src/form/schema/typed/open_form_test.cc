// SPDX-License-Identifier: Apache-2.0
// Forms of any schema, walked at random by their rules alone: what the masks allow is a valid answer, and nothing gets stuck.
#include "form/schema/typed/open_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <numeric>

#include "base/philox.h"
#include "form/automaton/numbers.h"
#include "form/automaton/regex.h"
#include "form/automaton/token_automaton.h"
#include "form/form_testing.h"
#include "form/schema/values.h"
#include "form/schema_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::vector<TokenId> allowed(const Field& f, int32_t state) {
  std::vector<TokenId> out;
  if (const TokenAutomaton* a = f.rules.automaton()) {
    const TokenMask& m = a->mask(state);
    if (m.bits.empty()) return m.listed;
    for (int32_t id = 0; id < static_cast<int32_t>(m.bits.size()) * 64; ++id)
      if (m.contains({id})) out.push_back({id});
    return out;
  }
  for (const auto& e : f.rules.state(state).edges) out.push_back(e.id);
  if (f.exits.empty() && f.end && f.rules.may_end(state)) out.push_back(*f.end);
  for (const Exit& e : f.exits)
    if (e.at_start ? state == 0 : f.rules.may_end(state)) out.push_back(e.end);
  return out;
}

/// One field's content, and the piece that it leads to where it has exits.
int32_t walk_field(const Field& f, PhiloxStream& r, std::vector<TokenId>& tokens) {
  int32_t state = 0;
  for (int32_t i = 0; !f.exits.empty() || i < f.budget; ++i) {
    const auto choices = allowed(f, state);
    if (choices.empty() || i > f.budget) {
      ADD_FAILURE() << f.name << " is stuck at " << i;
      return -1;
    }
    const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
    if (ends(f, state, id)) {
      const std::vector<TokenId> content(state == 0 ? 1 : 2, id);
      return f.exits.empty() ? -1 : exit_piece(f, content);
    }
    tokens.push_back(id);
    state = f.rules.next(state, id);
    EXPECT_GE(state, 0) << f.name << ": the mask allows what the rules do not";
    if (state < 0 || (f.closes && f.rules.complete(state))) return -1;
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
      next = walk_field(form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)], r, tokens);
    at = next >= 0 ? next : form.next_piece(at);
  }
  return tokens;
}

/// Empty, or what is wrong with one of five random answers, which go to `out` as lines for tests/form/validate.py.
std::string wrong_with(const json::value& schema, const CompiledForm& form, const Tokenizer& t, uint64_t seed, int* gave_up,
                       std::ostream* out = nullptr) {
  PhiloxStream r(seed, 3);
  for (int k = 0; k < 5; ++k) {
    const auto tokens = random_answer(form.form, r);
    const std::string text = answer_text(form, tokens, t);
    if (out) *out << json::object{{"schema", schema}, {"answer", text}} << "\n";
    const auto document = parse_json(text, "answer");
    if (!document) return document.error().message + "\n" + text;
    if (const std::string why = test::why_invalid(schema, *document, gave_up); !why.empty()) return why + "\n" + text;
    const auto contents = split_answer(form.form, tokens);
    if (!contents) return contents.error().message + "\n" + text;
    if (assemble(form.form, *contents) != tokens) return "assembled otherwise\n" + text;
    if (const auto values = parse(form, tokens, t); !values) return values.error().message + "\n" + text;
  }
  return {};
}

TEST(OpenForm, WalkedAtRandomIsValid) {
  const Tokenizer t = test::character_tokenizer();
  int compiled = 0, gave_up = 0;
  for (uint64_t n = 0; n < 150; ++n) {
    const json::value schema = test::RandomSchema(n).root();
    const auto form = compile_schema(schema, "random", {&t, std::nullopt, t.size()});
    if (!form) continue;
    ++compiled;
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up), "") << n << "\n" << schema;
  }
  EXPECT_GT(compiled, 130);
  EXPECT_LT(gave_up, 20);
}

/// tests/fixtures/form/schemas.jsonl: 250 schemas of the kinds that people write; the share that is done is stated in the guide.
TEST(OpenForm, DoesMostOfWhatPeopleWrite) {
  const Tokenizer t = test::character_tokenizer();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  std::ofstream out;
  if (const char* file = std::getenv("SLIP_ANSWERS")) out.open(file);
  std::map<std::string, std::pair<int, int>> share;  // done, of
  std::string line;
  int gave_up = 0;
  for (uint64_t n = 0; std::getline(in, line); ++n) {
    const auto entry = parse_json(line, "schemas.jsonl");
    ASSERT_TRUE(entry) << entry.error().message;
    const json::value& schema = entry->at("schema");
    auto& [done, of] = share[std::string(entry->at("kind").as_string())];
    ++of;
    const auto form = compile_schema(schema, "f", {&t, std::nullopt, t.size()});
    if (!form) {
      EXPECT_THAT(form.error().message, HasSubstr("#")) << "names a place";
      continue;
    }
    ++done;
    if (line.find("nullable") != std::string::npos) continue;  // OpenAPI's word, which validators of JSON Schema pass over
    ASSERT_EQ(wrong_with(schema, *form, t, n, &gave_up, out.is_open() ? &out : nullptr), "") << entry->at("name");
  }
  for (const auto& [kind, s] : share) {
    RecordProperty(kind, fmt::format("{} of {}", s.first, s.second));
    if (kind == "hard")
      EXPECT_GT(s.first, 5);
    else
      EXPECT_EQ(s.first, s.second) << kind;
  }
  EXPECT_LT(gave_up, 10);
}

/// Pydantic writes a tag that has a default as a member that is not required. One alternative that requires it excludes the others.
TEST(OpenForm, ATagThatOneAlternativeRequiresExcludesTheOther) {
  const auto schema = parse_json(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "cat", "default": "cat"}, "lives": {"type": "integer"}}, "required": ["lives"]},
      {"type": "object", "properties": {"kind": {"const": "dog"}, "good": {"type": "boolean"}}, "required": ["kind"]}]})",
                                 "tags");
  ASSERT_TRUE(schema) << schema.error().message;
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*schema, "tags", {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  int gave_up = 0;
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(wrong_with(*schema, *form, t, n, &gave_up), "");
}

/// Alternatives that no constant tells apart: by how their values begin, or behind what they share.
TEST(OpenForm, TellsAlternativesApartByHowTheyBegin) {
  std::vector<std::pair<std::string, Tokenizer>> vocabularies;
  vocabularies.emplace_back("characters", test::character_tokenizer());
  auto demo = Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(demo);
  vocabularies.emplace_back("demo", std::move(*demo));
  if (auto qwen = test::qwen_tokenizer()) vocabularies.emplace_back("qwen", std::move(*qwen));
  constexpr const char* kList = R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 2})";
  const std::vector<std::string> unions{
      R"({"anyOf": [{"type": "integer"}, LIST]})",
      R"({"anyOf": [LIST, {"type": "number"}, {"type": "null"}]})",
      R"({"anyOf": [{"type": "string", "maxLength": 5}, LIST, {"type": "integer"}]})",
      R"({"anyOf": [{"type": "array", "items": {"type": "integer"}, "maxItems": 2}, {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2}]})",
      R"({"anyOf": [{"type": "integer"}, {"type": "number", "maximum": 1}, {"type": "object", "properties": {"x": {"type": "integer"}}}]})",
      R"({"anyOf": [{"const": "auto"}, {"type": "string", "maxLength": 4}, LIST]})",
      R"({"anyOf": [{"const": 0}, {"type": "integer", "minimum": 10}, LIST]})",
      R"({"anyOf": [{"type": "object", "properties": {"id": {"type": "integer"}, "paw": {"type": "boolean"}}, "required": ["id", "paw"]},
                    {"type": "object", "properties": {"id": {"type": "integer"}, "fin": {"type": "string", "maxLength": 3}}, "required": ["id", "fin"]}]})",
      R"({"anyOf": [{"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "a": {"type": "integer"}}, "required": ["n"]},
                    {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "b": LIST}, "required": ["n"]},
                    {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "a": {"type": "integer"}, "c": {"type": "null"}}, "required": ["n", "c"]}]})"};
  int gave_up = 0;
  for (const auto& [name, tokenizer] : vocabularies)
    for (std::string text : unions) {
      for (size_t at = text.find("LIST"); at != std::string::npos; at = text.find("LIST")) text.replace(at, 4, kList);
      for (const std::string& whole : {R"({"type": "object", "properties": {"a": )" + text + "}}",
                                       R"({"type": "object", "properties": {"z": {"type": "boolean"}, "a": )" + text +
                                           R"(, "b": {"type": "integer"}}, "required": ["b"]})",
                                       R"({"type": "array", "items": )" + text + R"(, "maxItems": 2})"}) {
        const auto schema = parse_json(whole, "test");
        ASSERT_TRUE(schema) << schema.error().message << whole;
        const auto form = compile_schema(*schema, "f", {&tokenizer, std::nullopt, tokenizer.size()});
        ASSERT_TRUE(form) << name << ": " << form.error().message << "\n" << whole;
        for (uint64_t seed = 0; seed < 4; ++seed)
          ASSERT_EQ(wrong_with(*schema, *form, tokenizer, seed, &gave_up), "") << name << "\n" << whole;
      }
    }
  EXPECT_LT(gave_up, 9);
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> out;
  for (size_t at = row.find('|'); at != std::string::npos;) {
    const size_t next = row.find(" | ", at + 1);
    const size_t end = next == std::string::npos ? row.rfind(" |") : next;
    if (end <= at + 1 || end == std::string::npos) break;
    out.push_back(row.substr(at + 2, end - at - 2));
    at = next == std::string::npos ? next : next + 1;
  }
  return out;
}

/// docs/guide/forms.md, the table against others: each row has a schema, and says of it yes or no in our column.
TEST(OpenForm, DoesWhatTheGuidesTableSays) {
  const Tokenizer t = test::character_tokenizer();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "docs/guide/forms.md");
  int yes = 0, no = 0, gave_up = 0;
  for (std::string line; std::getline(in, line);) {
    const auto cells = cells_of(line);
    if (cells.size() != 6 || !cells[1].starts_with("`{")) continue;
    const auto schema = parse_json(cells[1].substr(1, cells[1].size() - 2), cells[0]);
    ASSERT_TRUE(schema) << schema.error().message;
    const auto form = compile_schema(*schema, "row", {&t, std::nullopt, t.size()});
    if (cells[2].starts_with("yes")) {
      ++yes;
      ASSERT_TRUE(form) << cells[0] << ": " << form.error().message;
      for (uint64_t seed = 0; seed < 8; ++seed) ASSERT_EQ(wrong_with(*schema, *form, t, seed, &gave_up), "") << cells[0];
    } else {
      ++no;
      ASSERT_TRUE(cells[2].starts_with("no")) << cells[0];
      ASSERT_FALSE(form) << cells[0];
      EXPECT_EQ(form.error().kind, ErrorKind::kUnsupported) << cells[0] << ": " << form.error().message;
    }
  }
  EXPECT_GE(yes, 18);
  EXPECT_GE(no, 5);
  EXPECT_LT(gave_up, 16);
}

// ---- what masks cost over a vocabulary of 150,000 tokens

/// The schemas that the guide writes into files.
std::vector<std::pair<std::string, json::value>> schemas_of_guide() {
  std::vector<std::pair<std::string, json::value>> out;
  for (const char* page : {"forms.md", "your-form.md"}) {
    std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "docs/guide" / page);
    std::string name, text;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("<!-- file: ")) {
        name = line.substr(11, line.find(" -->") - 11);
        text.clear();
      } else if (line == "```" && !name.empty()) {
        if (auto schema = parse_json(text, name)) out.emplace_back(std::exchange(name, ""), std::move(*schema));
        name.clear();
      } else if (!name.empty() && line != "```json") {
        text += line + "\n";
      }
    }
  }
  return out;
}

struct Times {
  std::vector<double> all;
  double mean() const { return all.empty() ? 0 : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()); }
  double share(double of) {
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    return all[std::min(all.size() - 1, static_cast<size_t>(of * static_cast<double>(all.size())))];
  }
  std::string words(std::string_view unit) {
    return fmt::format("{:6} of them, mean {:.2f}, median {:.2f}, 99 % {:.2f}, most {:.2f} {}", all.size(), mean(), share(0.5),
                       share(0.99), share(1), unit);
  }
};

/// Seconds of this thread's own: what other programs take does not count.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Rows of random values: masks asked for the first time, and again.
void time_rows(const CompiledForm& form, PhiloxStream& r, Times& first, Times& again) {
  for (const Field& f : form.form.fields()) {
    const TokenAutomaton* a = f.rules.automaton();
    for (int walk = 0; a && walk < 3; ++walk)
      for (int32_t state = 0, i = 0; i < f.budget && state >= 0; ++i) {
        const size_t before = a->masks();
        const double begin = now();
        const TokenMask& m = a->mask(state);
        (a->masks() == before && m.kept ? again : first).all.push_back((now() - begin) * 1e6);
        const auto choices = allowed(f, state);
        ASSERT_FALSE(choices.empty()) << f.name;
        const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
        state = ends(f, state, id) ? -1 : f.rules.next(state, id);
      }
  }
}

/// With SLIP_EVERY=1 the guide's schemas are held to 100 ms to compile behind the vocabulary's tree and rows to 50 us in the mean:
/// docs/lab/0024-masks.md.
TEST(Masks, CostLittleOverALargeVocabulary) {
  const auto t = test::qwen_tokenizer();
  if (!t) GTEST_SKIP() << "no vocabulary of 150,000 tokens on this machine";
  const FormTokens tokens{&*t, std::nullopt, 151936};
  const bool every = std::getenv("SLIP_EVERY") != nullptr;
  auto schemas = schemas_of_guide();
  const size_t of_guide = schemas.size();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  std::string line;
  for (size_t n = 0; std::getline(in, line); ++n)
    if (const auto entry = parse_json(line, "schemas.jsonl"); entry && (every || n % 16 == 0))
      schemas.emplace_back(std::string(entry->at("name").as_string()), entry->at("schema"));
  const double tree_begin = now();
  t->trie();  // once a vocabulary, whatever the schemas
  fmt::print("the vocabulary's tree {:.1f} ms\n", (now() - tree_begin) * 1e3);
  Times guide, compile, first, again;
  int refused = 0;
  std::vector<std::pair<double, std::string>> slowest;
  PhiloxStream r(1, 9);
  for (size_t i = 0; i < schemas.size(); ++i) {
    const double begin = now();
    const auto form = compile_schema(schemas[i].second, schemas[i].first, tokens);
    const double ms = (now() - begin) * 1e3;
    if (!form) {
      ++refused;
      continue;
    }
    (i < of_guide ? guide : compile).all.push_back(ms);
    const size_t before = first.all.size();
    time_rows(*form, r, first, again);
    slowest.emplace_back(std::accumulate(first.all.begin() + static_cast<ptrdiff_t>(before), first.all.end(), 0.0),
                         schemas[i].first);
  }
  std::sort(slowest.rbegin(), slowest.rend());
  for (size_t i = 0; every && i < std::min<size_t>(slowest.size(), 12); ++i)
    fmt::print("{:8.0f} us of first masks: {}\n", slowest[i].first, slowest[i].second);
  Times rows{first.all};
  rows.all.insert(rows.all.end(), again.all.begin(), again.all.end());
  fmt::print(
      "compile, guide    {}\ncompile, others   {}\nmasks, first time {}\nmasks, again      {}\nmasks, all rows   {}\nrefused {}\n",
      guide.words("ms"), compile.words("ms"), first.words("us"), again.words("us"), rows.words("us"), refused);
  EXPECT_GE(guide.all.size(), 4U);
  EXPECT_GT(rows.all.size(), 200U);
  if (!every) return;
  EXPECT_LE(guide.share(1), 100);
  EXPECT_LE(rows.mean(), 50);
}

std::string message_of(std::string_view schema) {
  const Tokenizer t = test::character_tokenizer();
  const auto form = compile_schema(*parse_json(schema, "test"), "f", {&t, std::nullopt, 300});
  return form ? "compiled" : form.error().message;
}

TEST(OpenForm, RefusesContradictionsAndSaysAllErrors) {
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"const": 12, "type": "string"}}})"),
              HasSubstr("no value of 12 is valid"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}})"),
              HasSubstr("no integer is valid for its bounds"));
  EXPECT_THAT(
      message_of(R"({"type": "object", "properties": {"a": {"type": "integer", "x-format": "0.0"}, "b": {"type": "boolean"}}})"),
      HasSubstr("no integer is valid"));
  EXPECT_THAT(message_of(R"({"type": "object", "properties": {"a": {"type": []}}})"),
              HasSubstr("/type: expected at least one type"));
  const std::string two =
      message_of(R"({"type": "object", "properties": {"a": {"type": "strin"}, "b/c": {"type": "string", "pattern": "("}}})");
  EXPECT_THAT(two, HasSubstr("2 errors"));
  EXPECT_THAT(two, HasSubstr("#/properties/a/type: expected string, number"));
  EXPECT_THAT(two, HasSubstr("#/properties/b~1c/pattern: expected a regular expression, got a group without ')'"));
}

/// Schemas that ask for far more than any answer needs: refused, or done, in seconds of this thread.
TEST(OpenForm, BoundsTheTimeOfBombs) {
  const Tokenizer t = test::character_tokenizer();
  std::vector<std::pair<std::string, std::string>> bombs;
  std::string doubled = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 40; ++i)
    doubled += fmt::format(
        R"("d{0}": {{"type": "object", "properties": {{"a": {{"$ref": "#/$defs/d{1}"}}, "b": {{"$ref": "#/$defs/d{1}"}}}}}}, )", i,
        i + 1);
  bombs.emplace_back("references that double", doubled + R"("d40": {"type": "integer"}}})");
  std::string both = R"({"allOf": [)", alike = R"({"anyOf": [)", bounds = R"({"type": "object", "properties": {)",
              chain = R"({"anyOf": [)";
  for (int i = 0; i < 30; ++i)
    both += fmt::format(
        R"({}{{"anyOf": [{{"type": "object", "properties": {{"a{}": {{"type": "integer"}}}}}}, {{"type": "object", "properties": {{"b{}": {{"type": "integer"}}}}}}]}})",
        i ? ", " : "", i, i);
  bombs.emplace_back("alternatives that multiply", both + "]}");
  for (int i = 0; i < 250; ++i)
    alike += fmt::format(
        R"({}{{"type": "object", "properties": {{"id": {{"type": "string", "pattern": "^(a|b)*c{{1,200}}(x|y)*$"}}, "k{}": {{"type": "integer"}}}}}})",
        i ? ", " : "", i);
  bombs.emplace_back("many that begin alike", alike + "]}");
  for (int i = 0; i < 2000; ++i)
    bounds += fmt::format(R"({}"p{}": {{"type": "string", "minLength": {}, "maxLength": 250}})", i ? ", " : "", i, i % 249);
  bombs.emplace_back("many different lengths", bounds + "}}");
  for (int i = 1; i < 90; ++i) {
    chain += std::string(i > 1 ? ", " : "") + R"({"type": "object", "properties": {)";
    for (int j = 0; j < i; ++j) chain += fmt::format(R"("s{}": {{"type": "string"}}, )", j);
    chain += fmt::format(R"("k{}": {{"type": "null"}}}}}})", i);
  }
  bombs.emplace_back("alternatives that part one behind another", chain + "]}");
  for (const auto& [name, text] : bombs) {
    const auto schema = parse_json(text, name);
    ASSERT_TRUE(schema) << name << schema.error().message;
    const double begin = now();
    const auto form = compile_schema(*schema, "bomb", {&t, std::nullopt, t.size()});
    EXPECT_LT(now() - begin, 8) << name << ": " << (form ? "done" : form.error().message);
  }
}

TEST(Regex, FindsWhatEcmaScriptFinds) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    const auto d = compile_regex(pattern, false);
    EXPECT_TRUE(d) << d.error().message;
    return d && d->matches(text);
  };
  EXPECT_TRUE(matches("b", "abc"));
  EXPECT_FALSE(matches("^b", "abc"));
  EXPECT_TRUE(matches("^a|c$", "xc"));
  EXPECT_FALSE(matches("^(a|c)$", "xc"));
  EXPECT_TRUE(matches("^a{2,3}$", "aaa"));
  EXPECT_FALSE(matches("^a{2,3}$", "aaaa"));
  EXPECT_TRUE(matches("^[^a-c]\\d\\s$", "\u00fc7 "));
  EXPECT_TRUE(matches("^.$", "\U0001F697"));
  EXPECT_FALSE(matches("^.$", "\n"));
  EXPECT_TRUE(matches("^\\u00e4\\x41$", "\u00e4A"));
  const char* decimal = "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$";  // as Pydantic writes it
  for (const char* text : {"1.5", "-007", "+.5", "3."}) EXPECT_TRUE(matches(decimal, text)) << text;
  for (const char* text : {"", "-", ".", "+.", "1e3", "1.2.3"}) EXPECT_FALSE(matches(decimal, text)) << text;
  EXPECT_TRUE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "ab1"));
  EXPECT_FALSE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "abc"));
  EXPECT_FALSE(matches("^(?=.*\\d)(?!0)[a-z0-9]{3,5}$", "0bc"));
  for (const char* pattern : {"(?=a)", "^a(?=b)", "^(?!a)b|c", "^(?!a)*b", "^(?!a", "^(?!(a)b"})
    EXPECT_FALSE(compile_regex(pattern)) << pattern;
  EXPECT_FALSE(compile_regex("(a)\\1"));
  EXPECT_FALSE(compile_regex("a**"));
  EXPECT_FALSE(compile_regex("((((a{4000}){4000}){4000}){4000})"));
  EXPECT_FALSE(compile_regex("(a|b)*a(a|b){20}"));
  const auto quoted = compile_regex("^\"\\n$");
  ASSERT_TRUE(quoted);
  EXPECT_TRUE(quoted->matches("\\\"\\n")) << "as JSON writes it";
}

TEST(Numbers, KeepToBoundsAndMultiples) {
  PhiloxStream r(5, 5);
  for (int trial = 0; trial < 60; ++trial) {
    NumberLimits l{.integer = r.chance(0.5)};
    l.least = (static_cast<int>(r.below(4000)) - 2000) / 8.0;
    l.most = l.least + r.below(3000) / 8.0;
    l.above_least = r.chance(0.3);
    l.below_most = r.chance(0.3);
    if (r.chance(0.3)) l.multiples = {l.integer ? 1.0 + r.below(9) : 0.25};
    const auto d = numbers(l);
    ASSERT_TRUE(d) << d.error().message;
    for (int i = -20000; i <= 20000; i += 3) {
      const double x = l.integer ? i : i / 8.0;
      const std::string text = fmt::format("{}", x);
      bool in = (l.above_least ? x > l.least : x >= l.least) && (l.below_most ? x < l.most : x <= l.most);
      for (const double m : l.multiples) in = in && std::remainder(x, m) == 0;
      if (text == "-0") continue;
      ASSERT_EQ(d->matches(text), in) << text << " from " << l.least << " to " << l.most;
    }
    EXPECT_FALSE(d->matches("007"));
  }
}

}  // namespace
}  // namespace slip
