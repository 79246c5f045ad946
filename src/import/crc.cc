// SPDX-License-Identifier: Apache-2.0
// See crc.h. Eight bytes a step through eight tables ("slicing by eight"): a recorded drive is gigabytes.
#include "import/crc.h"

#include <array>
#include <bit>
#include <cstring>

namespace slip {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables tables_of(uint32_t polynomial) {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) != 0 ? polynomial : 0U);
    t[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFFU];
  return t;
}

constexpr Tables kCastagnoli = tables_of(0x82F63B78U), kEthernet = tables_of(0xEDB88320U);

uint32_t sum(const Tables& t, Bytes bytes, uint32_t before) {
  uint32_t c = ~before;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low = 0, high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= c;
    c = t[7][low & 0xFFU] ^ t[6][(low >> 8) & 0xFFU] ^ t[5][(low >> 16) & 0xFFU] ^ t[4][low >> 24] ^ t[3][high & 0xFFU] ^
        t[2][(high >> 8) & 0xFFU] ^ t[1][(high >> 16) & 0xFFU] ^ t[0][high >> 24];
  }
  for (; n > 0; --n, ++p) c = (c >> 8) ^ t[0][(c ^ static_cast<uint32_t>(*p)) & 0xFFU];
  return ~c;
}

}  // namespace

uint32_t crc32c(Bytes bytes, uint32_t before) { return sum(kCastagnoli, bytes, before); }
uint32_t crc32(Bytes bytes, uint32_t before) { return sum(kEthernet, bytes, before); }

uint32_t masked_crc32c(Bytes bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

}  // namespace slip
