// SPDX-License-Identifier: Apache-2.0
#include "cuda/tiles.h"

#include "core/dtype.h"

namespace slip::cuda {
namespace {

constexpr int kTileNumbers = kTileChannels * kInnerStep;
// Blocks of a product take 1, 2 or 4 tiles: as many as leave a block or more for each of a large device's 132 processors, several times over.
constexpr int32_t kManyTiles = 528, kVeryManyTiles = 4 * kManyTiles;

int32_t tiles_per_block(int32_t tiles, bool pairs) { return tiles >= kVeryManyTiles ? 4 : tiles >= kManyTiles || pairs ? 2 : 1; }

/// `source(n)`: the channel of w that stands at place n of the tiles, or -1.
Result<DeviceMatrix> upload_as(Device& device, const PackedMatrix& w, int64_t places, bool pairs,
                               const std::function<int64_t(int64_t)>& source, ThreadPool& pool) {
  DeviceMatrix m;
  Tiles& t = m.tiles;
  t.n = static_cast<int32_t>(places);
  t.k = static_cast<int32_t>(w.k());
  t.steps = static_cast<int32_t>((w.k() + kInnerStep - 1) / kInnerStep);
  const auto whole = static_cast<int32_t>((places + kTileChannels - 1) / kTileChannels);
  t.tiles_per_block = tiles_per_block(whole, pairs);
  t.tiles = (whole + t.tiles_per_block - 1) / t.tiles_per_block * t.tiles_per_block;
  std::vector<uint16_t> host(static_cast<size_t>(t.tiles) * static_cast<size_t>(t.steps) * kTileNumbers, 0);
  pool.run(whole, [&](int64_t tile) {
    std::vector<float> row(static_cast<size_t>(w.k()));
    for (int64_t c = 0; c < kTileChannels; ++c) {
      const int64_t n = tile * kTileChannels + c, from = n < places ? source(n) : -1;
      if (from < 0) continue;
      w.row(from, row);
      uint16_t* to = host.data() + tile * t.steps * kTileNumbers;
      for (int64_t k = 0; k < w.k(); ++k)
        to[k / kInnerStep * kTileNumbers + c / 8 * 256 + (c % 8 * 4 + k % kInnerStep / 8) * 8 + k % 8] =
            to_bf16(row[static_cast<size_t>(k)]).bits;
    }
  });
  SLIP_TRY(m.memory, device.allocate(host.size() * sizeof(uint16_t), "weights"));
  SLIP_TRY_(device.copy_in(m.memory.data(), host.data(), host.size() * sizeof(uint16_t)));
  SLIP_TRY_(device.wait());
  t.data = m.memory.data();
  return m;
}

}  // namespace

Result<DeviceMatrix> upload(Device& device, const PackedMatrix& w, ThreadPool& pool) {
  return upload_as(
      device, w, w.n(), false, [](int64_t n) { return n; }, pool);
}

Result<DeviceMatrix> upload_gate_up(Device& device, const PackedMatrix& w, ThreadPool& pool) {
  const int64_t width = w.n() / 2, tiles = (width + kTileChannels - 1) / kTileChannels;
  const auto source = [width](int64_t n) {
    const int64_t channel = n / (2 * kTileChannels) * kTileChannels + n % kTileChannels;
    return channel >= width ? -1 : n / kTileChannels % 2 == 0 ? channel : width + channel;
  };
  return upload_as(device, w, 2 * tiles * kTileChannels, true, source, pool);
}

std::vector<float> order_gate_up(std::span<const float> bias) {
  const size_t width = bias.size() / 2, tiles = (width + kTileChannels - 1) / kTileChannels;
  std::vector<float> out(bias.empty() ? 0 : 2 * tiles * kTileChannels, 0);
  for (size_t f = 0; f < width; ++f) {
    const size_t at = f / kTileChannels * 2 * kTileChannels + f % kTileChannels;
    out[at] = bias[f];
    out[at + kTileChannels] = bias[width + f];
  }
  return out;
}

Result<Memory> upload(Device& device, std::span<const float> numbers) {
  if (numbers.empty()) return Memory{};
  SLIP_TRY(Memory m, device.allocate(numbers.size_bytes(), "weights"));
  SLIP_TRY_(device.copy_in(m.data(), numbers.data(), numbers.size_bytes()));
  SLIP_TRY_(device.wait());
  return m;
}

}  // namespace slip::cuda
