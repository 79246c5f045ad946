// SPDX-License-Identifier: Apache-2.0
// See operations.h.
#include "cli/bench/operations.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/output.h"

namespace slip::cli {

namespace {

constexpr double kMs = 1e-6;
constexpr std::string_view kOther = "other", kBetween = "reply";

std::string_view stage_of(const OperationClock::Line& line) { return line.stage.empty() ? kBetween : line.stage; }
std::string_view operation_of(const OperationClock::Line& line) { return line.operation.empty() ? kOther : line.operation; }

// In the order of a request; stages that a later version adds come last.
std::vector<std::string_view> stages_of(const OperationClock& clock) {
  std::vector<std::string_view> out;
  for (const std::string_view stage : {"form", "encode", "prefill", "draft", "verify", "commit", "plan"})
    for (const auto& line : clock.lines())
      if (line.stage == stage && std::find(out.begin(), out.end(), stage) == out.end()) out.push_back(stage);
  for (const auto& line : clock.lines())
    if (std::find(out.begin(), out.end(), stage_of(line)) == out.end()) out.push_back(stage_of(line));
  return out;
}

}  // namespace

json::array operations_json(const OperationClock& clock) {
  std::vector<OperationClock::Line> lines = clock.lines();
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  json::array out;
  for (const auto& line : lines)
    out.push_back(json::object{{"stage", stage_of(line)},
                               {"operation", operation_of(line)},
                               {"ms", static_cast<double>(line.ns) * kMs},
                               {"times", line.times}});
  return out;
}

json::object stages_json(const OperationClock& clock) {
  json::object out;
  for (const std::string_view stage : stages_of(clock)) {
    int64_t ns = 0;
    for (const auto& line : clock.lines()) ns += stage_of(line) == stage ? line.ns : 0;
    out[stage] = static_cast<double>(ns) * kMs;
  }
  return out;
}

double named_ms(const OperationClock& clock) {
  int64_t ns = 0;
  for (const auto& line : clock.lines()) ns += line.operation.empty() ? 0 : line.ns;
  return static_cast<double>(ns) * kMs;
}

void print_operations(const OperationClock& clock) {
  const std::vector<std::string_view> stages = stages_of(clock);
  std::map<std::string_view, std::map<std::string_view, double>> table;
  std::map<std::string_view, double> sums;
  const double all = static_cast<double>(clock.total_ns()) * kMs;
  for (const auto& line : clock.lines()) sums[operation_of(line)] += static_cast<double>(line.ns) * kMs;
  for (const auto& line : clock.lines()) {
    const bool small = sums[operation_of(line)] < 1e-3 * all;
    table[small ? "below 0.1 % each" : operation_of(line)][stage_of(line)] += static_cast<double>(line.ns) * kMs;
  }
  std::vector<std::pair<double, std::string_view>> order;
  for (const auto& [operation, by_stage] : table) {
    double sum = 0;
    for (const auto& [stage, ms] : by_stage) sum += ms;
    order.emplace_back(sum, operation);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string head = fmt::format("  {:<26}", "ms");
  for (const std::string_view stage : stages) head += fmt::format(" {:>8}", stage);
  print_text(head + fmt::format(" {:>8} {:>6}\n", "sum", "%"));
  const auto row = [&](std::string_view name, const auto& of_stage, double sum) {
    std::string text = fmt::format("  {:<26}", name);
    for (const std::string_view stage : stages) {
      const double ms = of_stage(stage);
      text += ms > 0 ? fmt::format(" {:>8.2f}", ms) : fmt::format(" {:>8}", "");
    }
    print_text(text + fmt::format(" {:>8.2f} {:>6.1f}\n", sum, all > 0 ? 100 * sum / all : 0));
  };
  for (const auto& [sum, operation] : order)
    row(
        operation,
        [&, operation = operation](std::string_view stage) {
          const auto& by_stage = table[operation];
          const auto at = by_stage.find(stage);
          return at == by_stage.end() ? 0 : at->second;
        },
        sum);
  const json::object by_stage = stages_json(clock);
  row(
      "all", [&](std::string_view stage) { return by_stage.at(stage).as_double(); }, all);
  print_text("\n");
}

}  // namespace slip::cli
