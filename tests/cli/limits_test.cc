// SPDX-License-Identifier: Apache-2.0
// `limits` through the binary: tables that need no model, a published machine, this machine measured, files, refusals.
#include <algorithm>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

double number(const json::value& v) { return v.to_number<double>(); }

json::object by_name(const json::value& rows, const char* key) {
  json::object out;
  for (const json::value& row : rows.as_array()) out[row.at(key).as_string()] = row;
  return out;
}

TEST_F(Demo, LimitsWithoutAModelGivesTheAlgebraAndTheReport) {
  const json::value v = run_json({"limits"});
  ASSERT_EQ(missing_keys(v, {"break_even", "landscape", "finite_answers", "report"}), "");
  for (const json::value& row : v.at("report").as_array())
    EXPECT_NEAR(number(row.at("ratio")), 1, 0.2) << json::serialize(row);  // the papers' tables within 20 %
}

TEST_F(Demo, LimitsWithoutAModelTellsTheMachineThatWasNamed) {
  const json::value v = run_json({"limits", "--machine", "h100"});
  EXPECT_EQ(v.at("machine").at("name"), "h100");
  EXPECT_EQ(number(v.at("machine").at("gb_per_s")), 3350);
  for (const json::value& row : v.at("machine_peaks").as_array())
    if (row.at("type") == "bf16") {
      EXPECT_NEAR(number(row.at("turning_rows")), 989e3 / 3350, 1e-6);
    }
  EXPECT_TRUE(run({"limits", "--machine", "h100"}).out.find("3350 GB/s") != std::string::npos);
  EXPECT_EQ(number(v.at("break_even").at(0).at("c=0")), 0) << "drafts that cost nothing pay at once";
}

TEST_F(Demo, LimitsOfAPublishedMachineFollowItsFigures) {
  const auto of = [&](const char* machine) { return run_json({"limits", "--machine", machine, "--model", model_}); };
  const json::value h100 = of("h100"), orin = of("orin");
  ASSERT_EQ(missing_keys(h100, {"machine", "model", "operations", "passes", "decoders", "acceptance", "weights"}), "");
  const auto one = [](const json::value& v) { return number(v.at("passes").at(0).at("predicted_ms")); };
  EXPECT_NEAR(one(orin) / one(h100), 3350 / 204.8, 0.5) << "one row is a read of the weights";
  double last = 0;
  for (const json::value& row : h100.at("passes").as_array()) {
    EXPECT_GE(number(row.at("predicted_ms")), last);
    EXPECT_TRUE(row.at("measured_ms").is_null()) << "nothing runs for another machine";
    last = number(row.at("predicted_ms"));
  }
  // Where a pass costs what reading costs, drafts that always hold are worth a block a pass.
  const json::value sure = run_json({"limits", "--machine", "h100", "--model", model_, "--acceptance", "1"});
  double best = 0;
  for (const json::value& row : sure.at("decoders").as_array()) best = std::max(best, number(row.at("speed_up")));
  EXPECT_GT(best, 5) << json::serialize(sure.at("decoders"));
}

