// SPDX-License-Identifier: Apache-2.0
// A study's document and its table; see study.h.
#include "cli/study.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/words/near_word.h"

namespace slip::cli {
namespace {

Status only(const json::object& o, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : o)
    if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
      return bad_input("{}: expected a known key, got \"{}\"", where, std::string_view(key));
  return {};
}

/// A name that is a folder's as well.
Status check_name(const std::string& name, const std::string& where) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of("/\n|:") == std::string::npos;
  if (!plain) return bad_input("{}: name: expected a text without slashes, colons and bars, got \"{}\"", where, name);
  return {};
}

template <class T>
Status check_unique(const std::vector<T>& all, const std::string& what) {
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i].name == all[k].name) return bad_input("{}: expected each name once, got {} twice", what, all[i].name);
  return {};
}

/// Texts at these keys name files and folders, which stay as they are.
void add_reads(FilesByOption& reads, const json::object& o, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (const json::value* named = o.if_contains(key); named && named->is_string()) reads.emplace_back(key, named->get_string());
}

/// Repeated, a seed is one model twice: an interval over them would have no width.
Result<std::vector<int64_t>> read_seeds(const json::array& all, const std::string& where) {
  std::vector<int64_t> out;
  for (const json::value& seed : all) {
    if (!seed.is_int64()) return bad_input("{}: seeds: expected whole numbers, got {}", where, json::serialize(seed));
    if (std::find(out.begin(), out.end(), seed.get_int64()) != out.end())
      return bad_input("{}: seeds: expected each seed once, got {} twice", where, seed.get_int64());
    out.push_back(seed.get_int64());
  }
  return out;
}

Result<StudyArm> read_arm(const json::object& o, const std::string& where) {
  SLIP_TRY_(only(o, {"name", "set", "stages", "checkpoint"}, where));
  StudyArm arm;
  SLIP_TRY(arm.name, get_string(o, "name", where));
  SLIP_TRY_(check_name(arm.name, where));
  SLIP_TRY(arm.checkpoint, string_or(o, "checkpoint", "", where));
  if (!arm.checkpoint.empty()) {
    if (o.contains("set") || o.contains("stages"))
      return bad_input("{}: expected \"checkpoint\" alone, got \"set\" or \"stages\" beside it", where);
    return arm;
  }
  json::object common;
  if (o.contains("set")) {
    SLIP_TRY(const json::object* set, get_object(o, "set", where));
    common = *set;
  }
  if (!o.contains("stages")) {
    arm.stages.push_back(std::move(common));
    return arm;
  }
  SLIP_TRY(const json::array* stages, get_array(o, "stages", where));
  for (const json::value& v : *stages) {
    if (!v.is_object()) return bad_input("{}: stages: expected objects, got another value", where);
    json::object all = common;
    for (const auto& [key, value] : v.get_object()) all[key] = value;
    arm.stages.push_back(std::move(all));
  }
  if (arm.stages.empty()) return bad_input("{}: stages: expected at least one, got none", where);
  return arm;
}

Result<StudyMode> read_mode(const json::object& o, const std::string& where) {
  SLIP_TRY_(only(o,
                 {"name", "on", "texts", "decoder", "schedule", "drafter", "verifier", "width", "records", "count", "seed",
                  "temperature", "trajectory_head"},
                 where));
  StudyMode m;
  SLIP_TRY(m.name, get_string(o, "name", where));
  SLIP_TRY_(check_name(m.name, where));
  if (m.name == "train") return bad_input("{}: name: expected another than train, got it", where);
  SLIP_TRY(m.on, string_or(o, "on", "", where));
  SLIP_TRY(m.texts, bool_or(o, "texts", false, where));
  SLIP_TRY(m.head, bool_or(o, "trajectory_head", false, where));
  if (m.texts && (o.contains("records") || o.contains("schedule") || o.contains("temperature") || m.head))
    return bad_input("{}: texts: expected no records, schedule, temperature or trajectory_head beside it, got one", where);
  slipstream::EvaluateOptions& e = m.options;
  SLIP_TRY(e.decoder.preset, string_or(o, "decoder", "", where));
  SLIP_TRY(e.decoder.schedule, string_or(o, "schedule", "", where));
  SLIP_TRY(e.decoder.drafter, string_or(o, "drafter", "", where));
  SLIP_TRY(e.decoder.verifier, string_or(o, "verifier", "", where));
  SLIP_TRY(e.decoder.width, string_or(o, "width", "", where));
  SLIP_TRY(e.records, string_or(o, "records", "", where));
  SLIP_TRY(e.count, int_or(o, "count", 50, where));
  if (e.count < 1) return bad_input("{}: count: expected at least 1, got {}", where, e.count);
  SLIP_TRY(const int64_t seed, int_or(o, "seed", 0, where));
  e.first_seed = e.seed = static_cast<uint64_t>(seed);
  SLIP_TRY(e.temperature, number_or(o, "temperature", 0, where));
  return m;
}

