// SPDX-License-Identifier: Apache-2.0
// See session_lm.h.
#include "service/session_lm.h"

#include <algorithm>

namespace slip {

namespace {
constexpr size_t kWhole = 64;  // rows of a pass that is never cut: a pass of one request's decoding
}

SessionLm::SessionLm(Lm& model, SlotPages& pages, SlotPages::Held held, const Prompt& prompt, std::function<void(PassJob&)> wait)
    : model_(model),
      pages_(pages),
      held_(std::move(held)),
      prompt_(prompt),
      wait_(std::move(wait)),
      info_(model.info()),
      written_(held_.known) {
  info_.slots = static_cast<int32_t>(held_.pages.size()) * SlotPages::kPage;
}

SessionLm::~SessionLm() { pages_.release(std::move(held_)); }

Status SessionLm::set_taps(std::span<const int32_t> layers) {
  SLIP_TRY_(model_.set_taps(layers));
  info_.tap_layers = model_.info().tap_layers;
  return {};
}

/// Pages that lie one behind the other make one span.
void SessionLm::append(SlotSpan span, std::vector<SlotSpan>& arena) const {
  for (int32_t at = span.begin; at < span.end;) {
    const int32_t begin = place_of(at);
    int32_t page = at / SlotPages::kPage, end = std::min((page + 1) * SlotPages::kPage, span.end);
    while (end < span.end && held_.pages[static_cast<size_t>(page) + 1] == held_.pages[static_cast<size_t>(page)] + 1)
      end = std::min((++page + 1) * SlotPages::kPage, span.end);
    arena.push_back({begin, begin + end - at});
    at = end;
  }
}

void SessionLm::places(std::span<const SlotSpan> slots, std::vector<SlotSpan>& arena) const {
  for (const SlotSpan& s : slots) append(s, arena);
}

Status SessionLm::translate(const Pass& pass) {
  job_.rows.assign(pass.rows.begin(), pass.rows.end());
  job_.spans.clear();
  uint32_t last_first = 0, last_count = 0, first = 0, count = 0;
  for (Row& r : job_.rows) {
    if (r.slot < 0 || r.slot >= info_.slots) return resource_error("pass: expected slots below {}, got {}", info_.slots, r.slot);
    r.slot = place_of(r.slot);
    if (uint64_t{r.sees_first} + r.sees_count > pass.spans.size())
      return bad_input("pass: expected spans below {}, got {} from {}", pass.spans.size(), r.sees_count, r.sees_first);
    if (count == 0 || r.sees_first != last_first || r.sees_count != last_count) {
      last_first = r.sees_first;
      last_count = r.sees_count;
      first = static_cast<uint32_t>(job_.spans.size());
      for (const SlotSpan& s : pass.spans.subspan(r.sees_first, r.sees_count)) {
        if (s.begin < 0 || s.begin > s.end || s.end > info_.slots)
          return bad_input("pass: expected spans within {} slots, got {} to {}", info_.slots, s.begin, s.end);
        append(s, job_.spans);
      }
      count = static_cast<uint32_t>(job_.spans.size()) - first;
    }
    r.sees_first = first;
    r.sees_count = count;
  }
  return {};
}

void SessionLm::note_written(const Pass& pass) {
  if (pass.draft_adapter) return;  // keys of drafts
  for (const Row& r : pass.rows) {
    const auto at = static_cast<size_t>(r.slot);
    if (r.slot != written_ || at >= held_.prompt.size() || r.sees_count != 1) continue;
    const SlotSpan sees = pass.spans[r.sees_first];
    if (sees == SlotSpan{0, r.slot + 1} && r.input == prompt_.inputs[at] && r.position == prompt_.positions[at]) ++written_;
  }
  pages_.publish(held_, written_);
}

Status SessionLm::forward(const Pass& pass, PassOutput& out) {
  SLIP_TRY_(translate(pass));
  ++passes_;
  job_.asked = pass;
  job_.out = &out;
  job_.done = 0;
  job_.status = {};
  find_cuts(job_, kWhole);
  wait_(job_);
  if (job_.status && job_.done == job_.rows.size()) note_written(pass);
  return job_.status;
}

}  // namespace slip
