// SPDX-License-Identifier: Apache-2.0
// `--decoder auto`, the default, through the binary: the tokens of every exact decoder, what it says of its choice, and what it keeps.
#include <algorithm>
#include <cstdlib>

#include "base/must_testing.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Auto : public Small {
 protected:
  // Costs of this test alone; Process leaves the variable as it is where there is one.
  Auto() { ::setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~Auto() override { ::unsetenv("XDG_CACHE_HOME"); }
  std::vector<fs::path> kept(std::string_view kind) const {
    std::vector<fs::path> files;
    std::error_code ec;
    for (const auto& f : fs::directory_iterator(path("cache/slipstream"), ec))
      if (f.path().filename().string().starts_with(kind)) files.push_back(f.path());
    return files;
  }
};

TEST_F(Auto, IsTheDefaultAndGivesTheTokensOfEveryExactDecoder) {
  for (const char* law : {"chain", "graph"})
    for (const Words& sampled :
         {Words{}, Words{"--temperature", "0.8", "--seed", "4"}, Words{"--max-rows", "4", "--law", "graph"}}) {
      Words with = joined(sampled, {});
      if (std::find(with.begin(), with.end(), "--law") == with.end()) with = joined(with, {"--law", law});
      const json::value slow = run_json(over(joined({"--decoder", "scaffold-ar"}, with))), own = run_json(over(with));
      const json::value named = run_json(over(joined({"--decoder", "auto"}, with)));
      EXPECT_EQ(own.at("tokens"), slow.at("tokens")) << law;
      EXPECT_EQ(named.at("tokens"), slow.at("tokens")) << law;
      EXPECT_EQ(own.at("decoder").at("preset"), "auto");
      EXPECT_FALSE(own.at("decoder").at("lossy").as_bool());
      EXPECT_EQ(own.at("decoder").at("verifier"), "exact");
    }
}

TEST_F(Auto, SaysWhatItChoseAndWhy) {
  const json::value v = run_json(over({}));
  const json::value& chosen = v.at("decoder").at("chosen");
  ASSERT_EQ(missing_keys(chosen, {"decoder", "why", "expected_ms", "costs", "calibrated", "considered_ms"}), "");
  EXPECT_TRUE(chosen.at("considered_ms").as_object().contains(chosen.at("decoder").as_string()));
  EXPECT_GT(chosen.at("expected_ms").to_number<double>(), 0);
  Words words = over({"--verbose"});
  const Ran ran = run(words);
  EXPECT_NE(ran.err.find("\nauto: "), std::string::npos) << ran.err;
  EXPECT_FALSE(run_json(over({"--decoder", "scaffold-ar"})).at("decoder").as_object().contains("chosen"));
}

TEST_F(Auto, MeasuresOnceAndKeepsWhatItFound) {
  const auto costs = [&] { return std::string(run_json(over({})).at("decoder").at("chosen").at("costs").as_string()); };
  EXPECT_EQ(costs(), "measured now");
  ASSERT_EQ(kept("costs-").size(), 1u);
  const fs::path file = kept("costs-").front();
  const std::string whole = read_bytes(file);
  EXPECT_EQ(costs(), "kept from an earlier run");
  write_bytes(file, whole.substr(0, whole.size() / 2));  // an answer that took twice as long as its costs may have dropped it
  EXPECT_EQ(costs(), "measured now") << "half a file";
  EXPECT_GT(read_bytes(file).size(), whole.size() / 2);
  EXPECT_EQ(run_json(over({"--threads", "1"})).at("decoder").at("chosen").at("costs"), "measured now") << "other threads";
  EXPECT_EQ(kept("costs-").size(), 2u);
}

