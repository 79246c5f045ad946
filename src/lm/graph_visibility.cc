// SPDX-License-Identifier: Apache-2.0
// Contexts are made once per form: a few dozen fields with a few ancestors each. Contract in graph_visibility.h.
#include "lm/graph_visibility.h"

#include <algorithm>

namespace slip {
namespace {

std::vector<GraphVisibility::Segment> context_of(const Form& form, int32_t field, std::span<const int32_t> ancestors) {
  const auto fields = form.fields();
  const Field& own = fields[static_cast<size_t>(field)];
  std::vector<uint8_t> replaced(static_cast<size_t>(form.length()), 0);
  const auto hand_off = [&](int32_t f) {
    const Field& x = fields[static_cast<size_t>(f)];
    std::fill_n(replaced.begin() + x.start - x.hand_off, x.hand_off, uint8_t{1});
  };
  hand_off(field);
  for (const int32_t a : ancestors) hand_off(a);

  std::vector<GraphVisibility::Segment> out;
  std::optional<GraphVisibility::Segment> open;  // values between fixed tokens hold no scaffold row and do not close it
  const auto close = [&] {
    if (open) out.push_back(*open);
    open.reset();
  };
  for (int32_t u = 0; u < form.length(); ++u) {
    const bool scaffold = u < own.start && form.is_scaffold(u) && !replaced[static_cast<size_t>(u)];
    if (scaffold) {
      if (!open) open = {.begin = u};
      open->end = u + 1;
    } else if (replaced[static_cast<size_t>(u)] || (form.fixed_at(u) && !form.is_scaffold(u))) {  // nobody's scaffold
      close();
      const std::optional<int32_t> f = form.field_at(u + 1);
      if (f && std::find(ancestors.begin(), ancestors.end(), *f) != ancestors.end()) out.push_back({.field = f});
    }
  }
  close();
  return out;
}

}  // namespace

GraphVisibility::GraphVisibility(const Form& form) : form_(&form) {
  const auto fields = form.fields();
  const size_t n = fields.size();
  children_.resize(n);
  std::vector<uint8_t> done(n, 0);
  for (size_t f = 0; f < n; ++f)
    for (const int32_t p : fields[f].parents) {
      auto& c = children_[static_cast<size_t>(p)];
      if (std::find(c.begin(), c.end(), static_cast<int32_t>(f)) == c.end()) c.push_back(static_cast<int32_t>(f));
    }
  while (order_.size() < n)  // Form::make has refused cycles
    for (size_t f = 0; f < n; ++f) {
      const auto closed = [&](int32_t p) { return done[static_cast<size_t>(p)] != 0; };
      if (done[f] || !std::all_of(fields[f].parents.begin(), fields[f].parents.end(), closed)) continue;
      done[f] = 1;
      order_.push_back(static_cast<int32_t>(f));
      break;
    }
  ancestors_.resize(n);
  for (const int32_t f : order_) {
    std::vector<int32_t>& a = ancestors_[static_cast<size_t>(f)];
    for (const int32_t p : fields[static_cast<size_t>(f)].parents) {
      a.push_back(p);
      const auto& more = ancestors_[static_cast<size_t>(p)];
      a.insert(a.end(), more.begin(), more.end());
    }
    std::sort(a.begin(), a.end());
    a.erase(std::unique(a.begin(), a.end()), a.end());
  }
  find_ways();
  for (size_t f = 0; f < n; ++f)
    contexts_.push_back(form.branches() ? context_with_choices(static_cast<int32_t>(f))
                                        : context_of(form, static_cast<int32_t>(f), ancestors_[f]));
}

/// Pieces are in the order of all ways, so that one sweep finds what every way to a piece passes [Cooper, Harvey, Kennedy 2001].
void GraphVisibility::find_ways() {
  const Form& form = *form_;
  const size_t n = form.pieces().size();
  openings_.resize(n);
  piece_of_.resize(form.fields().size());
  before_.resize(n + 1);
  dominator_.assign(n + 1, std::nullopt);
  std::vector<std::pair<size_t, Opening>> begins;
  for (size_t p = 0; p < n; ++p) {
    const auto* ref = std::get_if<FieldRef>(&form.pieces()[p]);
    piece_at_.resize(static_cast<size_t>(form.begin_of(static_cast<int32_t>(p) + 1)), static_cast<int32_t>(p));
    if (ref) piece_of_[static_cast<size_t>(ref->field)] = static_cast<int32_t>(p);
    const auto exits = ref ? std::span<const Exit>(form.fields()[static_cast<size_t>(ref->field)].exits) : std::span<const Exit>();
    for (const Exit& e : exits) {
      before_[static_cast<size_t>(e.piece)].push_back(static_cast<int32_t>(p));
      begins.push_back({static_cast<size_t>(e.piece), {ref->field, e.piece}});
    }
    if (exits.empty()) before_[static_cast<size_t>(form.next_piece(static_cast<int32_t>(p)))].push_back(static_cast<int32_t>(p));
  }
  if (!form.branches()) return;
  for (size_t p = 1; p <= n; ++p)
    for (const int32_t b : before_[p]) {
      if (b > 0 && !dominator_[static_cast<size_t>(b)]) continue;  // nothing leads there
      int32_t d = dominator_[p].value_or(b), other = b;
      while (d != other) (d > other ? d : other) = *dominator_[static_cast<size_t>(std::max(d, other))];
      dominator_[p] = d;
    }
  std::vector<uint8_t> always(n + 1, 0);
  for (std::optional p = static_cast<int32_t>(n); p; p = dominator_[static_cast<size_t>(*p)]) always[static_cast<size_t>(*p)] = 1;
  for (const auto& [first, opening] : begins)
    for (size_t p = first; p < n;) {
      if (!always[p]) openings_[p].push_back(opening);
      const auto* ref = std::get_if<FieldRef>(&form.pieces()[p]);
      if (ref && !form.fields()[static_cast<size_t>(ref->field)].exits.empty()) break;
      p = static_cast<size_t>(form.next_piece(static_cast<int32_t>(p)));
    }
}

std::vector<GraphVisibility::Segment> GraphVisibility::scaffold_before(int32_t u) const {
  std::vector<Segment> out;
  if (!form_->branches()) return out;
  for (std::optional p = piece_at_[static_cast<size_t>(u)]; p; p = dominator_[static_cast<size_t>(*p)])
    if (form_->fixed_at(form_->begin_of(*p)))
      out.push_back({.begin = form_->begin_of(*p), .end = std::min(u + 1, form_->begin_of(*p + 1))});
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<GraphVisibility::Segment> GraphVisibility::context_with_choices(int32_t field) const {
  const auto& ancestors = ancestors_[static_cast<size_t>(field)];
  const int32_t own = piece_of_[static_cast<size_t>(field)];
  std::vector<uint8_t> leads(form_->pieces().size(), 0), every(leads);
  leads[static_cast<size_t>(own)] = 1;
  for (int32_t p = own; p >= 0; --p)
    if (leads[static_cast<size_t>(p)])
      for (const int32_t b : before_[static_cast<size_t>(p)]) leads[static_cast<size_t>(b)] = 1;
  for (std::optional p = own; p; p = dominator_[static_cast<size_t>(*p)]) every[static_cast<size_t>(*p)] = 1;
  const auto is_ancestor = [&](int32_t f) { return std::binary_search(ancestors.begin(), ancestors.end(), f); };
  std::vector<Segment> out;
  for (size_t p = 0; p < form_->pieces().size(); ++p) {
    const auto* ref = std::get_if<FieldRef>(&form_->pieces()[p]);
    const auto index = static_cast<int32_t>(p);
    if (ref) {
      if (is_ancestor(ref->field)) out.push_back({.field = ref->field});
      continue;
    }
    const auto opened = openings(index);
    const bool known = std::all_of(opened.begin(), opened.end(), [&](const Opening& o) { return is_ancestor(o.field); });
    if (!leads[p] || (!every[p] && !known)) continue;
    // The token before the field, or before an ancestor, is run again as that one's first row.
    const auto* next = p + 1 < form_->pieces().size() ? std::get_if<FieldRef>(&form_->pieces()[p + 1]) : nullptr;
    const bool replaced = next && (next->field == field || is_ancestor(next->field));
    const int32_t end = form_->begin_of(index + 1) - (replaced ? 1 : 0);
    if (form_->begin_of(index) < end)
      out.push_back({.begin = form_->begin_of(index), .end = end, .piece = every[p] ? std::nullopt : std::optional(index)});
  }
  return out;
}

int64_t GraphVisibility::longest_path(std::span<const int32_t> passes) const {
  const std::vector<int64_t> from = remaining_path(passes);
  return from.empty() ? 0 : *std::max_element(from.begin(), from.end());
}

std::vector<int64_t> GraphVisibility::remaining_path(std::span<const int32_t> passes) const {
  std::vector<int64_t> from(passes.size(), 0);
  for (size_t i = order_.size(); i-- > 0;) {
    const auto f = static_cast<size_t>(order_[i]);
    int64_t longest = 0;
    for (const int32_t c : children_[f]) longest = std::max(longest, from[static_cast<size_t>(c)]);
    from[f] = passes[f] + longest;
  }
  return from;
}

}  // namespace slip
