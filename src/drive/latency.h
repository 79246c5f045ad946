// SPDX-License-Identifier: Apache-2.0
// When a plan is there: the latency of an answer from its own counted passes and rows and a file of measured costs, without a wall clock
// (the same file gives the same bits), and which plan is followed when. Milliseconds; latencies are rounded up to 10.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace slip::drive {

/// Counts of one answer.
struct Counts {
  int64_t prompt_rows = 0, passes = 0, rows = 0;  // the prompt's rows; passes behind the prefill, and their rows
  int64_t drafter_passes = 0;                     // of another model, of a draft head or a trajectory head
};

/// encode + prompt_rows row + passes pass + rows decode_row + plan + drafter_passes drafter_pass, added in this order.
struct Costs {
  double encode = 0, row = 0, pass = 0, decode_row = 0, plan = 0, drafter_pass = 0;
  double raw_ms(const Counts& c) const;
};
/// Up to the next multiple of 10.
int64_t rounded_latency(double raw_ms);

/// A latency.json: {"version": 1, "model", "machine", "note", "decoders": {"scaffold-spec": {"encode_ms", "row_ms", "pass_ms",
/// "decode_row_ms", "plan_ms", "drafter_pass_ms"}, ...}}; the last may be left out: 0. "*" stands for every decoder without an entry.
struct LatencyFile {
  std::string model, machine, note;
  std::vector<std::pair<std::string, Costs>> decoders;
  /// kBadInput where the decoder has no costs.
  Result<Costs> of(const std::string& decoder, const std::string& where) const;
};
Result<LatencyFile> read_latency(const std::filesystem::path& file);
Status write_latency(const LatencyFile& l, const std::filesystem::path& file);

enum class Mode : uint8_t {
  kSync,        // the world waits: latency 0
  kAsync,       // the world goes on
  kAsyncAhead,  // ... and the ego's pose is moved ahead by the latency of the call before
  kStream,      // the plan is followed as soon as the fields that it needs are decided
};
std::string_view name_of(Mode m);  // "sync", "async", "async+ahead", "stream"
Result<Mode> mode_named(std::string_view word);

/// One call: the picture's time, when it starts, the plan's own zero, from when it is followed, when the next call may start.
struct Call {
  int64_t frame_time = 0, start = 0, origin = 0, followed_from = 0, free = 0;
};
/// Which plan is followed when. Calls are added in order.
class Schedule {
 public:
  Schedule(Mode mode, int64_t period_ms, int64_t horizon_ms, int64_t first_guess_ms = 0)
      : mode_(mode), period_(period_ms), horizon_(horizon_ms), guess_(first_guess_ms) {}
  /// When the next call starts; the first at 0.
  int64_t next_start() const { return next_; }
  /// How far ahead of the picture the next call's plan will begin (async+ahead; else 0).
  int64_t guess() const { return mode_ == Mode::kAsyncAhead ? guess_ : 0; }
  /// A call that starts at `start` with the picture of `frame_time`, takes `latency` and has its plan after `ready` (stream).
  const Call& add(int64_t start, int64_t frame_time, int64_t latency, int64_t ready);
  struct Followed {
    size_t call = 0;
    int64_t offset = 0, age = 0;
  };
  /// The newest call that is followed at time u.
  std::optional<Followed> at(int64_t u) const;
  const std::vector<Call>& calls() const { return calls_; }

 private:
  Mode mode_;
  int64_t period_, horizon_, guess_, next_ = 0;
  std::vector<Call> calls_;
};

}  // namespace slip::drive
