// SPDX-License-Identifier: Apache-2.0
// A configuration that trains a tiny model on the toy source, for tests that change a key of it.
#pragma once
#include <string>

#include "base/json.h"

namespace slip::test {

inline json::object tiny_config() {
  return parse_json(R"({"model": {"model_type": "qwen2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 24, "tie_word_embeddings": true, "mask_token_id": 1,
      "diffusion_shift": 1},
    "data": {"kind": "toy", "vocab": 24, "prompt": 6, "fields": 4, "values": 2}, "steps": 2, "batch": 2, "threads": 1, "out": "x"})",
                    "config")
      ->as_object();
}

inline json::object with(const char* key, const std::string& value) {
  json::object c = tiny_config();
  c[key] = *parse_json(value, key);
  return c;
}

}  // namespace slip::test
