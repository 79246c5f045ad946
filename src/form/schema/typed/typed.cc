// SPDX-License-Identifier: Apache-2.0
// From all that is said of a place to a node. Alternatives are multiplied out: each is joined with what holds beside it, those in which
// nothing is valid fall away. A default says how long what has no bounds may get.
#include "form/schema/typed/typed.h"

#include <algorithm>
#include <cmath>

#include "form/automaton/regex.h"
#include "form/json_text.h"
#include "form/schema/typed/reader.h"
#include "form/schema/typed/string_formats.h"

namespace slip {
namespace {

constexpr int kDeepest = 48;
constexpr int64_t kMostLength = 256;  // of a string with a maxLength above it: more characters than a value is written with

std::string inner(const json::string& s) {
  const std::string quoted = json::serialize(s);
  return quoted.substr(1, quoted.size() - 2);
}

void append_text(const json::value& v, std::string& out) {
  if (v.is_array()) {
    out += '[';
    for (size_t i = 0; i < v.get_array().size(); ++i) {
      if (i > 0) out += ", ";
      append_text(v.get_array()[i], out);
    }
    out += ']';
  } else if (v.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& m : v.get_object()) {
      if (!std::exchange(first, false)) out += ", ";
      out += json::serialize(json::string(m.key())) + ": ";
      append_text(m.value(), out);
    }
    out += '}';
  } else {
    out += plain_json(v);
  }
}

std::string json_text(const json::value& v) {
  std::string s;
  append_text(v, s);
  return s;
}

bool is_integer(const json::value& v) {
  return v.is_int64() || v.is_uint64() || (v.is_double() && v.get_double() == std::floor(v.get_double()));
}

/// Where no number that forms write fits: is there one of more digits? Multiples are looked at only far from zero, where none is told.
bool some_number_between(const NumberLimits& n, bool integer) {
  const bool far = n.least >= 1e15 || n.most <= -1e15;
  if (!n.multiples.empty() && !far) return false;
  if (!integer) return n.least < n.most || (n.least == n.most && !n.above_least && !n.below_most);
  const double first = n.above_least && n.least == std::floor(n.least) ? n.least + 1 : std::ceil(n.least);
  const double last = n.below_most && n.most == std::floor(n.most) ? n.most - 1 : std::floor(n.most);
  return first <= last;
}

}  // namespace

void TypedReader::add(ErrorKind kind, const std::string& pointer, std::string what) {
  if (looking_ > 0 && kind == ErrorKind::kUnsupported) {
    if (beside_.size() < kMostErrors) beside_.push_back({kind, fmt::format("{}: {}", pointer, what)});
    return;
  }
  if (errors_.size() >= kMostErrors || !said_.insert(pointer + what).second) return;
  errors_.push_back({kind, fmt::format("{}: {}", pointer, what)});
}

TypedSchema TypedReader::read() {
  std::string why;
  const Part root{.schema = &document_, .pointer = "#"};
  out_.root = node(std::span(&root, 1), "#", 0, &why);
  if (ByteDfa::work() - automata_before_ > kMostAutomata)
    not_done("#", "expected patterns, lengths and bounds that are made into automata in a second, got more of them");
  if (work_ > kMostWork)
    not_done("#", fmt::format("expected a schema of at most {} parts when its references are followed, got more", kMostWork));
  if (!out_.root && (errors_.empty() || !why.empty()))
    bad("#", fmt::format("expected a schema that some value is valid for, got none: {}", why));
  for (const Error& e : beside_) {
    const bool known = std::any_of(errors_.begin(), errors_.end(), [&](const Error& other) { return other.message == e.message; });
    if (!out_.root && !known && errors_.size() < kMostErrors) errors_.push_back(e);
  }
  return std::move(out_);
}

TypedPtr TypedReader::node(std::span<const Part> parts, const std::string& pointer, int depth, std::string* why) {
  if (full()) return nullptr;
  if (depth > kDeepest) return not_done(pointer, fmt::format("expected at most {} levels, got more", kDeepest)), nullptr;
  if (++nodes_ > kMostNodes) {
    work_ = kMostWork + 1;
    return nullptr;
  }
  Place place;
  place.pointer = pointer;
  for (Part p : parts) {
    p.inner |= parts.size() > 1;
    gather(p, place);
  }
  std::string own;
  return node_of(std::move(place), depth, why ? why : &own);
}

