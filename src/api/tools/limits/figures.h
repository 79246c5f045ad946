// SPDX-License-Identifier: Apache-2.0
// The charts of slipstream::limits, made of its tables.
#pragma once
#include "api/tools/limits_tables.h"
#include "plot/chart.h"

namespace slip::api {

/// Milliseconds of a pass by its rows: the roofline as a line, and measured passes as points where there are any.
Chart passes_chart(const Table& passes, const std::string& title);
/// Milliseconds of an answer behind its prompt, one point for every decoder, numbered as the table's lines and the legend; measured ones beside.
Chart decoders_chart(const Table& decoders, const std::string& title);

}  // namespace slip::api
