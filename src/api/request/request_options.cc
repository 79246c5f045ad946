// SPDX-License-Identifier: Apache-2.0
// The settings of a request: one row each, from which the command line's options, the keys of JSON documents, Python's arguments and what an
// answer tells of itself are made. A new setting is a member of slipstream::Request, a row here, and the place where it acts.
#include "api/request/request_options.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "api/boundary.h"

namespace slip::api {

namespace {

using Asked = slipstream::Request;  // Request is the engine's in this namespace
using slipstream::RequestOption;
using OptionKind = RequestOption::Kind;

struct OptionRow {
  RequestOption facts;
  std::function<Status(Asked&, std::string_view value, std::string_view where)> put;
  std::function<json::value(const Asked&)> get;
  std::string_view told = {};  // key in the result object; empty: not told
};

Error wrong(std::string_view where, std::string_view expected, std::string_view got) {
  return usage_error("{}expected {}, got {}", where.empty() ? "" : fmt::format("{}: ", where), expected,
                     got.empty() ? "nothing" : got);
}

/// A whole number in plain digits: no other base, no plus, no leading zeros or blanks.
template <class T>
Status read_whole(std::string_view text, T least, T most, std::string_view where, T& out) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool padded = text.starts_with("-0") || (text.starts_with('0') && text.size() > 1);
  if (error == std::errc{} && stop == text.data() + text.size() && !padded && value >= least && value <= most) {
    out = value;
    return {};
  }
  return wrong(where, fmt::format("a whole number from {} to {} in plain digits", least, most), text);
}

Status read_number(std::string_view text, double least, double most, bool open, std::string_view where, double& out) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // A NaN is on neither side of a bound.
  if (error == std::errc{} && stop == text.data() + text.size() && (value > least || (!open && value == least)) && value <= most) {
    out = value;
    return {};
  }
  return wrong(where, fmt::format("a number {} {} to {}", open ? "above" : "from", least, most), text);
}

/// What a row is about: where the value lies in a request.
template <class T>
using At = T& (*)(Asked&);
template <class T>
const T& look(At<T> at, const Asked& r) {
  return at(const_cast<Asked&>(r));  // NOLINT: `at` chooses a member and changes nothing
}

struct Words {
  std::string_view name, flag, group;
  std::string help;
  std::string_view told = {};
};

template <class T>
OptionRow whole(Words w, At<T> at, T least, T most) {
  const bool any = most == std::numeric_limits<T>::max();
  return {{.name = w.name,
           .flag = w.flag,
           .kind = OptionKind::kWhole,
           .group = w.group,
           .help = std::move(w.help),
           .range = any ? "" : fmt::format("{} to {}", least, most),
           .words = {},
           .initial = fmt::format("{}", look(at, Asked()))},
          [=](Asked& r, std::string_view text, std::string_view where) { return read_whole<T>(text, least, most, where, at(r)); },
          [=](const Asked& r) { return json::value(look(at, r)); },
          w.told};
}

OptionRow number(Words w, At<double> at, double least, double most, bool open = false) {
  return {
      {.name = w.name,
       .flag = w.flag,
       .kind = OptionKind::kNumber,
       .group = w.group,
       .help = std::move(w.help),
       .range = fmt::format("{}{} to {}", open ? "above " : "", least, most),
       .words = {},
       .initial = fmt::format("{}", look(at, Asked()))},
      [=](Asked& r, std::string_view text, std::string_view where) { return read_number(text, least, most, open, where, at(r)); },
      [=](const Asked& r) { return json::value(look(at, r)); },
      w.told};
}

OptionRow flag(Words w, At<bool> at) {
  return {{.name = w.name,
           .flag = w.flag,
           .kind = OptionKind::kFlag,
           .group = w.group,
           .help = std::move(w.help),
           .range = {},
           .words = {},
           .initial = look(at, Asked()) ? "true" : "false"},
          [=](Asked& r, std::string_view text, std::string_view where) -> Status {
            if (text != "true" && text != "false") return wrong(where, "true or false", text);
            at(r) = text == "true";
            return {};
          },
          [=](const Asked& r) { return json::value(look(at, r)); },
          w.told};
}

