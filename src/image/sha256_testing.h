// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), so that tests can compare arrays with published digests. Tests only.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace slip {

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace slip
