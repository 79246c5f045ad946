// SPDX-License-Identifier: Apache-2.0
// Small networks beside a frozen target: parameters in one flat buffer, by name, with gradients. The headers of this folder are free of
// torch; the networks are computed in *_torch.cc, from plain tensor operations in float or double: at their sizes nothing is fused.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "train/model/model_shape.h"
#include "train/model/model_torch.h"

namespace slip {

/// Names and shapes, laid side by side.
class TableBuilder {
 public:
  void add(std::string name, std::vector<int64_t> shape, InitKind init = InitKind::kNormal, double scale = 1);
  /// name.weight and, with `bias`, name.bias.
  void linear(const std::string& name, int64_t out, int64_t in, bool bias, double scale = 1);
  ParameterTable table() &&;

 private:
  ParameterTable table_;
};

class HeadNetwork {
 public:
  HeadNetwork(ParameterTable table, Precision precision);
  virtual ~HeadNetwork();
  HeadNetwork(const HeadNetwork&) = delete;
  HeadNetwork& operator=(const HeadNetwork&) = delete;

  const ParameterTable& table() const;
  /// T is double for kF64, else float.
  template <class T>
  std::span<T> values();
  template <class T>
  std::span<T> gradients();
  void clear_gradients();

  struct Impl;  // network_torch.h

 protected:
  std::unique_ptr<Impl> impl_;
};

/// A tensor of constants: numbers with their shape.
struct Constant {
  std::vector<float> numbers;
  std::vector<int64_t> shape;
};

/// The layers of a Qwen3 decoder without biases: what a DFlash head and a flow head are made of.
struct Qwen3Shape {
  int32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  double eps = 1e-6, rope_theta = 1e4;
};
/// Adds `prefix`layers.<i>.* and `prefix`norm.weight.
void add_qwen3(TableBuilder& builder, const Qwen3Shape& shape, const std::string& prefix);

}  // namespace slip
