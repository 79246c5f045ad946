// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first SIGINT, SIGTERM or SIGHUP raises a flag that long work polls; the second one (or no end within 60 ms after
// the first) removes unfinished output files and ends the process with exit code 130.
#pragma once
#include <filesystem>

#include "base/result.h"

namespace slip {

/// Milliseconds that work which polls has to come to an end by itself.
inline constexpr int kUsualGraceMs = 60;

/// Installs the handlers and the watchdog thread. Called once, by main; libraries never install handlers. SIGHUP stays ignored
/// where it is (nohup); SIGXFSZ is ignored, so that a write beyond the limit on file sizes fails with EFBIG.
/// `grace_ms`: how long polled work may take to come to an end by itself (a trainer writes its checkpoint: give it longer).
/// `words`: said on stderr at once, where coming to an end takes longer.
void install_interrupt_handler(int grace_ms = kUsualGraceMs, const char* words = nullptr);
/// Between these two SIGINT and SIGTERM wait: a program that is about to be replaced (exec) has them handled by the one that comes, once its
/// handler stands.
void hold_interrupts();
void release_interrupts();
/// For commands whose end takes longer (a server drains), or only for a while. Before the first signal.
void set_interrupt_grace(int grace_ms);
/// Whether the user asked to stop. Cheap; poll it between passes, records, rows.
bool interrupted();
/// kCancelled when interrupted, for SLIP_TRY_.
Status check_interrupt();

/// Files and folders (with all that is in them) to remove should the process be ended from the handler. AtomicFile does this by
/// itself.
void remember_temporary(const std::filesystem::path& file);
void forget_temporary(const std::filesystem::path& file) noexcept;
/// Folders that were made for what is not finished: they go where they are empty, should the process be ended from the handler.
void remember_folder(const std::filesystem::path& folder);
void forget_folder(const std::filesystem::path& folder) noexcept;
/// Removes what is still remembered: what its owner could not remove while memory or descriptors were lacking. By main, at its end.
void remove_remembered() noexcept;

/// While one lives, the handler does not end the process: a file made and remembered meanwhile is removed, or never made. Once the end
/// has begun, a thread that holds none waits for it here. One thread may hold several.
class HoldOffEnd {
 public:
  HoldOffEnd();
  HoldOffEnd(const HoldOffEnd&) = delete;
  HoldOffEnd& operator=(const HoldOffEnd&) = delete;
  ~HoldOffEnd();
};

}  // namespace slip
