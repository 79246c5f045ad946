// SPDX-License-Identifier: Apache-2.0
// Studies that train: built where the trainer is.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must_testing.h"
#include "tests/cli/process.h"

namespace slip::test {
namespace {

// A second stage that trains a head has the first stage's model as its target, and the arm's plans are the head's.
TEST_F(Cli, AStudysHeadStandsOnTheStageBeforeIt) {
  const fs::path source = SLIP_SOURCE_DIR, demo = source / "models" / "demo-cot";
  json::object base = must(read_json(source / "configs" / "smoke" / "graph.json")).as_object(),
               head = must(read_json(source / "configs" / "reasoning" / "flow.json")).as_object();
  const std::string config = (demo / "config.json").string();
  base["model"] = config, base["init"] = demo.string(), base["tokenizer"] = demo.string(), base["steps"] = 1;
  base["data"].as_object()["model"] = head["data"].as_object()["model"] = config;
  head["objective"].as_object()["scenes"] = 2;
  head["steps"] = 2, head["batch"] = 1;
  head.erase("validation");
  const json::object study{{"name", "s"},
                           {"base", base},
                           {"seeds", {1}},
                           {"arms", {{{"name", "plain"}}, {{"name", "head"}, {"stages", {json::object(), {{"config", head}}}}}}},
                           {"modes", {{{"name", "m"}, {"decoder", "fields-spec"}, {"count", 1}, {"trajectory_head", true}}}},
                           {"columns", {"m:all.model.ade_3s", "m:forwards_per_answer"}},
                           {"out", path("heads")}};
  const Ran ran = run({"study", write("heads.json", json::serialize(study)), "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto plan = [&](const char* arm) {
    return must(read_json(fs::path(path("heads")) / arm / "seed-1" / "eval-m.json")).at("all").at("model").at("ade_3s");
  };
  EXPECT_NE(plan("plain"), plan("head"));
  const json::value stage = must(read_json(fs::path(path("heads")) / "head" / "seed-1" / "stage-2" / "study-config.json"));
  EXPECT_THAT(std::string(stage.at("target").as_string()), testing::HasSubstr("stage-1/step-1"));
}

TEST_F(Cli, AQuietStudysTrainerIsQuiet) {
  const fs::path source = SLIP_SOURCE_DIR, demo = source / "models" / "demo-cot";
  json::object base = must(read_json(source / "configs" / "smoke" / "graph.json")).as_object();
  base["model"] = base["data"].as_object()["model"] = (demo / "config.json").string();
  base["init"] = base["tokenizer"] = demo.string();
  base["steps"] = 1;
  const json::object study{
      {"name", "s"},         {"base", base}, {"seeds", {1, 2}}, {"arms", {{{"name", "plain"}}}}, {"columns", {"train:loss"}},
      {"out", path("quiet")}};
  const Ran ran = run({"study", "-q", write("quiet.json", json::serialize(study))});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, testing::HasSubstr("2 seeds"));
}

TEST_F(Cli, AStudyThatCannotBeWrittenIsRefusedAtItsStart) {
  const json::object study{{"name", "s"},
                           {"seeds", {1}},
                           {"arms", {{{"name", "a"}, {"checkpoint", path("nowhere")}}, {{"name", "b"}, {"set", json::object()}}}},
                           {"columns", {"train:loss"}},
                           {"out", "/proc/x"}};
  refused({"study", write("proc.json", json::serialize(study))}, 3, "/proc/x");
}

// What a mode's result lacks is said behind the first one: no further arm is trained or evaluated for a column of nothing.
TEST_F(Cli, AStudysMistypedColumnIsRefusedBehindTheFirstResult) {
  const std::string demo = demo_model();
  const auto study = [&](const char* column) {
    return write("columns.json", json::serialize(json::object{
                                     {"name", "s"},
                                     {"seeds", {1}},
                                     {"arms", {{{"name", "a"}, {"checkpoint", demo}}, {{"name", "b"}, {"checkpoint", demo}}}},
                                     {"modes", {{{"name", "m"}, {"decoder", "scaffold-ar"}, {"count", 1}}}},
                                     {"columns", json::array{column}},
                                     {"out", path("columns")}}));
  };
  refused({"study", study("m:vallid")}, 3,
          "expected the path of a number in the result of mode m, got vallid (did you mean valid?)");
  EXPECT_TRUE(fs::exists(path("columns/a/seed-1/eval-m.json")));
  EXPECT_FALSE(fs::exists(path("columns/b")));
  const Ran ran = run({"study", study("m:valid")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::HasSubstr("| a | 0 |"));
}

}  // namespace
}  // namespace slip::test
