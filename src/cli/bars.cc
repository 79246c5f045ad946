// SPDX-License-Identifier: Apache-2.0
// See bars.h.
#include "cli/bars.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace slip::cli {

namespace {

bool counts_bytes(std::string_view stage) { return stage == "packing" || stage == "synthesizing" || stage == "converting"; }

/// Stages whose length says little of the time are shown as a count.
bool is_count(std::string_view stage) {
  return stage == "loading" || stage == "reading the prompt" || stage == "verifying" || stage == "decoding" || stage == "comparing";
}

std::string note_of(std::string_view stage, int64_t total) {
  if (counts_bytes(stage)) return "MB";
  if (stage == "loading" || stage == "reading the prompt") return "%";
  if (stage == "verifying") return fmt::format("of {}", total);
  return stage == "decoding" ? "tokens" : stage == "comparing" ? "passes" : "";
}

}  // namespace

slipstream::Progress Bars::progress() {
  return [this](std::string_view stage, int64_t done, int64_t total) { tell(stage, done, total); };
}

void Bars::tell(std::string_view stage, int64_t done, int64_t total) {
  if (is_quiet()) return;
  const int shift = counts_bytes(stage) ? 20 : 0;
  if (!bar_ || stage != stage_) {
    bar_.reset();
    stage_ = stage;
    bar_.emplace(stage_, is_count(stage) ? 0 : total >> shift);
  }
  const bool share = stage == "loading" || stage == "reading the prompt";
  const int64_t shown = share && total > 0 ? done * 100 / total : done >> shift;
  bar_->update(shown, note_of(stage, total));
}

void Bars::finish() {
  if (bar_) bar_->finish();
  bar_.reset();
}

}  // namespace slip::cli
