// SPDX-License-Identifier: Apache-2.0
// See slot_pages.h.
#include "service/slot_pages.h"

#include <algorithm>

#include "base/check.h"
#include "base/content_hash.h"

namespace slip {
namespace {

uint64_t hash_of(uint64_t before, std::span<const PromptRow> rows) {
  uint64_t h = mix_hash(process_hash_keys().first, before);
  for (const PromptRow& r : rows) {
    h = mix_hash(h, r.low);
    h = mix_hash(h, r.high);
    h = mix_hash(h, uint64_t{static_cast<uint32_t>(r.position.t)} << 32 | static_cast<uint32_t>(r.position.h));
    h = mix_hash(h, static_cast<uint32_t>(r.position.w));
  }
  return h;
}

}  // namespace

std::vector<PromptRow> rows_of(const Prompt& prompt, int32_t width) {
  std::vector<PromptRow> out;
  out.reserve(prompt.inputs.size());
  const FeatureView features(prompt.features);
  for (size_t i = 0; i < prompt.inputs.size(); ++i) {
    PromptRow row;
    if (const auto* token = std::get_if<TokenId>(&prompt.inputs[i])) {
      row.low = static_cast<uint32_t>(token->value);
    } else {
      const auto place = features.place_of(std::get<Feature>(prompt.inputs[i]).index, width);
      if (!place) break;  // the pass will refuse it: nothing to share from here on
      const ContentHash bits = content_of(features, *place, width);
      row = {bits.low, bits.high, {}};
    }
    row.position = prompt.positions[i];
    out.push_back(row);
  }
  return out;
}

SlotPages::SlotPages(int32_t slots) : pages_(static_cast<size_t>(slots / kPage)) {}

std::optional<int32_t> SlotPages::find(uint64_t before, std::span<const PromptRow> rows) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(before, rows));
  for (auto at = begin; at != end; ++at) {
    const Page& p = pages_[static_cast<size_t>(at->second)];
    if (p.before == before && std::ranges::equal(p.rows, rows)) return at->second;
  }
  return std::nullopt;
}

void SlotPages::use(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.is_kept) {
    kept_.erase(p.kept);
    p.is_kept = false;
  }
  if (p.users++ == 0) ++held_;
}

void SlotPages::drop(int32_t page) {
  Page& p = pages_[static_cast<size_t>(page)];
  if (p.is_kept) kept_.erase(p.kept);
  if (p.id != 0) {
    const auto [begin, end] = by_hash_.equal_range(p.hash);
    for (auto at = begin; at != end; ++at)
      if (at->second == page) {
        by_hash_.erase(at);
        break;
      }
  }
  p = {};
}

/// One run of pages where there is one: the fewer runs, the fewer spans. Kept pages give way, the longest unused first.
void SlotPages::take_free(int32_t count, std::vector<int32_t>& out) {
  const auto is_free = [&](int32_t i) {
    const Page& p = pages_[static_cast<size_t>(i)];
    return p.users == 0 && !p.is_kept;
  };
  int32_t free = 0;
  for (int32_t i = 0; i < pages(); ++i) free += is_free(i);
  for (; free < count; ++free) drop(kept_.front());
  int32_t first = -1;
  for (int32_t i = 0, run = 0; i < pages() && first < 0; ++i) {
    run = is_free(i) ? run + 1 : 0;
    if (run == count) first = i - count + 1;
  }
  for (int32_t i = std::max(first, 0); count > 0; ++i) {
    if (!is_free(i)) continue;
    use(i);
    out.push_back(i);
    --count;
  }
}

std::optional<SlotPages::Held> SlotPages::hold(std::vector<PromptRow> prompt, int64_t slots, bool share) {
  const auto want = static_cast<int32_t>((slots + kPage - 1) / kPage);
  Held held{.prompt = std::move(prompt)};
  uint64_t before = 0;
  const int32_t whole = std::max<int32_t>(0, static_cast<int32_t>(held.prompt.size()) - 1) / kPage;
  for (int32_t k = 0; share && k < std::min(whole, want); ++k) {
    const auto page = find(before, std::span(held.prompt).subspan(static_cast<size_t>(k) * kPage, kPage));
    if (!page) break;
    held.pages.push_back(*page);
    before = pages_[static_cast<size_t>(*page)].id;
  }
  int32_t kept_ones = 0;  // of those found: they are no room for others
  for (const int32_t page : held.pages) kept_ones += pages_[static_cast<size_t>(page)].is_kept;
  held.shared = held.published = static_cast<int32_t>(held.pages.size());
  if (pages() - held_ - kept_ones < want - held.shared) return std::nullopt;
  for (const int32_t page : held.pages) use(page);
  held.known = held.shared * kPage;
  take_free(want - held.shared, held.pages);
  queries_ += static_cast<int64_t>(held.prompt.size());
  hits_ += held.known;
  return held;
}

void SlotPages::publish(Held& held, int32_t written) {
  const int32_t whole = std::min(written, std::max(0, static_cast<int32_t>(held.prompt.size()) - 1)) / kPage;
  for (; held.published < whole; ++held.published) {
    const int32_t k = held.published, page = held.pages[static_cast<size_t>(k)];
    const uint64_t before = k == 0 ? 0 : pages_[static_cast<size_t>(held.pages[static_cast<size_t>(k) - 1])].id;
    const auto rows = std::span(held.prompt).subspan(static_cast<size_t>(k) * kPage, kPage);
    if (k > 0 && before == 0) return;  // the page before is known as another request's
    if (find(before, rows)) return;    // somebody was quicker with the same rows: ours go with us
    Page& p = pages_[static_cast<size_t>(page)];
    p.id = next_id_++;
    p.before = before;
    p.rows.assign(rows.begin(), rows.end());
    p.hash = hash_of(before, rows);
    by_hash_.emplace(p.hash, page);
  }
}

void SlotPages::release(Held&& held) {
  // From the end on: what stands behind others is wanted less often, and gives way first.
  for (auto at = held.pages.rbegin(); at != held.pages.rend(); ++at) {
    Page& p = pages_[static_cast<size_t>(*at)];
    SLIP_CHECK(p.users > 0, "a page is released by those who hold it");
    if (--p.users > 0) continue;
    --held_;
    if (p.id == 0) {
      drop(*at);
      continue;
    }
    p.kept = kept_.insert(kept_.end(), *at);
    p.is_kept = true;
  }
  held.pages.clear();
}

void SlotPages::forget() {
  while (!kept_.empty()) drop(kept_.front());
}

}  // namespace slip
