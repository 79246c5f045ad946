// SPDX-License-Identifier: Apache-2.0
// See limits_tables.h. Tests: tests/cli/limits_test.cc
#include "api/tools/limits_tables.h"

#include <algorithm>
#include <cmath>

#include "limits/speculation_algebra.h"

namespace slip::api {

namespace {

/// Three digits for people; what is exact stays whole.
std::string word_of(const json::value& v) {
  if (v.is_null()) return "-";
  if (v.is_string()) return std::string(v.as_string());
  if (v.is_int64()) return std::to_string(v.as_int64());
  const double x = v.to_number<double>();
  return std::abs(x) >= 1000 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x);
}

std::string csv_of(const json::value& v) {
  if (v.is_null()) return "";
  if (!v.is_string()) return json::serialize(v);
  std::string out = "\"";
  for (const char c : v.as_string()) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

constexpr double kCosts[] = {0, 0.01, 0.05, 0.074, 0.1, 0.2, 0.32, 0.5, 1};

}  // namespace

json::value Table::to_json() const {
  json::array out;
  for (const json::array& row : rows) {
    json::object o;
    for (size_t i = 0; i < columns.size(); ++i) o[columns[i]] = row[i];
    out.push_back(std::move(o));
  }
  return out;
}

std::string Table::to_text() const {
  std::vector<size_t> width;
  for (size_t i = 0; i < columns.size(); ++i) {
    width.push_back(columns[i].size());
    for (const json::array& row : rows) width[i] = std::max(width[i], word_of(row[i]).size());
  }
  std::string out = title + "\n";
  const auto line = [&](const auto& cell) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == "reason")  // a sentence, and the last cell
        out += "  " + cell(i);
      else
        out += i == 0 ? fmt::format("  {:<{}}", cell(i), width[i]) : fmt::format("  {:>{}}", cell(i), width[i]);
    }
    out += "\n";
  };
  line([&](size_t i) { return columns[i]; });
  for (const json::array& row : rows) line([&](size_t i) { return word_of(row[i]); });
  return out;
}

std::string Table::to_csv() const {
  std::string out;
  for (size_t i = 0; i < columns.size(); ++i) out += (i ? "," : "") + csv_of(json::string(columns[i]));
  out += "\n";
  for (const json::array& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) out += (i ? "," : "") + csv_of(row[i]);
    out += "\n";
  }
  return out;
}

Table operations_table(const std::vector<std::pair<std::string, PassTime>>& passes) {
  Table t{.name = "operations",
          .title = "Operations, milliseconds a pass (longer of arithmetic and bytes):",
          .columns = {"operation"},
          .rows = {}};
  for (const auto& [name, pass] : passes) {
    t.columns.push_back(name);
    t.columns.push_back(name + " bound");
  }
  for (size_t i = 0; !passes.empty() && i < passes.front().second.operations.size(); ++i) {
    json::array row{json::string(passes.front().second.operations[i].name)};
    for (const auto& [name, pass] : passes) {
      const Operation& o = pass.operations[i];
      row.emplace_back(o.ms * static_cast<double>(o.repeat));
      row.emplace_back(o.compute_bound() ? "arithmetic" : "bytes");
    }
    t.rows.push_back(std::move(row));
  }
  json::array total{"all"};
  for (const auto& [name, pass] : passes) {
    total.emplace_back(pass.total_ms);
    total.emplace_back(nullptr);
  }
  t.rows.push_back(std::move(total));
  return t;
}

Table stage_table(std::string name, std::string title, const PassTime& stage) {
  Table t{.name = std::move(name),
          .title = std::move(title),
          .columns = {"operation", "times", "gflop", "megabytes", "arithmetic_ms", "bytes_ms", "ms", "bound"},
          .rows = {}};
  for (const Operation& o : stage.operations) {
    const auto n = static_cast<double>(o.repeat);
    t.rows.push_back({json::string(o.name), o.repeat, n * o.flops * 1e-9, n * o.bytes * 1e-6, n * o.compute_ms, n * o.memory_ms,
                      n * o.ms, o.compute_bound() ? "arithmetic" : "bytes"});
  }
  return t;
}

Table machine_table(const Machine& machine) {
  Table t{
      .name = "machine_peaks",
      .title = fmt::format("Peaks of {}, and the rows at which a product stops being bound by its weights' bytes:", machine.name),
      .columns = {"type", "tera_operations_per_s", "gb_per_s", "turning_rows"},
      .rows = {}};
  for (const std::string_view type : {"f32", "bf16", "int8", "int4"})
    t.rows.push_back(
        {json::string(type), machine.peak(type) * machine.efficiency, machine.bytes_per_ms() * 1e-6, turning_rows(machine, type)});
  return t;
}

std::string machine_words(const Machine& m) {
  return fmt::format("{}: {}\n  {:.4g} GB/s, {:.4g} bf16 TFLOP/s, {:.4g} f32, {:.4g} int8 TOP/s\n", m.name, m.source, m.gb_per_s,
                     m.bf16_tflops, m.peak("f32"), m.peak("int8"));
}

