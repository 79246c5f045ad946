// SPDX-License-Identifier: Apache-2.0
// RecordMeasures as a line of JSON and back.
#include "eval/measures.h"

namespace slip {

std::optional<double> RecordMeasures::get(const std::string& name) const {
  const auto at = numbers.find(name);
  return at == numbers.end() ? std::nullopt : std::optional(at->second);
}

json::object RecordMeasures::to_json() const {
  json::object objects_said, texts_said, values;
  for (size_t c = 0; c < objects.size(); ++c)
    if (objects[c]) objects_said[sim::kObjectClasses[c]] = {{"said", objects[c]->said}, {"truth", objects[c]->truth}};
  for (const Text& t : texts) texts_said[t.field] = {{"equal", t.equal}, {"truth", t.truth}};
  for (const auto& [name, value] : numbers) values[name] = value;
  return {{"seed", seed},
          {"family", family},
          {"frame_s", frame_s},
          {"pre_onset", pre_onset},
          {"valid", valid},
          {"label", decoder},
          {"chosen", chosen},
          {"judged", judged},
          {"objects", std::move(objects_said)},
          {"texts", std::move(texts_said)},
          {"longitudinal_right", longitudinal_right},
          {"lateral_right", lateral_right},
          {"measures", std::move(values)}};
}

namespace {

Status read_objects(const json::object& line, std::string_view where, RecordMeasures& out) {
  SLIP_TRY(const json::object* const said, get_object(line, "objects", where));
  for (size_t c = 0; c < out.objects.size(); ++c) {
    const json::value* v = said->if_contains(sim::kObjectClasses[c]);
    if (!v) continue;
    if (!v->is_object()) return bad_input("{}: objects: expected said and truth, got another type", where);
    SLIP_TRY(const bool answer, get_bool(v->get_object(), "said", where));
    SLIP_TRY(const bool truth, get_bool(v->get_object(), "truth", where));
    out.objects[c] = {answer, truth};
  }
  SLIP_TRY(const json::object* const texts, get_object(line, "texts", where));
  for (const auto& [field, v] : *texts) {
    if (!v.is_object()) return bad_input("{}: texts: expected equal and truth, got another type", where);
    SLIP_TRY(const bool equal, get_bool(v.get_object(), "equal", where));
    SLIP_TRY(std::string truth, get_string(v.get_object(), "truth", where));
    out.texts.push_back({std::string(field), equal, std::move(truth)});
  }
  return {};
}

}  // namespace

Result<RecordMeasures> measures_from(const json::object& line, std::string_view where) {
  RecordMeasures out;
  const json::value* seed = line.if_contains("seed");
  if (!seed || !(seed->is_uint64() || (seed->is_int64() && seed->get_int64() >= 0)))
    return bad_input("{}: seed: expected a whole number, got {}", where, seed ? "another type" : "none");
  out.seed = seed->to_number<uint64_t>();
  SLIP_TRY(out.family, get_string(line, "family", where));
  SLIP_TRY(out.frame_s, get_number(line, "frame_s", where));
  SLIP_TRY(out.pre_onset, get_bool(line, "pre_onset", where));
  SLIP_TRY(out.valid, get_bool(line, "valid", where));
  SLIP_TRY(out.decoder, get_string(line, "label", where));
  SLIP_TRY(out.chosen, get_string(line, "chosen", where));
  SLIP_TRY(out.judged, get_bool(line, "judged", where));
  SLIP_TRY_(read_objects(line, where, out));
  SLIP_TRY(out.longitudinal_right, get_bool(line, "longitudinal_right", where));
  SLIP_TRY(out.lateral_right, get_bool(line, "lateral_right", where));
  SLIP_TRY(const json::object* const numbers, get_object(line, "measures", where));
  for (const auto& [name, v] : *numbers) {
    if (!v.is_number()) return bad_input("{}: measures: {}: expected a number, got another type", where, std::string_view(name));
    out.numbers[std::string(name)] = v.to_number<double>();
  }
  return out;
}

}  // namespace slip
