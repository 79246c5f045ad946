// SPDX-License-Identifier: Apache-2.0
// Line templates, two-stage fields and the form drive-cot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "form/builtin/builtin.h"
#include "form/form_testing.h"
#include "form/schema/values.h"

namespace slip {
namespace {

using testing::HasSubstr;

struct Known {
  std::string name;
  Tokenizer tokenizer;
  std::optional<TokenId> null;
};

/// Every vocabulary at hand: single bytes, Qwen's, the demo model's.
std::vector<Known> tokenizers() {
  std::vector<Known> out;
  out.push_back({"bytes", test::character_tokenizer(), test::kNull});
  if (auto qwen = test::qwen_tokenizer()) out.push_back({"qwen", std::move(*qwen), TokenId{151666}});
  auto demo = Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo");
  EXPECT_TRUE(demo) << demo.error().message;
  if (!demo) return out;
  const auto null = demo->find("<|NULL|>");
  out.push_back({"demo", std::move(*demo), null});
  return out;
}

int32_t index_of(const Form& form, std::string_view name) {
  for (size_t i = 0; i < form.fields().size(); ++i)
    if (form.fields()[i].name == name) return static_cast<int32_t>(i);
  ADD_FAILURE() << "no field " << name;
  return 0;
}

std::vector<std::string> parents_of(const Form& form, std::string_view name) {
  std::vector<std::string> names;
  for (const int32_t p : form.fields()[static_cast<size_t>(index_of(form, name))].parents)
    names.push_back(form.fields()[static_cast<size_t>(p)].name);
  return names;
}

std::vector<FieldValue> example(const Form& form) {
  const std::map<std::string, FieldValue> known{{"lighting", "day"},
                                                {"lanes", "0 s to 3 s; 3 s to 5 s"},
                                                {"lane_1", "left lane"},
                                                {"lane_2", "right lane"},
                                                {"lane_3", "N/A"},
                                                {"critical_objects", "car"},
                                                {"object_1.position", "ahead, 12 m"},
                                                {"object_1.type", "car"},
                                                {"object_1.justification", "it brakes."},
                                                {"meta_action.longitudinal", "slow down"},
                                                {"meta_action.lateral", "go straight"}};
  std::vector<FieldValue> values;
  for (const Field& f : form.fields()) {
    const auto at = known.find(f.name);
    if (at != known.end())
      values.push_back(at->second);
    else if (f.name.starts_with("trajectory"))
      values.emplace_back(static_cast<double>(values.size()) / 4 - 9);
    else
      values.emplace_back(f.instance_of ? "N/A" : "clear");
  }
  return values;
}

TEST(DriveCot, IsFastDriveCotsTemplate) {
  for (const Known& k : tokenizers()) {
    SCOPED_TRACE(k.name);
    DriveCotOptions options;
    if (k.name == "bytes")  // a byte is a token: the budgets are meant for words
      for (int32_t* b : {&options.condition_budget, &options.lanes_budget, &options.lane_budget, &options.objects_budget,
                         &options.position_budget, &options.type_budget, &options.justification_budget, &options.regulation_budget,
                         &options.summary_budget, &options.ego_behavior_budget})
        *b = 40;
    const auto form = drive_cot_form({&k.tokenizer, k.null, k.tokenizer.size() + 100}, options);
    ASSERT_TRUE(form) << form.error().message;
    const Form& f = form->form;
    std::vector<std::string> sections;
    for (const Section& s : f.sections()) sections.push_back(s.name);
    EXPECT_EQ(sections, (std::vector<std::string>{"cot", "meta_action", "trajectory"}));
    const auto answer = render(*form, example(f), k.tokenizer);
    ASSERT_TRUE(answer) << answer.error().message;
    const std::string text = answer_text(*form, *answer, k.tokenizer);
    EXPECT_EQ(
        text,
        "lighting: day\nroad condition: clear\nweather: clear\njunction: clear\nroad type: clear\nlanes: 0 s to 3 s; 3 s to 5 "
        "s\nlane 1: left lane\nlane 2: right lane\nlane 3: N/A\ncritical objects: car\nobject 1 position: ahead, 12 m\nobject 1 "
        "type: car\nobject 1 justification: it brakes.\nobject 2 position: N/A\nobject 2 type: N/A\nobject 2 justification: "
        "N/A\nobject 3 position: N/A\nobject 3 type: N/A\nobject 3 justification: N/A\nobject 4 position: N/A\nobject 4 type: "
        "N/A\nobject 4 justification: N/A\ntraffic light: clear\ntraffic sign: clear\nadditional regulation: clear\ntraffic "
        "regulation: clear\nnon interactive: clear\ninteractive: clear\nego behavior: clear\nmeta action longitudinal: slow "
        "down\nmeta action lateral: go straight\ntrajectory: [[ -001.25, -001.00], [ -000.75, -000.50], [ -000.25, +000.00], [ "
        "+000.25, +000.50], [ +000.75, +001.00]]\n");
    const auto back = parse(*form, *answer, k.tokenizer);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, example(f));
  }
}

TEST(DriveCot, HasFastDriveCotsGraph) {
  const Tokenizer t = std::move(tokenizers().back().tokenizer);
  const auto form = drive_cot_form({&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  const Form& f = form->form;
  using Names = std::vector<std::string>;
  EXPECT_EQ(f.fields().size(), 41u);
  for (const char* free : {"lighting", "road_condition", "weather", "junction", "road_type", "lanes", "critical_objects",
                           "traffic_light", "traffic_sign", "additional_regulation"})
    EXPECT_EQ(parents_of(f, free), Names{}) << free;
  EXPECT_EQ(parents_of(f, "lane_3"), Names{"lanes"});
  EXPECT_EQ(parents_of(f, "object_2.position"), Names{"critical_objects"});
  EXPECT_EQ(parents_of(f, "object_2.type"), Names{"critical_objects"});
  EXPECT_EQ(parents_of(f, "object_2.justification"), (Names{"object_2.position", "object_2.type"}));
  EXPECT_EQ(parents_of(f, "traffic_regulation"), (Names{"junction", "traffic_light", "traffic_sign", "additional_regulation"}));
  EXPECT_EQ(parents_of(f, "non_interactive"),
            (Names{"lighting", "road_condition", "weather", "road_type", "lane_1", "lane_2", "lane_3"}));
  EXPECT_EQ(parents_of(f, "interactive"),
            (Names{"object_1.justification", "object_2.justification", "object_3.justification", "object_4.justification"}));
  EXPECT_EQ(parents_of(f, "ego_behavior"), (Names{"traffic_regulation", "non_interactive", "interactive"}));
  EXPECT_EQ(parents_of(f, "meta_action.lateral"), Names{"ego_behavior"});
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(parents_of(f, fmt::format("trajectory.{}.{}", i / 2, i % 2)),
              (Names{"meta_action.longitudinal", "meta_action.lateral"}));
  const Field& object = f.fields()[static_cast<size_t>(index_of(f, "object_3.type"))];
  ASSERT_TRUE(object.instance_of);
  EXPECT_EQ(object.instance_of->field, index_of(f, "critical_objects"));
  EXPECT_EQ(object.instance_of->instance, 2);
  // objects, one object's type, its reason, interactive, the ego's behaviour, a meta-action, a number
  EXPECT_EQ(critical_path(f), 32 + 10 + 20 + 32 + 32 +
                                  f.fields()[static_cast<size_t>(index_of(f, "meta_action.longitudinal"))].budget +
                                  f.fields()[static_cast<size_t>(index_of(f, "trajectory.0.0"))].budget);
}

TEST(DriveCot, BeginsFieldsBehindTheColonAndEndsThemWithTheLine) {
  for (const Known& k : tokenizers()) {
    SCOPED_TRACE(k.name);
    DriveCotOptions wide{.lane_budget = 16};
    const auto form = drive_cot_form({&k.tokenizer, k.null, k.tokenizer.size()}, wide);
    ASSERT_TRUE(form) << form.error().message;
    for (size_t i = 0; i < form->form.fields().size(); ++i) {
      const Field& f = form->form.fields()[i];
      const TokenId before = *form->form.fixed_at(f.start - 1), after = *form->form.fixed_at(f.start + f.budget);
      if (f.name.starts_with("trajectory")) continue;
      EXPECT_EQ(k.tokenizer.token_bytes(before), ":") << f.name;
      EXPECT_EQ(k.tokenizer.token_bytes(after), "\n") << f.name;
      if (std::holds_alternative<TextMeaning>(form->meanings[i])) {
        EXPECT_EQ(f.end, after) << f.name;
      }
      for (int32_t id = 0; id < k.tokenizer.size(); ++id)
        ASSERT_TRUE(!f.rules.next(0, {id}) || k.tokenizer.token_bytes({id}).starts_with(' ')) << f.name << id;
    }
  }
}

std::string message_of(const std::string& properties, const Tokenizer& t, const std::string& layout = "lines") {
  const auto parsed =
      parse_json(R"({"type": "object", "x-layout": ")" + layout + R"(", "properties": {)" + properties + "}}", "test");
  if (!parsed) return parsed.error().message;
  const auto form = compile_schema(*parsed, "f", {&t, std::nullopt, 300});
  EXPECT_TRUE(form || form.error().kind == ErrorKind::kBadInput || form.error().kind == ErrorKind::kUnsupported);
  return form ? "compiled" : form.error().message;
}

TEST(Lines, TakeLabelsConstantsAndAllKindsOfValues) {
  const Tokenizer t = test::character_tokenizer();
  const auto schema = parse_json(R"({"type": "object", "x-layout": "lines", "properties": {
    "road_type": {"type": "string", "x-budget": 40}, "version": {"const": 2}, "note": {"const": "as \"is\""},
    "a": {"type": "object", "x-label": "thing", "properties": {
      "b_c": {"enum": ["x", "y.", "\"q\""]}, "d": {"type": "boolean", "x-label": "so?"}}},
    "n": {"type": "number", "x-format": "+00.0"},
    "s": {"type": "string", "x-content": {"type": "array", "minItems": 2, "maxItems": 2, "x-separator": "|",
          "items": {"type": "integer", "x-format": "0"}}}}})",
                                 "test");
  const auto form = compile_schema(*schema, "f", {&t, test::kNull, 300});
  ASSERT_TRUE(form) << form.error().message;
  const std::vector<FieldValue> values{"say \"hi\" \\ or not", "\"q\"", "true", -3.5, 4.0, 5.0};
  const auto answer = render(*form, values, t);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer_text(*form, *answer, t),
            "road type: say \"hi\" \\ or not\nversion: 2\nnote: as \"is\"\nthing b c: \"q\"\nso?: true\nn: -03.5\ns: [4|5]\n");
  EXPECT_EQ(*parse(*form, *answer, t), values);
  const auto why = [&](FieldValue v) {
    const auto r = render_field(*form, 0, v, t);
    return r ? std::string("rendered") : r.error().message;
  };
  EXPECT_EQ(why(""), "form f: field road_type: expected text, got none");
  EXPECT_THAT(why("a\nb"), HasSubstr("field road_type: expected text without line breaks"));
}

