// SPDX-License-Identifier: Apache-2.0
// Processes on c10d's Gloo backend; see processes.h. Gloo's own all-reduce adds in an order that depends on the number of processes: here
// every process gets its slice of everybody's values (all-to-all), adds in a fixed tree, and shows the sums to all (all-gather), which moves no
// more bytes than a ring does.
#include "train/parallel/processes.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <ATen/ATen.h>

#include <gloo/context.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/standard_streams.h"
#include "train/parallel/exchange_gloo.h"
#include "train/parallel/shard_sum.h"

namespace slip {
namespace {

/// A group whose exchanges may take longer than its processes may take to connect.
class Group final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  void set_timeout(std::chrono::milliseconds timeout) {
    for (const auto& context : contexts_) context->setTimeout(timeout);
    getOptions()->timeout = timeout;
  }
};

class OnGloo : public Processes {
 public:
  OnGloo(const Launch& launch, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<Group> group)
      : launch_(launch), watch_(launch, store), store_(std::move(store)), group_(std::move(group)) {}
  OnGloo(const OnGloo&) = delete;
  OnGloo& operator=(const OnGloo&) = delete;
  ~OnGloo() override {
    if (given_up_) static_cast<void>(group_.release());  // its end would wait for its threads, and they for the others
  }
  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }

  Result<std::vector<double>> gather(std::span<const double> mine) override {
    return guarded([&] {
      const auto n = static_cast<int64_t>(mine.size());
      at::Tensor in = at::empty({n}, at::kDouble);
      std::copy(mine.begin(), mine.end(), in.data_ptr<double>());
      std::vector<at::Tensor> inputs{in};
      std::vector<std::vector<at::Tensor>> outputs(1);
      for (int r = 0; r < size(); ++r) outputs[0].push_back(at::empty({n}, at::kDouble));
      end(*group_->allgather(outputs, inputs));
      std::vector<double> all;
      for (const at::Tensor& t : outputs[0]) all.insert(all.end(), t.data_ptr<double>(), t.data_ptr<double>() + n);
      return all;
    });
  }

  // In pieces, so that what is sent needs 3 x 16 MB and not three times the model.
  Status sum(std::span<float> values) override {
    constexpr size_t kPiece = size_t{4} << 20;
    for (size_t at = 0; at < values.size(); at += kPiece) {
      const auto done = guarded([&] {
        sum_piece(values.subspan(at, std::min(kPiece, values.size() - at)));
        return true;
      });
      if (!done) return done.error();
    }
    return {};
  }

 private:
  void end(c10d::Work& work) {
    if (watch_.ends(work)) return;
    given_up_ = true;
    throw std::runtime_error("Ctrl-C");
  }

  void sum_piece(std::span<float> values) {
    const size_t N = static_cast<size_t>(size()), slice = (values.size() + N - 1) / N;
    at::Tensor sent = at::zeros({static_cast<int64_t>(slice * N)}, at::kFloat), got = at::empty_like(sent);
    std::copy(values.begin(), values.end(), sent.data_ptr<float>());
    std::vector<int64_t> even(N, static_cast<int64_t>(slice));
    end(*group_->alltoall_base(got, sent, even, even));
    for (size_t step = 1; step < N; step *= 2)
      for (size_t r = 0; r + step < N; r += 2 * step)
        add_into({got.data_ptr<float>() + r * slice, slice}, {got.data_ptr<float>() + (r + step) * slice, slice});
    std::vector<at::Tensor> inputs{got.narrow(0, 0, static_cast<int64_t>(slice)).contiguous()};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (size_t r = 0; r < N; ++r)
      outputs[0].push_back(sent.narrow(0, static_cast<int64_t>(r * slice), static_cast<int64_t>(slice)));
    end(*group_->allgather(outputs, inputs));
    std::copy_n(sent.data_ptr<float>(), values.size(), values.begin());
  }

  template <class F>
  auto guarded(F&& work) -> Result<decltype(work())> {
    const auto cancelled = [this] {
      return Error{
          ErrorKind::kCancelled,
          fmt::format("process {} of {}: interrupted while it waited for others; --resume goes on from the last checkpoint", rank(),
                      size())};
    };
    if (given_up_) return cancelled();
    try {
      return work();
    } catch (const std::exception& e) {
      if (given_up_) return cancelled();
      const std::string text = e.what();
      return resource_error("process {} of {}: expected all of them to go on, got: {}; --resume goes on from the last checkpoint",
                            rank(), size(), text.substr(0, text.find('\n')));
    }
  }

