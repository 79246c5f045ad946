// SPDX-License-Identifier: Apache-2.0
// Decoders put together on the command line: every exact combination gives the same tokens, every lossy one says so, and what cannot
// be is refused with the reason: forms, draft models and heads, earlier answers, words, combinations.
#include <map>
#include <set>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Decoders : public Small {
 protected:
  /// The result of a run, kept in a file as `--drafter previous:FILE` wants it.
  std::string keep(const std::string& name, const Words& arguments) { return write(name, json::serialize(run_json(arguments))); }
};

TEST_F(Decoders, EveryExactCombinationOverAFormGivesTheSameTokens) {
  for (const char* temperature : {"0", "1.1"}) {
    const Words sampled{"--temperature", temperature, "--seed", "9"};
    const json::value slow = run_json(over(joined({"--decoder", "scaffold-ar"}, sampled)));
    const std::string previous = write("previous.json", json::serialize(slow));
    const std::vector<Words> combinations = {
        {"--decoder", "self-spec"},
        {"--decoder", "self-spec-quadratic"},
        {"--decoder", "self-spec", "--drafter", "lookup"},
        {"--decoder", "scaffold-ar", "--drafter", "lookup:2", "--width", "fixed:3"},
        {"--decoder", "scaffold-ar", "--drafter", "previous:" + previous},
        {"--decoder", "draft-model", "--drafter", "model:" + small_},
        {"--decoder", "scaffold-spec", "--width", "fixed:5"},
    };
    for (const Words& c : combinations) {
      SCOPED_TRACE(testing::PrintToString(c));
      const json::value fast = run_json(over(joined(c, sampled)));
      expect_result_keys(fast, true);
      EXPECT_EQ(fast.at("tokens"), slow.at("tokens"));
      EXPECT_FALSE(fast.at("decoder").at("lossy").as_bool());
      EXPECT_FALSE(fast.at("decoder").as_object().contains("relaxed"));
      const bool drafts = !fast.at("decoder").at("drafter").as_string().starts_with("lookup");  // nothing in this form repeats
      EXPECT_EQ(fast.at("statistics").at("proposed").as_int64() > 0, drafts);
    }
  }
}

