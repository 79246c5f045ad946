// SPDX-License-Identifier: Apache-2.0
// Vision-language-action models through the binary: OpenVLA's fixture from instruction and picture to physical units, a native
// checkpoint converted and run, a folder of DINOv2 features and ego history.
#include <cmath>
#include <fstream>

#include "core/safetensors.h"
#include "core/torch_zip.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

json::value read(const std::string& file) {
  auto v = read_json(file);
  EXPECT_TRUE(v) << v.error().message;
  return *v;
}

// ---- OpenVLA

// The fixture with a tokenizer whose words spell exactly the prompt of its rows file: ids 0 .. 63 are added tokens, the bins' ids
// 64 .. 319 the 256 bytes of byte-level BPE.
json::value fixture_tokenizer(const std::string& like) {
  json::value t = read(like);
  json::object& model = t.at("model").as_object();
  json::object vocab;
  for (const auto& entry : model.at("vocab").as_object()) vocab[entry.key()] = entry.value().as_int64() + 64;
  model["vocab"] = vocab;
  json::array added;
  for (int id = 0; id < 64; ++id) {
    std::string content = "<t" + std::to_string(id) + ">";
    for (const auto& [word, at] : std::initializer_list<std::pair<const char*, int>>{{"<s>", 1},
                                                                                     {"</s>", 2},
                                                                                     {"In: What action", 62},
                                                                                     {" should the", 25},
                                                                                     {" robot", 44},
                                                                                     {" take", 47},
                                                                                     {" to", 63},
                                                                                     {" pick", 50},
                                                                                     {" up", 28},
                                                                                     {" and", 55},
                                                                                     {"?\nOut:", 19},
                                                                                     {"\u2581", 36}})
      if (at == id) content = word;
    added.push_back(json::object{{"id", id},
                                 {"content", content},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false},
                                 {"special", true}});
  }
  t.as_object()["added_tokens"] = added;
  return t;
}

class OpenVla : public Cli {
 protected:
  void SetUp() override {
    model_ = copy_fixture("models/openvla", "vla");
    std::ofstream(model_ + "/tokenizer.json")
        << json::serialize(fixture_tokenizer(fixture("torch/minivla/tokenizer/tokenizer.json")));
  }
  std::vector<std::string> ask(std::initializer_list<std::string> more) const {
    std::vector<std::string> out{"run",     "--model", model_, "--prompt", "Pick up AND take", "--image", model_ + "/image_0.png",
                                 "--dtype", "f32"};
    out.insert(out.end(), more);
    return out;
  }
  // Logits of the row behind `tokens`, which stand behind the fixture's prompt.
  std::vector<float> logits_behind(const std::vector<int64_t>& tokens) {
    json::value rows = read(model_ + "/rows_causal.json");
    json::array& list = rows.at("rows").as_array();
    list.resize(28);
    for (const int64_t t : tokens) list.push_back(json::object{{"token", t}, {"position", list.size()}});
    std::ofstream(model_ + "/rows.json") << json::serialize(rows);
    const std::string out = path("logits.safetensors");
    EXPECT_EQ(run({"forward", "--model", model_, "--rows", model_ + "/rows.json", "--out", out, "--dtype", "f32"}).code, 0);
    const auto file = Checkpoint::open_file(out);
    EXPECT_TRUE(file);
    const std::vector<float> all = read_as_f32(*file->find("logits_TV"));
    return {all.end() - 384, all.end()};
  }
  std::string model_;
};

void expect_near(const json::value& list, const json::value& expected) {
  ASSERT_EQ(list.as_array().size(), expected.as_array().size());
  for (size_t i = 0; i < list.as_array().size(); ++i)
    EXPECT_NEAR(list.as_array()[i].to_number<double>(), expected.as_array()[i].to_number<double>(), 1e-12) << i;
}

