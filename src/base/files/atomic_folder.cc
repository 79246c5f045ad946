// SPDX-License-Identifier: Apache-2.0
// See atomic_folder.h.
#include "base/files/atomic_folder.h"

#include <utility>

#include "base/interrupt.h"

namespace slip {

namespace fs = std::filesystem;

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
  const fs::path temp = name_beside(out.target_);
  const HoldOffEnd held;
  remember_temporary(temp);
  if (!fs::create_directory(temp, ec)) {
    forget_temporary(temp);
    return bad_input("{}: expected a folder that can be made, got: {}", target.string(), ec.message());
  }
  out.temp_ = temp;
  SLIP_TRY(out.held_, hold_folder(temp));
  // Behind the making: a disk that may only be read has nothing free either.
  const fs::space_info space = fs::space(parent, ec);
  if (ec) return bad_input("{}: expected a folder to write to, got: {}", parent.string(), ec.message());
  if (bytes > 0 && space.available < static_cast<uintmax_t>(bytes))
    return resource_error("{}: expected {} MB free on the disk, got {} MB available", target.string(), (bytes >> 20) + 1,
                          space.available >> 20);
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

Status check_new_folder(const fs::path& target) {
  SLIP_TRY(const AtomicFolder trial, AtomicFolder::create(target, 0));
  return {};
}

}  // namespace slip
