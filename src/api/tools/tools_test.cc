// SPDX-License-Identifier: Apache-2.0
// Operations on whole folders and sets: what they tell while they last, and that they can be ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/folder_testing.h"
#include "base/json.h"
#include "slipstream/engine.h"
#include "slipstream/model.h"

namespace slipstream {
namespace {

// What takes minutes of a large model says that it goes on: a silent program is taken for one that hangs.
TEST(Tools, TellWhatTheyAreDoing) {
  const slip::test::TemporaryFolder made;
  const std::string root = SLIP_SOURCE_DIR, demo = root + "/models/demo", native = root + "/tests/fixtures/torch/minivla";
  std::map<std::string, int> told;
  const Progress progress = [&](std::string_view stage, int64_t, int64_t) { ++told[std::string(stage)]; };
  const auto out = [&](const char* name) { return (made.path / name).string(); };

  auto report = quantize(demo, out("packed"), {.type = "int8", .records = 0}, progress);  // which compares outputs alone
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["loading"], 1);

  told.clear();
  report = convert_prismatic(native, native + "/tokenizer", out("converted"), progress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["converting"], 1);

  told.clear();
  report = limits(demo, {.threads = 1}, progress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["measuring"], 10);

  told.clear();
  report = drive("", {}, {.baselines = {"idm"}, .families = {"lead_stopped"}, .replay = out("replay.json")}, progress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["driving"], 10);

  told.clear();
  report = reach(root + "/models/reach-target", {}, {.decoders = {"scaffold-ar"}, .episodes = 1}, progress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["warming up"], 1);

  told.clear();
  report =
      reach(root + "/models/reach-target", {}, {.decoders = {"scaffold-ar"}, .episodes = 1, .replay = out("r.json")}, progress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told["reaching"], 1);
}

// A table over the latencies that it goes by, or results in the place of a model, are refused before anything is read.
TEST(Tools, ADriveKeepsWhatItReads) {
  namespace fs = std::filesystem;
  const slip::test::TemporaryFolder made;
  const fs::path latency = made.path / "latency.json", link = made.path / "link.csv", model = made.path / "model";
  std::ofstream(latency) << "{}";
  fs::create_symlink(latency, link);
  fs::create_directory(model);
  const auto refused = [&](const DriveOptions& o, std::string_view reads) {
    const auto report = drive(model.string(), {}, o);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::kUsage) << report.error().message;
    EXPECT_NE(report.error().message.find("expected another place to write than what " + std::string(reads) + " reads"),
              std::string::npos)
        << report.error().message;
  };
  const std::string dotted = (made.path / "." / "latency.json").string();
  refused({.decoders = {"scaffold-ar"}, .latency = latency.string(), .csv = link.string()}, "--latency");
  refused({.decoders = {"scaffold-ar"}, .latency = latency.string(), .out = dotted}, "--latency");
  refused({.decoders = {"scaffold-ar"}, .csv = (model / ".").string()}, "--model");
  refused({.decoder = {.width = "measured:" + latency.string()}, .measure_latency = dotted}, "--width");
}

// Nothing is told of a scene that nobody answers.
TEST(Tools, ADemonstrationRefusesBeforeItTellsOfItsScene) {
  const slip::test::TemporaryFolder made;
  std::ofstream(made.path / "file") << "x";
  const std::string models = std::string(SLIP_SOURCE_DIR) + "/models/";
  const auto nowhere = demonstrate(models + "demo", {.png = (made.path / "file" / "demo.png").string()});
  ASSERT_FALSE(nowhere) << nowhere->text;
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kBadInput) << nowhere.error().message;
  const auto of_arm = demonstrate(models + "reach-target");
  ASSERT_FALSE(of_arm) << of_arm->text;
}

