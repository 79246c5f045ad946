// SPDX-License-Identifier: Apache-2.0
// Python's pickle as far as a checkpoint needs it, read as data: containers, numbers, texts, and the few constructors that torch
// writes for a tensor. Opcodes and globals are whitelists, nothing is ever called or imported, and everything is bounded, so a
// hostile file is an error and nothing else [Python, pickletools].
//
// Objects are nodes that refer to each other by number. References may form cycles: whoever walks them bounds the depth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

struct PickleNode {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInteger,
    kReal,
    kText,
    kTuple,
    kList,
    kDict,     // items: key, value, key, value ...
    kGlobal,   // text: "torch.FloatStorage"
    kStorage,  // text: its key in the archive; integer: elements; items[0]: the global of its type
    kTensor    // items: storage, offset, sizes, strides, requires_grad, hooks
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int32_t> items;
};

struct PickleObjects {
  std::vector<PickleNode> nodes;
  int32_t root = 0;
  const PickleNode& at(int32_t i) const { return nodes[static_cast<size_t>(i)]; }
};

/// `where` opens messages. kBadInput names the offset: a truncated file, an opcode or a global that no checkpoint of tensors has,
/// a construct that does not fit, or a size beyond the bounds.
Result<PickleObjects> read_pickle(std::span<const std::byte> bytes, std::string_view where);

}  // namespace slip
