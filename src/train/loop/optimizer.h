// SPDX-License-Identifier: Apache-2.0
// AdamW over the flat buffers (Loshchilov & Hutter; decoupled decay, bias correction as torch.optim), clipping by the global
// norm, learning-rate schedules and an exponential moving average of the weights. Sums run in fixed slices: results do not depend
// on the number of threads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/model/model_shape.h"

namespace slip {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  bool decay_all = true;            // false: matrices only, not norms and biases
  std::vector<std::string> frozen;  // parameters whose names begin with one of these keep their values
};

/// Moments of one flat buffer. Every number of the buffer has its own decay (0 or 1 times the weight decay).
template <class T>
class AdamW {
 public:
  AdamW(const ParameterTable& table, AdamWOptions options);
  /// values -= lr decay values + lr m^ / (sqrt(v^) + eps), gradients read as factor * gradient. `step` counts from 1.
  void step(std::span<T> values, std::span<const T> gradients, double factor, double lr, int64_t step);
  std::span<T> first() { return first_; }
  std::span<T> second() { return second_; }

 private:
  struct Run {
    int64_t begin, end;
    double decay;
  };
  AdamWOptions options_;
  std::vector<Run> runs_;
  std::vector<T> first_, second_;
};

/// sqrt(sum g^2) in double.
template <class T>
double gradient_norm(std::span<const T> gradients);
/// clip / (norm + 1e-6) if norm exceeds clip > 0, else 1 (torch's clip_grad_norm_).
double clip_factor(double norm, double clip);

/// Shape of the way down, r from 0 to 1: 0.5 (1 + cos(pi r)), 1 - r, 2 * 0.5^r - 1 (Megatron's default), 1 - sqrt(r).
enum class Decay : uint8_t { kConstant, kCosine, kLinear, kExponential, kSqrt };
struct RateSchedule {
  double lr = 1e-3, final_fraction = 0.1;  // what decays ends at lr * final_fraction
  int64_t warmup = 0, steps = 0;
  Decay decay = Decay::kConstant;
  int64_t decay_steps = 0;    // > 0: warm-up, stable, decay: only the last so many steps go down; else all behind the warm-up
  double decay_fraction = 0;  // of the steps, of warm-up, stable, decay as a configuration asks for it; decay_steps follows from it
  bool by_time = false;       // decay follows the time budget, where steps do not outrun it
  /// Another number of steps: what goes down stays the same share of them.
  void set_steps(int64_t n);
  /// For step 1, 2, ...; warm-up rises linearly to lr at step `warmup`. `progress` in [0, 1] replaces step / steps when a time
  /// budget ends the run before its steps do; pass a negative number otherwise.
  double at(int64_t step, double progress = -1) const;
};

/// average += (1 - decay) (values - average).
void update_average(std::span<float> average, std::span<const float> values, double decay);

}  // namespace slip