TEST(Lines, RefuseWhatIsNoLine) {
  const Tokenizer t = test::character_tokenizer();
  EXPECT_THAT(message_of(R"("a": {"enum": ["x\ny"]})", t), HasSubstr("$.properties.a: expected words without line breaks"));
  EXPECT_THAT(message_of(R"("a": {"const": "x\ny"})", t), HasSubstr("$.properties.a: expected a constant of one line"));
  EXPECT_THAT(message_of(R"("a": {"const": 1, "x-label": ""})", t), HasSubstr("$.properties.a: expected a label of one line"));
  EXPECT_THAT(message_of(R"("a": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"enum": ["x"]}})", t),
              HasSubstr("expected an enum of strings outside x-content"));
  EXPECT_THAT(message_of(R"("a": {"const": 1, "x-label": "b"})", t, "json"),
              HasSubstr("expected x-label on the members of a layout of lines"));
  EXPECT_THAT(message_of(R"("a": {"const": 1, "x-before": ["b"]})", t), HasSubstr("expected x-before in a layout of tokens alone"));
  EXPECT_THAT(message_of(R"("a": {"const": 1, "x-layout": "json"})", t), HasSubstr("expected x-layout at the root alone"));
  EXPECT_THAT(message_of(R"("a": {"const": 1})", t, "columns"), HasSubstr("expected an x-layout of 'json', 'lines' or 'tokens'"));
  // Qwen's vocabulary has "?:" as one token.
  const auto qwen = test::qwen_tokenizer();
  if (!qwen) GTEST_SKIP() << "no Qwen vocabulary here";
  EXPECT_THAT(message_of(R"("a": {"enum": ["x"], "x-label": "so?"})", *qwen),
              HasSubstr("$.properties.a: expected a label whose colon"));
}