Result<StudyColumn> read_column(const json::value& v, const Study& s, const std::string& where) {
  if (!v.is_string()) return bad_input("{}: columns: expected texts, got {}", where, json::serialize(v));
  const std::string text(v.get_string());
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return bad_input("{}: columns: expected MODE:PATH, got {}", where, text);
  StudyColumn c{text.substr(0, colon), text.substr(colon + 1)};
  const bool known =
      c.mode == "train" || std::any_of(s.modes.begin(), s.modes.end(), [&](const StudyMode& m) { return m.name == c.mode; });
  if (!known) return bad_input("{}: columns: expected a mode of this study or train, got {}", where, c.mode);
  if (c.mode != "train") return c;
  if (std::find(kLosses.begin(), kLosses.end(), c.path) == kLosses.end())
    return bad_input("{}: columns: expected train:{}, got {}", where, fmt::join(kLosses, ", train:"), text);
  if (std::all_of(s.arms.begin(), s.arms.end(), [](const StudyArm& a) { return a.stages.empty(); }))
    return bad_input("{}: columns: expected an arm that is trained beside {}, got checkpoints alone", where, text);
  return c;
}

}  // namespace

Result<json::object> read_configuration(const json::object& o, std::string_view key, const std::string& where) {
  const json::value* config = o.if_contains(key);
  if (!config) return json::object{};
  if (config->is_object()) return config->get_object();
  if (!config->is_string()) return bad_input("{}: {}: expected a configuration or its file, got another value", where, key);
  const std::string file(config->get_string());
  SLIP_TRY(json::value v, read_json(file));
  if (!v.is_object()) return bad_input("{}: expected an object, got another value", file);
  return std::move(v.get_object());
}

Result<Study> read_study(const std::string& file) {
  SLIP_TRY(const json::value v, read_json(file));
  if (!v.is_object()) return bad_input("{}: expected an object, got another value", file);
  const json::object& o = v.get_object();
  SLIP_TRY_(only(o, {"name", "base", "seeds", "arms", "modes", "columns", "against", "out"}, file));
  Study s;
  SLIP_TRY(s.name, get_string(o, "name", file));
  SLIP_TRY(s.out, get_string(o, "out", file));
  SLIP_TRY(s.base, read_configuration(o, "base", file));
  s.reads.emplace_back("the study", file);
  add_reads(s.reads, o, {"base"});
  SLIP_TRY(const json::array* seeds, get_array(o, "seeds", file));
  SLIP_TRY(s.seeds, read_seeds(*seeds, file));
  SLIP_TRY(const json::array* arms, get_array(o, "arms", file));
  for (const json::value& a : *arms) {
    if (!a.is_object()) return bad_input("{}: arms: expected objects, got another value", file);
    SLIP_TRY(StudyArm arm, read_arm(a.get_object(), file + ": arms"));
    add_reads(s.reads, a.get_object(), {"checkpoint"});
    for (const json::object& stage : arm.stages) add_reads(s.reads, stage, {"config"});
    s.arms.push_back(std::move(arm));
  }
  if (o.contains("modes")) {
    SLIP_TRY(const json::array* modes, get_array(o, "modes", file));
    for (const json::value& m : *modes) {
      if (!m.is_object()) return bad_input("{}: modes: expected objects, got another value", file);
      SLIP_TRY(StudyMode mode, read_mode(m.get_object(), file + ": modes"));
      add_reads(s.reads, m.get_object(), {"on", "records"});
      s.modes.push_back(std::move(mode));
    }
  }
  SLIP_TRY(const json::array* columns, get_array(o, "columns", file));
  for (const json::value& c : *columns) {
    SLIP_TRY(StudyColumn column, read_column(c, s, file));
    s.columns.push_back(std::move(column));
  }
  if (s.seeds.empty() || s.arms.empty() || s.columns.empty())
    return bad_input("{}: expected seeds, arms and columns, got none of one", file);
  SLIP_TRY_(check_unique(s.arms, file + ": arms"));
  SLIP_TRY_(check_unique(s.modes, file + ": modes"));
  SLIP_TRY(s.against, string_or(o, "against", s.arms[0].name, file));
  if (std::none_of(s.arms.begin(), s.arms.end(), [&](const StudyArm& a) { return a.name == s.against; }))
    return bad_input("{}: against: expected an arm's name, got {}", file, s.against);
  return s;
}

