// SPDX-License-Identifier: Apache-2.0
// See tfrecord.h.
#include "import/tfrecord.h"

#include <cstring>

namespace slip {
namespace {

constexpr uint64_t kHeader = 12, kFooter = 4;

template <class T>
T read_at(Bytes bytes, uint64_t at) {
  T v{};
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

}  // namespace

std::string TfRecordReader::place() const { return fmt::format("{}: record {} at byte {}", name_, records_, at_); }

Result<std::optional<Bytes>> TfRecordReader::next() {
  const uint64_t left = file_.size() - at_;
  if (left == 0) return std::optional<Bytes>{};
  if (left < kHeader) return bad_input("{}: expected a header of {} bytes, got a file that ends after {}", place(), kHeader, left);
  const auto length = read_at<uint64_t>(file_, at_);
  const auto length_sum = read_at<uint32_t>(file_, at_ + 8);
  if (const uint32_t is = masked_crc32c(file_.subspan(at_, 8)); is != length_sum)
    return bad_input("{}: expected the length's masked CRC-32C to be {:08x}, got {:08x}", place(), length_sum, is);
  if (left < kHeader + kFooter || length > left - kHeader - kFooter)
    return bad_input("{}: expected {} bytes of data and their CRC-32C, got a file that ends after {}", place(), length,
                     left - kHeader);
  const Bytes data = file_.subspan(at_ + kHeader, length);
  const auto data_sum = read_at<uint32_t>(file_, at_ + kHeader + length);
  if (const uint32_t is = masked_crc32c(data); is != data_sum)
    return bad_input("{}: expected the data's masked CRC-32C to be {:08x}, got {:08x}", place(), data_sum, is);
  at_ += kHeader + length + kFooter;
  ++records_;
  return std::optional<Bytes>{data};
}

}  // namespace slip
