// SPDX-License-Identifier: Apache-2.0
// What `drive` and the tables of `eval` promise at the command line: equal bytes in two runs, studies that go on, words for what is wrong.
#include "base/file.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Drive : public Demo {
 protected:
  static Words drive(std::initializer_list<std::string> more) {
    Words out{"drive", "--family", "lead_stopped"};
    out.insert(out.end(), more);
    return out;
  }
  std::string text(const std::string& name) const { return read_file(path(name)).value_or("none"); }
};

TEST_F(Drive, TwoRunsGiveTheSameBytes) {
  const Words words = drive({"--model", model_, "--delays", "800", "--baselines", "expert,idm", "--json"});
  const Ran first = run(words), second = run(words);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  const auto v = parse_json(first.out, "stdout");
  ASSERT_TRUE(v);
  const json::array& rows = v->at("rows").as_array();
  ASSERT_EQ(rows.size(), 3U);
  for (const json::value& row : rows)
    EXPECT_EQ(missing_keys(row, {"entrant", "scenes", "score_interval", "success", "nc", "ttc", "ep", "comfort", "ncap",
                                 "latency_ms", "age_ms"}),
              "");
  EXPECT_EQ(rows[1].at("latency_ms").to_number<double>(), 800);
}

TEST_F(Drive, FollowsTheAverageOfDrawnPlans) {
  const auto drawn = [&](const std::string& rollouts) {
    return run(drive({"--model", model_, "--decoder", "scaffold-spec", "--delays", "1500", "--rollouts", rollouts,
                      "--section-temperature", "trajectory=0.9", "--json"}));
  };
  const Ran four = drawn("4"), again = drawn("4"), one = drawn("1");
  ASSERT_EQ(four.code, 0) << four.err;
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(four.out, again.out) << "draws are keyed by the scene and the moment";
  const auto a = parse_json(four.out, "four"), b = parse_json(one.out, "one");
  ASSERT_TRUE(a && b);
  const json::value &x = a->at("rows").at(0), &y = b->at("rows").at(0);
  EXPECT_EQ(x.at("driver"), "scaffold-spec rollouts:4 trajectory=0.9");
  EXPECT_GT(x.at("passes").to_number<double>(), y.at("passes").to_number<double>());
  refused(drive({"--model", model_, "--rollouts", "4"}), 2, "--section-temperature");
  refused(drive({"--model", model_, "--rollouts", "4", "--section-temperature", "nowhere=1"}), 3, "nowhere");
}

TEST_F(Drive, AStudyGoesOnBehindTheLinesThatAreThere) {
  const Words words = drive({"--baselines", "expert,stay", "--count", "2", "--out", path("drives.jsonl"), "--json"});
  const Ran whole = run(words);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string lines = text("drives.jsonl");
  // Cut within the third line, as a kill would.
  const size_t second = lines.find('\n', lines.find('\n') + 1);
  write("drives.jsonl", lines.substr(0, second + 20));
  const Ran rest = run(words);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.out, whole.out);
  EXPECT_EQ(text("drives.jsonl"), lines);
  refused(drive({"--baselines", "idm", "--count", "2", "--out", path("drives.jsonl")}), 3, "expected an entrant of this study");
  // A line says whose it is and what an answer took: other prices or another model are another study.
  write("drives.jsonl",
        R"({"entrant":"expert, 100 ms","model":"","mode":"async","delay":200,"family":"lead_stopped","seed":900100000})"
        "\n");
  refused(drive({"--baselines", "expert", "--delays", "100", "--out", path("drives.jsonl")}), 3,
          "expected a drive with the delay 100");
}

TEST_F(Drive, WordsThatAreWrongAreRefusedBeforeAnybodyDrives) {
  refused(drive({}), 2, "expected a model or --baselines");
  refused(drive({"--baselines", "superhuman"}), 2, "superhuman");
  refused(drive({"--baselines", "grey-images"}), 2, "expected a model beside it");
  refused(drive({"--baselines", "steady-history"}), 2, "expected a model beside it");
  refused(drive({"--baselines", "expert,expert"}), 2, "twice");
  refused(drive({"--baselines", "expert", "--mode", "stream"}), 2, "expected --latency or --delays");
  refused({"drive", "--baselines", "expert", "--family", "moon"}, 3, "moon");
  refused(drive({"--model", model_, "--latency", write("latency.json", "{}")}), 3, "latency.json");
  refused(drive({"--baselines", "expert", "--figure", path("figure.gif")}), 2, "--figure");
  refused(drive({"--baselines", "expert", "--picture", path("picture.gif")}), 2, "--picture");
  const std::string below = write("taken", "") + "/below",
                    ever = "100000";  // of drives: whoever begins with them does not come back in time
  for (const auto& [option, ending] : {std::pair{"--csv", ".csv"}, {"--figure", ".png"}})
    refused({"drive", "--baselines", "expert", "--count", ever, option, below + ending}, 3, "taken");
  for (const char* ending : {"", ".mcap"})  // before the model, which is not there either
    refused(drive({"--model", path("nowhere"), "--video", below + ending}), 3, "taken");
  fs::create_directories(path("frames"));
  refused(drive({"--model", path("nowhere"), "--video", path("frames")}), 3, "expected the name of a new folder");
  refused(drive({"--baselines", "expert,idm", "--picture", path("picture.png")}), 2, "expected one driver in one scene");
  refused(drive({"--model", model_, "--careful"}), 2, "--careful: expected --ensemble");
}