TEST_F(Decoders, TheSameAlongAGraphWhereOnePassServesManyFields) {
  const Words graph{"--law", "graph", "--temperature", "0.8", "--seed", "4"};
  const json::value slow = run_json(over(joined({"--decoder", "scaffold-ar"}, graph)));
  const std::string previous = write("previous.json", json::serialize(slow));
  for (const Words& c : std::vector<Words>{{"--decoder", "fields"},
                                           {"--decoder", "fields-spec"},
                                           {"--decoder", "fields-spec", "--no-activation"},
                                           {"--decoder", "fields-spec", "--max-rows", "4"},
                                           {"--decoder", "fields", "--drafter", "previous:" + previous},
                                           {"--decoder", "fields", "--drafter", "model:" + small_},
                                           {"--decoder", "draft-model", "--drafter", "model:" + small_}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    const json::value v = run_json(over(joined(c, graph)));
    expect_result_keys(v, true);
    EXPECT_EQ(v.at("tokens"), slow.at("tokens"));
    EXPECT_NE(v.at("decoder").at("schedule"), "chain");
    EXPECT_GT(v.at("statistics").at("critical_path").as_int64(), 0);
  }
}

// `--log-forced`: tokens of the template that the model would not have drawn; the same list whatever drafts, and no other answer.
TEST_F(Decoders, ForcedTokensAreListedWhereThatIsAskedFor) {
  const json::value plain = run_json(over({"--decoder", "scaffold-ar"}));
  EXPECT_FALSE(plain.as_object().contains("forced"));
  std::map<int64_t, json::value> first;  // by position; `ar` alone runs rows behind the last draw
  for (const char* decoder : {"scaffold-ar", "scaffold-spec", "ar"}) {
    const json::value v = run_json(over({"--decoder", decoder, "--log-forced"}));
    EXPECT_EQ(v.at("tokens"), plain.at("tokens"));
    const json::value& log = v.at("forced");
    const json::array& misses = log.at("misses").as_array();
    EXPECT_EQ(log.at("count").to_number<size_t>(), misses.size());
    EXPECT_GE(log.at("compared").to_number<size_t>(), misses.size());
    EXPECT_GT(misses.size(), 0u) << "random weights know no form";
    std::map<int64_t, json::value> own;
    for (const json::value& m : misses) {
      ASSERT_EQ(missing_keys(m, {"position", "field", "forced", "own", "p_forced", "p_own"}), "");
      EXPECT_NE(m.at("forced"), m.at("own"));
      EXPECT_GE(m.at("p_own").to_number<double>(), m.at("p_forced").to_number<double>());
      EXPECT_TRUE(one_of(m.at("field"), {"light", "lead", "speed", ""})) << json::serialize(m);
      EXPECT_EQ(m.as_object().contains("before"), m.at("field") != "");
      if (m.at("field") != "") own[m.at("position").as_int64()] = m.at("own");
    }
    if (first.empty()) first = own;
    EXPECT_EQ(own, first) << decoder;
  }
  const Ran sections = run(over({"--decoder", "section-diffusion", "--log-forced", "--json"}));
  EXPECT_EQ(sections.code, 4);
  EXPECT_NE(sections.err.find("log of forced tokens"), std::string::npos) << sections.err;
  refused_in_words(over({"--log-forced"}), 2, "--json");
}

TEST_F(Decoders, PassesOfADraftModelAreCounted) {
  const json::value v = run_json(over({"--decoder", "draft-model", "--drafter", "model:" + small_}));
  const json::value& s = v.at("statistics");
  EXPECT_GT(s.at("drafter_forwards").as_int64(), 0);
  EXPECT_GT(s.at("rounds").as_int64(), 0);
  EXPECT_EQ(s.at("accepted"), s.at("tested")) << "the model drafts for itself";
}

// ---- lossy ones say so

constexpr const char* kBins = R"({"type": "object", "x-layout": "tokens", "properties": {"action": {
  "type": "array", "minItems": 3, "maxItems": 3, "x-before": ["="],
  "items": {"type": "number", "x-bins": {"first": "0", "last": "9", "count": 10, "low": -1, "high": 1}}}}})";

TEST_F(Decoders, RelaxedBinsAreReportedPerDimension) {
  const Words ask = request({"--form", write("bins.json", kBins), "--decoder", "self-spec", "--temperature", "1"});
  const json::value exact = run_json(ask), relaxed = run_json(joined(ask, {"--verifier", "relaxed:2"}));
  expect_result_keys(exact, true);
  expect_result_keys(relaxed, true);
  EXPECT_FALSE(exact.at("decoder").as_object().contains("relaxed"));
  EXPECT_TRUE(relaxed.at("decoder").at("lossy").as_bool());
  EXPECT_EQ(relaxed.at("decoder").at("verifier"), "relaxed:2");
  const json::value& action = relaxed.at("decoder").at("relaxed").at("action");
  EXPECT_EQ(action.at("bins"), *parse_json("[2, 2, 2]", "bins"));
  ASSERT_EQ(action.at("units").as_array().size(), 3u);
  for (const json::value& u : action.at("units").as_array())
    EXPECT_DOUBLE_EQ(u.to_number<double>(), 2 * 2.0 / 9) << "nine bins over -1 .. 1";
  EXPECT_EQ(relaxed.at("fields").at("action").as_array().size(), 3u);
  refused(over({"--verifier", "relaxed:2"}), 4, "action bins");
}

TEST_F(Decoders, LossyAnswersSaySoInWordsToo) {
  const Ran exact = run(over({})), lossy = run(over({"--decoder", "self-spec-quadratic", "--verifier", "ensemble:0.5"}));
  EXPECT_EQ(exact.code, 0) << exact.err;
  EXPECT_EQ(lossy.code, 0) << lossy.err;
  EXPECT_EQ(exact.err.find("lossy"), std::string::npos) << exact.err;
  EXPECT_NE(lossy.err.find("(text x quadratic x ensemble:0.5, width fixed:4) (lossy)"), std::string::npos) << lossy.err;
}