/// One of `words`, or any text where there are none.
OptionRow text(Words w, At<std::string> at, std::vector<std::string> words = {}) {
  return {{.name = w.name,
           .flag = w.flag,
           .kind = OptionKind::kText,
           .group = w.group,
           .help = std::move(w.help),
           .range = {},
           .words = words,
           .initial = look(at, Asked())},
          [=](Asked& r, std::string_view value, std::string_view where) -> Status {
            const bool known = words.empty() || value.empty() || std::find(words.begin(), words.end(), value) != words.end();
            if (!known) return wrong(where, fmt::format("one of {}", fmt::join(words, ", ")), value);
            at(r) = value;
            return {};
          },
          [=](const Asked& r) { return json::value(look(at, r)); },
          w.told};
}

Status add_section_temperature(Asked& r, std::string_view pair, std::string_view where) {
  const size_t equals = pair.find('=');
  double value = 0;
  if (equals == std::string_view::npos || equals == 0 || !read_number(pair.substr(equals + 1), 0, 100, false, where, value))
    return wrong(where, "SECTION=T with T from 0 to 100", pair);
  r.sampling.section_temperatures.emplace_back(pair.substr(0, equals), value);
  return {};
}

json::value section_temperatures(const Asked& r) {
  json::array out;
  for (const auto& [section, temperature] : r.sampling.section_temperatures)
    out.emplace_back(fmt::format("{}={}", section, static_cast<float>(temperature)));
  return out;
}

Status add_stop(Asked& r, std::string_view text, std::string_view where) {
  constexpr size_t kMost = 16, kMostBytes = 1024;
  if (text.empty() || text.size() > kMostBytes)
    return wrong(where, fmt::format("a text of 1 to {} bytes", kMostBytes), text.substr(0, 40));
  if (r.stop.size() == kMost) return wrong(where, fmt::format("at most {} texts", kMost), "more");
  r.stop.emplace_back(text);
  return {};
}

json::value stops(const Asked& r) { return json::value_from(r.stop); }

constexpr std::string_view kAnswer = "The answer", kSampling = "Sampling", kGraph = "Graph visibility", kOutput = "Output";

void add_sampling(std::vector<OptionRow>& rows) {
  constexpr int32_t kMostIds = 1 << 20;
  rows.push_back(number(
      {"temperature", "temperature", kSampling, "0: greedy", "temperature"},
      [](Asked& r) -> double& { return r.sampling.temperature; }, 0, 100));
  rows.push_back(whole<uint64_t>(
      {"seed", "seed", kSampling, "seed of the keyed uniforms"}, [](Asked& r) -> uint64_t& { return r.seed; }, 0,
      std::numeric_limits<uint64_t>::max()));
  rows.push_back(whole<int32_t>(
      {"top_k", "top-k", kSampling, "sample among the k likeliest; 0: all", "top_k"},
      [](Asked& r) -> int32_t& { return r.sampling.top_k; }, 0, kMostIds));
  rows.push_back(number(
      {"top_p", "top-p", kSampling, "sample among the fewest that reach this probability", "top_p"},
      [](Asked& r) -> double& { return r.sampling.top_p; }, 0, 1, true));
  rows.push_back(number(
      {"min_p", "min-p", kSampling, "sample among those of at least this share of the likeliest", "min_p"},
      [](Asked& r) -> double& { return r.sampling.min_p; }, 0, 1));
  rows.push_back(number(
      {"repetition_penalty", "repetition-penalty", kSampling, "divides logits of recent tokens; 1: off", "repetition_penalty"},
      [](Asked& r) -> double& { return r.sampling.repetition_penalty; }, 0.1, 10));
  rows.push_back(whole<int32_t>(
      {"repetition_last", "repetition-last", kSampling, "how many tokens are recent", "repetition_last"},
      [](Asked& r) -> int32_t& { return r.sampling.repetition_last; }, 0, kMostIds));
  rows.push_back({{.name = "section_temperatures",
                   .flag = "section-temperature",
                   .kind = OptionKind::kTexts,
                   .group = kSampling,
                   .help = "SECTION=T, repeatable: that section of the form alone",
                   .range = {},
                   .words = {},
                   .initial = {}},
                  add_section_temperature,
                  section_temperatures,
                  "section_temperatures"});
  rows.push_back(whole<int32_t>(
      {"rollouts", "rollouts", kSampling, "sampled trajectories to average", "rollouts"},
      [](Asked& r) -> int32_t& { return r.rollouts; }, 1, 64));
}

