// SPDX-License-Identifier: Apache-2.0
// What the kernels reach on this machine at a model's shapes: the rates that stand for its peaks in predictions.
#pragma once
#include <functional>
#include "api/tools/limits/case.h"
#include "limits/machine.h"

namespace slip::api {

/// Gate and up (with the norm before and the gate behind) of made-up weights, as many layers as the model has and one and a half times the last cache holds (128 to 512 MB); of a layer beyond that as many columns as fit. And its
/// attention behind `keys` keys, for passes of 1 to 128 rows: a second for the shipped models, up to nine with its tower for one of 3 billion parameters. kCancelled between rows. Nothing for shapes that the engine does not run.
/// `tell`: the number of widths that are behind it.
Result<KernelRates> measured_kernels(const LimitsCase& model, int32_t keys, ThreadPool& pool, const CancelToken& cancel,
                                     const std::function<void(int64_t widths)>& tell);

/// The same of a tower over one picture, at its rows alone.
Result<KernelRates> measured_kernels(const TowerShape& tower, std::string_view type, const TowerGrid& picture, ThreadPool& pool,
                                     const CancelToken& cancel);

}  // namespace slip::api