  Launch launch_;
  ExchangeWatch watch_;
  bool given_up_ = false;
  c10::intrusive_ptr<c10d::Store> store_;  // rank 0 serves it: outlives the group
  c10::intrusive_ptr<Group> group_;
};

std::shared_ptr<gloo::transport::Device> device_for(const Launch& launch) {
  if (const auto name = environment_variable("GLOO_SOCKET_IFNAME"); name && !name->empty())
    return c10d::ProcessGroupGloo::createDeviceForInterface(*name);
  const bool here = launch.address == "localhost" || launch.address.starts_with("127.");
  return here ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1") : c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

namespace {

constexpr auto kConnect = std::chrono::seconds(10);  // for connections, however late the last process came

/// From 2.4 on a store asks for libuv unless it is told not to, and Debian's libtorch is built without.
template <class Options>
void without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

std::string told(std::chrono::seconds time) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time);
  return minutes == time ? fmt::format("{} minutes", minutes.count()) : fmt::format("{} s", time.count());
}

/// Says once, on a thread of its own, for whom this process has been waiting.
class Waiting {
 public:
  explicit Waiting(const Launch& launch) : launch_(launch), thread_([this] { run(); }) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void for_whom(std::string whom) {
    const std::lock_guard lock(mutex_);
    whom_ = std::move(whom);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kSilent, [this] { return done_; })) return;
    say(fmt::format("slipstream-train: process {} of {} waits for {}, to meet at {}:{} ({} at most)\n", launch_.rank, launch_.size,
                    whom_, launch_.address, launch_.port, told(launch_.meet)));
  }

  const Launch& launch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string whom_ = "process 0";
  bool done_ = false;
  std::thread thread_;  // last: it reads the others
};

/// Says that this process is here and waits until all have said so, or `end`.
void meet(c10d::Store& store, const Launch& launch, Waiting& waiting, std::chrono::steady_clock::time_point end) {
  const auto name = [](int rank) { return fmt::format("here/{}", rank); };
  store.set(name(launch.rank), std::vector<uint8_t>{1});
  std::vector<int> missing;
  for (int r = 0; r < launch.size; ++r) missing.push_back(r);
  for (;;) {
    std::erase_if(missing, [&](int r) { return store.check({name(r)}); });
    if (missing.empty()) return;
    const std::string whom =
        fmt::format("process{} {}", missing.size() > 1 ? "es" : "", fmt::join(missing.begin(), missing.end(), ", "));
    if (std::chrono::steady_clock::now() >= end)
      throw std::runtime_error(fmt::format("nothing from {} in {}", whom, told(launch.meet)));
    waiting.for_whom(whom);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Result<std::unique_ptr<Processes>> join(const Launch& launch) {
  if (launch.size == 1) return alone();
  try {
    Waiting waiting(launch);
    const auto end = std::chrono::steady_clock::now() + launch.meet;
    c10d::TCPStoreOptions where;
    where.port = static_cast<uint16_t>(launch.port);
    where.isServer = launch.rank == 0 && !launch.store_is_there;
    where.numWorkers = static_cast<size_t>(launch.size);
    where.waitWorkers = false;
    where.timeout = launch.meet;
    without_libuv(where);
    auto tcp = c10::make_intrusive<c10d::TCPStore>(launch.address, where);
    auto store = c10::make_intrusive<c10d::PrefixStore>("slipstream/" + launch.key, tcp);
    meet(*store, launch, waiting, end);
    waiting.for_whom("the others' connections");
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(device_for(launch));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    options->timeout = std::max<std::chrono::milliseconds>(left, kConnect);
    auto group = c10::make_intrusive<Group>(store, launch.rank, launch.size, options);
    group->set_timeout(kExchange);
    return std::unique_ptr<Processes>(std::make_unique<OnGloo>(launch, store, std::move(group)));
  } catch (const std::exception& e) {
    const std::string text = e.what();
    return resource_error("process {} of {} ({}): expected to meet the others at {}:{}, got: {}", launch.rank, launch.size,
                          launch.by, launch.address, launch.port, text.substr(0, text.find('\n')));
  }
}

}  // namespace slip
