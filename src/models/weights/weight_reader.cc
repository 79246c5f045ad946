// SPDX-License-Identifier: Apache-2.0
// Checking and packing a checkpoint's tensors; the two goes are explained in weight_reader.h.
#include "models/weights/weight_reader.h"

#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/check.h"

namespace slip {
namespace {

bool readable(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16 || t == DType::kF64; }

int64_t columns(const WeightReader::Part& part) {
  int64_t k = 1;
  for (size_t i = 1; i < part.shape.size(); ++i) k *= part.shape[i];
  return k;
}

// The smallest f32 that rounds to infinity as bf16: half a unit of the last place above bf16's largest, 3.3895e38.
constexpr float kRoundsToInfinity = std::bit_cast<float>(0x7F7F8000U);

// The first of `x` that packing as `type` would turn into, or leave, NaN or infinity; 0 when all is well. Magnitudes are compared as
// integers (NaN and infinity are the largest), which compilers turn into vector code; sums of floats they must keep in order.
float unpackable(std::span<const float> x, WeightType type) {
  int32_t largest = 0;
  for (const float v : x) largest = std::max(largest, static_cast<int32_t>(std::bit_cast<uint32_t>(v) & 0x7FFFFFFF));
  const int32_t limit = std::bit_cast<int32_t>(type == WeightType::kBF16 ? kRoundsToInfinity : INFINITY);
  if (largest < limit) return 0;
  const bool any_nan_or_infinity = largest >= std::bit_cast<int32_t>(INFINITY);
  return *std::find_if(x.begin(), x.end(),
                       [&](float v) { return any_nan_or_infinity ? !std::isfinite(v) : std::fabs(v) >= kRoundsToInfinity; });
}

// Numbers that fp8 weights are multiplied with: one, one per row, or one per block of kBlock x kBlock.
struct Scales {
  static constexpr int64_t kBlock = 128;
  std::vector<float> values;
  int64_t per_row = 0;  // scales along a row of blocks; 0: one scale for a row or for all
  void apply(int64_t row, std::span<float> x) const {
    if (per_row == 0) {
      const float s = values[values.size() == 1 ? 0 : static_cast<size_t>(row)];
      for (float& v : x) v *= s;
      return;
    }
    const float* scale = values.data() + row / kBlock * per_row;
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scale[i / kBlock];
  }
};

// Both names mean a factor: what the releases call the inverse is the inverse of the scale that quantising used.
constexpr std::string_view kScaleNames[] = {"_scale_inv", "_scale"};

const TensorView* find_scales(const Checkpoint& checkpoint, const std::string& name) {
  for (const std::string_view ending : kScaleNames)
    if (const TensorView* view = checkpoint.find(name + std::string(ending))) return view;
  return nullptr;
}

// Whether scales of this shape fit an n x k matrix, and how they lie.
bool fits(std::span<const int64_t> shape, int64_t n, int64_t k, int64_t& per_row) {
  const auto blocks = [](int64_t m) { return (m + Scales::kBlock - 1) / Scales::kBlock; };
  per_row = 0;
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  if (count == 1 || (count == n && !shape.empty() && shape[0] == n)) return true;
  per_row = blocks(k);
  return shape.size() == 2 && shape[0] == blocks(n) && shape[1] == blocks(k);
}

// What pack_matrix asks rows of: tensors stacked along the rows.
struct Stack {
  std::vector<const TensorView*> views;
  std::vector<int64_t> first_row;  // of each view
  std::vector<Scales> scales;      // of each view, empty values when there are none
  int64_t k = 0;
  WeightType type = WeightType::kF32;
  // The first bad row, whichever thread meets it.
  mutable std::mutex mutex;
  mutable int64_t bad_row = INT64_MAX;
  mutable float bad_value = 0;
  size_t part_of(int64_t row) const {
    size_t i = views.size() - 1;
    while (first_row[i] > row) --i;
    return i;
  }
};

// A hash of some bytes and their place, eight bytes at a time: it must not cost beside the reading.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t place) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t h = (place + 1) * kOdd, word = 0;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::memcpy(&word, bytes.data() + i, 8);
    h = (h ^ word) * kOdd;
    h ^= h >> 29;
  }
  for (word = 0; i < bytes.size(); ++i) word = word << 8 | std::to_integer<uint64_t>(bytes[i]);
  h = (h ^ word) * kOdd;
  return h ^ h >> 32;
}

// Pages of a map that will not be read again: out of this process's memory (they stay in the system's cache of the file).
void give_back(std::span<const std::byte> bytes) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  ::madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() - begin, MADV_DONTNEED);
}

