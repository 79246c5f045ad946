// SPDX-License-Identifier: Apache-2.0
// Texts about scenes: a function of their numbers, true of the record, and every request occurs.
#include "task/scene_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "sim/record/make.h"

namespace slip {
namespace {

SceneText text_at(uint64_t seed, int64_t index) {
  const Result<SceneText> t = scene_text_at(seed, index);
  if (!t) throw std::runtime_error(t.error().message);
  return *t;
}

TEST(SceneText, IsAFunctionOfItsNumbersAndAsksEverything) {
  std::map<SceneRequest, int> asked;
  int yes = 0, no = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const SceneText t = text_at(900, i), again = text_at(900 + static_cast<uint64_t>(i), 0);
    EXPECT_EQ(t.prompt, again.prompt);
    EXPECT_EQ(t.answer, again.answer);
    EXPECT_FALSE(t.answer.empty());
    ++asked[t.request];
    yes += t.answer.starts_with("Yes, ");
    no += t.answer.starts_with("No, ");
  }
  EXPECT_EQ(asked.size(), kSceneRequests);
  EXPECT_GT(yes, 3) << "questions about what is there";
  EXPECT_GT(no, 3);
}

TEST(SceneText, AsJsonSaysWhatTheRecordSays) {
  for (uint64_t seed = 1; seed < 40; ++seed) {
    const Result<sim::Record> record = sim::make_record(seed, {}, false);
    ASSERT_TRUE(record);
    const sim::Labels& l = record->labels;
    const Result<json::value> parsed = parse_json(scene_text(l, SceneRequest::kJson, 0).answer, "answer");
    ASSERT_TRUE(parsed) << parsed.error().message;
    const json::object& o = parsed->as_object();
    EXPECT_NEAR(o.at("speed").to_number<double>(), static_cast<double>(l.v0_mps), 0.051);
    EXPECT_EQ(o.at("critical").as_array().size(), static_cast<size_t>(std::count(l.critical.begin(), l.critical.end(), true)));
    EXPECT_EQ(o.at("plan").as_array()[0].as_string(), sim::words(l.longitudinal));
    EXPECT_EQ(o.at("plan").as_array()[1].as_string(), sim::words(l.lateral));
  }
}

TEST(SceneText, EveryAnswerStandsInItsPrompt) {
  for (uint64_t seed = 1; seed < 40; ++seed) {
    const Result<sim::Record> record = sim::make_record(seed, {}, false);
    ASSERT_TRUE(record);
    const SceneText t = scene_text(record->labels, SceneRequest::kPlan, 0);
    for (const std::string_view words : {sim::words(record->labels.longitudinal), sim::words(record->labels.lateral)}) {
      EXPECT_NE(t.prompt.find(words), std::string::npos);
      EXPECT_NE(t.answer.find(words), std::string::npos);
    }
    for (uint32_t object = 0; object < 12; ++object) {
      const std::string answer = scene_text(record->labels, SceneRequest::kCritical, object).answer;
      EXPECT_EQ(answer.starts_with("Yes"), record->labels.critical[object]);
    }
  }
}

}  // namespace
}  // namespace slip
