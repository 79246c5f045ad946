// SPDX-License-Identifier: Apache-2.0
// See evaluation_lines.h; and slipstream::merge_evaluations, which adds lines up. Tests: tests/cli/drive_test.cc
#include "api/tools/evaluation_lines.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <set>

#include "api/answers.h"
#include "api/boundary.h"
#include "api/tools/inputs.h"
#include "api/tools/reports.h"
#include "base/files/beside.h"

namespace slip::api {

namespace {

LineKey key_of(const RecordMeasures& m, const json::object& line) {
  const json::value* record = line.if_contains("record");
  return {m.decoder, m.seed, m.frame_s, record && record->is_int64() ? record->get_int64() : -1};
}

Result<json::object> object_of_line(std::string_view line, const std::string& where) {
  SLIP_TRY(json::value v, parse_json(line, where));
  if (!v.is_object()) return bad_input("{}: expected an object, got another type", where);
  return std::move(v.get_object());
}

}  // namespace

AskedOfAll AskedOfAll::of(const slipstream::EvaluateOptions& o, const slipstream::EngineOptions& how, const std::string& folder) {
  AskedOfAll out{asked_of_model(folder, how, {o.decoder}, o.trajectory_head), {}};
  json::object& all = out.common;
  all["model"] = folder;
  all["records"] = o.records.empty() ? "simulated" : mark_of(o.records);
  all["temperature"] = o.temperature;
  if (o.temperature > 0 || !o.section_temperatures.empty()) all["seed"] = o.seed;
  json::object sections;
  for (const auto& [section, temperature] : o.section_temperatures) sections[section] = temperature;
  all["section_temperature"] = std::move(sections);
  all["rollouts"] = o.rollouts;
  all["blank_images"] = o.blank_images;
  return out;
}

json::object AskedOfAll::of(const std::string& decoder) const {
  json::object out = common;
  if (const auto at = choice_of.find(decoder); at != choice_of.end()) out["decoder"] = at->second;
  return out;
}

json::object record_line(const Evaluated& e, json::object asked) {
  const Answer& a = e.answer;
  json::object out = e.measures.to_json();
  out["asked"] = std::move(asked);
  out["fields"] = values_to_json(a.form->form, a.values);
  out["statistics"] = statistics_json(a);
  out["decoder"] = decoder_json(a.method, a.form.get(), &a.chosen);
  if (a.plan.fitted) {
    json::array points;
    for (const Waypoint& w : a.plan.fitted->points) points.push_back(json::array{w.x, w.y});
    out["plan"] = {{"rate_hz", a.plan.fitted->rate_hz}, {"points", std::move(points)}};
  }
  return out;
}

Status EvaluationLines::open(const std::string& file) {
  if (is_being_written(file))
    return bad_input("{}: expected a file that nobody else is writing to, got one that another process is", file);
  SLIP_TRY(AtomicFile opened, AtomicFile::create(file));
  file_.emplace(std::move(opened));
  return {};
}

Status EvaluationLines::resume(const std::string& file) {
  SLIP_TRY(LineFile opened, LineFile::open(file, R"({"seed":)", [&](std::string_view line, int64_t number) -> Status {
             const std::string where = fmt::format("{}, line {}", file, number);
             SLIP_TRY(const json::object o, object_of_line(line, where));
             SLIP_TRY(RecordMeasures m, measures_from(o, where));
             SLIP_TRY_(check_asked(o, asked.of(m.decoder), where));
             const LineKey key = key_of(m, o);
             known_.emplace(key, std::move(m));
             return {};
           }));
  behind_.emplace(std::move(opened));
  return {};
}

const RecordMeasures* EvaluationLines::known(const LineKey& key) const {
  const auto at = known_.find(key);
  return at == known_.end() ? nullptr : &at->second;
}

Status EvaluationLines::add(const json::object& record) {
  if ((!file_ && !behind_) || !status_) return {};
  const std::string line = to_valid_utf8(json::serialize(record));
  if (behind_) return behind_->add(line);
  status_ = file_->write((line + "\n").data(), line.size() + 1);
  return {};
}

slipstream::Report comparison(const Evaluations& all, json::object result) {
  json::object by_decoder;
  for (const auto& [name, e] : all) by_decoder[name] = e.to_json();
  result["by_decoder"] = std::move(by_decoder);
  return report_of(result, comparison_table(all));
}

namespace {

/// The records of a decoder's lines, by their number in a set, or by their seed.
class Seen {
 public:
  void see(const LineKey& key) {
    const auto& [decoder, seed, frame, record] = key;
    of_set_ |= record >= 0;
    numbers_.insert(record >= 0 ? static_cast<uint64_t>(record) : seed);
  }
  /// How many between the first and the last are not there, and the first of these. A set begins with number 0; where simulated ones began nobody says.
  std::pair<uint64_t, uint64_t> missing() const {
    uint64_t next = of_set_ || numbers_.empty() ? 0 : *numbers_.begin(), first = 0, count = 0;
    for (const uint64_t n : numbers_) {
      if (n > next && count == 0) first = next;
      count += n - next;
      next = n + 1;
    }
    return {count, first};
  }