TEST(Arrays, IndependentItemsHaveTheArraysParents) {
  const Tokenizer t = test::character_tokenizer();
  // parents of array.0.0, .0.1, .1.0, .1.1 (fields 1 to 4; field 0 stands before) with x-independent outside and inside
  using Parents = std::vector<std::vector<int32_t>>;
  const auto parents = [&](bool outer, bool inner, bool named) {
    const std::string item =
        R"({"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "x-format": "0"}, "x-independent": )";
    const auto schema = parse_json(
        R"({"type": "object", "properties": {"p": {"enum": ["a", "b"])" + std::string(named ? R"(, "x-parents": [])" : "") +
            R"(}, "q": {"type": "array", "minItems": 2, "maxItems": 2, )" + (named ? R"("x-parents": ["p"], )" : "") +
            R"("x-independent": )" + (outer ? "true" : "false") + R"(, "items": )" + item + (inner ? "true" : "false") + "}}}}",
        "test");
    EXPECT_TRUE(schema) << schema.error().message;
    const auto form = compile_schema(*schema, "f", {&t, std::nullopt, 300});
    EXPECT_TRUE(form) << form.error().message;
    Parents out;
    for (size_t i = 1; i < 5; ++i) out.push_back(form->form.fields()[i].parents);
    return out;
  };
  for (const bool named : {false, true}) {
    EXPECT_EQ(parents(false, false, named), (Parents{{0}, {1}, {2}, {3}}));
    EXPECT_EQ(parents(true, false, named), (Parents{{0}, {1}, {0}, {3}}));
    EXPECT_EQ(parents(false, true, named), (Parents{{0}, {0}, {1, 2}, {1, 2}}));
    EXPECT_EQ(parents(true, true, named), (Parents{{0}, {0}, {0}, {0}}));
  }
}

