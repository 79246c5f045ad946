// SPDX-License-Identifier: Apache-2.0
// What a pass on a device brings back: choices, logits, and lines of logits that stay.
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/cuda_lm.h"
#include "nn/answers.h"

namespace slip::cuda {

void CudaLm::read_choices(const Pass& pass, PassOutput& out) {
  const Choice* choices = space_->choice_host.data<Choice>();
  for (size_t i = 0; i < wanted_N_.size(); ++i) {
    const auto t = static_cast<size_t>(wanted_N_[i]);
    const Row& row = pass.rows[t];
    const Choice& c = choices[i];
    out.argmax[t] = c.id >= 0 || !row.allowed ? id_or_lowest(c.id) : allowed_of(pass, row).front();
    out.nan_rows += c.id < 0 || !std::isfinite(c.largest);
    if (!row.statistics) continue;
    out.statistics.resize(pass.rows.size());
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    out.statistics[t] = {c.id < 0 ? kNan : c.largest, c.second, c.nan != 0 || c.id < 0 ? kNan : c.largest + std::log(c.sum)};
  }
}

/// For rows that want all of them, or the largest.
Status CudaLm::make_room_for_logits() {
  const size_t whole = by_want_.logits_N.size(), wanted = whole + by_want_.likely_N.size();
  const size_t line = static_cast<size_t>(options_.vocab) * sizeof(float);
  if (whole > 0 && logits_host_.bytes() == 0) {  // page-locked: a copy to other memory takes ten times as long
    SLIP_TRY(logits_host_, device_->allocate_host(kRowGroup * line, "logits"));
  }
  if (wanted * line <= b_.logits_TV.bytes()) return {};
  SLIP_TRY_(device_->wait());
  std::erase_if(graphs_, [](const auto& g) { return g.first.logits; });
  b_.logits_TV = {};
  SLIP_TRY(b_.logits_TV, device_->allocate(std::max<size_t>(wanted, kRowGroup) * line, "logits"));
  return {};
}

Status CudaLm::copy_logits(PassOutput& out) {
  const size_t rows = by_want_.logits_N.size(), bytes = rows * static_cast<size_t>(options_.vocab) * sizeof(float);
  for (size_t i = 0; i < rows; ++i) out.logits_row[static_cast<size_t>(by_want_.logits_N[i])] = static_cast<int32_t>(i);
  if (bytes <= logits_host_.bytes()) {
    out.kept_NV = logits_host_.data<float>();
    return device_->copy_out(logits_host_.data(), b_.logits_TV.data(), bytes);
  }
  out.logits_NV.resize(bytes / sizeof(float));
  return device_->copy_out(out.logits_NV.data(), b_.logits_TV.data(), bytes);
}

/// Lines stay where they are, those that came over too: what is drawn does not depend on whether they did.
void CudaLm::keep_logits(const Pass& pass, PassOutput& out) {
  if (by_want_.logits_N.empty() && by_want_.likely_N.empty()) return;
  out.kept = this;
  out.kept_line.assign(pass.rows.size(), -1);
  const auto first = static_cast<int32_t>(by_want_.logits_N.size());
  const size_t lines = by_want_.logits_N.size() + by_want_.likely_N.size();
  likely_NK_.resize(lines * kLikely);
  likely_count_N_.assign(lines, 0);
  for (int32_t line = 0; line < first; ++line)
    out.kept_line[static_cast<size_t>(by_want_.logits_N[static_cast<size_t>(line)])] = line;
  for (size_t i = 0; i < by_want_.likely_N.size(); ++i) {
    const int32_t line = first + static_cast<int32_t>(i);
    out.kept_line[static_cast<size_t>(by_want_.likely_N[i])] = line;
    const LikelyLogit* from = space_->likely_host.data<LikelyLogit>() + wanted_of(line) * kLikely;
    int32_t& n = likely_count_N_[static_cast<size_t>(line)];
    for (; n < kLikely && from[n].id >= 0; ++n)
      likely_NK_[static_cast<size_t>(line * kLikely + n)] = {TokenId{from[n].id}, from[n].logit};
  }
}

std::span<const KeptLogits::Likely> CudaLm::likeliest(int32_t line) const {
  const auto i = static_cast<size_t>(line);
  return std::span(likely_NK_).subspan(i * kLikely, static_cast<size_t>(likely_count_N_[i]));
}

float CudaLm::log_sum_exp(int32_t line) const {
  const Choice& c = space_->choice_host.data<Choice>()[wanted_of(line)];
  return c.nan != 0 || c.id < 0 ? std::numeric_limits<float>::quiet_NaN() : c.largest + std::log(c.sum);
}

Result<std::span<const float>> CudaLm::all(int32_t line) {
  const size_t bytes = static_cast<size_t>(options_.vocab) * sizeof(float);
  if (line_host_.bytes() == 0) {
    SLIP_TRY(line_host_, device_->allocate_host(bytes, "a row's logits"));
  }
  SLIP_TRY_(device_->copy_out(line_host_.data(), line_of(line), bytes));
  SLIP_TRY_(device_->wait());
  return std::span<const float>(line_host_.data<float>(), static_cast<size_t>(options_.vocab));
}

Result<std::optional<TokenId>> CudaLm::draw(int32_t line, std::span<const uint64_t> bits, double temperature, double u) {
  constexpr size_t kBitsAt = 16;
  const size_t words = static_cast<size_t>(options_.vocab + 63) / 64, given = std::min(words, bits.size());
  if (drawn_.bytes() == 0) {
    SLIP_TRY(drawn_host_, device_->allocate_host(kBitsAt + words * sizeof(uint64_t), "a draw"));
    SLIP_TRY(drawn_, device_->allocate(kBitsAt + words * sizeof(uint64_t), "a draw"));
  }
  char *here = drawn_host_.data<char>(), *there = drawn_.data<char>();
  if (!bits.empty()) {
    std::memcpy(here + kBitsAt, bits.data(), given * sizeof(uint64_t));
    std::memset(here + kBitsAt + given * sizeof(uint64_t), 0, (words - given) * sizeof(uint64_t));
    SLIP_TRY_(device_->copy_in(there + kBitsAt, here + kBitsAt, words * sizeof(uint64_t)));
  }
  slip::cuda::draw({line_of(line), options_.vocab, bits.empty() ? nullptr : reinterpret_cast<const uint32_t*>(there + kBitsAt),
                    temperature, u, reinterpret_cast<int32_t*>(there)},
                   device_->stream());
  SLIP_TRY_(device_->copy_out(here, there, sizeof(int32_t)));
  SLIP_TRY_(device_->wait());
  int32_t id = 0;
  std::memcpy(&id, here, sizeof(id));
  return id < 0 ? std::nullopt : std::optional(TokenId{id});
}

}  // namespace slip::cuda
