// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/block_pilot.h"

#include <algorithm>

#include "decode/draft_length/methods.h"

namespace slip {

Result<BlockPilot> BlockPilot::open(const std::filesystem::path& path) {
  BlockPilot p;
  if (std::filesystem::is_directory(path)) {
    SLIP_TRY(p.files_, Checkpoint::open_folder(path));
  } else {
    SLIP_TRY(p.files_, Checkpoint::open_file(path));
  }
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) -> Result<Linear> {
    Linear l;
    const int64_t shape[] = {out, in};
    SLIP_TRY(l.weight, p.files_.get(name + ".weight", shape));
    const int64_t rows[] = {l.weight->shape[0]};
    SLIP_TRY(const TensorView* bias, p.files_.get(name + ".bias", rows));
    if (!all_finite(*l.weight) || !all_finite(*bias))
      return bad_input("{}: {}: expected finite numbers, got NaN or infinity", path.string(), name);
    l.bias = read_as_f32(*bias);
    return l;
  };
  int64_t width = -1;
  do {
    SLIP_TRY(Linear l, linear(fmt::format("layers.{}", p.layers_.size()), width, width));
    if (width < 0) p.vocab_ = static_cast<int32_t>(l.weight->shape[1]);
    width = l.weight->shape[0];
    p.layers_.push_back(std::move(l));
  } while (p.files_.has(fmt::format("layers.{}.weight", p.layers_.size())));
  SLIP_TRY(p.out_, linear("fc_out", -1, width));
  p.classes_ = static_cast<int32_t>(p.out_.bias.size());
  if (p.vocab_ < 1 || p.classes_ < 1)
    return bad_input("{}: expected at least 1 input and 1 class, got {} and {}", path.string(), p.vocab_, p.classes_);
  return p;
}

std::vector<float> BlockPilot::apply(const Linear& l, std::span<const float> x) const {
  std::vector<float> y(l.bias), row(x.size());
  for (size_t o = 0; o < y.size(); ++o) {
    read_as_f32(*l.weight, static_cast<int64_t>(o * x.size()), row);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(row[i]) * static_cast<double>(x[i]);
    y[o] += static_cast<float>(sum);
  }
  return y;
}

int32_t BlockPilot::pick(std::span<const float> logits_V) const {
  std::vector<float> x(logits_V.begin(), logits_V.begin() + vocab_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    std::vector<float> y = apply(layers_[i], x);
    for (size_t k = 0; k < y.size(); ++k) y[k] = std::max(y[k], 0.0F) + (i > 0 ? x[k] : 0.0F);
    x = std::move(y);
  }
  const std::vector<float> y = apply(out_, x);
  return static_cast<int32_t>(std::max_element(y.begin(), y.end()) - y.begin());
}

namespace {

class BlockPilotDraftLength : public DraftLengthPolicy {
 public:
  BlockPilotDraftLength(const BlockPilot& pilot, int32_t block, bool by_positions)
      : pilot_(pilot), block_(block), by_positions_(by_positions) {}
  bool wants_prompt_logits() const override { return true; }
  void prompt_logits(std::span<const float> logits_V) override { block_ = std::clamp(pilot_.block(logits_V, block_), 2, 64); }
  void open(DraftView s) override {
    if (by_positions_)
      s.set_window(kNoEnd, s.position() + (s.rows() == 0 ? 0 : block_ - 1));
    else
      s.set_window(block_ - 1, kNoEnd);
  }
  void lay_masks(DraftViews strands) override {
    for (DraftView s : strands) s.set_masks(block_ - 1);
  }

 private:
  const BlockPilot& pilot_;
  int32_t block_;
  bool by_positions_;
};

}  // namespace

std::unique_ptr<DraftLengthPolicy> make_pilot_draft_length(const Method& m, const BlockPilot& pilot) {
  const bool blocks = lays_blocks(m);
  return std::make_unique<BlockPilotDraftLength>(pilot, m.width.tokens + !blocks, blocks);
}

}  // namespace slip
