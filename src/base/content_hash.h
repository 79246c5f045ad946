// SPDX-License-Identifier: Apache-2.0
// Hashes. ContentHash, 128 bits, is for content that others send: it is keyed with random numbers of the process, so that nobody outside can make
// two contents that collide; by chance two of 2^64 contents would. The others give the same on every machine and in every process: for checksums,
// names of files and keyed draws.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <utility>

namespace slip {

/// FNV-1a, from `h` on.
inline constexpr uint64_t kFnvStart = 0xCBF29CE484222325u;
inline uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t h = kFnvStart) {
  for (const std::byte b : bytes) h = (h ^ static_cast<uint64_t>(b)) * 0x100000001B3u;
  return h;
}
inline uint64_t fnv1a(std::string_view text, uint64_t h = kFnvStart) { return fnv1a(std::as_bytes(std::span(text)), h); }

/// Every bit of the number counts for every bit of the result: the output function of Steele et al., "Fast splittable pseudorandom number
/// generators" (2014).
constexpr uint64_t mix_bits(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
  return h ^ (h >> 31);
}

struct ContentHash {
  uint64_t low = 0, high = 0;  // both 0: of nothing yet
  bool operator==(const ContentHash&) const = default;
  bool empty() const { return low == 0 && high == 0; }
};

/// The high and low half of a product, together: every bit of both factors counts.
inline uint64_t mix_hash(uint64_t h, uint64_t x) {
  const unsigned __int128 product = static_cast<unsigned __int128>(h ^ x) * 0x9E3779B97F4A7C15u;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline const std::pair<uint64_t, uint64_t>& process_hash_keys() {
  static const std::pair<uint64_t, uint64_t> keys = [] {
    std::random_device d;
    const auto word = [&] { return uint64_t{d()} << 32 | d(); };
    return std::pair{word(), word()};
  }();
  return keys;
}

/// Never empty().
inline ContentHash content_hash(std::span<const std::byte> bytes) {
  const auto& keys = process_hash_keys();
  uint64_t low = mix_hash(keys.first, bytes.size()), high = keys.second;
  const auto take = [&](uint64_t word) {
    low = mix_hash(low, word);
    high = mix_hash(high + 1, ~word);
  };
  const size_t whole = bytes.size() / sizeof(uint64_t) * sizeof(uint64_t);
  uint64_t word = 0;
  for (size_t i = 0; i < whole; i += sizeof word) {
    std::memcpy(&word, bytes.data() + i, sizeof word);
    take(word);
  }
  if (whole < bytes.size()) {
    word = 0;
    std::memcpy(&word, bytes.data() + whole, bytes.size() - whole);
    take(word);
  }
  return {low, high | 1};
}
inline ContentHash content_hash(std::span<const float> numbers) { return content_hash(std::as_bytes(numbers)); }

/// A checksum of pieces, each behind the one before (`h`), all but the last in whole words: the same on every machine.
inline uint64_t checksum(std::span<const std::byte> bytes, uint64_t h = kFnvStart) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); i += sizeof word) {
    const size_t n = std::min(sizeof word, bytes.size() - i);
    word = 0;
    std::memcpy(&word, bytes.data() + i, n);
    h = mix_hash(h + n, word);
  }
  return h;
}

}  // namespace slip
