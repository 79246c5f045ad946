// SPDX-License-Identifier: Apache-2.0
// Which validations are refused and of which a user is warned, where the data are one source or several.
#include "train/loop/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/must_testing.h"

namespace slip {
namespace {

using testing::HasSubstr;

/// Where samples come from, and no samples.
class Parts : public SampleSource {
 public:
  explicit Parts(std::vector<SamplePart> parts) : parts_(std::move(parts)) {}
  Result<Sample> get(int64_t) override { return bad_input("sample: expected none to be asked for, got one"); }
  std::vector<SamplePart> parts() const override { return parts_; }

 private:
  std::vector<SamplePart> parts_;
};

struct Asked {
  int64_t steps = 1, first_sample = 0;       // of the run, a sample each step
  int64_t held_out = 0, held_out_count = 1;  // of the validation
  double max_minutes = 0;
};

/// The refusal or the warning; empty: neither.
std::string said(const std::vector<SamplePart>& parts, const Asked& a) {
  TrainConfig c;
  c.steps = a.steps, c.batch = 1, c.first_sample = a.first_sample, c.max_minutes = a.max_minutes;
  c.validation = {.every = 1, .samples = a.held_out_count, .first_sample = a.held_out};
  const Result<std::string> held_out = check_held_out(Parts(parts), c);
  return held_out ? *held_out : "refused: " + held_out.error().message;
}

// Turns of ten samples: the small part comes round after sample 1000, the large one after some 111,000.
const std::vector<SamplePart> kMixed{{.size = 100, .share = 1}, {.size = 100'000, .shuffled = true, .share = 9}};

TEST(HeldOut, ASmallPartThatComesRoundIsNotTheEndOfTheData) {
  EXPECT_EQ(said(kMixed, {.steps = 4000, .held_out = 5001, .held_out_count = 9}), "") << "of the large part alone";
  EXPECT_EQ(said(kMixed, {.steps = 10, .held_out = 5020, .held_out_count = 10}), "")
      << "sample 2 of the small part, and the run takes 0";
  EXPECT_EQ(said({{.size = 1, .share = 5}, {.size = 100, .share = 5}},
                 {.steps = 4, .first_sample = 5, .held_out = 15, .held_out_count = 5}),
            "")
      << "a part that is smaller than its share";
}

TEST(HeldOut, OfPartsThatComeRoundItCountsWhatIsTrainedOn) {
  EXPECT_EQ(
      said(kMixed, {.steps = 4000, .held_out = 5000, .held_out_count = 20}),
      "validation: 2 of the 20 samples from 5000 on are among the 4000 from 0 on that the run may train on, 2 of them in parts of "
      "the data that come round: from there on its scores are not of unseen data");
  EXPECT_THAT(
      said({{.size = 12}}, {.steps = 10, .first_sample = 4, .held_out = 1, .held_out_count = 3}),
      HasSubstr("1 of the 3 samples from 1 on are among the 10 from 4 on that the run may train on, where the 12 of the data come "
                "round"));
  EXPECT_EQ(said({{.size = 12}}, {.steps = 10, .first_sample = 4, .held_out = 2, .held_out_count = 2}), "")
      << "its second round has 0 and 1 alone";
}

TEST(HeldOut, WhatIsTrainedOnIsRefused) {
  EXPECT_EQ(
      said(kMixed, {.steps = 6000, .held_out = 5000, .held_out_count = 2}),
      "refused: validation: expected samples that are not trained on, got 2 from 5000 on, and the run trains on 6000 from 0 on "
      "(fewer \"steps\" keep them apart)");
  EXPECT_THAT(said(kMixed, {.steps = 6000, .held_out = 5000, .held_out_count = 2, .max_minutes = 1}),
              HasSubstr("validation: 2 of the 2 samples"));
  EXPECT_THAT(said({{}, {}}, {.steps = 6, .held_out = 5}), HasSubstr("refused: "));
  EXPECT_EQ(said({{}, {}}, {.steps = 5, .held_out = 5}), "");
}

TEST(HeldOut, BehindTheEndOfAllPartsIsRefused) {
  EXPECT_EQ(said(kMixed, {.held_out = 111'111}), "");
  EXPECT_EQ(
      said(kMixed, {.held_out = 111'110, .held_out_count = 3}),
      "refused: validation: expected samples before number 111112, from which on every part of the data has come round, got 3 from "
      "111110 on");
  EXPECT_EQ(said({{.size = 12}}, {.held_out = 12}),
            "refused: validation: expected samples among the 12 of the data, got 1 from 12 on");
}

// The longest run, at the end of its range, over the largest parts: each sample of the validation is a few divisions.
TEST(HeldOut, LongRunsTakeNoLonger) {
  constexpr int64_t kMost = int64_t{1} << 31, kLongest = kMost - 1;
  const std::vector<SamplePart> parts{{.size = kMost, .shuffled = true, .share = 1000},
                                      {.size = kMost - 1, .shuffled = true, .share = 999}};
  EXPECT_THAT(said(parts, {.steps = kLongest, .first_sample = int64_t{1} << 61, .held_out = kMost, .held_out_count = 1 << 15}),
              HasSubstr(" of the 32768 samples from 2147483648 on are among"));
}

}  // namespace
}  // namespace slip
