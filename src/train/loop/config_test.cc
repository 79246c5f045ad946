// SPDX-License-Identifier: Apache-2.0
// What a configuration may say: numbers within their bounds, and what goes with its kind.
#include "train/loop/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/loop/config_testing.h"

namespace slip {
namespace {

using test::tiny_config;
using test::with;
using testing::HasSubstr;

std::string error(const json::object& c) {
  const auto r = TrainConfig::parse(c, "c.json");
  return r ? std::string("no error") : r.error().message;
}

TEST(TrainConfig, NumbersHaveTheirBounds) {
  for (const auto& [key, value, says] : std::vector<std::array<std::string, 3>>{
           {"schedule", R"({"final_fraction": -0.1})", "c.json: schedule: final_fraction: expected a number from 0 to 1, got -0.1"},
           {"schedule", R"({"final_fraction": 1.5})", "final_fraction: expected a number from 0 to 1, got 1.5"},
           {"schedule", R"({"warmup": -1})", "c.json: schedule: warmup: expected at least 0, got -1"},
           {"objective", R"({"sections": [{"name": "trajectory", "weight": -3}]})",
            "c.json: objective: sections: trajectory: weight: expected at least 0, got -3"},
           {"objective", R"({"sections": [{"weight": 3}]})", "name"},
           {"objective", R"({"minimum_noise": -0.5})", "objective: minimum_noise: expected a number from 0 to 1, got -0.5"},
           {"objective", R"({"minimum_noise": 2})", "minimum_noise: expected a number from 0 to 1, got 2"},
           {"objective", R"({"kind": "nld", "minimum_noise": 2})", "minimum_noise: expected a number from 0 to 1, got 2"},
           {"keep", "-1", "c.json: keep: expected at least 0, got -1"},
           {"save_every", "-1", "c.json: save_every: expected at least 0, got -1"},
           {"max_minutes", "-1", "c.json: max_minutes: expected a number from 0 to 1000000, got -1"},
           {"init_deviation", "-1", "c.json: init_deviation: expected a number from 0 to 100, got -1"},
           {"init_deviation", "1e300", "c.json: init_deviation: expected a number from 0 to 100, got 1e+300"},
           {"target", R"("somewhere")", "c.json: target: expected none with kind \"sasd\""}})
    EXPECT_THAT(error(with(key.c_str(), value)), HasSubstr(says)) << key << " " << value;
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"schedule", R"({"final_fraction": 0, "warmup": 0})"},
           {"schedule", R"({"final_fraction": 1})"},
           {"objective", R"({"minimum_noise": 0, "sections": [{"name": "trajectory", "weight": 0}]})"},
           {"objective", R"({"minimum_noise": 1})"},
           {"keep", "0"},
           {"save_every", "0"},
           {"max_minutes", "0"}})
    EXPECT_EQ(error(with(key.c_str(), value)), "no error") << key << " " << value;
}

TEST(TrainConfig, AnAdapterHasAPositiveAlpha) {
  json::object c = with("objective", R"({"kind": "lora", "alpha": 0})");
  c["init"] = "somewhere";
  EXPECT_THAT(error(c), HasSubstr("c.json: objective: alpha: expected above 0, got 0"));
}

TEST(TrainConfig, AnotherNumberOfStepsKeepsTheShareThatGoesDown) {
  json::object c = with("schedule", R"({"kind": "wsd", "decay_fraction": 0.2, "shape": "linear", "final_fraction": 0})");
  c["steps"] = 100, c["optimizer"] = json::object{{"lr", 1.0}};
  TrainConfig config = *TrainConfig::parse(c, "c.json");
  EXPECT_EQ(config.schedule.decay_steps, 20);
  config.set_steps(10);
  EXPECT_EQ(config.schedule.decay_steps, 2);
  EXPECT_EQ(config.schedule.at(8), 1);
  EXPECT_EQ(config.schedule.at(9), 0.5);
  EXPECT_EQ(config.schedule.at(10), 0);
  config.set_steps(1000);
  EXPECT_EQ(config.schedule.decay_steps, 200);
  EXPECT_EQ(TrainConfig::parse(config.source, "trainer.json")->schedule.decay_steps, 200) << "what a checkpoint keeps";
}

TEST(TrainConfig, WithoutALimitOfTimeADecayFollowsSteps) {
  json::object c = with("schedule", R"({"kind": "cosine", "by": "time"})");
  c["max_minutes"] = 5;
  TrainConfig config = *TrainConfig::parse(c, "c.json");
  config.set_max_minutes(7);
  EXPECT_TRUE(TrainConfig::parse(config.source, "trainer.json")->schedule.by_time);
  config.set_max_minutes(0);
  const auto again = TrainConfig::parse(config.source, "trainer.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->schedule.by_time);
  EXPECT_EQ(again->max_minutes, 0);
}

TEST(TrainConfig, TextsAreForModelsWithoutAForm) {
  json::object c = with("data", R"({"kind": "texts", "first_seed": 1, "count": 5})");
  EXPECT_EQ(error(c), "no error");
  c["model"].as_object()["slipstream"] = json::object{{"form", "drive-cot"}};
  EXPECT_THAT(error(c), HasSubstr("c.json: data: kind: expected"));
  EXPECT_THAT(error(c), HasSubstr("got \"texts\""));
}

}  // namespace
}  // namespace slip
