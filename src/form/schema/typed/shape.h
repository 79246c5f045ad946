// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: a typed schema as text between values. Slots are the places of values; behind each (and at the start) stand one or
// more ways on: a text and the slot that it leads to, or the end. Every way leads further on, so that an answer is a path.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "form/schema/typed/typed.h"

namespace slip {

struct Way {
  std::string text;
  int32_t to = 0;  // the slot; kEnd
};

struct Slot {
  TypedPtr node;
  std::string name;    // "a.0.b", unique
  bool space = false;  // its content begins with the space that stands before it
  int32_t section = 0;
  std::optional<std::vector<std::string>> parents;
};

struct Shape {
  static constexpr int32_t kEnd = -1;
  std::vector<Slot> slots;
  std::vector<std::vector<Way>> ways;  // of the start, then of each slot
  std::vector<std::string> section_names;
  int32_t block_size = 32;
  bool any_parents = false;
};

/// Of the error of a form that has more ways at a place than are followed: lists of lists of lists, each as long as is usual.
inline constexpr std::string_view kTooManyWays = "ways side by side";

/// kBadInput where the whole form grows beyond its bounds. `space_fixed`: the space before a value that stands beside an object or an array is
/// fixed and none of its content, for vocabularies in which the other one begins with a space by itself.
Result<Shape> shape_of(const TypedSchema& schema, std::string_view form_name, bool space_fixed = false);

}  // namespace slip
