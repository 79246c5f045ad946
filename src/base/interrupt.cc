// SPDX-License-Identifier: Apache-2.0
// A self-pipe and a watchdog thread, so that file removal happens outside the signal handler.
#include "base/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/files/beside.h"

namespace slip {

namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<int> g_grace_ms{kUsualGraceMs};
int g_pipe[2] = {-1, -1};

struct Temporaries {
  std::timed_mutex mutex;
  std::atomic<bool> ending{false};  // those who come again and again leave the mutex to the handler
  std::set<std::string> files, folders;
};
// Never destroyed: the watchdog may use it while statics are torn down.
Temporaries& temporaries() {
  static auto* t = new Temporaries;
  return *t;
}

void on_signal(int) {
  const int saved = errno;
  g_interrupted.store(true, std::memory_order_relaxed);
  const char c = 1;
  [[maybe_unused]] const ssize_t n = ::write(g_pipe[1], &c, 1);
  errno = saved;
}

[[noreturn]] void end_now() {
  temporaries().ending = true;
  // Held to the end. A thread that the system keeps in an open, as a network's may, is not waited for: the next run removes what it leaves.
  const std::unique_lock lock(temporaries().mutex, std::chrono::seconds(1));
  for (const std::string& f : lock ? temporaries().files : std::set<std::string>()) {
    // The other threads still run and may put another file into a folder under our hands: out of their reach first, then away.
    const std::string gone = f + ".gone";
    std::error_code ec;
    std::filesystem::rename(f, gone, ec);
    if (!ec) remove_tree(gone);
  }
  if (lock)
    for (auto at = temporaries().folders.rbegin(); at != temporaries().folders.rend(); ++at)
      ::rmdir(at->c_str());  // children first
  static constexpr char kText[] = "slipstream: interrupted\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(130);
}

void watch(const char* words) {
  char c = 0;
  while (::read(g_pipe[0], &c, 1) < 0 && errno == EINTR) {
  }
  if (words && ::write(STDERR_FILENO, words, std::strlen(words)) < 0) words = nullptr;  // nobody reads: no harm
  pollfd p{g_pipe[0], POLLIN, 0};
  ::poll(&p, 1, g_grace_ms.load());  // a second signal ends the grace early
  end_now();
}

}  // namespace

void install_interrupt_handler(int grace_ms, const char* words) {
  if (g_pipe[0] >= 0 || ::pipe2(g_pipe, O_CLOEXEC) != 0) return;
  g_grace_ms = grace_ms;
  std::thread(watch, words).detach();
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  if (::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
}

void set_interrupt_grace(int grace_ms) { g_grace_ms = grace_ms; }

bool interrupted() { return g_interrupted.load(std::memory_order_relaxed); }

Status check_interrupt() {
  if (interrupted()) return Error{ErrorKind::kCancelled, "interrupted"};
  return {};
}

namespace {
thread_local int t_held = 0;
}  // namespace

HoldOffEnd::HoldOffEnd() {
  if (t_held++ > 0) return;
  while (temporaries().ending) ::pause();
  temporaries().mutex.lock();
}
HoldOffEnd::~HoldOffEnd() {
  if (--t_held == 0) temporaries().mutex.unlock();
}

void remember_temporary(const std::filesystem::path& file) {
  const HoldOffEnd lock;
  temporaries().files.insert(std::filesystem::absolute(file).string());
}
void forget_temporary(const std::filesystem::path& file) noexcept {
  try {
    const HoldOffEnd lock;
    temporaries().files.erase(std::filesystem::absolute(file).string());
  } catch (const std::exception&) {  // no memory for the name, which stays: what it names is gone
  }
}

void remember_folder(const std::filesystem::path& folder) {
  const HoldOffEnd lock;
  temporaries().folders.insert(std::filesystem::absolute(folder).lexically_normal().string());
}
void forget_folder(const std::filesystem::path& folder) noexcept {
  try {
    const HoldOffEnd lock;
    temporaries().folders.erase(std::filesystem::absolute(folder).lexically_normal().string());
  } catch (const std::exception&) {  // no memory for the name: a folder with something in it stays anyway
  }
}

void remove_remembered() noexcept {
  try {
    const HoldOffEnd lock;
    for (const std::string& f : temporaries().files) remove_tree(f);
    temporaries().files.clear();
  } catch (const std::exception&) {  // they stay, and the next run removes them
  }
}

namespace {

void mask_interrupts(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void hold_interrupts() { mask_interrupts(SIG_BLOCK); }
void release_interrupts() { mask_interrupts(SIG_UNBLOCK); }

}  // namespace slip