// Rows [first, first + count) of a stack.
void give_back_rows(const Stack& stack, int64_t first, int64_t count) {
  for (size_t i = 0; i < stack.views.size(); ++i) {
    const TensorView& view = *stack.views[i];
    const int64_t rows = view.shape[0], begin = std::clamp<int64_t>(first - stack.first_row[i], 0, rows),
                  end = std::clamp<int64_t>(first + count - stack.first_row[i], 0, rows);
    const int64_t bytes = stack.k * static_cast<int64_t>(size_of(view.dtype));
    if (begin < end) give_back(view.bytes.subspan(static_cast<size_t>(begin * bytes), static_cast<size_t>((end - begin) * bytes)));
  }
}

// Of a tensor: the sum over its pieces of 64 KB, so that threads may share them; pages are given back as it goes.
uint64_t hash_tensor(const TensorView& view, ThreadPool& pool) {
  constexpr size_t kPiece = size_t{1} << 16, kPieces = 256;
  const uint64_t name = hash_bytes(std::as_bytes(std::span(view.name)), view.name.size());
  std::atomic<uint64_t> sum{0};
  for (size_t first = 0; first < view.bytes.size(); first += kPiece * kPieces) {
    const auto part = view.bytes.subspan(first, std::min(kPiece * kPieces, view.bytes.size() - first));
    pool.run(static_cast<int64_t>((part.size() + kPiece - 1) / kPiece), [&](int64_t i) {
      const size_t begin = static_cast<size_t>(i) * kPiece;
      sum +=
          hash_bytes(part.subspan(begin, std::min(kPiece, part.size() - begin)), name + first / kPiece + static_cast<uint64_t>(i));
    });
    give_back(part);
  }
  return sum;
}

void read_stack_row(const void* context, int64_t n, float* out_K) {
  const Stack& stack = *static_cast<const Stack*>(context);
  const size_t part = stack.part_of(n);
  const TensorView& view = *stack.views[part];
  const int64_t row = n - stack.first_row[part];
  const std::span<float> out(out_K, static_cast<size_t>(stack.k));
  if (row >= view.shape[0]) {
    std::fill(out.begin(), out.end(), 0.0F);
    return;
  }
  read_as_f32(view, row * stack.k, out);
  if (!stack.scales[part].values.empty()) stack.scales[part].apply(row, out);
  const float bad = unpackable(out, stack.type);
  if (bad == 0) return;  // NaN is not 0
  const std::lock_guard lock(stack.mutex);
  if (n < stack.bad_row) {
    stack.bad_row = n;
    stack.bad_value = bad;
  }
}

}  // namespace

int64_t matrix_bytes(WeightType type, int64_t n, int64_t k) {
  switch (type) {
    case WeightType::kF32:
      return n * k * 4;
    case WeightType::kBF16:
      return n * k * 2;
    case WeightType::kI8:
    case WeightType::kI4:
      return static_cast<int64_t>(PackedMatrix::packed_bytes(type, n, k));
  }
  return 0;
}

WeightType head_type(WeightType type) { return type == WeightType::kI4 ? WeightType::kI8 : type; }
WeightType vision_type(WeightType type) { return type == WeightType::kI4 ? WeightType::kI8 : type; }

WeightType embedding_type(WeightType type, bool tied_head) {
  if (tied_head) return head_type(type);
  return type == WeightType::kI8 || type == WeightType::kI4 ? WeightType::kBF16 : type;
}

WeightReader::WeightReader(const Checkpoint& checkpoint, ThreadPool& pool, LoadProgress progress, WeightSink* sink)
    : checkpoint_(checkpoint), pool_(pool), progress_(std::move(progress)), sink_(sink) {
  const auto format = checkpoint.metadata().find("format");
  if (format == checkpoint.metadata().end() || format->second != kPackedFormat) return;
  auto packed = read_packed_folder(checkpoint.path());
  if (!packed) {
    wrong_ = packed.error();
  } else if (!*packed) {
    wrong_ = bad_input("{}: expected {} beside packed tensors, got none", checkpoint.path().string(), kPackedFile);
  } else {
    packed_ = std::move(**packed);
    owner_ = std::make_shared<const Checkpoint>(checkpoint);
    checkpoint.prefer_large_pages();
  }
}

