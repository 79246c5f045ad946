// SPDX-License-Identifier: Apache-2.0
// Pictures on a device: Pillow's bicubic by its integer taps, patches, and features put into the order of an image's cells. A thread makes a pixel.
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kThreads = 256;
constexpr int32_t kHalf = 1 << (kTapFractionBits - 1);

__device__ inline uint8_t to_byte(int32_t sum) {
  const int32_t v = sum >> kTapFractionBits;
  return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
}

__global__ void __launch_bounds__(kThreads) resize_kernel(ResizeArgs a) {
  let_next_start();
  wait_for_previous();
  const int x = block_y() * kThreads + thread(), y = block_x();
  if (x >= a.width) return;
  const int along = a.down ? y : x;
  const TapRange range = a.ranges[along];
  const int32_t* weights = a.weights + static_cast<size_t>(along) * static_cast<size_t>(a.stride);
  const size_t line = static_cast<size_t>(a.in_width) * 3, step = a.down ? line : 3;
  const uint8_t* p = a.in + (a.down ? static_cast<size_t>(range.first) * line + static_cast<size_t>(x) * 3
                                    : static_cast<size_t>(y) * line + static_cast<size_t>(range.first) * 3);
  int32_t r = kHalf, g = kHalf, b = kHalf;
  for (int i = 0; i < range.count; ++i, p += step) {
    const int32_t w = weights[i];
    r += p[0] * w;
    g += p[1] * w;
    b += p[2] * w;
  }
  uint8_t* to = a.out + (static_cast<size_t>(y) * static_cast<size_t>(a.width) + static_cast<size_t>(x)) * 3;
  to[0] = to_byte(r);
  to[1] = to_byte(g);
  to[2] = to_byte(b);
}

__global__ void __launch_bounds__(kThreads) cut_kernel(CutArgs a) {
  let_next_start();
  wait_for_previous();
  const int x = block_y() * kThreads + thread(), y = block_x();
  if (x >= a.width) return;
  const int row = y / a.patch, column = x / a.patch, blocks = a.width / a.patch / a.merge;
  const int block = row / a.merge * blocks + column / a.merge;
  const size_t patch = static_cast<size_t>((block * a.merge + row % a.merge) * a.merge + column % a.merge);
  const size_t area = static_cast<size_t>(a.patch) * static_cast<size_t>(a.patch), frames = static_cast<size_t>(a.frames);
  const uint8_t* from = a.rgb + (static_cast<size_t>(y) * static_cast<size_t>(a.width) + static_cast<size_t>(x)) * 3;
  float* to = a.pixels_PN + patch * 3 * frames * area + static_cast<size_t>(y % a.patch * a.patch + x % a.patch);
  for (int channel = 0; channel < 3; ++channel) {
    const float v = a.table[channel * 256 + from[channel]];
    for (int f = 0; f < a.frames; ++f, to += area) *to = v;
  }
}

__global__ void __launch_bounds__(kThreads) put_cells_kernel(PutCellsArgs a) {
  let_next_start();
  wait_for_previous();
  const size_t width = static_cast<size_t>(a.width), cell = static_cast<size_t>(a.first_cell + block_x());
  const int to = a.source_P[cell * static_cast<size_t>(a.cell_patches)] / a.cell_patches - a.first_cell;
  for (int d = thread(); d < a.width; d += kThreads)
    a.out_CE[static_cast<size_t>(to) * width + static_cast<size_t>(d)] = a.features_CE[cell * width + static_cast<size_t>(d)];
}

}  // namespace

void resize(const ResizeArgs& args, StreamHandle stream) {
  launch(resize_kernel, args.height, (args.width + kThreads - 1) / kThreads, kThreads, 0, static_cast<Stream>(stream), args);
}
void cut(const CutArgs& args, StreamHandle stream) {
  launch(cut_kernel, args.height, (args.width + kThreads - 1) / kThreads, kThreads, 0, static_cast<Stream>(stream), args);
}
void put_cells(const PutCellsArgs& args, int cells, StreamHandle stream) {
  launch(put_cells_kernel, cells, 1, kThreads, 0, static_cast<Stream>(stream), args);
}

}  // namespace slip::cuda
