// SPDX-License-Identifier: Apache-2.0
// Parameters in and out of the flat buffer: random by name and seed, from a Hugging Face folder, to a safetensors file.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "core/safetensors.h"
#include "train/model/model_shape.h"

namespace slip {

/// N(0, deviation) for matrices (residual projections divided by sqrt(2 layers)), 1 for norms, 0 for biases. A tensor's numbers
/// depend on (seed, its name, its place in the tensor) alone.
template <class T>
void random_weights(const ParameterTable& table, uint64_t seed, double deviation, std::span<T> values);

/// Every parameter from `stored`, by name in either layout (`model.visual.*` or `visual.*`, `model.language_model.*` or `model.*`)
/// and behind `prefix`. Shapes are checked; a matrix may be stored in more dimensions with the same count.
template <class T>
Status load_weights(const Checkpoint& stored, const ParameterTable& table, std::span<T> values, const std::string& prefix = {});

/// As load_weights, but row v of the embedding (and of the head, where it is not tied) is the stored row `stored_row[v]`, and is
/// left as it is where that is -1. The stored rows may be any number above the largest of `stored_row`.
Status load_weights_by_rows(const Checkpoint& stored, const ParameterTable& table, std::span<float> values,
                            std::span<const int32_t> stored_row);

enum class StoreAs : uint8_t { kF32, kBF16 };
/// model.safetensors, tensors in the table's order, `more` behind them.
Status save_weights(const std::filesystem::path& file, const ParameterTable& table, std::span<const float> values, StoreAs type,
                    std::span<const TensorToWrite> more = {});

}  // namespace slip