constexpr const char* kTwoStages = R"("e": {"type": "string", "x-budget": 24, "x-instances": 3},
  "x": {"type": "object", "x-instance-of": "e", "x-instance": 0, "properties": {
    "t": {"enum": ["car", "truck"]}, "j": {"type": "string", "x-budget": 12}}},
  "y": {"type": "string", "x-budget": 12, "x-instance-of": "e", "x-instance": 1},
  "z": {"enum": ["yes", "no"], "x-instance-of": "e", "x-instance": 2})";

CompiledForm two_stages(const Known& k, const std::string& layout) {
  const auto schema =
      parse_json(R"({"type": "object", "x-layout": ")" + layout + R"(", "properties": {)" + std::string(kTwoStages) + "}}", "test");
  auto form = compile_schema(*schema, "f", {&k.tokenizer, k.null, k.tokenizer.size() + 7});
  EXPECT_TRUE(form) << form.error().message;
  return std::move(*form);
}

TEST(TwoStages, CompileToSeparatorsPlaceholdersAndInstances) {
  for (const Known& k : tokenizers())
    for (const char* layout : {"json", "lines"}) {
      SCOPED_TRACE(k.name + " " + layout);
      const CompiledForm form = two_stages(k, layout);
      const auto fields = form.form.fields();
      for (int32_t id = 0; id < k.tokenizer.size(); ++id) {
        const std::string_view bytes = k.tokenizer.token_bytes({id});
        const bool separates = std::binary_search(fields[0].separators.begin(), fields[0].separators.end(), TokenId{id});
        ASSERT_EQ(separates, bytes.find(';') != std::string_view::npos) << id;
        ASSERT_TRUE(std::count(bytes.begin(), bytes.end(), ';') < 2 || !fields[0].rules.next(0, {id})) << id;
      }
      for (const Field& f : fields) {
        EXPECT_EQ(k.tokenizer.decode(f.placeholder), *layout == 'j' ? "N/A" : " N/A") << f.name;
        EXPECT_TRUE(f.rules.state(*f.rules.state_after(f.placeholder)).may_end || *layout == 'j');
        EXPECT_TRUE(f.end) << f.name;
      }
      EXPECT_FALSE(fields[0].instance_of);
      EXPECT_EQ(fields[2].instance_of->instance, 0);
      EXPECT_EQ(fields[3].instance_of->instance, 1);
      EXPECT_EQ(fields[4].instance_of->instance, 2);
      EXPECT_EQ(instances_in(fields[0], fields[0].placeholder), 0);
      EXPECT_THAT(describe(form.form, &k.tokenizer), HasSubstr("instance 1 of e"));
      const json::object shown = describe_json(form.form);
      EXPECT_EQ(shown.at("fields").at(3).at("instance_of").at("field").as_string(), "e");
      EXPECT_EQ(shown.at("fields").at(0).at("separators").as_array().size(), fields[0].separators.size());
      EXPECT_EQ(shown.at("waves").as_array().size(), 5u);
    }
}

