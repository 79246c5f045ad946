// SPDX-License-Identifier: Apache-2.0
// Parameters in and out; contracts in weights.h.
#include "train/model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/content_hash.h"
#include "base/philox.h"

namespace slip {
namespace {

/// The stored tensor under any of the names that layouts give it.
const TensorView* find_any(const Checkpoint& stored, const std::string& name, const std::string& prefix) {
  const auto renamed = [&](std::string_view from, std::string_view to) {
    return name.starts_with(from) ? std::string(to) + name.substr(from.size()) : std::string();
  };
  for (const std::string& candidate :
       {name, renamed("model.language_model.", "model."), renamed("model.visual.", "visual."),
        renamed("model.", "model.language_model.")}) {  // the last: the text half of a model with eyes
    if (candidate.empty()) continue;
    if (const TensorView* t = stored.find(prefix + candidate); t != nullptr) return t;
  }
  return nullptr;
}

}  // namespace

template <class T>
void random_weights(const ParameterTable& table, uint64_t seed, double deviation, std::span<T> values) {
  for (const Parameter& p : table.parameters) {
    T* to = values.data() + p.offset;
    PhiloxStream stream(seed, fnv1a(p.name));
    for (int64_t i = 0; i < p.count; ++i) {
      if (p.init != InitKind::kNormal) {
        to[i] = p.init == InitKind::kOne ? T(1) : T(0);
        continue;
      }
      const double radius = std::sqrt(-2 * std::log(stream.uniform())), angle = 2 * std::numbers::pi * stream.uniform();
      to[i] = static_cast<T>(deviation * p.init_scale * radius * std::cos(angle));
      if (++i < p.count) to[i] = static_cast<T>(deviation * p.init_scale * radius * std::sin(angle));
    }
  }
}
template void random_weights<float>(const ParameterTable&, uint64_t, double, std::span<float>);
template void random_weights<double>(const ParameterTable&, uint64_t, double, std::span<double>);

namespace {

Result<const TensorView*> stored_parameter(const Checkpoint& stored, const Parameter& p, const std::string& prefix) {
  const TensorView* t = find_any(stored, p.name, prefix);
  if (t == nullptr) return bad_input("{}: expected tensor {}{}, got none of that name", stored.path().string(), prefix, p.name);
  return t;
}

template <class T>
Status load_parameter(const Checkpoint& stored, const Parameter& p, const std::string& prefix, T* to) {
  SLIP_TRY(const TensorView* t, stored_parameter(stored, p, prefix));
  if (t->elements() != p.count || t->shape.empty() || t->shape[0] != p.shape[0])
    return bad_input("{}: tensor {}: expected {} numbers in {} rows, got {} in {}", stored.path().string(), t->name, p.count,
                     p.shape[0], t->elements(), t->shape.empty() ? 0 : t->shape[0]);
  if (t->dtype == DType::kF64 && std::is_same_v<T, double>) {
    std::memcpy(to, t->bytes.data(), t->bytes.size());
    return {};
  }
  std::vector<float> buffer(static_cast<size_t>(p.count));
  read_as_f32(*t, 0, buffer);
  for (int64_t i = 0; i < p.count; ++i) to[i] = static_cast<T>(buffer[static_cast<size_t>(i)]);
  return {};
}

}  // namespace

template <class T>
Status load_weights(const Checkpoint& stored, const ParameterTable& table, std::span<T> values, const std::string& prefix) {
  for (const Parameter& p : table.parameters) SLIP_TRY_(load_parameter(stored, p, prefix, values.data() + p.offset));
  return {};
}
template Status load_weights<float>(const Checkpoint&, const ParameterTable&, std::span<float>, const std::string&);
template Status load_weights<double>(const Checkpoint&, const ParameterTable&, std::span<double>, const std::string&);

Status load_weights_by_rows(const Checkpoint& stored, const ParameterTable& table, std::span<float> values,
                            std::span<const int32_t> stored_row) {
  for (const Parameter& p : table.parameters) {
    float* to = values.data() + p.offset;
    if (p.offset != table.embed.offset && p.offset != table.head.offset) {
      SLIP_TRY_(load_parameter(stored, p, {}, to));
      continue;
    }
    SLIP_TRY(const TensorView* t, stored_parameter(stored, p, {}));
    const int64_t width = p.shape[1], rows = t->shape.empty() ? 0 : t->shape[0];
    if (t->shape.size() != 2 || t->shape[1] != width)
      return bad_input("{}: tensor {}: expected rows of {} numbers, got {}", stored.path().string(), t->name, width,
                       t->shape.size() == 2 ? t->shape[1] : 0);
    const std::vector<float> from = read_as_f32(*t);
    for (size_t v = 0; v < stored_row.size(); ++v) {
      const int64_t row = stored_row[v];
      if (row < 0) continue;
      if (row >= rows || static_cast<int64_t>(v) >= p.shape[0])
        return bad_input("{}: tensor {}: expected a row for every token of its tokenizer, got {} rows and token {}",
                         stored.path().string(), t->name, rows, row);
      std::copy_n(from.data() + row * width, width, to + static_cast<int64_t>(v) * width);
    }
  }
  return {};
}

Status save_weights(const std::filesystem::path& file, const ParameterTable& table, std::span<const float> values, StoreAs type,
                    std::span<const TensorToWrite> more) {
  std::vector<BF16> narrow;
  if (type == StoreAs::kBF16) {
    narrow.reserve(values.size());
    for (const float v : values) narrow.push_back(to_bf16(v));
  }
  std::vector<TensorToWrite> tensors;
  for (const Parameter& p : table.parameters) {
    const auto at = static_cast<size_t>(p.offset), n = static_cast<size_t>(p.count);
    const auto bytes =
        type == StoreAs::kBF16 ? std::as_bytes(std::span(narrow).subspan(at, n)) : std::as_bytes(values.subspan(at, n));
    tensors.push_back({p.name, type == StoreAs::kBF16 ? DType::kBF16 : DType::kF32, p.shape, bytes});
  }
  tensors.insert(tensors.end(), more.begin(), more.end());
  return write_safetensors(file, tensors);
}

}  // namespace slip
