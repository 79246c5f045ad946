// SPDX-License-Identifier: Apache-2.0
// `run`, `eval`, `verify` and `bench` through the binary. The tests named Small need nothing but a fixture of 28 kB and a form of
// its alphabet; those named Demo ask the trained driving model and are skipped where it is absent.
#include <algorithm>
#include <csignal>
#include <map>
#include <thread>

#include "cli_process.h"
#include "sim/record.h"

namespace slip::test {
namespace {

constexpr const char* kSmallForm = R"({"type": "object", "properties": {
  "light": {"enum": ["red", "green"]},
  "lead": {"enum": ["car", "van", "bus"]},
  "speed": {"type": "string", "x-content": {"type": "number", "x-format": "+00.0"}}}})";

void expect_contract_keys(const json::value& v, bool with_form) {
  ASSERT_EQ(missing_keys(v, {"answer", "fields", "tokens", "decoder", "statistics", "model", "seed"}), "");
  ASSERT_EQ(missing_keys(v.at("decoder"), {"preset", "schedule", "drafter", "verifier", "width", "lossy"}), "");
  EXPECT_TRUE(v.at("decoder").at("lossy").is_bool());
  const json::value& s = v.at("statistics");
  ASSERT_EQ(missing_keys(s, {"forwards", "draft_forwards", "rows", "tokens", "forced_tokens", "proposed", "tested", "accepted",
                             "critical_path", "ms"}),
            "");
  ASSERT_EQ(missing_keys(s.at("ms"), {"encode", "prefill", "draft", "verify", "total"}), "");
  EXPECT_EQ(s.at("tokens").to_number<size_t>(), v.at("tokens").as_array().size());
  EXPECT_LE(s.at("accepted").as_int64(), s.at("tested").as_int64());
  EXPECT_LE(s.at("tested").as_int64(), s.at("proposed").as_int64());
  EXPECT_LE(s.at("draft_forwards").as_int64(), s.at("forwards").as_int64());
  double parts = 0;
  for (const char* part : {"encode", "prefill", "draft", "verify"}) parts += s.at("ms").at(part).to_number<double>();
  EXPECT_GT(s.at("ms").at("total").to_number<double>(), 0);
  EXPECT_LE(parts, s.at("ms").at("total").to_number<double>() * 1.001);
  if (!with_form) return;
  ASSERT_EQ(missing_keys(v, {"trajectory"}), "");
  ASSERT_EQ(missing_keys(v.at("trajectory"), {"waypoints", "rate_hz", "spread_m"}), "");
}

bool one_of(const json::value& v, std::initializer_list<std::string_view> words) {
  return v.is_string() && std::find(words.begin(), words.end(), std::string_view(v.get_string())) != words.end();
}

// "[[ +014.70, -000.04], ...]" with five points.
void expect_points(std::string_view text) {
  std::string shape;
  for (const char c : text) shape += c >= '0' && c <= '9' ? '0' : c == '-' ? '+' : c;
  const std::string point = "[ +000.00, +000.00]";
  EXPECT_EQ(shape, "[" + point + ", " + point + ", " + point + ", " + point + ", " + point + "]");
}

// The answer is the form wod-e2e filled in: a JSON document with its keys, words and number format.
void expect_driving_answer(const json::value& v) {
  expect_contract_keys(v, true);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(v.at("fields").as_object().size(), 25u);
  const std::string text(v.at("answer").as_string());
  const auto answer = parse_json(text, "answer");
  ASSERT_TRUE(answer) << text;
  ASSERT_EQ(missing_keys(*answer, {"critical_objects", "explanation", "future_meta_behavior", "trajectory"}), "");
  const json::object& objects = answer->at("critical_objects").as_object();
  ASSERT_EQ(objects.size(), sim::kObjectClasses.size());
  size_t at = 0;
  for (const auto& [key, value] : objects) {
    EXPECT_EQ(std::string_view(key), sim::kObjectClasses[at++]);
    EXPECT_TRUE(one_of(value, {"yes", "no"})) << json::serialize(value);
  }
  const json::value& behaviour = answer->at("future_meta_behavior");
  EXPECT_TRUE(one_of(behaviour.at("longitudinal"), {"keep speed", "speed up", "slow down", "come to stop"})) << text;
  EXPECT_TRUE(
      one_of(behaviour.at("lateral"), {"go straight", "lane follow", "turn left", "turn right", "change left", "change right"}))
      << text;
  expect_points(answer->at("trajectory").as_string());
  const json::value& trajectory = v.at("trajectory");
  EXPECT_EQ(trajectory.at("waypoints").as_array().size(), 5u);
  EXPECT_EQ(trajectory.at("rate_hz").to_number<int>(), 1);
  ASSERT_EQ(missing_keys(trajectory.at("fit"), {"rate_hz", "points"}), "");
  EXPECT_EQ(trajectory.at("fit").at("rate_hz").to_number<int>(), 4);
  EXPECT_EQ(trajectory.at("fit").at("points").as_array().size(), 20u);
}

