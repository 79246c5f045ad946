// SPDX-License-Identifier: Apache-2.0
// Blocks one after another, a block's threads as fibers in turn; contract in gpu_emulated.h.
#include "cuda/device/gpu_emulated.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/dtype.h"

namespace slip::gpu {
namespace {

using boost::context::fiber;

constexpr size_t kStackBytes = 64 << 10;
constexpr int kWarp = 32;

struct Barrier {
  int arrived = 0;
  uint64_t generation = 0;
};

struct Lane {
  // What a lane brings to a warp instruction.
  float value = 0;
  float* d = nullptr;
  std::array<uint32_t, 6> words{};
  const void* row = nullptr;
  uint32_t* out = nullptr;
  const uint32_t (*tile)[4] = nullptr;
};

struct Warp {
  Barrier barrier;
  std::array<Lane, kWarp> lanes;
};

struct Block {
  int x = 0, y = 0, columns = 0, threads = 0, current = 0;
  int begun = -1, waited = -1;  // the block whose beginning, and whose wait, the kernel before was told of
  Barrier barrier;
  std::array<Barrier, 16> groups;  // by sync_group's number
  std::vector<Warp> warps;
  std::vector<fiber> fibers;
  std::vector<fiber> callers;
  std::unique_ptr<unsigned char[]> memory;
  unsigned char* shared = nullptr;
};

thread_local Block* block = nullptr;

struct Overlap {
  std::function<void()> take_away, write;
};
constexpr size_t kHoppersLimit = size_t{227} << 10;
thread_local size_t limit = kHoppersLimit;
thread_local Overlap overlap;
thread_local int hurried_warps = 0;
thread_local Captured* captured = nullptr;

void yield() {
  const int me = block->current;
  auto& caller = block->callers[static_cast<size_t>(me)];
  caller = std::move(caller).resume();
  SLIP_CHECK(block->current == me, "the scheduler names the fiber that it resumes");
}

void wait(Barrier& b, int count) {
  if (++b.arrived == count) {
    b.arrived = 0;
    ++b.generation;
    return;
  }
  for (const uint64_t before = b.generation; b.generation == before;) yield();
}

/// Every lane calls it with what it brings; the last to come runs `all`, and nobody leaves before.
template <class Bring, class All>
void together(const Bring& bring, const All& all) {
  Warp& warp = block->warps[static_cast<size_t>(thread() / kWarp)];
  bring(warp.lanes[static_cast<size_t>(thread() % kWarp)]);
  if (warp.barrier.arrived + 1 == kWarp) all(warp.lanes);
  wait(warp.barrier, kWarp);
}

float number(uint32_t pair, int half) {
  const uint32_t bits = half == 0 ? pair << 16 : pair & 0xffff0000u;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}

void multiply(std::array<Lane, kWarp>& lanes) {
  float a[16][16], b[16][8];
  for (int i = 0; i < kWarp; ++i) {
    const int g = i / 4, t = i % 4;
    const auto& w = lanes[static_cast<size_t>(i)].words;
    for (int r = 0; r < 4; ++r)
      for (int h = 0; h < 2; ++h) a[g + 8 * (r % 2)][2 * t + 8 * (r / 2) + h] = number(w[static_cast<size_t>(r)], h);
    for (int r = 0; r < 2; ++r)
      for (int h = 0; h < 2; ++h) b[2 * t + 8 * r + h][g] = number(w[static_cast<size_t>(4 + r)], h);
  }
  for (int i = 0; i < kWarp; ++i) {
    const int g = i / 4, t = i % 4;
    for (int e = 0; e < 4; ++e) {
      float& d = lanes[static_cast<size_t>(i)].d[e];
      for (int k = 0; k < 16; ++k) d += a[g + 8 * (e / 2)][k] * b[k][2 * t + e % 2];
    }
  }
}

}  // namespace

Captured*& capturing() { return captured; }

int thread() { return block->current; }
int block_x() { return block->x; }
int block_y() { return block->y; }
int blocks_x() { return block->columns; }
void sync_block() { wait(block->barrier, block->threads); }
void sync_group(int barrier, int threads) { wait(block->groups[static_cast<size_t>(barrier)], threads); }
void overlap_with(std::function<void()> take_away, std::function<void()> write) {
  overlap = {std::move(take_away), std::move(write)};
}
void hurry_last_warps(int warps) { hurried_warps = warps; }
void wait_for_previous() {
  if (!overlap.write) return;
  yield();  // the block's others come to here meanwhile, or to a barrier
  if (const int at = block->y * block->columns + block->x; std::exchange(block->waited, at) != at) overlap.write();
}
void sync_warp() {
  together([](Lane&) {}, [](auto&) {});
}
unsigned char* shared() { return block->shared; }
size_t shared_limit() { return limit; }
void limit_shared(size_t bytes) { limit = bytes > 0 ? bytes : kHoppersLimit; }

namespace {

void end_phase_if_complete(Signal& s) {
  if (s.missing > 0 || s.bytes_and_phase / 2 != 0) return;
  s.missing = s.arrivals;
  s.bytes_and_phase ^= 1;
}

}  // namespace

void signal_init(Signal* s, int arrivals) { *s = {static_cast<int16_t>(arrivals), static_cast<int16_t>(arrivals), 0}; }
void signal_arrive(Signal* s) {
  --s->missing;
  end_phase_if_complete(*s);
}
void signal_wait(Signal* s, uint32_t parity) {
  while (static_cast<uint32_t>(s->bytes_and_phase & 1) == parity) yield();
}
void begin_fill(Signal* s, uint32_t bytes) {
  if (thread() % kWarp != 0) return;
  s->bytes_and_phase += 2 * static_cast<int32_t>(bytes);
  signal_arrive(s);
}
void fill(void* to, const void* from, uint32_t bytes, Signal* s) {
  if (thread() % kWarp != 0) return;
  std::memcpy(to, from, bytes);
  s->bytes_and_phase -= 2 * static_cast<int32_t>(bytes);
  end_phase_if_complete(*s);
}

float shuffle_xor(float v, int mask) {
  float got = 0;
  // Two meetings: the second keeps a quick lane from bringing its next value before a slow one has read this one.
  together([&](Lane& lane) { lane.value = v; }, [](auto&) {});
  got = block->warps[static_cast<size_t>(thread() / kWarp)].lanes[static_cast<size_t>((thread() % kWarp) ^ mask)].value;
  together([](Lane&) {}, [](auto&) {});
  return got;
}

double shuffle_xor(double v, int mask) {
  const auto bits = __builtin_bit_cast(uint64_t, v);
  const auto low = static_cast<uint32_t>(shuffle_xor(static_cast<int>(bits), mask)),
             high = static_cast<uint32_t>(shuffle_xor(static_cast<int>(bits >> 32), mask));
  return __builtin_bit_cast(double, static_cast<uint64_t>(high) << 32 | low);
}

void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  together(
      [&](Lane& lane) {
        lane.d = d;
        lane.words = {a0, a1, a2, a3, b0, b1};
      },
      multiply);
}