TEST_F(Decoders, ExactSameLawAndLossyAreThreeThings) {
  const auto words_of = [&](const Words& more) {
    const json::value decoder = run_json(over(joined({"--temperature", "0.8"}, more))).at("decoder");
    return std::pair(decoder.at("exact").as_bool(), decoder.at("lossy").as_bool());
  };
  EXPECT_EQ(words_of({}), std::pair(true, false));
  EXPECT_EQ(words_of({"--decoder", "scaffold-spec", "--verifier", "rejection"}), std::pair(false, false));
  EXPECT_EQ(words_of({"--decoder", "self-spec-quadratic", "--verifier", "ensemble:0.5"}), std::pair(false, true));
  const Ran drawn = run(over({"--temperature", "0.8", "--decoder", "scaffold-spec", "--verifier", "rejection"}));
  EXPECT_NE(drawn.err.find("(same law, other tokens)"), std::string::npos) << drawn.err;
}

TEST_F(Decoders, WarnsOnceOfAVisibilityThatTheModelWasNotTrainedFor) {
  const std::string cot = (fs::path(demo_model()).parent_path() / "demo-cot").string();
  const Ran chain = run({"run", "--model", cot, "--prompt", "x", "--visibility", "chain"}),
            graph = run({"run", "--model", cot, "--prompt", "x", "--visibility", "graph"});
  EXPECT_EQ(chain.code, 0);
  const size_t at = chain.err.find("slipstream: warn: visibility: expected graph, which ");
  ASSERT_NE(at, std::string::npos) << chain.err;
  EXPECT_NE(chain.err.find("was trained for, got chain", at), std::string::npos) << chain.err;
  EXPECT_EQ(chain.err.find("warn", at + 20), std::string::npos) << chain.err;
  EXPECT_EQ(graph.err.find("warn"), std::string::npos) << graph.err;
}

// Its old name and its new one.
TEST_F(Decoders, VisibilityIsTheLawOfBefore) {
  const json::value visibility = run_json(over({"--visibility", "graph"})), law = run_json(over({"--law", "graph"}));
  EXPECT_EQ(visibility.at("tokens"), law.at("tokens"));
  EXPECT_EQ(visibility.at("visibility"), "graph");
  EXPECT_EQ(law.at("visibility"), "graph");
}

// ---- the trace

TEST_F(Decoders, TheTraceOfAGraphShowsTheFieldsOfEveryPass) {
  const json::value v = run_json(over({"--law", "graph", "--decoder", "fields-spec", "--trace", path("trace.json")}));
  const auto trace = parse_json(read_bytes(path("trace.json")), "trace.json");
  ASSERT_TRUE(trace);
  std::map<int64_t, std::string> lanes;
  std::set<std::string> took_part;
  int64_t passes = 0, in_lanes = 0, accepted = 0;
  double behind = 0;  // the pass before, microseconds
  std::set<double> durations;
  for (const json::value& e : trace->at("traceEvents").as_array()) {
    const std::string name(e.at("name").as_string());
    const int64_t lane = e.at("tid").as_int64();
    if (name == "thread_name") {
      lanes[lane] = std::string(e.at("args").at("name").as_string());
    } else if (lane > 1) {
      ++in_lanes;
      EXPECT_TRUE(lanes.contains(lane));
      EXPECT_EQ(name == "discarded", e.at("args").at("discarded").as_bool());
    } else if (name == "verify") {
      ++passes;
      const double begin = e.at("ts").to_number<double>(), took = e.at("dur").to_number<double>();
      EXPECT_GE(begin, behind) << "one behind the other";
      behind = begin + took;
      durations.insert(took);
      accepted += e.at("args").at("accepted").as_int64();
      for (const json::value& f : e.at("args").at("fields").as_array()) took_part.emplace(f.as_string());
    }
  }
  EXPECT_EQ(lanes.size(), 4u) << "the stages and three fields";
  EXPECT_EQ(took_part, (std::set<std::string>{"lead", "light", "speed"}));
  EXPECT_GE(in_lanes, passes);
  EXPECT_GT(passes, 1);
  EXPECT_GT(durations.size(), 1U) << "each pass has its own time, not the mean";
  EXPECT_GE(accepted, v.at("statistics").at("accepted").as_int64()) << "rounds also hold places that admit one token alone";
}

