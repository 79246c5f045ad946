// SPDX-License-Identifier: Apache-2.0
// Tests: Roofline.* (tests/fixtures/limits: GenZ itself, run, and the plain reading beside it).
#include "limits/roofline.h"

#include <algorithm>
#include <array>

namespace slip {
namespace {

constexpr double kOnChipGbPerS = 18000;  // GenZ's
constexpr double kGigabyte = 1024.0 * 1024.0 * 1024.0;

double d(int64_t n) { return static_cast<double>(n); }

class Plain {
 public:
  Plain(const Machine& machine, const PassShape& pass) : machine_(machine), pass_(pass) {}
  void product(std::string name, int64_t repeat, double rows, double flops, double bytes) {
    out_.add(std::move(name), repeat, flops, bytes, machine_, machine_.product_flops_per_ms(pass_.type, rows));
  }
  void attention(int64_t repeat, double flops, double bytes) {
    out_.add("attention", repeat, flops, bytes, machine_, machine_.attention_flops_per_ms(pass_.type, d(pass_.rows)));
  }
  PassTime take() {
    if (machine_.pass_us > 0) out_.add({.name = "pass", .memory_ms = machine_.pass_us * 1e-3, .ms = machine_.pass_us * 1e-3});
    return std::move(out_);
  }

 private:
  const Machine& machine_;
  const PassShape& pass_;
  PassTime out_;
};

/// One of GenZ's operators: three tensors, each in memory or on the chip.
class Genz {
 public:
  Genz(const Machine& machine, std::string_view type) : machine_(machine), type_(type), bytes_(type == "int8" ? 1 : 2) {}
  void add(std::string name, int64_t repeat, double macs, std::array<double, 3> elements, std::array<bool, 3> on_chip) {
    Operation o{.name = std::move(name), .repeat = repeat, .flops = 2 * macs};
    double ms = 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      const double bytes = elements[i] * bytes_;
      o.bytes += bytes;
      ms += bytes / ((on_chip[i] ? kOnChipGbPerS : machine_.gb_per_s) * kGigabyte) * 1e3;
    }
    o.compute_ms = o.flops / machine_.flops_per_ms(type_);
    o.memory_ms = ms / machine_.efficiency;
    o.ms = std::max(o.compute_ms, o.memory_ms);
    out_.add(std::move(o));
  }
  PassTime take() { return std::move(out_); }

 private:
  const Machine& machine_;
  std::string_view type_;
  double bytes_;
  PassTime out_;
};

Status check(std::string_view type) {
  if (type == "bf16" || type == "int8") return {};
  return usage_error("limits: GenZ's formulas: expected bf16 or int8, got {}", type);
}

}  // namespace

void PassTime::add(Operation o) {
  total_ms += o.ms * static_cast<double>(o.repeat);
  operations.push_back(std::move(o));
}

void PassTime::add(std::string name, int64_t repeat, double flops, double bytes, const Machine& machine, double flops_per_ms) {
  Operation o{.name = std::move(name), .repeat = repeat, .flops = flops, .bytes = bytes};
  o.compute_ms = flops / flops_per_ms;
  o.memory_ms = bytes / machine.bytes_per_ms();
  o.ms = std::max(o.compute_ms, o.memory_ms);
  add(std::move(o));
}

int64_t DecoderShape::weights() const {
  return layers * (hidden * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden + 3 * hidden * ffn) + hidden * vocab;
}

