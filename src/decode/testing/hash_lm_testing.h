// SPDX-License-Identifier: Apache-2.0
// For tests: an Lm whose logits are hashes of everything a transformer's would depend on, in two layers: a slot's deeper value
// depends on what its row saw, so that stale keys, a wrong span, a wrong position or a wrong order change the answer.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <vector>

#include "lm/lm.h"

namespace slip::test {

class HashLm : public Lm {
 public:
  struct Options {
    uint64_t seed = 1;
    int32_t vocab = 24, slots = 512;
    bool shift = true;
    double habit = 0.5;              // weight of what depends on the position alone: a mask can guess that
    bool spoil_drafts = false;       // passes with rows that look ahead answer the opposite: drafts are (almost) always wrong
    bool spoil_rows = false;         // only the rows that look ahead do: for passes that hold both kinds
    bool verify_off_by_one = false;  // mutant: after a draft pass, a row answers for the row before it
    bool keeps_first = false;        // mutant: the first row written to a slot stays, whatever comes later
    bool adapter = false;            // has a draft adapter: other keys and logits in passes that use it
    bool counts_rows = false;        // mutant: logits depend on how many rows travel together
  };
  explicit HashLm(const Options& o) : o_(o), shallow_(static_cast<size_t>(o.slots), 0), deep_(shallow_) {
    info_.name = "hash";
    info_.vocab = o.vocab;
    info_.slots = o.slots;
    info_.hidden_size = 2;
    info_.has_draft_adapter = o.adapter;
    info_.rule = {.shift = o.shift, .has_mask = true, .has_null = true, .mask = TokenId{1}, .null_token = TokenId{2}};
  }
  const LmInfo& info() const override { return info_; }
  int64_t passes = 0;
  void (*on_pass)(int64_t) = nullptr;

  Status forward(const Pass& pass, PassOutput& out) override {
    if (on_pass) on_pass(passes);
    ++passes;
    bool ahead = false;
    for (const Row& r : pass.rows) {
      ahead |= looks_ahead(pass, r);
      if (o_.keeps_first && shallow_.at(static_cast<size_t>(r.slot)) != 0) continue;
      shallow_.at(static_cast<size_t>(r.slot)) =
          mix(mix(o_.seed + pass.draft_adapter, input_hash(pass, r.input)), static_cast<uint64_t>(r.position.t));
    }
    for (const Row& r : pass.rows) deep_.at(static_cast<size_t>(r.slot)) = seen(pass, r, shallow_);
    out.vocab = o_.vocab;
    out.argmax.assign(pass.rows.size(), TokenId{-1});
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    out.statistics.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const bool late = o_.verify_off_by_one && after_draft_ && !ahead && i > 0;
      const bool spoil = (ahead && o_.spoil_drafts) || (o_.spoil_rows && looks_ahead(pass, pass.rows[i]));
      answer(pass, pass.rows[late ? i - 1 : i], pass.rows[i].want, spoil, i, out);
    }
    out.taps_NE.clear();
    for (size_t i = 0; pass.taps && i < pass.rows.size(); ++i)
      for (const int32_t layer : info_.tap_layers)
        for (const float x : tap(pass.rows[i].slot, layer)) out.taps_NE.push_back(x);
    after_draft_ = ahead;
    return {};
  }

  Status set_taps(std::span<const int32_t> layers) override {
    info_.tap_layers.assign(layers.begin(), layers.end());
    return {};
  }
  /// What a pass with taps says of the row that is in a slot now.
  std::array<float, 2> tap(int32_t slot, int32_t layer) const {
    const uint64_t h = mix(deep_.at(static_cast<size_t>(slot)), static_cast<uint64_t>(layer));
    return {static_cast<float>(h >> 44), static_cast<float>(h & 0xFFFFF)};
  }
  /// The part of a logit that the position alone gives.
  float guess(int32_t position, int32_t id) const {
    return static_cast<float>(8 * unit(mix(mix(o_.seed, static_cast<uint64_t>(position)), static_cast<uint64_t>(id))));
  }

 private:
  uint64_t input_hash(const Pass& pass, const RowInput& input) const {
    if (const auto* token = std::get_if<TokenId>(&input)) return static_cast<uint64_t>(token->value);
    uint64_t h = 99;
    const int32_t index = std::get<Feature>(input).index;
    const auto place = pass.features.place_of(index, info_.hidden_size);
    if (!place) return mix(h, static_cast<uint64_t>(index));  // a test that names features and brings none
    std::vector<float> numbers(static_cast<size_t>(info_.hidden_size));
    if (place->block < 0) {
      std::ranges::copy(pass.features.numbers_of(*place, info_.hidden_size), numbers.begin());
    } else {
      std::vector<float> all;
      if (!Features{{pass.features.resident[static_cast<size_t>(place->block)]}, {}}.read(all)) return h;
      std::copy_n(all.begin() + place->row * info_.hidden_size, info_.hidden_size, numbers.begin());
    }
    for (const float x : numbers) h = mix(h, std::bit_cast<uint32_t>(x));
    return h;
  }
  static bool looks_ahead(const Pass& pass, const Row& r) {
    bool ahead = false;
    for (uint32_t k = 0; k < r.sees_count; ++k) ahead |= pass.spans[r.sees_first + k].end > r.slot + 1;
    return ahead;
  }
  static uint64_t mix(uint64_t h, uint64_t x) {
    h ^= x + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    return h ^ (h >> 31);
  }
  static double unit(uint64_t h) { return static_cast<double>(h >> 11) * 0x1p-53; }

  uint64_t seen(const Pass& pass, const Row& r, const std::vector<uint64_t>& layer) const {
    uint64_t h = mix(7, layer[static_cast<size_t>(r.slot)]);
    bool itself = false;
    for (uint32_t s = 0; s < r.sees_count; ++s)
      for (int32_t slot = pass.spans[r.sees_first + s].begin; slot < pass.spans[r.sees_first + s].end; ++slot) {
        const uint64_t v = layer.at(static_cast<size_t>(slot));
        if (v == 0) throw std::logic_error("a row sees a slot that nothing was written to");
        itself |= slot == r.slot;
        h = mix(h, v);
      }
    if (!itself) throw std::logic_error("a row does not see itself");
    return h;
  }

  void answer(const Pass& pass, const Row& r, Want want, bool spoil, size_t i, PassOutput& out) const {
    if (want == Want::kNothing) return;
    const uint64_t context = o_.counts_rows ? mix(seen(pass, r, deep_), pass.rows.size()) : seen(pass, r, deep_);
    const bool own = !o_.shift && r.input == RowInput{TokenId{1}};
    const auto target = static_cast<uint64_t>(r.position.t + (own ? 0 : 1));
    const size_t first = out.logits_NV.size();
    for (int32_t v = 0; v < o_.vocab; ++v) {
      const auto id = static_cast<uint64_t>(v);
      const double x = (1 - o_.habit) * unit(mix(context, id)) + o_.habit * unit(mix(mix(o_.seed, target), id));
      out.logits_NV.push_back(static_cast<float>(spoil ? -8 * x : 8 * x));
    }
    answer_row(pass, i, std::span<const float>(out.logits_NV).subspan(first), out);
    if (brings_logits(want))
      out.logits_row[i] = static_cast<int32_t>(first / static_cast<size_t>(o_.vocab));
    else
      out.logits_NV.resize(first);
  }

  Options o_;
  LmInfo info_;
  std::vector<uint64_t> shallow_, deep_;
  bool after_draft_ = false;
};

}  // namespace slip::test
