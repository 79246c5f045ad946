// SPDX-License-Identifier: Apache-2.0
#include "cuda/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "core/dtype.h"

namespace slip::cuda {
namespace {

/// Tiles of weights on their way: halves of page-locked memory, one of which is filled while the other's copy runs.
constexpr size_t kStagingBytes = size_t{64} << 20;

/// A channel's bf16 numbers in its line of every step.
void put_numbers(std::span<const float> row, int channel, std::byte* line) {
  auto* to = reinterpret_cast<uint16_t*>(line) + channel * kInnerStep;
  for (size_t k = 0; k < row.size(); ++k)
    to[k / kInnerStep * kTileNumbers + static_cast<size_t>(line_place(channel, static_cast<int>(k % kInnerStep)))] =
        to_bf16(row[k]).bits;
}

/// The same of integers, which are its numbers over their scale.
void put_bytes(std::span<const float> row, float scale, int channel, std::byte* line) {
  auto* to = reinterpret_cast<uint8_t*>(line);
  for (size_t k = 0; k < row.size(); ++k) {
    const auto number = scale > 0 ? static_cast<int>(std::lround(row[k] / scale)) : 0;
    to[k / kInnerStep * kTileNumbers + static_cast<size_t>(byte_place(channel, static_cast<int>(k % kInnerStep)))] =
        static_cast<uint8_t>(number + kByteZero);
  }
}

/// `source(n)`: the channel of w that stands at place n of the tiles, or -1.
Result<DeviceMatrix> upload_as(Device& device, const PackedMatrix& w, int64_t places, const std::function<int64_t(int64_t)>& source,
                               ThreadPool& pool) {
  SLIP_CHECK(has_tiles(w.type()), "whoever uploads has asked");
  const bool bytes = w.type() != WeightType::kBF16;
  DeviceMatrix m;
  Tiles& t = m.tiles;
  t.n = static_cast<int32_t>(places);
  t.k = static_cast<int32_t>(w.k());
  t.steps = static_cast<int32_t>((w.k() + kInnerStep - 1) / kInnerStep);
  const auto whole = static_cast<int32_t>((places + kTileChannels - 1) / kTileChannels);
  t.tiles = (whole + 1) / 2 * 2;
  const size_t line_bytes = static_cast<size_t>(t.steps) * kTileNumbers * (bytes ? 1 : sizeof(uint16_t));
  SLIP_TRY(m.memory, device.allocate(static_cast<size_t>(t.tiles) * line_bytes, "weights"));
  SLIP_TRY(void* const staging, device.staging(std::max(kStagingBytes, 2 * line_bytes)));
  const auto each = static_cast<int64_t>(device.staging_bytes() / 2 / line_bytes);
  const auto channel_at = [&](int64_t n) { return n < places ? source(n) : -1; };
  const auto fill = [&](int64_t tile, std::byte* to) {
    std::memset(to, bytes ? kByteZero : 0, line_bytes);
    std::vector<float> row(static_cast<size_t>(w.k()));
    for (int c = 0; c < kTileChannels; ++c) {
      const int64_t from = channel_at(tile * kTileChannels + c);
      if (from < 0) continue;
      w.row(from, row);
      if (bytes)
        put_bytes(row, w.scales()[from], c, to);
      else
        put_numbers(row, c, to);
    }
  };
  for (int64_t first = 0, turn = 0; first < whole; first += each, ++turn) {
    auto* half = static_cast<std::byte*>(staging) + static_cast<size_t>(turn % 2) * static_cast<size_t>(each) * line_bytes;
    const int64_t tiles = std::min(each, whole - first);
    pool.run(tiles, [&](int64_t i) { fill(first + i, half + static_cast<size_t>(i) * line_bytes); });
    SLIP_TRY_(device.wait());  // the other half's copy: it is the next to be filled
    SLIP_TRY_(device.copy_in(m.memory.data<char>() + static_cast<size_t>(first) * line_bytes, half,
                             static_cast<size_t>(tiles) * line_bytes));
  }
  SLIP_TRY_(device.wait());
  t.data = m.memory.data();
  if (!bytes) return m;
  std::vector<float> scales(static_cast<size_t>(t.tiles) * kTileChannels, 0);
  for (size_t n = 0; n < scales.size(); ++n)
    if (const int64_t from = channel_at(static_cast<int64_t>(n)); from >= 0) scales[n] = w.scales()[from];
  SLIP_TRY(m.scales, upload(device, scales));
  t.scale_N = m.scales.data<float>();
  return m;
}

/// Where channel f of gate (or `up`) stands: tiles have eight of gate, then the same eight of up, and so on.
int64_t gate_up_place(int64_t f, bool up) { return f / 8 * 16 + (up ? 8 : 0) + f % 8; }

int64_t gated_room(int64_t width) { return (width + kInnerStep - 1) / kInnerStep * kInnerStep; }

}  // namespace

Result<DeviceMatrix> upload(Device& device, const PackedMatrix& w, ThreadPool& pool) {
  return upload_as(
      device, w, w.n(), [](int64_t n) { return n; }, pool);
}

Result<DeviceMatrix> upload_gate_up(Device& device, const PackedMatrix& w, ThreadPool& pool) {
  const int64_t width = w.n() / 2;
  const auto source = [width](int64_t n) {
    const int64_t f = n / 16 * 8 + n % 8;
    return f >= width ? -1 : n / 8 % 2 == 0 ? f : width + f;
  };
  return upload_as(device, w, 2 * gated_room(width), source, pool);
}

std::vector<float> order_gate_up(std::span<const float> bias) {
  const auto width = static_cast<int64_t>(bias.size() / 2);
  std::vector<float> out(bias.empty() ? 0 : static_cast<size_t>(2 * gated_room(width)), 0);
  for (int64_t f = 0; f < width; ++f) {
    out[static_cast<size_t>(gate_up_place(f, false))] = bias[static_cast<size_t>(f)];
    out[static_cast<size_t>(gate_up_place(f, true))] = bias[static_cast<size_t>(width + f)];
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
