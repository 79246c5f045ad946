// SPDX-License-Identifier: Apache-2.0
#include "lm/features.h"

#include <algorithm>

#include "base/check.h"

namespace slip {

void Features::append(const Features& more) {
  SLIP_CHECK(more.resident.empty() || numbers_ND.empty(), "a tower's features lie all in one place, and stand before other rows");
  resident.insert(resident.end(), more.resident.begin(), more.resident.end());
  numbers_ND.insert(numbers_ND.end(), more.numbers_ND.begin(), more.numbers_ND.end());
}

size_t Features::bytes() const {
  size_t numbers = numbers_ND.size();
  for (const FeatureBlock& block : resident) numbers += block->numbers();
  return numbers * sizeof(float);
}

Status Features::read(std::vector<float>& features_ND) const {
  features_ND.resize(bytes() / sizeof(float));
  std::span<float> rest = features_ND;
  for (const FeatureBlock& block : resident) {
    SLIP_TRY_(block->read(rest.first(block->numbers())));
    rest = rest.subspan(block->numbers());
  }
  std::copy(numbers_ND.begin(), numbers_ND.end(), rest.begin());
  return {};
}

int64_t FeatureView::resident_rows() const {
  int64_t rows = 0;
  for (const FeatureBlock& block : resident) rows += block->rows();
  return rows;
}

std::optional<FeatureView::Place> FeatureView::place_of(int32_t index, int32_t width) const {
  if (index < 0) return std::nullopt;
  int64_t row = index;
  for (size_t i = 0; i < resident.size(); ++i) {
    if (row < resident[i]->rows()) return Place{static_cast<int32_t>(i), static_cast<int32_t>(row)};
    row -= resident[i]->rows();
  }
  if (row >= static_cast<int64_t>(numbers_ND.size()) / width) return std::nullopt;
  return Place{-1, static_cast<int32_t>(row)};
}

ContentHash content_of(const FeatureView& features, const FeatureView::Place& place, int32_t width) {
  if (place.block < 0) return content_hash(features.numbers_of(place, width));
  const ContentHash& block = features.resident[static_cast<size_t>(place.block)]->content();
  const auto row = static_cast<uint64_t>(place.row);
  return {mix_hash(block.low, row), mix_hash(block.high, ~row) | 1};
}

}  // namespace slip