TEST_F(OpenVla, FreeTextIsThePublishedDecoderToTheActionsInPhysicalUnits) {
  const json::value expected = read(model_ + "/actions.json");
  const json::value v = run_json(ask({"--form", "none", "--unnorm-key", "bridge_orig"}));
  EXPECT_EQ(v.at("tokens"), expected.at("greedy_tokens"));
  const json::value& decoded = expected.at("decode").as_array()[2];
  ASSERT_EQ(decoded.at("tokens"), expected.at("greedy_tokens"));
  const json::value& action = v.at("action");
  EXPECT_EQ(action.at("unnorm_key"), "bridge_orig");
  expect_near(action.at("normalized"), decoded.at("normalized"));
  expect_near(action.at("values"), decoded.at("actions"));
  EXPECT_EQ(action.at("is_action"), (json::array{false, false, true, true, true, true, true})) << "335 and 63 are no bins";
}

TEST_F(OpenVla, TheFormAllowsBinsAloneAndIsGreedyAmongThem) {
  for (const char* form : {"model", "openvla-action"}) {
    const json::value v = run_json(ask({"--form", form, "--unnorm-key", "bridge_orig"}));
    const json::array& tokens = v.at("action").at("tokens").as_array();
    ASSERT_EQ(tokens.size(), 7u);
    std::vector<int64_t> sofar;
    for (const json::value& t : tokens) {
      const std::vector<float> logits = logits_behind(sofar);
      int64_t best = 64;
      for (int64_t id = 64; id < 320; ++id)
        if (logits[static_cast<size_t>(id)] > logits[static_cast<size_t>(best)]) best = id;
      EXPECT_EQ(t.as_int64(), best) << sofar.size();
      sofar.push_back(best);
    }
    EXPECT_EQ(v.at("action").at("is_action"), json::array(7, true));
    // 0.5 (x + 1) (q99 - q01) + q01 where the mask says so; the gripper as it is.
    const json::value stats = read(model_ + "/config.json").at("norm_stats").at("bridge_orig").at("action");
    for (size_t i = 0; i < 7; ++i) {
      const double x = v.at("action").at("normalized").as_array()[i].to_number<double>();
      const double low = stats.at("q01").as_array()[i].to_number<double>(),
                   high = stats.at("q99").as_array()[i].to_number<double>();
      EXPECT_NEAR(v.at("action").at("values").as_array()[i].to_number<double>(), i == 6 ? x : 0.5 * (x + 1) * (high - low) + low,
                  1e-12);
      EXPECT_NEAR(x, v.at("fields").at("action").as_array()[i].to_number<double>(), 1e-12);
    }
  }
}

TEST_F(OpenVla, DecodersThatAreExactGiveTheSameAction) {
  const json::value slow = run_json(ask({"--form", "model", "--unnorm-key", "no_mask", "--decoder", "scaffold-ar"}));
  EXPECT_EQ(slow.at("action").at("tokens").as_array().size(), 6u) << "as many numbers as the statistics have";
  const json::value fast = run_json(
      ask({"--form", "model", "--unnorm-key", "no_mask", "--decoder", "scaffold-ar", "--drafter", "lookup", "--threads", "1"}));
  EXPECT_EQ(slow.at("action"), fast.at("action"));
}

// A radius of R bins is R (q99 - q01) / 2 times a bin of the normalised range where the mask says so; asked for in physical units it is the
// bins that are no further.
TEST_F(OpenVla, RelaxedBinsAreToldInPhysicalUnitsPerDimension) {
  const json::value stats = read(model_ + "/config.json").at("norm_stats").at("bridge_orig").at("action");
  const auto relaxed = [&](const char* verifier) {
    return run_json(ask({"--form", "model", "--unnorm-key", "bridge_orig", "--decoder", "scaffold-ar", "--drafter", "lookup",
                         "--verifier", verifier}))
        .at("decoder")
        .at("relaxed")
        .at("action");
  };
  const json::value in_bins = relaxed("relaxed:3"), in_units = relaxed("relaxed:0.01u");
  for (size_t i = 0; i < 7; ++i) {
    const double scale =
        i == 6 ? 1 : 0.5 * (stats.at("q99").as_array()[i].to_number<double>() - stats.at("q01").as_array()[i].to_number<double>());
    const auto number = [&](const json::value& v, const char* key) { return v.at(key).as_array().at(i).to_number<double>(); };
    const double bin = number(in_bins, "units") / 3;
    EXPECT_EQ(number(in_bins, "bins"), 3);
    EXPECT_NEAR(bin, scale * 2 / 255, 0.02 * bin) << "255 steps or so over -1 .. 1";
    EXPECT_LE(number(in_units, "units"), 0.01 + 1e-9) << i;
    EXPECT_GT(number(in_units, "units") + bin, 0.01) << i;
    EXPECT_NEAR(number(in_units, "units"), number(in_units, "bins") * bin, 1e-12);
  }
}

