// SPDX-License-Identifier: Apache-2.0
// Promises of studies: a document is read or refused in words, paths reach what they name, and the intervals are Student's.
#include "cli/study.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "base/file.h"
#include "base/folder_testing.h"

namespace slip::cli {
namespace {

class StudyFile : public testing::Test {
 protected:
  std::string file_ = (std::filesystem::temp_directory_path() / fmt::format("slip-study-{}.json", ::getpid())).string();
  ~StudyFile() override { std::filesystem::remove(file_); }
  Result<Study> read(const std::string& text) {
    EXPECT_TRUE(write_file(file_, text));
    return read_study(file_);
  }
};

constexpr const char* kGood = R"({"name": "alpha", "base": {"steps": 3}, "seeds": [1, 2], "out": "x",
  "arms": [{"name": "a", "set": {"objective.alpha": 0.1}}, {"name": "b", "stages": [{"steps": 1}, {"steps": 2}]}, {"name": "c", "checkpoint": "models/demo"}],
  "modes": [{"name": "ar", "decoder": "ar", "count": 2}], "columns": ["ar:all.model.ade_5s", "train:loss"]})";

TEST_F(StudyFile, IsRead) {
  const auto s = read(kGood);
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->arms.size(), 3U);
  EXPECT_EQ(s->arms[0].stages.size(), 1U);
  EXPECT_EQ(s->arms[1].stages.size(), 2U);
  EXPECT_TRUE(s->arms[2].stages.empty());
  EXPECT_EQ(s->against, "a");
  EXPECT_EQ(s->columns[0].path, "all.model.ade_5s");
}

TEST_F(StudyFile, AsksTextsInEvalsPlace) {
  std::string text = kGood;
  const std::string mode = R"({"name": "ar", "decoder": "ar", "count": 2})";
  text.replace(text.find(mode), mode.size(), R"({"name": "ar", "texts": true, "decoder": "ar", "count": 2, "seed": 9})");
  const auto s = read(text);
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_TRUE(s->modes[0].texts);
  EXPECT_EQ(s->modes[0].options.first_seed, 9U);
  text.replace(text.find("\"count\": 2"), 10, "\"temperature\": 1");
  EXPECT_FALSE(read(text)) << "answers to texts are greedy";
}

TEST_F(StudyFile, IsRefusedInWords) {
  const std::pair<const char*, const char*> wrong[] = {
      {"\"seeds\": [1, 2]", "\"seeds\": []"},
      {"\"seeds\": [1, 2]", "\"seeds\": [\"x\"]"},
      {"\"seeds\": [1, 2]", "\"seeds\": [1, 2, 1]"},
      {"\"name\": \"b\"", "\"name\": \"a\""},
      {"\"name\": \"b\"", "\"name\": \"../b\""},
      {"train:loss", "other:loss"},
      {"train:loss", "loss"},
      {"train:loss", "train:losses"},
      {"\"count\": 2", "\"count\": 0"},
      {"\"count\": 2", "\"counts\": 2"},
      {"\"out\": \"x\"", "\"against\": \"z\", \"out\": \"x\""},
      {"\"checkpoint\": \"models/demo\"", "\"checkpoint\": \"models/demo\", \"set\": {}"}};
  for (const auto& [from, to] : wrong) {
    std::string text = kGood;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto s = read(text);
    ASSERT_FALSE(s) << to;
    EXPECT_EQ(s.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(s.error().message.find("expected"), std::string::npos) << s.error().message;
  }
}

// The description, the models and the records that a study names are not where it writes.
TEST_F(StudyFile, IsNotWrittenOverWhatItReads) {
  const test::TemporaryFolder made;
  const std::string document = (made.path / "table.json").string(), model = (made.path / "model").string();
  std::filesystem::create_directory(model);
  std::filesystem::create_directory_symlink(model, made.path / "linked");
  const auto kept = [&](const std::string& out, const std::string& checkpoint, const std::string& on) {
    const json::object o{{"name", "n"},
                         {"seeds", {1}},
                         {"out", out},
                         {"arms", {{{"name", "c"}, {"checkpoint", checkpoint}}}},
                         {"modes", {{{"name", "m"}, {"on", on}}}},
                         {"columns", {"m:valid"}}};
    EXPECT_TRUE(write_file(document, json::serialize(o)));
    const auto s = read_study(document);
    EXPECT_TRUE(s) << s.error().message;
    return check_kept(*s);
  };
  const std::string other = (made.path / "other").string(), linked = (made.path / "linked").string();
  EXPECT_TRUE(kept(other, model, model));
  for (const auto& [status, reads] : {std::pair{kept((made.path / ".").string(), model, model), "the study"},
                                      {kept(linked, model, other), "checkpoint"},
                                      {kept(made.path / "." / "model", other, model), "on"}}) {
    ASSERT_FALSE(status) << reads;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(status.error().message.find(std::string("than what ") + reads + " reads"), std::string::npos)
        << status.error().message;
  }
}

TEST_F(StudyFile, WithoutAnArmThatIsTrainedHasNoLosses) {
  const auto s = read(R"({"name": "n", "seeds": [1], "out": "x", "arms": [{"name": "c", "checkpoint": "models/demo"}],
    "columns": ["train:loss"]})");
  ASSERT_FALSE(s);
  EXPECT_NE(s.error().message.find("expected an arm that is trained beside train:loss"), std::string::npos) << s.error().message;
}

