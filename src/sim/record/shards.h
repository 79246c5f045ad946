// SPDX-License-Identifier: Apache-2.0
// Record sets on disk: shards with an index, regenerable from (version, seed).
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "sim/record.h"

namespace slip::sim {

/// Record sets: `DIR/index.json` and `DIR/shard-00000.slip`: fixed header, little endian, fixed-size records, memory-mapped.
class RecordSetWriter {
 public:
  static Result<RecordSetWriter> create(const std::filesystem::path& dir, uint64_t first_seed, int64_t count,
                                        std::optional<uint32_t> family);
  /// For records that come from elsewhere, however many they are: the index names `source` in place of seeds.
  static Result<RecordSetWriter> create(const std::filesystem::path& dir, std::string source);
  RecordSetWriter(RecordSetWriter&&) noexcept;
  ~RecordSetWriter();
  Status add(const Record& r);
  Status finish();  // renames the shards and writes the index
 private:
  struct Impl;
  explicit RecordSetWriter(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};
class RecordSet {
 public:
  /// A set's folder or one shard file. Errors name file, expected, got. Reads headers only: a shard's labels are summed at its first use.
  static Result<RecordSet> open(const std::filesystem::path& path);
  int64_t size() const;
  Result<Labels> labels(int64_t i) const;
  /// kCameras * kImageBytes, memory-mapped; an error for a record without.
  Result<std::span<const uint8_t>> pictures(int64_t i) const;
  /// The same; empty for a record without pictures.
  std::span<const uint8_t> images(int64_t i) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace slip::sim
