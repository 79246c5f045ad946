// SPDX-License-Identifier: Apache-2.0
// The tables of slipstream::limits: what is foreseen of operations, passes and decoders, and how they are written as text, JSON and CSV.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "limits/roofline.h"

namespace slip::api {

/// A table whose cells are numbers, words or empty.
struct Table {
  std::string name, title;  // of the JSON key and CSV file; of the text
  std::vector<std::string> columns;
  std::vector<json::array> rows;

  json::value to_json() const;  // an array of objects; empty cells are null
  std::string to_text() const;
  std::string to_csv() const;
};

/// Milliseconds of each operation in a pass of each width.
Table operations_table(const std::vector<std::pair<std::string, PassTime>>& passes);
/// One line for each operation of a stage: times, arithmetic, bytes, and which of the two takes longer.
Table stage_table(std::string name, std::string title, const PassTime& stage);
/// A machine's peaks by number type, and the rows at which a product stops being bound by its weights' bytes.
Table machine_table(const Machine& machine);
/// "name: source", then the figures in a line.
std::string machine_words(const Machine& machine);
/// The acceptance at which drafting gamma tokens pays, by the cost c of a draft step in passes; and the best gamma.
std::vector<Table> algebra_tables();
/// The OpenVLA + MiniVLA report's table 5 and table 6 beside what the formulas give here.
Table report_table();

}  // namespace slip::api