// Null is what no record knows, an absent measure what no answer gave: another arm's may. A name that no result has is refused.
TEST(StudyColumns, AreHeldToTheFirstResult) {
  const json::value result =
      *parse_json(R"({"valid": 1, "all": {"model": {"ade_5s": 2.5, "ade_3s": null}}, "classes": {"pedestrian": null},
    "every_class_above_prior": true, "measures": {"rows": 5}, "asked": {"texts": false}})",
                  "result");
  const auto checked = [&](const std::string& path, const json::value& of) {
    Study s;
    s.name = "n";
    s.columns = {{"train", "loss"}, {"other", "nowhere"}, {"m", path}};
    return check_columns(s, "m", of);
  };
  for (const char* path :
       {"valid", "all.model.ade_5s", "all.model.ade_3s", "classes.pedestrian.f1", "every_class_above_prior", "measures.rows"}) {
    const auto remarks = checked(path, result);
    ASSERT_TRUE(remarks) << remarks.error().message;
    EXPECT_EQ(*remarks, "") << path;
  }
  for (const char* path : {"measures.ade_6_4s", "text_agreement", "chosen.ar"}) {
    const auto remarks = checked(path, result);
    ASSERT_TRUE(remarks) << remarks.error().message;
    EXPECT_NE(remarks->find(std::string("study: column m:") + path), std::string::npos) << *remarks;
  }
  for (const char* path : {"nope", "vallid", "all.model.nope", "all.model", "classes.nope.f1", ""}) {
    const auto refused = checked(path, result);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  }
  EXPECT_NE(checked("vallid", result).error().message.find("got vallid (did you mean valid?)"), std::string::npos);
  EXPECT_FALSE(checked("measures.rows", json::object{{"texts", 2}, {"right", 0.5}})) << "texts have no measures";
}

TEST(StudyColumns, OfMeasuresAreKnownBeforeAnythingIsTrained) {
  Study s;
  s.name = "n";
  s.modes.resize(2);
  s.modes[0].name = "m", s.modes[1].name = "t", s.modes[1].texts = true;
  const std::vector<std::string> known = {"rfs", "ade_6_4s"};
  s.columns = {{"m", "measures.ade_6_4s"}, {"m", "valid"}, {"t", "measures.right"}, {"train", "loss"}};
  EXPECT_TRUE(check_measures(s, known));
  s.columns.push_back({"m", "measures.ade_64s"});
  const Status refused = check_measures(s, known);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(refused.error().message, "n: columns: m:measures.ade_64s: expected a measure, got ade_64s; measures are rfs, ade_6_4s");
}

TEST(StudyPaths, SetAndRead) {
  json::object config{{"objective", json::object{{"alpha", 1}}}, {"steps", 3}};
  EXPECT_TRUE(set_at(config, "objective.alpha", 0.3, "x"));
  EXPECT_TRUE(set_at(config, "optimizer.lr", 0.1, "x"));
  EXPECT_FALSE(set_at(config, "steps.more", 1, "x"));
  EXPECT_EQ(number_at(config, "objective.alpha"), 0.3);
  EXPECT_EQ(number_at(config, "optimizer.lr"), 0.1);
  EXPECT_EQ(number_at(config, "optimizer"), std::nullopt);
  EXPECT_EQ(number_at(json::object{{"texts", json::object{{"object_1.type", json::object{{"agreement", 0.5}}}}}},
                      "texts.object_1.type.agreement"),
            0.5);
}

TEST(StudyIntervals, AreStudents) {
  EXPECT_EQ(interval_of({}).n, 0);
  EXPECT_FALSE(interval_of({3}).half);
  const Interval i = interval_of({1, 2, 3});  // s = 1, t(2) = 4.303
  EXPECT_DOUBLE_EQ(i.mean, 2);
  EXPECT_NEAR(*i.half, 4.303 / std::sqrt(3.0), 1e-9);
  const Interval many = interval_of(std::vector<double>(100, 5));
  EXPECT_DOUBLE_EQ(many.mean, 5);
  EXPECT_NEAR(*many.half, 0, 1e-12);
}

TEST(StudyTable, ComparesSeedBySeed) {
  Study s;
  s.name = "n";
  s.seeds = {1, 2};
  s.against = "a";
  s.arms = {{"a", "", {{}}}, {"b", "", {{}}}};
  s.columns = {{"ar", "x"}};
  // The arms' own intervals overlap, the paired difference is exactly 1.
  const StudyValues values = {{{1.0, 9.0}}, {{2.0, 10.0}}};
  const json::object j = study_json(s, values);
  const json::object& b = j.at("arms").as_array()[1].as_object().at("columns").as_object().at("ar:x").as_object();
  EXPECT_EQ(b.at("difference").as_object().at("mean").as_double(), 1.0);
  EXPECT_NEAR(b.at("difference").as_object().at("half_width_95").as_double(), 0, 1e-12);
  EXPECT_GT(b.at("half_width_95").as_double(), 40);
  const std::string table = study_table(s, values);
  EXPECT_NE(table.find("| b | 6 ± 51 |"), std::string::npos) << table;
  EXPECT_NE(table.find("| b | +1 ± 0 |"), std::string::npos) << table;
}

TEST(StudyTable, SaysNothingOfWhatWasNotMeasured) {
  Study s;
  s.name = "n";
  s.seeds = {1};
  s.against = "a";
  s.arms = {{"a", "", {{}}}, {"b", "", {{}}}};
  s.columns = {{"ar", "x"}, {"ar", "y"}};
  const std::string table = study_table(s, {{{1.0}, {std::nullopt}}, {{2.0}, {std::nullopt}}});
  EXPECT_NE(table.find("| a | 0 | - |"), std::string::npos) << table;
  EXPECT_NE(table.find("| b | +1 | - |"), std::string::npos) << table;
}

}  // namespace
}  // namespace slip::cli