void add_decoder(std::vector<OptionRow>& rows) {
  const auto word = [&](std::string_view name, At<std::string> at) { rows.push_back(text({name, "", "", ""}, at)); };
  word("decoder", [](Asked& r) -> std::string& { return r.decoder.preset; });
  word("schedule", [](Asked& r) -> std::string& { return r.decoder.schedule; });
  word("drafter", [](Asked& r) -> std::string& { return r.decoder.drafter; });
  word("verifier", [](Asked& r) -> std::string& { return r.decoder.verifier; });
  word("width", [](Asked& r) -> std::string& { return r.decoder.width; });
}

void add_answer(std::vector<OptionRow>& rows) {
  rows.push_back(text({"form", "", "", ""}, [](Asked& r) -> std::string& { return r.form; }));
  rows.push_back(text({"prompt", "", "", ""}, [](Asked& r) -> std::string& { return r.prompt; }));
  rows.push_back(text({"system", "system", "The question", "text of the system's turn, before --prompt"},
                      [](Asked& r) -> std::string& { return r.system; }));
  rows.push_back(text({"visibility", "visibility", kAnswer,
                       "chain or graph: who sees whom in the form (default: what the model was trained for)", "law"},
                      [](Asked& r) -> std::string& { return r.visibility; }, {"chain", "graph"}));
  rows.push_back(text({"fit", "fit", kAnswer,
                       "waypoints to points: paper (as published), minjerk, rounded (any that round to them), linear; auto: "
                       "rounded where the model rounds, else paper",
                       "fit"},
                      [](Asked& r) -> std::string& { return r.fit; }, {"auto", "paper", "minjerk", "rounded", "linear"}));
  rows.push_back(
      text({"trajectory_head", "trajectory-head", kAnswer,
            "folder of a trajectory head (train's kind trajectory): it plans, from the seed's noise, in the answer's place"},
           [](Asked& r) -> std::string& { return r.trajectory_head; }));
  rows.push_back(
      flag({"fast_plan", "fast-plan", kAnswer,
            "with --trajectory-head: it plans behind the prompt and behind every section too (a head taught with \"cut\")"},
           [](Asked& r) -> bool& { return r.fast_plan; }));
  rows.push_back(text({"unnorm_key", "unnorm-key", kAnswer,
                       "OpenVLA: the data set whose statistics put actions in physical units (default: the only one)"},
                      [](Asked& r) -> std::string& { return r.unnorm_key; }));
  rows.push_back(whole<int32_t>(
      {"max_tokens", "max-tokens", kAnswer, "free text: most tokens", "max_tokens"},
      [](Asked& r) -> int32_t& { return r.max_tokens; }, 1, 1 << 20));
  rows.push_back({{.name = "stop",
                   .flag = "stop",
                   .kind = OptionKind::kTexts,
                   .group = kAnswer,
                   .help = "free text ends before this text; repeatable",
                   .range = {},
                   .words = {},
                   .initial = {}},
                  add_stop,
                  stops,
                  "stop"});
  rows.push_back(
      flag({"blank_images", "blank-images", kAnswer, "grey images in place of the real ones (an ablation)", "blank_images"},
           [](Asked& r) -> bool& { return r.blank_images; }));
}