TEST_F(Demo, LimitsPutsMeasurementsBesidePredictionsAndWritesTables) {
  const json::value v =
      run_json({"limits", "--model", model_, "--measure", "--scenes", "1", "--keys", "64", "--out", path("tables")});
  for (const json::value& row : v.at("passes").as_array()) {
    EXPECT_GT(number(row.at("measured_ms")), 0);
    EXPECT_NEAR(number(row.at("predicted_over_measured")), number(row.at("predicted_ms")) / number(row.at("measured_ms")), 1e-9);
  }
  bool measured = false;
  for (const json::value& row : v.at("decoders").as_array())
    if (!row.at("measured_ms").is_null()) {
      measured = true;
      EXPECT_GT(number(row.at("measured_passes")), 0);
    }
  EXPECT_TRUE(measured);
  // What is lossy is counted, since no calibration foretells its passes; stages stand beside what they took.
  const json::object decoders = by_name(v.at("decoders"), "decoder"), stages = by_name(v.at("stages"), "stage");
  EXPECT_GE(number(v.at("rounds")), 2);
  for (const json::value& row : v.at("machine_peaks").as_array())
    if (row.at("type") == "bf16") {
      EXPECT_EQ(number(row.at("tera_operations_per_s")), number(v.at("machine").at("bf16_tflops")))
          << "the same before and behind the rounds";
    }
  ASSERT_TRUE(decoders.contains("section-diffusion"));
  EXPECT_EQ(decoders.at("section-diffusion").at("passes"), decoders.at("section-diffusion").at("measured_passes"));
  EXPECT_GT(number(decoders.at("dflash").at("measured_ms")), 0);
  for (const char* stage : {"vision tower", "prompt"}) EXPECT_GT(number(stages.at(stage).at("measured_ms")), 0) << stage;
  // What was measured of this machine can be read again, and says the same of the model.
  const json::value again = run_json({"limits", "--machine", path("tables") + "/machine.json", "--model", model_, "--keys", "64"});
  for (size_t i = 0; i < again.at("passes").as_array().size(); ++i)
    EXPECT_NEAR(number(again.at("passes").at(i).at("predicted_ms")), number(v.at("passes").at(i).at("predicted_ms")), 1e-6);
  for (size_t i = 0; i < v.at("tower").as_array().size(); ++i)
    EXPECT_NEAR(number(again.at("tower").at(i).at("ms")), number(v.at("tower").at(i).at("ms")), 1e-6);
  for (const char* name : {"operations.csv", "passes.csv", "decoders.csv", "break_even.csv", "landscape.csv", "limits.json"})
    EXPECT_FALSE(read_bytes(path("tables") + "/" + name).empty()) << name;
  // What draws one token a pass takes exactly the passes that were foreseen: a form of fixed size.
  for (const json::value& row : v.at("decoders").as_array())
    if (row.at("decoder") == "scaffold-ar") {
      EXPECT_NEAR(number(row.at("passes")), number(row.at("measured_passes")), 1e-6);
    }
}

TEST_F(Demo, LimitsNeedsNoWeightsToPredict) {
  // All of a folder but its weights, and config.json alone: the first says what the whole folder says.
  const fs::path bare = path("bare");
  fs::create_directories(bare);
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "width.json"})
    fs::copy_file(fs::path(model_) / name, bare / name);
  for (const char* name : {"dflash", "linear_spec_lora"}) {
    fs::create_directories(bare / name);
    for (const auto& file : fs::directory_iterator(fs::path(model_) / name))
      if (file.path().extension() == ".json") fs::copy_file(file.path(), bare / name / file.path().filename());
  }
  const json::value whole = run_json({"limits", "--machine", "thor", "--model", model_}),
                    shapes = run_json({"limits", "--machine", "thor", "--model", bare.string()});
  for (const char* table : {"operations", "passes", "tower", "prompt", "stages", "decoders", "answers", "left_out"})
    EXPECT_EQ(whole.at(table), shapes.at(table)) << table;
  fs::create_directories(path("alone"));
  const std::string alone = write("alone/config.json", read_bytes((bare / "config.json").string()));
  // How long the prompt is says its tokenizer, and behind so many keys passes stand.
  const std::string keys = std::to_string(static_cast<int>(number(whole.at("keys"))));
  const json::value v = run_json({"limits", "--machine", "thor", "--model", alone, "--keys", keys});
  EXPECT_EQ(v.at("passes"), whole.at("passes"));
  EXPECT_NE(json::serialize(v.at("notes")).find("expected tokenizer.json"), std::string::npos);
  EXPECT_EQ(number(v.at("decoders").at(0).at("passes")), 48) << "free text in place of the form";
  const std::string renamed = write("shapes.json", read_bytes((bare / "config.json").string()));
  EXPECT_EQ(run_json({"limits", "--machine", "thor", "--model", renamed, "--keys", keys}).at("passes"), whole.at("passes"));
  refused({"limits", "--measure", "--model", bare.string()}, 3, "--measure: expected weights beside config.json");
  refused({"limits", "--speed-of-light", "1", "--model", alone}, 3, "--speed-of-light: expected weights");
}

