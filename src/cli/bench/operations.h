// SPDX-License-Identifier: Apache-2.0
// An answer's time by stage and operation (base/clock/operation_clock.h), as text and JSON.
#pragma once
#include "base/clock/operation_clock.h"
#include "base/json.h"

namespace slip::cli {

/// [{"stage", "operation", "ms", "times"}], in order of time. What no operation claims has the operation "other".
json::array operations_json(const OperationClock& clock);
/// {stage: ms}, in order of appearance; what lies between stages is "reply".
json::object stages_json(const OperationClock& clock);
/// Milliseconds that have the name of an operation.
double named_ms(const OperationClock& clock);
/// A line per operation, the longest first, a column per stage. Operations below 0.1 % share a line.
void print_operations(const OperationClock& clock);

}  // namespace slip::cli
