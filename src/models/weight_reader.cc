// SPDX-License-Identifier: Apache-2.0
// Checking and packing a checkpoint's tensors; the two goes are explained in weight_reader.h.
#include "models/weight_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "base/check.h"

namespace slip {
namespace {

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

bool readable(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16 || t == DType::kF64; }

int64_t columns(const WeightReader::Part& part) {
  int64_t k = 1;
  for (size_t i = 1; i < part.shape.size(); ++i) k *= part.shape[i];
  return k;
}

bool finite(std::span<const float> x) {
  // x - x is zero for finite numbers and NaN otherwise: one sum without a branch in the loop.
  float sum = 0;
  for (const float v : x) sum += v - v;
  return sum == 0;
}

// The smallest f32 that rounds to infinity as bf16: half a unit of the last place above bf16's largest, 3.3895e38.
constexpr float kRoundsToInfinity = std::bit_cast<float>(0x7F7F8000U);

// The first of `x` that packing as `type` would turn into, or leave, NaN or infinity; 0 when all is well.
float unpackable(std::span<const float> x, WeightType type) {
  if (!finite(x)) return *std::find_if_not(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
  if (type != WeightType::kBF16) return 0;
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  if (largest < kRoundsToInfinity) return 0;
  return *std::find_if(x.begin(), x.end(), [](float v) { return std::fabs(v) >= kRoundsToInfinity; });
}

// What pack_matrix asks rows of: tensors stacked along the rows.
struct Stack {
  std::vector<const TensorView*> views;
  std::vector<int64_t> first_row;  // of each view
  int64_t k = 0;
  WeightType type = WeightType::kF32;
  // The first bad row, whichever thread meets it.
  mutable std::mutex mutex;
  mutable int64_t bad_row = INT64_MAX;
  mutable float bad_value = 0;
  const TensorView& view_of(int64_t row, int64_t* first = nullptr) const {
    size_t i = views.size() - 1;
    while (first_row[i] > row) --i;
    if (first) *first = first_row[i];
    return *views[i];
  }
};

void read_stack_row(const void* context, int64_t n, float* out_K) {
  const Stack& stack = *static_cast<const Stack*>(context);
  int64_t first = 0;
  const TensorView& view = stack.view_of(n, &first);
  const std::span<float> out(out_K, static_cast<size_t>(stack.k));
  read_as_f32(view, (n - first) * stack.k, out);
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
      return n * k + n * 4;
  }
  return 0;
}

// First go: remembers what is missing or wrong. True when all parts are there as wished.
bool WeightReader::note(const std::vector<Part>& parts, WeightType type) {
  bool good = true;
  for (const Part& part : parts) {
    const TensorView* view = checkpoint_.find(part.name);
    if (!view) {
      missing_.push_back(part.name);
    } else if (wrong_ && !std::equal(view->shape.begin(), view->shape.end(), part.shape.begin(), part.shape.end())) {
      wrong_ = bad_input("{}: tensor {}: expected shape {}, got {}", checkpoint_.path().string(), part.name, shape_text(part.shape),
                         shape_text(view->shape));
    } else if (wrong_ && !readable(view->dtype)) {
      wrong_ = unsupported("{}: tensor {}: expected F32, BF16, F16 or F64, got {}", checkpoint_.path().string(), part.name,
                           name_of(view->dtype));
    } else if (wrong_ && type == WeightType::kI8 && columns(part) > kMaxInt8Inner) {
      wrong_ = unsupported("{}: tensor {}: expected at most {} columns for int8 (bf16 and f32 have no limit), got {}",
                           checkpoint_.path().string(), part.name, kMaxInt8Inner, columns(part));
    }
    good = good && view && wrong_;
    if (view) bytes_total_ += static_cast<int64_t>(view->bytes.size());
  }
  return good;
}

void WeightReader::advance(const std::vector<const TensorView*>& views) {
  for (const TensorView* view : views) bytes_done_ += static_cast<int64_t>(view->bytes.size());
  if (progress_) progress_(bytes_done_, bytes_total_);
}

void WeightReader::note_bad(const TensorView& view, float value) {
  if (!bad_tensor_.empty()) return;
  bad_tensor_ = view.name;
  bad_value_ = value;
}

PackedMatrix WeightReader::matrix(WeightType type, const std::vector<Part>& parts) {
  const int64_t k = columns(parts.front());
  int64_t n = 0;
  for (const Part& part : parts) n += part.shape[0];
  if (checking_) {
    if (note(parts, type)) bytes_needed_ += matrix_bytes(type, n, k);
    return {};
  }
  Stack stack;
  stack.k = k;
  stack.type = type;
  int64_t first = 0;
  for (const Part& part : parts) {
    stack.views.push_back(checkpoint_.find(part.name));
    stack.first_row.push_back(first);
    first += part.shape[0];
  }
  PackedMatrix packed = pack_matrix(type, n, k, &stack, read_stack_row, pool_);
  if (stack.bad_row < n) note_bad(stack.view_of(stack.bad_row), stack.bad_value);
  advance(stack.views);
  return packed;
}

std::vector<float> WeightReader::vector(const std::vector<Part>& parts) {
  if (checking_) {
    if (note(parts, WeightType::kF32))
      for (const Part& part : parts) bytes_needed_ += part.shape[0] * columns(part) * 4;
    return {};
  }
  std::vector<float> all;
  for (const Part& part : parts) {
    const TensorView* view = checkpoint_.find(part.name);
    const std::vector<float> one = read_as_f32(*view);
    if (const float bad = unpackable(one, WeightType::kF32); bad != 0) note_bad(*view, bad);
    all.insert(all.end(), one.begin(), one.end());
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
  if (bad_tensor_.empty()) return {};
  if (!std::isfinite(bad_value_))
    return bad_input("{}: tensor {}: expected finite numbers, got NaN or infinity", checkpoint_.path().string(), bad_tensor_);
  return bad_input("{}: tensor {}: expected numbers that bf16 can hold, below {:.4e}, got {:.9g} (f32 holds it)",
                   checkpoint_.path().string(), bad_tensor_, kRoundsToInfinity, bad_value_);
}

}  // namespace slip