// As the engine stores them: with --dtype int4 the head and the vision tower are int8.
TEST_F(Demo, LimitsPricesHeadAndTowerByTheirOwnTypes) {
  const auto asked = [&](const char* type) {
    return run_json({"limits", "--machine", "orin", "--model", model_, "--dtype", type});
  };
  const json::value int4 = asked("int4"), int8 = asked("int8");
  EXPECT_EQ(int4.at("tower"), int8.at("tower"));
  EXPECT_LT(number(int4.at("passes").at(0).at("predicted_ms")), number(int8.at("passes").at(0).at("predicted_ms")));
}

TEST_F(Demo, LimitsPricesASecondModelByTheMachineThatIsAskedFor) {
  const std::string target = SLIP_SOURCE_DIR "/models/pair-target", draft = SLIP_SOURCE_DIR "/models/pair-draft";
  const auto asked = [&](const std::string& machine, const std::string& more, const std::string& value) {
    std::vector<std::string> words{"limits", "--machine", machine, "--model", target, "--draft-model", draft};
    if (!more.empty()) words.insert(words.end(), {more, value});
    return run_json(words);
  };
  const auto draft_ms = [&](const json::value& v) {
    return by_name(v.at("answers"), "decoder").at("draft-model").at("drafter_prompt_ms");
  };
  EXPECT_EQ(draft_ms(asked("h100", "", "")), draft_ms(asked("h100", "--speed-of-light", "1")))
      << "an engine that runs here prices nothing there";
  // A time of an empty pass that somebody gives is that of any pass.
  const std::string slow = write("slow.json", R"({"gb_per_s": 1000, "bf16_tflops": 100, "pass_us": 300})");
  EXPECT_GT(number(draft_ms(asked(slow, "", ""))), 0.3);
  const std::string foreign =
      write("foreign.json", R"({"gb_per_s": 1000, "bf16_tflops": 100, "kernels": {"rows": [1], "product_tops": [1],
    "attention_tops": [1], "type": "int8", "width": 64, "ffn": 64}})");
  EXPECT_EQ(asked(foreign, "", "").at("notes").as_array().size(), 2U) << "one for either model";
}

TEST_F(Demo, LimitsTellsWholeAnswersByStage) {
  const json::value v = run_json({"limits", "--machine", "h100", "--model", model_});
  double tower = 0, prompt = 0;
  for (const json::value& row : v.at("tower").as_array()) {
    EXPECT_NEAR(number(row.at("ms")), std::max(number(row.at("arithmetic_ms")), number(row.at("bytes_ms"))), 1e-12);
    tower += number(row.at("ms"));
  }
  for (const json::value& row : v.at("prompt").as_array()) prompt += number(row.at("ms"));
  const json::object stages = by_name(v.at("stages"), "stage");
  EXPECT_NEAR(number(stages.at("vision tower").at("predicted_ms")), tower, 1e-12);
  EXPECT_NEAR(number(stages.at("prompt").at("predicted_ms")), prompt, 1e-12);
  EXPECT_EQ(stages.at("vision tower").at("rows"), 168) << "three pictures of 56 feature rows";
  const json::object decoders = by_name(v.at("decoders"), "decoder");
  for (const json::value& row : v.at("answers").as_array()) {
    EXPECT_NEAR(number(row.at("answer_ms")), tower + prompt + number(row.at("drafter_prompt_ms")) + number(row.at("decode_ms")),
                1e-9);
    EXPECT_EQ(row.at("decode_ms"), decoders.at(row.at("decoder").as_string()).at("predicted_ms"));
  }
  // The rows of an answer are the task's prompt, whose numbers differ a little from scene to scene, and what the decoder adds.
  const json::value answer = run_json(ask({"--record", simulate(1) + ":0", "--decoder", "scaffold-ar"}));
  EXPECT_NEAR(number(stages.at("prompt").at("rows")) + number(decoders.at("scaffold-ar").at("rows")),
              number(answer.at("statistics").at("rows")), 12);
  const json::value one = run_json({"limits", "--machine", "h100", "--model", model_, "--images", "1", "--image-width", "210"});
  EXPECT_LT(number(one.at("stages").at(0).at("predicted_ms")), tower);
}

