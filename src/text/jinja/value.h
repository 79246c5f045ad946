// SPDX-License-Identifier: Apache-2.0
// Values of the template language, and what rendering one template may cost.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace slip::jinja {

struct Value;
struct Node;

/// A macro where it was defined: it sees the names of that scope (jinja.cc) as long as the scope is there. Without a node it is a function
/// or a method that a template names and does not call: something that is there, is true and is nothing else.
struct Macro {
  const Node* node = nullptr;
  size_t scope = 0;
  int64_t serial = 0;  // of the scope; another one may stand there later
  bool operator==(const Macro&) const = default;
};
using List = std::vector<Value>;

/// A list as a value holds it: with its depth, as Value::depth counts it, and what a copy of it takes, its strings included.
struct Listing {
  explicit Listing(List list, bool is_a_tuple = false, bool is_lazy = false);
  List items;
  int depth = 1;
  int64_t bytes = 0;
  bool tuple = false;  // which equals no list
  /// Python's generators, what select, map and their like give: true even without elements, which have no places and are walked over once.
  bool lazy = false;
  mutable bool walked = false;
};

/// In order of insertion; a few entries each, so it is searched from the front, which Budget::look_in pays for.
struct Dict {
  std::vector<std::pair<std::string, Value>> entries;
  bool is_namespace = false;  // made by namespace(): the only thing that a template can change
  int depth = 1;              // of a value; what a namespace is given later does not count
  const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
};

struct Undefined {
  bool operator==(const Undefined&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};

template <class T>
inline constexpr bool kIsResult = false;
template <class T>
inline constexpr bool kIsResult<Result<T>> = true;

struct Value {
  std::variant<Undefined, None, bool, int64_t, double, std::string, std::shared_ptr<const Listing>, std::shared_ptr<Dict>, Macro> v;

  Value() = default;
  // Not a Result: whether one converts to a Value would depend on itself (clang 19).
  template <class T>
  requires(!kIsResult<T>) Value(T x) : v(std::move(x)) {}              // NOLINT: implicit on purpose
  Value(const char* s) : v(std::string(s)) {}                          // NOLINT
  Value(int x) : v(int64_t{x}) {}                                      // NOLINT
  Value(List x) : v(std::make_shared<const Listing>(std::move(x))) {}  // NOLINT
  Value(Dict x);                                                       // NOLINT

  bool undefined() const { return std::holds_alternative<Undefined>(v); }
  bool none() const { return std::holds_alternative<None>(v); }
  const std::string* string() const { return std::get_if<std::string>(&v); }
  const List* list() const {
    const auto* p = std::get_if<std::shared_ptr<const Listing>>(&v);
    return p ? &(*p)->items : nullptr;
  }
  bool is_tuple() const;
  bool is_lazy() const;
  /// kBadInput where a lazy list is walked over a second time: there is nothing left of it, which no template means.
  Status walk() const;
  int64_t list_bytes() const;  // of a copy of a list; 0 of others
  Dict* dict() const {
    const auto* p = std::get_if<std::shared_ptr<Dict>>(&v);
    return p ? p->get() : nullptr;
  }
  /// A dictionary that is no namespace, which has names and no keys.
  Dict* mapping() const { return dict() && !dict()->is_namespace ? dict() : nullptr; }
  const bool* boolean() const { return std::get_if<bool>(&v); }
  bool is_number() const { return std::holds_alternative<int64_t>(v) || std::holds_alternative<double>(v) || boolean(); }
  /// Of a number or a boolean, as Python counts them.
  double number() const;
  /// An integer or a boolean; false for anything else.
  bool integer(int64_t& out) const;
  bool truthy() const;
  /// Lists and dictionaries inside of each other: 0 of plain values, 1 of a list of them.
  int depth() const;
  const char* type_name() const;  // "a string", for messages
};

/// A list that is lazy.
Value lazily(List list);

/// What a copy of a value takes where a list holds it: its place and, of a string, its text.
int64_t copied_bytes(const Value& value);

/// Of lists and dictionaries inside of each other: values are compared, written and freed by recursion.
constexpr int kMostLevels = 100;

constexpr int64_t kKeysPerStep = 64, kBytesPerStep = 4096;
/// 1 million steps and 16 MB of text and lists: hundreds of times what a prompt of a few pages takes. A step is a node of the tree, 64
/// keys that were looked at, or 4,096 bytes that were compared; so the dearest template takes seconds, not minutes.
struct Budget {
  int64_t steps = 1 << 20, bytes = 16 << 20;
  Status take(int64_t n_steps, int64_t n_bytes) {
    steps -= n_steps;
    bytes -= n_bytes;
    if (steps < 0 || bytes < 0)
      return bad_input("expected a template that comes to an end, got one that takes too long or writes too much");
    return {};
  }
  /// Before a key is looked for in so many entries, whose keys may be as long.
  Status look_in(size_t entries, std::string_view key) {
    return take(static_cast<int64_t>(entries / kKeysPerStep + entries * key.size() / kBytesPerStep), 0);
  }
  /// Before two texts are compared.
  Status compare(std::string_view a, std::string_view b) {
    return take(static_cast<int64_t>(std::min(a.size(), b.size()) / kBytesPerStep), 0);
  }
  /// Before all places of a text in another are looked for: std::string's search compares the two at every byte.
  Status look_for(std::string_view text, std::string_view inside) {
    return take(static_cast<int64_t>(text.size() * inside.size() / kBytesPerStep), 0);
  }
};

/// Whether a namespace stands anywhere inside of a value.
Result<bool> holds_namespace(const Value& value, Budget& budget);
/// Puts a copy of a value at a list's end, which is paid for.
Status append(List& list, Value value, Budget& budget);
Result<bool> equal(const Value& a, const Value& b, Budget& budget);
/// Of two numbers or two strings, as Python has it; kBadInput for others. The caller pays for texts (Budget::compare).
Result<std::partial_ordering> order(const Value& a, const Value& b);
/// Python's `in`.
Result<bool> contains(const Value& inside, const Value& value, Budget& budget);
/// As {{ }} prints it; lists and dictionaries are refused.
Result<std::string> to_text(const Value& value);
/// json.dumps with ensure_ascii off; indent -1: on one line.
Status to_json(const Value& value, int indent, Budget& budget, std::string& out);
/// Characters, not bytes, as Python counts them.
int64_t characters(std::string_view s);
/// The characters [begin, end) of valid UTF-8.
std::string_view characters_of(std::string_view s, int64_t begin, int64_t end);

}  // namespace slip::jinja
