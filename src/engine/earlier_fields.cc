// SPDX-License-Identifier: Apache-2.0
// See earlier_fields.h.
#include "engine/earlier_fields.h"

#include <algorithm>

namespace slip {
namespace {

/// The first guess weighs as much as a frame.
constexpr double kGuessedFrames = 1, kNewestFrame = 0.2, kMost = 0.99;
constexpr double kSharedFrames = 2, kFade = 0.9;

void learn(double& share, int64_t& frames, int64_t same, int64_t all) {
  if (all == 0) return;
  const double weight = std::max(kNewestFrame, 1 / (kGuessedFrames + 1 + static_cast<double>(frames++)));
  share += weight * (std::min(static_cast<double>(same) / static_cast<double>(all), kMost) - share);
}

}  // namespace

void EarlierFields::saw(const PreviousAnswer& previous, const Decoded& answer, const Form* form) {
  if (form) return saw_fields(previous, answer, *form);
  const size_t both = std::min(previous.tokens.size(), answer.tokens.size());
  int64_t same = 0;
  for (size_t i = 0; i < both; ++i) same += previous.tokens[i] == answer.tokens[i];
  learn(all_.with_parents, frames_, same, static_cast<int64_t>(std::max(previous.tokens.size(), answer.tokens.size())));
}

void EarlierFields::saw_fields(const PreviousAnswer& previous, const Decoded& answer, const Form& form) {
  const size_t n = form.fields().size();
  if (previous.fields.size() != n || answer.fields.size() != n) return;
  said_again_F_.resize(n, 0), compared_F_.resize(n, 0);
  const auto stays = [&](size_t f) { return previous.fields[f] == answer.fields[f]; };
  int64_t same = 0, all = 0, same_behind = 0, behind = 0;
  for (size_t f = 0; f < n; ++f) {
    if (previous.fields[f].empty() && answer.fields[f].empty()) continue;
    if (!std::ranges::all_of(form.fields()[f].parents, [&](int32_t q) { return stays(static_cast<size_t>(q)); })) {
      ++behind, same_behind += stays(f);
      continue;
    }
    ++all, same += stays(f);
    said_again_F_[f] = kFade * said_again_F_[f] + stays(f);
    compared_F_[f] = kFade * compared_F_[f] + 1;
  }
  learn(all_.with_parents, frames_, same, all);
  learn(all_.behind_others, behind_frames_, same_behind, behind);
}

void EarlierFields::put(std::vector<double>& repeats_F) const {
  repeats_F.resize(compared_F_.size());
  for (size_t f = 0; f < compared_F_.size(); ++f)
    repeats_F[f] = std::min(kMost, (kSharedFrames * all_.with_parents + said_again_F_[f]) / (kSharedFrames + compared_F_[f]));
}

}  // namespace slip
