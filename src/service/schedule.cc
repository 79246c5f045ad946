// SPDX-License-Identifier: Apache-2.0
// See schedule.h.
#include "service/schedule.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace slip {
namespace {

/// May the job only run in one piece from here on?
bool is_short(const PassJob& job) { return job.cuts.size() <= 1; }

/// Rows from `done` up to the last cut for which the pass stays within the budget; at least up to the first cut behind `least` rows.
size_t slice_of(const PassJob& job, int64_t rows, const CostTable& cost, double budget_ms, size_t least) {
  size_t end = 0;
  for (const int32_t cut : job.cuts) {
    const auto at = static_cast<size_t>(cut);
    if (at <= job.done) continue;
    const auto all = static_cast<int32_t>(rows + static_cast<int64_t>(at - job.done));
    const bool must = end == 0 || end - job.done < least;
    if (!must && cost.ms(all) > budget_ms) break;
    if (end == 0 && least == 0 && cost.ms(all) > budget_ms) return 0;
    end = at;
  }
  return end - job.done;
}

}  // namespace

double budget_ms(std::span<const PassCandidate> candidates, double usual_ms, Clock::time_point now) {
  double ms = usual_ms;
  for (const PassCandidate& c : candidates)
    if (c.deadline != Clock::time_point::max())
      ms = std::min(ms, std::chrono::duration<double, std::milli>(c.deadline - now).count());
  return std::max(1.0, ms);
}

std::vector<JobPart> plan_pass(std::span<const PassCandidate> candidates, const CostTable& cost, const PassBudget& budget) {
  std::vector<JobPart> parts;
  if (candidates.empty()) return parts;
  const auto oldest = std::min_element(candidates.begin(), candidates.end(),
                                       [](const PassCandidate& a, const PassCandidate& b) { return a.since < b.since; });
  const Pass& group = oldest->job->asked;
  std::vector<const PassCandidate*> order;
  for (const PassCandidate& c : candidates)
    if (c.job->asked.draft_adapter == group.draft_adapter && c.job->asked.taps == group.taps) order.push_back(&c);
  std::sort(order.begin(), order.end(), [](const PassCandidate* a, const PassCandidate* b) {
    return std::tie(a->batch, a->deadline, a->since) < std::tie(b->batch, b->deadline, b->since);
  });
  int64_t rows = 0;
  const auto take = [&](const PassCandidate& c, size_t n) {
    parts.push_back({c.job, c.job->done, n});
    rows += static_cast<int64_t>(n);
  };
  for (const PassCandidate* c : order) {
    if (!is_short(*c->job)) continue;
    const auto all = static_cast<int32_t>(rows + static_cast<int64_t>(c->job->left()));
    // Whoever has waited longest is always taken: nobody is passed over for ever.
    if (rows == 0 || c == &*oldest || cost.ms(all) <= budget.ms) take(*c, c->job->left());
  }
  bool first = true;
  for (const PassCandidate* c : order) {
    if (is_short(*c->job)) continue;
    const size_t n = slice_of(*c->job, rows, cost, budget.ms, first ? static_cast<size_t>(budget.least_slice) : 0);
    if (n > 0) take(*c, n);
    first = false;
  }
  return parts;
}

void FairShares::used(const std::string& key, double ms) {
  auto [at, fresh] = used_.try_emplace(key, floor_);
  at->second = std::max(at->second, floor_) + ms;
}

double FairShares::of(const std::string& key) const {
  const auto at = used_.find(key);
  return at == used_.end() ? floor_ : std::max(at->second, floor_);
}

void FairShares::level(std::span<const std::string> active) {
  if (active.empty()) return;
  double least = of(active.front());
  for (const std::string& key : active) least = std::min(least, of(key));
  floor_ = std::max(floor_, least);
  std::erase_if(used_, [&](const auto& entry) { return entry.second <= floor_; });
}

namespace {

double price_of_prompt(double rows, const CostTable& costs) {
  return costs.empty() ? 0 : costs.ms(std::max(1, static_cast<int32_t>(std::lround(rows))));
}

}  // namespace

/// By how much prompts' rows cost more than the table says, drawn towards 1 by what the slope leaves unexplained, for each answer, and where
/// prompts hardly differ. Few answers say nothing, nor do prompts that cost less the longer they are.
double Experience::Slope::factor(double prompt_square, double mean_ms, int64_t answers) const {
  constexpr double kHardly = 0.02, kLeast = 0.25, kMost = 8, kCount = 16;
  constexpr int64_t kFew = 4;
  if (answers < kFew || product <= 0 || prompt_square <= 0) return 1;
  const double noise =
      std::max(0.0, square - product * product / prompt_square) / (std::min(static_cast<double>(answers), kCount) - 2);
  const double towards_1 = noise + kHardly * mean_ms * kHardly * mean_ms;
  return std::clamp((product + towards_1) / (prompt_square + towards_1), kLeast, kMost);
}

