// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: a schema in normal form. References are followed, allOf is joined, types, values, bounds and patterns have become
// languages, and what is left says only what is written: constants, values, objects, arrays, and choices between them.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "form/automaton/byte_dfa.h"
#include "form/schema/typed/presence.h"

namespace slip {

constexpr int64_t kMostItems = 4096;      // array items, words of an enum; a longer one is a mistake in the schema
constexpr size_t kMostWord = 1 << 14;     // bytes of a word of an enum
constexpr int64_t kMostBudget = 1 << 16;  // twice the 32,768 positions that the models which forms are for were trained with

struct TypedNode;
using TypedPtr = std::shared_ptr<const TypedNode>;

struct TypedNode {
  enum Type : uint32_t { kString = 1, kNumber = 2, kInteger = 4, kBoolean = 8, kNull = 16, kObject = 32, kArray = 64, kAll = 127 };
  enum class Kind { kConstant, kScalar, kObject, kArray, kChoice };
  struct Member {
    std::string key;
    TypedPtr node;
    bool required = false;  // every answer has it
    bool demanded = false;  // the schema says so: a value without it is not valid
  };
  Kind kind = Kind::kConstant;
  std::string pointer;  // "#/properties/a"
  std::string text;     // of a constant, as json.dumps writes it

  // A scalar: one of `words`, or a text of `language`. Quoted ones stand between quotes that are none of theirs.
  bool quoted = false;
  std::vector<std::string> words;
  std::map<std::string, std::string> aliases;
  std::shared_ptr<const ByteDfa> language;  // null where there are words
  bool numeric = false;
  double least = 0, most = 0;  // of numbers
  int32_t budget = 0;          // x-budget; 0: as the language needs

  std::vector<Member> members;
  bool closed = false;                       // additionalProperties: false
  std::shared_ptr<const Presence> presence;  // which of the members there are together; null: each by its own `required`

  std::vector<TypedPtr> prefix;
  TypedPtr item;  // of those behind the prefix; null: there are none
  TypedPtr name;  // of an object whose members have any names, which is written as an array of names and items; a quoted scalar
  int64_t min_items = 0, max_items = 0;

  /// Of strings, of arrays: there are valid ones besides those that are made, of other texts of a format, or longer ones.
  bool narrowed = false;

  std::vector<TypedPtr> alternatives;
  /// Types of values that are valid too and that no answer is made of: {"maxLength": 3} says nothing of null.
  uint32_t also_valid = 0;

  std::optional<std::string> section;
  std::optional<std::vector<std::string>> parents;
  bool any_scalar() const {
    return kind == Kind::kConstant ? !text.starts_with("{") && !text.starts_with("[") : kind == Kind::kScalar;
  }
};

struct TypedSchema {
  TypedPtr root;
  int32_t block_size = 32;
  bool any_parents = false;
  std::vector<std::string> notes;  // of keywords that nothing is held to, with their pointers
};

/// What a list and a text may take where the schema says neither maxItems nor maxLength.
struct UsualSizes {
  int64_t items = 8;    // or minItems where that is more
  int32_t tokens = 64;  // of a value that has no longest text, or a longer one
};

/// What is tried instead, in this order, where a form would be too large.
inline constexpr std::array<UsualSizes, 4> kLessUsual{{{6, 48}, {4, 32}, {3, 24}, {2, 16}}};
inline constexpr UsualSizes kLeastSizes = kLessUsual.back();

/// kUnsupported or kBadInput with all errors: "form f: 2 errors: #/properties/a/pattern: expected ..., got ...; #/properties/b: ...".
Result<TypedSchema> read_typed(const json::value& schema, std::string_view form_name, const UsualSizes& usual = {});
/// The same errors, one by one.
std::vector<Error> errors_of_schema(const json::value& schema, std::string_view form_name);

/// Is no value that is made for `a` valid for `b`? False where that cannot be shown.
bool excludes(const TypedNode& a, const TypedNode& b);
/// Are the same texts written for both? `work` goes down by what was compared; false where it is used up.
bool same_text(const TypedNode& a, const TypedNode& b, int64_t& work);
/// Is anything in it not fixed?
bool has_values(const TypedNode& node);
/// The language of a scalar or constant with its quotes.
Result<ByteDfa> json_language(const TypedNode& node);

}  // namespace slip
