// SPDX-License-Identifier: Apache-2.0
// `bench answer` for a model with a form of its own (own_answer.cc).
#pragma once
#include "cli/bench/commands.h"
#include "engine/engine.h"

namespace slip::cli {

/// Can the model answer in a form that it was trained for?
bool has_own_answer(const BenchAnswerOptions& o);
Status bench_own_answer(const BenchAnswerOptions& o);

}  // namespace slip::cli