/// A choice is made again from what was foretold, for requests of the same kind alone, and never from half a file.
TEST_F(Auto, KeepsWhatItForetoldForRequestsOfTheSameKind) {
  const std::string form = write("form.json", kSmallForm);
  fs::path costs;
  std::string prices;  // an answer that took four times as long as they say drops them
  const auto why = [&](const Words& more) {
    if (!prices.empty()) write_bytes(costs, prices);
    const json::value v = run_json(joined({"run", "--model", small_, "--form", form, "--prompt", "go on"}, more));
    return std::string(v.at("decoder").at("chosen").at("why").as_string());
  };
  const std::string first = why({});
  ASSERT_EQ(kept("costs-").size(), 1u);
  costs = kept("costs-").front();
  prices = read_bytes(costs);
  ASSERT_EQ(kept("forecasts-").size(), 1u);
  const fs::path file = kept("forecasts-").front();
  const std::string whole = read_bytes(file);
  EXPECT_EQ(why({}), first);
  EXPECT_EQ(read_bytes(file), whole);
  EXPECT_EQ(kept("forecasts-").size(), 1u);
  why({"--law", "graph"});
  EXPECT_EQ(kept("forecasts-").size(), 2u) << "another visibility";
  write_bytes(file, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(why({}), first) << "half a file";
  EXPECT_EQ(read_bytes(file), whole);
  write("form.json", R"({"type": "object", "properties": {"light": {"enum": ["red", "green"]}}})");
  EXPECT_NE(why({}), first) << "another form of the same name";
  EXPECT_EQ(kept("forecasts-").size(), 3u);
}

/// A program that PATH finds is known by its file, not by the word that it was called by: a new one measures anew.
TEST_F(Auto, MeasuresAnewWhereTheProgramIsAnother) {
  fs::create_directories(path("bin"));
  const fs::path own = path("bin/slipstream");
  fs::copy_file(SLIP_BINARY, own);
  std::string line = "PATH=" + path("bin") + ":$PATH slipstream";
  for (const std::string& word : over({"--json"})) line += " '" + word + "'";
  line += " > " + path("out.json");
  const auto costs = [&] {
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    const json::value v = must(parse_json(read_bytes(path("out.json")), "out.json"));
    return std::string(v.at("decoder").at("chosen").at("costs").as_string());
  };
  EXPECT_EQ(costs(), "measured now");
  EXPECT_EQ(costs(), "kept from an earlier run");
  fs::last_write_time(own, fs::last_write_time(own) + std::chrono::seconds(1));
  EXPECT_EQ(costs(), "measured now");
}

TEST_F(Auto, RunsWhereNothingCanBeKept) {
  write("cache", "a file where the folder would be");
  const json::value v = run_json(over({}));
  EXPECT_EQ(v.at("decoder").at("chosen").at("costs"), "measured now");
}

TEST_F(Auto, TakesAnEarlierAnswerAndNoOtherPart) {
  const json::value slow = run_json(over({"--decoder", "scaffold-ar"}));
  const std::string previous = write("previous.json", json::serialize(slow));
  const json::value v = run_json(over({"--decoder", "auto", "--drafter", "previous:" + previous}));
  EXPECT_EQ(v.at("tokens"), slow.at("tokens"));
  bool considered = false;
  for (const auto& [name, ms] : v.at("decoder").at("chosen").at("considered_ms").as_object())
    considered |= name.find("previous") != json::string::npos;
  EXPECT_TRUE(considered);
  refused(over({"--decoder", "auto", "--width", "measured"}), 2, "--width: expected none beside --decoder auto");
  refused(over({"--decoder", "auto", "--schedule", "chain"}), 2, "--schedule: expected none beside --decoder auto");
  refused(over({"--decoder", "auto", "--verifier", "relaxed:1"}), 2, "--verifier: expected none beside --decoder auto");
  refused(over({"--decoder", "auto", "--drafter", "lookup"}), 2, "--drafter: expected previous:FILE or none");
}

TEST_F(Auto, BenchDecodersPrintsItsRatios) {
  const Ran ran = run({"bench", "decoders", "--model", small_, "--form", write("form.json", kSmallForm), "--prompt", "go on",
                       "--repeats", "1", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  bool seen = false;
  for (const json::value& v : lines_of(ran)) {
    if (v.at("label") != "auto") continue;
    seen = true;
    EXPECT_TRUE(v.at("equal").as_bool());
    ASSERT_EQ(missing_keys(v.at("auto"), {"best_preset", "of_best_preset", "best_without_drafts", "of_best_without_drafts"}), "");
    EXPECT_GT(v.at("auto").at("of_best_preset").to_number<double>(), 0);
  }
  EXPECT_TRUE(seen) << ran.out;
}

}  // namespace
}  // namespace slip::test