Status check_kept(const Study& s) {
  return check_inputs_kept(s.reads, {{"out", s.out}, {"out", s.out + "/table.json"}, {"out", s.out + "/table.md"}});
}

Status set_at(json::object& config, std::string_view path, const json::value& value, std::string_view where) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) {
    config[path] = value;
    return {};
  }
  json::value& inner = config[path.substr(0, dot)];
  if (inner.is_null()) inner = json::object{};
  if (!inner.is_object())
    return bad_input("{}: {}: expected a path through objects, got another value at {}", where, path, path.substr(0, dot));
  return set_at(inner.get_object(), path.substr(dot + 1), value, where);
}

std::optional<double> number_at(const json::value& v, std::string_view path) {
  if (path.empty()) {
    if (v.is_bool()) return v.get_bool() ? 1.0 : 0.0;
    return v.is_number() ? std::optional(v.to_number<double>()) : std::nullopt;
  }
  if (!v.is_object()) return std::nullopt;
  for (size_t dot = path.find('.');; dot = path.find('.', dot + 1)) {  // names may have dots themselves
    const json::value* inner = v.get_object().if_contains(path.substr(0, dot));
    const auto found = inner ? number_at(*inner, dot == std::string_view::npos ? "" : path.substr(dot + 1)) : std::nullopt;
    if (found || dot == std::string_view::npos) return found;
  }
}

namespace {

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Is a number there, or null on the way: one that no record knows? number_at tells neither from a name that is wrong.
bool has_at(const json::value& v, std::string_view path) {
  if (v.is_null()) return true;
  if (path.empty()) return v.is_number() || v.is_bool();
  if (!v.is_object()) return false;
  for (size_t dot = path.find('.');; dot = path.find('.', dot + 1)) {
    const json::value* inner = v.get_object().if_contains(path.substr(0, dot));
    if (inner && has_at(*inner, dot == std::string_view::npos ? "" : path.substr(dot + 1))) return true;
    if (dot == std::string_view::npos) return false;
  }
}

/// May another arm's result have a path that this one lacks? Evaluation::to_json puts these names by the form of the model's answers, and the
/// members of kByAnswers by what was measured.
bool may_have(const json::object& result, std::string_view path) {
  static constexpr std::string_view kByForm[] = {
      "macro_f1",   "macro_always_yes_f1",   "every_class_above_prior", "classes", "text_agreement",
      "text_prior", "longitudinal_accuracy", "lateral_accuracy",        "all",     "pre_onset",
      "infeasible"};
  static constexpr std::string_view kByAnswers[] = {"measures", "texts", "chosen"};
  if (!result.contains("measures")) return false;  // of texts, whose names are always the same
  const std::string_view name = path.substr(0, path.find('.'));
  return is_one_of(name, kByAnswers) || (is_one_of(name, kByForm) && !result.contains(name));
}

}  // namespace

Result<std::string> check_columns(const Study& study, std::string_view mode, const json::value& result) {
  static const json::object kNothing;
  const json::object& top = result.is_object() ? result.get_object() : kNothing;
  std::string remarks;
  for (const StudyColumn& c : study.columns) {
    if (c.mode != mode || has_at(result, c.path)) continue;
    if (may_have(top, c.path)) {
      remarks += fmt::format("study: column {}: nothing was measured in the first result\n", c.title());
      continue;
    }
    std::vector<std::string> names;
    for (const auto& member : top) names.emplace_back(member.key());
    const std::string name = c.path.substr(0, c.path.find('.')), near = near_word(name, names);
    return bad_input("{}: columns: expected the path of a number in the result of mode {}, got {}{}", study.name, mode, c.path,
                     near.empty() || near == name ? "" : fmt::format(" (did you mean {}?)", near));
  }
  return remarks;
}

