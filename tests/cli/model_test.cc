// SPDX-License-Identifier: Apache-2.0
// The command line on model folders without a request: inspect, tokenize, detokenize, preprocess, forward, form. Transformers'
// numbers come out of the binary, and the same bytes whatever the passes and the threads.
#include <cmath>
#include <fstream>

#include "core/safetensors.h"
#include "tests/cli/process.h"

namespace slip::test {
namespace {

struct Case {
  const char* model;
  const char* rows;
};

// Largest |d| / (1 + |ref|) between a tensor of two files; the fixtures' tolerance is 2e-5.
double distance(const std::string& file, const std::string& reference, const char* name) {
  const auto got = Checkpoint::open_file(file), ref = Checkpoint::open_file(reference);
  EXPECT_TRUE(got) << got.error().message;
  EXPECT_TRUE(ref) << ref.error().message;
  if (!got || !ref || !got->has(name) || !ref->has(name)) return 1e9;
  EXPECT_EQ(got->find(name)->shape, ref->find(name)->shape);
  EXPECT_EQ(got->find(name)->dtype, ref->find(name)->dtype);
  const std::vector<float> x = read_as_f32(*got->find(name)), y = read_as_f32(*ref->find(name));
  double worst = x.size() == y.size() && !x.empty() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const double d = std::abs(double{x[i]} - y[i]) / (1 + std::abs(double{y[i]}));
    worst = std::isnan(d) ? 1e9 : std::max(worst, d);
  }
  return worst;
}

class Forward : public Cli, public testing::WithParamInterface<Case> {
 protected:
  // The bytes of the file that `forward` writes.
  std::string logits(const std::string& dtype, int split, int threads) {
    const std::string folder = fixture(std::string("models/") + GetParam().model);
    const std::string out = path("logits.safetensors");
    const Ran ran = run({"forward", "--model", folder, "--rows", folder + "/rows_" + GetParam().rows + ".json", "--out", out,
                         "--dtype", dtype, "--split", std::to_string(split), "--threads", std::to_string(threads)});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return read_bytes(out);
  }
};

TEST_P(Forward, WritesTheReferencesLogits) {
  logits("f32", 0, 1);
  const std::string reference =
      fixture(std::string("models/") + GetParam().model + "/expected_" + GetParam().rows + ".safetensors");
  EXPECT_LE(distance(path("logits.safetensors"), reference, "logits_TV"), 2e-5);
}

TEST_P(Forward, WritesTheSameBytesWhateverTheSplitAndTheThreads) {
  for (const char* dtype : {"f32", "bf16", "int8"}) {
    const std::string whole = logits(dtype, 0, 1);
    ASSERT_GT(whole.size(), 1000u);
    for (const auto& [split, threads] : {std::pair{1, 1}, {3, 2}, {7, 1}, {0, 2}})
      EXPECT_TRUE(logits(dtype, split, threads) == whole) << dtype << " --split " << split << " --threads " << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Forward,
                         testing::Values(Case{"qwen2", "block"}, Case{"qwen2", "field_graph"}, Case{"qwen2", "packed"},
                                         Case{"qwen3", "causal"}, Case{"qwen3", "tree"}, Case{"qwen2_5_vl", "causal"},
                                         Case{"qwen2_5_vl", "draft_verify"}, Case{"qwen2_5_vl_flat", "causal"},
                                         Case{"qwen2_5_vl_flat", "forked"}),
                         [](const auto& i) { return std::string(i.param.model) + "_" + i.param.rows; });

TEST_F(Cli, ForwardSaysHowManyRowsAndPasses) {
  const std::string folder = fixture("models/qwen2");
  const json::value v =
      run_json({"forward", "--model", folder, "--rows", folder + "/rows_causal.json", "--out", path("x"), "--split", "7"});
  ASSERT_EQ(missing_keys(v, {"rows", "vocab", "passes", "out"}), "");
  const int64_t rows = v.at("rows").as_int64();
  EXPECT_EQ(v.at("vocab").as_int64(), 300);
  EXPECT_EQ(v.at("passes").as_int64(), (rows + 6) / 7);
}

TEST_F(Cli, ForwardRefusesRowsThatCannotBe) {
  const std::string folder = fixture("models/qwen2"), out = path("never.safetensors");
  const auto rows = [&](const char* text) {
    return std::vector<std::string>{"forward", "--model", folder, "--rows", write("rows.json", text), "--out", out};
  };
  refused(rows(R"({"rows": [{"token": 5000, "position": 0}]})"), 3, "row 0");
  refused(rows(R"({"rows": [{"token": 5, "position": 0, "sees": [[0, 9]]}]})"), 3, "rows.json");
  refused(rows(R"({"rows": [{"token": 5}]})"), 3, "position");
  refused(rows(R"({"rows": []})"), 3, "rows.json");
  refused(rows(R"({"rows": [{"token": 5, "position": 0, "spans": [[0, 1]]}]})"), 3, "row 0: expected the keys");
  refused(rows(R"({"rows": [{"token": 5, "position": 0}], "pictures": []})"), 3, "got pictures");
  refused(rows(R"({"rows": [)"), 3, "rows.json");
  refused(rows(R"({"rows": [{"image": 0, "patch": 0, "position": 0}], "images": ["none.png"]})"), 3, "none.png");
  refused({"forward", "--model", folder, "--rows", folder + "/rows_causal.json", "--out", out, "--dtype", "int3"}, 2, "int3");
  refused({"forward", "--model", folder, "--rows", folder + "/rows_causal.json", "--out", write("file", "x") + "/below/place"}, 3,
          "below");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Cli, ForwardTakesRowsFromStandardInput) {
  const std::string folder = fixture("models/qwen2"), rows = folder + "/rows_causal.json";
  ASSERT_EQ(run({"forward", "--model", folder, "--rows", rows, "--out", path("file")}).code, 0);
  const Ran piped = run({"forward", "--model", folder, "--rows", "-", "--out", path("piped")}, read_bytes(rows));
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_TRUE(read_bytes(path("piped")) == read_bytes(path("file")));
  const Ran broken = run({"forward", "--model", folder, "--rows", "-", "--out", path("broken")}, "{");
  EXPECT_EQ(broken.code, 3);
  EXPECT_TRUE(broken.err.starts_with("slipstream: standard input")) << broken.err;
}

// ---- preprocess

TEST_F(Cli, PreprocessGivesWhatTheReferencesProcessorGives) {
  for (const char* model : {"qwen2_5_vl", "qwen2_5_vl_flat"}) {
    const std::string folder = fixture(std::string("models/") + model), out = path("pixels.safetensors");
    const json::value v =
        run_json({"preprocess", "--model", folder, "--image", folder + "/image_0.png", folder + "/image_1.png", "--out", out});
    ASSERT_EQ(missing_keys(v, {"images", "out"}), "");
    EXPECT_EQ(v.at("images").as_array().size(), 2u);
    EXPECT_LE(distance(out, folder + "/expected_images.safetensors", "pixel_values"), 1e-6) << model;
    EXPECT_EQ(distance(out, folder + "/expected_images.safetensors", "grid_thw"), 0) << model;
  }
}

TEST_F(Cli, PreprocessNamesTheFileThatIsWrong) {
  const std::string folder = fixture("models/qwen2_5_vl"), out = path("never.safetensors");
  refused({"preprocess", "--model", folder, "--image", folder + "/image_0.png", write("note.jpg", "hello\n"), "--out", out}, 3,
          "note.jpg");
  refused({"preprocess", "--model", folder, "--image", write_ppm("thin.ppm", 20000, 10), "--out", out}, 3, "thin.ppm");
  refused({"preprocess", "--model", folder, "--image", path("none.png"), "--out", out}, 3, "none.png");
  refused({"preprocess", "--model", fixture("models/qwen2"), "--image", folder + "/image_0.png", "--out", out}, 3,
          "preprocessor_config.json");
  EXPECT_FALSE(fs::exists(out));
}

// ---- tokenize, detokenize

TEST_F(Cli, TokenizeAndDetokenizeGiveTheTextBack) {
  const std::string model = fixture("text/qwen");
  for (const std::string text :
       {"hello world", " two  spaces\n\nand\tlines ", "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x9A\x97 \xE4\xBD\xA0\xE5\xA5\xBD",
        "{\"trajectory\": \"[[ +014.70, -000.04]]\"}", "I'm 12345"}) {
    const json::value v = run_json({"tokenize", "--model", model, "--text", text});
    ASSERT_EQ(missing_keys(v, {"ids", "pieces", "count"}), "");
    EXPECT_EQ(v.at("ids").as_array().size(), v.at("pieces").as_array().size());
    EXPECT_EQ(v.at("count").to_number<size_t>(), v.at("ids").as_array().size());
    const Ran back = run({"detokenize", "--model", model, "--file", write("ids.json", json::serialize(v.at("ids")))});
    EXPECT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(back.out, text);
    const Ran piped = run({"tokenize", "--model", model, "--file", "-", "--json"}, text);
    EXPECT_EQ(parse_json(piped.out, "stdout")->at("ids"), v.at("ids"));
  }
}

TEST_F(Cli, TokenizeRefusesInvalidUtf8UnlessToldToBeLossy) {
  const std::string model = fixture("text/qwen"), file = write("bytes.txt", "a\xFF b");
  refused({"tokenize", "--model", model, "--file", file}, 3, "bytes.txt");
  const json::value v = run_json({"tokenize", "--model", model, "--file", file, "--lossy"});
  EXPECT_EQ(v.at("ids"), run_json({"tokenize", "--model", model, "--text", "a\xEF\xBF\xBD b"}).at("ids"));
}

TEST_F(Cli, DetokenizeRefusesWhatAreNoIds) {
  const std::string model = fixture("text/qwen");
  refused({"detokenize", "--model", model, "--ids", "1 2 99999999"}, 3, "99999999");
  refused({"detokenize", "--model", model, "--ids", "1 -2"}, 3, "--ids");
  refused({"detokenize", "--model", model, "--ids", "1 two"}, 3, "two");
  const Ran none = run({"detokenize", "--model", model, "--ids", ""}, "1 2");
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(none.out, "") << "standard input is not asked where --ids are given";
  refused({"detokenize", "--model", path("nowhere"), "--ids", "1"}, 3, "nowhere");
}

// ---- inspect

// A tokenizer that is there and cannot be read is not an absent one: whoever needs it says what is wrong with it.
TEST_F(Cli, ADamagedTokenizerIsNamedByWhoeverNeedsIt) {
  const std::string model = path("model");
  fs::copy(SLIP_SOURCE_DIR "/models/tri", model, fs::copy_options::recursive);
  json::value tokenizer = *read_json(model + "/tokenizer.json");
  tokenizer.at("model").at("merges").as_array().emplace_back("zq zq");
  std::ofstream(model + "/tokenizer.json") << json::serialize(tokenizer);
  refused({"run", "--model", model, "--prompt", "hi"}, 3, "expected tokens of the vocabulary");
  refused({"run", "--model", model, "--form", "wod-e2e", "--prompt", "hi"}, 3, "expected tokens of the vocabulary");
  refused({"eval", "--model", model, "--count", "1"}, 3, "expected tokens of the vocabulary");
  tokenizer.at("model").at("type") = "Unigram";
  std::ofstream(model + "/tokenizer.json") << json::serialize(tokenizer);
  refused({"run", "--model", model, "--prompt", "hi"}, 4, "Unigram");
}

TEST_F(Cli, InspectSaysWhatAModelFolderHolds) {
  const json::value v = run_json({"inspect", fixture("models/qwen2_5_vl")});
  ASSERT_EQ(missing_keys(v, {"architecture", "model_type", "dtype", "vocab", "width", "layers", "heads", "kv_heads", "draft_rule",
                             "eos", "vision", "tensors", "parameters", "stored_bytes", "tokenizer", "memory"}),
            "");
  EXPECT_EQ(v.at("architecture"), "Qwen2_5_VLForConditionalGeneration");
  EXPECT_EQ(v.at("vocab").as_int64(), 320);
  ASSERT_EQ(missing_keys(v.at("draft_rule"), {"shift", "mask", "null", "context", "block_size"}), "");
  EXPECT_GT(v.at("memory").at("f32").at("weights_bytes").to_number<int64_t>(),
            v.at("memory").at("bf16").at("weights_bytes").to_number<int64_t>());
  EXPECT_EQ(v.at("family"), "qwen2_5_vl");
  const json::value demo = run_json({"inspect", demo_model()});
  EXPECT_TRUE(demo.at("can_draft").as_bool());
  EXPECT_FALSE(demo.at("draft_rule").at("family_drafts").as_bool()) << "its family was not published to draft";
  EXPECT_EQ(demo.at("runs_in").as_string(), "bf16");
  EXPECT_EQ(run_json({"inspect", demo_model() + "-cot"}).at("runs_in").as_string(), "int8");
  EXPECT_FALSE(run_json({"inspect", fixture("models/qwen3")}).at("can_draft").as_bool());
  EXPECT_EQ(v.at("layout").at("text"), "model.language_model.");
  EXPECT_EQ(v.at("tower"), "qwen2_5_vl");
  ASSERT_GT(v.at("options").as_array().size(), 20u);
  ASSERT_EQ(missing_keys(v.at("options").at(0), {"key", "value", "from"}), "");
  const json::value mistral = run_json({"inspect", fixture("models/mistral")});
  EXPECT_EQ(mistral.at("config_class"), "MistralConfig");
  EXPECT_EQ(mistral.at("window").at("keys").as_int64(), 16);
  EXPECT_EQ(run_json({"inspect", "--model", fixture("decode/models/small")}).at("draft_rule").at("mask").as_int64(), 1);
  const Ran words = run({"inspect", fixture("models/qwen3")});
  EXPECT_EQ(words.code, 0);
  EXPECT_NE(words.out.find("Qwen3ForCausalLM"), std::string::npos) << words.out;
}

// ---- form

TEST_F(Cli, FormPrintsTheDocumentOfABuiltInWhenAskedForIt) {
  const json::value v = run_json({"form", "wod-e2e", "--schema"});
  ASSERT_EQ(missing_keys(v, {"title", "type", "properties"}), "");
  std::string order;
  for (const auto& member : v.at("properties").as_object()) order += std::string(member.key()) + " ";
  EXPECT_EQ(order, "critical_objects explanation future_meta_behavior trajectory ");
  EXPECT_EQ(v.at("properties").at("critical_objects").at("properties").as_object().size(), 12u);
  EXPECT_EQ(v.at("properties").at("explanation").at("x-budget").as_int64(), 192);
  const Ran words = run({"form", "wod-e2e", "--schema"});
  EXPECT_EQ(*parse_json(words.out, "stdout"), v);
  EXPECT_EQ(run_json({"form", "wod-e2e"}).at("schema"), v);
}

// Fixed text without spaces: a number's own may be the form's or the number's.
std::string fixed_text(const json::value& explained) {
  std::string out;
  for (const json::value& piece : explained.at("pieces").as_array())
    if (const json::value* text = piece.as_object().if_contains("text")) out += std::string(text->as_string());
  std::erase(out, ' ');
  return out;
}

TEST_F(Cli, FormExplainsABuiltInWithoutAModel) {
  for (const char* name : {"wod-e2e", "drive-cot"}) {
    SCOPED_TRACE(name);
    const json::value v = run_json({"form", name}), made = run_json({"form", name, "--model", demo_model()});
    EXPECT_EQ(v.at("at_most"), true);
    for (const char* count : {"critical_path", "positions", "fixed_tokens"})
      EXPECT_GE(v.at(count).as_int64(), made.at(count).as_int64()) << count;
    EXPECT_EQ(v.at("waves"), made.at("waves"));
    EXPECT_EQ(fixed_text(v), fixed_text(made));
    const json::array &fields = v.at("fields").as_array(), &made_fields = made.at("fields").as_array();
    ASSERT_EQ(fields.size(), made_fields.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      for (const char* key : {"name", "section", "parents"}) EXPECT_EQ(fields[i].at(key), made_fields[i].at(key)) << i;
      EXPECT_GE(fields[i].at("budget").as_int64(), made_fields[i].at("budget").as_int64()) << i;
    }
    const Ran words = run({"form", name});
    EXPECT_EQ(words.code, 0);
    for (const char* part : {"critical path at most ", "wave 0", "section ", "fixed  ", "budget "})
      EXPECT_NE(words.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(run_json({"form", "wod-e2e"}).at("critical_path").as_int64(), 3 + 192 + 3 + 10 * 7)
      << "\"yes\", explanation, behaviour, the characters of ten numbers";
}

TEST_F(Cli, FormExplainsABuiltInForAModel) {
  const json::value v = run_json({"form", "wod-e2e", "--model", demo_model()});
  ASSERT_EQ(missing_keys(v, {"name", "positions", "fixed_tokens", "critical_path", "sections", "blocks", "fields"}), "");
  EXPECT_EQ(v.at("fields").as_array().size(), 25u);
  EXPECT_EQ(v.at("sections").as_array().size(), 4u);
  // The sections tile the form, the blocks too.
  for (const char* part : {"sections", "blocks"}) {
    int64_t at = 0;
    for (const json::value& range : v.at(part).as_array()) {
      EXPECT_EQ(range.at("begin").as_int64(), at) << part;
      at = range.at("end").as_int64();
    }
    EXPECT_EQ(at, v.at("positions").as_int64()) << part;
  }
  const Ran words = run({"form", "wod-e2e", "--model", demo_model()});
  EXPECT_EQ(words.code, 0);
  for (const char* part : {"25 fields", "4 sections", "critical path", "explanation", "critical_objects.pedestrian"})
    EXPECT_NE(words.out.find(part), std::string::npos) << part;
}

TEST_F(Cli, FormKnowsEveryBuiltInAndSaysWhichTokensAModelLacks) {
  for (const char* name : {"drive-cot", "openvla-action", "minivla-action", "alpamayo-coc"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(run_json({"form", name}).at("schema").at("title"), name);
  }
  const json::value cot = run_json({"form", "drive-cot", "--model", demo_model()});
  EXPECT_EQ(cot.at("fields").as_array().size(), 41u);
  EXPECT_EQ(cot.at("waves").as_array().size(), 7u) << "images, instances, justifications, summaries, behaviour, actions, waypoints";
  refused({"form", "openvla-action", "--model", demo_model()}, 3, "form openvla-action: expected a tokenizer with the token");
  refused({"form", "minivla-action", "--model", demo_model()}, 3, "<|extra_0|>");
  refused({"form", "alpamayo-coc", "--model", demo_model()}, 3, "<|cot_start|>");
}

TEST_F(Cli, FormRefusesWhatIsNoForm) {
  const std::string model = fixture("decode/models/small");
  refused({"form", write("alone.json", R"({"type": "banana"})")}, 3, "banana");
  refused({"form", "wod-e2e", "--model", demo_model(), "--unnorm-key", "x"}, 2, "--unnorm-key");
  refused({"form", "nope"}, 3, "expected a built-in (wod-e2e, drive-cot, openvla-action, minivla-action, alpamayo-coc), `model`");
  refused({"form", path("none.json")}, 3, "none.json");
  refused({"form", write("broken.json", "{\"type\": ")}, 3, "broken.json");
  refused({"form", write("number.json", R"({"type": "number"})"), "--model", model}, 4,
          "at the root, got another value, of which nothing shows the end");
  refused({"form", write("kind.json", R"({"type": "banana"})"), "--model", model}, 3, "banana");
  const std::string contradiction = R"({"type": "object", "properties": {"why": {"type": "string", "const": 12}}})";
  refused({"form", write("why.json", contradiction), "--model", model}, 3, "#/properties/why: ");
  refused({"form", "wod-e2e", "--model", path("nowhere")}, 3, "nowhere");
  refused({"form", "wod-e2e", "--model", fixture("models/qwen2")}, 3, "tokenizer");
}

}  // namespace
}  // namespace slip::test