TEST_F(OpenVla, WhatIsMissingIsNamed) {
  refused(ask({"--form", "model"}), 2, "bridge_orig, no_mask");
  refused(ask({"--form", "none", "--unnorm-key", "x"}), 2, "bridge_orig, no_mask");
  const auto as_text = [&](const char* most) {
    return ask({"--form", "none", "--unnorm-key", "bridge_orig", "--max-tokens", most});
  };
  refused(as_text("6"), 2, "--max-tokens: expected at least 7, a token for each number of the action, got 6");
  EXPECT_EQ(run_json(as_text("7")).at("tokens").as_array().size(), 7U);
  refused({"run", "--model", model_, "--image", model_ + "/image_0.png", "--unnorm-key", "no_mask"}, 4, "instruction");
  std::ofstream(model_ + "/dataset_statistics.json") << R"({"mine": {"action": {"q01": [0], "q99": [2]}}})";
  const json::value v = run_json(ask({"--form", "model"}));
  EXPECT_EQ(v.at("action").at("unnorm_key"), "mine") << "a fine-tune's own statistics override";
  EXPECT_EQ(v.at("action").at("values").as_array().size(), 1u);
  fs::remove(model_ + "/preprocessor_config.json");
  refused(ask({"--form", "model"}), 3, "preprocessor_config.json");
}

TEST_F(OpenVla, OtherNumbersOfBinsRun) {
  json::value config = read(model_ + "/config.json");
  config.as_object()["n_action_bins"] = 64;
  std::ofstream(model_ + "/config.json") << json::serialize(config);
  const json::value v = run_json(ask({"--form", "model", "--unnorm-key", "bridge_orig"}));
  const json::value& action = v.at("action");
  ASSERT_EQ(action.at("tokens").as_array().size(), 7U);
  for (size_t i = 0; i < 7; ++i) {
    const int64_t id = action.at("tokens").as_array()[i].as_int64();
    EXPECT_GE(id, 256);  // the last 64 ids below 320
    EXPECT_LT(id, 320);
    const double k = static_cast<double>(std::min<int64_t>(319 - id, 62));
    EXPECT_NEAR(action.at("normalized").as_array()[i].to_number<double>(), (2 * k + 1) / 63 - 1, 1e-12);
  }
  EXPECT_EQ(
      run_json({"form", "model", "--model", model_, "--schema"}).at("properties").at("action").at("items").at("x-bins").at("count"),
      64);
}

TEST_F(OpenVla, FormShowsItsOwnBinsAndAsManyNumbersAsItsStatisticsHave) {
  for (const char* name : {"openvla-action", "model"}) {
    SCOPED_TRACE(name);
    const json::value v = run_json({"form", name, "--model", model_});
    EXPECT_EQ(v.at("fields").at(0).at("budget").as_int64(), 7);
    EXPECT_EQ(v.at("critical_path").as_int64(), 7);
    EXPECT_EQ(v.at("pieces").at(0).at("fixed"), (json::array{36})) << "the blank that its prompt ends in";
  }
  const json::value bins =
      run_json({"form", "openvla-action", "--model", model_, "--schema"}).at("properties").at("action").at("items").at("x-bins");
  EXPECT_NE(bins.at("first"),
            run_json({"form", "openvla-action", "--schema"}).at("properties").at("action").at("items").at("x-bins").at("first"));
  refused({"form", "openvla-action", "--model", model_, "--unnorm-key", "x"}, 2, "bridge_orig, no_mask");
  std::ofstream(model_ + "/dataset_statistics.json")
      << R"({"mine": {"action": {"q01": [0], "q99": [2]}}, "two": {"action": {"q01": [0, 0], "q99": [2, 2]}}})";
  for (const auto& [key, numbers] : {std::pair{"mine", 1}, {"two", 2}}) {
    const json::value v = run_json({"form", "openvla-action", "--model", model_, "--unnorm-key", key});
    EXPECT_EQ(v.at("fields").at(0).at("budget").as_int64(), numbers) << key;
  }
}

