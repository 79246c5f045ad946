// SPDX-License-Identifier: Apache-2.0
// Feature rows: what stands in place of token embeddings, as rows of an image do. They lie here as numbers, or on a device, where a tower left them
// and a decoder reads them without a copy.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/result.h"

namespace slip {

/// Feature rows of one image in a device's memory. They stay as long as this does.
class ResidentFeatures {
 public:
  ResidentFeatures(int32_t rows, int32_t width, ContentHash content) : rows_(rows), width_(width), content_(content) {}
  virtual ~ResidentFeatures() = default;
  ResidentFeatures(const ResidentFeatures&) = delete;
  int32_t rows() const { return rows_; }
  int32_t width() const { return width_; }
  /// Of what they were made from: equal ones of one tower hold equal numbers. Never empty.
  const ContentHash& content() const { return content_; }
  size_t numbers() const { return static_cast<size_t>(rows_) * static_cast<size_t>(width_); }
  /// A copy of numbers() numbers. kResource for anything about the device.
  virtual Status read(std::span<float> to) const = 0;

 private:
  int32_t rows_, width_;
  ContentHash content_;
};
using FeatureBlock = std::shared_ptr<const ResidentFeatures>;

/// Rows in order: those of the blocks, one block behind the other, and behind them the numbers' own.
struct Features {
  std::vector<FeatureBlock> resident;
  std::vector<float> numbers_ND;

  bool empty() const { return resident.empty() && numbers_ND.empty(); }
  /// Behind what is there, whose rows keep their numbers: blocks may not come behind numbers.
  void append(const Features& more);
  size_t bytes() const;
  /// All rows as numbers: a copy.
  Status read(std::vector<float>& features_ND) const;
};

/// Rows that are lent.
struct FeatureView {
  std::span<const FeatureBlock> resident;
  std::span<const float> numbers_ND;

  FeatureView() = default;
  FeatureView(const Features& f) : resident(f.resident), numbers_ND(f.numbers_ND) {}  // NOLINT(google-explicit-constructor)
  FeatureView(std::span<const float> numbers) : numbers_ND(numbers) {}                // NOLINT(google-explicit-constructor)
  FeatureView(const std::vector<float>& numbers) : numbers_ND(numbers) {}             // NOLINT(google-explicit-constructor)
  FeatureView(std::span<const FeatureBlock> blocks, std::span<const float> numbers) : resident(blocks), numbers_ND(numbers) {}

  /// Whole rows of `width`.
  int64_t rows(int32_t width) const { return resident_rows() + static_cast<int64_t>(numbers_ND.size()) / width; }
  int64_t resident_rows() const;
  /// Where row `index` lies: a row of resident[block], or with block -1 a row of the numbers. Nothing where there is no such row.
  struct Place {
    int32_t block = -1, row = 0;
  };
  std::optional<Place> place_of(int32_t index, int32_t width) const;
  /// Of a row among the numbers.
  std::span<const float> numbers_of(const Place& place, int32_t width) const {
    return numbers_ND.subspan(static_cast<size_t>(place.row) * static_cast<size_t>(width), static_cast<size_t>(width));
  }
};

/// Of one row: that of its numbers, or its block's and its place there.
ContentHash content_of(const FeatureView& features, const FeatureView::Place& place, int32_t width);

}  // namespace slip