void Experience::seen(const RequestKind& kind, const Answered& answered, const CostTable& costs, Clock::time_point now) {
  constexpr double kNewest = 1.0 / 16, kMuchLess = 0.5, kMuchMore = 4;
  constexpr int64_t kFirst = 3;  // answers, before which nobody knows what is much
  constexpr size_t kMostKinds = 1024;
  if (by_kind_.size() >= kMostKinds && !by_kind_.contains(kind.name)) by_kind_.clear();
  const auto rows = static_cast<double>(answered.prompt_rows), kept = static_cast<double>(answered.kept_rows);
  const double prompt = price_of_prompt(rows - kept, costs);
  const Cost foreseen = expected(kind, costs);
  Cost cost = answered.cost;
  const auto at = by_kind_.find(kind.name);
  if (at == by_kind_.end()) {
    by_kind_.emplace(kind.name, Known{.cost = cost,
                                      .prompt_ms = prompt,
                                      .text_bytes = static_cast<double>(kind.text_bytes),
                                      .prompt_rows = rows,
                                      .kept_rows = kept,
                                      .at = now});
    return;
  }
  Known& known = at->second;
  ++known.answers;
  if (known.answers > kFirst) {
    cost.machine_ms = std::min(cost.machine_ms, kMuchMore * foreseen.machine_ms);
    cost.alone_ms = std::min(cost.alone_ms, kMuchMore * foreseen.alone_ms);
  }
  const double weight =
      cost.alone_ms < kMuchLess * foreseen.alone_ms ? 0.5 : std::max(kNewest, 1 / static_cast<double>(known.answers));
  const auto towards = [weight](double& mean, double x) { mean += weight * (x - mean); };
  // As weighted variances are brought up to date [West, 1979].
  const double apart = prompt - known.prompt_ms, machine = cost.machine_ms - known.cost.machine_ms,
               alone = cost.alone_ms - known.cost.alone_ms;
  const auto spreads = [weight](double& mean, double x) { mean = (1 - weight) * (mean + weight * x); };
  spreads(known.prompt_square, apart * apart);
  spreads(known.machine.square, machine * machine);
  spreads(known.machine.product, apart * machine);
  spreads(known.alone.square, alone * alone);
  spreads(known.alone.product, apart * alone);
  towards(known.cost.machine_ms, cost.machine_ms);
  towards(known.cost.alone_ms, cost.alone_ms);
  towards(known.prompt_ms, prompt);
  towards(known.text_bytes, static_cast<double>(kind.text_bytes));
  towards(known.prompt_rows, rows);
  towards(known.kept_rows, kept);
  known.at = now;
}

Experience::Cost Experience::expected(const RequestKind& kind, const CostTable& costs) const {
  constexpr double kLeastMs = 1e-3, kLeastShare = 0.25, kUsualRowsOfByte = 0.25;
  const auto at = by_kind_.find(kind.name);
  if (at == by_kind_.end()) return {};
  const Known& k = at->second;
  // Rows of pictures and of templates are the kind's; what differs is text.
  const double of_byte = k.text_bytes > 0 ? std::min(1.0, k.prompt_rows / k.text_bytes) : kUsualRowsOfByte;
  const double rows = k.prompt_rows + (static_cast<double>(kind.text_bytes) - k.text_bytes) * of_byte;
  const double prompt = price_of_prompt(std::max(1.0, rows - k.kept_rows), costs);
  // Passes that others share make rows cheaper than alone, but not for nothing: what is foreseen as nothing could learn of nothing else.
  const auto foreseen = [&](double mean_ms, const Slope& slope) {
    return std::max(
        {kLeastMs, kLeastShare * prompt, mean_ms + slope.factor(k.prompt_square, mean_ms, k.answers) * (prompt - k.prompt_ms)});
  };
  return {foreseen(k.cost.machine_ms, k.machine), foreseen(k.cost.alone_ms, k.alone)};
}

bool Experience::stale(const std::string& name, Clock::time_point now) const {
  constexpr std::chrono::seconds kLasts{2};
  const auto at = by_kind_.find(name);
  return at != by_kind_.end() && now - at->second.at > kLasts;
}

void Experience::tried(const std::string& name, Clock::time_point now) {
  if (const auto at = by_kind_.find(name); at != by_kind_.end()) at->second.at = now;
}

double predicted_ms(const Experience::Cost& own, double backlog_ms) { return std::max(own.alone_ms, backlog_ms + own.machine_ms); }

}  // namespace slip