TypedPtr TypedReader::node_of(Place place, int depth, std::string* why) {
  if (full()) return nullptr;
  if (!place.dead.empty()) return *why = place.dead, nullptr;
  if (!place.groups.empty()) return choice(std::move(place), depth, why);
  if (place.values) return of_values(place, why);
  return of_types(std::move(place), depth, why);
}

TypedPtr TypedReader::choice(Place place, int depth, std::string* why) {
  if (depth > kDeepest)
    return not_done(place.pointer, fmt::format("expected at most {} levels of alternatives, got more", kDeepest)), nullptr;
  const Group group = std::move(place.groups.back());
  place.groups.pop_back();
  int64_t waiting = 0;
  for (const Group& g : place.groups) waiting += static_cast<int64_t>(g.alternatives.size());
  std::vector<TypedPtr> found;
  uint32_t unmade = 0;  // types that alternatives of which nothing is made are valid for
  std::string last;
  for (const auto& alternative : group.alternatives) {
    Place with = place;
    with.chosen = true;
    work_ += static_cast<int64_t>(place.properties.size()) + waiting;  // what is copied
    for (const Part& p : alternative) gather(p, with);
    unmade_ = 0;
    if (TypedPtr n = node_of(std::move(with), depth + 1, &last))
      found.push_back(std::move(n));
    else
      unmade |= unmade_;
    if (full()) return nullptr;
  }
  unmade_ = unmade;
  if (found.empty()) {
    if (!last.empty() || errors_.empty()) *why = last.empty() ? "no alternative is left" : last;
    return nullptr;
  }
  if (group.exclusive && !exclude_each_other(found, unmade)) {
    not_done(group.pointer,
             "expected alternatives of which no value fits two (by a type, a constant, a required member or "
             "additionalProperties: false), got others, which anyOf takes");
    return nullptr;
  }
  return with_valid(together(std::move(found), place), unmade);
}

/// Does no value that is made for one fit another? `unmade`: types of values that others are valid for, of which nothing is made.
bool TypedReader::exclude_each_other(std::span<TypedPtr> found, uint32_t unmade) {
  work_ += static_cast<int64_t>(found.size() * found.size());
  const TypedNode nothing{.kind = TypedNode::Kind::kChoice, .also_valid = unmade};
  for (size_t i = 0; i < found.size(); ++i) {
    if (!excludes(*found[i], nothing)) return false;
    for (size_t j = 0; j < found.size(); ++j)
      if (i != j && !full() && !excludes(*found[i], *found[j]) && !write_tag(found[i], *found[j])) return false;
  }
  return true;
}

void TypedReader::finish(TypedNode& n, const Place& place) const {
  n.pointer = place.pointer;
  if (!n.section) n.section = place.section;
  if (!n.parents) n.parents = place.parents;
  if (n.budget == 0) n.budget = place.budget;
  n.also_valid = place.also_valid;
}

/// Is a value what the keywords beside enum or const allow? Only plain values are compared with bounds and patterns.
bool TypedReader::fits(const json::value& v, const Place& place, std::span<const ByteDfa> patterns) {
  const uint32_t type = v.is_string()   ? kString
                        : v.is_bool()   ? kBoolean
                        : v.is_null()   ? kNull
                        : v.is_object() ? kObject
                        : v.is_array()  ? kArray
                        : is_integer(v) ? kInteger
                                        : kNumber;
  if ((place.types & type) == 0) return false;
  for (const json::array* list : place.none_of)
    if (std::any_of(list->begin(), list->end(), [&](const json::value& x) { return same_value(x, v); })) return false;
  if (v.is_number()) {
    const double x = v.to_number<double>();
    const NumberLimits& n = place.number;
    if (x < n.least || x > n.most || (n.above_least && x == n.least) || (n.below_most && x == n.most)) return false;
    for (const double m : n.multiples)
      if (std::fabs(std::remainder(x, m)) > 1e-9 * std::fabs(m)) return false;
  }
  if (v.is_string()) {
    const std::string_view text(v.get_string());
    const auto length = std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
    if (length < place.min_length || (place.max_length >= 0 && length > place.max_length)) return false;
    const std::string written = inner(v.get_string());
    if (!std::all_of(patterns.begin(), patterns.end(), [&](const ByteDfa& p) { return p.matches(written); })) return false;
  }
  return true;
}

