// SPDX-License-Identifier: Apache-2.0
// Weights on a device: from the processor's packed matrices, row by row, to the tiles of kernels.h. Integers stay what they are, those of int4 too,
// which are a byte each here.
#pragma once
#include <functional>
#include <span>

#include "base/threads/threads.h"
#include "cuda/device/runtime.h"
#include "cuda/kernels.h"
#include "kernels/kernels.h"

namespace slip::cuda {

struct DeviceMatrix {
  Memory memory, scales;
  Tiles tiles;
};

/// Whether matrices of this type can be products' weights.
inline bool has_tiles(WeightType type) { return type != WeightType::kF32; }

/// Bytes of a product's rows of `width` numbers; whole blocks of rows are read, so that the last of them may reach past the end.
inline size_t row_bytes(size_t rows, int64_t width) {
  constexpr size_t kMostBlock = 192;
  const auto steps = static_cast<size_t>((width + kInnerStep - 1) / kInnerStep);
  return (steps * ((rows + 7) / 8 * 8) + kMostBlock) * kInnerStep * sizeof(Bf16);
}
inline RowTiles row_tiles(const Memory& m, int rows) { return {m.data<Bf16>(), (rows + 7) / 8 * 8}; }

/// What every product is given; bias, results and room for choices are the caller's.
inline ProductArgs product_args(const int32_t* count, const DeviceMatrix& w, const RowTiles& x_TK, Then then,
                                const Shares& shares) {
  ProductArgs args{};
  args.count = count;
  args.w = w.tiles;
  args.x_TK = x_TK;
  args.then = then;
  args.shares = shares;
  return args;
}

/// Channels n of w as they are.
Result<DeviceMatrix> upload(Device& device, const PackedMatrix& w, ThreadPool& pool);
/// gate_up (2F channels: gate, then up) with eight channels of gate and of up taking turns; F is filled up to whole steps with zeros.
Result<DeviceMatrix> upload_gate_up(Device& device, const PackedMatrix& w, ThreadPool& pool);
/// The order of upload_gate_up for a bias of 2F numbers.
std::vector<float> order_gate_up(std::span<const float> bias);
/// Numbers as they are; nothing for an empty span.
Result<Memory> upload(Device& device, std::span<const float> numbers);

}  // namespace slip::cuda
