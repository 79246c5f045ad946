// SPDX-License-Identifier: Apache-2.0
#include "lm/pass_check.h"

#include <algorithm>
#include <utility>

namespace slip {

Status choose_taps(std::span<const int32_t> layers, int32_t count, LmInfo& info) {
  for (const int32_t layer : layers)
    if (layer < 0 || layer >= count)
      return bad_input("{}: tapped layer: expected one of 0 to {}, got {}", info.name, count - 1, layer);
  info.tap_layers.assign(layers.begin(), layers.end());
  return {};
}

Status PassCheck::operator()(const Pass& pass, const LmInfo& info) {
  if (pass.draft_adapter && !info.has_draft_adapter)
    return unsupported("{}: expected a model with a draft adapter for a pass that uses one, got one without", info.name);
  if (pass.taps && info.tap_layers.empty())
    return bad_input("{}: expected layers chosen by set_taps for a pass with taps, got none", info.name);
  const int32_t width = info.hidden_size;
  if (pass.features.numbers_ND.size() % static_cast<size_t>(width) != 0)
    return bad_input("features: expected a multiple of {} numbers, got {}", width, pass.features.numbers_ND.size());
  for (const FeatureBlock& block : pass.features.resident)
    if (block->width() != width) return bad_input("features: expected rows of {} numbers, got {}", width, block->width());
  for (const SlotSpan s : pass.spans)
    if (s.begin < 0 || s.begin > s.end || s.end > slots_)
      return bad_input("span of slots: expected 0 <= begin <= end <= {}, got [{}, {})", slots_, s.begin, s.end);
  for (const std::span<const TokenId> ids : pass.allowed)  // their order is the caller's promise
    if (ids.empty() || ids.front().value < 0 || ids.back().value >= info.vocab)
      return bad_input("allowed ids: expected at least one, from 0 to {}, got {}", info.vocab - 1,
                       ids.empty() ? "none" : fmt::format("{} to {}", ids.front().value, ids.back().value));
  if (++pass_number_ == 0) {
    std::fill(written_S_.begin(), written_S_.end(), 0);
    pass_number_ = 1;
  }
  const int64_t features = pass.features.rows(width);
  for (size_t t = 0; t < pass.rows.size(); ++t) SLIP_TRY_(check_row(pass, t, features));
  return {};
}

Status PassCheck::check_row(const Pass& pass, size_t t, int64_t features) {
  const Row& row = pass.rows[t];
  if (const auto* token = std::get_if<TokenId>(&row.input); token && (token->value < 0 || token->value >= tokens_))
    return bad_input("row {}: expected a token below {}, got {}", t, tokens_, token->value);
  if (const auto* feature = std::get_if<Feature>(&row.input); feature && (feature->index < 0 || feature->index >= features))
    return bad_input("row {}: expected a feature below {}, got {}", t, features, feature->index);
  if (row.slot < 0 || row.slot >= slots_)
    return resource_error("row {}: expected a slot of the key/value cache, 0 to {}, got {}", t, slots_ - 1, row.slot);
  if (std::exchange(written_S_[static_cast<size_t>(row.slot)], pass_number_) == pass_number_)
    return bad_input("row {}: expected a slot of its own, got {}, which an earlier row of the pass writes", t, row.slot);
  if (row.sees_first > pass.spans.size() || row.sees_count > pass.spans.size() - row.sees_first)
    return bad_input("row {}: expected spans within the pass's {}, got {} from {}", t, pass.spans.size(), row.sees_count,
                     row.sees_first);
  if (row.allowed && static_cast<size_t>(*row.allowed) >= pass.allowed.size())
    return bad_input("row {}: expected one of the pass's {} lists of allowed ids, got {}", t, pass.allowed.size(), *row.allowed);
  const auto sees = pass.spans.subspan(row.sees_first, row.sees_count);
  if (std::none_of(sees.begin(), sees.end(), [](SlotSpan s) { return s.end > s.begin; }))
    return bad_input("row {}: expected to see at least one slot, got none", t);
  return {};
}

}  // namespace slip
