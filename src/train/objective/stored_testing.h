// SPDX-License-Identifier: Apache-2.0
// Reading the stored losses, gradients and inputs of tests/fixtures/heads: what the tests of objectives and of heads share. For tests: what
// cannot be read is an exception.
#pragma once
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/must_testing.h"
#include "core/safetensors.h"

namespace slip {

inline const std::filesystem::path kStoredHeads = std::filesystem::path(SLIP_FIXTURES) / "heads";

inline json::object stored_json(const std::string& name) { return must(read_json(kStoredHeads / name)).as_object(); }
inline Checkpoint stored_tensors(const std::string& name) { return must(Checkpoint::open_file(kStoredHeads / name)); }
inline double number(const json::value& v) { return v.to_number<double>(); }

template <class T>
std::vector<T> numbers(const json::value& v) {
  std::vector<T> out;
  for (const auto& x : v.as_array()) out.push_back(static_cast<T>(x.to_number<double>()));
  return out;
}

/// A tensor that is stored in double.
inline std::vector<double> doubles(const Checkpoint& c, const std::string& name) {
  const TensorView* t = c.find(name);
  if (t == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<double> out(static_cast<size_t>(t->elements()));
  if (t->dtype != DType::kF64) throw std::runtime_error(name + " is not double");
  std::memcpy(out.data(), t->bytes.data(), t->bytes.size());
  return out;
}

}  // namespace slip