TEST_F(OpenVla, PreprocessGivesWhatTheReferencesProcessorGives) {
  const std::string folder = fixture("models/openvla"), out = path("pixels.safetensors");
  run_json({"preprocess", "--model", folder, "--image", folder + "/image_0.png", "--out", out});
  const auto mine = Checkpoint::open_file(out), theirs = Checkpoint::open_file(folder + "/expected_images.safetensors");
  ASSERT_TRUE(mine);
  ASSERT_TRUE(theirs);
  EXPECT_EQ(mine->find("pixel_values")->shape, theirs->find("pixel_values")->shape);
  EXPECT_EQ(read_as_f32(*mine->find("pixel_values")), read_as_f32(*theirs->find("pixel_values")));
}

// ---- MiniVLA: a native checkpoint

class MiniVla : public Cli {
 protected:
  std::string convert(std::vector<std::string> more = {}) {
    std::vector<std::string> all{"convert", fixture("torch/minivla"), "--out", path("mini")};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = run(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return path("mini");
  }
};

TEST_F(MiniVla, ConvertKeepsEveryNumberUnderItsNewName) {
  const std::string folder = convert({"--tokenizer", fixture("torch/minivla/tokenizer")});
  const auto made = Checkpoint::open_folder(folder);
  ASSERT_TRUE(made) << made.error().message;
  const auto native = TorchFile::open(fixture("torch/minivla/checkpoints/step-000010.pt"));
  ASSERT_TRUE(native);
  size_t same = 0;
  for (const TorchFile::Entry& e : native->tensors()) {
    std::string name = e.path[2];
    const auto swap = [&](const std::string& from, const std::string& to) {
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    };
    swap("dino_featurizer.", "vision_backbone.featurizer.");
    swap("siglip_featurizer.", "vision_backbone.fused_featurizer.");
    swap(".gamma", ".scale_factor");
    swap("projector.0.", "projector.fc1.");
    swap("projector.2.", "projector.fc2.");
    swap("projector.4.", "projector.fc3.");
    swap("llm.", "language_model.");
    if (name == "language_model.lm_head.weight") continue;  // tied: the embedding
    const TensorView* view = made->find(name);
    ASSERT_NE(view, nullptr) << name;
    EXPECT_EQ(view->shape, e.view.shape);
    EXPECT_EQ(view->dtype, DType::kBF16);
    ASSERT_EQ(view->bytes.size(), e.view.bytes.size());
    EXPECT_EQ(std::memcmp(view->bytes.data(), e.view.bytes.data(), view->bytes.size()), 0) << name;
    ++same;
  }
  EXPECT_EQ(same, made->tensors().size());
  EXPECT_GT(same, 100u);
}

TEST_F(MiniVla, TheConvertedFolderAnswersWithAnAction) {
  const std::string folder = convert({"--tokenizer", fixture("torch/minivla/tokenizer"), "--json"});
  const json::value config = read(folder + "/config.json");
  EXPECT_EQ(config.at("text_config").at("vocab_size").as_int64() - config.at("pad_to_multiple_of").as_int64(), 259 + 256);
  EXPECT_EQ(config.at("text_config").at("tie_word_embeddings"), true);
  const std::string picture = write_ppm("robot.ppm", 60, 40);
  for (const char* dtype : {"f32", "bf16", "int8"}) {
    const json::value v = run_json({"run", "--model", folder, "--prompt", "open the drawer", "--image", picture, "--dtype", dtype});
    const json::value& action = v.at("action");
    EXPECT_EQ(action.at("unnorm_key"), "tiny");
    ASSERT_EQ(action.at("values").as_array().size(), 3u);
    for (const json::value& t : action.at("tokens").as_array()) {
      EXPECT_GE(t.as_int64(), 259);
      EXPECT_LT(t.as_int64(), 515);
    }
    EXPECT_EQ(action.at("values").as_array()[2], action.at("normalized").as_array()[2]) << "the mask spares the gripper";
    EXPECT_LE(std::abs(action.at("values").as_array()[1].to_number<double>()), 0.5);
    EXPECT_EQ(v.at("form"), "minivla-action");
  }
  const json::value tokens = run_json({"tokenize", "--model", folder, "--text", "<|im_start|>a<|extra_0|><|extra_255|>"});
  EXPECT_EQ(tokens.at("ids"), (json::array{257, 97, 259, 514}));
}

TEST_F(MiniVla, WhatCannotBeConvertedIsRefusedWithTheReason) {
  const std::string out = path("never");
  refused({"convert", fixture("torch/minivla"), "--out", out}, 3, "--tokenizer");
  refused({"convert", fixture("torch/legacy.pt"), "--out", out}, 3, "config.json");
  refused({"convert", path("none"), "--out", out}, 3, "none");
  const std::string run_folder = copy_fixture("torch/minivla", "native"), file = run_folder + "/checkpoints/step-000010.pt";
  fs::create_directories(run_folder + "/checkpoints");
  const std::string whole = read_bytes(fixture("torch/minivla/checkpoints/step-000010.pt"));
  const auto damaged = [&](const std::string& bytes, int code, std::string_view named) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    refused({"convert", run_folder, "--out", out, "--tokenizer", fixture("torch/minivla/tokenizer")}, code, named);
    EXPECT_FALSE(fs::exists(out));
  };
  damaged(whole.substr(0, whole.size() / 2), 3, "step-000010.pt");
  std::ofstream(run_folder + "/checkpoints/step-1000000.pt", std::ios::binary) << "x";  // newer, though its name sorts before
  std::ofstream(run_folder + "/checkpoints/step-999000.pt", std::ios::binary) << "x";
  damaged(whole, 3, "step-1000000.pt");
  fs::remove(run_folder + "/checkpoints/step-1000000.pt");
  fs::remove(run_folder + "/checkpoints/step-999000.pt");
  damaged(read_bytes(fixture("torch/legacy.pt")), 4, "torch 1.6");
  damaged(read_bytes(fixture("torch/tensors.pt")), 3, "vision_backbone");
  damaged(std::string(100, 'x'), 3, "zip");
}