TEST_F(Demo, LimitsNamesEveryDecoderOrWhyNot) {
  const json::value v = run_json({"limits", "--machine", "h100", "--model", model_});
  const json::object forecast = by_name(v.at("decoders"), "decoder"), left = by_name(v.at("left_out"), "decoder");
  for (const char* name : {"ar", "self-spec", "self-spec-quadratic", "dflash", "scaffold-ar", "scaffold-spec"})
    EXPECT_TRUE(forecast.contains(name)) << name;
  for (const auto& [name, why] : {std::pair{"draft-model", "--draft-model"},
                                  {"section-diffusion", "lossy"},
                                  {"text-diffusion", "free text"},
                                  {"fields", "graph"}}) {
    ASSERT_TRUE(left.contains(name)) << name;
    EXPECT_NE(left.at(name).at("reason").as_string().find(why), std::string::npos) << name;
  }
  // A second model: (n - 1) tokens behind the prompt's pass, by the closed form.
  const std::string pair = (fs::path(model_).parent_path() / "pair-").string();
  const auto with = [&](const char* odds) {
    const json::value w = run_json(
        {"limits", "--machine", "h100", "--model", pair + "target", "--draft-model", pair + "draft", "--acceptance", odds});
    return by_name(w.at("decoders"), "decoder").at("draft-model");
  };
  EXPECT_NEAR(number(with("0").at("passes")), 8, 1e-9) << "an action of eight tokens, one a pass";
  EXPECT_NEAR(number(with("1").at("passes")), 3, 1e-9) << "five and two behind the first";
  EXPECT_LT(number(with("1").at("predicted_ms")), number(with("0").at("predicted_ms")));
}

TEST_F(Demo, LimitsDrawsPassesAndDecoders) {
  const auto draw = [&](const std::string& ending) {
    return run(
        {"limits", "--machine", "orin", "--model", model_, "--figure", path("p" + ending), "--decoder-figure", path("d" + ending)});
  };
  const Ran drawn = draw(".png");
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(draw(".svg").code, 0);
  for (const char* name : {"p", "d"}) {
    EXPECT_EQ(read_bytes(path(std::string(name) + ".png")).substr(1, 3), "PNG");
    EXPECT_NE(read_bytes(path(std::string(name) + ".svg")).find("<svg"), std::string::npos);
  }
  fs::create_symlink("/dev/full", path("full.png"));  // a disk that fills behind the work
  const Ran full = run({"limits", "--machine", "orin", "--model", model_, "--figure", path("full.png")});
  EXPECT_EQ(full.code, 5) << full.err;
  EXPECT_EQ(full.out, drawn.out) << "the numbers are there all the same";
  refused({"limits", "--figure", path("p.png")}, 2, "--figure: expected a model");
  refused({"limits", "--model", model_, "--decoder-figure", path("d.pdf")}, 2, "--decoder-figure: expected a name that ends");
}