namespace {

/// Four matrices by the lines' addresses; all(lanes) fills every lane's `out`.
template <class All>
void load_matrices(uint32_t (&r)[4], const void* shared_row, const All& all) {
  together(
      [&](Lane& lane) {
        lane.row = shared_row;
        lane.out = r;
      },
      all);
}

}  // namespace

void load_matrix_4(uint32_t (&r)[4], const void* shared_row) {
  load_matrices(r, shared_row, [](std::array<Lane, kWarp>& lanes) {
    for (size_t i = 0; i < kWarp; ++i)
      for (size_t j = 0; j < 4; ++j)
        __builtin_memcpy(&lanes[i].out[j], static_cast<const char*>(lanes[8 * j + i / 4].row) + 4 * (i % 4), 4);
  });
}

void load_matrix_4_transposed(uint32_t (&r)[4], const void* shared_row) {
  load_matrices(r, shared_row, [](std::array<Lane, kWarp>& lanes) {
    for (size_t i = 0; i < kWarp; ++i)
      for (size_t j = 0; j < 4; ++j) {
        const size_t g = i / 4, t = i % 4;
        uint16_t low, high;
        __builtin_memcpy(&low, static_cast<const char*>(lanes[8 * j + 2 * t].row) + 2 * g, 2);
        __builtin_memcpy(&high, static_cast<const char*>(lanes[8 * j + 2 * t + 1].row) + 2 * g, 2);
        lanes[i].out[j] = low | static_cast<uint32_t>(high) << 16;
      }
  });
}

uint32_t pair_of(float low, float high) { return to_bf16(low).bits | static_cast<uint32_t>(to_bf16(high).bits) << 16; }

