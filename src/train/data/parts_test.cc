// SPDX-License-Identifier: Apache-2.0
// Places of samples by arithmetic, against going through the indices one by one.
#include "train/data/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "train/data/shuffle.h"
#include "train/data/source.h"

namespace slip {
namespace {

/// The sample that a part's index has.
int64_t number_of(const SamplePart& p, int64_t index) {
  return p.size == 0 ? index : p.shuffled ? shuffled(index, p.size) : index % p.size;
}

TEST(Shuffle, AnyRecordIsFoundInAnyEpoch) {
  for (const int64_t n : {3, 4, 12, 97, 1000})
    for (int64_t i = 0; i < 3 * n; ++i) EXPECT_EQ(unshuffled(shuffled(i, n), i / n, n), i % n) << n << " " << i;
  constexpr int64_t kLate = int64_t{1} << 58;
  EXPECT_EQ(unshuffled(shuffled(kLate, kMostShuffled), kLate / kMostShuffled, kMostShuffled), kLate % kMostShuffled);
}

TEST(SampleParts, PlacesAndCountsAreThoseOfGoingThroughAll) {
  const std::vector<SamplePart> parts{{.size = 7, .share = 2}, {.size = 0, .share = 1}, {.size = 40, .shuffled = true, .share = 3}};
  std::vector<int64_t> taken(parts.size());
  for (int64_t i = 0; i < 100; ++i) {
    for (size_t p = 0; p < parts.size(); ++p) EXPECT_EQ(taken_before(parts, p, i), taken[p]) << i << " " << p;
    const PlaceInPart place = place_of(parts, i);
    EXPECT_EQ(place.index, taken[place.part]++) << i;
  }
}

TEST(SampleParts, EndWhereTheLastOneHasComeRound) {
  EXPECT_EQ(end_of(std::vector<SamplePart>{{.size = 12}}), 12);
  EXPECT_EQ(end_of(std::vector<SamplePart>{{.size = 12}, {}}), 0) << "an endless part";
  EXPECT_EQ(end_of(std::vector<SamplePart>{{.size = 2, .share = 5}, {.size = 1, .share = 1}}), 6);
  const std::vector<SamplePart> parts{{.size = 3, .shuffled = true}, {.size = 20, .share = 4}, {.size = 5, .share = 2}};
  std::set<std::pair<size_t, int64_t>> seen;
  int64_t end = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const PlaceInPart place = place_of(parts, i);
    if (seen.emplace(place.part, number_of(parts[place.part], place.index)).second) end = i + 1;
  }
  EXPECT_EQ(end_of(parts), end);
}

TEST(SampleParts, ASampleIsFoundAmongIndicesWhereverItComes) {
  for (const SamplePart part : {SamplePart{.size = 5}, SamplePart{.size = 5, .shuffled = true}, SamplePart{}})
    for (int64_t index = 0; index < 17; ++index)
      for (int64_t first = 0; first < 17; ++first)
        for (int64_t last = first; last < 17; ++last) {
          bool comes = false;
          for (int64_t i = first; i < last; ++i) comes |= number_of(part, i) == number_of(part, index);
          EXPECT_EQ(comes_within(part, index, first, last), comes)
              << part.size << part.shuffled << ": " << index << " among " << first << " to " << last;
        }
}

}  // namespace
}  // namespace slip
