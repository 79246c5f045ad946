// SPDX-License-Identifier: Apache-2.0
// See same_config.h.
#include "train/loop/same_config.h"

#include <array>
#include <cmath>

#include "base/content_hash.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 23> kCompared = {
    "kind",      "model",     "target", "init",       "init_tokenizer", "init_deviation", "tokenizer", "data",
    "objective", "seed",      "rank",   "steps",      "batch",          "accumulate",     "optimizer", "schedule",
    "ema_decay", "precision", "store",  "validation", "first_sample",   "max_minutes",    "shards"};

/// Equal for equal values: keys in any order, 1 and 1.0 alike.
uint64_t hash_of(const json::value& v) {
  if (v.is_object()) {
    uint64_t sum = 1;
    for (const auto& [key, value] : v.get_object())
      sum += mix_hash(fnv1a(std::string_view(key.data(), key.size())), hash_of(value));
    return sum;
  }
  if (v.is_array()) {
    uint64_t h = 2;
    for (const json::value& item : v.get_array()) h = mix_hash(h, hash_of(item));
    return h;
  }
  constexpr double kWhole = 9e15;  // below it every whole number is a double
  if (v.is_double() && std::fabs(v.get_double()) < kWhole && v.get_double() == std::trunc(v.get_double()))
    return fnv1a(fmt::format("{}", static_cast<int64_t>(v.get_double())));
  return fnv1a(json::serialize(v));
}

/// What this process trains: the configuration as it was read, with what the command line changed, and what the processor did.
json::object effective(const TrainConfig& c) {
  json::object out = c.source;
  out["kind"] = word_of(c.objective);
  out["steps"] = c.steps;  // also where the file leaves it out
  out["max_minutes"] = c.max_minutes;
  out["precision"] = c.precision == Precision::kBF16 ? "bf16" : "f32";
  return out;
}

/// 64 bits as two numbers that a double holds.
void append(uint64_t hash, std::vector<double>& to) {
  to.push_back(static_cast<double>(hash >> 32));
  to.push_back(static_cast<double>(hash & 0xFFFFFFFFU));
}

}  // namespace

Status check_same_config(const TrainConfig& c, const std::optional<std::filesystem::path>& resume) {
  if (c.processes->size() == 1) return {};
  const json::object own = effective(c);
  std::vector<double> mine;
  for (const std::string_view key : kCompared) append(own.contains(key) ? hash_of(own.at(key)) : 0, mine);
  std::error_code ec;
  append(resume ? fnv1a(std::filesystem::canonical(*resume, ec).filename().string()) : 0, mine);
  SLIP_TRY(const std::vector<double> all, c.processes->gather(mine));
  for (size_t r = 1; r < static_cast<size_t>(c.processes->size()); ++r) {
    std::string keys;
    for (size_t k = 0; k < mine.size(); k += 2) {
      const double* theirs = all.data() + r * mine.size() + k;
      if (theirs[0] == all[k] && theirs[1] == all[k + 1]) continue;
      keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", k / 2 < kCompared.size() ? kCompared[k / 2] : "--resume");
    }
    if (!keys.empty())
      return bad_input("process {}: expected the configuration of process 0, got another {}; all train one configuration", r, keys);
  }
  return {};
}

}  // namespace slip