std::vector<Table> algebra_tables() {
  Table even{.name = "break_even",
             .title = "Acceptance at which gamma drafts a round pay (c: a draft step in passes):",
             .columns = {"gamma"},
             .rows = {}};
  Table best{.name = "landscape",
             .title = "Best gamma (of 0 to 32) and its speed-up, by acceptance and c:",
             .columns = {"alpha"},
             .rows = {}};
  Table finite{.name = "finite_answers",
               .title = "Answers of exactly n tokens: passes at c = 0.074 over n, gamma 6 and free depth (at most 8):",
               .columns = {"alpha", "7, gamma 6", "7, free", "64, gamma 6", "64, free", "400, gamma 6", "400, free"},
               .rows = {}};
  for (const double c : kCosts) {
    even.columns.push_back(fmt::format("c={}", c));
    best.columns.push_back(fmt::format("c={} gamma", c));
    best.columns.push_back(fmt::format("c={} speed-up", c));
  }
  for (const int gamma : {1, 2, 3, 4, 6, 8, 16}) {
    json::array row{gamma};
    for (const double c : kCosts) {
      const auto alpha = break_even_alpha(gamma, c, 1);
      row.push_back(alpha ? json::value(*alpha) : json::value(nullptr));
    }
    even.rows.push_back(std::move(row));
  }
  for (const double alpha : {0.2, 0.378, 0.5, 0.63, 0.7, 0.8, 0.9, 0.95, 0.98}) {
    json::array row{alpha};
    for (const double c : kCosts) {
      const BestGamma g = best_gamma(alpha, c);
      row.emplace_back(g.speedup > 1 ? g.gamma : 0);
      row.emplace_back(std::max(1.0, g.speedup));
    }
    best.rows.push_back(std::move(row));
    constexpr double kReport = 0.074;
    json::array short_row{alpha};
    for (const int n : {7, 64, 400}) {
      const FiniteRun run = finite_run(n, alpha, 6);
      short_row.emplace_back((run.rounds + kReport * run.draft_steps) / n);
      short_row.emplace_back(adaptive_run(n, alpha, kReport, 8).cost / n);
    }
    finite.rows.push_back(std::move(short_row));
  }
  return {std::move(even), std::move(best), std::move(finite)};
}

Table report_table() {
  const Machine& h100 = *std::find_if(published_machines().begin(), published_machines().end(),
                                      [](const Machine& m) { return m.name == "h100-nvl"; });
  const DecoderShape target{4096, 32, 32, 32, 128, 11008, 32064}, draft{896, 24, 14, 2, 64, 4864, 151936};
  const double target_prefill = genz_prefill(target, h100, 281, "bf16")->total_ms,
               target_step = genz_decode(target, h100, 288, 7, "bf16")->total_ms,
               draft_prefill = genz_prefill(draft, h100, 281, "bf16")->total_ms,
               draft_step = genz_decode(draft, h100, 288, 7, "bf16")->total_ms, c = draft_step / target_step, vision = 0.36;
  Table t{.name = "report",
          .title = "The OpenVLA + MiniVLA report on an H100 NVL, by its own formulas (GenZ) and by the plain roofline:",
          .columns = {"figure", "printed", "here", "ratio", "plain"},
          .rows = {}};
  const auto add = [&](const char* name, double printed, double here, std::optional<double> plain = {}) {
    t.rows.push_back({json::string(name), printed, here, here / printed, plain ? json::value(*plain) : json::value(nullptr)});
  };
  const auto plain = [&](const DecoderShape& s, int64_t rows, int64_t keys) {
    return plain_pass(s, h100, {.rows = rows, .keys = keys})->total_ms;
  };
  add("OpenVLA prefill of 281, ms", 3.92, target_prefill, plain(target, 281, 0));
  add("OpenVLA step, ms", 3.15, target_step, plain(target, 1, 288));
  add("MiniVLA prefill of 281, ms", 0.41, draft_prefill, plain(draft, 281, 0));
  add("MiniVLA step, ms", 0.23, draft_step, plain(draft, 1, 288));
  add("cost ratio c", 0.074, c);
  add("OpenVLA, actions a second (7 steps)", 38.0, 1000 / (vision + target_prefill + 7 * target_step));
  add("MiniVLA, actions a second (7 steps)", 415.7, 1000 / (vision + draft_prefill + 7 * draft_step));
  add("break-even acceptance, gamma 6, c .074", 0.31, *break_even_alpha(6, 0.074, 1));
  add("break-even acceptance, gamma 6, c .32", 0.68, *break_even_alpha(6, 0.32, 1));
  add("speed-up at .275, gamma 6, c .074", 0.87, speculative_speedup(0.275, 6, 0.074));
  add("speed-up at .275, gamma 6, c .32", 0.46, speculative_speedup(0.275, 6, 0.32));
  return t;
}

}  // namespace slip::api
