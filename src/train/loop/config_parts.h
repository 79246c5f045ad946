// SPDX-License-Identifier: Apache-2.0
// What the files that read the trainer's configuration share; its own contract is in config.h.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "train/data/known_keys.h"
#include "train/loop/config.h"

namespace slip {

inline Status at_least(int64_t value, int64_t least, std::string_view key, const std::string& where) {
  if (value < least) return bad_input("{}: {}: expected at least {}, got {}", where, key, least, value);
  return {};
}

inline Status within(int64_t value, int64_t least, int64_t most, std::string_view key, const std::string& where) {
  SLIP_TRY_(at_least(value, least, key, where));
  if (value > most) return bad_input("{}: {}: expected at most {}, got {}", where, key, most, value);
  return {};
}

// Sample numbers are first_sample + steps * batch * accumulate: with these bounds below 2^62. Steps fit the noise key's 32 bits.
constexpr int64_t kMostSteps = (int64_t{1} << 31) - 1, kMostBatch = int64_t{1} << 15, kMostFirst = int64_t{1} << 61;
constexpr int64_t kMostThreads = 4096, kMostDataThreads = 256, kMostShards = 1024;
// Of random weights: usual ones have 0.02, and a layer multiplies its input by the deviation times the root of its width.
constexpr double kMostDeviation = 100;
constexpr double kMostMinutes = 1e6;  // two years

inline Result<std::array<double, 2>> pair_of(const json::object& o, std::string_view key, std::array<double, 2> other,
                                             const std::string& where) {
  if (!o.contains(key)) return other;
  SLIP_TRY(const json::array* a, get_array(o, key, where));
  if (a->size() != 2 || !(*a)[0].is_number() || !(*a)[1].is_number())
    return bad_input("{}: {}: expected two numbers, got {}", where, key, json::serialize(*a));
  return std::array<double, 2>{(*a)[0].to_number<double>(), (*a)[1].to_number<double>()};
}

/// A number from `least` to `most`; NaN is none.
inline Status within(double value, double least, double most, std::string_view key, const std::string& where) {
  if (value >= least && value <= most) return {};
  return bad_input("{}: {}: expected a number from {} to {}, got {}", where, key, least, most, value);
}

/// What the configuration trains: its "kind", or its objective's.
Result<ObjectiveKind> read_kind(const json::object& root, const std::string& where);
/// "objective", of the kind and the model that `c` has already.
Status read_objective(const json::object& root, TrainConfig& c, const std::string& outer);

}  // namespace slip
