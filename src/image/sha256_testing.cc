// SPDX-License-Identifier: Apache-2.0
// SHA-256 straight from FIPS 180-4. The constants are what the standard says they are: fractional parts of roots of primes.
#include "image/sha256_testing.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace slip {
namespace {

struct Constants {
  std::array<uint32_t, 8> start;
  std::array<uint32_t, 64> k;
};

/// First 32 fractional bits of the square (start) and cube (k) roots of the first primes; long double holds them exactly enough.
Constants make_constants() {
  Constants c;
  const auto fraction = [](long double x) { return static_cast<uint32_t>((x - std::floor(x)) * 4294967296.0L); };
  size_t found = 0;
  for (int n = 2; found < 64; ++n) {
    bool prime = true;
    for (int d = 2; d * d <= n; ++d) prime &= n % d != 0;
    if (!prime) continue;
    if (found < 8) c.start[found] = fraction(std::sqrt(static_cast<long double>(n)));
    c.k[found++] = fraction(std::cbrt(static_cast<long double>(n)));
  }
  return c;
}

void absorb(std::array<uint32_t, 8>& h, const uint8_t* block, const Constants& c) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] + (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<uint32_t, 8> s = h;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + c.k[i] + w[i];
    const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; ++i) h[i] += s[i];
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  static const Constants c = make_constants();
  std::vector<uint8_t> m(bytes.size());
  if (!bytes.empty()) std::memcpy(m.data(), bytes.data(), bytes.size());
  m.push_back(0x80);
  while (m.size() % 64 != 56) m.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) m.push_back(static_cast<uint8_t>(uint64_t{bytes.size()} * 8 >> shift));
  std::array<uint32_t, 8> h = c.start;
  for (size_t at = 0; at < m.size(); at += 64) absorb(h, &m[at], c);
  std::string hex;
  for (const uint32_t v : h) hex += fmt::format("{:08x}", v);
  return hex;
}

}  // namespace slip