// What no row of the model can stand behind is not priced, and what an answer does not reach is said.
TEST(Tools, LimitsKeepToAModelsPositions) {
  const std::string tri = std::string(SLIP_SOURCE_DIR) + "/models/tri";  // 1,024 positions
  for (const LimitsOptions& o :
       {LimitsOptions{.machine = "h100", .keys = 1025}, LimitsOptions{.machine = "h100", .prompt_rows = 1025}}) {
    const auto beyond = limits(tri, o);
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().kind, ErrorKind::kUsage);
    EXPECT_NE(beyond.error().message.find("positions, got 1025"), std::string::npos) << beyond.error().message;
  }
  const auto long_answer = limits(tri, {.machine = "h100", .prompt_rows = 1000, .answer_tokens = 512}),
             short_answer = limits(tri, {.machine = "h100", .prompt_rows = 500, .answer_tokens = 512});
  ASSERT_TRUE(long_answer && short_answer);
  const std::string note = "take 1512 positions, and the model has 1024";
  EXPECT_NE(long_answer->text.find(note), std::string::npos) << long_answer->text;
  EXPECT_EQ(short_answer->text.find("positions, and the model has"), std::string::npos);
}

// A photograph is not replaced by its pixels, nor rows by their logits.
TEST(Tools, PicturesAndRowsThatAreReadStay) {
  namespace fs = std::filesystem;
  const slip::test::TemporaryFolder made;
  const std::string demo = std::string(SLIP_SOURCE_DIR) + "/models/demo", file = (made.path / "in").string();
  std::ofstream(file) << "{}";
  fs::create_symlink(file, made.path / "out");
  const std::string out = (made.path / "out").string();
  const auto pixels = preprocess(demo, {file}, out, false), logits = forward(demo, "{}", file, "", out, {});
  ASSERT_FALSE(pixels || logits);
  EXPECT_EQ(pixels.error().message, "--out: expected another place to write than what --image reads, got " + out + " for both");
  EXPECT_EQ(logits.error().message, "--out: expected another place to write than what --rows reads, got " + out + " for both");
}

// By these names a study's columns are refused before anything is trained.
TEST(Tools, AnEvaluationsMeasuresHaveTheNamesThatAreListed) {
  const auto report =
      evaluate(std::string(SLIP_SOURCE_DIR) + "/models/demo", {}, {.count = 1, .decoder = {.preset = "scaffold-spec"}});
  ASSERT_TRUE(report) << report.error().message;
  const auto result = slip::parse_json(report->json, "result");
  ASSERT_TRUE(result);
  const std::vector<std::string> names = evaluation_measures();
  const auto& measures = result->at("measures").as_object();
  EXPECT_TRUE(measures.contains("ms_reasoning") && measures.contains("fit_linear_ade_5s"));
  for (const auto& [name, mean] : measures) EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

// Pictures take longer than the drive that they show. They can be cancelled, too: here behind the second moment's.
TEST(Tools, ADriveTellsOfItsPictures) {
  const slip::test::TemporaryFolder made;
  for (const char* name : {"frames", "drive.mcap"}) {
    std::vector<int64_t> told;
    CancelToken cancel;
    const Progress progress = [&](std::string_view stage, int64_t done, int64_t total) {
      if (stage != "drawing") return;
      told.push_back(done);
      EXPECT_EQ(total, 121) << "a moment every tenth of 12 s";
      if (done == 2) cancel.cancel();
    };
    const auto report =
        drive("", {}, {.baselines = {"idm"}, .families = {"lead_stopped"}, .video = (made.path / name).string()}, progress, cancel);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::kCancelled);
    EXPECT_EQ(told, (std::vector<int64_t>{1, 2})) << name;
  }
}

// Ctrl-C reaches a conversion, which leaves nothing.
TEST(Tools, AConversionCanBeCancelled) {
  const slip::test::TemporaryFolder made;
  const std::string native = std::string(SLIP_SOURCE_DIR) + "/tests/fixtures/torch/minivla";
  CancelToken cancel;
  const auto report = convert_prismatic(
      native, native + "/tokenizer", (made.path / "out").string(), [&](std::string_view, int64_t, int64_t) { cancel.cancel(); },
      cancel);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(made.path));
}

}  // namespace
}  // namespace slipstream