// ---- bad input: 3

TEST_F(Decoders, RefusesGraphsAndBudgetsThatCannotBe) {
  const auto fields = [](const std::string& a, const std::string& b) {
    return R"({"type": "object", "properties": {"a": {"type": "string", "x-budget": 4, "x-parents": [)" + a +
           R"(]}, "b": {"type": "string", "x-budget": 4, "x-parents": [)" + b + "]}}}";
  };
  const std::string cycle = write("cycle.json", fields(R"("b")", R"("a")"));
  const std::string orphan = write("orphan.json", fields("", R"("c")"));
  const std::string none = write("none.json", R"({"type": "object", "properties": {"a": {"type": "string", "x-budget": 0}}})");
  for (const Words& command : {request({"--form"}), Words{"form", "--model", small_}}) {
    refused(joined(command, {cycle}), 3, "cycle.json: expected fields without cycles, got a <- b <- a");
    refused(joined(command, {orphan}), 3, "orphan.json: #/properties/b: expected names of fields in x-parents, got 'c'");
    refused(joined(command, {none}), 3, "none.json: #/properties/a/x-budget: expected a budget of 1 to ");
  }
}

TEST_F(Decoders, RefusesEarlierAnswersThatAreNotTheForms) {
  const auto ask = [&](const std::string& file) { return over({"--decoder", "scaffold-ar", "--drafter", "previous:" + file}); };
  const json::value answer = run_json(over({}));
  const auto with = [&](const std::string& name, const std::string& key, json::value value) {
    json::value v = answer;
    v.as_object()[key] = std::move(value);
    return ask(write(name, json::serialize(v)));
  };
  EXPECT_EQ(run(ask(write("good.json", json::serialize(answer)))).code, 0);
  refused(ask(path("missing.json")), 3, "missing.json");
  refused(ask(write("broken.json", "{\"tokens\": [1, ")), 3, "broken.json");
  refused(ask(write("list.json", "[1, 2]")), 3, "list.json: expected the result of run --json");
  refused(ask(write("empty.json", "{}")), 3, "empty.json");
  const std::string other = write("other.json", R"({"type": "object", "properties": {"light": {"enum": ["red", "green"]}}})");
  refused(ask(keep("of-other.json", request({"--form", other}))), 3, "other.json");
  refused(ask(keep("of-text.json", request({"--form", "none", "--max-tokens", "4"}))), 3, "got one of none");
  json::array tokens = answer.at("tokens").as_array();
  tokens.pop_back();
  refused(with("short.json", "tokens", tokens), 3, "short.json");
  tokens = answer.at("tokens").as_array();
  tokens[0] = 5;
  refused(with("scaffold.json", "tokens", tokens), 3, "scaffold.json");
  refused(with("beyond.json", "tokens", json::array{1 << 20}), 3, "beyond.json");
  refused(with("negative.json", "tokens", json::array{-1}), 3, "negative.json: tokens: expected ids, got -1");
  refused(with("words.json", "tokens", json::array{"a"}), 3, "words.json: tokens: expected ids");
  // Free text: an answer of a form is none, and ids that no rules look at are looked at here.
  const auto text = [&](const std::string& file) {
    return request({"--form", "none", "--max-tokens", "4", "--decoder", "ar", "--drafter", "previous:" + file});
  };
  EXPECT_EQ(run(text(path("of-text.json"))).code, 0);
  refused(text(path("good.json")), 3, "good.json: expected an answer in free text, got one of form");
  json::value far = *parse_json(read_bytes(path("of-text.json")), "of-text.json");
  far.as_object()["tokens"] = json::array{1 << 20};
  refused(text(write("far.json", json::serialize(far))), 3, "far.json: tokens: expected ids below the model's");
}

TEST_F(Decoders, RefusesAnEarlierAnswerWhereEvalMakesItsOwn) {
  refused({"eval", "--model", small_, "--count", "1", "--every", "0.5", "--drafter", "previous:answer.json"}, 2,
          "previous without more (each scene's own earlier frame), got previous:answer.json");
}

