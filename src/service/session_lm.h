// SPDX-License-Identifier: Apache-2.0
// The model as one of many requests sees it: slots 0 .. are its own, wherever in the arena they lie, and a pass of it runs together with
// those of others. A decoder runs against it as against the model alone, and gets the same bits.
#pragma once
#include <functional>
#include <vector>

#include "service/job.h"
#include "service/slot_pages.h"

namespace slip {

class SessionLm final : public Lm {
 public:
  /// `wait` returns when the job has run (or must not); called inside of forward.
  SessionLm(Lm& model, SlotPages& pages, SlotPages::Held held, const Prompt& prompt, std::function<void(PassJob&)> wait);
  ~SessionLm() override;
  SessionLm(const SessionLm&) = delete;
  SessionLm& operator=(const SessionLm&) = delete;

  const LmInfo& info() const override { return info_; }
  Status forward(const Pass& pass, PassOutput& out) override;
  uint64_t passes() const override { return passes_; }
  Status set_taps(std::span<const int32_t> layers) override;
  /// Where these slots lie in the model's arena, in their order; appended to `arena`.
  void places(std::span<const SlotSpan> slots, std::vector<SlotSpan>& arena) const;
  int32_t known_rows() const { return held_.known; }

 private:
  Status translate(const Pass& pass);
  void append(SlotSpan span, std::vector<SlotSpan>& arena) const;
  int32_t place_of(int32_t slot) const {
    return held_.pages[static_cast<size_t>(slot / SlotPages::kPage)] * SlotPages::kPage + slot % SlotPages::kPage;
  }
  /// Counts the prompt's rows that are there from its beginning on.
  void note_written(const Pass& pass);

  Lm& model_;
  SlotPages& pages_;
  SlotPages::Held held_;
  const Prompt& prompt_;
  std::function<void(PassJob&)> wait_;
  LmInfo info_;
  PassJob job_;
  int32_t written_ = 0;
  uint64_t passes_ = 1;
};

}  // namespace slip
