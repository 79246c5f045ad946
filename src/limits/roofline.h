// SPDX-License-Identifier: Apache-2.0
// Times of a text decoder's operations by the roofline: each takes the longer of its arithmetic and its bytes.
//
// plain: our reading. Weights and keys are read once a pass, activations once in and once out, the embedding is looked up, only rows that
// ask have logits; every row meets all keys of its pass (no causal half, an upper bound that is small below some thousand rows). Where a machine's
// kernels were measured, their rates stand for its peaks, and rows meet the keys before them.
// genz: GenZ-LLM-Analyzer's formulas [as paper 004 uses them], to compare with its numbers and no further: GB/s of 2^30 bytes, an embedding
// as a product of one-hot rows, logits of all rows in the prefill, no causal half, intermediate tensors on the chip at 18,000 GB/s.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "limits/machine.h"

namespace slip {

/// A decoder's sizes, by the names of config.json.
struct DecoderShape {
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  /// Numbers that a pass reads: the layers' matrices and the head.
  int64_t weights() const;
};

struct Operation {
  std::string name;
  int64_t repeat = 1;           // times a pass
  double flops = 0, bytes = 0;  // each
  double compute_ms = 0, memory_ms = 0, ms = 0;
  bool compute_bound() const { return compute_ms >= memory_ms; }
};
struct PassTime {
  std::vector<Operation> operations;
  double total_ms = 0;
  void add(Operation operation);
  /// One that takes max(flops / flops_per_ms, bytes / bandwidth), `repeat` times.
  void add(std::string name, int64_t repeat, double flops, double bytes, const Machine& machine, double flops_per_ms);
};

struct PassShape {
  int64_t rows = 1;     // of this pass
  int64_t keys = 0;     // in the cache before it
  int64_t answers = 1;  // rows that ask for logits; 0: all
  std::string type = "bf16";
  std::string head_type = {};   // of the head's weights; empty: as the others
  double activation_bytes = 0;  // a number; 0: as the weights
  double key_bytes = 0;         // likewise
};
Result<PassTime> plain_pass(const DecoderShape& shape, const Machine& machine, const PassShape& pass);

/// GenZ's prefill of `tokens` and its decoding step behind `tokens`, `generated` of them its own; batch 1, bf16 or int8.
Result<PassTime> genz_prefill(const DecoderShape& shape, const Machine& machine, int64_t tokens, std::string_view type);
Result<PassTime> genz_decode(const DecoderShape& shape, const Machine& machine, int64_t tokens, int64_t generated,
                             std::string_view type);

}  // namespace slip
