// SPDX-License-Identifier: Apache-2.0
// An answer as Chrome trace events: the stages one after another on the first lane, every pass with its own time. Under graph
// visibility every field has a lane of its own with the rounds in which it took part, those of children whose parents closed otherwise
// marked discarded.
#include "api/answers.h"

#include <algorithm>
#include <array>

namespace slip::api {

namespace {

constexpr int kStages = 1, kFirstField = 2;  // lanes

class Trace {
 public:
  explicit Trace(const Answer& answer) : answer_(answer), statistics_(answer.decoded.statistics) {}

  json::value events() {
    name_lanes();
    stage("form", answer_.stages.form_ms);
    stage("encode", answer_.stages.encode_ms);
    passes();
    stage("plan", answer_.stages.plan_ms);
    return json::object{{"traceEvents", std::move(events_)}, {"displayTimeUnit", "ms"}};
  }

 private:
  using Rounds = std::span<const Round>;

  const std::string& field_name(int32_t f) const { return answer_.form->form.fields()[static_cast<size_t>(f)].name; }

  void name_lanes() {
    const auto lane = [&](int tid, std::string_view name) {
      events_.push_back(json::object{{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", tid}, {"args", {{"name", name}}}});
    };
    std::vector<bool> worked;
    for (const Round& r : answer_.decoded.rounds) {
      if (!r.field) return;
      worked.resize(std::max(worked.size(), static_cast<size_t>(*r.field) + 1));
      worked[static_cast<size_t>(*r.field)] = true;
    }
    if (worked.empty()) return;
    lane(kStages, "stages");
    for (size_t f = 0; f < worked.size(); ++f)
      if (worked[f]) lane(kFirstField + static_cast<int>(f), field_name(static_cast<int32_t>(f)));
  }

  void event(int lane, std::string_view name, double ms, json::object args) {
    events_.push_back(json::object{
        {"name", name}, {"ph", "X"}, {"ts", at_us_}, {"dur", ms * 1000}, {"pid", 1}, {"tid", lane}, {"args", std::move(args)}});
  }
  void stage(std::string_view name, double ms, json::object args = {}) {
    event(kStages, name, ms, std::move(args));
    at_us_ += ms * 1000;
  }

  /// Rounds of fields that ran in one pass; a chain's stand alone.
  static std::vector<Rounds> passes_of(Rounds all) {
    std::vector<Rounds> out;
    for (size_t i = 0, n = 0; i < all.size(); i += n) {
      n = 1;
      while (all[i].field && i + n < all.size() && all[i + n].field && all[i + n].number == all[i].number) ++n;
      out.push_back(all.subspan(i, n));
    }
    return out;
  }

  static json::object facts(const Round& r) {
    json::object out{{"rows", {r.rows.begin, r.rows.end}}, {"proposed", r.positions.size()}, {"accepted", r.accepted}};
    if (!r.field) return out;
    out["closed"] = r.closed;
    out["discarded"] = r.discarded;
    return out;
  }

  json::object facts(Rounds pass) const {
    if (pass.size() == 1 && !pass[0].field) return facts(pass[0]);
    json::array fields, discarded;
    size_t proposed = 0;
    int32_t accepted = 0;
    for (const Round& r : pass) {
      (r.discarded ? discarded : fields).push_back(json::string(field_name(*r.field)));
      proposed += r.positions.size();
      accepted += r.accepted;
    }
    return {{"fields", std::move(fields)}, {"discarded", std::move(discarded)}, {"proposed", proposed}, {"accepted", accepted}};
  }

  static std::string_view word_of(TimedPass::Kind kind) {
    static constexpr std::array<std::string_view, 4> kWords = {"prefill", "draft", "verify", "drafter"};
    return kWords[static_cast<size_t>(kind)];
  }

  // Every pass in its own time, with the rounds that it verified; a field's lane has its rounds beside it.
  void passes() {
    const double start_us = at_us_;
    const std::vector<Rounds> all = passes_of(answer_.decoded.rounds);
    auto next = all.begin();
    size_t round = 0;
    for (size_t i = 0; i < answer_.decoded.passes.size(); ++i) {
      const TimedPass& pass = answer_.decoded.passes[i];
      at_us_ = start_us + pass.begin_ms * 1000;
      json::object args{{"pass", i}, {"rows", pass.rows}};
      if (pass.kind == TimedPass::Kind::kVerify) args.insert({{"proposed", 0}, {"accepted", 0}, {"fields", json::array()}});
      for (; next != all.end() && next->front().pass.value_or(0) <= static_cast<int32_t>(i); ++next) {
        json::object more = facts(*next);
        more["round"] = round++;
        for (auto& [key, value] : more) args[key == "rows" ? "row_range" : std::string_view(key)] = value;
        for (const Round& r : *next)
          if (r.field) event(kFirstField + *r.field, r.discarded ? "discarded" : "verify", pass.ms, facts(r));
      }
      event(kStages, word_of(pass.kind), pass.ms, std::move(args));
      end_us_ = at_us_ + pass.ms * 1000;
    }
    at_us_ = std::max(start_us + statistics_.ms.total * 1000, end_us_);
  }

  const Answer& answer_;
  const Statistics& statistics_;
  json::array events_;
  double at_us_ = 0, end_us_ = 0;
};

}  // namespace

json::value trace_of(const Answer& answer) { return Trace(answer).events(); }

}  // namespace slip::api
