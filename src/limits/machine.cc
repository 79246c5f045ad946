// SPDX-License-Identifier: Apache-2.0
#include "limits/machine.h"

#include "base/json/flaws.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace slip {

double Machine::peak(std::string_view type) const {
  const double f32 = f32_tflops > 0 ? f32_tflops : bf16_tflops / 2, int8 = int8_tops > 0 ? int8_tops : bf16_tflops * 2;
  return type == "f32" ? f32 : type == "bf16" ? bf16_tflops : int8;
}

double Machine::flops_per_ms(std::string_view type) const { return peak(type) * 1e9 * efficiency; }

double KernelRates::at(const std::vector<double>& rates, double n) const {
  const auto above = std::lower_bound(rows.begin(), rows.end(), n);
  if (above == rows.end()) return rates.back();
  const auto i = static_cast<size_t>(above - rows.begin());
  if (i == 0) return rates.front();
  // Of one operation a row: r / rate is what r rows take.
  const double low = rows[i - 1] / rates[i - 1], high = rows[i] / rates[i];
  return n / (low + (high - low) * (n - rows[i - 1]) / (rows[i] - rows[i - 1]));
}

Result<double> bytes_of(std::string_view type) {
  if (type == "f32") return 4.0;
  if (type == "bf16") return 2.0;
  if (type == "int8") return 1.0;
  if (type == "int4") return 4.125 / 8;
  return usage_error("limits: expected f32, bf16, int8 or int4, got {}", type);
}

std::span<const Machine> published_machines() {
  // Dense, without sparsity: data sheets print some of these doubled.
  static const std::array<Machine, 6> all = {{
      {.name = "h100",
       .source = "NVIDIA H100 SXM data sheet: 3.35 TB/s, 989 TFLOP/s bf16, 1,979 TOP/s int8",
       .gb_per_s = 3350,
       .bf16_tflops = 989,
       .f32_tflops = 67,
       .int8_tops = 1979},
      {.name = "h100-nvl",
       .source = "the figures of the OpenVLA + MiniVLA report: 3,958 GB/s, 989 TFLOP/s bf16",
       .gb_per_s = 3958,
       .bf16_tflops = 989,
       .f32_tflops = 67,
       .int8_tops = 1979},
      {.name = "h200",
       .source = "NVIDIA H200 SXM data sheet: 4.8 TB/s, 989 TFLOP/s bf16, 1,979 TOP/s int8",
       .gb_per_s = 4800,
       .bf16_tflops = 989,
       .f32_tflops = 67,
       .int8_tops = 1979},
      {.name = "a100",
       .source = "NVIDIA A100 80 GB SXM data sheet: 2,039 GB/s, 312 TFLOP/s bf16, 624 TOP/s int8",
       .gb_per_s = 2039,
       .bf16_tflops = 312,
       .f32_tflops = 19.5,
       .int8_tops = 624},
      {.name = "thor",
       .source = "NVIDIA Jetson AGX Thor (T5000) data sheet: 273 GB/s; 1,035 TFLOP/s dense fp4, a quarter of it bf16",
       .gb_per_s = 273,
       .bf16_tflops = 258.75,
       .f32_tflops = 8.064,
       .int8_tops = 517.5},
      {.name = "orin",
       .source = "NVIDIA Jetson AGX Orin 64 GB data sheet: 204.8 GB/s; 138 TOP/s dense int8, half of it bf16 (fp16)",
       .gb_per_s = 204.8,
       .bf16_tflops = 69,
       .f32_tflops = 5.3,
       .int8_tops = 138},
  }};
  return all;
}

