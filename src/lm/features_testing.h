// SPDX-License-Identifier: Apache-2.0
// Features that lie elsewhere, for tests: numbers that a pass cannot read but by their block.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "lm/features.h"

namespace slip::test {

class HeldFeatures final : public ResidentFeatures {
 public:
  HeldFeatures(std::vector<float> numbers_ND, int32_t width)
      : ResidentFeatures(static_cast<int32_t>(numbers_ND.size()) / width, width, content_hash(std::span<const float>(numbers_ND))),
        numbers_ND_(std::move(numbers_ND)) {}
  Status read(std::span<float> to) const override {
    std::ranges::copy(numbers_ND_, to.begin());
    return {};
  }

 private:
  std::vector<float> numbers_ND_;
};

/// The first `rows` rows of the numbers as a block in front of the others; rows keep their numbers.
inline void hold_first(Features& f, int32_t rows, int32_t width) {
  const auto end = f.numbers_ND.begin() + static_cast<ptrdiff_t>(rows) * width;
  f.resident.push_back(std::make_shared<HeldFeatures>(std::vector<float>(f.numbers_ND.begin(), end), width));
  f.numbers_ND.erase(f.numbers_ND.begin(), end);
}

}  // namespace slip::test