Status check_measures(const Study& study, const std::vector<std::string>& known) {
  constexpr std::string_view kMeasures = "measures.";
  for (const StudyColumn& c : study.columns) {
    const auto mode = std::find_if(study.modes.begin(), study.modes.end(), [&](const StudyMode& m) { return m.name == c.mode; });
    if (mode == study.modes.end() || mode->texts || !c.path.starts_with(kMeasures)) continue;
    const std::string name = c.path.substr(kMeasures.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return bad_input("{}: columns: {}: expected a measure, got {}; measures are {}", study.name, c.title(), name,
                     fmt::join(known, ", "));
  }
  return {};
}

Interval interval_of(const std::vector<double>& values) {
  // Student's t at 97.5 % for 1 to 30 degrees of freedom (any table); the normal's 1.96 beyond.
  static constexpr std::array kT = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  Interval out{.mean = 0, .half = {}, .n = static_cast<int64_t>(values.size())};
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) out.mean += v;
  out.mean /= n;
  if (values.size() < 2) return out;
  double square = 0;
  for (const double v : values) square += (v - out.mean) * (v - out.mean);
  const double t = values.size() - 2 < kT.size() ? kT[values.size() - 2] : 1.96;
  out.half = t * std::sqrt(square / (n - 1) / n);
  return out;
}

namespace {

std::vector<double> measured(const std::vector<std::optional<double>>& seeds) {
  std::vector<double> out;
  for (const auto& v : seeds)
    if (v) out.push_back(*v);
  return out;
}

/// Seed by seed, where both are measured.
std::vector<double> differences(const std::vector<std::optional<double>>& a, const std::vector<std::optional<double>>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] && b[i]) out.push_back(*a[i] - *b[i]);
  return out;
}

std::string words_of(const Interval& i, bool sign) {
  if (i.n == 0) return "-";
  const std::string mean = sign ? fmt::format("{:+.4g}", i.mean) : fmt::format("{:.4g}", i.mean);
  return i.half ? fmt::format("{} ± {:.2g}", mean, *i.half) : mean;
}

size_t against_of(const Study& s) {
  return static_cast<size_t>(std::find_if(s.arms.begin(), s.arms.end(), [&](const StudyArm& a) { return a.name == s.against; }) -
                             s.arms.begin());
}

template <class F>
std::string table(const Study& s, F cell) {
  std::string out = "| arm |", line = "|---|";
  for (const StudyColumn& c : s.columns) {
    out += fmt::format(" {} |", c.title());
    line += "---|";
  }
  out += "\n" + line + "\n";
  for (size_t a = 0; a < s.arms.size(); ++a) {
    out += fmt::format("| {} |", s.arms[a].name);
    for (size_t c = 0; c < s.columns.size(); ++c) out += fmt::format(" {} |", cell(a, c));
    out += "\n";
  }
  return out;
}

}  // namespace

std::string study_table(const Study& s, const StudyValues& values) {
  const size_t base = against_of(s);
  return fmt::format("{}: {} seeds; mean ± half of the 95 % interval (Student)\n\n", s.name, s.seeds.size()) +
         table(s, [&](size_t a, size_t c) { return words_of(interval_of(measured(values[a][c])), false); }) +
         fmt::format("\nDifferences to {}, seed by seed\n\n", s.against) + table(s, [&](size_t a, size_t c) {
           const bool zero = a == base && !measured(values[a][c]).empty();
           return zero ? std::string("0") : words_of(interval_of(differences(values[a][c], values[base][c])), true);
         });
}

json::object study_json(const Study& s, const StudyValues& values) {
  const size_t base = against_of(s);
  const auto interval = [](const Interval& i) {
    json::object o{{"mean", i.mean}, {"seeds", i.n}};
    if (i.half) o["half_width_95"] = *i.half;
    return o;
  };
  json::array arms;
  for (size_t a = 0; a < s.arms.size(); ++a) {
    json::object columns;
    for (size_t c = 0; c < s.columns.size(); ++c) {
      json::object o = interval(interval_of(measured(values[a][c])));
      json::array each;
      for (const auto& v : values[a][c]) each.push_back(v ? json::value(*v) : json::value(nullptr));
      o["values"] = std::move(each);
      if (a != base) o["difference"] = interval(interval_of(differences(values[a][c], values[base][c])));
      columns[s.columns[c].title()] = std::move(o);
    }
    arms.push_back(json::object{{"name", s.arms[a].name}, {"columns", std::move(columns)}});
  }
  json::array seeds(s.seeds.begin(), s.seeds.end());
  return {{"name", s.name}, {"against", s.against}, {"seeds", std::move(seeds)}, {"arms", std::move(arms)}};
}

}  // namespace slip::cli
