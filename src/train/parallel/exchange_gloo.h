// SPDX-License-Identifier: Apache-2.0
// Waiting for one exchange of Gloo's among several processes: says for whom, and lets Ctrl-C end it. Gloo itself cannot be interrupted: an exchange
// that is given up stays with its thread until the process ends.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>

#include "train/parallel/launch.h"

namespace slip {

constexpr auto kExchange = std::chrono::minutes(30);  // of one exchange: the slowest process may be making samples
constexpr auto kSilent = std::chrono::seconds(5);     // before a line says for whom this process waits

class ExchangeWatch {
 public:
  ExchangeWatch(const Launch& launch, c10::intrusive_ptr<c10d::Store> store) : launch_(launch), store_(std::move(store)) {}
  /// Until this process's next exchange has ended; every process has them in one order. Throws what it ended with. False: some seconds after
  /// Ctrl-C it had not, and the group must neither be used nor destroyed any more.
  bool ends(c10d::Work& work);

 private:
  Launch launch_;
  c10::intrusive_ptr<c10d::Store> store_;
  int64_t number_ = 0;
  std::chrono::milliseconds silent_ = kSilent;  // doubles with every line: a run whose steps are uneven is not drowned in them
};

}  // namespace slip
