// SPDX-License-Identifier: Apache-2.0
// `synthesize` and `quantize` as a person runs them: folders that the other commands take, errors, and Ctrl-C that leaves nothing.
#include <csignal>
#include <thread>

#include "tests/cli/process.h"

namespace slip::test {
namespace {

using namespace std::chrono_literals;

class CliQuantize : public Cli {
 protected:
  std::string tiny(const std::string& like, const std::string& name) {
    run_json({"synthesize", "--like", like, "--tiny", "--out", path(name)});
    return path(name);
  }
  static size_t entries(const std::string& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
};

TEST_F(CliQuantize, SyntheticFolderIsInspectedAndAnswers) {
  const std::string model = tiny("qwen2.5-vl-3b", "vl");
  const json::value seen = run_json({"inspect", model});
  EXPECT_EQ(seen.at("architecture").as_string(), "Qwen2_5_VLForConditionalGeneration");
  EXPECT_EQ(seen.at("memory").as_object().size(), 4U);
  const json::value answer =
      run_json({"run", "--model", model, "--form", "none", "--prompt", "hello", "--decoder", "ar", "--max-tokens", "5"});
  EXPECT_GE(answer.at("tokens").as_array().size(), 1U);
}

TEST_F(CliQuantize, PackedFolderAnswersLikeItsTypeAtStart) {
  const std::string model = tiny("qwen2.5-vl-3b", "vl");
  for (const char* type : {"int8", "int4"}) {
    const std::string packed = path(std::string("packed-") + type);
    const json::value report = run_json({"quantize", model, "--type", type, "--out", packed});
    EXPECT_GT(report.at("errors").at("against_bf16").at("relative_error_of_logits").to_number<double>(), 0);
    const json::value seen = run_json({"inspect", packed});
    EXPECT_EQ(seen.at("packed").at("type").as_string(), type);
    EXPECT_EQ(seen.at("memory").as_object().size(), 1U);
    EXPECT_EQ(seen.at("parameters"), run_json({"inspect", model}).at("parameters"));
    const std::vector<std::string> ask = {"--form", "none", "--prompt", "turn left", "--decoder", "ar", "--max-tokens", "12"};
    std::vector<std::string> one = {"run", "--model", packed}, other = {"run", "--model", model, "--dtype", type};
    one.insert(one.end(), ask.begin(), ask.end());
    other.insert(other.end(), ask.begin(), ask.end());
    EXPECT_EQ(run_json(one).at("tokens"), run_json(other).at("tokens"));
    refused({"run", "--model", packed, "--dtype", "bf16", "--form", "none", "--prompt", "x"}, 4, "--dtype");
    refused({"quantize", packed, "--type", type, "--out", path("again")}, 3, "packed already");
  }
}

TEST_F(CliQuantize, DrivingModelReportsItsAgreement) {
  const json::value report = run_json({"quantize", demo_model(), "--type", "int8", "--out", path("demo"), "--records", "1"});
  const json::object& same = report.at("errors").at("greedy_answers").as_object();
  EXPECT_EQ(same.at("records").to_number<int>(), 1);
  EXPECT_GT(same.at("same_fields").to_number<double>(), 0.5);
}

TEST_F(CliQuantize, GrowMakesALargerModelThatAnswersTheSame) {
  const std::string small = demo_model().substr(0, demo_model().rfind('/')) + "/tri", large = path("large");
  const json::value made = run_json({"grow", small, "--times", "4", "--layers", "2", "--out", large});
  EXPECT_GT(made.at("parameters").as_int64(), 16 * made.at("parameters_before").as_int64());
  const auto answer = [&](const std::string& model, const char* decoder) {
    return run_json({"run", "--model", model, "--form", "none", "--decoder", decoder, "--prompt", "What is ahead?", "--max-tokens",
                     "12"})
        .at("tokens");
  };
  if (made.at("same_bits").at("avx512").as_bool() ||
      run_json({"verify", "--model", small, "--max-width", "1"}).at("bits") == "avx2") {
    EXPECT_EQ(answer(large, "ar"), answer(small, "ar"));
    EXPECT_EQ(answer(large, "self-spec"), answer(small, "ar"));
  }
  refused({"grow", small, "--times", "4", "--out", large}, 3, "exists");
  refused({"grow", small, "--times", "3", "--out", path("x")}, 2, "1, 4, 16 or 64");
  refused({"grow", small, "--times", "0", "--out", path("x")}, 2, "--times");
  refused({"grow", path("nowhere"), "--out", path("x")}, 3, "nowhere");
  refused({"grow", small, "--times", "4"}, 2, "--out");
}

// A weight that was changed is a weight: only the checksum tells.
TEST_F(CliQuantize, VerifyFindsPackedWeightsThatWereChanged) {
  const std::string model = tiny("qwen2.5-0.5b", "text"), packed = path("packed");
  ASSERT_EQ(run({"quantize", model, "--type", "int8", "--out", packed}).code, 0);
  const auto checked = [&] { return run({"verify", "--model", packed, "--max-width", "2", "--json"}); };
  const Ran whole = checked();
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, testing::HasSubstr("\"check\":\"weights\""));
  const std::string file = packed + "/model.safetensors";
  std::string bytes = read_bytes(file);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(file, bytes);
  const Ran changed = checked();
  EXPECT_EQ(changed.code, 6) << changed.err;
  EXPECT_THAT(changed.err, testing::HasSubstr("verify: weights: model.safetensors: expected checksum"));
}

TEST_F(CliQuantize, RefusesWhatItCannotDo) {
  const std::string model = tiny("qwen2.5-0.5b", "text");
  refused({"synthesize", "--like", "qwen9", "--out", path("x")}, 2, "qwen2.5-vl-3b");
  refused({"synthesize", "--like", "qwen2.5-0.5b", "--dtype", "int8", "--out", path("x")}, 4, "quantize");
  refused({"synthesize", "--like", "qwen2.5-0.5b", "--tiny", "--out", model}, 3, "exists");
  refused({"quantize", model, "--type", "int8", "--out", model}, 3, "exists");
  refused({"quantize", model, "--type", "int8", "--out", "/proc/x"}, 3, "expected a folder that can be made");
  refused({"quantize", path("nothing"), "--type", "int8", "--out", path("x")}, 3, "config.json");
  refused({"quantize", model, "--type", "int3", "--out", path("x")}, 2, "--type");
}

// Interrupts a command once its output folder is being filled; it must be gone, whole, within a second.
void expect_nothing_left(const fs::path& work, const std::vector<std::string>& arguments, int signal) {
  fs::create_directories(work / "streams");
  fs::create_directories(work / "out");
  Process process(work / "streams", arguments);
  const auto filled = [&] {
    for (const auto& folder : fs::directory_iterator(work / "out")) return !fs::is_empty(folder.path());
    return false;
  };
  for (int i = 0; i < 20000 && !filled(); ++i) std::this_thread::sleep_for(1ms);
  const auto start = std::chrono::steady_clock::now();
  process.send(signal);
  const Ran ran = process.wait(20s);
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_TRUE(fs::is_empty(work / "out")) << fs::directory_iterator(work / "out")->path();
}

TEST_F(CliQuantize, InterruptedOnesLeaveNothing) {
  const std::string model = path("model"), out = path("w/out/x");
  run_json({"synthesize", "--like", "qwen2.5-0.5b", "--layers", "1", "--out", model});
  for (const int signal : {SIGINT, SIGTERM}) {
    expect_nothing_left(path("w"), {"synthesize", "--like", "qwen2.5-0.5b", "--out", out}, signal);
    expect_nothing_left(path("w"), {"quantize", model, "--type", "int4", "--out", out}, signal);
  }
}

}  // namespace
}  // namespace slip::test
