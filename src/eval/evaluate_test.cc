// SPDX-License-Identifier: Apache-2.0
// Promises of the evaluation's sums: texts are compared byte for byte beside what a constant would reach, a form without yes/no
// classes prints none, and limits reach fields whose names have dots.
#include "eval/evaluate.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(TextAgreement, CountsEqualTextsBesideTheMostFrequentTruth) {
  TextAgreement t;
  EXPECT_EQ(t.agreement(), 0);
  EXPECT_EQ(t.prior(), 0);
  const std::string day = "day", almost = "day ", night = "night";
  t.add(&day, "day");
  t.add(&almost, "day");  // one byte more is another text
  t.add(&night, "night");
  t.add(nullptr, "night");  // no answer agrees with nothing
  t.add(&day, "night");
  EXPECT_EQ(t.count(), 5);
  EXPECT_DOUBLE_EQ(t.agreement(), 0.4);
  EXPECT_DOUBLE_EQ(t.prior(), 0.6);
}

Evaluation with_texts() {
  Evaluation e;
  e.records = 2;
  e.valid = 2;
  const std::string n = "N/A", car = "car";
  e.texts.resize(2);
  e.texts[0].first = "lighting";
  e.texts[1].first = "object_1.type";
  e.texts[0].second.add(&n, "day");
  e.texts[0].second.add(&n, "dusk");
  e.texts[1].second.add(&car, "car");
  e.texts[1].second.add(&car, "car");
  return e;
}

TEST(Evaluation, TextsAreReportedPerFieldAndAsAMeanWithoutYesNoClasses) {
  const Evaluation e = with_texts();
  EXPECT_DOUBLE_EQ(e.text_agreement(), 0.5);
  EXPECT_DOUBLE_EQ(e.text_prior(), 0.75);
  const json::object o = e.to_json();
  EXPECT_EQ(o.at("text_agreement").as_double(), 0.5);
  EXPECT_EQ(o.at("texts").as_object().at("object_1.type").as_object().at("agreement").as_double(), 1.0);
  EXPECT_FALSE(o.contains("macro_f1"));
  EXPECT_TRUE(o.contains("longitudinal_accuracy"));
  const std::string table = evaluation_table(e);
  EXPECT_NE(table.find("object_1.type"), std::string::npos);
  EXPECT_EQ(table.find("macro F1"), std::string::npos);
}

TEST(Evaluation, AFormOfYesAndNoKeepsItsReport) {
  Evaluation e;
  e.records = 1;
  e.objects[0].add(true, true);
  const json::object o = e.to_json();
  EXPECT_TRUE(o.contains("macro_f1"));
  EXPECT_TRUE(o.at("classes").as_object().contains("pedestrian"));
  EXPECT_FALSE(o.contains("texts"));
  EXPECT_NE(evaluation_table(e).find("macro F1"), std::string::npos);
  EXPECT_EQ(evaluation_table(e).find("text equals"), std::string::npos);
}

// What no record knows is null and "-", never a 0 that could be taken for a score, and no limit holds of it.
TEST(Evaluation, WhatNoRecordKnowsHasNoNumber) {
  Evaluation e;
  e.records = 2;
  json::object o = e.to_json();
  for (const char* name : {"macro_f1", "macro_always_yes_f1", "every_class_above_prior", "longitudinal_accuracy", "acceptance"})
    EXPECT_TRUE(o.at(name).is_null()) << name;
  EXPECT_TRUE(o.at("classes").at("pedestrian").is_null());
  EXPECT_TRUE(o.at("pre_onset").at("model").at("ade_5s").is_null());
  EXPECT_TRUE(o.at("pre_onset").at("ade_5s_below_constant_velocity").is_null());
  EXPECT_EQ(evaluation_table(e).find("0.000"), std::string::npos) << evaluation_table(e);
  const Status missed = check_limits(o, {{"pre_onset.model.ade_5s", json::object{{"max", 3}}}}, "limits.json");
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.error().kind, ErrorKind::kCheckFailed);
  EXPECT_EQ(missed.error().message, "eval: pre_onset.model.ade_5s: expected a number, got none: no record knows it");
  e.objects[0].add(true, true);
  e.objects[0].add(false, false);
  e.objects[1].add(false, false);  // no yes on either side: neither above nor below
  o = e.to_json();
  EXPECT_TRUE(o.at("every_class_above_prior").as_bool());
  EXPECT_TRUE(o.at("classes_not_above_prior").as_array().empty());
  e.objects[2].add(false, true);
  o = e.to_json();
  EXPECT_FALSE(o.at("every_class_above_prior").as_bool());
  ASSERT_EQ(o.at("classes_not_above_prior").as_array().size(), 1u);
  EXPECT_EQ(std::string(o.at("classes_not_above_prior").at(0).as_string()), sim::kObjectClasses[2]);
}