class Small : public Cli {
 protected:
  std::vector<std::string> request(std::initializer_list<std::string> more,
                                   const std::string& model = fixture("decode/models/small")) {
    std::vector<std::string> out{"run", "--model", model, "--prompt", "go on"};
    out.insert(out.end(), more);
    return out;
  }
  std::vector<std::string> over_form(std::initializer_list<std::string> more) {
    std::vector<std::string> out = request({"--form", write("form.json", kSmallForm)});
    out.insert(out.end(), more);
    return out;
  }
};

TEST_F(Small, ExactPresetsOverAFormGiveTheSameTokens) {
  for (const char* temperature : {"0", "0.7", "1.5"}) {
    const json::value slow = run_json(over_form({"--decoder", "scaffold-ar", "--temperature", temperature, "--seed", "5"}));
    const json::value fast = run_json(over_form({"--decoder", "scaffold-spec", "--temperature", temperature, "--seed", "5"}));
    expect_contract_keys(slow, true);
    expect_contract_keys(fast, true);
    EXPECT_EQ(slow.at("tokens"), fast.at("tokens")) << temperature;
    EXPECT_EQ(slow.at("answer"), fast.at("answer"));
    EXPECT_EQ(slow.at("fields"), fast.at("fields"));
    EXPECT_EQ(fast.at("seed").as_int64(), 5);
    EXPECT_EQ(fast.at("decoder").at("preset"), "scaffold-spec");
    const json::value& fields = fast.at("fields");
    EXPECT_TRUE(one_of(fields.at("light"), {"red", "green"})) << json::serialize(fields);
    EXPECT_TRUE(one_of(fields.at("lead"), {"car", "van", "bus"}));
    EXPECT_TRUE(fields.at("speed").is_number());
  }
}

TEST_F(Small, FreeTextIsTheSameWithAndWithoutDrafts) {
  for (const char* temperature : {"0", "0.9"}) {
    const auto ask = [&](const char* preset) {
      return run_json(
          request({"--form", "none", "--decoder", preset, "--max-tokens", "24", "--temperature", temperature, "--seed", "3"}));
    };
    const json::value slow = ask("ar"), fast = ask("self-spec");
    expect_contract_keys(slow, false);
    EXPECT_EQ(slow.at("tokens"), fast.at("tokens")) << temperature;
    EXPECT_GT(slow.at("tokens").as_array().size(), 0u);
  }
}

TEST_F(Small, OverAFormArCostsAPassPerTokenAndGivesTheSameTokens) {
  const json::value ar = run_json(over_form({"--decoder", "ar"})), scaffold = run_json(over_form({"--decoder", "scaffold-ar"}));
  EXPECT_TRUE(ar.at("valid").as_bool());
  EXPECT_EQ(ar.at("tokens"), scaffold.at("tokens"));
  EXPECT_GT(ar.at("statistics").at("forwards").as_int64(), scaffold.at("statistics").at("forwards").as_int64());
}

TEST_F(Small, TheAnswerAloneIsOnStdoutAndStatisticsOnStderr) {
  const Ran words = run(over_form({}));
  EXPECT_EQ(words.code, 0) << words.err;
  EXPECT_EQ(words.out, std::string(run_json(over_form({})).at("answer").as_string()) + "\n");
  EXPECT_NE(words.err.find("forward passes"), std::string::npos) << words.err;
  const Ran json = run(over_form({"--json"}));
  EXPECT_EQ(json.err, "");
}