TEST(TwoStages, NoContentNamesMoreThanTheFormHolds) {
  for (const Known& k : tokenizers()) {
    const CompiledForm form = two_stages(k, "lines");
    const Field& e = form.form.fields()[0];
    PhiloxStream random(5, 2);
    int32_t most = 0;
    for (int trial = 0; trial < 3000; ++trial) {
      std::vector<TokenId> content;
      int32_t state = 0;
      while (static_cast<int32_t>(content.size()) < e.budget) {
        const bool separator = random.chance(0.3);
        const TokenId id = separator ? e.separators[random.below(static_cast<uint32_t>(e.separators.size()))]
                                     : TokenId{static_cast<int32_t>(random.below(static_cast<uint32_t>(k.tokenizer.size())))};
        const auto next = e.rules.next(state, id);
        if (next) content.push_back(id), state = *next;
        if (random.chance(0.02)) break;
      }
      const int32_t named = instances_in(e, content);
      ASSERT_LE(named, 3);
      ASSERT_EQ(named, content.empty() ? 0 : 1 + std::ranges::count(k.tokenizer.decode(content), ';'));
      most = std::max(most, named);
    }
    EXPECT_EQ(most, 3) << k.name;
  }
}

TEST(TwoStages, AnswersRoundTripWithAnyNumberOfInstances) {
  for (const Known& k : tokenizers())
    for (const char* layout : {"json", "lines"}) {
      SCOPED_TRACE(k.name + " " + layout);
      const CompiledForm form = two_stages(k, layout);
      PhiloxStream random(9, 4);
      const auto word = [&] {
        std::string s;
        for (uint32_t n = 1 + random.below(3); n > 0; --n) s += "abc mn.N/"[random.below(9)];
        return s.front() == ' ' || s.back() == ' ' ? "w" + s + "w" : s;
      };
      for (int trial = 0; trial < 300; ++trial) {
        const int32_t n = static_cast<int32_t>(random.below(4));
        std::string named = n == 0 ? "N/A" : word();
        for (int32_t i = 1; i < n; ++i) named += "; " + word();
        const std::vector<FieldValue> values{named, n > 0 ? random.chance(0.5) ? "car" : "truck" : "N/A", n > 0 ? word() : "N/A",
                                             n > 1 ? word() : "N/A", n > 2 ? random.chance(0.5) ? "yes" : "no" : "N/A"};
        const auto answer = render(form, values, k.tokenizer);
        ASSERT_TRUE(answer) << answer.error().message;
        const auto back = parse(form, *answer, k.tokenizer);
        ASSERT_TRUE(back) << back.error().message;
        ASSERT_EQ(*back, values);
        ASSERT_EQ(*render(form, *back, k.tokenizer), *answer);
        ASSERT_EQ(*values_from_json(form.form, values_to_json(form.form, values)), values);
        const auto contents = *split_answer(form.form, *answer);
        ASSERT_EQ(instances_in(form.form.fields()[0], contents[0]), n);
        // One instance filled that is not named: neither direction takes it.
        auto wrong = values;
        if (n < 2)
          wrong[3] = "filled";
        else if (n < 3)
          wrong[4] = "yes";
        else
          wrong[0] = "one";
        const auto refused = render(form, wrong, k.tokenizer);
        ASSERT_FALSE(refused);
        EXPECT_THAT(refused.error().message, HasSubstr("expected the placeholder of an unused instance (e names"));
        auto filled = contents;
        for (size_t f = 0; f < wrong.size(); ++f) filled[f] = *render_field(form, f, wrong[f], k.tokenizer);
        ASSERT_FALSE(parse(form, assemble(form.form, filled), k.tokenizer));
      }
      const auto many = render_field(form, 0, "a; b; c; d", k.tokenizer);
      ASSERT_FALSE(many);
      EXPECT_THAT(many.error().message, HasSubstr("field e: expected text without"));
      EXPECT_THAT(many.error().message, HasSubstr("that names no more than there are instances for, got \"a; b; c; d\""));
    }
}

