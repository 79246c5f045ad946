// SPDX-License-Identifier: Apache-2.0
// `bench prefill`, `bench vision` and `bench answer` through the binary over small models: every stage has its number, the answer is
// the recorded one, and what is extrapolated says so.
#include <map>
#include <set>
#include <sstream>

#include "tests/cli/process.h"

namespace slip::test {
namespace {

class Bench : public Cli {
 protected:
  std::vector<json::value> lines(const std::vector<std::string>& arguments) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<json::value> out;
    for (size_t at = 0; at < ran.out.size();) {
      const size_t end = ran.out.find('\n', at);
      out.push_back(json::parse(ran.out.substr(at, end - at)));
      at = end == std::string::npos ? ran.out.size() : end + 1;
    }
    return out;
  }
  static double number(const json::value& v, const char* key) { return v.at(key).to_number<double>(); }
};

TEST_F(Bench, ForwardTakesSeveralTypesAndTellsProductsFromPasses) {
  const auto all = lines({"bench", "forward", "--model", fixture("models/qwen2"), "--dtype", "bf16,int8", "--widths", "1,8",
                          "--keys", "20", "--seconds", "0.02", "--json"});
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].at("type").as_string(), i < 2 ? "bf16" : "int8");
    EXPECT_EQ(all[i].at("rows").as_int64(), i % 2 == 0 ? 1 : 8);
    for (const char* key : {"ms", "products_ms", "products_share", "pass_over_products"}) EXPECT_GT(number(all[i], key), 0) << key;
    EXPECT_GE(all[i].at("samples").as_int64(), 1);
    for (const char* key : {"over_first", "products_over_first"})
      EXPECT_TRUE(all[i].at(key).is_double() || all[i].at(key).is_null()) << key << ": on every line";
  }
}

TEST_F(Bench, WhatSaysNothingBesideAnotherOptionIsRefused) {
  const std::string model = SLIP_SOURCE_DIR "/models/tri";
  refused({"bench", "serve", "--model", model, "--rates", "1", "--clients", "2"}, 2, "--rates excludes --clients");
  refused({"bench", "serve", "--model", model, "--rates", "1", "--hz", "2"}, 2, "--rates excludes --hz");
  refused({"bench", "serve", "--url", "http://x:1", "--model", model}, 2, "--url excludes --model");
  refused({"bench", "serve", "--url", "http://x:1", "--dtype", "int8"}, 2, "--url excludes --dtype");
  refused({"bench", "answer", "--model", model, "--recorded", "--scene", "5"}, 2, "--scene excludes --recorded");
  refused({"bench", "answer", "--model", model, "--every", "4", "--repeats", "5"}, 2, "--repeats excludes --every");
  refused({"bench", "answer", "--model", model, "--image", "x.png", "--scene", "5"}, 2, "--scene excludes --image");
  refused({"bench", "answer", "--model", model, "--no-images", "--scene", "5"}, 2, "--scene excludes --no-images");
  refused({"bench", "answer", "--model", model, "--image", "x.png", "--no-images"}, 2, "--no-images excludes --image");
  refused({"bench", "forward", "--model", model, "--widths", "8,8"}, 2, "expected each once, got 8 twice");
  refused({"bench", "text", "--model", model, "--decoders", "ar,ar"}, 2, "expected each once, got ar twice");
  refused({"simulate", "--picture", path("a.png"), "--out", path("set")}, 2, "--picture excludes --out");
  refused({"simulate", "--picture", path("a.png"), "--ensemble", "3", "--careful"}, 2, "--picture excludes --ensemble");
  refused({"simulate", "--picture", path("a.png"), "--careful"}, 2, "--picture excludes --careful");
  for (const char* other : {"--driven", "--driver", "--ensemble", "--perturbed", "--seed"})
    refused({"simulate", "--list-families", other, "1"}, 2, fmt::format("--list-families excludes {}", other));
  refused({"import", "wod-e2e", path("x"), "--out", path("set"), "--every", "2"}, 2, "--every: belongs to comma2k19 and mcap");
  refused({"import", "conversations", path("x"), "--out", path("set"), "--no-pictures"}, 2, "--no-pictures: belongs to");
}

