// SPDX-License-Identifier: Apache-2.0
// See exchange_gloo.h.
#include "train/parallel/exchange_gloo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/interrupt.h"
#include "base/standard_streams.h"

namespace slip {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kUsual = std::chrono::seconds(1);       // most exchanges are over by then: nothing is asked or told before
constexpr auto kPoll = std::chrono::milliseconds(20);  // a fiftieth of what has been waited already
constexpr auto kGiveUp = std::chrono::seconds(5);      // after Ctrl-C: the others end their step meanwhile, where they can

/// Who is in an exchange and who is not, as the store knows. The thread that asks it may hang where the store's server does, and is left behind.
struct RollCall {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::optional<std::vector<int>> missing;  // once the store has answered
};

/// The processes that have not said yet that they are in exchange `number`, or a later one.
std::vector<int> missing_in(c10d::Store& store, const Launch& launch, int64_t number) {
  std::vector<int> out;
  for (int r = 0; r < launch.size; ++r) {
    const std::string name = fmt::format("exchange/{}", r);
    if (r == launch.rank) continue;
    const std::vector<uint8_t> said = store.check({name}) ? store.get(name) : std::vector<uint8_t>{'0'};
    if (std::stoll(std::string(said.begin(), said.end())) < number) out.push_back(r);
  }
  return out;
}

void call_roll(const std::shared_ptr<RollCall>& roll, const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
               int64_t number) {
  try {
    const std::string text = std::to_string(number);
    store->set(fmt::format("exchange/{}", launch.rank), std::vector<uint8_t>(text.begin(), text.end()));
    for (;;) {
      std::vector<int> missing = missing_in(*store, launch, number);
      std::unique_lock lock(roll->mutex);
      roll->missing = std::move(missing);
      if (roll->changed.wait_for(lock, kUsual, [&] { return roll->over; })) return;
    }
  } catch (const std::exception&) {  // the store is gone with its process: what the exchange throws says so
  }
}

/// Runs beside one exchange.
class Asking {
 public:
  Asking(const Launch& launch, const c10::intrusive_ptr<c10d::Store>& store, int64_t number) : launch_(launch) {
    try {
      std::thread([roll = roll_, store, launch, number] { call_roll(roll, store, launch, number); }).detach();
    } catch (const std::system_error&) {  // without a thread nobody is named
    }
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() {
    {
      const std::lock_guard lock(roll_->mutex);
      roll_->over = true;
    }
    roll_->changed.notify_all();
  }
  /// Empty: all are in the exchange. A store that does not answer is the first process's, unless the starter serves it.
  std::string whom() const {
    const std::lock_guard lock(roll_->mutex);
    if (!roll_->missing) return launch_.store_is_there || launch_.rank == 0 ? "the others" : "process 0";
    if (roll_->missing->empty()) return {};
    return fmt::format("process{} {}", roll_->missing->size() > 1 ? "es" : "", fmt::join(*roll_->missing, ", "));
  }

 private:
  const Launch& launch_;
  std::shared_ptr<RollCall> roll_ = std::make_shared<RollCall>();
};

/// Throws what it ended with, if it has.
bool ended_within(c10d::Work& work, std::chrono::milliseconds time) {
  try {
    work.wait(time);
    return true;
  } catch (const std::exception&) {  // of the exchange, or that the time is over
    if (!work.isCompleted()) return false;
  }
  work.wait();
  return true;
}

}  // namespace

bool ExchangeWatch::ends(c10d::Work& work) {
  ++number_;
  const Clock::time_point begin = Clock::now();
  if (ended_within(work, kUsual)) return true;
  const Asking asking(launch_, store_, number_);
  bool said = false;
  std::optional<Clock::time_point> stopped;
  while (!work.isCompleted()) {
    std::this_thread::sleep_for(kPoll);
    const Clock::time_point now = Clock::now();
    if (const std::string whom = said || now - begin < silent_ ? "" : asking.whom(); !whom.empty()) {
      said = true;
      silent_ *= 2;
      say(fmt::format("slipstream-train: process {} of {} waits for {} ({} minutes at most)\n", launch_.rank, launch_.size, whom,
                      kExchange.count()));
    }
    if (!stopped && interrupted()) stopped = now;
    if (stopped && now - *stopped > kGiveUp) return false;
  }
  work.wait();
  return true;
}

}  // namespace slip
