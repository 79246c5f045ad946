// SPDX-License-Identifier: Apache-2.0
// Keyed uniforms: Philox4x32-10 (Salmon et al., SC'11). Random numbers are a function of a key and nothing else, so that an
// answer does not depend on the order in which its tokens were decided.
#pragma once
#include <array>
#include <cstdint>

namespace slip {

using Philox4 = std::array<uint32_t, 4>;

/// out = Philox4x32-10(counter, key): multipliers D2511F53 on word 0, CD9E8D57 on word 2; key steps 9E3779B9, BB67AE85.
constexpr Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// What a uniform is for. Exact decoders use kToken alone; rejection sampling uses all.
enum class Purpose : uint32_t { kToken = 0, kDraft = 1, kAccept = 2, kResidual = 3 };

/// Where a drawn token stands: request (or rollout) number, field in the form's order (free text: 0), index in the field.
struct DrawKey {
  uint32_t request = 0;
  uint32_t field = 0;
  uint32_t index = 0;
  Purpose purpose = Purpose::kToken;
};

/// u in (0, 1): ((word 0 >> 8) + 0.5) * 2^-24, exact in double; key = (seed mod 2^32, seed >> 32),
/// counter = (request, field, index, purpose).
constexpr double keyed_uniform(uint64_t seed, DrawKey k) {
  const Philox4 out = philox4x32({k.request, k.field, k.index, static_cast<uint32_t>(k.purpose)},
                                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return ((out[0] >> 8) + 0.5) * 0x1p-24;
}

/// A stream of numbers from one key, for whoever draws many (the simulator, the trainer). Copyable, 40 bytes.
class PhiloxStream {
 public:
  constexpr PhiloxStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  constexpr uint32_t bits() {
    if (left_ == 0) {
      out_ = philox4x32({static_cast<uint32_t>(n_), static_cast<uint32_t>(n_ >> 32), static_cast<uint32_t>(stream_),
                         static_cast<uint32_t>(stream_ >> 32)},
                        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
      ++n_;
      left_ = 4;
    }
    return out_[4 - left_--];
  }
  /// u in (0, 1), 24 bits.
  constexpr double uniform() { return ((bits() >> 8) + 0.5) * 0x1p-24; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// 0 .. n-1, n >= 1 (multiply-shift; bias below n / 2^32).
  constexpr uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{bits()} * n) >> 32); }
  constexpr bool chance(double p) { return uniform() < p; }

 private:
  uint64_t seed_, stream_, n_ = 0;
  Philox4 out_{};
  int left_ = 0;
};

}  // namespace slip
