// SPDX-License-Identifier: Apache-2.0
// For tests: counts every allocation of the binary that includes this, once, in one translation unit.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace slip::test {
inline std::atomic<int64_t> allocations{0};
}  // namespace slip::test

// Not inlined: g++ 12 takes an inlined free() for a mismatch with its own operator new. The nothrow form is std::stable_sort's.
[[gnu::noinline]] void* operator new(size_t n, const std::nothrow_t&) noexcept {
  slip::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(n == 0 ? 1 : n);
}
[[gnu::noinline]] void* operator new(size_t n) {
  if (void* p = operator new(n, std::nothrow)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
