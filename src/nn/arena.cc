// SPDX-License-Identifier: Apache-2.0
// Key/value arena, slot bookkeeping and sequences; contracts in arena.h.
#include "nn/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace slip {
namespace {

size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Each layer's keys and values, and the scales of bytes behind them, start on a cache line of their own.
size_t layer_bytes(int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  const size_t heads = static_cast<size_t>(slots) * static_cast<size_t>(kv_heads),
               numbers = heads * static_cast<size_t>(head_width);
  return whole_lines(numbers * size_of(type)) + (type == KvType::kI8 ? whole_lines(heads * sizeof(float)) : 0);
}

// Attention reads thousands of lines per layer in the order of slots: with pages of 2 MB a fifth faster at one row. Smaller arenas
// fit the translation buffers anyway, and would pay for whole large pages.
constexpr size_t kHugePage = 2 << 20, kLargeArena = 32 << 20;

}  // namespace

void KvArena::Unmap::operator()(std::byte* p) const { ::munmap(p, bytes); }

size_t KvArena::bytes_needed(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  return layer_bytes(slots, kv_heads, head_width, type) * 2 * static_cast<size_t>(layers);
}

Result<KvArena> KvArena::create(int32_t layers, int32_t slots, int32_t kv_heads, int32_t head_width, KvType type) {
  if (layers < 1 || slots < 1 || kv_heads < 1 || head_width < 1)
    return usage_error("key/value cache: expected at least one layer, slot, head and column, got {} {} {} {}", layers, slots,
                       kv_heads, head_width);
  const size_t bytes = bytes_needed(layers, slots, kv_heads, head_width, type);
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return resource_error("key/value cache: expected {} bytes for {} slots, got: {}", bytes, slots, std::strerror(errno));
#ifdef MADV_HUGEPAGE
  if (bytes >= kLargeArena)
    ::madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: nothing is lost where it is refused
#endif
  return KvArena(std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(p), Unmap{bytes}),
                 layer_bytes(slots, kv_heads, head_width, type), slots, kv_heads, head_width, type);
}

void KvArena::store(int32_t layer, int64_t slot, const float* keys_GK, const float* values_GK) const {
  for (int64_t g = 0; g < kv_heads_; ++g) {
    const int64_t number = slot * slot_stride() + g * head_stride(), at = number * static_cast<int64_t>(size_of(type_));
    if (type_ == KvType::kI8) {
      const int64_t scale = slot + g * slots_;
      to_kv_i8(keys_GK + g * head_width_, head_width_, true, static_cast<uint8_t*>(keys(layer)) + at, key_scales(layer) + scale);
      to_kv_i8(values_GK + g * head_width_, head_width_, false, static_cast<uint8_t*>(values(layer)) + at,
               value_scales(layer) + scale);
      continue;
    }
    to_kv(type_, keys_GK + g * head_width_, head_width_, static_cast<std::byte*>(keys(layer)) + at);
    to_kv(type_, values_GK + g * head_width_, head_width_, static_cast<std::byte*>(values(layer)) + at);
  }
}

float* KvArena::scales(void* numbers_SGK) const {
  if (type_ != KvType::kI8) return nullptr;
  return reinterpret_cast<float*>(static_cast<std::byte*>(numbers_SGK) + whole_lines(numbers()));
}

size_t KvArena::bytes() const { return memory_.get_deleter().bytes; }

SlotAllocator::SlotAllocator(int32_t slots) : references_(static_cast<size_t>(std::max(slots, 0)), 0), free_(slots) {}

void SlotAllocator::take(SlotSpan span, std::vector<SlotSpan>& out) {
  for (int32_t s = span.begin; s < span.end; ++s) references_[static_cast<size_t>(s)] = 1;
  free_ -= span.end - span.begin;
  out.push_back(span);
}

Status SlotAllocator::allocate(int32_t n, std::vector<SlotSpan>& out) {
  if (n <= 0) return {};
  if (n > free_) return resource_error("key/value cache: expected {} free slots, got {}", n, free_);
  const auto slots = static_cast<int32_t>(references_.size());
  const auto run_end = [&](int32_t s) {
    while (s < slots && references_[static_cast<size_t>(s)] == 0) ++s;
    return s;
  };
  for (int32_t s = 0; s < slots;) {
    const int32_t end = run_end(s);
    if (end - s >= n) {
      take({s, s + n}, out);
      return {};
    }
    s = end + 1;
  }
  for (int32_t s = 0; n > 0; ++s) {
    const int32_t end = std::min(run_end(s), s + n);
    if (end > s) take({s, end}, out);
    n -= end - s;
    s = end;
  }
  return {};
}

void SlotAllocator::retain(std::span<const SlotSpan> spans) {
  for (const SlotSpan span : spans) {
    for (int32_t s = span.begin; s < span.end; ++s) {
      SLIP_CHECK(references_.at(static_cast<size_t>(s)) > 0, "only slots in use are shared");
      ++references_[static_cast<size_t>(s)];
    }
  }
}

void SlotAllocator::release(std::span<const SlotSpan> spans) {
  for (const SlotSpan span : spans) {
    for (int32_t s = span.begin; s < span.end; ++s) {
      int32_t& count = references_.at(static_cast<size_t>(s));
      SLIP_CHECK(count > 0, "a slot is released as often as it was taken");
      if (--count == 0) ++free_;
    }
  }
}

void append_span(std::vector<SlotSpan>& spans, SlotSpan span, size_t from) {
  if (span.begin >= span.end) return;
  if (spans.size() > from && spans.back().end == span.begin) {
    spans.back().end = span.end;
  } else {
    spans.push_back(span);
  }
}

void Sequence::append(SlotSpan span) {
  append_span(spans_, span);
  size_ += std::max(0, span.end - span.begin);
}

void Sequence::crop(int32_t n, std::vector<SlotSpan>* dropped) {
  SLIP_CHECK(n >= 0, "a sequence has no rows before its first");
  while (size_ > n) {
    SlotSpan& last = spans_.back();
    const int32_t cut = std::min(size_ - n, last.end - last.begin);
    last.end -= cut;
    size_ -= cut;
    if (dropped) dropped->push_back({last.end, last.end + cut});
    if (last.begin == last.end) spans_.pop_back();
  }
}

int32_t Sequence::slot(int32_t i) const {
  SLIP_CHECK(0 <= i && i < size_, "row of this sequence");
  for (const SlotSpan span : spans_) {
    const int32_t n = span.end - span.begin;
    if (i < n) return span.begin + i;
    i -= n;
  }
  SLIP_CHECK(false, "size is the sum of the spans");
}

void Sequence::view(int32_t begin, int32_t end, std::vector<SlotSpan>& out) const {
  SLIP_CHECK(0 <= begin && begin <= end && end <= size_, "rows of this sequence");
  const size_t from = out.size();
  int32_t first = 0;
  for (const SlotSpan span : spans_) {
    const int32_t n = span.end - span.begin;
    const int32_t low = std::max(begin - first, 0), high = std::min(end - first, n);
    if (low < high) append_span(out, {span.begin + low, span.begin + high}, from);
    first += n;
  }
}

}  // namespace slip