// First go: remembers what is missing or wrong. True when all parts are there as wished.
bool WeightReader::note(const std::vector<Part>& parts, WeightType type, bool is_matrix) {
  bool good = true;
  for (const Part& part : parts) {
    const TensorView* view = checkpoint_.find(part.name);
    const bool fp8 = view && is_matrix && view->dtype == DType::kF8E4M3;
    const TensorView* scales = fp8 ? find_scales(checkpoint_, part.name) : nullptr;
    int64_t per_row = 0;
    const std::string where = checkpoint_.path().string();
    if (const std::string* type_name = checkpoint_.unread(part.name)) {
      if (wrong_)
        wrong_ =
            unsupported("{}: tensor {}: expected F32, BF16, F16, F64 or (matrices) F8_E4M3, got {}", where, part.name, *type_name);
    } else if (!view) {
      missing_.push_back(part.name);
    } else if (wrong_ && !std::equal(view->shape.begin(), view->shape.end(), part.shape.begin(), part.shape.end())) {
      wrong_ =
          bad_input("{}: tensor {}: expected shape {}, got {}", where, part.name, shape_text(part.shape), shape_text(view->shape));
    } else if (wrong_ && !fp8 && !readable(view->dtype)) {
      wrong_ = unsupported("{}: tensor {}: expected F32, BF16, F16, F64 or (matrices) F8_E4M3, got {}", where, part.name,
                           name_of(view->dtype));
    } else if (fp8 && !scales) {
      missing_.push_back(part.name + std::string(kScaleNames[0]));
    } else if (wrong_ && scales && (!readable(scales->dtype) || !fits(scales->shape, part.shape[0], columns(part), per_row))) {
      wrong_ =
          unsupported("{}: tensor {}: expected scales of {} x {}: one, one per row or one per 128 x 128 block, got {} of shape {}",
                      where, scales->name, part.shape[0], columns(part), name_of(scales->dtype), shape_text(scales->shape));
    } else if (wrong_ && is_matrix && (type == WeightType::kI8 || type == WeightType::kI4) && columns(part) > kMaxInt8Inner) {
      wrong_ = unsupported("{}: tensor {}: expected at most {} columns for {} (bf16 and f32 have no limit), got {}", where,
                           part.name, kMaxInt8Inner, word_of_type(type), columns(part));
    }
    good = good && view && wrong_;
    if (view) bytes_total_ += static_cast<int64_t>(view->bytes.size());
    if (scales) bytes_total_ += static_cast<int64_t>(scales->bytes.size());
  }
  return good;
}

// The same for a matrix of a packed folder: its entry must be what is wished, its tensor must have its size.
bool WeightReader::note_packed(const std::vector<Part>& parts, WeightType type) {
  const std::string& name = parts.front().name;
  const auto entry = packed_->matrices.find(name);
  const TensorView* view = checkpoint_.find(name);
  if (entry == packed_->matrices.end() || !view) {
    missing_.push_back(name);
    return false;
  }
  if (!wrong_) return false;
  const PackedEntry& e = entry->second;
  int64_t n = 0;
  for (const Part& part : parts) n += part.rows();
  std::vector<std::string> names;
  names.reserve(parts.size());
  for (const Part& part : parts) names.push_back(part.name);
  const std::string where = fmt::format("{}: matrix {}", checkpoint_.path().string(), name);
  if (e.type != type) {
    wrong_ = unsupported("{}: expected --dtype {} (the folder is packed), got {}", where, word_of_type(packed_->type),
                         word_of_type(type));
  } else if (e.rows != n || e.columns != columns(parts.front()) || e.parts != names) {
    wrong_ = bad_input("{}: expected {} x {} made of {}, got {} x {} made of {}", where, n, columns(parts.front()),
                       fmt::join(names, ", "), e.rows, e.columns, fmt::join(e.parts, ", "));
  } else if (view->dtype != DType::kU8 || view->bytes.size() != PackedMatrix::packed_bytes(type, n, columns(parts.front()))) {
    wrong_ = bad_input("{}: expected {} bytes (U8), got {} of {}", where,
                       PackedMatrix::packed_bytes(type, n, columns(parts.front())), view->bytes.size(), name_of(view->dtype));
  }
  bytes_total_ += static_cast<int64_t>(view->bytes.size());
  return wrong_.has_value();
}

void WeightReader::advance(const std::vector<const TensorView*>& views) {
  for (const TensorView* view : views) bytes_done_ += static_cast<int64_t>(view->bytes.size());
  if (progress_.tell) progress_.tell(bytes_done_, bytes_total_);
}

void WeightReader::note_bad(const TensorView& view, float value) {
  if (!bad_tensor_.empty()) return;
  bad_tensor_ = view.name;
  bad_value_ = value;
}