Result<PassTime> plain_pass(const DecoderShape& s, const Machine& machine, const PassShape& p) {
  SLIP_TRY(const double weight, bytes_of(p.type));
  SLIP_TRY(const double head, bytes_of(p.head_type.empty() ? p.type : p.head_type));
  const double act = p.activation_bytes > 0 ? p.activation_bytes : weight, key = p.key_bytes > 0 ? p.key_bytes : weight;
  const double n = d(p.rows), answers = d(p.answers > 0 ? p.answers : p.rows), seen = d(p.keys + p.rows);
  const double H = d(s.hidden), F = d(s.ffn), V = d(s.vocab), Q = d(s.heads * s.head_dim), G = d(s.kv_heads * s.head_dim);
  Plain out(machine, p);
  const double met = !machine.knows(p.type) ? seen : d(p.keys) + (n + 1) / 2;
  out.product("embed", 1, n, 0, weight * n * H);
  out.product("qkv", s.layers, n, 2 * n * H * (Q + 2 * G), weight * H * (Q + 2 * G) + act * n * (H + Q + 2 * G));
  out.attention(s.layers, 4 * Q * n * met, act * 2 * n * Q + key * 2 * seen * G);
  out.product("o", s.layers, n, 2 * n * H * Q, weight * H * Q + act * n * (Q + H));
  out.product("gate_up", s.layers, n, 4 * n * H * F, weight * 2 * H * F + act * n * (H + 2 * F));
  out.product("down", s.layers, n, 2 * n * H * F, weight * H * F + act * n * (F + H));
  out.product("head", 1, answers, 2 * answers * H * V, head * H * V + act * answers * (H + V));
  return out.take();
}

Result<PassTime> genz_prefill(const DecoderShape& s, const Machine& machine, int64_t tokens, std::string_view type) {
  SLIP_TRY_(check(type));
  const double n = d(tokens), H = d(s.hidden), F = d(s.ffn), V = d(s.vocab), Q = d(s.heads * s.head_dim),
               G = d(s.kv_heads * s.head_dim), scores = d(s.heads) * n * n;
  static constexpr std::array<bool, 3> kOff{false, false, false};
  Genz out(machine, type);
  out.add("embeddings", 1, n * V * H, {n * V, V * H, n * H}, kOff);
  out.add("QKV", s.layers, n * H * (Q + 2 * G), {n * H, H * (Q + 2 * G), n * (Q + 2 * G)}, kOff);
  out.add("Logit", s.layers, n * n * Q, {n * Q, n * G, scores}, {false, false, true});
  out.add("Attend", s.layers, n * n * Q, {scores, n * G, n * Q}, {true, false, false});
  out.add("Out Proj", s.layers, n * H * Q, {n * Q, Q * H, n * H}, kOff);
  out.add("up+gate", s.layers, 2 * n * H * F, {n * H, 2 * H * F, 2 * n * F}, kOff);
  out.add("down", s.layers, n * H * F, {n * F, F * H, n * H}, kOff);
  out.add("classifier", 1, n * H * V, {n * H, H * V, n * V}, kOff);
  return out.take();
}

Result<PassTime> genz_decode(const DecoderShape& s, const Machine& machine, int64_t tokens, int64_t generated,
                             std::string_view type) {
  SLIP_TRY_(check(type));
  const double t = d(tokens), g = d(generated), H = d(s.hidden), F = d(s.ffn), V = d(s.vocab), Q = d(s.heads * s.head_dim),
               G = d(s.kv_heads * s.head_dim), h = d(s.heads);
  static constexpr std::array<bool, 3> kWeights{true, false, true};
  Genz out(machine, type);
  out.add("QKV", s.layers, H * (Q + 2 * G), {H, H * (Q + 2 * G), Q + 2 * G}, kWeights);
  for (const auto& [name, keys] : {std::pair{"Logit Pre", t}, {"Logit Suf", g}})
    out.add(name, s.layers, Q * keys, {Q, keys * G, h * keys}, kWeights);
  for (const auto& [name, keys] : {std::pair{"Attend Pre", t}, {"Attend Suf", g}})
    out.add(name, s.layers, Q * keys, {h * keys, keys * G, Q}, kWeights);
  out.add("Out Proj", s.layers, H * Q, {Q, Q * H, H}, kWeights);
  out.add("up+gate", s.layers, 2 * H * F, {H, 2 * H * F, 2 * F}, kWeights);
  out.add("down", s.layers, H * F, {F, F * H, H}, kWeights);
  out.add("classifier", 1, H * V, {H, H * V, V}, {false, false, false});
  return out.take();
}

}  // namespace slip
