// SPDX-License-Identifier: Apache-2.0
// AdamW, clipping, schedules; contracts in optimizer.h.
#include "train/loop/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace slip {
namespace {

constexpr int64_t kSlices = 32;

template <class T>
void adam_run(int64_t n, T* value, const T* gradient, T* first, T* second, T factor, T b1, T b2, T eps, T keep, T rate, T root2) {
  // rate = lr / (1 - b1^t), root2 = 1 / sqrt(1 - b2^t)
#pragma omp parallel for simd schedule(static) if (n > 16384)
  for (int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] * factor;
    const T m = b1 * first[i] + (T(1) - b1) * g, v = b2 * second[i] + (T(1) - b2) * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = value[i] * keep - rate * m / (std::sqrt(v) * root2 + eps);
  }
}

}  // namespace

template <class T>
AdamW<T>::AdamW(const ParameterTable& table, AdamWOptions options)
    : options_(options), first_(static_cast<size_t>(table.size), T(0)), second_(static_cast<size_t>(table.size), T(0)) {
  bool split = false;
  for (const Parameter& p : table.parameters) {
    if (std::any_of(options.frozen.begin(), options.frozen.end(), [&](const auto& f) { return p.name.starts_with(f); })) {
      split = true;
      continue;
    }
    const double decay = options.decay_all || p.shape.size() > 1 ? options.weight_decay : 0.0;
    if (!std::exchange(split, false) && !runs_.empty() && runs_.back().decay == decay)
      runs_.back().end = p.offset + p.count;  // padding in between stays zero
    else
      runs_.push_back({p.offset, p.offset + p.count, decay});
  }
}

template <class T>
void AdamW<T>::step(std::span<T> values, std::span<const T> gradients, double factor, double lr, int64_t step) {
  const auto t = static_cast<double>(step);
  const double rate = lr / (1 - std::pow(options_.beta1, t)), root2 = 1 / std::sqrt(1 - std::pow(options_.beta2, t));
  for (const Run& r : runs_)
    adam_run<T>(r.end - r.begin, values.data() + r.begin, gradients.data() + r.begin, first_.data() + r.begin,
                second_.data() + r.begin, T(factor), T(options_.beta1), T(options_.beta2), T(options_.epsilon), T(1 - lr * r.decay),
                T(rate), T(root2));
}
template class AdamW<float>;
template class AdamW<double>;

template <class T>
double gradient_norm(std::span<const T> gradients) {
  std::array<double, kSlices> part{};
  const auto n = static_cast<int64_t>(gradients.size());
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < kSlices; ++s) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = n * s / kSlices; i < n * (s + 1) / kSlices; ++i)
      sum += static_cast<double>(gradients[static_cast<size_t>(i)]) * static_cast<double>(gradients[static_cast<size_t>(i)]);
    part[static_cast<size_t>(s)] = sum;
  }
  double sum = 0;
  for (const double p : part) sum += p;
  return std::sqrt(sum);
}
template double gradient_norm<float>(std::span<const float>);
template double gradient_norm<double>(std::span<const double>);

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1.0; }

namespace {

double shape_of(Decay decay, double r) {
  switch (decay) {
    case Decay::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * r));
    case Decay::kExponential:
      return 2 * std::pow(0.5, r) - 1;
    case Decay::kSqrt:
      return 1 - std::sqrt(r);
    default:
      return 1 - r;
  }
}

}  // namespace

void RateSchedule::set_steps(int64_t n) {
  steps = n;
  if (decay_fraction > 0) decay_steps = std::max<int64_t>(1, std::llround(decay_fraction * static_cast<double>(n)));
}

double RateSchedule::at(int64_t step, double progress) const {
  if (warmup > 0 && step < warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  if (decay == Decay::kConstant) return lr;
  const int64_t begin = decay_steps > 0 ? steps - decay_steps : warmup, span = decay_steps > 0 ? decay_steps : steps - warmup;
  double done = 1;
  if (progress >= 0) {  // of the whole run; the decay's own share of it
    const double share = decay_steps > 0 && steps > 0 ? static_cast<double>(decay_steps) / static_cast<double>(steps) : 1;
    done = (progress - (1 - share)) / share;
  } else if (span > 0) {
    done = static_cast<double>(step - begin) / static_cast<double>(span);
  }
  if (done <= 0) return lr;
  return lr * (final_fraction + (1 - final_fraction) * shape_of(decay, std::min(done, 1.0)));
}

void update_average(std::span<float> average, std::span<const float> values, double decay) {
  const auto n = static_cast<int64_t>(values.size());
  const auto move = static_cast<float>(1 - decay);
  float* a = average.data();
  const float* v = values.data();
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) a[i] += move * (v[i] - a[i]);
}

}  // namespace slip
