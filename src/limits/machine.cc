// SPDX-License-Identifier: Apache-2.0
#include "limits/machine.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace slip {

double Machine::flops_per_ms(std::string_view type) const {
  const double f32 = f32_tflops > 0 ? f32_tflops : bf16_tflops / 2, int8 = int8_tops > 0 ? int8_tops : bf16_tflops * 2;
  return (type == "f32" ? f32 : type == "bf16" ? bf16_tflops : int8) * 1e9 * efficiency;
}

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

constexpr double kPerMs = 1e9;  // operations a millisecond at 1e12 a second

Status check(const Machine& m, const std::string& where) {
  const auto positive = [&](std::string_view key, double x) -> Status {
    if (x > 0 && std::isfinite(x)) return {};
    return bad_input("{}: {}: expected a number above 0, got {}", where, key, x);
  };
  SLIP_TRY_(positive("gb_per_s", m.gb_per_s));
  SLIP_TRY_(positive("bf16_tflops", m.bf16_tflops));
  SLIP_TRY_(positive("efficiency", m.efficiency));
  for (const auto& [key, x] : {std::pair{"f32_tflops", m.f32_tflops}, {"int8_tops", m.int8_tops}, {"pass_us", m.pass_us}})
    if (x < 0 || !std::isfinite(x)) return bad_input("{}: {}: expected a number of at least 0, got {}", where, key, x);
  if (m.efficiency > 1) return bad_input("{}: efficiency: expected at most 1, got {}", where, m.efficiency);
  return {};
}

/// A misspelt key would leave a figure at its default without a word.
Status check_keys(const json::object& o, const std::string& where) {
  static constexpr std::array<std::string_view, 10> kKeys = {"name",      "source",     "gb_per_s", "bf16_tflops", "f32_tflops",
                                                             "int8_tops", "efficiency", "pass_us",  "measured",    "kernels"};
  for (const auto& [key, value] : o)
    if (std::find(kKeys.begin(), kKeys.end(), std::string_view(key)) == kKeys.end())
      return bad_input("{}: expected keys among {}, got {}", where, fmt::join(kKeys, ", "), std::string_view(key));
  return {};
}

/// Numbers above 0, as many as `count` (0: any).
Result<std::vector<double>> rates(const json::object& o, std::string_view key, size_t count, const std::string& where) {
  SLIP_TRY(const json::array* const all, get_array(o, key, where));
  std::vector<double> out;
  for (const json::value& v : *all) {
    if (!v.is_number() || !(v.to_number<double>() > 0) || !std::isfinite(v.to_number<double>()))
      return bad_input("{}: {}: expected numbers above 0, got {}", where, key, json::serialize(v));
    out.push_back(v.to_number<double>());
  }
  if (out.empty() || (count > 0 && out.size() != count))
    return bad_input("{}: {}: expected {} numbers, got {}", where, key, count > 0 ? std::to_string(count) : "some", out.size());
  return out;
}

Result<KernelRates> kernels_of(const json::object& o, const std::string& where) {
  KernelRates k;
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
  SLIP_TRY(const json::value v, read_json(name));
  if (!v.is_object()) return bad_input("{}: expected an object, got another type", name);
  const json::object& o = v.get_object();
  SLIP_TRY_(check_keys(o, name));
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
                      {"f32_tflops", m.flops_per_ms("f32") / m.efficiency * 1e-9},
                      {"int8_tops", m.flops_per_ms("int8") / m.efficiency * 1e-9},
                      {"efficiency", m.efficiency},
                      {"pass_us", m.pass_us},
                      {"measured", m.measured}};
  if (m.kernels.empty()) return out;
  const auto all = [](const std::vector<double>& x, double scale) {
    json::array numbers;
    for (const double v : x) numbers.push_back(v * scale);
    return numbers;
  };
  out["kernels"] = json::object{{"rows", all(m.kernels.rows, 1)},
                                {"product_tops", all(m.kernels.product, 1 / kPerMs)},
                                {"attention_tops", all(m.kernels.attention, 1 / kPerMs)}};
  return out;
}

}  // namespace slip
