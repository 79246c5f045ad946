// SPDX-License-Identifier: Apache-2.0
// See held_out.h.
#include "train/loop/held_out.h"

#include <algorithm>

namespace slip {
namespace {

/// How many samples the run trains on at most, from "first_sample" on.
Result<int64_t> samples_of_run(const TrainConfig& c) {
  const int64_t trained = c.steps * c.batch * c.accumulate;
  if (!trains_a_head(c.objective)) return trained;
  SLIP_TRY(const int64_t scenes, int_or(c.head, "scenes", 0, "objective"));
  return scenes > 0 ? std::min(trained, scenes) : trained;
}

Status check_end(std::span<const SamplePart> parts, const ValidationRule& v) {
  const int64_t end = end_of(parts);
  if (end == 0 || v.first_sample + v.samples <= end) return {};
  if (parts.size() == 1)
    return bad_input("validation: expected samples among the {} of the data, got {} from {} on", end, v.samples, v.first_sample);
  return bad_input(
      "validation: expected samples before number {}, from which on every part of the data has come round, got {} from {} on", end,
      v.samples, v.first_sample);
}

/// Samples of the validation that are among the run's.
struct Seen {
  int64_t all = 0;
  int64_t in_round = 0;  // of those: of parts that come round, in the run or before the validation's sample
};

Seen seen_of(std::span<const SamplePart> parts, const ValidationRule& v, int64_t first, int64_t last) {
  Seen out;
  for (int64_t i = v.first_sample; i < v.first_sample + v.samples; ++i) {
    const PlaceInPart place = place_of(parts, i);
    const SamplePart& part = parts[place.part];
    const int64_t part_first = taken_before(parts, place.part, first), part_last = taken_before(parts, place.part, last);
    if (!comes_within(part, place.index, part_first, part_last)) continue;
    ++out.all;
    out.in_round += part.size > 0 && std::max(part_last, place.index + 1) > part.size;
  }
  return out;
}

}  // namespace

Result<std::string> check_held_out(const SampleSource& source, const TrainConfig& c) {
  const ValidationRule& v = c.validation;
  if (v.every <= 0) return std::string();
  const std::vector<SamplePart> parts = source.parts();
  SLIP_TRY_(check_end(parts, v));
  SLIP_TRY(const int64_t trained, samples_of_run(c));
  const Seen seen = seen_of(parts, v, c.first_sample, c.first_sample + trained);
  if (seen.all == 0) return std::string();
  if (seen.all > seen.in_round && c.max_minutes <= 0)
    return bad_input(
        "validation: expected samples that are not trained on, got {} from {} on, and the run trains on {} from {} on (fewer "
        "\"steps\" keep them apart)",
        v.samples, v.first_sample, trained, c.first_sample);
  return fmt::format(
      "validation: {} of the {} samples from {} on are among the {} from {} on that the run may train on{}: from there on its "
      "scores are not "
      "of unseen data",
      seen.all, v.samples, v.first_sample, trained, c.first_sample,
      seen.in_round == 0  ? ""
      : parts.size() == 1 ? fmt::format(", where the {} of the data come round", parts.front().size)
                          : fmt::format(", {} of them in parts of the data that come round", seen.in_round));
}

}  // namespace slip
