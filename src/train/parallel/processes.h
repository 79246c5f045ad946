// SPDX-License-Identifier: Apache-2.0
// Several processes that train one model. Every call is made by all of them, in the same order. No torch in this header.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "train/parallel/launch.h"

namespace slip {

class Processes {
 public:
  virtual ~Processes() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The numbers of all processes, by rank; each gives as many. kResource: one of them is gone, or took more than 30 minutes. kCancelled: some
  /// seconds after Ctrl-C one had not come; from then on every call says so.
  virtual Result<std::vector<double>> gather(std::span<const double> mine) = 0;
  /// values = ((v_0 + v_1) + (v_2 + v_3)) + ...: neighbours first, in rank's order, one float addition each; the same bits in every
  /// process. size() is a power of two.
  virtual Status sum(std::span<float> values) = 0;
};

/// One process: gather returns what it gets, sum leaves the values.
std::unique_ptr<Processes> alone();
/// Waits until all are there and connected, for launch.meet; after 5 seconds a line says for whom. kResource says who was missing, or that torch was built
/// without Gloo.
Result<std::unique_ptr<Processes>> join(const Launch& launch);

}  // namespace slip