namespace {

/// Line `at` of a tile whose pieces are permuted.
void line(const void* tile, int at, float (&out)[64]) {
  const char* from = static_cast<const char*>(tile) + at * 128;
  for (int k = 0; k < 64; ++k) {
    uint16_t bits;
    __builtin_memcpy(&bits, from + ((k / 8) ^ (at % 8)) * 16 + k % 8 * 2, 2);
    out[k] = number(bits, 0);
  }
}

/// A lane's two channels times the rows, inner numbers `first` to `end`.
void multiply_channels(float* sums, const float (&channels)[2][64], const void* x, int first, int end, bool begin, int rows) {
  float row[64];
  for (int n = 0; n < rows / 8; ++n)
    for (int column = 0; column < 2; ++column) {
      line(x, 8 * n + 2 * (thread() % 4) + column, row);
      for (int half = 0; half < 2; ++half) {
        float& sum = sums[4 * n + 2 * half + column];
        if (begin) sum = 0;
        for (int k = first; k < end; ++k) sum += channels[half][k] * row[k];
      }
    }
}

}  // namespace

void multiply_tile(float* sums, const void* w, const void* x, bool begin, int rows) {
  const int first = thread() / kWarp % 4 * 16 + thread() % kWarp / 4;
  float channels[2][64];
  for (int half = 0; half < 2; ++half) line(w, first + 8 * half, channels[half]);
  multiply_channels(sums, channels, x, 0, 64, begin, rows);
}

void multiply_words(float* sums, const uint32_t (&w)[2][4], const void* x, int half, bool begin, int rows) {
  together([&](Lane& lane) { lane.tile = w; }, [](auto&) {});
  const auto& lanes = block->warps[static_cast<size_t>(thread() / kWarp)].lanes;
  const int g = thread() % kWarp / 4, first = 32 * half;
  float channels[2][64];
  for (int channel = 0; channel < 2; ++channel)
    for (int k = 0; k < 32; ++k) {
      const auto& from = lanes[static_cast<size_t>(4 * g + k % 8 / 2)];
      channels[channel][first + k] = number(from.tile[k / 16][k / 8 % 2 * 2 + channel], k % 2);
    }
  multiply_channels(sums, channels, x, first, first + 32, begin, rows);
}

void run_blocks(int columns, int rows, int threads, size_t shared_bytes, const std::function<void()>& kernel) {
  SLIP_CHECK(threads % kWarp == 0, "kernels are launched in whole warps");
  SLIP_CHECK(shared_bytes <= limit, "a block has no more shared memory");
  if (columns <= 0 || rows <= 0) return;
  Block b;
  b.threads = threads;
  b.columns = columns;
  b.warps.resize(static_cast<size_t>(threads / kWarp));
  b.callers.resize(static_cast<size_t>(threads));
  b.memory = std::make_unique<unsigned char[]>(shared_bytes + 1024);
  std::memset(b.memory.get(), 0xff, shared_bytes + 1024);  // no kernel may count on zeros
  b.shared = b.memory.get() + (1024 - reinterpret_cast<uintptr_t>(b.memory.get()) % 1024) % 1024;
  Block* const outer = std::exchange(block, &b);
  thread_local boost::context::pooled_fixedsize_stack stacks(kStackBytes);
  // A thread that returns early waits for the block's others below.
  for (int i = 0; i < threads; ++i)
    b.fibers.emplace_back(std::allocator_arg, stacks, [&, i](fiber&& caller) {
      b.callers[static_cast<size_t>(i)] = std::move(caller);
      for (int at = 0; at < columns * rows; ++at) {
        b.x = at % columns;
        b.y = at / columns;
        if (overlap.take_away && std::exchange(b.begun, at) != at) overlap.take_away();
        kernel();
        sync_block();
      }
      return std::move(b.callers[static_cast<size_t>(i)]);
    });
  const auto turn = [&](int first) {
    int alive = 0;
    for (int i = first; i < threads; ++i) {
      fiber& f = b.fibers[static_cast<size_t>(i)];
      if (!f) continue;
      b.current = i;
      f = std::move(f).resume();
      alive += static_cast<bool>(f);
    }
    return alive;
  };
  constexpr int kHurry = 100;
  while (turn(0) > 0)
    for (int i = 0; i < kHurry && hurried_warps > 0; ++i) turn(std::max(0, threads - hurried_warps * kWarp));
  block = outer;
}

}  // namespace slip::gpu
