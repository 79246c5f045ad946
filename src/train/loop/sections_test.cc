// SPDX-License-Identifier: Apache-2.0
// Rules for sections and fields go by the names that the data's form gives them, whatever their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "train/loop/batcher.h"
#include "train/loop/config_testing.h"
#include "train/loop/trainer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using test::tiny_config;
using test::with;
using testing::HasSubstr;

std::string trained(const json::object& config, const fs::path& out) {
  TrainConfig c = must(TrainConfig::parse(config, "test"));
  c.out = out;
  const auto source = must(make_source(c.data, c.tokenizer));
  const auto report = train(c, *source, {.quiet = true});
  return report ? must(read_file(report->checkpoint / "trainer.safetensors")) : report.error().message;
}

constexpr const char* kRules[] = {
    R"({"name": "critical_objects", "weight": 6, "beta": [1, 2]})", R"({"name": "explanation", "weight": 1, "beta": [1, 1]})",
    R"({"name": "future_meta_behavior", "weight": 3, "beta": [1, 1.5]})", R"({"name": "trajectory", "weight": 4, "beta": [2, 1]})"};

json::object with_rules(std::initializer_list<std::string> rules) {
  std::string list;
  for (const std::string& r : rules) list += (list.empty() ? "" : ", ") + r;
  return with("objective", R"({"sections": [)" + list + "]}");
}

TEST(Sections, RulesGoByNameInAnyOrder) {
  const test::TemporaryFolder root;
  const std::string once = trained(with_rules({kRules[0], kRules[1], kRules[2], kRules[3]}), root.path / "once");
  ASSERT_GT(once.size(), 1000U) << once;
  EXPECT_EQ(trained(with_rules({kRules[3], kRules[1], kRules[0], kRules[2]}), root.path / "mixed"), once);
  const std::string others = R"({"name": "trajectory", "weight": 1, "beta": [2, 1]})";
  EXPECT_NE(trained(with_rules({kRules[0], kRules[1], kRules[2], others}), root.path / "others"), once);
}

TEST(Sections, ARuleForNoSectionOrNoRuleForOneIsRefusedBeforeAFolderIsMade) {
  const test::TemporaryFolder root;
  const fs::path out = root.path / "out";
  const std::string typo = R"({"name": "trajektory", "weight": 4})";
  const std::string all = R"("critical_objects", "explanation", "future_meta_behavior", "trajectory")";
  EXPECT_EQ(trained(with_rules({kRules[0], kRules[1], kRules[2], typo}), out),
            "objective: sections: name: expected one of " + all + ", got \"trajektory\"");
  EXPECT_EQ(trained(with_rules({kRules[0], kRules[1], kRules[2], kRules[3], kRules[0]}), out),
            "objective: sections: name: expected each of " + all + " once, got \"critical_objects\" again");
  EXPECT_EQ(trained(with_rules({kRules[0], kRules[1], kRules[3]}), out),
            "objective: sections: expected a rule for each of " + all + ", got none for \"future_meta_behavior\"");
  EXPECT_FALSE(fs::exists(out));
}

/// Samples of the toy source, whose fields are said to be of a form with other sections.
class Renamed : public SampleSource {
 public:
  explicit Renamed(std::vector<std::string> sections) : outline_{std::move(sections), {"field_1"}} {}
  Result<Sample> get(int64_t index) override { return toy_->get(index); }
  Outline outline() const override { return outline_; }

 private:
  std::unique_ptr<SampleSource> toy_ = must(make_source(tiny_config().at("data").as_object(), ""));
  Outline outline_;
};

TEST(Sections, TheFourThatNobodyAskedForAreForFormsWithThemAlone) {
  const auto weights = [](const SectionRule& r) { return std::array{r.weight, r.beta_a, r.beta_b}; };
  const std::vector<std::string> turned{"trajectory", "other", "critical_objects", "explanation", "future_meta_behavior"};
  const auto all = must(rules_of_sections({}, turned));
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(weights(all[0]), (std::array{3.0, 2.0, 1.0}));
  EXPECT_EQ(weights(all[1]), (std::array{1.0, 1.0, 1.0}));
  EXPECT_EQ(weights(all[2]), (std::array{1.5, 1.0, 2.0}));
  for (const SectionRule& r : must(rules_of_sections({}, std::vector<std::string>{"critical_objects", "trajectory"})))
    EXPECT_EQ(weights(r), (std::array{1.0, 1.0, 1.0})) << r.name;
  EXPECT_TRUE(must(rules_of_sections({}, {})).empty()) << "free text";
  EXPECT_THAT(rules_of_sections(fast_ddrive_sections(), {}).error().message, HasSubstr("these samples have no sections"));
}

TEST(Sections, AFieldOfAnotherFormHasNoWeightOfFastDDrives) {
  const TrainConfig c = must(TrainConfig::parse(tiny_config(), "test"));
  Renamed other({"a", "b", "c", "d"}), none({"critical_objects", "explanation", "future_meta_behavior", "trajectory"});
  for (const RowBatch& part : must(make_step(other, c, 1)).parts)
    for (const LossTerm& t : part.terms) EXPECT_EQ(t.weight, 1);
  double most = 0;
  for (const RowBatch& part : must(make_step(none, c, 1)).parts)
    for (const LossTerm& t : part.terms) most = std::max(most, static_cast<double>(t.weight));
  EXPECT_EQ(most, 3);
}

TEST(Sections, AGraphsWeightIsForASectionOrAField) {
  const auto says = [](const std::string& of) {
    const TrainConfig c = must(
        TrainConfig::parse(with("objective", R"({"kind": "graph", "weights": [{"of": ")" + of + R"(", "weight": 3}]})"), "test"));
    const Status s = check_names(Renamed({"road", "plan"}), c);
    return s ? std::string("no error") : s.error().message;
  };
  EXPECT_EQ(says("plan"), "no error");
  EXPECT_EQ(says("field_"), "no error");
  EXPECT_EQ(
      says("nope"),
      "objective: weights: of: expected one of the sections \"road\", \"plan\" or the beginning of a field's name, got \"nope\"");
}

// Mixed sources: the parts' sections under one numbering.
TEST(Sections, OfMixedPartsAreThoseOfAll) {
  const std::string toy = R"({"kind": "toy", "vocab": 24, "fields": 4})";
  const auto mixed =
      must(make_source(parse_json(R"({"kind": "mixed", "parts": [)" + toy + "," + toy + "]}", "data")->as_object(), ""));
  EXPECT_THAT(mixed->outline().sections,
              testing::ElementsAre("critical_objects", "explanation", "future_meta_behavior", "trajectory"));
  const Sample s = must(mixed->get(1));
  EXPECT_EQ(*std::max_element(s.section.begin(), s.section.end()), 3);
}

}  // namespace
}  // namespace slip