TEST_F(MiniVla, TheActionTokenizersNameSaysWhichIdsAreActions) {
  const std::string native = copy_fixture("torch/minivla", "native"), tokenizer = fixture("torch/minivla/tokenizer");
  for (const char* part : {"/checkpoints", "/tokenizer"}) fs::create_directories(native + part);
  write_bytes(native + "/checkpoints/step-000010.pt", read_bytes(fixture("torch/minivla/checkpoints/step-000010.pt")));
  json::value words = read(tokenizer + "/tokenizer.json");
  words.at("added_tokens").as_array().push_back(json::object{{"id", 259}, {"content", "<PAD>"}, {"special", true}});
  write_bytes(native + "/tokenizer/tokenizer.json", json::serialize(words));
  const json::value config = read(native + "/config.json");
  const auto with = [&](json::value name) {
    json::value changed = config;
    json::object& vla = changed.at("vla").as_object();
    name.is_null() ? void(vla.erase("action_tokenizer")) : void(vla["action_tokenizer"] = name);
    write_bytes(native + "/config.json", json::serialize(changed));
  };
  int made = 0;
  const auto bound = [&](const std::string& words_at) {
    const std::string out = path("made" + std::to_string(made++));
    const Ran ran = run({"convert", native, "--out", out, "--tokenizer", words_at});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const json::value c = read(out + "/config.json");
    return c.at("text_config").at("vocab_size").as_int64() - c.at("pad_to_multiple_of").as_int64();
  };
  with("action_tokenizer");  // although the base's name has "extra" in it
  EXPECT_EQ(bound(tokenizer), 256) << "the vocabulary without its special tokens";
  EXPECT_EQ(bound(native + "/tokenizer"), 256) << "nor the padding token behind them";
  with(nullptr);
  EXPECT_EQ(bound(tokenizer), 259 + 256) << "by the base's name";
  for (const char* name : {"libero_vq_extra_action_tokenizer", "bridge_vq_extra_action_tokenizer"}) {
    with(name);
    refused({"convert", native, "--out", path("never"), "--tokenizer", tokenizer}, 4, name);
  }
}

