// SPDX-License-Identifier: Apache-2.0
// What operators, tests, indices and range do with values; which operands they have is the tree's business (jinja.cc).
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/syntax.h"

namespace slip::jinja {
namespace {

Result<Value> repeated(const std::string& text, int64_t times, Budget& budget) {
  if (times <= 0 || text.empty()) return Value("");
  if (times > budget.bytes) return bad_input("expected a shorter text, got a string times {}", times);
  SLIP_TRY_(budget.take(0, times * static_cast<int64_t>(text.size())));
  std::string out;
  for (int64_t i = 0; i < times; ++i) out += text;
  return Value(std::move(out));
}

// Python's integers have no end; these do.
Result<Value> integers(char op, const std::string& text, int64_t x, int64_t y) {
  int64_t out = 0;
  if ((text == "/" || text == "//" || text == "%") && y == 0) return bad_input("expected a divisor other than 0, got 0");
  if (text == "/") return Value(static_cast<double>(x) / static_cast<double>(y));
  if (text == "//" || text == "%") {
    if (y == -1) return text == "%" ? Result<Value>(Value(0)) : integers('-', "-", 0, x);
    const bool below = x % y != 0 && (x % y < 0) != (y < 0);  // C++ cuts off towards 0, Python towards the number below
    if (text == "%") return Value(x % y + (below ? y : 0));
    return Value(x / y - (below ? 1 : 0));
  }
  const bool overflow = op == '+'   ? __builtin_add_overflow(x, y, &out)
                        : op == '-' ? __builtin_sub_overflow(x, y, &out)
                                    : __builtin_mul_overflow(x, y, &out);
  if (overflow) return bad_input("expected numbers of at most 63 bits, got more");
  return Value(out);
}
Result<Value> numbers(const std::string& op, double x, double y) {
  if (op == "+") return Value(x + y);
  if (op == "-") return Value(x - y);
  if (op == "*") return Value(x * y);
  if (y == 0) return bad_input("expected a divisor other than 0, got 0");
  if (op == "/") return Value(x / y);
  // As CPython's float_divmod: the remainder first, which is exact and of the divisor's sign.
  double rest = std::fmod(x, y);
  if (rest == 0) rest = std::copysign(0.0, y);
  if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
  if (op == "%") return Value(rest);
  const double quotient = (x - rest) / y;
  return Value(quotient == 0 ? std::copysign(0.0, x / y) : std::round(quotient));
}

constexpr std::array<std::string_view, 26> kTests = {"boolean",   "callable", "defined", "divisibleby", "eq",     "equalto",
                                                     "even",      "==",       "!=",      "false",       "float",  "in",
                                                     "integer",   "iterable", "lower",   "mapping",     "ne",     "none",
                                                     "number",    "odd",      "sameas",  "sequence",    "string", "true",
                                                     "undefined", "upper"};

constexpr std::array<std::string_view, 8> kTestsOfTwo = {"divisibleby", "eq", "equalto", "==", "!=", "in", "ne", "sameas"};

Result<bool> divides(const Value& value, const Value& by) {
  int64_t x = 0, y = 0;
  if (!value.integer(x) || !by.integer(y) || y == 0)
    return bad_input("divisibleby: expected two integers, got {} and {}", value.type_name(), by.type_name());
  return y == -1 || x % y == 0;
}

// Python's str.islower and str.isupper: all letters are of the case, and there is one.
Result<bool> is_of_case(std::string_view name, const Value& v, Budget& budget) {
  if (!v.string()) return false;
  SLIP_TRY(const Value folded, call_method(name, v, {}, budget));
  const bool letters =
      std::any_of(v.string()->begin(), v.string()->end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  return letters && *folded.string() == *v.string();
}
// Python's `is`: one object. Plain values are as good as one where they are equal and of one type.
Result<bool> is_same(const Value& a, const Value& b, Budget& budget) {
  if (a.v.index() != b.v.index() || a.undefined()) return false;
  if (a.list() || a.dict()) return a.v == b.v;
  return equal(a, b, budget);
}

}  // namespace

Result<Value> operate(const std::string& op, const Value& a, const Value& b, Budget& budget) {
  if (op == "~") {
    SLIP_TRY(std::string left, to_text(a));
    SLIP_TRY(const std::string right, to_text(b));
    return Value(left + right);
  }
  if (op == "+" && a.string() && b.string()) return Value(*a.string() + *b.string());
  if (op == "+" && a.list() && b.list() && a.is_tuple() == b.is_tuple() && !a.is_lazy() && !b.is_lazy()) {
    SLIP_TRY_(budget.take(0, a.list_bytes() + b.list_bytes()));
    List joined = *a.list();
    joined.insert(joined.end(), b.list()->begin(), b.list()->end());
    return Value(std::make_shared<const Listing>(std::move(joined), a.is_tuple()));
  }
  int64_t x = 0, y = 0;
  if (op == "*" && ((a.string() && b.integer(y)) || (b.string() && a.integer(y))))
    return repeated(a.string() ? *a.string() : *b.string(), y, budget);
  if (a.integer(x) && b.integer(y)) return integers(op[0], op, x, y);
  if (a.is_number() && b.is_number()) return numbers(op, a.number(), b.number());
  return bad_input("expected two strings, two lists or two numbers for {}, got {} and {}", op, a.type_name(), b.type_name());
}

Result<bool> holds_between(const std::string& op, const Value& left, const Value& right, Budget& budget) {
  if (op == "==" || op == "!=") {
    SLIP_TRY(const bool same, equal(left, right, budget));
    return same == (op == "==");
  }
  if (op == "in" || op == "not in") {
    SLIP_TRY(const bool inside, contains(right, left, budget));
    return inside == (op == "in");
  }
  if (left.string() && right.string()) SLIP_TRY_(budget.compare(*left.string(), *right.string()));
  SLIP_TRY(const std::partial_ordering found, order(left, right));
  return op == "<" ? found < 0 : op == ">" ? found > 0 : op == "<=" ? found <= 0 : found >= 0;
}

Result<Value> element(const Value& object, const Value& key) {
  if (const Dict* d = object.dict()) {
    if (const Value* v = key.string() ? d->find(*key.string()) : nullptr) return *v;
  }
  if (object.undefined()) return bad_input("expected something to have an index, got an undefined value");
  if (object.is_lazy()) return Value();
  if (key.string()) {
    SLIP_TRY(const Value* const own, own_attribute(object, *key.string()));
    return own ? *own : Value();
  }
  int64_t i = 0;
  if (!key.integer(i)) return Value();
  if (const List* l = object.list()) {
    if (i < 0) i += static_cast<int64_t>(l->size());
    return i >= 0 && i < static_cast<int64_t>(l->size()) ? (*l)[static_cast<size_t>(i)] : Value();
  }
  if (const std::string* s = object.string()) {
    const int64_t length = characters(*s);
    if (i < 0) i += length;
    return i >= 0 && i < length ? Value(std::string(characters_of(*s, i, i + 1))) : Value();
  }
  return Value();
}

Result<Value> range(const Arguments& a, Budget& budget) {
  int64_t ends[3] = {0, 0, 1};
  if (a.values.empty() || a.values.size() > 3) return bad_input("range: expected one to three integers, got {}", a.values.size());
  const size_t first = a.values.size() == 1 ? 1 : 0;
  for (size_t i = 0; i < a.values.size(); ++i)
    if (!a.values[i].integer(ends[first + i])) return bad_input("range: expected integers, got {}", a.values[i].type_name());
  if (ends[2] == 0) return bad_input("range: expected a step other than 0, got 0");
  List out;
  for (int64_t i = ends[0]; ends[2] > 0 ? i < ends[1] : i > ends[1];) {
    SLIP_TRY_(budget.take(1, 0));
    SLIP_TRY_(append(out, i, budget));
    if (__builtin_add_overflow(i, ends[2], &i)) break;  // beyond any end
  }
  return Value(std::move(out));
}

bool is_test(std::string_view name) { return std::find(kTests.begin(), kTests.end(), name) != kTests.end(); }

Result<bool> apply_test(std::string_view name, const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY_(budget.take(1, 0));
  const size_t operands = std::find(kTestsOfTwo.begin(), kTestsOfTwo.end(), name) == kTestsOfTwo.end() ? 0 : 1;
  if (a.values.size() != operands || !a.named.empty())
    return bad_input("{}: expected {} arguments, got {}", name, operands, a.values.size() + a.named.size());
  const Value& other = a.at(0, "");
  if (name == "defined" || name == "undefined") return v.undefined() == (name == "undefined");
  if (name == "none") return v.none();
  if (name == "string") return v.string() != nullptr;
  if (name == "mapping") return v.mapping() != nullptr;
  if (name == "sequence" || name == "iterable")
    return (v.list() && !(v.is_lazy() && name == "sequence")) || v.string() || v.mapping() || v.undefined();
  if (name == "boolean") return v.boolean() != nullptr;
  if (name == "true") return v.boolean() && *v.boolean();
  if (name == "false") return v.boolean() && !*v.boolean();
  if (name == "number") return v.is_number();
  if (name == "integer") return std::holds_alternative<int64_t>(v.v);
  if (name == "float") return std::holds_alternative<double>(v.v);
  if (name == "callable") return v.undefined() || std::holds_alternative<Macro>(v.v);  // Jinja's Undefined is
  if (name == "in") return contains(other, v, budget);
  if (name == "odd" || name == "even") {
    SLIP_TRY(const bool even, divides(v, 2));
    return even == (name == "even");
  }
  if (name == "divisibleby") return divides(v, other);
  if (name == "sameas") return is_same(v, other, budget);
  if (name == "lower" || name == "upper") return is_of_case(name, v, budget);
  SLIP_TRY(const bool same, equal(v, other, budget));
  return same == (name != "ne" && name != "!=");
}

}  // namespace slip::jinja
