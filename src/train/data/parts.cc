// SPDX-License-Identifier: Apache-2.0
// See parts.h.
#include "train/data/parts.h"

#include <algorithm>

#include "train/data/shuffle.h"

namespace slip {
namespace {

int64_t turn_of(std::span<const SamplePart> parts) {
  int64_t out = 0;
  for (const SamplePart& p : parts) out += p.share;
  return out;
}

int64_t before_in_turn(std::span<const SamplePart> parts, size_t part) { return turn_of(parts.first(part)); }

}  // namespace

PlaceInPart place_of(std::span<const SamplePart> parts, int64_t index) {
  const int64_t turn = turn_of(parts);
  int64_t within = index % turn;
  size_t part = 0;
  for (; within >= parts[part].share; ++part) within -= parts[part].share;
  return {part, index / turn * parts[part].share + within};
}

int64_t taken_before(std::span<const SamplePart> parts, size_t part, int64_t index) {
  const int64_t turn = turn_of(parts), share = parts[part].share;
  return index / turn * share + std::clamp<int64_t>(index % turn - before_in_turn(parts, part), 0, share);
}

int64_t end_of(std::span<const SamplePart> parts) {
  const int64_t turn = turn_of(parts);
  int64_t end = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size == 0) return 0;
    const int64_t last = parts[i].size - 1;
    end = std::max(end, last / parts[i].share * turn + before_in_turn(parts, i) + last % parts[i].share + 1);
  }
  return end;
}

bool comes_within(const SamplePart& part, int64_t index, int64_t first, int64_t last) {
  if (first >= last) return false;
  if (part.size == 0) return first <= index && index < last;
  const int64_t n = part.size, first_round = first / n, last_round = (last - 1) / n;
  if (last_round > first_round + 1) return true;  // there is a whole round between them
  const int64_t number = part.shuffled ? shuffled(index, n) : index % n;
  const auto comes_in_round = [&](int64_t round) {
    const int64_t at = round * n + (part.shuffled ? unshuffled(number, round, n) : number);
    return first <= at && at < last;
  };
  return comes_in_round(first_round) || comes_in_round(last_round);
}

}  // namespace slip