// ---- dino_qwen: DINOv2 features and ego history

class DinoQwen : public Cli {
 protected:
  void SetUp() override {
    folder_ = path("dino");
    fs::create_directories(folder_);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      write_bytes(folder_ + "/" + name, read_bytes(fixture(std::string("text/qwen/") + name)));
    std::ofstream(folder_ + "/config.json") << R"({"architectures": ["DinoQwenForCausalLM"], "model_type": "dino_qwen",
      "torch_dtype": "float32", "slipstream": {"prompt": "compact"}, "image_token_id": 862, "pooling": 2, "projector": {"hidden_size": 32},
      "history": {"token_id": 866, "states": 16, "hidden_size": 16, "scale": [0.05, 0.05, 0.1, 0.1, 0.5, 0.5]},
      "text_config": {"model_type": "qwen3", "vocab_size": 960, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true, "eos_token_id": 858},
      "vision_config": {"model_type": "dinov2_with_registers", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "mlp_ratio": 2, "image_size": 56, "patch_size": 14}})";
    std::ofstream(folder_ + "/preprocessor_config.json") << R"({"image_processor_type": "BitImageProcessor",
      "size": {"height": 80, "width": 128}, "do_center_crop": false, "resample": 3, "image_mean": [0.485, 0.456, 0.406],
      "image_std": [0.229, 0.224, 0.225]})";
    write_weights();
  }

  void add(const std::string& name, std::vector<int64_t> shape, float mean = 0) {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    std::vector<float>& values = values_.emplace_back();
    for (int64_t i = 0; i < n; ++i) {
      seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
      values.push_back(mean + 0.3F * (static_cast<float>(seed_ >> 40) / 16777216.0F - 0.5F));
    }
    tensors_.push_back({name, DType::kF32, std::move(shape), {}});
  }
  void linear(const std::string& name, int64_t n, int64_t k, bool bias = true) {
    add(name + ".weight", {n, k});
    if (bias) add(name + ".bias", {n});
  }
  void norm(const std::string& name, int64_t n, bool bias) {
    add(name + ".weight", {n}, 1);
    if (bias) add(name + ".bias", {n});
  }
  void write_weights() {
    add("language_model.model.embed_tokens.weight", {960, 32});
    norm("language_model.model.norm", 32, false);
    add("vision_tower.embeddings.cls_token", {1, 1, 16});
    add("vision_tower.embeddings.register_tokens", {1, 4, 16});
    add("vision_tower.embeddings.position_embeddings", {1, 17, 16});
    add("vision_tower.embeddings.patch_embeddings.projection.weight", {16, 3, 14, 14});
    add("vision_tower.embeddings.patch_embeddings.projection.bias", {16});
    norm("vision_tower.layernorm", 16, true);
    linear("projector.fc1", 32, 16);
    linear("projector.fc2", 32, 32);
    linear("history.fc1", 16, 96);
    linear("history.fc2", 32, 16);
    for (const std::string i : {"0", "1"}) {
      const std::string p = "language_model.model.layers." + i + ".", v = "vision_tower.encoder.layer." + i + ".";
      linear(p + "self_attn.q_proj", 32, 32, false);
      linear(p + "self_attn.k_proj", 16, 32, false);
      linear(p + "self_attn.v_proj", 16, 32, false);
      linear(p + "self_attn.o_proj", 32, 32, false);
      add(p + "self_attn.q_norm.weight", {8}, 3);  // sharp attention: single rows matter
      add(p + "self_attn.k_norm.weight", {8}, 3);
      linear(p + "mlp.gate_proj", 48, 32, false);
      linear(p + "mlp.up_proj", 48, 32, false);
      linear(p + "mlp.down_proj", 32, 48, false);
      norm(p + "input_layernorm", 32, false);
      norm(p + "post_attention_layernorm", 32, false);
      norm(v + "norm1", 16, true);
      norm(v + "norm2", 16, true);
      for (const char* part : {"query", "key", "value"}) linear(v + "attention.attention." + part, 16, 16);
      linear(v + "attention.output.dense", 16, 16);
      add(v + "layer_scale1.lambda1", {16}, 1);
      add(v + "layer_scale2.lambda1", {16}, 1);
      linear(v + "mlp.fc1", 32, 16);
      linear(v + "mlp.fc2", 16, 32);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].bytes = std::as_bytes(std::span(values_[i]));
    const Status written = write_safetensors(folder_ + "/model.safetensors", tensors_);
    ASSERT_TRUE(written) << written.error().message;
  }
  // `oldest`: acceleration of the first state, which no prompt puts in words.
  std::string ego(double oldest = 0) const {
    constexpr double speed = 5;
    json::array history{json::array{-3.75, speed * -3.75, 0, speed, 0, oldest, oldest}};
    for (int i = 1; i < 16; ++i) history.push_back(json::array{(i - 15) / 4.0, speed * (i - 15) / 4.0, 0, speed, 0, 0, 0});
    return write("ego.json", json::serialize(json::object{{"intent", "GO_STRAIGHT"}, {"history", history}}));
  }

  std::string folder_;
  std::vector<std::vector<float>> values_;
  std::vector<TensorToWrite> tensors_;
  uint64_t seed_ = 1;
};