std::vector<OptionRow> make_rows() {
  std::vector<OptionRow> rows;
  add_answer(rows);
  add_decoder(rows);
  add_sampling(rows);
  rows.push_back(whole<int32_t>(
      {"max_rows", "max-rows", kGraph, "rows of a pass at most, fields with the longest way to go first; 0: no limit"},
      [](Asked& r) -> int32_t& { return r.max_rows; }, 0, 1 << 16));
  rows.push_back(flag({"activation", "no-activation", kGraph, "children wait until their parents are verified"},
                      [](Asked& r) -> bool& { return r.activation; }));
  rows.push_back(
      flag({"log_forced", "log-forced", kOutput, "list tokens of the form's template that the model itself would not have drawn"},
           [](Asked& r) -> bool& { return r.log_forced; }));
  rows.push_back(
      flag({"log_probs", "log-probs", kOutput, "tell how likely the model found each field (or the text), token by token"},
           [](Asked& r) -> bool& { return r.log_probs; }));
  rows.push_back(whole<int32_t>(
      {"top_log_probs", "top-log-probs", kOutput, "with --log-probs: so many of the likeliest tokens at every place"},
      [](Asked& r) -> int32_t& { return r.top_log_probs; }, 0, 20));
  rows.push_back(flag({"trace", "", "", "keep every round, to be drawn or written: Answer.trace_json()"},
                      [](Asked& r) -> bool& { return r.trace; }));
  rows.push_back(flag(
      {"reuse_prompt", "", "", "every row of the prompt is run, also those that the request before had: the same answer, later"},
      [](Asked& r) -> bool& { return r.reuse_prompt; }));
  return rows;
}

const std::vector<OptionRow>& rows() {
  static const std::vector<OptionRow> kRows = make_rows();
  return kRows;
}

}  // namespace

void add_told_options(const Asked& request, json::object& out) {
  for (const OptionRow& row : rows())
    if (!row.told.empty()) out[row.told] = row.get(request);
}

Status check_settings(const Asked& request) {
  Asked scratch;
  for (const OptionRow& row : rows()) {
    const bool whole = row.facts.kind == OptionKind::kWhole;
    if (!whole && row.facts.kind != OptionKind::kNumber) continue;
    const json::value v = row.get(request);
    const std::string text = v.is_double() ? fmt::format("{}", v.get_double()) : json::serialize(v);
    SLIP_TRY_(row.put(scratch, text, fmt::format("request: {}", row.facts.name)));
  }
  for (const std::string& text : request.stop) SLIP_TRY_(add_stop(scratch, text, "request: stop"));
  double t = 0;
  for (const auto& [section, temperature] : request.sampling.section_temperatures)
    SLIP_TRY_(
        read_number(fmt::format("{}", temperature), 0, 100, false, fmt::format("request: section_temperatures: {}", section), t));
  return {};
}

std::vector<std::string> idle_options(const Asked& request) {
  std::vector<std::string> out;
  if (request.top_log_probs > 0 && !request.log_probs) out.emplace_back("--top-log-probs does nothing without --log-probs");
  const slipstream::Sampling& s = request.sampling;
  const bool samples = s.temperature > 0 || std::any_of(s.section_temperatures.begin(), s.section_temperatures.end(),
                                                        [](const auto& section) { return section.second > 0; });
  if (samples) return out;
  const Asked usual;
  const json::value of_now[] = {s.top_k, s.top_p, s.min_p};
  const json::value as_usual[] = {usual.sampling.top_k, usual.sampling.top_p, usual.sampling.min_p};
  static constexpr std::string_view kFlags[] = {"--top-k", "--top-p", "--min-p"};
  for (size_t i = 0; i < std::size(kFlags); ++i)
    if (of_now[i] != as_usual[i])
      out.push_back(fmt::format("{} does nothing at temperature 0, which takes the likeliest token", kFlags[i]));
  return out;
}

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

const std::vector<RequestOption>& request_options() {
  static const std::vector<RequestOption> kOptions = [] {
    std::vector<RequestOption> out;
    for (const api::OptionRow& row : api::rows()) out.push_back(row.facts);
    return out;
  }();
  return kOptions;
}

std::string settings_of(const Request& request) {
  slip::json::object out;
  for (const api::OptionRow& row : api::rows()) out[row.facts.name] = row.get(request);
  if (!request.form_schema.empty()) out["form_schema"] = request.form_schema;
  return slip::json::serialize(out);
}

Status set_option(Request& request, std::string_view name, std::string_view value, std::string_view where) {
  return api::bounded([&]() -> Status {
    for (const api::OptionRow& row : api::rows())
      if (row.facts.name == name) return row.put(request, value, where);
    return slip::usage_error("{}: expected a request's setting, got {}", where, name);
  });
}

}  // namespace slipstream
