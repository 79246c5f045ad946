// SPDX-License-Identifier: Apache-2.0
// The two cyclic redundancy checks of recorded data: CRC-32C (Castagnoli) of TFRecords and CRC-32 (IEEE 802.3, as zlib's) of MCAP.
// Both reflected, initial value and final xor 0xFFFFFFFF.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace slip {

using Bytes = std::span<const std::byte>;

/// `before`: the sum of the bytes that came earlier, to go on from.
uint32_t crc32c(Bytes bytes, uint32_t before = 0);
uint32_t crc32(Bytes bytes, uint32_t before = 0);
/// TFRecord's masked sum: rotated right by 15 bits, plus 0xA282EAD8.
uint32_t masked_crc32c(Bytes bytes);

}  // namespace slip