TEST_F(Small, ThePromptMayComeFromAFile) {
  const auto with = [&](const std::string& flag, const std::string& value) {
    return run_json(
        {"run", "--model", fixture("decode/models/small"), "--form", "none", "--decoder", "ar", "--max-tokens", "8", flag, value});
  };
  EXPECT_EQ(with("--prompt", "abc").at("tokens"), with("--prompt-file", write("prompt.txt", "abc")).at("tokens"));
}

TEST_F(Small, RefusesAPromptThatIsNone) {
  const std::string model = fixture("decode/models/small");
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt", ""}, 3, "--prompt");
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt-file", write("empty.txt", "")}, 3, "empty.txt");
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt-file", write("bytes.txt", "a\xFF")}, 3,
          "bytes.txt");
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt-file", path("none.txt")}, 3, "none.txt");
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt", "a\xFF"}, 3, "UTF-8");
}

TEST_F(Small, RefusesDecodersThatAreNot) {
  refused(over_form({"--decoder", "warp-drive"}), 2, "warp-drive");
  refused(request({"--form", "none"}), 2, "scaffold-spec");
  refused(over_form({"--schedule", "spiral"}), 4, "spiral");
  refused(over_form({"--drafter", "oracle"}), 4, "oracle");
  refused(over_form({"--verifier", "hope"}), 4, "hope");
  refused(over_form({"--verifier", "confidence:much"}), 2, "confidence:much");
  refused(over_form({"--width", "fixed:nan"}), 4, "fixed:nan");
  refused(over_form({"--section-temperature", "nowhere=0.5"}), 3, "nowhere");
  refused(over_form({"--section-temperature", "nowhere=warm"}), 2, "nowhere=warm");
  refused(over_form({"--temperature", "nan"}), 2, "temperature");
}

TEST_F(Small, RefusesFormsThatCannotBeMet) {
  refused(request({"--form", "nope"}), 3, "nope");
  refused(request({"--form", path("none.json")}), 3, "none.json");
  refused(request({"--form", write("broken.json", "{\"type\": ")}), 3, "broken.json");
  refused(request({"--form", write("list.json", "[1, 2]")}), 3, "list.json");
  refused(request({"--form", write("banana.json", R"({"type": "banana"})")}), 4, "banana");
  // The tokenizer spells "keep speed" in ten tokens; the field has three.
  refused(request({"--form", "wod-e2e"}), 3, "keep speed");
  // It has no letter Q at all.
  refused(request({"--form", write("q.json", R"({"type": "object", "properties": {"a": {"enum": ["Q", "R"]}}})")}), 3, "q.json");
}

