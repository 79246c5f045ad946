// SPDX-License-Identifier: Apache-2.0
// Models that keep their logits themselves, as one on a device does.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "decode/pass/choice.h"
#include "lm/lm.h"

namespace slip::test {

/// Of rows that want all of them, in place (PassOutput::kept_NV): whoever reads PassOutput::logits_NV finds nothing there.
class KeepingLm final : public Lm {
 public:
  explicit KeepingLm(Lm& inner) : inner_(inner) {}
  const LmInfo& info() const override { return inner_.info(); }
  Status forward(const Pass& pass, PassOutput& out) override {
    SLIP_TRY_(inner_.forward(pass, out));
    kept_NV_ = std::exchange(out.logits_NV, {});
    out.kept_NV = kept_NV_.data();
    return {};
  }

 private:
  Lm& inner_;
  std::vector<float> kept_NV_;
};

/// Of rows that want kLikely, too (KeptLogits), of which `largest` are told. Counts how often more was asked for; from the `fails_at`-th time on it fails.
class LikelyLm final : public Lm, private KeptLogits {
 public:
  LikelyLm(Lm& inner, size_t largest) : inner_(inner), largest_(largest) {}
  int64_t lines = 0, drawn = 0, read_whole = 0, fails_at = -1;

  const LmInfo& info() const override { return inner_.info(); }
  Status set_taps(std::span<const int32_t> layers) override { return inner_.set_taps(layers); }
  Status forward(const Pass& pass, PassOutput& out) override {
    SLIP_TRY_(inner_.forward(pass, out));
    const auto vocab = static_cast<size_t>(info().vocab);
    lines_.clear();
    std::vector<float> others_NV;
    out.kept = this;
    out.kept_line.assign(pass.rows.size(), -1);
    for (size_t t = 0; t < pass.rows.size(); ++t) {
      if (out.logits_row[t] < 0) continue;
      const auto logits_V = std::as_const(out).logits_V(t);
      if (pass.rows[t].want != Want::kLikely) {
        out.logits_row[t] = static_cast<int32_t>(others_NV.size() / vocab);
        others_NV.insert(others_NV.end(), logits_V.begin(), logits_V.end());
        continue;
      }
      out.kept_line[t] = static_cast<int32_t>(lines_.size());
      out.logits_row[t] = -1;
      lines_.push_back({{logits_V.begin(), logits_V.end()}, likeliest_of(logits_V)});
      ++lines;
    }
    out.logits_NV = std::move(others_NV);
    return {};
  }

 private:
  struct Line {
    std::vector<float> logits_V;
    std::vector<Likely> likely;
  };
  const Line& line(int32_t i) const { return lines_[static_cast<size_t>(i)]; }

  std::vector<Likely> likeliest_of(std::span<const float> logits_V) const {
    std::vector<Likely> all;
    for (size_t i = 0; i < logits_V.size(); ++i)
      if (!std::isnan(logits_V[i])) all.push_back({TokenId{static_cast<int32_t>(i)}, logits_V[i]});
    std::ranges::stable_sort(all, [](const Likely& a, const Likely& b) { return a.logit > b.logit; });
    all.resize(std::min(all.size(), largest_));
    return all;
  }
  bool fails() { return fails_at >= 0 && drawn + read_whole > fails_at; }

  std::span<const Likely> likeliest(int32_t i) const override { return line(i).likely; }
  float log_sum_exp(int32_t i) const override { return choose_from(line(i).logits_V, {}).statistics.log_sum_exp; }
  Result<std::span<const float>> all(int32_t i) override {
    ++read_whole;
    if (fails()) return resource_error("the device was lost");
    return std::span<const float>(line(i).logits_V);
  }
  Result<std::optional<TokenId>> draw(int32_t i, std::span<const uint64_t> bits, double temperature, double u) override {
    ++drawn;
    if (fails()) return resource_error("the device was lost");
    const Allowed allowed{.any = bits.empty(), .denied = {}, .listed = {}, .bits = bits};
    bool finite = false;
    for_each_allowed(allowed, info().vocab,
                     [&](TokenId id) { finite |= std::isfinite(line(i).logits_V[static_cast<size_t>(id.value)]); });
    if (!finite) return std::optional<TokenId>();
    return std::optional(keyed_draw(line(i).logits_V, allowed, temperature, u));
  }

  Lm& inner_;
  size_t largest_;
  std::vector<Line> lines_;
};

}  // namespace slip::test
