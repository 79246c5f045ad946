// SPDX-License-Identifier: Apache-2.0
// See folder_writer.h. Data begin at a multiple of 64 bytes, so that tensors whose sizes are multiples of 64 all do.
#include "convert/folder_writer.h"

#include <algorithm>

#include "base/check.h"
#include "base/interrupt.h"
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

Result<AtomicFolder> AtomicFolder::create(const fs::path& target, int64_t bytes) {
  std::error_code ec;
  AtomicFolder out;
  out.target_ = fs::absolute(target, ec).lexically_normal();
  if (!out.target_.has_filename()) out.target_ = out.target_.parent_path();  // "dir/"
  if (fs::exists(fs::symlink_status(out.target_, ec)))
    return bad_input("{}: expected the name of a new folder, got one that exists", target.string());
  SLIP_TRY(out.made_, make_parents(out.target_));
  const fs::path parent = out.target_.parent_path();
  if (remove_leftovers(parent, out.target_.filename().string() + ".tmp-"))
    return bad_input("{}: expected a folder that nobody else is writing, got one that another process is making", target.string());
  const fs::space_info space = fs::space(parent, ec);
  if (ec) return bad_input("{}: expected a folder to write to, got: {}", parent.string(), ec.message());
  if (bytes > 0 && space.available < static_cast<uintmax_t>(bytes))
    return resource_error("{}: expected {} MB free on the disk, got {} MB available", target.string(), (bytes >> 20) + 1,
                          space.available >> 20);
  const fs::path temp = name_beside(out.target_);
  const HoldOffEnd held;
  remember_temporary(temp);
  if (!fs::create_directory(temp, ec)) {
    forget_temporary(temp);
    return bad_input("{}: expected a folder that can be made, got: {}", target.string(), ec.message());
  }
  out.temp_ = temp;
  SLIP_TRY(out.held_, hold_folder(temp));
  return out;
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : target_(std::move(other.target_)),
      temp_(std::exchange(other.temp_, {})),
      made_(std::exchange(other.made_, {})),
      held_(std::move(other.held_)) {}

AtomicFolder::~AtomicFolder() {
  if (!temp_.empty()) {
    held_ = Held();                                   // its descriptor may be the one that removing needs
    if (remove_tree(temp_)) forget_temporary(temp_);  // else remove_remembered() tries again when more has ended
  }
  unmake(made_);
}

Status AtomicFolder::commit() {
  SLIP_TRY_(sync_folder(temp_));
  std::error_code ec;
  fs::rename(temp_, target_, ec);
  if (ec) return resource_error("{}: expected to put the folder in place, got: {}", target_.string(), ec.message());
  forget_temporary(temp_);
  temp_.clear();
  made_.clear();
  return {};
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
