// SPDX-License-Identifier: Apache-2.0
// See request_json.h. One table row per key: its name and the function that checks the value and puts it into the target.
#include "capi/request_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "base/json.h"
#include "base/json/flaws.h"

namespace slip {

namespace {

using slipstream::EngineOptions;
using slipstream::Request;

template <class Target>
struct Key {
  std::string_view name;
  Status (*put)(Target& target, const json::value& value, std::string_view where);  // where: "request: top_k"
};

Error wrong_type(std::string_view where, std::string_view expected, const json::value& got) {
  return bad_input("{}: expected {}, got {}", where, expected, std::string_view(json::to_string(got.kind())));
}

/// Whole numbers that the member can hold; JSON's 5.0 is a 5 for nobody, as in the other documents that are read here.
template <class T>
Status put_whole(T& out, const json::value& v, std::string_view where) {
  if (!v.is_int64() && !v.is_uint64()) return wrong_type(where, "a whole number", v);
  const bool fits = v.is_int64() ? std::in_range<T>(v.get_int64()) : std::in_range<T>(v.get_uint64());
  if (!fits)
    return bad_input("{}: expected a whole number from {} to {}, got {}", where, std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max(), json::serialize(v));
  out = v.is_int64() ? static_cast<T>(v.get_int64()) : static_cast<T>(v.get_uint64());
  return {};
}

Status put_value(std::string& out, const json::value& v, std::string_view where) {
  if (!v.is_string()) return wrong_type(where, "a text", v);
  out = std::string_view(v.get_string());
  return {};
}
Status put_value(double& out, const json::value& v, std::string_view where) {
  if (!v.is_number()) return wrong_type(where, "a number", v);
  out = v.to_number<double>();
  return {};
}
Status put_value(int32_t& out, const json::value& v, std::string_view where) { return put_whole(out, v, where); }
Status put_value(uint64_t& out, const json::value& v, std::string_view where) { return put_whole(out, v, where); }

template <auto kMember, class Target>
Status put(Target& target, const json::value& v, std::string_view where) {
  return put_value(target.*kMember, v, where);
}
Status put_schema(Request& r, const json::value& v, std::string_view where) {
  if (!v.is_object()) return wrong_type(where, "a JSON Schema object", v);
  r.form_schema = json::serialize(v);
  return {};
}

Status put_ego(Request& r, const json::value& v, std::string_view where) {
  if (!v.is_object()) return wrong_type(where, "an object with intent and history", v);
  SLIP_TRY(r.ego, slipstream::parse_ego(json::serialize(v), where));
  return {};
}

Status put_section_temperatures(Request& r, const json::value& v, std::string_view where) {
  if (!v.is_object()) return wrong_type(where, "an object of numbers by section", v);
  for (const auto& [section, number] : v.get_object()) {
    double temperature = 0;
    SLIP_TRY_(put_value(temperature, number, fmt::format("{}: {}", where, std::string_view(section))));
    r.sampling.section_temperatures.emplace_back(section, temperature);
  }
  return {};
}

// Before the pass over the table: a deadline runs already, and a request of a record or a scene is where the others are put into.
Status put_nothing(Request&, const json::value&, std::string_view) { return {}; }

/// From now on: before anything is drawn or read.
Status set_deadline(slipstream::CancelToken& cancel, const json::value& v, std::string_view where) {
  constexpr double kMostMs = 1e12;  // 32 years: within the clock's range by far
  double ms = 0;
  SLIP_TRY_(put_value(ms, v, where));
  if (!(ms >= 0 && ms <= kMostMs)) return bad_input("{}: expected a number from 0 to {}, got {}", where, kMostMs, ms);
  const auto span =
      std::chrono::duration_cast<slipstream::CancelToken::Clock::duration>(std::chrono::duration<double, std::milli>(ms));
  cancel.set_deadline(slipstream::CancelToken::Clock::now() + span);
  return {};
}

Status put_image_files(Request& r, const json::value& v, std::string_view where) {
  if (!v.is_array()) return wrong_type(where, "an array of files", v);
  for (const json::value& file : v.get_array()) {
    std::string name;
    SLIP_TRY_(put_value(name, file, where));
    if (name == "-") return bad_input("{}: expected a file, got standard input", where);  // a library does not read it
    SLIP_TRY_(r.cancel.check("read", static_cast<int64_t>(r.images.size()), "images"));
    SLIP_TRY(slipstream::Image image, slipstream::read_image(name));
    r.images.push_back(std::move(image));
  }
  return {};
}

Status put_messages(Request& r, const json::value& v, std::string_view where) {
  SLIP_TRY(r.messages, slipstream::parse_messages(json::serialize(v), where));
  return {};
}
Status put_previous(Request& r, const json::value& v, std::string_view where) {
  if (!v.is_object()) return wrong_type(where, "an answer's result object", v);
  r.previous_answer = json::serialize(v);
  return {};
}

// What is more than one of the request's settings (slipstream::request_options), which follow by themselves.
constexpr Key<Request> kRequestKeys[] = {
    {"record", put_nothing},
    {"scene", put_nothing},
    {"schema", put_schema},
    {"ego", put_ego},
    {"messages", put_messages},
    {"image_files", put_image_files},
    {"previous_answer", put_previous},
    {"section_temperatures", put_section_temperatures},
    {"deadline_ms", put_nothing},
};

/// A value as a command line would spell it. Types are as in JSON: a number is no text, 5.0 is no whole number.
Result<std::string> spelled(const slipstream::RequestOption& option, const json::value& v, std::string_view where) {
  using Kind = slipstream::RequestOption::Kind;
  switch (option.kind) {
    case Kind::kFlag:
      if (!v.is_bool()) return wrong_type(where, "true or false", v);
      break;
    case Kind::kWhole:
      if (!v.is_int64() && !v.is_uint64()) return wrong_type(where, "a whole number", v);
      break;
    case Kind::kNumber:
      if (!v.is_number()) return wrong_type(where, "a number", v);
      return fmt::format("{}", v.to_number<double>());
    default:
      if (!v.is_string()) return wrong_type(where, "a text", v);
      return std::string(v.get_string());
  }
  return std::string(json::serialize(v));
}

Status put_option(Request& r, const slipstream::RequestOption& option, const json::value& v, std::string_view where) {
  const bool several = option.kind == slipstream::RequestOption::Kind::kTexts && v.is_array();
  const json::array one{v};
  for (const json::value& each : several ? v.get_array() : one) {
    SLIP_TRY(const std::string text, spelled(option, each, where));
    const slipstream::Status done = slipstream::set_option(r, option.name, text, where);
    if (!done) return Error{ErrorKind::kBadInput, done.error().message};
  }
  return {};
}

/// Null: no such setting.
const slipstream::RequestOption* option_named(std::string_view name) {
  for (const slipstream::RequestOption& option : slipstream::request_options())
    if (option.name == name) return &option;
  return nullptr;
}

constexpr Key<EngineOptions> kEngineKeys[] = {
    {"dtype", put<&EngineOptions::dtype>},   {"kv", put<&EngineOptions::kv_type>},
    {"device", put<&EngineOptions::device>}, {"threads", put<&EngineOptions::threads>},
    {"slots", put<&EngineOptions::slots>},   {"trajectory_head", put<&EngineOptions::trajectory_head>},
};

template <class Target>
Status put_key(Target& target, std::string_view key, const json::value& value, std::span<const Key<Target>> keys,
               std::string_view name) {
  const std::string where = fmt::format("{}: {}", name, key);
  const auto known = std::find_if(keys.begin(), keys.end(), [&](const Key<Target>& k) { return k.name == key; });
  if (known != keys.end()) return known->put(target, value, where);
  if constexpr (std::is_same_v<Target, Request>)
    if (const slipstream::RequestOption* option = option_named(key)) return put_option(target, *option, value, where);
  return bad_input("{}: expected a known key, got {}", name, json::serialize(json::value(key)));
}

template <class Target>
Status put_all(Target& target, const json::object& document, std::span<const Key<Target>> keys, std::string_view name) {
  for (const auto& [key, value] : document) SLIP_TRY_(put_key(target, std::string_view(key), value, keys, name));
  return {};
}

/// An object, or an empty one of an empty document. Of a key that comes twice the parser keeps the last: it is refused.
Result<json::object> object_of(std::string_view document, std::string_view name) {
  if (document.empty()) return json::object{};
  SLIP_TRY(json::value v, parse_json(document, name));
  SLIP_TRY_(check_json(document, name));
  if (!v.is_object()) return wrong_type(name, "an object", v);
  return std::move(v.get_object());
}

Status check_together(const json::object& o, std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kExclusive[] = {
      {"record", "scene"},   {"record", "ego"},        {"record", "prompt"},   {"record", "image_files"}, {"scene", "ego"},
      {"scene", "prompt"},   {"scene", "image_files"}, {"ego", "prompt"},      {"form", "schema"},        {"record", "messages"},
      {"scene", "messages"}, {"ego", "messages"},      {"prompt", "messages"},
  };
  for (const auto& [one, other] : kExclusive)
    if (o.contains(one) && o.contains(other)) return bad_input("{}: expected {} or {}, got both", name, one, other);
  return {};
}

Result<Request> begin_of(const json::object& o, std::string_view name) {
  if (const json::value* record = o.if_contains("record")) {
    std::string set_and_index;
    SLIP_TRY_(put_value(set_and_index, *record, fmt::format("{}: record", name)));
    return slipstream::request_of_record(set_and_index);
  }
  if (const json::value* scene = o.if_contains("scene")) {
    uint64_t seed = 0;
    SLIP_TRY_(put_value(seed, *scene, fmt::format("{}: scene", name)));
    return slipstream::request_of_scene(seed);
  }
  return Request{};
}

}  // namespace

Result<Request> request_from_json(std::string_view document, std::string_view name, slipstream::CancelToken cancel) {
  SLIP_TRY(const json::object o, object_of(document, name));
  SLIP_TRY_(check_together(o, name));
  if (const json::value* ms = o.if_contains("deadline_ms"))
    SLIP_TRY_(set_deadline(cancel, *ms, fmt::format("{}: deadline_ms", name)));
  SLIP_TRY(Request request, begin_of(o, name));
  request.cancel = std::move(cancel);
  SLIP_TRY_(put_all(request, o, std::span<const Key<Request>>(kRequestKeys), name));
  return request;
}

Result<EngineOptions> engine_options_from_json(std::string_view document, std::string_view name) {
  SLIP_TRY(const json::object o, object_of(document, name));
  EngineOptions options;
  SLIP_TRY_(put_all(options, o, std::span<const Key<EngineOptions>>(kEngineKeys), name));
  return options;
}

std::vector<std::string_view> request_keys() {
  std::vector<std::string_view> out;
  for (const Key<Request>& key : kRequestKeys) out.push_back(key.name);
  for (const slipstream::RequestOption& option : slipstream::request_options())
    if (std::find(out.begin(), out.end(), option.name) == out.end()) out.push_back(option.name);
  return out;
}

std::vector<std::string_view> engine_option_keys() {
  std::vector<std::string_view> out;
  for (const Key<EngineOptions>& key : kEngineKeys) out.push_back(key.name);
  return out;
}

std::string info_json(const slipstream::ModelInfo& i) {
  return json::serialize(json::object{{"folder", slipstream::to_valid_utf8(i.folder)},
                                      {"model_type", i.model_type},
                                      {"dtype", i.dtype},
                                      {"kv", i.kv_type},
                                      {"device", i.device},
                                      {"vocab", i.vocab},
                                      {"hidden_size", i.hidden_size},
                                      {"slots", i.slots},
                                      {"positions", i.positions},
                                      {"vision", i.vision},
                                      {"can_draft", i.can_draft},
                                      {"draft_adapter", i.has_draft_adapter},
                                      {"form", i.form},
                                      {"visibility", i.visibility}});
}

}  // namespace slip
