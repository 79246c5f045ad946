// SPDX-License-Identifier: Apache-2.0
// TFRecord files: a record is u64 length, masked CRC-32C of these eight bytes, data, masked CRC-32C of the data; little endian. An empty
// file is a file without records.
#pragma once
#include <optional>
#include <string>

#include "base/file.h"
#include "import/crc.h"

namespace slip {

class TfRecordReader {
 public:
  /// The bytes outlive the reader; `name` opens messages.
  TfRecordReader(Bytes file, std::string name) : file_(file), name_(std::move(name)) {}
  /// The next record's data, or nothing at the end. kBadInput, in this order: header whole, its sum, data whole, its sum. The message
  /// names the record's number (from 0) and the byte where it begins; nothing is allocated. The reader stays where the error is.
  Result<std::optional<Bytes>> next();
  int64_t records() const { return records_; }
  uint64_t offset() const { return at_; }  // of the next record
  /// "FILE: record 3 at byte 5191".
  std::string place() const;

 private:
  Bytes file_;
  std::string name_;
  uint64_t at_ = 0;
  int64_t records_ = 0;
};

}  // namespace slip