TEST_F(DinoQwen, AFolderOfItsLayoutAnswersFromPicturesAndHistory) {
  const std::string front = write_ppm("front.ppm", 128, 80), back = write_ppm("back.ppm", 64, 64);
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"run", "--model", folder_, "--form", "none", "--max-tokens", "6"};
    all.insert(all.end(), more.begin(), more.end());
    return run_json(all);
  };
  const json::value two = ask({"--ego", ego(), "--image", front, back});
  const json::value one = ask({"--ego", ego(), "--image", front});
  const json::value none = ask({"--ego", ego()});
  const auto rows = [](const json::value& v) {
    return v.at("statistics").at("rows").as_int64() - v.at("statistics").at("tokens").as_int64();
  };
  // 80 x 128 pixels are 5 x 9 patches, 2 x 4 cells; each picture also has its start and end token.
  EXPECT_EQ(rows(two) - rows(one), 8 + 2);
  EXPECT_EQ(rows(one) - rows(none), 8 + 2);
  EXPECT_EQ(two.at("tokens"), ask({"--ego", ego(), "--image", front, back, "--threads", "1"}).at("tokens"));
  const json::value words = ask({"--prompt", "go <image> on", "--image", front});
  EXPECT_GE(words.at("statistics").at("tokens").as_int64(), 1);
  refused({"run", "--model", folder_, "--form", "none", "--prompt", "go <f00> on"}, 3, "ego history");
}

TEST_F(DinoQwen, TheHistoryIsSeenWhereTheWordsAreTheSame) {
  // The likeliest tokens of random weights may agree by chance; sampled answers of forty hardly.
  const auto ask = [&](double oldest) {
    return run_json(
               {"run", "--model", folder_, "--form", "none", "--max-tokens", "40", "--ego", ego(oldest), "--temperature", "0.7"})
        .at("tokens");
  };
  EXPECT_EQ(ask(0), ask(0));
  EXPECT_NE(ask(-15), ask(15));
}

}  // namespace
}  // namespace slip::test
