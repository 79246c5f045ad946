// SPDX-License-Identifier: Apache-2.0
// Which part of its data a source's sample is from, and where else it comes: by arithmetic, however long a run is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace slip {

/// One of the sources that a source takes samples from in turn: the only one, but for mixed sources. Its samples come in rounds: those with the
/// indices 0 .. size - 1 are the first, and each further round has all of them again.
struct SamplePart {
  int64_t size = 0;       // how many samples there are before one comes again; 0: endless
  bool shuffled = false;  // each round has an order of its own (shuffle.h); else all have one
  int64_t share = 1;      // samples in each turn
};

struct PlaceInPart {
  size_t part;
  int64_t index;  // the part's own
};

/// The place of sample `index` >= 0. A turn has each part's next `share` samples, in the order of the parts.
PlaceInPart place_of(std::span<const SamplePart> parts, int64_t index);
/// How many of the first `index` samples are part `part`'s.
int64_t taken_before(std::span<const SamplePart> parts, size_t part, int64_t index);
/// The index from which on no part has a sample that has not come before; 0: there always is one.
int64_t end_of(std::span<const SamplePart> parts);
/// Has one of the part's indices first .. last - 1 the sample that its `index` has?
bool comes_within(const SamplePart& part, int64_t index, int64_t first, int64_t last);

}  // namespace slip