// Decoders that are compared hear the same questions at the same times, whatever their place in the list.
TEST_F(Bench, ServeAsksEveryDecoderTheSameQuestions) {
  const auto asked = [&](const char* decoders) {
    std::map<std::string, std::pair<int64_t, double>> out;
    const Ran ran = run({"bench", "serve", "--model", SLIP_SOURCE_DIR "/models/demo", "--rates", "12", "--decoders", decoders,
                         "--turns", "1", "--seconds", "1", "--scenes", "2", "--threads", "1", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      const json::value v = *parse_json(line, "line");
      out[std::string(v.at("decoder").as_string())] = {v.at("asked").as_int64(), v.at("seconds").to_number<double>()};
    }
    return out;
  };
  const auto one = asked("ar,scaffold-ar"), other = asked("scaffold-ar,ar");
  ASSERT_EQ(one.size(), 2u);
  EXPECT_GT(one.at("ar").first, 3);
  EXPECT_EQ(one.at("ar").first, one.at("scaffold-ar").first);
  EXPECT_EQ(one.at("ar").first, other.at("ar").first);
  for (const auto& [decoder, seen] : one)
    EXPECT_GE(seen.second, 1) << "a rate is of the whole time, not of that until the last answer";
  const Ran none = run({"bench", "serve", "--model", SLIP_SOURCE_DIR "/models/demo", "--rates", "0.01", "--decoders", "ar",
                        "--turns", "1", "--seconds", "0.1", "--scenes", "1", "--json"});
  EXPECT_TRUE(parse_json(none.out, "stdout")->at("answer_ms").at("p50").is_null()) << none.out;
  EXPECT_NE(none.err.find("nobody asked within 0.1 s"), std::string::npos) << none.err;
}

TEST_F(Bench, PrefillIsAPassWhoseLastRowSpeaks) {
  const auto all =
      lines({"bench", "prefill", "--model", fixture("models/qwen2"), "--widths", "16,64", "--seconds", "0.02", "--json"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("bench").as_string(), "prefill");
  EXPECT_EQ(all[1].at("rows").as_int64(), 64);
  EXPECT_GT(number(all[1], "share"), 0);
}

TEST_F(Bench, VisionTimesEveryStage) {
  const auto all = lines({"bench", "vision", "--model", fixture("models/qwen2_5_vl"), "--cameras", "2", "--width", "90", "--height",
                          "70", "--repeats", "2", "--json"});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("images").to_number<int64_t>(), 2);
  EXPECT_GT(number(all[0], "patches"), 0);
  EXPECT_GT(number(all[0], "samples"), 0);
  EXPECT_TRUE(all[0].at("steady").is_bool());
  const json::value& ms = all[0].at("ms");
  double stages = 0;
  for (const char* key : {"patch_embed", "windowed_blocks", "full_blocks", "merger"}) stages += number(ms, key);
  for (const char* key : {"decode", "resize", "tower"}) EXPECT_GT(number(ms, key), 0) << key;
  EXPECT_GT(stages, 0);
  const auto file = lines(
      {"bench", "vision", "--model", fixture("models/qwen2_5_vl"), "--image", fixture("models/qwen2_5_vl/image_0.png"), "--json"});
  EXPECT_EQ(file.at(0).at("images").to_number<int64_t>(), 1);
  refused({"bench", "vision", "--model", fixture("models/qwen2")}, 4, "vision tower");
  refused({"bench", "vision", "--model", fixture("models/qwen2_5_vl"), "--image", path("nowhere.png")}, 3, "nowhere.png");
}

TEST_F(Bench, AnswerGivesMillisecondsPerStage) {
  const auto all = lines({"bench", "answer", "--model", fixture("models/qwen2_5_vl"), "--rows", "800", "--json"});
  ASSERT_EQ(all.size(), 4u);
  for (const json::value& v : all) {
    const std::string preset(v.at("preset").as_string());
    const json::value& ms = v.at("ms");
    double sum = 0;
    for (const char* key : {"admit", "encode", "form", "prefill", "draft", "verify", "commit", "plan"}) sum += number(ms, key);
    EXPECT_NEAR(number(ms, "total"), sum, 1e-6 * sum);
    for (const char* key : {"encode", "prefill", "verify"}) EXPECT_GT(number(ms, key), 0) << preset << " " << key;
    EXPECT_EQ(v.at("extrapolated").as_bool(), preset.ends_with("ar")) << preset;
    EXPECT_EQ(number(ms, "draft") > 0, preset.ends_with("spec")) << preset;
  }
  refused({"bench", "answer", "--model", fixture("models/qwen2_5_vl"), "--rows", "300"}, 2, "--rows: expected at least 7");
  const std::string picture = fixture("models/qwen2_5_vl/image_0.png");
  refused({"bench", "answer", "--model", fixture("models/qwen2"), "--image", picture}, 4, "--image: expected a model with");
  const auto asked = lines(
      {"bench", "answer", "--model", fixture("models/qwen2_5_vl"), "--image", picture, "--decoders", "scaffold-spec", "--json"});
  EXPECT_GT(number(asked.at(0).at("ms"), "encode"), 0);
  EXPECT_EQ(all[0].at("forwards").as_int64(), 404);
  const double per_pass = number(all[2], "tokens_per_forward");
  EXPECT_EQ(all[2].at("tokens").as_int64(), 404);
  EXPECT_NEAR(per_pass, 4.9, 0.5) << "five seeds set the odds, one is run";
}

// Whole times are the machine's; that all of it has a name is the program's. What lies between two scopes is some function calls.
TEST_F(Bench, AnAnswerInTheModelsOwnFormIsAccountedForByOperation) {
  const auto all = lines(
      {"bench", "answer", "--model", demo_model() + "-cot", "--decoders", "ar,fields,fields-spec", "--repeats", "1", "--json"});
  ASSERT_EQ(all.size(), 3u);
  for (const json::value& v : all) {
    double operations = 0, stages = 0;
    std::set<std::string> of_prefill;
    for (const json::value& o : v.at("operations").as_array()) {
      operations += number(o, "ms");
      if (o.at("stage").as_string() == "prefill") of_prefill.insert(std::string(o.at("operation").as_string()));
    }
    for (const auto& stage : v.at("ms").as_object()) stages += stage.value().to_number<double>();
    const double total = number(v, "total_ms");
    EXPECT_NEAR(operations, total, 1e-6 * total);
    EXPECT_NEAR(stages, total, 1e-6 * total);
    EXPECT_GT(number(v, "named_ms"), 0.95 * total);
    for (const char* stage : {"form", "encode", "prefill", "verify", "commit", "plan"})
      EXPECT_GT(number(v.at("ms"), stage), 0) << stage;
    for (const char* name : {"qkv product", "attention", "o product", "gate and up product", "activation", "down product",
                             "norm and packing", "rotation and storing keys", "embedding"})
      EXPECT_EQ(of_prefill.count(name), 1u) << name;
    EXPECT_EQ(v.at("tokens").as_int64(), all[0].at("tokens").as_int64());
  }
  refused({"bench", "answer", "--model", fixture("models/qwen2_5_vl"), "--decoders", "auto"}, 2, "auto");
}

TEST_F(Bench, AnswerLeavesOutTheRowsOfTheFrameBefore) {
  const std::vector<std::string> request{"bench",      "answer",        "--model", fixture("models/qwen2_5_vl"), "--rows", "800",
                                         "--decoders", "scaffold-spec", "--json"};
  std::vector<std::string> again = request;
  again.push_back("--reuse");
  const auto whole = lines(request), rest = lines(again);
  EXPECT_EQ(whole.at(0).at("reused_rows").as_int64(), 0);
  const int64_t reused = rest.at(0).at("reused_rows").as_int64();
  EXPECT_GT(reused, 0);
  EXPECT_EQ(rest.at(0).at("rows").as_int64(), whole.at(0).at("rows").as_int64() - reused);
}

TEST_F(Bench, TextIsAskedOfAutoAndWithMeasuredLengthsToo) {
  const auto all = lines({"bench", "text", "--model", SLIP_SOURCE_DIR "/models/tri", "--decoders",
                          "ar,auto,self-spec/exact/measured", "--count", "6", "--json"});
  ASSERT_EQ(all.size(), 3U);
  for (const json::value& v : all) {
    EXPECT_EQ(number(v, "as_first"), 1) << "exact decoders have the same texts: " << json::serialize(v);
    EXPECT_GT(number(v, "right"), 0.5);
  }
  EXPECT_TRUE(all[0].at("chosen").is_null());
  EXPECT_FALSE(all[1].at("chosen").as_string().empty());
  EXPECT_GE(number(all[2], "tokens_per_forward"), 1) << "how much it drafts goes by what passes cost here";
  refused({"bench", "text", "--model", SLIP_SOURCE_DIR "/models/tri", "--decoders", "nonsense"}, 2, "got 'nonsense'");
  refused({"bench", "text", "--model", SLIP_SOURCE_DIR "/models/tri", "--decoders", "self-spec/exact/measured", "--calibrate",
           path("w.json")},
          2, "expected a fixed draft length");
}

}  // namespace
}  // namespace slip::test
