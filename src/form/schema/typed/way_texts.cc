// SPDX-License-Identifier: Apache-2.0
// See way_texts.h.
#include "form/schema/typed/way_texts.h"

#include <algorithm>

#include "form/json_text.h"
#include "form/schema/typed/spelling.h"

namespace slip {
namespace {

using Ids = std::vector<TokenId>;
using Tree = TokenTree;

}  // namespace

std::string WayTexts::where(int32_t s) const {
  return s < 0 ? fmt::format("form {}: #", name_)
               : fmt::format("form {}: {}", name_, shape_.slots[static_cast<size_t>(s)].node->pointer);
}

Result<std::vector<TokenId>> WayTexts::encode(std::string_view text) const { return spelled_alone(tokenizer_, text, name_); }

Status WayTexts::start() {
  using Origin = std::pair<const std::vector<Way>*, const Way*>;
  std::vector<std::vector<Origin>> to(shape_.slots.size());
  for (const auto& ways : shape_.ways)
    for (const Way& w : ways)
      if (w.to >= 0) to[static_cast<size_t>(w.to)].emplace_back(&ways, &w);
  tails_.assign(to.size(), "");
  for (size_t s = 0; s < to.size(); ++s) {
    const auto all_end = [&](std::string_view tail) {
      return std::all_of(to[s].begin(), to[s].end(), [&](const Origin& o) { return o.second->text.ends_with(tail); });
    };
    if (to[s].empty() || to[s].front().second->text.empty())
      return unsupported("{}: expected something before it, got a value at the very start", where(static_cast<int32_t>(s)));
    if (to[s].size() > 1)
      for (const std::string_view tail : {"\": \"", "\": ", "\":", " \"", "\"", ", ", ",", "[", ":", " "})
        if (tails_[s].empty() && all_end(tail)) tails_[s] = tail;
    if (to[s].size() > 1 && tails_[s].empty())
      return unsupported("{}: expected one beginning, got several", where(static_cast<int32_t>(s)));
  }
  SLIP_TRY(const Tree start, behind(-1));
  if (start.nodes[0].below.size() > 1) {
    SLIP_TRY_(first_byte_is_fixed());
    cut_ = 1;
  }
  for (size_t s = 0; s < to.size(); ++s) {
    const auto& [ways, way] = to[s].front();
    SLIP_TRY(const Ids ids, spelled(*ways, *way, ways == &shape_.ways[0] ? cut_ : 0));
    entries_.push_back(ids.back());
  }
  return {};
}

Result<std::vector<TokenId>> WayTexts::ids_of(const Way& w) const {
  if (w.to < 0 || tails_[static_cast<size_t>(w.to)].empty()) return encode(w.text);
  const std::string& tail = tails_[static_cast<size_t>(w.to)];
  SLIP_TRY(Ids ids, encode(std::string_view(w.text).substr(0, w.text.size() - tail.size())));
  SLIP_TRY(const Ids last, encode(tail));
  ids.insert(ids.end(), last.begin(), last.end());
  return ids;
}

Status WayTexts::first_byte_is_fixed() const {
  const auto& ways = shape_.ways[0];
  for (const Way& w : ways) {
    const size_t behind_first = w.text.size() - 1, tail = w.to < 0 ? 0 : tails_[static_cast<size_t>(w.to)].size();
    if (behind_first > 0 ? behind_first < tail : w.to < 0 || tail > 1)
      return unsupported("form {}: #: expected alternatives that begin alike, got others", name_);
  }
  return {};
}

Result<std::vector<TokenId>> WayTexts::spelled(const std::vector<Way>& ways, const Way& w, size_t cut) const {
  const size_t tail = w.to < 0 ? 0 : tails_[static_cast<size_t>(w.to)].size();
  const Way* start = nullptr;
  for (const Way& v : ways)
    if (v.to >= 0 && !shape_.slots[static_cast<size_t>(v.to)].node->quoted &&
        v.text.size() + std::max<size_t>(tail, 1) <= w.text.size() && w.text.starts_with(v.text) &&
        (!start || start->text.size() < v.text.size()))
      start = &v;
  Ids ids;
  if (start) {
    SLIP_TRY(ids, spelled(ways, *start, cut));
  } else if (cut > 0) {
    SLIP_TRY(ids, encode(std::string_view(w.text).substr(0, cut)));
  }
  const size_t done = start ? start->text.size() : cut;
  if (w.text.size() > done) {
    SLIP_TRY(const Ids rest, ids_of({w.text.substr(done), w.to}));
    ids.insert(ids.end(), rest.begin(), rest.end());
  }
  return ids;
}

Result<TokenTree> WayTexts::behind(int32_t s) const {
  Tree tree;
  for (const Way& w : shape_.ways[static_cast<size_t>(s + 1)]) {
    SLIP_TRY(const Ids ids, spelled(shape_.ways[static_cast<size_t>(s + 1)], w, s < 0 ? cut_ : 0));
    if (!tree.add(ids, w.to))
      return unsupported("{}: expected alternatives that differ before their first free value, got \"{}\" for two", where(s),
                         shown(w.text));
  }
  return tree;
}

Result<TokenId> WayTexts::first_behind(int32_t s) const {
  const auto& ways = shape_.ways[static_cast<size_t>(s + 1)];
  SLIP_TRY(const Ids ids, spelled(ways, ways.front(), 0));
  return ids.front();
}

}  // namespace slip
