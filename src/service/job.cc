// SPDX-License-Identifier: Apache-2.0
// See job.h.
#include "service/job.h"

#include <algorithm>
#include <utility>

#include "lm/pass_answers.h"

namespace slip {
namespace {

/// The largest number in a range, over a fixed array.
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<int32_t>& values) : n_(values.size()), tree_(2 * n_) {
    std::copy(values.begin(), values.end(), tree_.begin() + static_cast<ptrdiff_t>(n_));
    for (size_t i = n_; i-- > 1;) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
  }
  int32_t operator()(size_t begin, size_t end) const {
    int32_t best = -1;
    for (begin += n_, end += n_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) best = std::max(best, tree_[begin++]);
      if (end % 2 == 1) best = std::max(best, tree_[--end]);
    }
    return best;
  }

 private:
  size_t n_;
  std::vector<int32_t> tree_;
};

}  // namespace

// Row r needs row w > r in its pass where it sees the slot that w writes. So a cut at t is good when the furthest row that any row before
// t needs is before t.
void find_cuts(PassJob& job, size_t whole) {
  job.cuts.clear();
  const auto n = static_cast<int32_t>(job.rows.size());
  if (job.rows.size() > whole) {
    int32_t low = job.rows[0].slot, high = low;
    for (const Row& r : job.rows) {
      low = std::min(low, r.slot);
      high = std::max(high, r.slot);
    }
    std::vector<int32_t> writer(static_cast<size_t>(high - low + 1), -1);
    for (int32_t t = 0; t < n; ++t) writer[static_cast<size_t>(job.rows[static_cast<size_t>(t)].slot - low)] = t;
    const RangeMaximum furthest(writer);
    int32_t needs = 0;
    for (int32_t t = 0; t < n; ++t) {
      const Row& r = job.rows[static_cast<size_t>(t)];
      for (const SlotSpan& s : std::span(job.spans).subspan(r.sees_first, r.sees_count)) {
        const int32_t begin = std::max(s.begin, low), end = std::min(s.end, high + 1);
        if (begin < end) needs = std::max(needs, furthest(static_cast<size_t>(begin - low), static_cast<size_t>(end - low)));
      }
      if (needs <= t && t + 1 < n) job.cuts.push_back(t + 1);
    }
  }
  job.cuts.push_back(n);
}

void PassMerger::alone(Lm& lm, const JobPart& part) {
  PassJob& job = *part.job;
  if (part.rows == job.rows.size()) {  // nothing to put together or to take apart
    Pass pass = job.asked;
    pass.rows = job.rows;
    pass.spans = job.spans;
    job.out->nan_rows = 0;
    ++passes_;
    job.status = lm.forward(pass, *job.out);
    job.done = job.rows.size();
    return;
  }
  lay_out(lm, {&part, 1});
  const Pass& asked = job.asked;
  out_.nan_rows = 0;
  ++passes_;
  job.status = lm.forward({rows_, spans_, features_, asked.draft_adapter, asked.taps, allowed_}, out_);
  features_ = {};
  if (job.status) hand_out(lm.info(), part, 0);
  if (!job.status) job.done = job.rows.size();
}

void PassMerger::run(Lm& lm, std::span<const JobPart> parts) {
  if (parts.size() == 1) return alone(lm, parts[0]);
  lay_out(lm, parts);
  const Pass& asked = parts[0].job->asked;
  out_.nan_rows = 0;
  ++passes_;
  const Status ran = lm.forward({rows_, spans_, features_, asked.draft_adapter, asked.taps, allowed_}, out_);
  features_ = {};
  if (!ran || out_.nan_rows > 0) {
    for (const JobPart& part : parts) alone(lm, part);
    return;
  }
  size_t first = 0;
  for (const JobPart& part : parts) {
    hand_out(lm.info(), part, first);
    first += part.rows;
  }
}