TEST(TwoStages, SchemasThatContradictThemselvesAreRefusedByPlace) {
  const Tokenizer t = test::character_tokenizer();
  const std::string e = R"("e": {"type": "string", "x-budget": 24, "x-instances": 2}, )";
  const auto text = [](const std::string& keys) { return R"("i": {"type": "string", "x-budget": 9, )" + keys + "}"; };
  EXPECT_EQ(message_of(e + text(R"("x-instance-of": "e", "x-instance": 1)"), t), "compiled");
  EXPECT_EQ(message_of(e + text(R"("x-instance-of": "e", "x-instance": 2)"), t),
            "form f: $.properties.i: expected an x-instance of 0 to 1, got 2");
  EXPECT_THAT(message_of(e + text(R"("x-instance-of": "e", "x-instance": -1)"), t), HasSubstr("x-instance of 0 to 1, got -1"));
  EXPECT_THAT(message_of(e + text(R"("x-instance-of": "e")"), t),
              HasSubstr("$.properties.i: expected x-instance-of together with"));
  EXPECT_THAT(message_of(e + text(R"("x-instance": 0)"), t), HasSubstr("$.properties.i: expected x-instance-of together with"));
  EXPECT_THAT(message_of(e + text(R"("x-instance-of": "f", "x-instance": 0)"), t),
              HasSubstr("to name a field with x-instances that stands before it, got 'f'"));
  EXPECT_THAT(message_of(text(R"("x-instance-of": "e", "x-instance": 0)") + ", " + e.substr(0, e.size() - 2), t),
              HasSubstr("that stands before it, got 'e'"));
  EXPECT_THAT(
      message_of(text(R"("x-null-pad": false)") + R"(, "j": {"type": "boolean", "x-instance-of": "i", "x-instance": 0})", t),
      HasSubstr("to name a field with x-instances"));
  EXPECT_THAT(message_of(e + text(R"("x-parents": [], "x-instance-of": "e", "x-instance": 0)"), t),
              HasSubstr("form f: field i: expected its enumeration e among its ancestors"));
  EXPECT_THAT(message_of(e + R"("n": {"type": "number", "x-format": "0", "x-instance-of": "e", "x-instance": 0})", t),
              HasSubstr("expected text or an enum as an instance"));
  EXPECT_THAT(message_of(text(R"("x-instances": 0)"), t), HasSubstr("expected an x-instances of 1 to 64, got 0"));
  EXPECT_THAT(message_of(text(R"("x-instances": 65)"), t), HasSubstr("expected an x-instances of 1 to 64, got 65"));
  EXPECT_THAT(message_of(text(R"("x-instances": 2, "x-instance-separator": ", ")"), t),
              HasSubstr("of one visible ASCII character"));
  EXPECT_THAT(message_of(text(R"("x-instances": 2, "x-instance-separator": "/")"), t), HasSubstr("without the separator '/'"));
  EXPECT_THAT(message_of(text(R"("x-instances": 2, "x-placeholder": "")"), t), HasSubstr("expected an x-placeholder of text"));
  EXPECT_THAT(message_of(text(R"("x-instances": 2, "x-placeholder": "none at all")"), t),
              HasSubstr("form f: field i: expected a placeholder of at most 9 tokens, got 12"));
  EXPECT_THAT(message_of(text(R"("x-placeholder": "-")"), t), HasSubstr("expected x-placeholder beside x-instances"));
  EXPECT_THAT(message_of(text(R"("x-instances": 2, "x-null-pad": true)"), t), HasSubstr("without x-null-pad"));
  EXPECT_THAT(message_of(R"("e": {"enum": ["a"], "x-instances": 2})", t),
              HasSubstr("expected a keyword that forms know here, got 'x-instances'"));
  std::string nine;
  for (int i = 0; i < 9; ++i)
    nine += fmt::format(R"({}"e{}": {{"type": "string", "x-budget": 9, "x-instances": 2}})", i ? ", " : "", i);
  EXPECT_EQ(message_of(nine, t), "form f: expected at most 8 enumerations, got more");
}

