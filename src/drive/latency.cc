// SPDX-License-Identifier: Apache-2.0
// See latency.h.
#include "drive/latency.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "base/json/flaws.h"

namespace slip::drive {

double Costs::raw_ms(const Counts& c) const {
  return encode + static_cast<double>(c.prompt_rows) * row + static_cast<double>(c.passes) * pass +
         static_cast<double>(c.rows) * decode_row + plan + static_cast<double>(c.drafter_passes) * drafter_pass;
}

int64_t rounded_latency(double raw_ms) { return 10 * static_cast<int64_t>(std::ceil(raw_ms / 10)); }

namespace {

constexpr std::string_view kMayBeLeftOut = "drafter_pass_ms";  // files from before it was counted lack it
constexpr std::array<std::pair<std::string_view, double Costs::*>, 6> kCosts = {{{"encode_ms", &Costs::encode},
                                                                                 {"row_ms", &Costs::row},
                                                                                 {"pass_ms", &Costs::pass},
                                                                                 {"decode_row_ms", &Costs::decode_row},
                                                                                 {"plan_ms", &Costs::plan},
                                                                                 {kMayBeLeftOut, &Costs::drafter_pass}}};
constexpr double kMostMs = 1e7;  // three hours an answer

Result<Costs> costs_from(const json::value& v, const std::string& where) {
  if (!v.is_object()) return bad_input("{}: expected an object of costs, got another type", where);
  Costs out;
  for (const auto& [name, member] : kCosts) {
    const json::value* number = v.get_object().if_contains(name);
    if (!number && name == kMayBeLeftOut) continue;
    if (!number || !number->is_number())
      return bad_input("{}: {}: expected a number, got {}", where, name, number ? "another type" : "none");
    const double ms = number->to_number<double>();
    if (!(ms >= 0 && ms <= kMostMs)) return bad_input("{}: {}: expected 0 to {} ms, got {}", where, name, kMostMs, ms);
    out.*member = ms;
  }
  for (const auto& entry : v.get_object()) {
    const std::string_view name = entry.key();
    if (std::ranges::none_of(kCosts, [&](const auto& known) { return known.first == name; }))
      return bad_input("{}: expected encode_ms, row_ms, pass_ms, decode_row_ms, plan_ms and drafter_pass_ms, got {}", where, name);
  }
  return out;
}

std::string text_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v && v->is_string() ? std::string(v->get_string()) : std::string();
}

}  // namespace

Result<Costs> LatencyFile::of(const std::string& decoder, const std::string& where) const {
  for (const std::string& name : {decoder, std::string("*")})
    for (const auto& [key, costs] : decoders)
      if (key == name) return costs;
  return bad_input("{}: decoders: expected costs of {} or of *, got none", where, decoder);
}

Result<LatencyFile> read_latency(const std::filesystem::path& file) {
  SLIP_TRY(const json::value v, read_written_json(file));
  const std::string where = file.string();
  const json::object* o = v.if_object();
  const json::value* version = o ? o->if_contains("version") : nullptr;
  if (!version || !version->is_int64() || version->get_int64() != 1)
    return bad_input("{}: expected an object with \"version\": 1, got another document", where);
  const json::value* decoders = o->if_contains("decoders");
  if (!decoders || !decoders->is_object() || decoders->get_object().empty())
    return bad_input("{}: decoders: expected an object of decoders, got {}", where, decoders ? "another type" : "none");
  LatencyFile out{text_at(*o, "model"), text_at(*o, "machine"), text_at(*o, "note"), {}};
  for (const auto& [name, costs] : decoders->get_object()) {
    SLIP_TRY(const Costs c, costs_from(costs, fmt::format("{}: decoders: {}", where, std::string_view(name))));
    out.decoders.emplace_back(std::string(name), c);
  }
  return out;
}

Status write_latency(const LatencyFile& l, const std::filesystem::path& file) {
  json::object decoders;
  for (const auto& [name, costs] : l.decoders) {
    json::object o;
    for (const auto& [key, member] : kCosts) o[key] = costs.*member;
    decoders[name] = std::move(o);
  }
  const json::object out{
      {"version", 1}, {"model", l.model}, {"machine", l.machine}, {"note", l.note}, {"decoders", std::move(decoders)}};
  return write_file(file, pretty(out));
}

std::string_view name_of(Mode m) {
  static constexpr std::string_view kNames[] = {"sync", "async", "async+ahead", "stream"};
  return kNames[static_cast<size_t>(m)];
}

Result<Mode> mode_named(std::string_view word) {
  for (const Mode m : {Mode::kSync, Mode::kAsync, Mode::kAsyncAhead, Mode::kStream})
    if (name_of(m) == word) return m;
  return usage_error("--mode: expected sync, async, async+ahead or stream, got {}", word);
}

const Call& Schedule::add(int64_t start, int64_t frame_time, int64_t latency, int64_t ready) {
  if (mode_ == Mode::kSync) latency = ready = 0;
  const int64_t done = start + (mode_ == Mode::kStream ? ready : latency);
  Call c{frame_time, start, frame_time + guess(), done, start + latency};
  c.followed_from = std::max(done, c.origin);
  if (mode_ == Mode::kAsyncAhead) guess_ = done - frame_time;
  next_ = std::max(c.free, start + period_);
  calls_.push_back(c);
  return calls_.back();
}

std::optional<Schedule::Followed> Schedule::at(int64_t u) const {
  for (size_t i = calls_.size(); i-- > 0;)
    if (calls_[i].followed_from <= u) return Followed{i, std::min(u - calls_[i].origin, horizon_), u - calls_[i].frame_time};
  return {};
}

}  // namespace slip::drive
