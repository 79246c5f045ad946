// SPDX-License-Identifier: Apache-2.0
// `bench decoders` beside a drafter with passes of its own: what acceptance and the costs of the same run promise (docs/lab/0005), for a
// second model and for a draft head, and nothing of the kind for decoders without one.
#include <cmath>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class BenchDecoders : public Small {
 protected:
  /// The lines of a run, by label.
  std::map<std::string, json::value> lines(Words more) {
    Words ask{"bench", "decoders", "--prompt", "go on", "--repeats", "2", "--json"};
    ask.insert(ask.end(), more.begin(), more.end());
    const Ran ran = run(ask);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::map<std::string, json::value> out;
    for (const json::value& v : lines_of(ran)) {
      expect_bench_line(v);
      out.emplace(v.at("label").as_string(), v);
    }
    return out;
  }
};

double number(const json::value& v, const char* key) { return v.at(key).to_number<double>(); }

/// 1 + a + .. + a^g tokens a round, over what the round costs in steps of the model.
double promised(double a, int g, double drafts_cost) {
  double tokens = 0;
  for (int i = 0; i <= g; ++i) tokens += std::pow(a, i);
  return tokens / (1 + drafts_cost);
}

void expect_prediction(const json::value& line, int gamma, bool one_pass) {
  const json::value &p = line.at("prediction"), &s = line.at("statistics");
  ASSERT_TRUE(p.is_object()) << json::serialize(line);
  const double alpha = number(s, "accepted") / number(s, "tested"), c = number(p, "c");
  EXPECT_EQ(number(p, "alpha"), alpha);
  EXPECT_EQ(number(p, "gamma"), gamma);
  EXPECT_GT(c, 0);
  EXPECT_NEAR(number(p, "speedup"), promised(alpha, gamma, one_pass ? c : c * gamma), 1e-9);
  EXPECT_GT(number(p, "measured"), 0);
  EXPECT_GT(number(p, "with_prefills"), 0);
  // At most n - 1 steps behind the prompt against the fewest rounds less the first: where the prompts and the drafter cost nothing.
  const double drawn = number(s, "tokens") - number(s, "forced_tokens"), rounds = std::ceil(drawn / (gamma + 1));
  ASSERT_GT(rounds, 1) << drawn;
  EXPECT_LE(number(p, "with_prefills"), (drawn - 1) / (rounds - 1));
  EXPECT_GT(number(s, "drafter_forwards"), 0);
}

TEST_F(BenchDecoders, PutsTheFormulaBesideASecondModel) {
  const std::string small = fixture("decode/models/small"), form = write("form.json", kSmallForm);
  for (const Words& over : {Words{"--form", form}, Words{"--form", "none", "--max-tokens", "24"}}) {
    Words ask{"--model", small, "--draft-model", small};
    ask.insert(ask.end(), over.begin(), over.end());
    const auto all = lines(ask);
    expect_prediction(all.at("draft-model"), 4, false);
    EXPECT_EQ(number(all.at("draft-model").at("prediction"), "alpha"), 1) << "the model drafts for itself";
    for (const auto& [label, line] : all)
      if (label != "draft-model") {
        EXPECT_TRUE(line.at("prediction").is_null()) << label;
      }
    EXPECT_FALSE(all.contains("dflash")) << "it needs --dflash";
  }
}

TEST_F(BenchDecoders, PutsTheFormulaBesideASecondModelAlongAGraph) {
  const std::string small = fixture("decode/models/small"), form = write("form.json", kSmallForm);
  const auto all = lines({"--model", small, "--draft-model", small, "--form", form, "--law", "graph"});
  expect_prediction(all.at("draft-model"), 4, false);
  EXPECT_EQ(number(all.at("draft-model").at("prediction"), "alpha"), 1);
}

TEST_F(BenchDecoders, CountsAHeadsDraftsAsOnePass) {
  const std::string target = copy_fixture("models/qwen3", "qwen3");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    write_bytes(fs::path(target) / file, read_bytes(fs::path(fixture("decode/models/small")) / file));
  const auto all = lines(
      {"--model", target, "--dflash", fixture("models/qwen3_dflash"), "--form", "none", "--max-tokens", "24", "--dtype", "f32"});
  expect_prediction(all.at("dflash"), 15, true);
  EXPECT_FALSE(all.contains("draft-model")) << "it needs --draft-model";
}

TEST_F(BenchDecoders, NamesEachLineByThePresetThatRuns) {
  const std::string small = fixture("decode/models/small"), form = write("form.json", kSmallForm);
  for (const auto& [over, lookup] : {std::pair{Words{"--form", "none", "--max-tokens", "8"}, "ar lookup"},
                                     {Words{"--form", form}, "scaffold-ar lookup"},
                                     {Words{"--form", form, "--law", "graph"}, "fields lookup"}}) {
    Words ask{"--model", small};
    ask.insert(ask.end(), over.begin(), over.end());
    const auto all = lines(ask);
    EXPECT_TRUE(all.contains(lookup));
    for (const auto& [label, line] : all) {
      const std::string preset(line.at("decoder").at("preset").as_string());
      EXPECT_TRUE(label == preset || label.starts_with(preset + " ")) << label << " runs " << preset;
    }
  }
}

}  // namespace
}  // namespace slip::test
