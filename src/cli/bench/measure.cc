// SPDX-License-Identifier: Apache-2.0
// See measure.h.
#include "cli/bench/measure.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/measure.h"
#include "base/progress.h"

namespace slip::cli {

Result<std::unique_ptr<Engine>> load_engine(const std::string& model, const std::string& dtype, int threads, int slots,
                                            const std::string& device, const std::string& kv_type) {
  Progress progress("loading", 0);
  const auto tell = [&](int64_t done, int64_t total) { progress.update(total > 0 ? done * 100 / total : done, "%"); };
  return Engine::load(model, {dtype, threads, slots, device, kv_type}, {tell, CancelToken::of_process()});
}

bool MachineState::like(double gbps) const { return std::abs(read_gbps - gbps) <= kSteady * gbps; }

std::string_view isa_of(const std::string& device) {
  return device == "cpu" ? word_of(isa_choice().isa) : std::string_view("cuda");
}
std::string where_it_runs(const std::string& device) { return device == "cpu" ? isa_choice().reason : "on " + device; }

MachineState StateWatch::next() {
  const double before = last_;
  last_ = probe_.gbps();
  return {(before + last_) / 2, std::abs(before - last_) / std::max(before, last_)};
}

Steady steady_samples(std::span<const MachineState> states) {
  std::vector<double> gbps;
  for (const MachineState& s : states) gbps.push_back(s.read_gbps);
  const double usual = median(gbps);
  Steady out;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].steady() && states[i].like(usual)) out.samples.push_back(i);
  out.is = !out.samples.empty();
  for (size_t i = 0; !out.is && i < states.size(); ++i) out.samples.push_back(i);
  gbps.clear();
  for (const size_t i : out.samples) gbps.push_back(states[i].read_gbps);
  out.read_gbps = median(std::move(gbps));
  return out;
}

namespace {

constexpr int kSlice = 1024;  // rows of the MLP at once, as in a pass

double numbers(const PackedMatrix& w) { return static_cast<double>(w.n()) * static_cast<double>(w.k()); }

}  // namespace

Products::Products(const DecoderLm& lm, int most_rows, ThreadPool& pool) : lm_(lm), pool_(pool) {
  const auto rows = static_cast<size_t>(most_rows);
  size_t widest_in = static_cast<size_t>(lm.head_matrix()->k()), widest_out = 1;
  for (int32_t l = 0; l < lm.options().layers; ++l) {
    const LayerWeights& w = lm.layer(l);
    for (const PackedMatrix* m : {&w.qkv, &w.o, &w.gate_up, &w.down}) {
      widest_in = std::max(widest_in, static_cast<size_t>(m->k()));
      const bool sliced = m == &w.gate_up;
      widest_out = std::max(widest_out, static_cast<size_t>(m->n()) * (sliced ? std::min(rows, size_t{kSlice}) : rows));
      layer_weights_ += numbers(*m);
      layer_bytes_ += static_cast<double>(m->bytes());
    }
  }
  head_weights_ = numbers(*lm.head_matrix());
  head_bytes_ = static_cast<double>(lm.head_matrix()->bytes());
  x_.resize(rows * widest_in);
  for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 2654435761U % 1021) / 510.5F - 1;
  out_.resize(widest_out);
  best_.resize(rows);
}

void Products::run(int rows, int head_rows) {
  const auto product = [&](const PackedMatrix& w, int n) {
    matmul(w, x_.data(), n, w.k(), nullptr, out_.data(), w.n(), pool_, workspace_);
  };
  for (int32_t l = 0; l < lm_.options().layers; ++l) {
    const LayerWeights& w = lm_.layer(l);
    product(w.qkv, rows);
    product(w.o, rows);
    for (int first = 0; first < rows; first += kSlice) {
      product(w.gate_up, std::min(kSlice, rows - first));
      product(w.down, std::min(kSlice, rows - first));
    }
  }
  const PackedMatrix& head = *lm_.head_matrix();
  if (head_rows > 0) matmul_argmax(head, x_.data(), head_rows, head.k(), best_.data(), nullptr, pool_, workspace_);
}

Status CausalRows::fill(Lm& lm, const Prompt& sequence, int keys) {
  constexpr int kAtOnce = 512;
  for (int begin = 0; begin < keys; begin += kAtOnce) {
    SLIP_TRY_(check_interrupt());
    rows.clear();
    spans.clear();
    for (int i = begin; i < std::min(keys, begin + kAtOnce); ++i) {
      spans.push_back({i, i + 1});
      rows.push_back({sequence.inputs[static_cast<size_t>(i)], sequence.positions[static_cast<size_t>(i)], i,
                      static_cast<uint32_t>(spans.size() - 1), 1, Want::kNothing});
    }
    SLIP_TRY_(lm.forward({rows, spans, sequence.features}, out));
  }
  return {};
}

Status CausalRows::run(Lm& lm, const Prompt& sequence, int begin, int end, int wanted) {
  rows.clear();
  spans.clear();
  for (int i = begin; i < end; ++i) {
    spans.push_back({0, i + 1});
    rows.push_back({sequence.inputs[static_cast<size_t>(i)], sequence.positions[static_cast<size_t>(i)], i,
                    static_cast<uint32_t>(spans.size() - 1), 1, i >= end - wanted ? Want::kArgmax : Want::kNothing});
  }
  return lm.forward({rows, spans, sequence.features}, out);
}

}  // namespace slip::cli