TEST_F(Demo, LimitsMeasuresModelsOfTextByFreeText) {
  const json::value v =
      run_json({"limits", "--model", SLIP_SOURCE_DIR "/models/tri", "--measure", "--scenes", "1", "--keys", "64"});
  int measured = 0;
  for (const json::value& row : v.at("decoders").as_array()) measured += !row.at("measured_ms").is_null();
  EXPECT_GT(measured, 2);
  for (const json::value& row : v.at("decoders").as_array())
    EXPECT_TRUE(row.at("predicted_over_measured").is_null()) << "answers stand behind their own prompts";
  EXPECT_FALSE(v.at("passes").at(0).at("predicted_over_measured").is_null());
  EXPECT_EQ(v.at("decoders").as_array().front().at("decoder"), "ar");
}

TEST_F(Demo, LimitsSearchesTheFewestPassesOfDiffusion) {
  run({"simulate", "--seed", "900001000", "--count", "1", "--out", path("light")});
  const json::value v = run_json({"limits", "--model", model_, "--speed-of-light", "1", "--records", path("light")});
  std::vector<double> passes;
  for (const json::value& row : v.at("speed_of_light").as_array()) passes.push_back(number(row.at("passes_a_block")));
  ASSERT_GE(passes.size(), 4U);
  const double serial = passes.front(), light = passes[passes.size() - 2];
  EXPECT_LE(passes[1], serial);
  EXPECT_LT(light, serial / 2) << "a model that was trained to fill blocks";
  EXPECT_GE(light, 2) << "a commit and the pass over the finished block";
}

TEST_F(Demo, LimitsRefusesWhatItCannotSay) {
  refused({"limits", "--speed-of-light", "1"}, 2, "--speed-of-light: expected a model");
  refused({"limits", "--model", model_, "--records", path("x")}, 2, "--records: expected --speed-of-light");
  refused({"limits", "--model", (fs::path(model_).parent_path() / "demo-cot").string(), "--speed-of-light", "1"}, 4,
          "section-diffusion");
  refused({"limits", "--machine", "warp", "--model", model_}, 2, "--machine: expected h100");
  refused({"limits", "--machine", write("m.json", R"({"gb_per_s": -1, "bf16_tflops": 1})"), "--model", model_}, 3, "gb_per_s");
  refused({"limits", "--machine", write("m.json", "{"), "--model", model_}, 3, "m.json");
  refused({"limits", "--machine", write("m.json", R"({"gb_per_s": 1, "bf16_tflops": 1, "eficiency": 1})")}, 3, "got eficiency");
  refused({"limits", "--measure", "--model", model_, "--images", "1"}, 2, "--measure: expected the prompts and pictures");
  refused({"limits", "--model", (fs::path(model_).parent_path() / "tri").string(), "--machine", "h100", "--images", "1"}, 2,
          "--images: expected a model with a vision tower");
  refused({"limits", "--model", (fs::path(model_).parent_path() / "tri").string(), "--measure", "--keys", "6000"}, 2,
          "--keys: expected at most 896 beside --measure");
  refused({"limits", "--machine", "h100", "--model", model_, "--out", write("taken", "") + "/tables"}, 3,
          "expected a folder that can be made");
  for (const auto& [option, value] : {std::pair{"--keys", "10"},
                                      {"--prompt-rows", "10"},
                                      {"--images", "0"},
                                      {"--image-width", "10"},
                                      {"--image-height", "10"},
                                      {"--answer-tokens", "10"},
                                      {"--acceptance", "0.5"},
                                      {"--dtype", "int8"}})
    refused({"limits", "--machine", "h100", option, value}, 2, std::string(option) + ": expected a model");
  refused({"limits", "--measure"}, 2, "--measure: expected a model");
  refused({"limits", "--model", model_, "--scenes", "3"}, 2, "--measure");
  refused({"limits", "--measure", "--machine", "h100", "--model", model_}, 2, "--measure: expected this machine");
  refused({"limits", "--model", path("nowhere")}, 3, "nowhere");
  refused({"limits", "--model", path("nowhere.json")}, 3, "nowhere.json: expected");
}

}  // namespace
}  // namespace slip::test
