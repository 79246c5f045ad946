// SPDX-License-Identifier: Apache-2.0
// The order in which a source's records come.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/json.h"
#include "base/philox.h"

namespace slip {

// Records of one source: products of two such counts fit 63 bits, and one fits PhiloxStream::below.
constexpr int64_t kMostShuffled = int64_t{1} << 31;

/// The records that "first" and "count" of a source ask for, of `size` that there are; `what` names those.
inline Result<std::pair<int64_t, int64_t>> asked_of(const json::object& data, int64_t size, std::string_view what) {
  SLIP_TRY(const int64_t first, int_or(data, "first", 0, "data"));
  if (first < 0 || first > size) return bad_input("data: first: expected 0 to {}, got {}", size, first);
  const int64_t most = std::min(size - first, kMostShuffled);
  SLIP_TRY(const int64_t count, int_or(data, "count", most, "data"));
  if (count < 3 || count > most)
    return bad_input("data: expected first and count (at least 3) within the {} {}, got {} and {}", size, what, first, count);
  return std::pair{first, count};
}

/// The order of an epoch: a keyed affine walk over 0 .. n-1 (step coprime to n), different in every epoch; 3 <= n <= kMostShuffled.
/// Steps from n/3 to 2n/3: records that follow each other in a set (written in order of their seeds) stand far apart in an epoch.
struct EpochWalk {
  int64_t start, step;
};
inline EpochWalk walk_of(int64_t epoch, int64_t n) {
  // The key of epochs' orders: fixed, so that a data set has one order whatever the run's seed, and its own, so that no other stream
  // of uniforms is drawn again. The value carries no meaning.
  constexpr uint64_t kOrderSeed = 0x5eed;
  PhiloxStream r(kOrderSeed, static_cast<uint64_t>(epoch));
  const auto start = static_cast<int64_t>(r.below(static_cast<uint32_t>(n)));
  auto step = static_cast<int64_t>(n / 3 + r.below(static_cast<uint32_t>(n / 3 + 1)));
  while (std::gcd(step, n) != 1) ++step;
  return {start, step};
}

/// The record that comes at `index`.
inline int64_t shuffled(int64_t index, int64_t n) {
  const EpochWalk walk = walk_of(index / n, n);
  return (walk.start + (index % n) * walk.step) % n;
}

/// 1 / a modulo n, for a coprime to n and 0 < a < n: Euclid's algorithm, extended.
inline int64_t inverse_modulo(int64_t a, int64_t n) {
  int64_t rest = n, next_rest = a, factor = 0, next_factor = 1;
  while (next_rest != 0) {
    const int64_t quotient = rest / next_rest;
    rest = std::exchange(next_rest, rest - quotient * next_rest);
    factor = std::exchange(next_factor, factor - quotient * next_factor);
  }
  return factor < 0 ? factor + n : factor;
}

/// Where the record comes within an epoch: shuffled(epoch * n + unshuffled(record, epoch, n), n) == record.
inline int64_t unshuffled(int64_t record, int64_t epoch, int64_t n) {
  const EpochWalk walk = walk_of(epoch, n);
  return (record - walk.start + n) % n * inverse_modulo(walk.step, n) % n;
}

}  // namespace slip
