// SPDX-License-Identifier: Apache-2.0
// `run` through the binary over a small fixture: answers, and requests, records and folders that are refused.
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

TEST_F(Small, ExactPresetsOverAFormGiveTheSameTokens) {
  for (const char* temperature : {"0", "0.7", "1.5"}) {
    const json::value slow = run_json(over_form({"--decoder", "scaffold-ar", "--temperature", temperature, "--seed", "5"}));
    const json::value fast = run_json(over_form({"--decoder", "scaffold-spec", "--temperature", temperature, "--seed", "5"}));
    expect_result_keys(slow, true);
    expect_result_keys(fast, true);
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
    expect_result_keys(slow, false);
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

TEST_F(Small, RolloutsOfFreeTextAreAllTold) {
  const auto asked = request({"--form", "none", "--rollouts", "3", "--temperature", "1", "--max-tokens", "12"});
  const json::value answer = run_json(asked);
  const json::array& answers = answer.at("answers").as_array();
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0], answer.at("answer"));
  EXPECT_NE(answers[0], answers[1]);
  const Ran words = run(asked);
  EXPECT_NE(words.out.find("answer 3 of 3:\n" + std::string(answers[2].as_string())), std::string::npos) << words.out;
}

// Without --slots there is room for them all, over a form and in free text.
TEST_F(Small, ManyRolloutsFindRoom) {
  const std::string form = write("long.json", R"({"type": "object", "properties": {"lead": {"type": "string", "x-budget": 80}}})");
  const json::value filled = run_json(request({"--form", form, "--rollouts", "64", "--temperature", "1"}));
  EXPECT_TRUE(filled.at("valid").as_bool());
  const json::value text =
      run_json(request({"--form", "none", "--decoder", "ar", "--max-tokens", "80", "--rollouts", "64", "--temperature", "1"}));
  EXPECT_GT(text.at("tokens").as_array().size(), 0u);
}

// With them, the question, the decoder and the seed the answer can be had again.
TEST_F(Small, AnAnswerTellsItsSettings) {
  const json::value v =
      run_json(over_form({"--temperature", "0.7", "--top-k", "5", "--top-p", "0.9", "--min-p", "0.01", "--repetition-penalty",
                          "1.2", "--repetition-last", "8", "--rollouts", "3", "--dtype", "bf16", "--kv", "f32"}));
  EXPECT_EQ(v.at("temperature").to_number<double>(), 0.7);
  EXPECT_EQ(v.at("top_k").as_int64(), 5);
  EXPECT_EQ(v.at("top_p").to_number<double>(), 0.9);
  EXPECT_EQ(v.at("min_p").to_number<double>(), 0.01);
  EXPECT_EQ(v.at("repetition_penalty").to_number<double>(), 1.2);
  EXPECT_EQ(v.at("repetition_last").as_int64(), 8);
  EXPECT_EQ(v.at("rollouts").as_int64(), 3);
  EXPECT_EQ(v.at("dtype"), "bf16");
  EXPECT_EQ(v.at("kv"), "f32");
  EXPECT_EQ(v.at("law"), "chain");
  EXPECT_FALSE(v.as_object().contains("max_tokens"));
  const json::value text = run_json(request({"--form", "none", "--decoder", "ar", "--max-tokens", "4"}));
  EXPECT_EQ(text.at("max_tokens").as_int64(), 4);
  EXPECT_EQ(text.at("dtype"), "f32");
  EXPECT_EQ(text.at("kv"), "f32");
  EXPECT_FALSE(text.as_object().contains("law"));
}

// What a tokenizer's own template puts around a text stands around a prompt where no chat template spells it.
TEST_F(Small, APromptWithoutATemplateBeginsAsTheTokenizerSays) {
  const std::string folder = copy_fixture("decode/models/small", "begins");
  const std::string file = folder + "/tokenizer.json";
  json::value v = *parse_json(read_bytes(file), file);
  v.as_object()["post_processor"] = *parse_json(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}})",
                                                "post_processor");
  write_bytes(file, json::serialize(v));
  const auto ask = [&](const std::string& model, const std::string& prompt) {
    return run_json({"run", "--model", model, "--form", "none", "--decoder", "ar", "--max-tokens", "8", "--prompt", prompt});
  };
  const json::value begun = ask(folder, "go on"), spelled = ask(fixture("decode/models/small"), "<|endoftext|>go on");
  EXPECT_EQ(begun.at("tokens"), spelled.at("tokens"));
  EXPECT_EQ(begun.at("statistics").at("rows"), spelled.at("statistics").at("rows"));
  EXPECT_EQ(begun.at("tokens"), ask(folder, "<|endoftext|>go on").at("tokens"));
  const json::value plain = ask(fixture("decode/models/small"), "go on");
  ASSERT_EQ(begun.at("tokens").as_array().size(), plain.at("tokens").as_array().size());
  EXPECT_EQ(begun.at("statistics").at("rows").as_int64(), plain.at("statistics").at("rows").as_int64() + 1);
}

// The head has 944 rows, the tokenizer 929 ids, and 927 is the mask: at this temperature one draw in 60 would be one of them.
TEST_F(Small, FreeTextDrawsNeitherIdsWithoutATextNorTheMask) {
  const std::string model = (fs::path(demo_model()).parent_path() / "demo-cot").string();
  size_t drawn = 0;
  for (const char* seed : {"1", "2", "3"}) {
    const json::value v = run_json({"run", "--model", model, "--form", "none", "--prompt", "x", "--decoder", "self-spec",
                                    "--temperature", "100", "--max-tokens", "300", "--seed", seed});
    for (const json::value& t : v.at("tokens").as_array()) {
      EXPECT_LT(t.as_int64(), 929);
      EXPECT_NE(t.as_int64(), 927);
      ++drawn;
    }
  }
  EXPECT_GT(drawn, 150u);
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
  refused({"run", "--model", model, "--form", "none", "--decoder", "ar", "--prompt", "a\xFF"}, 3, "--prompt: expected valid UTF-8");
}

TEST_F(Small, RefusesFormsThatCannotBeMet) {
  refused(request({"--form", "nope"}), 3, "nope");
  refused(request({"--form", path("none.json")}), 3, "none.json");
  refused(request({"--form", write("broken.json", "{\"type\": ")}), 3, "broken.json");
  refused(request({"--form", write("list.json", "[1, 2]")}), 3, "list.json");
  refused(request({"--form", write("banana.json", R"({"type": "banana"})")}), 3, "banana");
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

}  // namespace
}  // namespace slip::test
