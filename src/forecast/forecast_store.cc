// SPDX-License-Identifier: Apache-2.0
#include "forecast/forecast_store.h"

#include <array>
#include <cmath>
#include <utility>

namespace slip {
namespace {

constexpr std::string_view kKind = "forecasts";
constexpr double kMost = 1e9;           // of milliseconds and counts
constexpr int64_t kMostRows = 1 << 24;  // that a cache may have

constexpr std::array<std::pair<std::string_view, double Forecast::*>, 11> kNumbers{
    {{"ms", &Forecast::ms},
     {"first_ms", &Forecast::first_ms},
     {"first_rows", &Forecast::first_rows},
     {"drafter_ms", &Forecast::drafter_ms},
     {"drafter_forwards", &Forecast::drafter_forwards},
     {"forwards", &Forecast::forwards},
     {"draft_forwards", &Forecast::draft_forwards},
     {"rows", &Forecast::rows},
     {"tokens", &Forecast::tokens},
     {"tested", &Forecast::tested},
     {"accepted", &Forecast::accepted}}};
static_assert(sizeof(Forecast) == kNumbers.size() * sizeof(double), "a number that is not kept would come back as 0");

Result<Forecast> forecast_of(const json::object& o) {
  Forecast out;
  for (const auto& [name, number] : kNumbers) {
    SLIP_TRY(out.*number, get_number(o, name, kKind));
    if (!(out.*number >= 0 && out.*number < kMost)) return bad_input("{}: {}: expected a count or a time", kKind, name);
  }
  if (out.ms < out.first_ms || out.ms == 0) return bad_input("{}: ms: expected no less than the first pass takes", kKind);
  return out;
}

Result<Foretold> foretold_of(const json::object& o) {
  Foretold out;
  SLIP_TRY(const int64_t rows, get_int(o, "prompt_rows", kKind));
  if (rows < 1 || rows > kMostRows) return bad_input("{}: prompt_rows: expected 1 to {}, got {}", kKind, kMostRows, rows);
  out.prompt_rows = static_cast<int32_t>(rows);
  SLIP_TRY(out.head_prompt_ms, get_number(o, "head_prompt_ms", kKind));
  if (!(out.head_prompt_ms >= 0 && out.head_prompt_ms < kMost)) return bad_input("{}: head_prompt_ms: expected a time", kKind);
  SLIP_TRY(const json::array* of, get_array(o, "candidates", kKind));
  for (const json::value& v : *of) {
    if (!v.is_object()) return bad_input("{}: candidates: expected objects", kKind);
    const json::object& c = v.get_object();
    SLIP_TRY(std::string name, get_string(c, "name", kKind));
    std::optional<Forecast> expected;
    if (c.contains("ms")) {
      SLIP_TRY(expected, forecast_of(c));
    }
    out.candidates.emplace_back(std::move(name), expected);
  }
  return out;
}

}  // namespace

std::optional<Foretold> ForecastStore::find(const std::string& key) const {
  const auto kept = cache_.find(kKind, key);
  if (!kept) return std::nullopt;
  auto out = foretold_of(*kept);
  return out ? std::optional(std::move(*out)) : std::nullopt;
}

void ForecastStore::keep(const std::string& key, const Foretold& foretold) const {
  json::array candidates;
  for (const auto& [name, expected] : foretold.candidates) {
    json::object c{{"name", name}};
    for (const auto& [word, number] : kNumbers)
      if (expected) c[word] = (*expected).*number;
    candidates.emplace_back(std::move(c));
  }
  cache_.keep(
      kKind, key,
      {{"prompt_rows", foretold.prompt_rows}, {"head_prompt_ms", foretold.head_prompt_ms}, {"candidates", std::move(candidates)}});
}

std::string words_of(const CostTable& costs) {
  std::string out;
  for (size_t i = 0; i < costs.rows().size(); ++i)
    out += fmt::format("{}:{} ", costs.rows()[i], std::lround(costs.measured_ms()[i] * 1e6));
  return out;
}

}  // namespace slip
