// SPDX-License-Identifier: Apache-2.0
// Blocks one after another, a block's threads as fibers in turn; contract in gpu_emulated.h.
#include "cuda/gpu_emulated.h"

#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

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
};

struct Warp {
  Barrier barrier;
  std::array<Lane, kWarp> lanes;
};

struct Block {
  int x = 0, y = 0, threads = 0, current = 0;
  Barrier barrier;
  std::vector<Warp> warps;
  std::vector<fiber> fibers;
  std::vector<fiber> callers;
  std::unique_ptr<unsigned char[]> memory;
  unsigned char* shared = nullptr;
};

thread_local Block* block = nullptr;

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

int thread() { return block->current; }
int block_x() { return block->x; }
int block_y() { return block->y; }
void sync_block() { wait(block->barrier, block->threads); }
unsigned char* shared() { return block->shared; }

float shuffle_xor(float v, int mask) {
  float got = 0;
  // Two meetings: the second keeps a quick lane from bringing its next value before a slow one has read this one.
  together([&](Lane& lane) { lane.value = v; }, [](auto&) {});
  got = block->warps[static_cast<size_t>(thread() / kWarp)].lanes[static_cast<size_t>((thread() % kWarp) ^ mask)].value;
  together([](Lane&) {}, [](auto&) {});
  return got;
}

void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  together(
      [&](Lane& lane) {
        lane.d = d;
        lane.words = {a0, a1, a2, a3, b0, b1};
      },
      multiply);
}

void load_matrix_4_transposed(uint32_t (&r)[4], const void* shared_row) {
  together(
      [&](Lane& lane) {
        lane.row = shared_row;
        lane.out = r;
      },
      [](std::array<Lane, kWarp>& lanes) {
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

void run_blocks(int columns, int rows, int threads, size_t shared_bytes, const std::function<void()>& kernel) {
  SLIP_CHECK(threads % kWarp == 0, "kernels are launched in whole warps");
  if (columns <= 0 || rows <= 0) return;
  Block b;
  b.threads = threads;
  b.warps.resize(static_cast<size_t>(threads / kWarp));
  b.callers.resize(static_cast<size_t>(threads));
  b.memory = std::make_unique<unsigned char[]>(shared_bytes + 128);
  b.shared = b.memory.get() + (128 - reinterpret_cast<uintptr_t>(b.memory.get()) % 128) % 128;
  Block* const outer = std::exchange(block, &b);
  thread_local boost::context::pooled_fixedsize_stack stacks(kStackBytes);
  // A kernel that returns early on some threads of a block only would leave the others at a barrier; ours return by whole blocks.
  for (int i = 0; i < threads; ++i)
    b.fibers.emplace_back(std::allocator_arg, stacks, [&, i](fiber&& caller) {
      b.callers[static_cast<size_t>(i)] = std::move(caller);
      for (int at = 0; at < columns * rows; ++at) {
        b.x = at % columns;
        b.y = at / columns;
        kernel();
        sync_block();
      }
      return std::move(b.callers[static_cast<size_t>(i)]);
    });
  for (int alive = threads; alive > 0;) {
    alive = 0;
    for (int i = 0; i < threads; ++i) {
      fiber& f = b.fibers[static_cast<size_t>(i)];
      if (!f) continue;
      b.current = i;
      f = std::move(f).resume();
      alive += static_cast<bool>(f);
    }
  }
  block = outer;
}

}  // namespace slip::gpu