TEST_F(Small, RefusesModelFoldersThatAreBroken) {
  const std::string source = "decode/models/small";
  const auto ask = [&](const std::string& model) {
    return request({"--form", "none", "--decoder", "ar", "--max-tokens", "4"}, model);
  };
  refused(ask(path("nowhere")), 3, "nowhere");

  const std::string cut = copy_fixture(source, "cut"), weights = read_bytes(cut + "/model.safetensors");
  write_bytes(cut + "/model.safetensors", weights.substr(0, weights.size() * 2 / 3));
  refused(ask(cut), 3, "model.safetensors");
  write_bytes(cut + "/model.safetensors", weights.substr(0, 5));
  refused(ask(cut), 3, "model.safetensors");
  write_bytes(cut + "/model.safetensors", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F" + weights.substr(8));
  refused(ask(cut), 3, "model.safetensors");
  fs::remove(cut + "/model.safetensors");
  refused(ask(cut), 3, "model.safetensors");

  const std::string renamed = copy_fixture(source, "renamed");
  std::string bytes = weights;
  const size_t at = bytes.find("model.layers.0.mlp.up_proj.weight");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'M';
  write_bytes(renamed + "/model.safetensors", bytes);
  refused(ask(renamed), 3, "model.layers.0.mlp.up_proj.weight");

  const std::string config = copy_fixture(source, "config"), good = read_bytes(config + "/config.json");
  const auto with_config = [&](const std::string& text) {
    write_bytes(config + "/config.json", text);
    return ask(config);
  };
  const auto with_value = [&](const std::string& key, const std::string& value) {
    json::value v = *parse_json(good, "config");
    v.as_object()[key] = *parse_json(value, "value");
    return with_config(json::serialize(v));
  };
  refused(with_config("{\"model_type\": "), 3, "config.json");
  refused(with_config("[]"), 3, "config.json");
  refused(with_config("{}"), 3, "config.json");
  refused(with_value("architectures", R"(["WarpDrive"])"), 4, "WarpDrive");
  refused(with_value("hidden_size", "48"), 3, "[64, 24]");
  refused(with_value("hidden_size", "-24"), 3, "hidden_size");
  refused(with_value("num_hidden_layers", "99"), 3, "model.layers.1.");
  refused(with_value("num_attention_heads", "\"three\""), 3, "num_attention_heads");
  refused(with_value("slipstream", "7"), 3, "slipstream");
  fs::remove(config + "/config.json");
  refused(ask(config), 3, "config.json");

  const std::string mute = copy_fixture(source, "mute");
  fs::remove(mute + "/tokenizer.json");
  refused(ask(mute), 3, "mute");
  write_bytes(mute + "/tokenizer.json", "{\"model\": 3}");
  EXPECT_NE(run(ask(mute)).code, 0);
}

// ---- images: refused before a model is loaded

TEST_F(Small, RefusesImagesThatAreNone) {
  const std::string jpeg = read_bytes(fixture("images/files/progressive.jpg"));
  const auto ask = [&](const std::string& image) { return request({"--form", "none", "--decoder", "ar", "--image", image}); };
  refused(ask(write("note.jpg", "hello\n")), 3, "note.jpg");
  refused(ask(write("empty.png", "")), 3, "empty.png");
  refused(ask(write("cut.jpg", jpeg.substr(0, jpeg.size() / 2))), 3, "cut.jpg");
  refused(ask(write("head.png", read_bytes(fixture("images/files/gradient.png")).substr(0, 60))), 3, "head.png");
  refused(ask(write_ppm("one.ppm", 1, 1)), 3, "one.ppm");
  refused(ask(write_ppm("wide.ppm", 20000, 10)), 3, "wide.ppm");
  refused(ask(write_ppm("wider.ppm", 20000, 200)), 3, "at most 16384 pixels a side");
  refused(ask(write_ppm("thin.ppm", 16000, 70)), 3, "aspect");
  refused(ask(path("none.png")), 3, "none.png");
  refused(ask(fixture("images/files")), 3, "folder");
  refused(ask(fixture("images/files/gradient.png")), 4, "vision");
}

TEST_F(Small, RefusesHistoriesThatAreNone) {
  const auto ask = [&](const std::string& ego) {
    return std::vector<std::string>{"run", "--model", fixture("decode/models/small"), "--ego", ego};
  };
  refused(ask(path("none.json")), 3, "none.json");
  refused(ask(write("text.json", "hello")), 3, "text.json");
  refused(ask(write("intent.json", R"({"intent": "GO_UP", "history": []})")), 3, "GO_UP");
  refused(ask(write("short.json", R"({"intent": "GO_LEFT", "history": [[0, 0, 0, 0, 0, 0, 0]]})")), 3, "history");
  refused(ask(write("list.json", "[]")), 3, "list.json");
  std::string states;
  for (int i = 0; i < 16; ++i)
    states += std::string(i ? ", " : "") + (i == 9 ? "[0, 0, 0, \"fast\", 0, 0, 0]" : "[0, 0, 0, 0, 0, 0, 0]");
  refused(ask(write("word.json", "{\"intent\": \"GO_LEFT\", \"history\": [" + states + "]}")), 3, "history[9][3]");
}

TEST_F(Small, RefusesRecordsThatAreNone) {
  ASSERT_EQ(run({"simulate", "--seed", "3", "--count", "2", "--out", path("set")}).code, 0);
  const auto ask = [&](const std::string& record) {
    return std::vector<std::string>{"run", "--model", fixture("decode/models/small"), "--record", record};
  };
  refused(ask(path("set") + ":2"), 3, "from 0 to 1");
  refused(ask(path("set") + ":-1"), 3, "-1");
  refused(ask(path("set") + ":99999999999999999999"), 2, "99999999999999999999");
  refused(ask(path("set") + ":one"), 2, "one");
  refused(ask(path("set") + ":"), 2, "--record");
  refused(ask("no_colon"), 2, "no_colon");
  refused(ask(path("nowhere") + ":0"), 3, "nowhere");
  const std::string shard = read_bytes(path("set/shard-00000.slip"));
  refused(ask(write("cut.slip", shard.substr(0, shard.size() / 2)) + ":0"), 3, "cut.slip");
  std::string flipped = shard;
  flipped[100] = static_cast<char>(flipped[100] ^ 1);
  refused(ask(write("flipped.slip", flipped) + ":0"), 3, "checksum");
  refused(ask(write("other.slip", "hello, I am not a shard, but long enough to hold a header of 64 bytes") + ":0"), 3,
          "other.slip");
  write_bytes(path("set/index.json"), "{\"shards\": 7}");
  refused(ask(path("set") + ":0"), 3, "index.json");
}

// ---- verify, bench

// The JSON documents of a command that prints one per line.
std::vector<json::value> lines_of(const Ran& ran) {
  std::vector<json::value> out;
  size_t at = 0;
  for (size_t end = ran.out.find('\n'); end != std::string::npos; at = end + 1, end = ran.out.find('\n', at)) {
    auto v = parse_json(std::string_view(ran.out).substr(at, end - at), "stdout");
    EXPECT_TRUE(v) << ran.out.substr(at, end - at);
    if (v) out.push_back(*v);
  }
  EXPECT_EQ(at, ran.out.size()) << "the last line has no end";
  return out;
}

TEST_F(Small, VerifyProvesEqualBytesAndHoldsGoldenValues) {
  const std::string model = copy_fixture("decode/models/small", "model");
  const json::value v = run_json({"verify", "--model", model, "--max-width", "9"});
  ASSERT_EQ(missing_keys(v, {"model", "isa", "type", "hash", "checks", "passed"}), "");
  EXPECT_TRUE(v.at("passed").as_bool());
  std::map<std::string, int64_t> bytes;
  for (const json::value& c : v.at("checks").as_array()) {
    ASSERT_EQ(missing_keys(c, {"check", "compared", "bytes", "passed"}), "");
    EXPECT_TRUE(c.at("passed").as_bool()) << json::serialize(c);
    bytes[std::string(c.at("check").as_string())] += c.at("bytes").to_number<int64_t>();
  }
  for (const char* check : {"widths", "threads", "layouts", "decoders", "free text"}) EXPECT_GT(bytes[check], 0) << check;

  const std::string isa(v.at("isa").as_string()), hash(v.at("hash").as_string());
  const auto golden = [&](const std::string& value) {
    write_bytes(model + "/golden.json", "{\"" + isa + "\": {\"f32\": \"" + value + "\"}}");
    return run({"verify", "--model", model, "--max-width", "2"});
  };
  const Ran same = golden(hash), other = golden("0123456789abcdef");
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_EQ(other.code, 6) << other.out;
  EXPECT_TRUE(other.err.starts_with("slipstream: verify: golden: ")) << other.err;
  EXPECT_NE(other.err.find("expected 0x0123456789abcdef, got 0x" + hash), std::string::npos) << other.err;
  refused({"verify", "--model", path("nowhere")}, 3, "nowhere");
}

TEST_F(Small, VerifyProvesAModelWithATower) {
  const json::value v = run_json({"verify", "--model", fixture("models/qwen2_5_vl"), "--max-width", "5"});
  EXPECT_TRUE(v.at("passed").as_bool());
  for (const json::value& c : v.at("checks").as_array()) {
    if (c.at("check").as_string() == "images") {
      EXPECT_GT(c.at("bytes").to_number<int64_t>(), 0);
    }
  }
}

TEST_F(Small, BenchForwardPutsEveryWidthBesideItsCeiling) {
  const Ran ran =
      run({"bench", "forward", "--model", fixture("models/qwen2"), "--widths", "1", "8", "64", "--seconds", "0.02", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::vector<json::value> lines = lines_of(ran);
  ASSERT_EQ(lines.size(), 3u);
  const int widths[] = {1, 8, 64};
  for (size_t i = 0; i < 3; ++i) {
    const json::value& v = lines[i];
    ASSERT_EQ(missing_keys(v, {"rows", "type", "ms", "read_gbps", "dot_gops", "ceiling_ms", "share", "bound", "fork_join_ns"}), "");
    EXPECT_EQ(v.at("rows").as_int64(), widths[i]);
    EXPECT_EQ(v.at("type").as_string(), "bf16");
    for (const char* key : {"ms", "read_gbps", "dot_gops", "ceiling_ms"}) EXPECT_GT(v.at(key).to_number<double>(), 0) << key;
    EXPECT_NEAR(v.at("share").to_number<double>(), v.at("ceiling_ms").to_number<double>() / v.at("ms").to_number<double>(), 1e-9);
    EXPECT_TRUE(one_of(v.at("bound"), {"memory", "compute"}));
  }
  EXPECT_EQ(
      run({"bench", "forward", "--model", fixture("models/qwen2"), "--widths", "4", "--seconds", "0.02", "--dtype", "int8"}).code,
      0);
  refused({"bench", "forward", "--model", path("nowhere")}, 3, "nowhere");
}

void expect_bench_line(const json::value& v) {
  ASSERT_EQ(missing_keys(v, {"decoder", "statistics", "equal"}), "");
  ASSERT_EQ(missing_keys(v.at("decoder"), {"preset", "schedule", "drafter", "verifier", "width", "lossy"}), "");
  const bool lossy = v.at("decoder").at("lossy").as_bool();
  EXPECT_TRUE(lossy ? one_of(v.at("equal"), {"lossy"}) : v.at("equal").is_bool() && v.at("equal").as_bool()) << json::serialize(v);
}

TEST_F(Small, BenchDecodersSaysWhichGaveEqualTokens) {
  const std::vector<std::string> request{"bench",     "decoders", "--model", fixture("decode/models/small"), "--prompt", "go on",
                                         "--repeats", "1",        "--json"};
  std::vector<std::string> text = request, form = request;
  text.insert(text.end(), {"--form", "none", "--max-tokens", "12"});
  form.insert(form.end(), {"--form", write("form.json", kSmallForm)});
  std::string presets;
  const Ran over_text = run(text), filled = run(form);
  EXPECT_EQ(over_text.code, 0) << over_text.err;
  EXPECT_EQ(filled.code, 0) << filled.err;
  for (const json::value& v : lines_of(over_text)) {
    expect_bench_line(v);
    presets += std::string(v.at("decoder").at("preset").as_string()) + " ";
  }
  EXPECT_EQ(presets, "ar self-spec ");
  std::map<std::string, int64_t> forwards;
  for (const json::value& v : lines_of(filled)) {
    expect_bench_line(v);
    forwards[std::string(v.at("decoder").at("preset").as_string())] = v.at("statistics").at("forwards").as_int64();
  }
  ASSERT_TRUE(forwards.contains("ar") && forwards.contains("scaffold-ar") && forwards.contains("scaffold-spec"));
  // A preset costs here what it costs in `run`.
  EXPECT_EQ(forwards["scaffold-ar"], run_json(over_form({"--decoder", "scaffold-ar"})).at("statistics").at("forwards").as_int64());
  EXPECT_EQ(forwards["scaffold-spec"],
            run_json(over_form({"--decoder", "scaffold-spec"})).at("statistics").at("forwards").as_int64());
  EXPECT_GT(forwards["ar"], forwards["scaffold-ar"]);
}

// ---- the driving model

class Demo : public Cli {
 protected:
  void SetUp() override {
    model_ = demo_model();
    ASSERT_TRUE(fs::exists(fs::path(model_) / "model.safetensors")) << "the tree ships " << model_;
  }
  std::string simulate(int count) {
    EXPECT_EQ(run({"simulate", "--seed", "910000001", "--count", std::to_string(count), "--out", path("set")}).code, 0);
    return path("set");
  }
  std::vector<std::string> ask(std::initializer_list<std::string> more) const {
    std::vector<std::string> out{"run", "--model", model_};
    out.insert(out.end(), more);
    return out;
  }
  std::string model_;
};

TEST_F(Demo, EveryPresetAnswersARecordAndExactOnesAgree) {
  const std::string record = simulate(3) + ":1";
  std::map<std::string, json::value> answers;
  for (const char* preset : {"scaffold-ar", "scaffold-spec", "section-diffusion", "ar"}) {
    SCOPED_TRACE(preset);
    answers[preset] = run_json(ask({"--record", record, "--decoder", preset, "--max-tokens", "512"}));
    ASSERT_EQ(missing_keys(answers[preset], {"answer", "tokens", "decoder", "statistics", "valid", "model", "seed"}), "");
    EXPECT_EQ(answers[preset].at("decoder").at("preset"), preset);
    EXPECT_EQ(answers[preset].at("decoder").at("lossy").as_bool(), std::string_view(preset) == "section-diffusion");
    EXPECT_EQ(answers[preset].at("model").as_string(), std::string_view(model_));
    EXPECT_TRUE(answers[preset].at("valid").as_bool());
    expect_driving_answer(answers[preset]);
  }
  EXPECT_EQ(answers["scaffold-spec"].at("tokens"), answers["scaffold-ar"].at("tokens"));
  EXPECT_EQ(answers["scaffold-spec"].at("answer"), answers["scaffold-ar"].at("answer"));
  EXPECT_EQ(answers["ar"].at("tokens"), answers["scaffold-ar"].at("tokens"));
  EXPECT_EQ(answers["ar"].at("statistics").at("forwards"), answers["ar"].at("statistics").at("tokens"));
  refused(ask({"--record", record, "--decoder", "self-spec"}), 4, "free text");
  EXPECT_LT(answers["scaffold-spec"].at("statistics").at("forwards").as_int64(),
            answers["scaffold-ar"].at("statistics").at("forwards").as_int64());
  EXPECT_GT(answers["scaffold-ar"].at("statistics").at("forced_tokens").as_int64(), 100);
}

TEST_F(Demo, SampledAnswersAgreeAndDependOnTheSeedAlone) {
  const std::string record = simulate(1) + ":0";
  const auto sample = [&](const char* preset, const char* seed, const char* threads) {
    return run_json(ask({"--record", record, "--decoder", preset, "--temperature", "0.8", "--seed", seed, "--threads", threads}))
        .at("tokens");
  };
  const json::value fast = sample("scaffold-spec", "11", "2");
  EXPECT_EQ(fast, sample("scaffold-ar", "11", "2"));
  EXPECT_EQ(fast, sample("scaffold-spec", "11", "1"));
  EXPECT_NE(fast, sample("scaffold-spec", "12", "2"));
}

TEST_F(Demo, AnswersWithTheBuiltInFormAndItsLongerBudget) {
  const json::value v = run_json(ask({"--record", simulate(1) + "/shard-00000.slip:0", "--form", "wod-e2e"}));
  expect_driving_answer(v);
  EXPECT_EQ(v.at("statistics").at("tokens").as_int64(), 391);
}

TEST_F(Demo, RolloutsTraceAndPictureAreWritten) {
  const json::value v = run_json(ask({"--record", simulate(1) + ":0", "--section-temperature", "trajectory=0.9", "--rollouts", "3",
                                      "--trace", path("trace.json"), "--picture", path("picture.png")}));
  expect_driving_answer(v);
  EXPECT_EQ(v.at("trajectory").at("spread_m").as_array().size(), v.at("trajectory").at("fit").at("points").as_array().size());
  const auto trace = parse_json(read_bytes(path("trace.json")), "trace.json");
  ASSERT_TRUE(trace);
  EXPECT_GT(trace->at("traceEvents").as_array().size(), 4u);
  EXPECT_TRUE(read_bytes(path("picture.png")).starts_with("\x89PNG"));
  refused(ask({"--record", path("set") + ":0", "--picture", path("no/where.png")}), 3, "no/where.png");
}

TEST_F(Demo, AnswersOnImagesOfAnySize) {
  for (const std::string& image :
       {write_ppm("wide.ppm", 16000, 200), write_ppm("tall.ppm", 40, 3000), write_ppm("tiny.ppm", 28, 28),
        fixture("images/files/alpha.png"), fixture("images/files/rotated.jpg")}) {
    SCOPED_TRACE(image);
    expect_driving_answer(run_json(ask({"--image", image})));
  }
  expect_driving_answer(run_json(ask(
      {"--prompt", "Left <image> and now?", "--image", fixture("images/files/grey16.png"), fixture("images/files/rotated.jpg")})));
}

TEST_F(Demo, AnswersOnRealPhotographs) {
  const auto folder = shared_data("images");
  if (!folder) GTEST_SKIP() << "no photographs beside the checkout";
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(*folder)) {
    if (entry.path().extension() != ".jpg") continue;
    SCOPED_TRACE(entry.path());
    expect_driving_answer(run_json(ask({"--image", entry.path().string()})));
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// The history is in the tree; its camera frame is not, and an image that is stands in for it where the data is absent.
TEST_F(Demo, AnswersWithARealHistoryAndItsFrame) {
  const std::string frame = shared_data("trajectories/comma2k19/preview.png").value_or(fixture("images/files/rotated.jpg"));
  const std::string ego = (fs::path(SLIP_SOURCE_DIR) / "tests/data/comma2k19_ego.json").string();
  const json::value v = run_json(ask({"--image", frame, "--ego", ego}));
  expect_driving_answer(v);
  expect_driving_answer(run_json(ask({"--image", frame, "--blank-images", "--ego", ego})));
}

TEST_F(Demo, EvalGivesMetricsAndHoldsThemToLimits) {
  const json::value v = run_json({"eval", "--model", model_, "--count", "5", "--out", path("lines.jsonl")});
  ASSERT_EQ(missing_keys(v, {"records", "valid", "macro_f1", "every_class_above_prior", "classes", "longitudinal_accuracy",
                             "lateral_accuracy", "all", "pre_onset", "forwards_per_answer", "tokens_per_answer", "acceptance",
                             "decoder", "model"}),
            "");
  EXPECT_EQ(v.at("records").as_int64(), 5);
  EXPECT_EQ(v.at("valid").to_number<double>(), 1);
  EXPECT_EQ(v.at("classes").as_object().size(), 12u);
  ASSERT_EQ(missing_keys(v.at("all"), {"records", "model", "constant_velocity", "standing", "ade_5s_below_constant_velocity"}), "");
  ASSERT_EQ(missing_keys(v.at("all").at("model"), {"ade_3s", "ade_5s", "fde_5s"}), "");
  const std::string lines = read_bytes(path("lines.jsonl"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);

  const std::string set = simulate(2);
  const std::vector<std::string> eval{"eval", "--model", model_, "--records", set, "--require"};
  const auto with = [&](const std::string& limits) {
    std::vector<std::string> out = eval;
    out.push_back(limits);
    return run(out);
  };
  const Ran fine = with(write("fine.json", R"({"valid": {"min": 1}, "all.model.ade_5s": {"max": 1000}})"));
  EXPECT_EQ(fine.code, 0) << fine.err;
  const Ran missed = with(write("missed.json", R"({"macro_f1": {"min": 1.5}})"));
  EXPECT_EQ(missed.code, 6);
  EXPECT_TRUE(missed.err.starts_with("slipstream: eval: macro_f1: expected at least 1.5, got ")) << missed.err;
  EXPECT_EQ(with(write("unknown.json", R"({"beauty": {"min": 1}})")).code, 3);
  EXPECT_EQ(with(write("broken.json", "{")).code, 3);
  refused({"eval", "--model", model_, "--records", path("nowhere")}, 3, "nowhere");
  refused({"eval", "--model", model_, "--count", "1", "--decoder", "warp-drive"}, 2, "warp-drive");
}

TEST_F(Demo, BenchDecodersComparesAllPresetsOnOneScene) {
  const Ran ran = run({"bench", "decoders", "--model", model_, "--repeats", "1", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::map<std::string, int64_t> forwards;
  for (const json::value& v : lines_of(ran)) {
    expect_bench_line(v);
    forwards[std::string(v.at("decoder").at("preset").as_string())] = v.at("statistics").at("forwards").as_int64();
  }
  ASSERT_EQ(forwards.size(), 4u);
  EXPECT_GT(forwards["ar"], forwards["scaffold-ar"]);
  EXPECT_GT(forwards["scaffold-ar"], forwards["scaffold-spec"]);
}

TEST_F(Demo, AnInterruptedEvaluationLeavesNoFile) {
  using namespace std::chrono_literals;
  const fs::path streams = path("streams"), out = path("out");
  fs::create_directories(streams);
  fs::create_directories(out);
  Process process(streams, {"eval", "--model", model_, "--count", "100000", "--out", (out / "lines.jsonl").string()});
  std::this_thread::sleep_for(500ms);
  const auto start = std::chrono::steady_clock::now();
  process.send(SIGINT);
  const Ran ran = process.wait(20s);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_LT(took, 1s);
  EXPECT_TRUE(fs::is_empty(out));
}

}  // namespace
}  // namespace slip::test
