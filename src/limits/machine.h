// SPDX-License-Identifier: Apache-2.0
// A machine as a roofline sees it: how fast it reads memory, how fast it multiplies. Measured (cli limits), read from a file, or one of a few
// with published figures.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace slip {

/// What products and attention of this engine reach at a model's shapes, by the rows of a pass: multiplications and additions a millisecond,
/// of all threads together, weights coming from where a pass of that model finds them. Rows ascend from 1; between them the time of a row
/// is a line, behind the last the rate stays.
struct KernelRates {
  std::vector<double> rows, product, attention;
  std::string type = {};       // of the weights; empty: any
  int64_t width = 0, ffn = 0;  // of the layers; 0: unknown
  bool empty() const { return rows.empty(); }
  double product_at(double n) const { return at(product, n); }
  double attention_at(double n) const { return at(attention, n); }

 private:
  double at(const std::vector<double>& rates, double n) const;
};

struct Machine {
  std::string name, source;
  double gb_per_s = 0;                   // 1e9 bytes
  double bf16_tflops = 0;                // dense products; 1e12 multiplications and additions
  double f32_tflops = 0, int8_tops = 0;  // 0: half of bf16, and twice it
  double efficiency = 1;                 // of both peaks, where they are not measured ones
  double pass_us = 0;                    // of a pass whatever it holds: launches, hand-overs
  bool measured = false;
  KernelRates kernels = {};                     // of the machine and the model that are measured here; empty: the peaks count
  std::vector<KernelRates> tower_kernels = {};  // of its vision towers, at a picture's rows; empty: the peaks count

  /// The peak of a type's products, 1e12 multiplications and additions a second: "f32", "bf16", "int8", "int4" (as int8).
  double peak(std::string_view type) const;
  /// Of that what is reached, a millisecond.
  double flops_per_ms(std::string_view type) const;
  /// The same of a pass of so many rows: what kernels reach, where that is known.
  double product_flops_per_ms(std::string_view type, double rows) const {
    return knows(type) ? kernels.product_at(rows) : flops_per_ms(type);
  }
  double attention_flops_per_ms(std::string_view type, double rows) const {
    return knows(type) ? kernels.attention_at(rows) : flops_per_ms(type);
  }
  /// Is it known what kernels reach with weights of this type?
  bool knows(std::string_view type) const { return !kernels.empty() && (kernels.type.empty() || kernels.type == type); }
  double bytes_per_ms() const { return gb_per_s * 1e6 * efficiency; }
};

/// What a number takes as weight, bytes: f32 4, bf16 2, int8 1, int4 0.515625 (4.125 bits). kUsage for another word.
Result<double> bytes_of(std::string_view type);
/// Rows at which a product with weights of this type stops being bound by their bytes: 2 rows / peak = bytes a weight / bandwidth. 0 for an
/// unknown type.
double turning_rows(const Machine& machine, std::string_view type);

/// h100, h200, thor, orin, a100, h100-nvl: dense figures of the vendors' data sheets, at an efficiency of 1. Sources are in the structs.
std::span<const Machine> published_machines();
/// A published one's name, or a JSON file {"name", "gb_per_s", "bf16_tflops", "f32_tflops"?, "int8_tops"?, "efficiency"?, "pass_us"?,
/// "source"?, "measured"?, "kernels"?, "tower_kernels"?}, which machine_json writes; kernels are {"rows", "product_tops", "attention_tops", "type"?, "width"?, "ffn"?},
/// and tower_kernels an array of such or null. kUsage for neither, kBadInput for numbers that are none, for figures that no machine has, and for other keys.
Result<Machine> machine_named(const std::string& name_or_file);
json::object machine_json(const Machine& machine);

}  // namespace slip