// `--law` says how the request is decoded, whatever the model was trained for: so do the contenders.
TEST_F(Decoders, BenchGoesByTheLawThatIsAskedFor) {
  const Ran ran = run({"bench", "decoders", "--model", small_, "--form", write("form.json", kSmallForm), "--law", "graph",
                       "--prompt", "go on", "--repeats", "1", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::set<std::string> labels;
  for (const json::value& v : lines_of(ran)) labels.emplace(v.at("label").as_string());
  for (const char* label : {"fields", "fields-spec", "fields-spec ahead"}) EXPECT_TRUE(labels.contains(label)) << label;
  EXPECT_FALSE(labels.contains("section-diffusion"));
}

TEST_F(Decoders, TheLawThatIsAskedForChoosesTheDecoder) {
  const json::value graph = run_json(over({"--law", "graph"})), chain = run_json(over({}));
  EXPECT_EQ(graph.at("decoder").at("preset"), "auto");
  EXPECT_EQ(graph.at("decoder").at("schedule"), "fields");
  EXPECT_EQ(graph.at("law"), "graph");
  EXPECT_EQ(graph.at("visibility"), "graph");
  EXPECT_EQ(chain.at("decoder").at("preset"), "auto");
  EXPECT_EQ(chain.at("decoder").at("schedule"), "chain");
  EXPECT_EQ(chain.at("law"), "chain");
  // Parts without a preset are parts of the visibility's own.
  const Words drafts{"--drafter", "diffusion"};
  EXPECT_EQ(run_json(over(joined({"--law", "graph"}, drafts))).at("decoder").at("preset"), "fields-spec");
  EXPECT_EQ(run_json(over(drafts)).at("decoder").at("preset"), "scaffold-spec");
  const std::string cot = (fs::path(demo_model()).parent_path() / "demo-cot").string();
  EXPECT_EQ(
      run_json({"run", "--model", cot, "--prompt", "x", "--law", "chain", "--drafter", "diffusion"}).at("decoder").at("preset"),
      "scaffold-spec");
}

// Without --slots there is room for all that a quadratic drafter lays beside the rows: k groups of k masks per strand.
TEST_F(Decoders, QuadraticDraftsFindRoom) {
  for (const Words& law : {Words{"--law", "chain"}, Words{"--law", "graph"}}) {
    const Words wide{"--decoder", "scaffold-ar", "--drafter", "quadratic", "--width", "fixed:64"};
    const json::value slow = run_json(over(joined(law, {"--decoder", "scaffold-ar"}))), fast = run_json(over(joined(law, wide)));
    EXPECT_EQ(fast.at("tokens"), slow.at("tokens")) << law[1];
  }
  const auto text = [&](const Words& more) {
    return run_json(joined(request({"--form", "none", "--max-tokens", "6", "--temperature", "1", "--rollouts", "3"}), more));
  };
  EXPECT_EQ(text({"--decoder", "self-spec-quadratic", "--width", "fixed:64"}).at("tokens"), text({"--decoder", "ar"}).at("tokens"));
  const std::string cot = (fs::path(demo_model()).parent_path() / "demo-cot").string();
  const Words ask{"run", "--model", cot, "--prompt", "x"};
  EXPECT_EQ(run_json(joined(ask, {"--drafter", "quadratic"})).at("tokens"),
            run_json(joined(ask, {"--decoder", "ar"})).at("tokens"));
}

/// A copy of the fixture whose vocabulary shares no token with it: other bytes, other names of special tokens.
std::string foreign_vocabulary(const std::string& folder) {
  json::value tokenizer = *parse_json(read_bytes(folder + "/tokenizer.json"), "tokenizer.json");
  json::object vocabulary;
  std::map<int64_t, std::string> specials;
  for (json::value& a : tokenizer.at("added_tokens").as_array()) {
    const int64_t id = a.at("id").as_int64();
    specials[id] = "<|draft_" + std::to_string(id) + "|>";
    a.as_object()["content"] = specials[id];
  }
  // GPT-2's alphabet: U+0100 .. U+0120 are bytes 0 .. 32, U+0121 .. U+0142 bytes 127 .. 160; the fixture has line break and space.
  char32_t letter = 0x100;
  for (const auto& [token, id] : tokenizer.at("model").at("vocab").as_object()) {
    if (specials.contains(id.as_int64())) {
      vocabulary[specials[id.as_int64()]] = id;
      continue;
    }
    while (letter == 0x10A || letter == 0x120) ++letter;
    const std::string bytes{static_cast<char>(0xC0 | (letter >> 6)), static_cast<char>(0x80 | (letter & 0x3F))};
    vocabulary[bytes] = id;
    ++letter;
  }
  tokenizer.at("model").as_object()["vocab"] = std::move(vocabulary);
  write_bytes(folder + "/tokenizer.json", json::serialize(tokenizer));
  return folder;
}

TEST_F(Decoders, RefusesDraftModelsThatDoNotFit) {
  const auto ask = [&](const std::string& folder) { return over({"--decoder", "draft-model", "--drafter", "model:" + folder}); };
  refused(over({"--decoder", "draft-model"}), 2, "model:DIR");
  refused(ask(path("nowhere")), 3, "nowhere");
  refused(ask(fixture("models/qwen2")), 3, "tokenizer");
  refused(ask(foreign_vocabulary(copy_fixture("decode/models/small", "foreign"))), 3,
          "a vocabulary that shares tokens with the target's");
  // Bins are mapped to bins: a model of another task has none.
  refused(request({"--form", write("bins.json", kBins), "--decoder", "draft-model", "--drafter", "model:" + small_}), 3,
          "action bins");
}

TEST_F(Decoders, RefusesDraftHeadsForAnotherTarget) {
  const auto ask = [&](const std::string& folder) { return over({"--decoder", "dflash", "--drafter", "dflash:" + folder}); };
  refused(over({"--decoder", "dflash"}), 2, "dflash:DIR");
  refused(ask(path("nowhere")), 3, "nowhere");
  refused(ask(small_), 3, "config.json: expected a DFlash draft head");
  refused(ask(fixture("models/qwen3_dflash")), 3, "a draft head for another target");
}

// A model's own head is a candidate of `auto`; one that cannot be read costs a word and no answer.
TEST_F(Decoders, AutoKnowsTheModelsOwnHead) {
  ASSERT_EQ(run({"simulate", "--seed", "900000017", "--count", "1", "--out", path("set")}).code, 0);
  const auto ask = [&](const std::string& model) {
    return run({"run", "--model", model, "--record", path("set") + ":0", "--decoder", "auto", "--json"});
  };
  const auto answer = [](const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    auto v = parse_json(ran.out, "answer");
    EXPECT_TRUE(v) << ran.out;
    return v ? std::move(*v) : json::value(json::object{});
  };
  const auto considered = [](const json::value& v) { return json::serialize(v.at("decoder").at("chosen").at("considered_ms")); };
  const json::value with = answer(ask(demo_model()));
  EXPECT_THAT(considered(with), testing::HasSubstr("--drafter dflash"));

  const fs::path copy = path("model");
  fs::create_directories(copy / "dflash");
  for (const auto& entry : fs::directory_iterator(demo_model()))
    if (entry.is_regular_file()) fs::create_symlink(fs::canonical(entry.path()), copy / entry.path().filename());
  const auto goes_without = [&] {
    const Ran ran = ask(copy.string());
    const json::value without = answer(ran);
    EXPECT_THAT(ran.err, testing::HasSubstr("goes without the model's draft head"));
    EXPECT_THAT(considered(without), testing::Not(testing::HasSubstr("dflash")));
    EXPECT_EQ(with.at("answer"), without.at("answer"));
  };
  write("model/dflash/config.json", "{}");
  goes_without();
  const fs::path own = fs::path(demo_model()) / "dflash";
  write("model/dflash/config.json", read_bytes(own / "config.json"));
  const std::string weights = read_bytes(own / "model.safetensors");
  write("model/dflash/model.safetensors", weights.substr(0, weights.size() / 2));
  goes_without();
  // Prices of its rounds are kept; then the file breaks, and nothing about it tells: whether it is taken or not, the answer is there.
  const fs::path file = copy / "dflash" / "model.safetensors";
  write("model/dflash/model.safetensors", weights);
  answer(ask(copy.string()));
  const auto time = fs::last_write_time(file);
  write("model/dflash/model.safetensors", std::string(weights.size(), 'x'));
  fs::last_write_time(file, time);
  EXPECT_EQ(answer(ask(copy.string())).at("answer"), with.at("answer"));
}

// ---- wrong usage: 2; what makes no sense together: 4

TEST_F(Decoders, ACacheThatIsTooSmallNamesItsOption) {
  refused(over({"--slots", "8"}), 5, "got 8 (--slots, EngineOptions::slots)");
}

TEST_F(Decoders, RefusesWordsThatAreNone) {
  refused(over({"--decoder", "warp-drive"}), 2, "warp-drive");
  refused(over({"--schedule", "spiral"}), 2, "--schedule: expected text, chain, sections or fields, got spiral");
  refused(over({"--drafter", "oracle"}), 2, "oracle");
  refused(over({"--drafter", "diffusion:fast"}), 2, "diffusion:lora");
  refused(over({"--drafter", "previous"}), 2, "previous:FILE");
  refused(over({"--drafter", "model:"}), 2, "model:DIR");
  refused(over({"--drafter", "dflash"}), 2, "dflash:DIR");
  refused(over({"--drafter", "lookup:0"}), 2, "lookup:0");
  refused(over({"--drafter", "lookup:2.5"}), 2, "a whole number N from 1 to 64, got lookup:2.5");
  refused(over({"--verifier", "hope"}), 2, "hope");
  refused(over({"--verifier", "exact:2"}), 2, "exact:2");
  refused(over({"--verifier", "confidence:much"}), 2, "confidence:much");
  refused(over({"--verifier", "relaxed:-1"}), 2, "relaxed:-1");
  refused(over({"--verifier", "relaxed:1.5"}), 2, "a whole number N from 0 to 65536, got relaxed:1.5");
  refused(over({"--verifier", "ensemble:2"}), 2, "ensemble:2");
  refused(over({"--verifier", "sampler"}), 2, "sampler:DIR");
  refused(over({"--width", "wide"}), 2, "wide");
  refused(over({"--width", "fixed:nan"}), 2, "fixed:nan");
  refused(over({"--width", "fixed:0"}), 2, "fixed:0");
  refused(over({"--width", "fixed:3.9"}), 2, "a whole number N from 1 to 1024, got fixed:3.9");
  refused(over({"--width", "blockpilot"}), 2, "blockpilot:FILE");
  refused(over({"--law", "murphy"}), 2, "--visibility");
  refused(over({"--visibility", "murphy"}), 2, "--visibility");
  refused(over({"--temperature", "nan"}), 2, "temperature");
  refused(over({"--section-temperature", "nowhere=warm"}), 2, "nowhere=warm");
  refused(over({"--section-temperature", "nowhere=0.5"}), 3, "nowhere");
  refused(over({"--section-temperature", "answer=0.5", "--section-temperature", "answer=0"}), 2, "answer twice");
}

TEST_F(Decoders, RefusesCombinationsThatMakeNoSense) {
  refused(over({"--schedule", "sections", "--verifier", "exact"}), 4, "schedule sections");
  refused(over({"--schedule", "sections", "--drafter", "none", "--verifier", "confidence:0.9"}), 4, "drafter diffusion");
  refused(over({"--schedule", "chain", "--verifier", "confidence:0.9"}), 4,
          "expected drafter diffusion and schedule sections, or text, got diffusion and chain");
  refused(over({"--drafter", "none", "--verifier", "rejection"}), 4, "expected a drafter, got none");
  refused(over({"--drafter", "diffusion", "--verifier", "ensemble:0.5"}), 4, "expected drafter quadratic");
  refused(over({"--schedule", "fields", "--width", "blocks"}), 4, "width blocks");
  refused(over({"--decoder", "ar", "--width", "fixed:8"}), 4, "width fixed:8: expected a drafter, got none");
  refused(over({"--decoder", "section-diffusion", "--width", "fixed:4"}), 4, "expected width blocks");
  refused(over({"--decoder", "fields"}), 4, "graph visibility");
  refused(over({"--decoder", "fields-spec"}), 4, "--visibility graph");
  refused(over({"--decoder", "section-diffusion", "--law", "graph"}), 4, "chain visibility");
  refused(over({"--decoder", "scaffold-spec", "--drafter", "diffusion:lora"}), 4, "draft adapter");
  refused(request({"--form", "none", "--decoder", "scaffold-spec"}), 2, "expected a form for scaffold-spec, got none");
}

TEST_F(Decoders, RefusesOptionsThatCouldNotAct) {
  refused(over({"--max-rows", "4"}), 2, "--max-rows: expected graph visibility, got chain visibility");
  refused(over({"--no-activation"}), 2, "--no-activation: expected graph visibility, got chain visibility");
  refused(over({"--no-activation", "--law", "chain"}), 2, "got chain visibility");
  refused(request({"--form", "none", "--max-rows", "4"}), 2, "--max-rows: expected a form");
  refused(over({"--max-tokens", "9"}), 2, "--max-tokens: expected free text");
  refused(over({"--unnorm-key", "x"}), 2, "--unnorm-key: expected a model of actions");
  refused(over({"--rollouts", "4"}), 2, "--rollouts: expected a temperature above 0");
  refused(over({"--rollouts", "4", "--section-temperature", "light=0"}), 2, "--rollouts: expected a temperature above 0");
  refused({"bench", "decoders", "--model", small_, "--prompt", "go on", "--rollouts", "2"}, 2, "--rollouts");
}

// ---- the driving model

TEST_F(Demo, EvalNamesTheDecoderBesideItsNumbers) {
  const Ran ran = run({"eval", "--model", model_, "--count", "1", "--decoder", "section-diffusion", "--out", path("lines.jsonl")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("decoder section-diffusion (sections x diffusion x confidence:0.9, width blocks) (lossy)\n"))
      << ran.out;
  const auto line = parse_json(read_bytes(path("lines.jsonl")), "lines.jsonl");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->at("decoder").at("preset"), "section-diffusion");
  EXPECT_TRUE(line->at("decoder").at("lossy").as_bool());
}

TEST_F(Demo, DraftersOfEveryKindGiveTheTokensOfScaffoldAr) {
  const std::string record = simulate(1) + ":0";
  const json::value slow = run_json(ask({"--record", record, "--decoder", "scaffold-ar"}));
  const std::string previous = write("previous.json", json::serialize(slow));
  std::map<std::string, int64_t> forwards;
  const auto with = [&](const std::string& name, const Words& more) {
    SCOPED_TRACE(name);
    const json::value v = run_json(joined(ask({"--record", record}), more));
    expect_driving_answer(v);
    EXPECT_EQ(v.at("tokens"), slow.at("tokens"));
    forwards[name] = v.at("statistics").at("forwards").as_int64();
  };
  with("linear", {"--decoder", "self-spec"});
  with("quadratic", {"--decoder", "self-spec-quadratic"});
  with("lookup", {"--decoder", "self-spec", "--drafter", "lookup"});
  with("previous", {"--decoder", "scaffold-spec", "--drafter", "previous:" + previous});
  const int64_t most = slow.at("statistics").at("forwards").as_int64();
  for (const auto& [name, n] : forwards) EXPECT_LT(n, most) << name;
  EXPECT_LT(10 * forwards["previous"], most) << "its own answer again";
  refused(ask({"--record", record, "--form", "drive-cot", "--decoder", "scaffold-spec", "--drafter", "previous:" + previous}), 3,
          "drive-cot");
  refused(ask({"--record", record, "--decoder", "dflash", "--drafter", "dflash:" + fixture("models/qwen3_dflash")}), 3,
          "a draft head for another target");
  refused(ask({"--record", record, "--decoder", "fields-spec"}), 4, "graph visibility");
}

}  // namespace
}  // namespace slip::test
