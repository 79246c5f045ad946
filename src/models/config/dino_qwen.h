// SPDX-License-Identifier: Apache-2.0
// dino_qwen: DINOv2 features and a row of ego history in front of a Qwen2 or Qwen3 [FastDriveCoT]. The paper
// names the parts and no file; this is our own folder layout, documented in docs/decisions/0009-dino-qwen.md:
//
//   {"architectures": ["DinoQwenForCausalLM"], "model_type": "dino_qwen", "image_token_id": 151655,
//    "text_config": {"model_type": "qwen2", ...},  "vision_config": {"model_type": "dinov2", ...},
//    "pooling": 2, "projector": {"hidden_size": 896},
//    "history": {"token_id": 151657, "states": 16, "hidden_size": 256, "scale": [0.05, 0.05, 0.1, 0.1, 0.5, 0.5]}}
//   tensors: language_model.model.*, vision_tower.* (Hugging Face's Dinov2 names), projector.fc1 and fc2, history.fc1 and fc2
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "models/config/config.h"

namespace slip {

bool is_dino_qwen_config(const json::object& top);
Result<ModelConfig> parse_dino_qwen_config(const json::object& top, std::string_view where);

/// Dinov2Config or Dinov2WithRegistersConfig as the library writes them; `prefix` opens its tensors' names.
Result<VitConfig> read_dinov2_config(const json::object& o, std::string_view where, std::string prefix);

}  // namespace slip