 private:
  std::set<uint64_t> numbers_;
  bool of_set_ = false;
};

Result<slipstream::Report> merge(const std::vector<std::string>& files, const std::string& csv) {
  if (files.empty()) return usage_error("eval: --merge: expected files of lines, got none");
  for (const std::string& file : files) SLIP_TRY_(check_inputs_kept({{"--merge", file}}, {{"--csv", csv}}));
  Evaluations all;
  std::set<LineKey> seen;
  std::map<std::string, Seen> numbers;  // by decoder
  std::string remarks;
  json::object common;
  std::map<std::string, json::object> asked_of;  // by decoder, as its first line says
  std::set<std::string> kinds_of_bits;           // instruction sets that lines name
  for (const std::string& file : files) {
    SLIP_TRY(const std::string text, read_file(file));
    const auto take = [&](std::string_view line, int64_t number) -> Status {
      const std::string where = fmt::format("{}, line {}", file, number);
      SLIP_TRY(const json::object o, object_of_line(line, where));
      SLIP_TRY(const RecordMeasures m, measures_from(o, where));
      SLIP_TRY_(check_asked(o, common, where));
      SLIP_TRY_(check_asked(o, asked_of[m.decoder], where));
      if (const json::value* asked = o.if_contains("asked"); asked && asked->is_object()) {
        if (asked_of[m.decoder].empty()) asked_of[m.decoder] = asked->get_object();
        if (common.empty()) common = asked->get_object(), common.erase("decoder");
      }
      if (const json::value* bits = o.if_contains("bits"); bits && bits->is_string()) kinds_of_bits.emplace(bits->get_string());
      const LineKey key = key_of(m, o);
      if (!seen.insert(key).second)
        return bad_input("{}: expected each record once under a decoder, got seed {} twice under {}", where, m.seed, m.decoder);
      numbers[m.decoder].see(key);
      auto at = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.first == m.decoder; });
      if (at == all.end()) at = all.insert(at, {m.decoder, {}});
      at->second.add(m);
      return {};
    };
    SLIP_TRY(const size_t whole, whole_lines(text, take));
    if (whole == 0) return bad_input("{}: expected a line of an evaluation, got none that is whole", file);
    if (whole < text.size()) remarks += fmt::format("{}: its last line is cut and was left out\n", file);
  }
  if (!csv.empty()) SLIP_TRY_(write_file(csv, comparison_csv(all)));
  json::object missing_records;
  for (const auto& [decoder, of] : numbers) {
    const auto [missing, first] = of.missing();
    if (missing == 0) continue;
    missing_records[decoder] = missing;
    remarks += fmt::format("{}: no line for {} of the records up to the last, the first of them is {}: is a shard missing?\n",
                           decoder, missing, first);
  }
  if (kinds_of_bits.size() > 1)
    remarks += fmt::format("lines have the bits of {}: another instruction set may give another answer to the same question\n",
                           fmt::join(kinds_of_bits, ", "));
  json::object result = {{"files", files.size()}};
  if (!missing_records.empty()) result["missing_records"] = std::move(missing_records);
  slipstream::Report out = comparison(all, std::move(result));
  out.remarks = std::move(remarks);
  if (all.size() == 1) out.text = evaluation_table(all.front().second) + "\n" + out.text;
  return out;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> merge_evaluations(const std::vector<std::string>& files, const std::string& csv) {
  return slip::api::bounded([&] { return slip::api::merge(files, csv); });
}

}  // namespace slipstream