TEST(Limits, AreOfNumbersThatAResultHas) {
  EXPECT_TRUE(check_limit_names({{"texts.a.b.agreement", {}}, {"macro_f1", {}}}, false, "l.json"));
  EXPECT_TRUE(check_limit_names({{"by_decoder.ar.valid", {}}}, true, "l.json"));
  EXPECT_FALSE(check_limit_names({{"by_decoder.ar.valid", {}}}, false, "l.json"));
  EXPECT_FALSE(check_limit_names({{"valid", {}}}, true, "l.json"));
  EXPECT_EQ(check_limit_names({{"vaild", {}}}, false, "l.json").error().message,
            "l.json: vaild: expected the path of a number in the result of --json, got vaild (did you mean valid?)");
}

TEST(Evaluation, ATableSaysWhichDecoderAndWhetherItIsLossy) {
  const Evaluation e = with_texts();
  const Method exact = *method_of("scaffold-spec"), lossy = *method_of("section-diffusion");
  EXPECT_TRUE(evaluation_table(e, &exact).starts_with("decoder scaffold-spec (chain x diffusion x exact, width blocks)\n"));
  EXPECT_NE(evaluation_table(e, &lossy).find(", width blocks) (lossy)\n"), std::string::npos);
  EXPECT_TRUE(evaluation_table(e).starts_with("records 2"));
}

TEST(CheckLimits, ReachFieldsWhoseNamesHaveDots) {
  const json::object result = with_texts().to_json();
  const json::object met{{"text_agreement", json::object{{"min", 0.5}}},
                         {"texts.object_1.type.agreement", json::object{{"min", 1.0}}},
                         {"all.records", json::object{{"max", 0}}}};
  EXPECT_TRUE(check_limits(result, met, "limits.json"));
  const auto missed = check_limits(result, {{"texts.lighting.agreement", json::object{{"min", 0.5}}}}, "limits.json");
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.error().kind, ErrorKind::kCheckFailed);
  EXPECT_EQ(missed.error().message, "eval: texts.lighting.agreement: expected at least 0.5, got 0");
  const auto unknown = check_limits(result, {{"texts.object_9.type.agreement", json::object{{"min", 0}}}}, "limits.json");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kBadInput);
}

TEST(Limits, AreReadWithoutAResult) {
  const auto error = [](const char* text) {
    const Status s = check_limit_shapes(*parse_json(text, "text"), "l.json");
    return s ? std::string("no error") : s.error().message;
  };
  EXPECT_EQ(error(R"({"a.b": {"min": 0, "max": 1.5}, "c": {"max": -1}})"), "no error");
  EXPECT_EQ(error("{}"), "no error");
  EXPECT_EQ(error("[]"), "l.json: expected an object, got another type");
  EXPECT_EQ(error(R"({"a": 0.5})"), "l.json: a: expected {\"min\": x} or {\"max\": x}, got another type");
  EXPECT_EQ(error(R"({"a": {}})"), "l.json: a: expected {\"min\": x} or {\"max\": x}, got neither");
  EXPECT_EQ(error(R"({"a": {"above": 1}})"), "l.json: a: expected min or max with a number, got above");
  EXPECT_EQ(error(R"({"a": {"min": "1"}})"), "l.json: a: expected min or max with a number, got min");
}

}  // namespace
}  // namespace slip
