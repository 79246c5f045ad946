// SPDX-License-Identifier: Apache-2.0
// Alternatives as one node: scalars as one language, objects and arrays as a choice.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "form/schema/typed/reader.h"

namespace slip {
namespace {

constexpr size_t kMostOrders = 512;  // arrays that are written out where no item may come twice
constexpr size_t kMostSpelled = 64;  // values of a member that tells alternatives apart

/// The words of a scalar that has few, each with its quotes; nothing otherwise.
std::optional<std::vector<std::string>> texts_of(const TypedNode& n) {
  if (n.kind == TypedNode::Kind::kConstant) return std::vector{n.text};
  if (n.kind != TypedNode::Kind::kScalar || n.words.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (const std::string& w : n.words) out.push_back(n.quoted ? "\"" + w + "\"" : w);
  return out;
}

/// What stands between the quotes of a quoted scalar.
Result<ByteDfa> language_in_quotes(const TypedNode& n) {
  if (n.words.empty()) return *n.language;
  std::vector<ByteDfa> words;
  for (const std::string& w : n.words) {
    SLIP_TRY(ByteDfa one, ByteDfa::literal(w));
    words.push_back(std::move(one));
  }
  return ByteDfa::either(words);
}

}  // namespace

/// uniqueItems over few values: the arrays themselves, by their length, as long as they are not too many.
TypedPtr TypedReader::without_repeats(const TypedNode& array, const Place& place) {
  const auto texts = array.prefix.empty() && array.item && array.item->any_scalar() ? texts_of(*array.item) : std::nullopt;
  const auto number = [](const std::string& t) { return t[0] == '-' || (t[0] >= '0' && t[0] <= '9'); };
  const bool equal_numbers = texts && [&] {
    std::set<double> seen;
    return std::any_of(texts->begin(), texts->end(),
                       [&](const std::string& t) { return number(t) && !seen.insert(std::strtod(t.c_str(), nullptr)).second; });
  }();
  std::vector<TypedNode> all;
  int64_t longest = -1;
  std::vector<std::vector<size_t>> orders{{}};
  for (int64_t length = 0; texts && !equal_numbers && length <= array.max_items && !orders.empty(); ++length) {
    if (length >= array.min_items && all.size() + orders.size() > kMostOrders) break;
    for (const auto& order : orders) {
      std::string text;
      for (const size_t i : order) text += (text.empty() ? "" : ", ") + (*texts)[i];
      if (length >= array.min_items) all.push_back({.kind = TypedNode::Kind::kConstant, .text = "[" + text + "]"});
    }
    longest = length;
    std::vector<std::vector<size_t>> longer;
    for (const auto& order : orders)
      for (size_t i = 0; i < texts->size() && longer.size() <= kMostOrders; ++i)
        if (std::find(order.begin(), order.end(), i) == order.end()) longer.push_back(order), longer.back().push_back(i);
    if (longer.size() > kMostOrders) break;
    orders = std::move(longer);
  }
  // Arrays of one item, or of none, where more are asked for by name are not what a schema means.
  if (texts && longest < std::min<int64_t>({array.max_items, static_cast<int64_t>(texts->size()), 2})) all.clear();
  if (all.empty()) {
    not_done(place.pointer + "/uniqueItems", "expected items that may be equal, or few values to choose from, got uniqueItems");
    return nullptr;
  }
  const auto most = static_cast<int64_t>(texts->size());
  std::vector<TypedPtr> arrays;
  for (TypedNode& n : all) {
    finish(n, place);
    n.narrowed = longest < (array.narrowed ? most : std::min(array.max_items, most));
    arrays.push_back(std::make_shared<const TypedNode>(std::move(n)));
  }
  return together(std::move(arrays), place);
}

/// What is valid for one of them is valid for the node of all.
TypedPtr TypedReader::together(std::vector<TypedPtr> alternatives, const Place& place) {
  uint32_t types = 0;
  for (const TypedPtr& a : alternatives) types |= a->also_valid;
  return with_valid(joined(std::move(alternatives), place), types);
}

TypedPtr TypedReader::with_valid(TypedPtr node, uint32_t types) {
  if (!node || (node->also_valid | types) == node->also_valid) return node;
  TypedNode n = *node;
  n.also_valid |= types;
  return std::make_shared<const TypedNode>(std::move(n));
}

/// Scalars become one where they may: their languages together. Beside objects and arrays, constants and strings stay apart.
TypedPtr TypedReader::joined(std::vector<TypedPtr> alternatives, const Place& place) {
  std::vector<TypedPtr> flat;
  for (TypedPtr& a : alternatives) {
    if (a->kind == TypedNode::Kind::kChoice)
      flat.insert(flat.end(), a->alternatives.begin(), a->alternatives.end());
    else
      flat.push_back(std::move(a));
  }
  std::vector<TypedPtr> scalars, others;
  for (TypedPtr& a : flat) (a->any_scalar() ? scalars : others).push_back(std::move(a));
  if (others.empty()) return scalars.size() == 1 ? scalars.front() : union_of(scalars, place);
  join_scalars(true, scalars, place);
  join_scalars(false, scalars, place);
  // Values stand before what may stand in their place, and those without quotes before those with.
  const auto rank = [](const TypedPtr& s) {
    return s->kind == TypedNode::Kind::kConstant || !s->words.empty() ? 2 : s->quoted ? 1 : 0;
  };
  std::stable_sort(scalars.begin(), scalars.end(), [&](const TypedPtr& x, const TypedPtr& y) { return rank(x) < rank(y); });
  const auto written_out = std::find_if(scalars.begin(), scalars.end(), [&](const TypedPtr& s) { return rank(s) == 2; });
  others.insert(others.begin(), scalars.begin(), written_out);
  others.insert(others.end(), written_out, scalars.end());
  if (others.size() == 1) return others.front();
  // A member whose values tell objects apart is written out in full.
  std::map<std::string, int> finite;
  for (const TypedPtr& a : others)
    for (const auto& m : a->members)
      if (const auto texts = texts_of(*m.node); texts && texts->size() <= kMostSpelled) ++finite[m.key];
  std::set<std::string> keys;
  for (const auto& [key, times] : finite)
    if (times > 1) keys.insert(key);
  TypedNode n{.kind = TypedNode::Kind::kChoice};
  for (const TypedPtr& a : others) {
    const auto texts = a->any_scalar() ? texts_of(*a) : std::nullopt;
    if (texts) {
      for (const std::string& t : *texts) {
        TypedNode c{.kind = TypedNode::Kind::kConstant, .pointer = a->pointer, .text = t, .also_valid = a->also_valid};
        n.alternatives.push_back(std::make_shared<const TypedNode>(std::move(c)));
      }
    } else {
      n.alternatives.push_back(spelled_out(a, keys));
    }
  }
  tell_apart_first(n.alternatives);
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

/// Beside objects and arrays: where one string (or number) is free, all of them become one value, constants included.
void TypedReader::join_scalars(bool string, std::vector<TypedPtr>& scalars, const Place& place) {
  const auto of_type = [string](const TypedPtr& s) {
    if (s->kind == TypedNode::Kind::kScalar) return string ? s->quoted : s->numeric;
    const char c = s->text.empty() ? '\0' : s->text.front();
    return string ? c == '"' : c == '-' || (c >= '0' && c <= '9');
  };
  const auto is_free = [&](const TypedPtr& s) { return of_type(s) && s->kind == TypedNode::Kind::kScalar && s->words.empty(); };
  if (std::count_if(scalars.begin(), scalars.end(), of_type) < 2 || std::none_of(scalars.begin(), scalars.end(), is_free)) return;
  std::vector<TypedPtr> these;
  size_t at = scalars.size();
  for (size_t i = 0; i < scalars.size(); ++i) {
    if (!of_type(scalars[i])) continue;
    at = std::min(at, i);
    these.push_back(string && scalars[i]->kind == TypedNode::Kind::kConstant ? word_of(*scalars[i]) : scalars[i]);
  }
  std::erase_if(scalars, of_type);
  if (TypedPtr one = union_of(these, place)) scalars.insert(scalars.begin() + static_cast<ptrdiff_t>(at), std::move(one));
}

/// A constant string as a value with one word.
TypedPtr TypedReader::word_of(const TypedNode& constant) {
  TypedNode n = constant;
  n.kind = TypedNode::Kind::kScalar;
  n.quoted = true;
  n.words = {constant.text.substr(1, constant.text.size() - 2)};
  n.text.clear();
  return std::make_shared<const TypedNode>(std::move(n));
}

TypedPtr TypedReader::spelled_out(const TypedPtr& object, const std::set<std::string>& keys) const {
  if (object->kind != TypedNode::Kind::kObject || keys.empty()) return object;
  TypedNode n = *object;
  for (auto& m : n.members) {
    const auto texts = keys.contains(m.key) && m.node->kind == TypedNode::Kind::kScalar ? texts_of(*m.node) : std::nullopt;
    if (!texts) continue;
    TypedNode c{.kind = TypedNode::Kind::kChoice, .pointer = m.node->pointer, .also_valid = m.node->also_valid};
    for (const std::string& t : *texts)
      c.alternatives.push_back(
          std::make_shared<const TypedNode>(TypedNode{.kind = TypedNode::Kind::kConstant, .pointer = m.node->pointer, .text = t}));
    m.node = std::make_shared<const TypedNode>(std::move(c));
  }
  return std::make_shared<const TypedNode>(std::move(n));
}

TypedPtr TypedReader::union_of(std::span<const TypedPtr> scalars, const Place& place) {
  TypedNode n{.kind = TypedNode::Kind::kScalar};
  std::vector<std::string> words;
  bool finite = true;
  for (const TypedPtr& s : scalars) {
    const auto texts = texts_of(*s);
    finite = finite && texts;
    if (finite)
      for (const std::string& t : *texts)
        if (std::find(words.begin(), words.end(), t) == words.end()) words.push_back(t);
  }
  for (const TypedPtr& s : scalars) {
    n.budget = std::max(n.budget, s->budget);
    n.narrowed = n.narrowed || s->narrowed;
  }
  n.quoted = std::all_of(scalars.begin(), scalars.end(),
                         [](const TypedPtr& s) { return s->kind == TypedNode::Kind::kScalar && s->quoted; });
  n.numeric = std::all_of(scalars.begin(), scalars.end(), [](const TypedPtr& s) { return s->numeric; });
  if (n.numeric) {
    n.least = scalars.front()->least;
    n.most = scalars.front()->most;
    for (const TypedPtr& s : scalars) n.least = std::min(n.least, s->least), n.most = std::max(n.most, s->most);
  }
  if (finite) {
    n.quoted = false;
    n.words = std::move(words);
  } else {
    std::vector<ByteDfa> languages;
    for (const TypedPtr& s : scalars) {
      auto one = n.quoted ? language_in_quotes(*s) : json_language(*s);
      if (!one) return add(one.error().kind, place.pointer, one.error().message), nullptr;
      languages.push_back(std::move(*one));
    }
    auto all = ByteDfa::either(languages);
    if (!all) return add(all.error().kind, place.pointer, all.error().message), nullptr;
    n.language = std::make_shared<const ByteDfa>(std::move(*all));
  }
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

}  // namespace slip
