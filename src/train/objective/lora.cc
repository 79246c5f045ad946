// SPDX-License-Identifier: Apache-2.0
// The draft adapter's parameters and folder; contracts in lora.h.
#include "train/objective/lora.h"

#include <cmath>

#include "base/file.h"
#include "base/json.h"

namespace slip {

LoraTable LoraTable::of(const ModelShape& shape, int32_t rank) {
  LoraTable out;
  const int64_t inside = int64_t{shape.heads} * shape.head_dim;
  const std::string_view layout = shape.vision ? "model.language_model." : "model.";
  const auto add = [&](int32_t layer, char which, int64_t rows, int64_t columns, InitKind init, double scale) {
    Parameter p;
    p.name = fmt::format("base_model.model.{}layers.{}.self_attn.o_proj.lora_{}.weight", layout, layer, which);
    p.shape = {rows, columns};
    p.offset = out.table.size;
    p.count = rows * columns;
    p.init = init;
    p.init_scale = scale;
    out.table.size += p.count;
    out.table.parameters.push_back(std::move(p));
    return Group{out.table.parameters.back().offset, rows, columns};
  };
  for (int32_t i = 0; i < shape.layers; ++i) {
    // The spread of PEFT's uniform start: 1 / sqrt(3 inside).
    out.a.push_back(add(i, 'A', rank, inside, InitKind::kNormal, 1 / std::sqrt(3.0 * static_cast<double>(inside))));
    out.b.push_back(add(i, 'B', shape.hidden, rank, InitKind::kZero, 0));
  }
  return out;
}

Status save_lora(const std::filesystem::path& folder, const ParameterTable& table, std::span<const float> values,
                 const LoraRule& rule, const std::string& base, StoreAs type) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return resource_error("{}: expected to create the folder, got {}", folder.string(), ec.message());
  const json::object config = {{"peft_type", "LORA"},     {"task_type", "CAUSAL_LM"}, {"base_model_name_or_path", base},
                               {"r", rule.rank},          {"lora_alpha", rule.alpha}, {"lora_dropout", 0.0},
                               {"bias", "none"},          {"use_rslora", false},      {"use_dora", false},
                               {"fan_in_fan_out", false}, {"inference_mode", true},   {"target_modules", json::array{"o_proj"}}};
  SLIP_TRY_(write_file(folder / "adapter_config.json", pretty(config)));
  return save_weights(folder / "adapter_model.safetensors", table, values, type);
}

}  // namespace slip