TEST(Graphs, ThatCannotBeDecodedAreRefusedByField) {
  const Tokenizer t = test::character_tokenizer();
  const auto text = [](const std::string& name, const std::string& parents, int budget = 9) {
    return fmt::format(R"("{}": {{"type": "string", "x-budget": {}, "x-parents": [{}]}})", name, budget, parents);
  };
  EXPECT_EQ(message_of(text("a", R"("c")") + "," + text("b", R"("a")") + "," + text("c", R"("b")"), t),
            "form f: expected fields without cycles, got a <- c <- b <- a");
  EXPECT_EQ(message_of(text("a", R"("a")"), t), "form f: expected fields without cycles, got a <- a");
  EXPECT_EQ(message_of(text("a", R"("who")"), t), "form f: $.properties.a: expected names of fields in x-parents, got 'who'");
  EXPECT_EQ(message_of(text("a", "", 0), t), "form f: $.properties.a: expected an x-budget of 1 to 65536, got 0");
}

TEST(Schema, BoundsTheListsOfFreeTextWhileItIsRead) {
  const Tokenizer t = test::character_tokenizer();
  const auto many = [&](int n, const std::string& keys) {
    std::string all;
    for (int i = 0; i < n; ++i) all += fmt::format(R"({}"f{}": {{"type": "string", "x-budget": 4{}}})", i ? ", " : "", i, keys);
    return message_of(all, t);
  };
  EXPECT_EQ(many(200, ""), "compiled");
  EXPECT_THAT(many(1000, ""), HasSubstr("expected less free text in the whole form"));
  EXPECT_THAT(many(200, R"(, "x-instances": 64)"), HasSubstr("expected less free text in the whole form"));
}

void mutate(json::value& v, PhiloxStream& random, const json::value& donor) {
  if (auto* o = v.if_object(); o && !o->empty()) {
    auto member = o->begin() + static_cast<std::ptrdiff_t>(random.below(static_cast<uint32_t>(o->size())));
    if (random.chance(0.15)) {
      o->erase(member);
    } else if (random.chance(0.15)) {
      member->value() = donor;
    } else {
      mutate(member->value(), random, donor);
    }
  } else if (auto* a = v.if_array(); a && !a->empty()) {
    mutate((*a)[random.below(static_cast<uint32_t>(a->size()))], random, donor);
  } else {
    const json::value others[] = {nullptr, -1, 0, 3, 1e300, true, "", "x", "e", "N/A", ";", "a\nb", json::array{}, json::object{}};
    v = others[random.below(std::size(others))];
  }
}

// Whatever a schema says, it is compiled or refused with a reason; a broken promise inside would end the test.
TEST(Schema, AnyDamageIsCompiledOrRefused) {
  const Tokenizer t = test::character_tokenizer();
  std::vector<json::value> schemas{
      drive_cot_schema({.lanes = 1, .objects = 1, .waypoints = 1}), wod_e2e_schema({.waypoints = 1}),
      alpamayo_coc_schema({.trajectory_ids = 3}), openvla_action_schema(),
      *parse_json(R"({"type": "object", "x-layout": "lines", "properties": {)" + std::string(kTwoStages) + "}}", "test")};
  PhiloxStream random(11, 6);
  int compiled = 0, refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    json::value schema = schemas[random.below(static_cast<uint32_t>(schemas.size()))];
    for (uint32_t n = 1 + random.below(3); n > 0; --n)
      mutate(schema, random, schemas[random.below(static_cast<uint32_t>(schemas.size()))].at("properties"));
    const auto form = compile_schema(schema, "f", {&t, random.chance(0.5) ? std::optional(test::kNull) : std::nullopt, 300});
    if (form) {
      ++compiled;
      ASSERT_FALSE(describe(form->form, &t).empty());
    } else {
      ++refused;
      ASSERT_THAT(form.error().message, HasSubstr("form f"));
      ASSERT_LT(form.error().message.size(), 400u);
    }
  }
  EXPECT_GT(compiled, 100);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace slip
