// SPDX-License-Identifier: Apache-2.0
// Tokens and the tree of a chat template. One node type for expressions and statements: what its parts are stands beside its kind.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace slip::jinja {

enum class TokenType : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kPrintBegin,
  kPrintEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};
struct Token {
  TokenType type;
  std::string text;  // a string's contents, a number's digits
  int line;
};
Result<std::vector<Token>> tokenize(std::string_view source, std::string_view where);

enum class Kind : uint8_t {
  kConstant,   // value
  kName,       // text
  kList,       // kids; flag: a tuple
  kDict,       // kids: key, value, key, value ...
  kAttribute,  // kids[0] . text
  kIndex,      // kids[0] [ kids[1] ]
  kSlice,      // kids[0] [ kids[1] : kids[2] : kids[3] ], null where absent
  kCall,       // text ( kids, named )
  kMethod,     // kids[0] . text ( kids from 1, named )
  kFilter,     // kids[0] | text ( kids from 1, named )
  kTest,       // kids[0] is text ( kids from 1 ); flag: is not
  kNegative,   // - kids[0]
  kBinary,     // kids[0] text kids[1]
  kCompare,    // kids[0] names[0] kids[1] names[1] kids[2] ...
  kAnd,
  kOr,
  kNot,
  kConditional,   // kids[1] ? kids[0] : kids[2], null where absent
  kData,          // text
  kPrint,         // kids[0]
  kIf,            // kids[0], body, otherwise
  kFor,           // names in kids[0] if kids[1] (null where absent), body, otherwise
  kSet,           // names = kids[0]
  kSetAttribute,  // names[0] . text = kids[0]
  kSetBlock,      // text = body
  kMacro,         // text ( names; kids: defaults of the last names ), body
  kBreak,
  kContinue,
  kBody,  // body
};
struct Node {
  Kind kind;
  int line = 0;
  std::string text = {};
  Value value = {};
  bool flag = false;
  std::vector<std::string> names = {};
  std::vector<std::unique_ptr<Node>> kids = {};
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> named = {};
  std::vector<std::unique_ptr<Node>> body = {}, otherwise = {};
};
using NodePtr = std::unique_ptr<Node>;
Result<NodePtr> parse(const std::vector<Token>& tokens, std::string_view where);

// ---- the library (library.cc, methods.cc; tests in operators.cc)

/// Arguments of a call, evaluated.
struct Arguments {
  List values;
  std::vector<std::pair<std::string, Value>> named;
  /// The argument at a place or by name; undefined when absent. No copy, since one argument may serve many elements of a list.
  const Value& at(size_t place, std::string_view name) const;
  bool has(size_t place, std::string_view name) const;
};
/// Refuses more arguments than `most`, and names that are not among `names` ("default base").
Status only(std::string_view what, const Arguments& a, size_t most, std::string_view names);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_method(std::string_view name);
bool is_function(std::string_view name);
/// Functions that a template finds defined. Not strftime_now, which is there where a date is given (ChatOptions::date).
bool is_global(std::string_view name);
Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);
Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);
Result<Value> call_method(std::string_view name, const Value& object, const Arguments& arguments, Budget& budget);
/// What Python's own type has under a name, as Jinja's sandbox gives it: methods, and undefined in place of those that change their
/// object. Null where the type has nothing of that name; kUnsupported for parts of numbers.
Result<const Value*> own_attribute(const Value& object, std::string_view name);
/// C's strftime of a day ("2026-11-20"; empty: today) at noon, for formats of days, months and years.
Result<std::string> format_date(const std::string& day, const std::string& format);
/// What a for loop walks over: elements, keys, or characters.
Result<List> elements(const Value& value, Budget& budget);

/// Without what Python's str.strip() takes off at either end.
std::string_view without_blanks(std::string_view s, bool left, bool right);

// ---- operators (operators.cc)

/// a op b: ~ + - * / // %
Result<Value> operate(const std::string& op, const Value& a, const Value& b, Budget& budget);
/// left op right: == != < > <= >= in, not in
Result<bool> holds_between(const std::string& op, const Value& left, const Value& right, Budget& budget);
/// object[key]; undefined where there is none.
Result<Value> element(const Value& object, const Value& key);
Result<Value> range(const Arguments& arguments, Budget& budget);

}  // namespace slip::jinja
