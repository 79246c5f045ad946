// SPDX-License-Identifier: Apache-2.0
// See folder_writer.h. Data begin at a multiple of 64 bytes, so that tensors whose sizes are multiples of 64 all do.
#include "convert/folder_writer.h"

#include <algorithm>

#include "base/check.h"
#include "core/safetensors_header.h"

namespace slip {

namespace fs = std::filesystem;

Status check_outside(const fs::path& source, const fs::path& target, std::string_view command) {
  std::error_code ec;
  const fs::path from = fs::weakly_canonical(source, ec), to = fs::weakly_canonical(fs::absolute(target, ec), ec);
  const auto [end, inside] = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  if (end != from.end() || inside == to.end() || inside->empty() || ec) return {};  // the folder itself is one that exists
  return usage_error("{}: --out: expected a folder outside of {}, got {} in it", command, source.string(), target.string());
}

int64_t TensorPlan::bytes() const {
  int64_t n = static_cast<int64_t>(size_of(dtype));
  for (const int64_t d : shape) n *= d;
  return n;
}

Result<TensorFileWriter> TensorFileWriter::create(const fs::path& file, std::vector<TensorPlan> tensors,
                                                  const std::map<std::string, std::string, std::less<>>& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  uint64_t at = 0;
  for (const TensorPlan& t : tensors) {
    const uint64_t end = at + static_cast<uint64_t>(t.bytes());
    header.entries.push_back({.name = t.name, .dtype = t.dtype, .shape = t.shape, .begin = at, .end = end});
    at = end;
  }
  const std::string beginning = write_safetensors_header(header);
  std::vector<int64_t> begin;
  for (const HeaderEntry& t : header.entries) begin.push_back(static_cast<int64_t>(beginning.size() + t.begin));
  SLIP_TRY(AtomicFile out, AtomicFile::create(file));
  SLIP_TRY_(out.write_at(0, beginning.data(), beginning.size()));
  TensorFileWriter writer(std::move(out), std::move(tensors));
  writer.begin_ = std::move(begin);
  return writer;
}

Status TensorFileWriter::write(size_t tensor, int64_t offset, const void* data, size_t bytes) {
  SLIP_CHECK(tensor < tensors_.size() && offset >= 0 && offset + static_cast<int64_t>(bytes) <= tensors_[tensor].bytes(),
             "writers stay inside their tensor");
  return file_.write_at(static_cast<size_t>(begin_[tensor] + offset), data, bytes);
}

}  // namespace slip
