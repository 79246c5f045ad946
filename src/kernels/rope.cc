// SPDX-License-Identifier: Apache-2.0
// Frequencies and tables; equations in transformers' order, all in f32 where it has f32.
#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace slip {
namespace {

/// theta^(2 i / width), f32.
float period(double theta, int32_t i, int32_t width) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
  return static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
}

std::vector<float> default_inverse(double theta, int32_t width) {
  std::vector<float> f(static_cast<size_t>(width / 2));
  for (int32_t i = 0; i < width / 2; i++) f[static_cast<size_t>(i)] = 1.0F / period(theta, i, width);
  return f;
}

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

/// Interpolated where a pair turns less than beta_slow times in the original context, kept where more than beta_fast
/// times.
void scale(const RopeYarn& y, const RopeSpec& spec, RopeFrequencies& out) {
  const auto turns_at = [&](double turns) {
    return spec.width * std::log(y.original_max_position / (turns * 2 * std::numbers::pi)) / (2 * std::log(spec.theta));
  };
  double low = turns_at(y.beta_fast), high = turns_at(y.beta_slow);
  if (y.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, spec.width - 1.0);
  if (low == high) high += 0.001;
  for (int32_t i = 0; i < spec.width / 2; i++) {
    const float p = period(spec.theta, i, spec.width);
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F, 1.0F);
    const float keep = 1.0F - ramp;
    out.inverse_K2[static_cast<size_t>(i)] = 1.0F / (static_cast<float>(y.factor) * p) * (1.0F - keep) + 1.0F / p * keep;
  }
  const bool both = y.mscale.value_or(0) != 0 && y.mscale_all_dim.value_or(0) != 0;
  const double factor =
      both ? yarn_mscale(y.factor, *y.mscale) / yarn_mscale(y.factor, *y.mscale_all_dim) : yarn_mscale(y.factor, 1);
  out.factor = static_cast<float>(y.attention_factor.value_or(factor));
}

void scale(const RopeLlama3& s, const RopeSpec&, RopeFrequencies& out) {
  const double longest = s.original_max_position / s.low_freq_factor, shortest = s.original_max_position / s.high_freq_factor;
  for (float& f : out.inverse_K2) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    const float slow = f / static_cast<float>(s.factor);
    if (wavelength > static_cast<float>(longest)) {
      f = slow;
    } else if (wavelength >= static_cast<float>(shortest)) {
      const float smooth = (static_cast<float>(s.original_max_position) / wavelength - static_cast<float>(s.low_freq_factor)) /
                           static_cast<float>(s.high_freq_factor - s.low_freq_factor);
      f = (1.0F - smooth) * slow + smooth * f;
    }
  }
}

void scale(const RopeLinear& s, const RopeSpec&, RopeFrequencies& out) {
  for (float& f : out.inverse_K2) f /= static_cast<float>(s.factor);
}

void scale(const RopeDefault&, const RopeSpec&, RopeFrequencies&) {}

/// Axes do not matter here: all three are the position.
void fill_table(RopeFrequencies& out) {
  std::vector<Position> positions;
  positions.reserve(kTablePositions);
  for (int32_t p = 0; p < kTablePositions; p++) positions.push_back({p, p, p});
  std::vector<float> cosines(positions.size() * out.inverse_K2.size()), sines(cosines.size());
  rope_tables(out, positions, cosines.data(), sines.data());
  out.cos_PK2 = std::move(cosines);
  out.sin_PK2 = std::move(sines);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& spec) {
  SLIP_CHECK(spec.width > 0 && spec.width % 2 == 0, "rotary embedding turns pairs");
  RopeFrequencies out;
  out.inverse_K2 = default_inverse(spec.theta, spec.width);
  std::visit([&](const auto& s) { scale(s, spec, out); }, spec.scaling);
  out.axis_K2.assign(out.inverse_K2.size(), RopeFrequencies::Axis::kT);
  fill_table(out);
  const auto [t, h, w] = spec.sections;
  if (t + h + w == 0) return out;
  SLIP_CHECK(t + h + w == out.half(), "sections add up to the pairs of a head");
  std::fill(out.axis_K2.begin() + t, out.axis_K2.begin() + t + h, RopeFrequencies::Axis::kH);
  std::fill(out.axis_K2.begin() + t + h, out.axis_K2.end(), RopeFrequencies::Axis::kW);
  return out;
}

RopeFrequencies vision_rope_frequencies(int32_t head_width, double theta) {
  SLIP_CHECK(head_width % 4 == 0, "two axes of pairs");
  const std::vector<float> one_axis = default_inverse(theta, head_width / 2);
  RopeFrequencies out;
  for (const RopeFrequencies::Axis axis : {RopeFrequencies::Axis::kH, RopeFrequencies::Axis::kW}) {
    out.inverse_K2.insert(out.inverse_K2.end(), one_axis.begin(), one_axis.end());
    out.axis_K2.insert(out.axis_K2.end(), one_axis.size(), axis);
  }
  return out;
}

void rope_tables(const RopeFrequencies& f, std::span<const Position> positions, float* cos_TK2, float* sin_TK2) {
  const size_t half = f.inverse_K2.size();
  const int32_t known = f.cos_PK2.empty() ? 0 : kTablePositions;
  size_t n = 0;
  for (const Position& p : positions) {
    for (size_t i = 0; i < half; i++, n++) {
      const RopeFrequencies::Axis axis = f.axis_K2[i];
      const int32_t at = axis == RopeFrequencies::Axis::kT ? p.t : axis == RopeFrequencies::Axis::kH ? p.h : p.w;
      if (at >= 0 && at < known) {
        cos_TK2[n] = f.cos_PK2[static_cast<size_t>(at) * half + i];
        sin_TK2[n] = f.sin_PK2[static_cast<size_t>(at) * half + i];
        continue;
      }
      const float angle = static_cast<float>(at) * f.inverse_K2[i];
      cos_TK2[n] = static_cast<float>(std::cos(static_cast<double>(angle))) * f.factor;
      sin_TK2[n] = static_cast<float>(std::sin(static_cast<double>(angle))) * f.factor;
    }
  }
}

float query_scale(double beta, double original_max_position, int32_t position) {
  return static_cast<float>(1.0 + beta * std::log(1.0 + std::floor(position / original_max_position)));
}

}  // namespace slip
