// SPDX-License-Identifier: Apache-2.0
// Many drives and one table: entrants (a decoder of the model, or a baseline; each with a latency) over the same scenes, with 95 % bootstrap
// intervals over scenes, differences from the first entrant paired. Every drive is a line of JSON; a study that is begun again goes on
// behind the lines that are there.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "drive/episode.h"
#include "drive/score/bootstrap.h"
#include "plot/chart.h"

namespace slip::drive {

/// {"mean", "low", "high"}.
json::object interval_json(const Interval& interval);

/// The 12 families in which somebody has to act, and the 2 that training never shows.
std::vector<std::string_view> critical_families();

struct Entrant {
  std::string driver;        // "scaffold-spec", "expert", "grey-images"
  std::string latency_word;  // "0 ms", "priced", or empty
  Mode mode = Mode::kAsync;
  Delay delay;
  std::string model{};     // the folder, of those who have one
  std::string followed{};  // how its plans are followed, where not one by one: "temporal-ensemble:3"
  std::string label() const {
    return driver + (followed.empty() ? "" : " " + followed) + (latency_word.empty() ? "" : ", " + latency_word);
  }
};

struct StudySettings {
  std::vector<uint32_t> families;
  uint64_t first_seed = 0;
  int64_t seeds = 1;
  bool reactive = true;
  uint64_t bootstrap_seed = 17;
  uint32_t resamples = 2000;
};

/// One drive of the study.
struct Drove {
  uint32_t family = 0;
  uint64_t seed = 0;
  size_t entrant = 0;
  EpisodeScore score;
  int64_t calls = 0, invalid = 0;
};
json::object to_json(const Drove& d, const Entrant& e);
Result<Drove> drove_from(const json::object& line, std::span<const Entrant> entrants, std::string_view where);

class Study {
 public:
  Study(StudySettings settings, std::vector<Entrant> entrants) : settings_(std::move(settings)), entrants_(std::move(entrants)) {}
  const StudySettings& settings() const { return settings_; }
  const std::vector<Entrant>& entrants() const { return entrants_; }
  /// What a line says that is not this study's is refused.
  Status take(const json::object& line, std::string_view where);
  bool has(size_t entrant, uint32_t family, uint64_t seed) const;
  int64_t drives() const;
  /// Scenes in turn, all entrants in each. `planner_of` makes or finds an entrant's planner; `done` sees every new line.
  Status run(const std::function<Result<Planner*>(const Entrant&)>& planner_of, const std::function<void(const Drove&)>& done,
             const CancelToken& cancel);

  json::object to_json() const;
  std::string table() const;
  std::string csv() const;
  /// Score over latency, a line a driver.
  Chart chart() const;

 private:
  std::vector<const Drove*> of(size_t entrant) const;

  StudySettings settings_;
  std::vector<Entrant> entrants_;
  std::vector<Drove> drives_;
};

}  // namespace slip::drive