TEST_F(Drive, AFileThatCannotBeWrittenCostsNoNumbers) {
  fs::create_symlink("/dev/full", path("full.png"));  // a disk that fills behind the drives
  const Ran whole = run(drive({"--baselines", "expert"}));
  for (const auto& [option, file] : {std::pair{"--csv", std::string("/dev/full")}, {"--figure", path("full.png")}}) {
    const Ran ran = run(drive({"--baselines", "expert", option, file}));
    EXPECT_EQ(ran.code, 5) << ran.err;
    EXPECT_EQ(ran.out, whole.out) << option;
  }
}

TEST_F(Drive, AModelIsToldOfASteadyPast) {
  const Ran ran = run(drive({"--model", model_, "--decoder", "scaffold-ar", "--baselines", "steady-history,expert", "--ensemble",
                             "3", "--careful", "--delays", "1600", "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto v = parse_json(ran.out, "result");
  ASSERT_TRUE(v);
  std::vector<std::string> drivers;
  for (const json::value& row : v->at("rows").as_array()) drivers.emplace_back(row.at("entrant").as_string());
  EXPECT_EQ(drivers, (std::vector<std::string>{"scaffold-ar temporal-ensemble:3,careful, 1600 ms",
                                               "steady-history temporal-ensemble:3,careful, 1600 ms", "expert, 1600 ms"}));
}

TEST_F(Drive, OneDriveIsLookedAtFromAboveAndStepByStep) {
  const Ran ran = run(drive({"--baselines", "expert", "--picture", path("drive.png"), "--replay", path("drive.json"), "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(text("drive.png").substr(1, 3), "PNG");
  const auto v = parse_json(text("drive.json"), "replay");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->at("steps").as_array().size(), 121U);
}

TEST_F(Drive, LatencyIsPricedByAFile) {
  const std::string file = write("latency.json", R"({"version": 1, "decoders": {"*": {"encode_ms": 100, "row_ms": 0, "pass_ms": 0,
    "decode_row_ms": 0, "plan_ms": 641}}})");
  const Ran ran = run(drive({"--model", model_, "--latency", file, "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto v = parse_json(ran.out, "stdout");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->at("rows").as_array().at(0).at("latency_ms").to_number<double>(), 750);
  EXPECT_EQ(v->at("rows").as_array().at(0).at("driver"), "scaffold-spec");
  refused(drive({"--model", model_, "--latency", file, "--decoder", "auto"}), 2, "which goes by the clock");
}

TEST_F(Drive, ModelsOfActionsDriveByEveryVerifierAndWidth) {
  const std::string models = SLIP_SOURCE_DIR "/models/";
  const Ran ran =
      run({"drive", "--family", "free_flow", "--model", models + "pair-target", "--decoder", "draft-model", "--drafter",
           "model:" + models + "pair-draft", "--verifiers", "exact,relaxed:4", "--widths", "fixed:2,fixed:4", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto v = parse_json(ran.out, "stdout");
  ASSERT_TRUE(v);
  const json::array& rows = v->at("rows").as_array();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[2].at("driver"), "draft-model model:pair-draft relaxed:4 fixed:2");
  const auto number = [&](size_t row, const char* key) { return rows[row].at(key).to_number<double>(); };
  EXPECT_EQ(number(0, "score"), number(1, "score"));  // exact: however many drafts, the same actions
  EXPECT_GE(number(2, "acceptance"), number(0, "acceptance"));
  EXPECT_LT(number(1, "passes"), number(0, "passes"));
}

class EvalTables : public Demo {};

TEST_F(EvalTables, ShardsAddUpToTheWhole) {
  const auto eval = [&](std::initializer_list<std::string> more) {
    Words out{"eval", "--model", model_, "--count", "3", "--decoders", "scaffold-ar,scaffold-spec", "--no-reuse", "--json"};
    out.insert(out.end(), more);
    return run(out);
  };
  const Ran whole = eval({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(eval({"--shard", "0/2", "--out", path("a.jsonl")}).code, 0);
  ASSERT_EQ(eval({"--shard", "1/2", "--out", path("b.jsonl"), "--resume"}).code, 0);
  const Ran merged = run({"eval", "--merge", path("a.jsonl"), path("b.jsonl"), "--json"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  const auto a = parse_json(whole.out, "whole"), b = parse_json(merged.out, "merged");
  ASSERT_TRUE(a && b);
  for (const char* decoder : {"scaffold-ar", "scaffold-spec"}) {
    const json::value &x = a->at("by_decoder").at(decoder), &y = b->at("by_decoder").at(decoder);
    EXPECT_EQ(x.at("records"), y.at("records"));
    for (const char* name : {"ade_5s", "rfs", "rfs_cv", "nuscenes_stp3_3s", "meta_action_iou", "miss_waymo_5s", "rows", "forwards"})
      EXPECT_NEAR(x.at("measures").at(name).to_number<double>(), y.at("measures").at(name).to_number<double>(), 1e-9) << name;
  }
  // Exact decoders answer the same.
  const auto ade = [&](const char* decoder) {
    return a->at("by_decoder").at(decoder).at("measures").at("ade_5s").to_number<double>();
  };
  EXPECT_EQ(ade("scaffold-ar"), ade("scaffold-spec"));
  EXPECT_FALSE(b->as_object().contains("missing_records"));
  const Ran half = run({"eval", "--merge", path("a.jsonl"), "--json"});
  ASSERT_EQ(half.code, 0) << half.err;
  EXPECT_EQ(parse_json(half.out, "half")->at("missing_records").at("scaffold-ar"), 1);
  EXPECT_NE(half.err.find("is a shard missing?"), std::string::npos) << half.err;
  refused({"eval", "--model", model_, "--count", "500", "--csv", write("taken", "") + "/table.csv"}, 3, "taken");
  refused({"eval", "--model", model_, "--count", "2", "--rollouts", "2", "--section-temperature", "trajectory=0"}, 2, "--rollouts");
  refused({"drive", "--model", model_, "--measure-latency", path("l.json"), "--out", path("d.jsonl")}, 2,
          "--measure-latency: expected no --out");
  // An array of one task counts the rows of whole prompts too.
  const auto rows = [&](const char* shard) {
    const json::value v = run_json({"eval", "--model", model_, "--count", "2", "--decoder", "scaffold-spec", "--shard", shard});
    return v.at("measures").at("rows").to_number<double>();
  };
  EXPECT_EQ(rows("0/1"), (rows("0/2") + rows("1/2")) / 2);
  refused({"eval", "--model", model_, "--count", "4", "--shard", "5/6"}, 2,
          "--shard: expected a shard that has a record, of 4 records, got 5/6");
  refused({"eval", "--merge", path("a.jsonl"), path("a.jsonl")}, 3, "once");
  const std::string lines = read_bytes(path("b.jsonl"));
  refused({"eval", "--merge", path("a.jsonl"), write("half.jsonl", lines.substr(0, 100))}, 3, "half.jsonl: expected a line");
  const Ran cut = run({"eval", "--merge", path("a.jsonl"), write("cut.jsonl", lines.substr(0, lines.size() - 100))});
  EXPECT_NE(cut.err.find("cut.jsonl: its last line is cut"), std::string::npos) << cut.err;
  std::string elsewhere = lines;
  for (size_t at = 0; (at = elsewhere.find("\"bits\":\"", at)) != std::string::npos; at += 8) elsewhere.insert(at + 8, "other-");
  EXPECT_NE(elsewhere, lines);
  const std::string says = "another instruction set may give another answer";
  const Ran mixed = run({"eval", "--merge", path("a.jsonl"), write("elsewhere.jsonl", elsewhere)});
  EXPECT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_NE(mixed.err.find(says), std::string::npos) << mixed.err;
  EXPECT_EQ(run({"eval", "--merge", path("a.jsonl"), path("b.jsonl")}).err.find(says), std::string::npos);
  // One table is of one model, one temperature and, where that draws, one seed.
  const auto other = [&](const std::string& name, std::string_view from, std::string_view to) {
    std::string lines = read_bytes(path(name));
    for (size_t at = 0; (at = lines.find(from, at)) != std::string::npos; at += to.size()) lines.replace(at, from.size(), to);
    EXPECT_NE(lines, read_bytes(path(name))) << from;
    return write("other-" + name, lines);
  };
  const auto refused_beside = [&](const std::string& lines, std::string_view names) {
    refused({"eval", "--merge", path("a.jsonl"), lines}, 3, names);
  };
  const std::string moved = other("b.jsonl", "\"model\":\"", "\"model\":\"another/");
  EXPECT_EQ(run({"eval", "--merge", path("a.jsonl"), moved}).code, 0) << "the same weights in another folder";
  refused_beside(other("b.jsonl", "\"weights\":\"", "\"weights\":\"0"), "weights: expected a line that was asked for with");
  const std::string warm = other("b.jsonl", "\"temperature\":0E0", "\"seed\":0,\"temperature\":1E0");
  refused_beside(warm, "temperature: expected a line that was asked for with 0, got one with 1");
  const std::string hot = other("a.jsonl", "\"temperature\":0E0", "\"seed\":0,\"temperature\":1E0");
  EXPECT_EQ(run({"eval", "--merge", hot, warm}).code, 0);
  fs::rename(warm, path("b.jsonl"));
  refused({"eval", "--merge", hot, other("b.jsonl", "\"seed\":0,", "\"seed\":5,")}, 3,
          "seed: expected a line that was asked for with 0");
  refused({"eval", "--count", "1"}, 2, "--model");
}

TEST_F(EvalTables, LinesOfOtherSettingsAreNotGoneOnWith) {
  const Words words{"eval",      "--model",       model_,  "--count",           "1",
                    "--decoder", "scaffold-spec", "--out", path("lines.jsonl"), "--resume"};
  ASSERT_EQ(run(words).code, 0);
  const auto refused_with = [&](const Words& more, std::string_view names) { refused(joined(words, more), 3, names); };
  refused_with({"--blank-images"}, "blank_images: expected a line that was asked for with true, got one with false");
  refused_with({"--rollouts", "2", "--temperature", "0.5"}, "expected a line that was asked for with");
  refused_with({"--width", "fixed:4"}, "decoder: expected a line that was asked for with \"scaffold-spec --width fixed:4\"");
  refused_with({"--dtype", "int8"}, "dtype");
  EXPECT_EQ(run(words).code, 0);
  refused({"eval", "--model", model_, "--count", "1", "--rollouts", "2"}, 2, "greedy answers are all the same");
  refused({"eval", "--merge", path("lines.jsonl"), "--out", path("other.jsonl")}, 2, "--merge: expected");
  refused({"eval", "--merge", path("lines.jsonl"), "--decoder", "ar"}, 2, "--merge: expected");
  ASSERT_EQ(run({"eval", "--model", model_, "--count", "1", "--decoder", "scaffold-ar", "--csv", path("one.csv")}).code, 0);
  EXPECT_NE(read_bytes(path("one.csv")).find("\"scaffold-ar\",1.0"), std::string::npos);
  const std::string limits = write("limits.json", R"({"valid": {"max": 0.5}})");
  EXPECT_EQ(
      run({"eval", "--model", model_, "--count", "1", "--decoder", "scaffold-ar", "--csv", path("missed.csv"), "--require", limits})
          .code,
      6);
  EXPECT_NE(read_bytes(path("missed.csv")).find("\"scaffold-ar\",1.0"), std::string::npos)
      << "the table is there where a limit is missed, too";
}

TEST_F(EvalTables, LinesOfOtherWeightsUnderTheSameNameAreNotGoneOnWith) {
  const fs::path folder = path("model");
  fs::create_directories(folder);
  for (const auto& file : fs::directory_iterator(model_))
    if (file.is_regular_file()) fs::copy_file(file.path(), folder / file.path().filename());
  const Words words{"eval",      "--model",     folder.string(), "--count",           "1",
                    "--decoder", "scaffold-ar", "--out",         path("lines.jsonl"), "--resume"};
  ASSERT_EQ(run(words).code, 0);
  const fs::path weights = folder / "model.safetensors";
  const auto written = fs::last_write_time(weights);
  fs::last_write_time(weights, written + std::chrono::hours(1));
  EXPECT_EQ(run(words).code, 0) << "a copy has another time";
  std::string bytes = read_bytes(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(weights, bytes);
  refused(words, 3, "weights: expected a line that was asked for with");
}

TEST_F(EvalTables, EveryStateOfADriveIsARecordOfItsOwn) {
  ASSERT_EQ(run({"simulate", "--seed", "7", "--driven", "3", "--count", "3", "--out", path("set")}).code, 0);
  const Words words{"eval",  "--model",           model_,     "--records", path("set"), "--decoder", "scaffold-ar",
                    "--out", path("lines.jsonl"), "--resume", "--json"};
  const Ran first = run(words), again = run(words);
  ASSERT_EQ(first.code, 0) << first.err;
  const auto a = parse_json(first.out, "first"), b = parse_json(again.out, "again");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->at("measures").at("ade_5s"), b->at("measures").at("ade_5s")) << "each state's own line, not its drive's first";
  EXPECT_EQ(run({"eval", "--merge", path("lines.jsonl")}).code, 0);
  ASSERT_EQ(run({"simulate", "--seed", "8", "--driven", "3", "--count", "3", "--out", path("other")}).code, 0);
  refused(
      {"eval", "--model", model_, "--records", path("other"), "--decoder", "scaffold-ar", "--out", path("lines.jsonl"), "--resume"},
      3, "records: expected a line that was asked for with");
}

TEST_F(Drive, LinesOfOtherSettingsAreNotGoneOnWith) {
  ASSERT_EQ(run(drive({"--baselines", "idm", "--out", path("lines.jsonl")})).code, 0);
  refused(drive({"--baselines", "idm", "--out", path("lines.jsonl"), "--no-reactive"}), 3,
          "reactive: expected a line that was asked for with false, got one with true");
  refused(drive({"--baselines", "idm", "--replay", path("replay.json"), "--out", path("lines.jsonl")}), 2, "expected no --out");
  refused({"drive", "--baselines", "idm", "--family", "curve,curve"}, 2, "got curve twice");
  // What would be taken and have no effect, or another one in every run.
  constexpr std::string_view kCosts =
      R"({"version": 1, "decoders": {"*": {"encode_ms": 1, "row_ms": 1, "pass_ms": 1, "decode_row_ms": 1, "plan_ms": 1}}})";
  const std::vector<std::string> idm = {"drive", "--baselines", "idm", "--family", "curve"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), idm.begin(), idm.end());
    return more;
  };
  refused(with({"--mode", "sync", "--delays", "400"}), 2, "its world waits for answers");
  refused(with({"--decoder", "ar"}), 2, "--decoder: expected --model");
  refused(with({"--dtype", "int8"}), 2, "--dtype: expected --model");
  refused(with({"--out", path("one"), "--csv", path("./one")}), 2, "expected two files");
  refused(with({"--out", write("theirs", "precious, and no line's end")}), 3, "none of its lines");
  refused(drive({"--model", model_, "--decoder", "scaffold-spec", "--width", "measured", "--latency", write("costs.json", kCosts)}),
          2, "expected a decoder whose passes are the same ones in every run");
  const std::string typo = write("typo.json", R"({"version": 1, "decoders": {"*": {"encode_ms": 1, "row_ms": 1, "pass_ms": 1,
    "decode_row_ms": 1, "plan_ms": 1, "drafter_pas_ms": 50}}})");
  refused(drive({"--model", model_, "--latency", typo}), 3, "got drafter_pas_ms");
}

TEST_F(Drive, RecordsOfDisturbedDrivesAreTheSameOnAnyNumberOfThreads) {
  const auto simulate = [&](const std::string& out, const std::string& threads) {
    const Ran ran = run({"simulate", "--seed", "7", "--driven", "3", "--count", "4", "--threads", threads, "--out", path(out)});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return text(out + "/shard-00000.slip");
  };
  const std::string one = simulate("one", "1");
  EXPECT_GT(one.size(), size_t{4} * 3 * 420 * 448 * 3);
  EXPECT_TRUE(one == simulate("three", "3"));
  EXPECT_NE(text("one/index.json").find("--seed 7 --driven 3"), std::string::npos);
  refused({"simulate", "--driven", "3", "--perturbed", "0.5", "--count", "1", "--out", path("both")}, 2, "--perturbed");
  refused({"simulate", "--driven", "21", "--count", "1", "--out", path("many")}, 2, "--driven");
}

TEST_F(Drive, TheExpertsPlanSaidInFiveWaypointsStillDrives) {
  const Ran ran = run(drive({"--baselines", "expert-waypoints", "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto v = parse_json(ran.out, "stdout");
  ASSERT_TRUE(v);
  EXPECT_EQ(v->at("rows").as_array().at(0).at("success").to_number<double>(), 1);
}

}  // namespace
}  // namespace slip::test
