// SPDX-License-Identifier: Apache-2.0
// The driving model of the tree through the binary: `run`, `eval`, `bench decoders`.
#include <algorithm>
#include <csignal>
#include <map>
#include <thread>

#include "models/draft/flow_head_testing.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

TEST_F(Demo, EveryPresetAnswersARecordAndExactOnesAgree) {
  const std::string record = simulate(3) + ":1";
  std::map<std::string, json::value> answers;
  for (const char* preset : {"scaffold-ar", "scaffold-spec", "section-diffusion", "ar"}) {
    SCOPED_TRACE(preset);
    answers[preset] = run_json(ask({"--record", record, "--decoder", preset}));
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
  EXPECT_LT(answers["scaffold-spec"].at("statistics").at("forwards").as_int64(),
            answers["scaffold-ar"].at("statistics").at("forwards").as_int64());
  EXPECT_GT(answers["scaffold-ar"].at("statistics").at("forced_tokens").as_int64(), 100);
}

// Over several scenes the draft head needs fewer passes than the model's own diffusion, and its answers are those without drafts; the
// sampler's are its own.
TEST_F(Demo, ItsHeadsDraftAndCommit) {
  constexpr int kScenes = 8;
  const std::string set = simulate(kScenes), record = set + ":1", head = "dflash:" + demo_model() + "/dflash";
  const auto passes = [](const json::value& v) { return v.at("statistics").at("forwards").as_int64(); };
  const auto over_all = [&](const Words& words) {
    Words command{"eval", "--model", demo_model(), "--records", set, "--decoder", "scaffold-spec"};
    command.insert(command.end(), words.begin(), words.end());
    return run_json(command).at("forwards_per_answer").to_number<double>();
  };
  EXPECT_LT(over_all({"--drafter", head, "--width", "fixed:12"}), over_all({}));
  const json::value plain = run_json(ask({"--record", record, "--decoder", "scaffold-ar"}));
  for (const std::string& width : {std::string("fixed:12"), "blockpilot:" + demo_model() + "/blockpilot.bin"}) {
    SCOPED_TRACE(width);
    const json::value v = run_json(ask({"--record", record, "--decoder", "scaffold-spec", "--drafter", head, "--width", width}));
    EXPECT_EQ(v.at("tokens"), plain.at("tokens"));
    EXPECT_LT(passes(v), passes(plain) / 2);
  }
  const json::value v = run_json(
      ask({"--record", record, "--decoder", "section-diffusion", "--verifier", "sampler:" + demo_model() + "/commit_sampler"}));
  expect_driving_answer(v);
  EXPECT_LT(passes(v), passes(plain) / 2);
}

// Whose plan it is stands beside it, early ones come before, and what cannot be is refused with its own exit code.
TEST_F(Demo, ATrajectoryHeadPlansInItsPlace) {
  DecoderOptions shape{};
  shape.layers = 5, shape.heads = 7, shape.kv_heads = 1, shape.head_width = 32, shape.rope.theta = 1e4;
  RandomHeadWriter(shape, {.until = "trajectory"}).write(path("cut"));
  RandomHeadWriter(shape, {.reads = "answer"}).write(path("whole"));
  const std::string record = simulate(1) + ":0", cot = (fs::path(demo_model()).parent_path() / "demo-cot").string();
  const json::value own = run_json(ask({"--record", record}));
  EXPECT_EQ(own.at("plan_source").as_string(), "answer");
  const json::value v = run_json(ask({"--record", record, "--trajectory-head", path("cut"), "--fast-plan"}));
  expect_result_keys(v, true);
  EXPECT_EQ(v.at("tokens"), own.at("tokens"));
  EXPECT_EQ(v.at("plan_source").as_string(), "head");
  EXPECT_EQ(v.at("answer_trajectory"), own.at("trajectory"));
  EXPECT_EQ(v.at("trajectory").at("fit").at("points").as_array().size(), 25u);
  ASSERT_EQ(v.at("early_plans").as_array().size(), 3u);
  EXPECT_EQ(v.at("early_plans").at(0).at("after_section").as_string(), "prompt");
  EXPECT_EQ(v.at("early_plans").at(0).at("forwards").as_int64(), 1);
  EXPECT_GT(v.at("statistics").at("ms").at("trajectory_head").to_number<double>(), 0);
  EXPECT_EQ(run_json(ask({"--record", record, "--trajectory-head", path("cut")})).at("trajectory"), v.at("trajectory"));
  refused(ask({"--record", record, "--fast-plan"}), 2, "--trajectory-head");
  refused(ask({"--record", record, "--trajectory-head", path("whole"), "--fast-plan"}), 4, "cut");
  refused(ask({"--record", record, "--trajectory-head", path("nowhere")}), 3, "nowhere");
  refused(ask({"--record", record, "--trajectory-head", model_}), 3, "flow_head");
  refused(ask({"--form", "none", "--prompt", "where to?", "--trajectory-head", path("cut")}), 2, "form");
  refused({"run", "--model", cot, "--record", record, "--trajectory-head", path("cut")}, 4, "graph visibility");
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

// With the built-in's longer budgets, which the model never saw, it answered nonsense.
TEST_F(Demo, TheNameOfItsFormMeansItsOwnBudgetsIncluded) {
  const std::string record = simulate(1) + "/shard-00000.slip:0";
  const json::value v = run_json(ask({"--record", record, "--form", "wod-e2e"}));
  expect_driving_answer(v);
  EXPECT_EQ(v.at("tokens"), run_json(ask({"--record", record})).at("tokens"));
  for (const char* name : {"drive-cot", "model"})
    EXPECT_EQ(run_json({"form", name, "--model", demo_model() + "-cot"}).at("positions"),
              run_json({"form", "model", "--model", demo_model() + "-cot"}).at("positions"));
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
  run_json(ask({"--record", path("set") + ":0", "--picture", path("picture.svg")}));
  EXPECT_NE(read_bytes(path("picture.svg")).find("<svg"), std::string::npos);
  refused(ask({"--record", path("set") + ":0", "--picture", "/dev/null/where.png"}), 3, "where.png");
}

TEST_F(Demo, DrawsWhereItIsToldToAndNowhereElse) {
  const Ran plain = run({"demo", "--model", model_});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out.find("picture:"), std::string::npos) << plain.out;
  const Ran drawn = run({"demo", "--model", model_, "--picture", path("new/demo.png")});
  EXPECT_NE(drawn.out.find("picture: " + path("new/demo.png")), std::string::npos) << drawn.out;
  EXPECT_TRUE(read_bytes(path("new/demo.png")).starts_with("\x89PNG"));
}

TEST_F(Demo, RunsInTheTypeThatItIsToldTo) {
  EXPECT_EQ(run_json({"demo", "--model", model_, "--dtype", "int8"}).at("dtype").as_string(), "int8");
  refused({"demo", "--model", model_, "--grow", "4", "--picture", path("grown.png")}, 2, "--picture");
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
  // Where there are none beside the checkout, the fixtures' JPEGs.
  const std::string folder = shared_data("images").value_or(fixture("images/files"));
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
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
    const json::value& d = v.at("decoder");
    const bool plain = d.at("drafter") == "none" || d.at("width") == "blocks";  // presets as they are, no other parts
    if (plain) forwards[std::string(d.at("preset").as_string())] = v.at("statistics").at("forwards").as_int64();
  }
  ASSERT_TRUE(forwards.contains("ar") && forwards.contains("scaffold-ar") && forwards.contains("scaffold-spec")) << ran.out;
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
