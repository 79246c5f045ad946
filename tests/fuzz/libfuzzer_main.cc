// SPDX-License-Identifier: Apache-2.0
// One libFuzzer program per target: SLIP_FUZZ_NAME is the target's name. Documents are changed as documents most of the time.
#include <cstring>

#include "fuzz/mutate.h"
#include "fuzz/targets.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {
constexpr slip::fuzz::Target kTarget = slip::fuzz::target_named(SLIP_FUZZ_NAME);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kTarget.run(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (kTarget.shape == slip::fuzz::Shape::kBytes || seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string input(reinterpret_cast<const char*>(data), size);
  slip::PhiloxStream random(seed, 0);
  slip::fuzz::mutate(input, kTarget.shape, random);
  if (input.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