namespace {

constexpr double kPerMs = 1e9;                // operations a millisecond at 1e12 a second
constexpr double kLeast = 1e-6, kMost = 1e9;  // of a figure: what a machine can have, and by far more

Status in_range(std::string_view key, double x, const std::string& where) {
  if (x >= kLeast && x <= kMost) return {};
  return bad_input("{}: {}: expected a number from {} to {}, got {}", where, key, kLeast, kMost, x);
}

Status check(const Machine& m, const std::string& where) {
  SLIP_TRY_(in_range("gb_per_s", m.gb_per_s, where));
  SLIP_TRY_(in_range("bf16_tflops", m.bf16_tflops, where));
  SLIP_TRY_(in_range("efficiency", m.efficiency, where));
  for (const auto& [key, x] : {std::pair{"f32_tflops", m.f32_tflops}, {"int8_tops", m.int8_tops}, {"pass_us", m.pass_us}})
    if (x != 0) SLIP_TRY_(in_range(key, x, where));
  if (m.efficiency > 1) return bad_input("{}: efficiency: expected at most 1, got {}", where, m.efficiency);
  for (const auto& [key, text] : {std::pair{"name", &m.name}, {"source", &m.source}})
    if (std::ranges::any_of(*text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
      return bad_input("{}: {}: expected one line of text, got a control character", where, key);
  if (m.name.empty()) return bad_input("{}: name: expected a text, got none", where);
  return {};
}

/// A misspelt key would leave a figure at its default without a word.
Status check_keys(const json::object& o, std::span<const std::string_view> keys, const std::string& where) {
  for (const auto& [key, value] : o)
    if (std::ranges::find(keys, std::string_view(key)) == keys.end())
      return bad_input("{}: expected keys among {}, got {}", where, fmt::join(keys, ", "), std::string_view(key));
  return {};
}

constexpr std::array<std::string_view, 11> kMachineKeys = {"name",       "source",    "gb_per_s",     "bf16_tflops",
                                                           "f32_tflops", "int8_tops", "efficiency",   "pass_us",
                                                           "measured",   "kernels",   "tower_kernels"};
constexpr std::array<std::string_view, 6> kKernelKeys = {"rows", "product_tops", "attention_tops", "type", "width", "ffn"};

/// Figures of a machine, as many as `count` (0: any).
Result<std::vector<double>> rates(const json::object& o, std::string_view key, size_t count, const std::string& where) {
  SLIP_TRY(const json::array* const all, get_array(o, key, where));
  std::vector<double> out;
  for (const json::value& v : *all) {
    if (!v.is_number()) return bad_input("{}: {}: expected numbers, got {}", where, key, json::serialize(v));
    SLIP_TRY_(in_range(key, v.to_number<double>(), where));
    out.push_back(v.to_number<double>());
  }
  if (out.empty() || (count > 0 && out.size() != count))
    return bad_input("{}: {}: expected {} numbers, got {}", where, key, count > 0 ? std::to_string(count) : "some", out.size());
  return out;
}

Result<KernelRates> kernels_of(const json::object& o, const std::string& where) {
  SLIP_TRY_(check_keys(o, kKernelKeys, where));
  KernelRates k;
  SLIP_TRY(k.type, string_or(o, "type", "", where));
  if (!k.type.empty() && !bytes_of(k.type)) return bad_input("{}: type: expected f32, bf16, int8 or int4, got {}", where, k.type);
  SLIP_TRY(k.width, int_or(o, "width", 0, where));
  SLIP_TRY(k.ffn, int_or(o, "ffn", 0, where));
  if (k.width < 0 || k.ffn < 0)
    return bad_input("{}: width and ffn: expected numbers of at least 0, got {} and {}", where, k.width, k.ffn);
  SLIP_TRY(k.rows, rates(o, "rows", 0, where));
  SLIP_TRY(k.product, rates(o, "product_tops", k.rows.size(), where));
  SLIP_TRY(k.attention, rates(o, "attention_tops", k.rows.size(), where));
  for (size_t i = 0; i < k.rows.size(); ++i) {
    if (i > 0 && k.rows[i] <= k.rows[i - 1])
      return bad_input("{}: rows: expected ascending numbers, got {} after {}", where, k.rows[i], k.rows[i - 1]);
    k.product[i] *= kPerMs, k.attention[i] *= kPerMs;
  }
  return k;
}

json::object kernels_json(const KernelRates& k) {
  const auto all = [](const std::vector<double>& x, double scale) {
    json::array numbers;
    for (const double v : x) numbers.push_back(v / scale);
    return numbers;
  };
  json::object out{
      {"rows", all(k.rows, 1)}, {"product_tops", all(k.product, kPerMs)}, {"attention_tops", all(k.attention, kPerMs)}};
  if (!k.type.empty()) out["type"] = k.type;
  if (k.width > 0) out["width"] = k.width;
  if (k.ffn > 0) out["ffn"] = k.ffn;
  return out;
}

}  // namespace

Result<Machine> machine_named(const std::string& name) {
  std::string known;
  for (const Machine& m : published_machines()) {
    if (m.name == name) return m;
    known += m.name + ", ";
  }
  std::error_code ec;
  if (name.find('/') == std::string::npos && !name.ends_with(".json") && !std::filesystem::exists(name, ec))
    return usage_error("--machine: expected {}or a JSON file, got {}", known, name);
  SLIP_TRY(const json::value v, read_written_json(name));
  if (!v.is_object()) return bad_input("{}: expected an object, got another type", name);
  const json::object& o = v.get_object();
  SLIP_TRY_(check_keys(o, kMachineKeys, name));
  Machine m;
  SLIP_TRY(m.name, string_or(o, "name", std::filesystem::path(name).stem().string(), name));
  SLIP_TRY(m.source, string_or(o, "source", name, name));
  SLIP_TRY(m.gb_per_s, get_number(o, "gb_per_s", name));
  SLIP_TRY(m.bf16_tflops, get_number(o, "bf16_tflops", name));
  SLIP_TRY(m.f32_tflops, number_or(o, "f32_tflops", 0, name));
  SLIP_TRY(m.int8_tops, number_or(o, "int8_tops", 0, name));
  SLIP_TRY(m.efficiency, number_or(o, "efficiency", 1, name));
  SLIP_TRY(m.pass_us, number_or(o, "pass_us", 0, name));
  SLIP_TRY(m.measured, bool_or(o, "measured", false, name));
  if (o.contains("kernels")) {
    SLIP_TRY(const json::object* const kernels, get_object(o, "kernels", name));
    SLIP_TRY(m.kernels, kernels_of(*kernels, name + ": kernels"));
  }
  if (o.contains("tower_kernels")) {
    SLIP_TRY(const json::array* const towers, get_array(o, "tower_kernels", name));
    for (const json::value& v : *towers) {
      if (v.is_null()) {  // a tower of which nothing was measured
        m.tower_kernels.emplace_back();
        continue;
      }
      if (!v.is_object()) return bad_input("{}: tower_kernels: expected objects, got another type", name);
      SLIP_TRY(KernelRates k, kernels_of(v.get_object(), name + ": tower_kernels"));
      m.tower_kernels.push_back(std::move(k));
    }
  }
  SLIP_TRY_(check(m, name));
  return m;
}

double turning_rows(const Machine& m, std::string_view type) {
  const auto bytes = bytes_of(type);
  return bytes ? *bytes * m.flops_per_ms(type) / (2 * m.bytes_per_ms()) : 0;
}

json::object machine_json(const Machine& m) {
  json::object out = {{"name", m.name},
                      {"source", m.source},
                      {"gb_per_s", m.gb_per_s},
                      {"bf16_tflops", m.bf16_tflops},
                      {"f32_tflops", m.peak("f32")},
                      {"int8_tops", m.peak("int8")},
                      {"efficiency", m.efficiency},
                      {"pass_us", m.pass_us},
                      {"measured", m.measured}};
  if (!m.kernels.empty()) out["kernels"] = kernels_json(m.kernels);
  json::array towers;
  for (const KernelRates& k : m.tower_kernels) towers.push_back(k.empty() ? json::value() : json::value(kernels_json(k)));
  if (!towers.empty()) out["tower_kernels"] = std::move(towers);
  return out;
}

}  // namespace slip