PackedMatrix WeightReader::view_packed(WeightType type, const std::string& name, int64_t n, int64_t k) {
  const TensorView* view = owner_->find(name);
  auto packed = PackedMatrix::view(type, n, k, view->bytes, owner_);
  advance({view});
  if (packed) return std::move(*packed);
  if (failed_) failed_ = bad_input("{}: matrix {}: {}", checkpoint_.path().string(), name, packed.error().message);
  return {};
}

PackedMatrix WeightReader::matrix(WeightType type, const std::vector<Part>& parts) {
  const int64_t k = columns(parts.front());
  int64_t n = 0;
  for (const Part& part : parts) n += part.rows();
  const WeightSink::Wish wish{parts.front().name, type, n, k, parts};
  if (checking_) {
    if (!(packed_ ? note_packed(parts, type) : note(parts, type, true))) return {};
    bytes_needed_ += matrix_bytes(type, n, k);
    if (sink_) sink_->plan_matrix(wish);
    return {};
  }
  if (!failed_) return {};
  if (failed_ = progress_.cancel.check("loading", bytes_done_ >> 20, "MB"); !failed_) return {};
  if (packed_) return view_packed(type, parts.front().name, n, k);
  Stack stack;
  stack.k = k;
  stack.type = type;
  int64_t first = 0;
  for (const Part& part : parts) {
    stack.views.push_back(checkpoint_.find(part.name));
    stack.first_row.push_back(first);
    first += part.rows();
    Scales& scales = stack.scales.emplace_back();
    if (stack.views.back()->dtype != DType::kF8E4M3) continue;
    const TensorView* stored = find_scales(checkpoint_, part.name);
    scales.values = read_as_f32(*stored);
    fits(stored->shape, part.shape[0], k, scales.per_row);
    if (const float bad = unpackable(scales.values, WeightType::kF32); bad != 0) note_bad(*stored, bad);
    bytes_done_ += static_cast<int64_t>(stored->bytes.size());
  }
  PackedMatrix packed;
  if (sink_) {
    failed_ = sink_->matrix(wish, &stack, read_stack_row,
                            [&](int64_t first_row, int64_t count) { give_back_rows(stack, first_row, count); });
    for (const TensorView* view : stack.views) source_hash_ += hash_tensor(*view, pool_);
  } else {
    packed = pack_matrix(type, n, k, &stack, read_stack_row, pool_);
  }
  if (stack.bad_row < n) note_bad(*stack.views[stack.part_of(stack.bad_row)], stack.bad_value);
  for (const TensorView* view : stack.views) give_back(view->bytes);
  advance(stack.views);
  return packed;
}

std::vector<float> WeightReader::vector(const std::vector<Part>& parts) {
  if (checking_) {
    if (!note(parts, WeightType::kF32, false)) return {};
    for (const Part& part : parts) {
      bytes_needed_ += part.rows() * columns(part) * 4;
      if (sink_) sink_->plan_vector(part);
    }
    return {};
  }
  std::vector<float> all;
  for (const Part& part : parts) {
    const TensorView* view = checkpoint_.find(part.name);
    const std::vector<float> one = read_as_f32(*view);
    if (const float bad = unpackable(one, WeightType::kF32); bad != 0) note_bad(*view, bad);
    if (sink_ && failed_) failed_ = sink_->vector(part, one);
    if (sink_) source_hash_ += hash_tensor(*view, pool_);
    all.insert(all.end(), one.begin(), one.end());
    all.insert(all.end(), static_cast<size_t>(part.zeros * columns(part)), 0.0F);
    advance({view});
  }
  return all;
}

Status WeightReader::end_check() {
  SLIP_CHECK(checking_, "checked once");
  checking_ = false;
  if (!missing_.empty()) {
    constexpr size_t kNamed = 8;  // the rest is counted: a wrong layout misses hundreds
    std::string names;
    for (size_t i = 0; i < std::min(kNamed, missing_.size()); ++i) names += (i ? ", " : "") + missing_[i];
    if (missing_.size() > kNamed) names += fmt::format(" and {} more", missing_.size() - kNamed);
    return bad_input("{}: expected {} more tensors, got none of: {}", checkpoint_.path().string(), missing_.size(), names);
  }
  return wrong_;
}

Status WeightReader::end_load() const {
  if (!failed_) return failed_.error();
  if (bad_tensor_.empty()) return {};
  if (!std::isfinite(bad_value_))
    return bad_input("{}: tensor {}: expected finite numbers, got NaN or infinity", checkpoint_.path().string(), bad_tensor_);
  return bad_input("{}: tensor {}: expected numbers that bf16 can hold, below {:.4e}, got {:.9g} (f32 holds it)",
                   checkpoint_.path().string(), bad_tensor_, kRoundsToInfinity, bad_value_);
}

}  // namespace slip
