// SPDX-License-Identifier: Apache-2.0
// Seeds of simulated scenes, as a configuration names the first of a run of them.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace slip {

/// A first seed so high that no count of scenes, which is below it too, wraps around to others' seeds.
constexpr int64_t kMostFirstSeed = int64_t{1} << 62;

/// `key` of "data", from 0 to kMostFirstSeed; kBadInput where it is beyond, or is not there.
inline Result<uint64_t> scene_seed(const json::object& data, std::string_view key) {
  SLIP_TRY(const int64_t seed, get_int(data, key, "data"));
  if (seed < 0 || seed > kMostFirstSeed) return bad_input("data: {}: expected 0 to {}, got {}", key, kMostFirstSeed, seed);
  return static_cast<uint64_t>(seed);
}
inline Result<uint64_t> scene_seed_or(const json::object& data, std::string_view key, uint64_t other) {
  return data.contains(key) ? scene_seed(data, key) : Result<uint64_t>(other);
}

}  // namespace slip
