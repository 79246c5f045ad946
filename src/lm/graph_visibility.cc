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
  replaced[static_cast<size_t>(own.start - 1)] = 1;
  for (const int32_t a : ancestors) replaced[static_cast<size_t>(fields[static_cast<size_t>(a)].start - 1)] = 1;

  std::vector<GraphVisibility::Segment> out;
  int32_t begin = -1;  // of an open stretch of scaffold; values between fixed tokens hold no scaffold row and do not close it
  int32_t end = -1;
  const auto close = [&] {
    if (begin >= 0) out.push_back({.field = -1, .begin = begin, .end = end});
    begin = -1;
  };
  for (int32_t u = 0; u < form.length(); ++u) {
    const bool scaffold = u < own.start && form.fixed_at(u) && !replaced[static_cast<size_t>(u)];
    if (scaffold) {
      if (begin < 0) begin = u;
      end = u + 1;
    } else if (replaced[static_cast<size_t>(u)]) {
      close();
      const int32_t f = form.field_at(u + 1);
      if (f != field) out.push_back({.field = f});
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
  for (size_t f = 0; f < n; ++f) contexts_.push_back(context_of(form, static_cast<int32_t>(f), ancestors_[f]));
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
