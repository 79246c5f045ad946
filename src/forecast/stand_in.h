// SPDX-License-Identifier: Apache-2.0
// A model's stand-in: says a given answer, lets drafts hold by keyed dice with calibrated odds, and prices every pass by a cost table. Decoders
// run over it as they are, so that what they would take is counted and not modelled.
//
// A row drafts where it is a mask or sees rows behind itself; all others give the answer's own token. How sure the drafts look is drawn
// as calibration saw it, so that draft lengths cut as they would. Positions are the answer's: a chain's rows are counted without holes, a
// graph's with every budget reserved. Rollouts part at the first token of what is drawn, and every one then says the answer's own tokens on.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/sequence/cursor.h"
#include "forecast/typical.h"
#include "lm/draft_head.h"
#include "lm/lm.h"

namespace slip {

/// By form position (free text: number of the token): what is drawn there, what else might be, and where a token is drawn its place (the
/// state of rules left out).
struct StandInAnswer {
  std::vector<TokenId> target, other;
  std::vector<std::optional<Place>> drawn;
  std::vector<int32_t> place_behind;  // by row number on a chain: the form position behind it; empty: row number plus 1
  std::vector<uint8_t> parts;         // here every id is as likely as the next; empty: nowhere
  static StandInAnswer of_form(const Form& form, const Contents& contents, bool chain);
  static StandInAnswer of_text(int32_t tokens, int32_t vocab, TokenId end);
};

struct StandInOdds {
  const Survival* survival = nullptr;
  const DraftLengthTracker* tracker = nullptr;  // what the drive has corrected; may be null
  double lift = 1;                              // of the odds: a draft adapter's
};

class StandInLm final : public Lm {
 public:
  /// `costs` and what `odds` points to outlive it. `first_position`: of an answer's first row.
  StandInLm(LmInfo info, const StandInOdds& odds, const CostTable& costs, int32_t first_position);
  /// From here on it says this answer; times are its.
  void begin(StandInAnswer answer, uint64_t seed);
  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override;
  Status set_taps(std::span<const int32_t> layers) override;
  uint64_t passes() const override { return passes_; }
  double ms() const { return ms_; }
  /// Of the first pass: the prompt, and what of the answer runs with it.
  double first_ms() const { return first_ms_; }
  int64_t first_rows() const { return first_rows_; }
  /// What a head drafts in its blocks: a mask's own row says what stands there. Costs nothing here.
  void draft_blocks(const Pass& pass, PassOutput& out);

 private:
  struct Said {
    TokenId token, other;
    float top = 1;
  };
  /// What a row is among those of its pass.
  struct Stand {
    bool drafts = false;                // it is a mask or sees rows behind itself
    bool begins = true;                 // with it a strand's rows begin, or a group of masks behind another of its rows
    std::optional<int32_t> first_mask;  // row number of the first mask of these rows, on a chain
  };
  void lay_out(const Pass& pass, bool blocks, PassOutput& out);
  void answer_rows(const Pass& pass, PassOutput& out);
  std::optional<size_t> place_of(const Row& row, const Stand& stand, bool own) const;
  bool parts_at(size_t at) const { return !answer_.parts.empty() && answer_.parts[at] != 0; }
  Said draft(size_t at, const Place& place, int32_t ahead);
  double top_of(std::optional<int32_t> field, int32_t ahead, int32_t index, uint64_t dice) const;
  static size_t first_top(const Survival::Cell& cell);
  void write(const Pass& pass, size_t i, const Said& said, PassOutput& out) const;
  void write_any(const Pass& pass, size_t i, TokenId first, PassOutput& out) const;

  LmInfo info_;
  StandInAnswer answer_;
  StandInOdds odds_;
  const CostTable& costs_;
  int32_t first_position_;
  uint64_t seed_ = 0, passes_ = 0;
  double ms_ = 0, first_ms_ = 0;
  int64_t first_rows_ = 0;
  std::vector<Stand> stands_;  // by row of the pass
  std::vector<uint32_t> attempts_;
  std::vector<double> tops_;  // cumulative, by row_of_field, draws ahead, index and top
};

/// A draft head's stand-in: its drafts are the model's stand-in's, its rounds are priced by their rows, the prompt's context by what it is
/// said to cost.
class StandInHead final : public DraftHead {
 public:
  StandInHead(StandInLm& lm, int32_t block, const CostTable& rounds);
  void begin() { ms_ = 0; }
  const DraftHeadInfo& info() const override { return info_; }
  Status store(std::span<const int32_t>, std::span<const int32_t>, std::span<const float>) override { return {}; }
  Status forward(const Pass& pass, PassOutput& out) override;
  double ms() const { return ms_; }

 private:
  StandInLm& lm_;
  const CostTable& rounds_;
  DraftHeadInfo info_;
  double ms_ = 0;
};

}  // namespace slip
