// SPDX-License-Identifier: Apache-2.0
// What the tests of attention share: keys and values of every type, and lists of spans of every kind.
#pragma once
#include <algorithm>

#include "core/dtype.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {

using SpanList = std::vector<SlotSpan>;

struct Shape {
  int32_t heads, kv_heads, width;
};
inline std::vector<Shape> shapes(KvType type) {
  const int32_t odd = type == KvType::kF32 ? 13 : type == KvType::kBF16 ? 14 : 20;  // pairs: even widths; quads: multiples of 4
  return {{14, 2, 8}, {4, 4, 16}, {6, 1, 40}, {3, 3, 64}, {2, 2, 80}, {16, 2, 128}, {5, 5, odd}, {70, 1, 12}, {1, 1, 256}};
}

/// Calls f(type) for all types of keys, on every instruction set.
template <class F>
void on_every_isa_and_type(const F& f) {
  on_every_isa([&](Isa) {
    for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kI8}) {
      SCOPED_TRACE(type == KvType::kF32 ? "f32" : type == KvType::kBF16 ? "bf16" : "int8");
      f(type);
    }
  });
}

/// Keys or values of all slots and heads in bytes, and their scales.
struct Bytes {
  std::vector<uint8_t> numbers;
  std::vector<float> scales;
  Bytes(const std::vector<float>& x, size_t width, bool key) : numbers(x.size()), scales(x.size() / width) {
    for (size_t i = 0; i < scales.size(); i++)
      to_kv_i8(&x[i * width], static_cast<int64_t>(width), key, &numbers[i * width], &scales[i]);
  }
};

/// `keys` and `values` are numbers of `type` as f32; for int8 any numbers, quantised by run().
struct Problem {
  Shape shape;
  KvType type;
  int64_t slots;
  std::vector<float> q, keys, values;
  std::vector<SpanList> sees;
  std::vector<float> q_scale;
  Problem(Shape s, KvType kv, int64_t slot_count, std::vector<SpanList> lists, uint32_t seed)
      : shape(s), type(kv), slots(slot_count), sees(std::move(lists)) {
    q = plain_numbers(rows() * s.heads * s.width, seed);
    keys = plain_numbers(slots * s.kv_heads * s.width, seed + 1);
    values = numbers(slots * s.kv_heads * s.width, seed + 2);
    for (std::vector<float>* x : {&keys, &values})
      for (float& v : *x)
        if (type == KvType::kBF16) v = to_float(to_bf16(v));
  }
  static std::vector<uint16_t> as_bf16(const std::vector<float>& x) {
    std::vector<uint16_t> out;
    for (const float v : x) out.push_back(to_bf16(v).bits);
    return out;
  }
  int64_t rows() const { return static_cast<int64_t>(sees.size()); }
  int64_t row_numbers() const { return int64_t{shape.heads} * shape.width; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.width)); }

  /// Rows [begin, end) in one call.
  std::vector<float> run(int64_t begin, int64_t end, ThreadPool& pool) const {
    std::vector<RowSpans> row_spans;
    SpanList flat;
    for (int64_t t = begin; t < end; t++) {
      row_spans.push_back({static_cast<uint32_t>(flat.size()), static_cast<uint32_t>(sees[t].size())});
      flat.insert(flat.end(), sees[t].begin(), sees[t].end());
    }
    std::vector<float> out((end - begin) * row_numbers(), NAN);
    Workspace workspace;
    const std::vector<uint16_t> keys_16 = as_bf16(keys), values_16 = as_bf16(values);
    const auto width = static_cast<size_t>(shape.width);
    const Bytes keys_8(keys, width, true), values_8(values, width, false);
    const auto stored = [&](const auto& f32, const auto& bf16, const Bytes& i8) -> const void* {
      if (type == KvType::kF32) return f32.data();
      if (type == KvType::kBF16) return bf16.data();
      return i8.numbers.data();
    };
    attention({.q_THK = q.data() + begin * row_numbers(),
               .kv_type = type,
               .keys_SGK = stored(keys, keys_16, keys_8),
               .values_SGK = stored(values, values_16, values_8),
               .key_scales_SG = keys_8.scales.data(),
               .value_scales_SG = values_8.scales.data(),
               .out_THK = out.data(),
               .rows = end - begin,
               .heads = shape.heads,
               .kv_heads = shape.kv_heads,
               .head_width = shape.width,
               .scale = scale(),
               .row_spans = row_spans,
               .spans = flat,
               .q_scale_T = q_scale.empty() ? nullptr : q_scale.data() + begin},
              pool, workspace);
    return out;
  }
  std::vector<float> run(ThreadPool& pool) const { return run(0, rows(), pool); }
  std::vector<float> run_alone(ThreadPool& pool) const {
    std::vector<float> out;
    for (int64_t t = 0; t < rows(); t++) {
      const auto row = run(t, t + 1, pool);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }
};

/// Causal rows, rows with holes, rows that see nothing, blocks, and empty spans in between.
inline std::vector<SpanList> mixed_lists(int32_t slots, int rows, uint32_t seed) {
  std::mt19937 engine(seed);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(engine() % static_cast<uint32_t>(n)); };
  std::vector<SpanList> lists;
  for (int t = 0; t < rows; t++) {
    SpanList list;
    switch (below(5)) {
      case 0:
        break;
      case 1:
        list.push_back({0, 1 + below(slots)});
        break;
      case 2:
        list = {{0, slots / 2}, {slots / 2, slots / 2}, {slots / 2 + 3, slots}};
        break;
      default:
        for (int i = below(6); i >= 0; i--) {
          const int32_t begin = below(slots);
          list.push_back({begin, std::min(slots, begin + below(40))});
        }
    }
    lists.push_back(list);
  }
  return lists;
}
inline std::vector<SpanList> causal(int32_t rows, int32_t before) {
  std::vector<SpanList> lists;
  for (int32_t t = 0; t < rows; t++) lists.push_back({{0, before + t + 1}});
  return lists;
}

}  // namespace slip
