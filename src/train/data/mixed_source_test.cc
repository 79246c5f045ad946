// SPDX-License-Identifier: Apache-2.0
#include "train/data/mixed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slip {
namespace {

using testing::HasSubstr;

json::object object(const std::string& text) { return parse_json(text, "data")->as_object(); }

std::string toy(int seed, const std::string& more = "") {
  return R"({"kind": "toy", "vocab": 64, "seed": )" + std::to_string(seed) + more + "}";
}

TEST(MixedSource, GivesEachPartItsShareInItsOwnOrder) {
  const auto mixed = make_source(
      object(R"({"kind": "mixed", "parts": [)" + toy(1, R"(, "share": 2)") + "," + toy(2) + "," + toy(3, R"(, "share": 3)") + "]}"),
      "");
  ASSERT_TRUE(mixed) << mixed.error().message;
  std::vector<std::unique_ptr<SampleSource>> alone;
  for (const int seed : {1, 2, 3}) alone.push_back(*make_source(object(toy(seed)), ""));
  static constexpr std::array<size_t, 6> kTurn = {0, 0, 1, 2, 2, 2};
  std::array<int64_t, 3> next{};
  for (int64_t i = 0; i < 60; ++i) {
    const size_t part = kTurn[static_cast<size_t>(i % 6)];
    const auto got = (*mixed)->get(i), expected = alone[part]->get(next[part]++);
    ASSERT_TRUE(got && expected);
    EXPECT_EQ(got->tokens, expected->tokens) << i;
  }
  EXPECT_EQ((*mixed)->get(1003)->tokens, (*mixed)->get(1003)->tokens) << "sample i is the same whatever came before it";
}

TEST(MixedSource, TellsWhichSampleOfWhichPartItGives) {
  const auto mixed = make_source(object(R"({"kind": "mixed", "parts": [)" + toy(1, R"(, "size": 3)") + "," +
                                        toy(2, R"(, "size": 9, "share": 2)") + "," + toy(3) + "]}"),
                                 "");
  ASSERT_TRUE(mixed) << mixed.error().message;
  std::vector<std::unique_ptr<SampleSource>> alone;
  for (const int seed : {1, 2, 3}) alone.push_back(*make_source(object(toy(seed)), ""));
  const std::vector<SamplePart> parts = (*mixed)->parts();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ((std::array{parts[0].size, parts[1].size, parts[2].size}), (std::array<int64_t, 3>{3, 9, 0}));
  EXPECT_EQ(parts[1].share, 2);
  for (int64_t i = 0; i < 60; ++i) {
    const PlaceInPart place = place_of(parts, i);
    const int64_t size = parts[place.part].size, number = size > 0 ? place.index % size : place.index;
    EXPECT_EQ((*mixed)->get(i)->tokens, alone[place.part]->get(number)->tokens) << i;
  }
}

TEST(MixedSource, SaysWhichPartIsWrong) {
  const auto message = [](const std::string& text) {
    const auto made = make_source(object(text), "");
    return made ? std::string() : made.error().message;
  };
  EXPECT_THAT(message(R"({"kind": "mixed"})"), HasSubstr("data: parts: expected a list"));
  EXPECT_THAT(message(R"({"kind": "mixed", "parts": []})"), HasSubstr("data: parts: expected a list"));
  EXPECT_THAT(message(R"({"kind": "mixed", "parts": [3]})"), HasSubstr("parts: 0: expected an object"));
  EXPECT_THAT(message(R"({"kind": "mixed", "parts": [)" + toy(1) + "," + toy(2, R"(, "share": 0)") + "]}"),
              HasSubstr("parts: 1: share: expected 1 to 1000, got 0"));
  EXPECT_THAT(message(R"({"kind": "mixed", "parts": [)" + toy(1) + R"(, {"kind": "nothing"}]})"),
              HasSubstr("data: parts: 1: kind: expected"));
  EXPECT_THAT(message(R"({"kind": "mixed", "parts": [{"kind": "mixed", "parts": []}]})"),
              HasSubstr("expected a source of its own"));
}

TEST(Source, RefusesUnknownKeys) {
  const auto message = [](const std::string& text) {
    const auto made = make_source(object(text), "nowhere");
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(message(toy(1, R"(, "valeus": 3)")), R"(data: expected a known key, got "valeus")");
  EXPECT_EQ(message(R"({"kind": "mixed", "shares": 2, "parts": [)" + toy(1) + "]}"), R"(data: expected a known key, got "shares")");
  EXPECT_EQ(message(R"({"kind": "mixed", "parts": [)" + toy(1) + "," + toy(2, R"(, "onyl": "braking")") + "]}"),
            R"(data: parts: 1: expected a known key, got "onyl")");
  EXPECT_EQ(message(R"({"kind": "texts", "first_seed": 1, "count": 9, "vocab": 9})"), R"(data: expected a known key, got "vocab")");
  EXPECT_EQ(message(R"({"kind": "actions", "records": "r", "model": "m", "unnorm": "x"})"),
            R"(data: expected a known key, got "unnorm")");
}

TEST(Source, SeedsOfScenesDoNotWrapAround) {
  const auto made = make_source(object(R"({"kind": "texts", "first_seed": -1, "count": 9})"), "nowhere");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "data: first_seed: expected 0 to 4611686018427387904, got -1");
}

TEST(Source, NamesTheTokenizerThatIsMissing) {
  for (const char* kind : {"records", "simulated", "texts", "actions"}) {
    const auto made = make_source({{"kind", kind}}, "");
    ASSERT_FALSE(made) << kind;
    EXPECT_EQ(made.error().message, fmt::format("tokenizer: expected a folder beside data of kind \"{}\", got none", kind));
  }
}

}  // namespace
}  // namespace slip