namespace {

/// Is something said of what an object or an array holds, which values of an enum would have to be held to?
template <class Place>
bool says_more_of_insides(const Place& p) {
  return !p.properties.empty() || !p.pattern_properties.empty() || !p.required.empty() || p.closed || p.map || p.names ||
         !p.of_names.empty() || !p.unevaluated.empty() || !p.presence.empty() || p.min_properties > 0 || p.max_properties >= 0 ||
         !p.prefix.empty() || !p.items.empty() || p.no_more_items >= 0 || p.unique || p.min_items > 0 || p.max_items >= 0;
}

}  // namespace

/// Patterns that strings of an enum or a const are held to. Not those of formats, which are a part of what a format allows: whoever wrote
/// the values knows that they are of it. Nothing: an error was added.
std::optional<std::vector<ByteDfa>> TypedReader::patterns_of_values(const Place& place) {
  std::vector<ByteDfa> out;
  if (std::none_of(place.values->begin(), place.values->end(), [](const json::value* v) { return v->is_string(); })) return out;
  for (const Pattern& p : place.patterns) {
    if (p.of_format) continue;
    auto one = compile_regex(p.text);
    if (!one) return add(one.error().kind, p.pointer, one.error().message), std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

TypedPtr TypedReader::of_values(const Place& place, std::string* why) {
  std::vector<const json::value*> left;
  std::set<std::string> seen;
  const auto patterns = patterns_of_values(place);
  if (!patterns) return nullptr;
  for (const json::value* v : *place.values) {
    if (v->is_double() && !std::isfinite(v->get_double()))
      bad(place.pointer, "expected numbers that a double holds, got a larger one");
    const bool twice = !seen.insert(canonical(*v)).second;
    if (v->is_string() && v->get_string().size() > kMostWord && place.values->size() > 1)
      return not_done(place.pointer,
                      fmt::format("expected values of at most {} bytes in enum, got one of {}", kMostWord, v->get_string().size())),
             nullptr;
    if (v->is_structured() && says_more_of_insides(place))
      return not_done(place.pointer, "expected objects and arrays of an enum or a const without other keywords of them, got some"),
             nullptr;
    if (fits(*v, place, *patterns) && !twice) left.push_back(v);
  }
  if (left.empty())
    return *why =
               fmt::format("{} valid beside the other keywords",
                           place.values->size() == 1 ? shown_json(*place.values->front()) + " is not" : "no value of its enum is"),
           nullptr;
  const bool plain = std::none_of(left.begin(), left.end(), [](const json::value* v) { return v->is_structured(); });
  if (left.size() == 1 || !plain) {
    std::vector<TypedPtr> constants;
    for (const json::value* v : left) {
      TypedNode n{.kind = TypedNode::Kind::kConstant, .text = json_text(*v)};
      finish(n, place);
      constants.push_back(std::make_shared<const TypedNode>(std::move(n)));
    }
    return constants.size() == 1 ? constants.front() : together(std::move(constants), place);
  }
  TypedNode n{.kind = TypedNode::Kind::kScalar};
  n.quoted = std::all_of(left.begin(), left.end(), [](const json::value* v) { return v->is_string() && !v->get_string().empty(); });
  for (const json::value* v : left) n.words.push_back(n.quoted ? inner(v->get_string()) : json_text(*v));
  if (place.aliases != nullptr)
    for (const auto& m : *place.aliases)
      if (m.value().is_string()) n.aliases[std::string(std::string_view(m.key()))] = inner(m.value().get_string());
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

TypedPtr TypedReader::of_types(Place place, int depth, std::string* why) {
  settle_unevaluated(place);
  uint32_t types = place.types;
  const uint32_t hinted = place.hinted | (place.required.empty() && place.properties.empty() ? 0U : static_cast<uint32_t>(kObject));
  const bool spoken_of = (types & hinted) != 0;  // of strings, of which `not` leaves none: then it is of anything else
  if (!place.typed && spoken_of) types &= hinted;
  if (!place.typed && !spoken_of && (types & ~static_cast<uint32_t>(kObject | kArray)) != 0)
    types &= ~static_cast<uint32_t>(kObject | kArray);  // anything: any scalar
  place.also_valid = place.types & ~types;
  if ((types & kNumber) != 0) types &= ~static_cast<uint32_t>(kInteger);
  if (types == 0) {
    *why = "its types exclude each other";
    const Looking looking(*this, true);
    std::string inside;
    if (!place.properties.empty()) object_node(place, depth, &inside);
    unmade_ = place.also_valid;
    return nullptr;
  }
  std::vector<TypedPtr> found;
  uint32_t unmade = place.also_valid;
  for (const uint32_t type : {kString, kNumber, kInteger, kBoolean, kNull, kObject, kArray}) {
    if ((types & type) == 0) continue;
    if (TypedPtr n = one_type(place, type, depth, why))
      found.push_back(std::move(n));
    else if (type == kObject && !place.told.empty())
      unmade |= kObject;  // without the member of a condition there may be one
  }
  unmade_ = unmade;
  return found.empty() ? nullptr : with_valid(together(std::move(found), place), unmade);
}

TypedPtr TypedReader::one_type(const Place& place, uint32_t type, int depth, std::string* why) {
  const auto leaves_out = [&](bool objects) {
    const auto of_kind = [&](const json::value& v) { return objects ? v.is_object() : v.is_array(); };
    return std::any_of(place.none_of.begin(), place.none_of.end(),
                       [&](const json::array* list) { return std::any_of(list->begin(), list->end(), of_kind); });
  };
  if ((type == kObject || type == kArray) && leaves_out(type == kObject))
    return not_done(place.pointer, fmt::format("expected plain values alone to be left out beside {0}, got one of {0}",
                                               type == kObject ? "objects" : "arrays")),
           nullptr;
  switch (type) {
    case kString:
      return string_node(place, why);
    case kNumber:
      return number_node(place, false, why);
    case kInteger:
      return number_node(place, true, why);
    case kObject:
      return object_node(place, depth, why);
    case kArray:
      return array_node(place, depth, why);
    default:
      break;
  }
  TypedNode n;
  const auto left_out = [&](const json::value& v) {
    return std::any_of(place.none_of.begin(), place.none_of.end(),
                       [&](const json::array* list) { return std::find(list->begin(), list->end(), v) != list->end(); });
  };
  if (type == kNull && left_out(nullptr)) return *why = "null is left out", nullptr;
  if (type == kBoolean) {
    n.kind = TypedNode::Kind::kScalar;
    if (!left_out(true)) n.words.emplace_back("true");
    if (!left_out(false)) n.words.emplace_back("false");
    if (n.words.empty()) return *why = "both booleans are left out", nullptr;
  }
  if (type == kNull || n.words.size() == 1) {
    n.kind = TypedNode::Kind::kConstant;
    n.text = type == kNull ? "null" : n.words.front();
    n.words.clear();
  }
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

namespace {

/// The language without the strings that `not` names.
Result<ByteDfa> without_strings(ByteDfa language, std::span<const json::array* const> lists) {
  std::vector<ByteDfa> left_out;
  for (const json::array* list : lists)
    for (const json::value& v : *list) {
      if (!v.is_string()) continue;
      if (v.get_string().size() > kMostWord)
        return unsupported("expected strings of at most {} bytes in `not`, got one of {}", kMostWord, v.get_string().size());
      SLIP_TRY(ByteDfa one, ByteDfa::literal(inner(v.get_string())));
      left_out.push_back(std::move(one));
    }
  if (left_out.empty()) return language;
  SLIP_TRY(const ByteDfa all, ByteDfa::either(left_out));
  return ByteDfa::first_only(language, all);
}

}  // namespace

/// Schemas say the same of many places: its automaton is made once.
std::shared_ptr<const ByteDfa> TypedReader::string_language(const Place& place, int64_t most) {
  std::string key = fmt::format("s {} {} {}", place.min_length, place.max_length, most);
  for (const Pattern& p : place.patterns) key += fmt::format(" {}:{}", p.text.size(), p.text);
  for (const json::array* list : place.none_of) key += " " + json::serialize(*list);
  auto& known = languages_[key];
  if (known || full()) return known;
  std::vector<ByteDfa> patterns;
  for (const Pattern& p : place.patterns) {
    auto one = compile_regex(p.text);
    if (!one) return add(one.error().kind, p.pointer, one.error().message), nullptr;
    const auto longest = one->longest();
    if (longest && *longest <= place.max_length) most = -1;  // characters are no more than bytes: the pattern keeps to it by itself
    patterns.push_back(std::move(*one));
  }
  auto language = texts_of_length(place.min_length, most);
  if (!language) return add(language.error().kind, place.pointer, language.error().message), nullptr;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const bool bounded = place.min_length > 0 || most >= 0;
    auto all = !bounded && i == 0 ? Result<ByteDfa>(patterns[i]) : ByteDfa::both(*language, patterns[i]);
    if (!all) return add(all.error().kind, place.patterns[i].pointer, all.error().message), nullptr;
    language = std::move(all);
  }
  language = without_strings(std::move(*language), place.none_of);
  if (!language) return add(language.error().kind, place.pointer, language.error().message), nullptr;
  return known = std::make_shared<const ByteDfa>(std::move(*language));
}

TypedPtr TypedReader::string_node(const Place& place, std::string* why) {
  int64_t most = place.max_length;
  if (most >= 0 && most < place.min_length)
    return *why = fmt::format("minLength {} is above maxLength {}", place.min_length, most), nullptr;
  if (most > kMostLength) most = std::max(kMostLength, place.min_length);
  const auto language = string_language(place, most);
  if (!language) return nullptr;
  if (language->empty() && place.of_format())
    return not_done(place.pointer, "expected lengths and patterns that leave a text of its format as forms write it, got others"),
           nullptr;
  if (language->empty()) return *why = "no string is valid for its patterns and lengths together", nullptr;
  TypedNode n{.kind = TypedNode::Kind::kScalar};
  n.quoted = true;
  n.narrowed = place.of_format() || (most >= 0 && most < place.max_length);
  n.language = language;
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

namespace {

/// However these numbers may be written: 2.5, 2.50. Those with more digits than ours cannot be written at all.
Result<ByteDfa> texts_of_numbers(std::span<const json::array* const> lists) {
  std::vector<ByteDfa> texts;
  for (const json::array* list : lists)
    for (const json::value& v : *list) {
      const auto d = v.is_number() ? decimal_of(v.to_number<double>()) : std::nullopt;
      if (!d) continue;
      std::string digits = fmt::format("{:0{}}", std::abs(d->digits), d->decimals + 1);
      const std::string behind = digits.substr(digits.size() - static_cast<size_t>(d->decimals));
      digits.resize(digits.size() - behind.size());
      const std::string pattern =
          fmt::format("^{}{}{}$", d->digits < 0 ? "-" : "", digits, behind.empty() ? "(\\.0+)?" : "\\." + behind + "0*");
      SLIP_TRY(ByteDfa one, compile_regex(pattern, false));
      texts.push_back(std::move(one));
    }
  return ByteDfa::either(texts);
}

}  // namespace

std::shared_ptr<const ByteDfa> TypedReader::number_language(const Place& place, bool integer) {
  NumberLimits limits = place.number;
  limits.integer = integer;
  std::string key = fmt::format("n {} {} {} {} {} {}", integer, limits.least, limits.most, limits.above_least, limits.below_most,
                                place.number_format);
  for (const double m : limits.multiples) key += fmt::format(" {}", m);
  for (const json::array* list : place.none_of) key += " " + json::serialize(*list);
  auto& known = languages_[key];
  if (known || full()) return known;
  auto language = numbers(limits);
  if (language && language->empty() && !integer) {  // too large for digits behind the point: the whole ones
    limits.integer = true;
    language = numbers(limits);
  }
  if (!language) return add(language.error().kind, place.pointer + "/multipleOf", language.error().message), nullptr;
  if (!place.number_format.empty()) {
    const auto format = compile_regex(pattern_of_number_format(place.number_format), false);
    if (!format) return bad(place.pointer + "/x-format", "expected an x-format like \"0.00\", got another"), nullptr;
    auto both = ByteDfa::both(*language, *format);
    if (both) language = std::move(both);
  }
  if (const auto left_out = texts_of_numbers(place.none_of); !left_out || !left_out->empty()) {
    auto rest = left_out ? ByteDfa::first_only(*language, *left_out) : left_out;
    if (!rest) return add(rest.error().kind, place.pointer, rest.error().message), nullptr;
    language = std::move(rest);
  }
  return known = std::make_shared<const ByteDfa>(std::move(*language));
}

TypedPtr TypedReader::number_node(const Place& place, bool integer, std::string* why) {
  const auto language = number_language(place, integer);
  if (!language) return nullptr;
  if (language->empty() && place.number_format.empty() && place.none_of.empty() && some_number_between(place.number, integer))
    return not_done(place.pointer, fmt::format("expected bounds between which a number of at most {} digits lies, or of {} and {} "
                                               "behind the point, got others",
                                               kIntegerDigits, kNumberDigits, kDecimals)),
           nullptr;
  if (language->empty())
    return *why = fmt::format("no {} is valid for its bounds and multiples{}", integer ? "integer" : "number",
                              place.number_format.empty() ? "" : " written as x-format says"),
           nullptr;
  TypedNode n{.kind = TypedNode::Kind::kScalar};
  n.language = language;
  n.numeric = true;
  n.least = place.number.least;
  n.most = place.number.most;
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

}  // namespace slip
