// SPDX-License-Identifier: Apache-2.0
// See commit_places.h.
#include "decode/schedule/commit_places.h"

#include <algorithm>

#include <array>
#include <cmath>

namespace slip {

void describe_place(std::span<const float> logits_V, ChoiceBuffers& buffers, CommitPlace& place) {
  distribution(logits_V, {}, {.temperature = 1}, {}, buffers);
  const Distribution p = buffers;
  std::array<double, 3> best{};
  double entropy = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    const double w = p.weights[i];
    if (w > 0) entropy -= w * std::log(w);
    if (w <= best[2]) continue;
    size_t at = 2;
    for (; at > 0 && w > best[at - 1]; --at) {
      best[at] = best[at - 1];
      place.top[at] = place.top[at - 1];
    }
    best[at] = w;
    place.top[at] = p.ids[i];
  }
  for (size_t k = 0; k < 3; ++k) place.probability[k] = static_cast<float>(best[k]);
  place.entropy = static_cast<float>(entropy);
}

void keep_confident(std::vector<PlaceChoice>& choices, float threshold) {
  if (choices.empty()) return;
  const auto less = [](const PlaceChoice& a, const PlaceChoice& b) { return a.confidence < b.confidence; };
  const PlaceChoice best = *std::max_element(choices.begin(), choices.end(), less);
  std::erase_if(choices, [&](const PlaceChoice& c) { return !(c.confidence > threshold); });
  if (choices.empty()) choices.push_back(best);
}

void trace_choices(std::vector<Round>& rounds, std::span<const PlaceChoice> choices, int32_t origin, std::optional<int32_t> pass) {
  if (!rounds.back().positions.empty()) rounds.push_back({.block = rounds.back().block});
  Round& r = rounds.back();
  r.pass = pass;
  for (const PlaceChoice& c : choices) {
    r.positions.push_back(origin + c.place);
    r.draft.push_back(c.token);
    r.confidence.push_back(c.confidence);
  }
}

PlaceChoice BlockDiffusion::choose_at(int32_t u, std::span<const float> logits_V, const Allowed& allowed, const Sampling& sampling,
                                      const Place& at) {
  const double uniform = sampling.temperature == 0 ? 0 : chooser_.uniform(request_.options.request, at, Purpose::kToken);
  const TokenId token = !sampling.plain()           ? choose(logits_V, allowed, sampling, history_, uniform, chooser_.buffers())
                        : sampling.temperature == 0 ? greedy_choice(logits_V, allowed)
                                                    : keyed_draw(logits_V, allowed, sampling.temperature, uniform);
  return {u, token, probability_of(logits_V, allowed, token)};
}

Status BlockDiffusion::ask_sampler_for(int32_t begin) {
  SLIP_TRY_(sampler_->probabilities(block_, probability_));
  for (PlaceChoice& c : choices_) {
    const auto i = static_cast<size_t>(c.place - begin);
    c.confidence = c.token == block_[i].top[0] ? static_cast<double>(probability_[i]) : 0;
  }
  return {};
}

Status check_commit_sampler(const CommitSampler* sampler, const LmInfo& info, int32_t width, std::string_view where) {
  if (!sampler) return usage_error("--verifier sampler: expected a commit sampler (sampler:DIR), got none");
  const CommitSamplerInfo& s = sampler->info();
  if (s.vocab != info.vocab)
    return bad_input("commit sampler {}: expected a vocabulary of {}, got {}", s.name, info.vocab, s.vocab);
  if (width > s.max_block)
    return unsupported("commit sampler {}: expected blocks of at most {} places, got {} in {}", s.name, s.max_block, width, where);
  return {};
}

}  // namespace slip
