// SPDX-License-Identifier: Apache-2.0
// For tests: reading fixtures/decode, and its tiny models.
#pragma once
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "lm/lm.h"
#include "tests/tiny_qwen2.h"

namespace slip::test {

inline const std::string kDecodeFixtures = std::string(SLIP_FIXTURES) + "/decode/";

inline json::value load(const std::string& name) {
  auto v = read_json(kDecodeFixtures + name + ".json");
  if (!v) throw std::runtime_error(v.error().message);
  return std::move(*v);
}

inline int32_t int_of(const json::value& v) { return static_cast<int32_t>(v.as_int64()); }

inline std::vector<TokenId> ids_of(const json::value& v) {
  std::vector<TokenId> out;
  for (const auto& x : v.as_array()) out.push_back({int_of(x)});
  return out;
}

inline Prompt prompt_of(const std::vector<TokenId>& ids) {
  Prompt p;
  for (const TokenId id : ids) {
    p.positions.push_back(Position::text(static_cast<int32_t>(p.inputs.size())));
    p.inputs.emplace_back(id);
  }
  p.next_position = static_cast<int32_t>(p.inputs.size());
  return p;
}
/// A case's own prompt and model.
inline Prompt prompt_of_case(const json::value& c) { return prompt_of(ids_of(c.at("prompt"))); }

inline TinyQwen2& model_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<TinyQwen2>> models;
  auto& m = models[name];
  if (!m) m = std::make_unique<TinyQwen2>(kDecodeFixtures + "models/" + name);
  return *m;
}
inline TinyQwen2& model_of(const json::value& c) { return model_named(std::string(c.at("model").as_string())); }

}  // namespace slip::test
