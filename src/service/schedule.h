// SPDX-License-Identifier: Apache-2.0
// Who goes into the next pass, who begins next, and whether a deadline can be kept: decisions without any state of the engine.
//
// A pass is bounded in time, not in rows. Passes of requests that decode are short and go first, the earliest deadline before the others;
// prompts are long and are cut to what is left of the time, so that a stream beside a long prompt waits for a slice of it and never for
// all. The batch class gets what is left, until it has waited too long.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/measure.h"
#include "decode/draft_length/model.h"
#include "service/job.h"

namespace slip {

/// What a caller wants of the service beside the answer.
struct Terms {
  std::string key;     // who asks: keys share the machine evenly
  bool batch = false;  // on what interactive requests leave
  Clock::time_point deadline = Clock::time_point::max();
  bool partial = false;  // what is complete at the deadline is wanted, the plan first where the whole may be late
};

struct PassCandidate {
  PassJob* job = nullptr;
  bool batch = false;
  Clock::time_point deadline = Clock::time_point::max();
  uint64_t since = 0;  // grows with every job that begins to wait
};

struct PassBudget {
  double ms = 50;
  int32_t least_slice = 32;  // rows of a prompt that go into a pass whatever the time, so that it ends
};

/// The usual budget, or what is left to the most urgent deadline where that is less: a slice of a prompt is no reason to miss it. At least 1 ms.
double budget_ms(std::span<const PassCandidate> candidates, double usual_ms, Clock::time_point now);

/// Parts of one pass: all agree in adapter and taps with the job that has waited longest. Never empty where there is a candidate.
std::vector<JobPart> plan_pass(std::span<const PassCandidate> candidates, const CostTable& cost, const PassBudget& budget);

/// Time of the machine that each key has had, in the manner of start-time fair queueing: a key that comes back after a rest begins level
/// with the others and has saved nothing up.
class FairShares {
 public:
  void used(const std::string& key, double ms);
  double of(const std::string& key) const;
  /// `active`: keys with requests that wait or run. Another key's share is forgotten once the least of theirs exceeds it.
  void level(std::span<const std::string> active);

 private:
  std::map<std::string, double, std::less<>> used_;
  double floor_ = 0;
};

/// What a request is like before anything of it is prepared.
struct RequestKind {
  std::string name;        // requests of a name cost alike but for their text
  int64_t text_bytes = 0;  // of its prompt
};

/// What requests of a kind took lately, for the next one's prediction: exponentially weighted means over about 16 answers; the first ones count evenly, one that took less than half of what was foreseen
/// counts as much as all before it, and one that took more than four times as much (the machine stood still) as four times. What the rows of a
/// prompt cost is taken out and put in again for the next one's, by its text's length and the rows that are found kept. They are priced by the
/// table of costs times what answers show of it: a table is measured once, and machines do not stay as quick as they were.
class Experience {
 public:
  struct Cost {
    double machine_ms = 0;  // its share of the passes and its encoding
    double alone_ms = 0;    // from beginning to end
  };
  struct Answered {
    Cost cost;
    int64_t prompt_rows = 0, kept_rows = 0;  // kept: found, and not run again
  };
  void seen(const RequestKind& kind, const Answered& answered, const CostTable& costs, Clock::time_point now);
  /// Zeros where nothing was seen.
  Cost expected(const RequestKind& kind, const CostTable& costs) const;
  /// Nothing was learned of the kind for a while: a prediction that refuses would go on refusing, whatever has changed.
  bool stale(const std::string& name, Clock::time_point now) const;
  /// One has been let through to be learned from.
  void tried(const std::string& name, Clock::time_point now);

 private:
  /// Milliseconds over what the table says of the prompt's rows.
  struct Slope {
    double square = 0, product = 0;  // of the milliseconds' distance from their mean, and of that and the prompt's from its own
    double factor(double prompt_square, double mean_ms, int64_t answers) const;
  };
  struct Known {
    Cost cost;
    Slope machine, alone;
    double prompt_ms = 0, prompt_square = 0;  // by the table; of its distance from its mean
    double text_bytes = 0, prompt_rows = 0, kept_rows = 0;
    Clock::time_point at;
    int64_t answers = 1;
  };
  std::map<std::string, Known, std::less<>> by_kind_;
};

/// When a request that begins behind `backlog_ms` of the machine's time ends, from now: the machine is shared, so it is done when what is
/// before it and its own are, and no sooner than it would be alone.
double predicted_ms(const Experience::Cost& own, double backlog_ms);

}  // namespace slip