/// Where a part's feature row stands among those of all parts.
Feature PassMerger::take_feature(const FeatureView& asked, Feature its, int32_t width) {
  const auto place = asked.place_of(its.index, width);
  if (!place) return Feature{INT32_MAX};  // the pass will say that there is none
  const FeatureView all(features_);
  if (place->block < 0) {
    const auto numbers = asked.numbers_of(*place, width);
    const Feature there{static_cast<int32_t>(all.rows(width))};
    features_.numbers_ND.insert(features_.numbers_ND.end(), numbers.begin(), numbers.end());
    return there;
  }
  const auto block = std::ranges::find(all.resident, asked.resident[static_cast<size_t>(place->block)]);
  const FeatureView before({all.resident.begin(), block}, {});
  return Feature{static_cast<int32_t>(before.resident_rows()) + place->row};
}

void PassMerger::lay_out(Lm& lm, std::span<const JobPart> parts) {
  rows_.clear();
  spans_.clear();
  allowed_.clear();
  const int32_t width = lm.info().hidden_size;
  for (const JobPart& part : parts)  // all blocks come before all numbers
    for (const FeatureBlock& block : part.job->asked.features.resident)
      if (std::ranges::find(features_.resident, block) == features_.resident.end()) features_.resident.push_back(block);
  for (const JobPart& part : parts) {
    const PassJob& job = *part.job;
    const auto lists = static_cast<int32_t>(allowed_.size());
    allowed_.insert(allowed_.end(), job.asked.allowed.begin(), job.asked.allowed.end());
    for (size_t t = part.first; t < part.first + part.rows; ++t) {
      Row r = job.rows[t];
      const auto sees = std::span(job.spans).subspan(r.sees_first, r.sees_count);
      r.sees_first = static_cast<uint32_t>(spans_.size());
      spans_.insert(spans_.end(), sees.begin(), sees.end());
      if (r.allowed) *r.allowed += lists;
      if (const auto* feature = std::get_if<Feature>(&r.input)) r.input = take_feature(job.asked.features, *feature, width);
      rows_.push_back(r);
    }
  }
}

void PassMerger::hand_out(const LmInfo& info, const JobPart& part, size_t first) {
  PassJob& job = *part.job;
  PassOutput& out = *job.out;
  const size_t n = job.rows.size(), vocab = static_cast<size_t>(info.vocab);
  if (part.first == 0) {
    Pass pass = job.asked;
    pass.rows = job.rows;
    begin_output(pass, info, out);
    const auto asks = [](const Row& r) { return r.statistics && r.want == Want::kArgmax; };
    if (std::any_of(job.rows.begin(), job.rows.end(), asks)) out.statistics.resize(n);
  }
  out.vocab = info.vocab;
  out.kept = out_.kept;
  if (out_.kept) out.kept_line.assign(n, -1);
  out.nan_rows += out_.nan_rows;  // more than 0 for a part that ran alone only
  const auto taps = job.asked.taps ? static_cast<size_t>(taps_width(info)) : 0;
  for (size_t i = 0; i < part.rows; ++i) {
    const size_t from = first + i, to = part.first + i;
    if (job.rows[to].want != Want::kNothing) out.argmax[to] = out_.argmax[from];
    if (!out.statistics.empty() && !out_.statistics.empty()) out.statistics[to] = out_.statistics[from];
    const auto add_logits = [&](std::span<const float> numbers) {
      out.logits_row[to] = static_cast<int32_t>(out.logits_NV.size() / vocab);
      out.logits_NV.insert(out.logits_NV.end(), numbers.begin(), numbers.end());
    };
    if (out_.logits_row[from] >= 0) add_logits(std::as_const(out_).logits_V(from));
    const auto line = out_.kept_line_of(from);
    if (line && part.first + part.rows == n) {
      out.kept_line[to] = *line;
    } else if (line && out_.logits_row[from] < 0) {  // the request reads it behind the passes of its other parts
      const auto all = out_.kept->all(*line);
      if (all) add_logits(*all);
      if (!all && job.status) job.status = all.error();
    }
    if (taps > 0)
      std::copy_n(out_.taps_NE.begin() + static_cast<ptrdiff_t>(from * taps), taps,
                  out.taps_NE.begin() + static_cast<ptrdiff_t>(to * taps));
  }
  job.done = job.status ? part.first + part.rows : n;
}

}  // namespace slip
