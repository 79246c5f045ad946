// SPDX-License-Identifier: Apache-2.0
// Writes a GGUF file of random weights in the shape of a Qwen2 text decoder, so that llama.cpp can be measured without a download:
//
//   random_gguf OUT TYPE LAYERS WIDTH HEADS KV_HEADS MLP VOCAB       TYPE: bf16 q8_0 q4_0 q4_0_q6_k
//
// q4_0_q6_k: Q4_0 with a head of Q6_K, which is what llama.cpp's own quantizer writes when it is asked for Q4_0 (--pure keeps Q4_0).
// Head width is WIDTH / HEADS, the head is the embedding (tied), norms are ones, biases zeros, no vocabulary is stored. Format: GGUF
// version 3 [ggml, gguf.md]: header, key/value pairs, tensor infos, then data at multiples of 32 bytes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum Type : uint32_t { kF32 = 0, kQ40 = 2, kQ80 = 8, kQ6K = 14, kBF16 = 30 };
constexpr uint64_t kAlign = 32;

struct Tensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first
  Type type;
  float value = 0;  // of f32 tensors
  uint64_t numbers() const {
    uint64_t n = 1;
    for (const uint64_t d : dims) n *= d;
    return n;
  }
  uint64_t bytes() const {
    switch (type) {
      case kF32:
        return numbers() * 4;
      case kBF16:
        return numbers() * 2;
      case kQ80:
        return numbers() / 32 * 34;
      case kQ40:
        return numbers() / 32 * 18;
      case kQ6K:
        return numbers() / 256 * 210;
    }
    return 0;
  }
};

uint64_t g_state = 88172645463325252u;
uint64_t random64() {
  g_state ^= g_state << 13, g_state ^= g_state >> 7, g_state ^= g_state << 17;
  return g_state;
}

struct Writer {
  FILE* file;
  void raw(const void* p, size_t n) {
    if (std::fwrite(p, 1, n, file) != n) std::perror("random_gguf"), std::exit(1);
  }
  template <class T>
  void number(T v) {
    raw(&v, sizeof v);
  }
  void text(const std::string& s) {
    number<uint64_t>(s.size());
    raw(s.data(), s.size());
  }
  void key_text(const std::string& k, const std::string& v) { text(k), number<uint32_t>(8), text(v); }
  void key_int(const std::string& k, uint32_t v) { text(k), number<uint32_t>(4), number(v); }
  void key_float(const std::string& k, float v) { text(k), number<uint32_t>(6), number(v); }
  void pad() {
    static const char zeros[kAlign] = {};
    const auto at = static_cast<uint64_t>(std::ftell(file));
    raw(zeros, (kAlign - at % kAlign) % kAlign);
  }
};

// Random bits between fixed scales: bf16 of about 1/100, blocks whose scale is 2^-13 (q8_0), 2^-9 (q4_0) or 2^-14 (q6_k, times 16 random bytes).
void fill(const Tensor& t, std::vector<uint8_t>& block, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 8) {
    const uint64_t r = random64();
    std::memcpy(block.data() + i, &r, 8);
  }
  if (t.type == kBF16)
    for (uint64_t i = 0; i < bytes; i += 2) block[i + 1] = static_cast<uint8_t>((block[i + 1] & 0x80) | 0x3C);
  const uint64_t step = t.type == kQ80 ? 34 : t.type == kQ40 ? 18 : 0;
  for (uint64_t i = 0; step > 0 && i < bytes; i += step) block[i] = 0, block[i + 1] = t.type == kQ80 ? 0x08 : 0x18;
  for (uint64_t i = 208; t.type == kQ6K && i < bytes; i += 210) block[i] = 0, block[i + 1] = 0x04;  // the scale stands last
  if (t.type == kF32)
    for (uint64_t i = 0; i < bytes; i += 4) std::memcpy(block.data() + i, &t.value, 4);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return std::fprintf(stderr, "random_gguf OUT bf16|q8_0|q4_0|q4_0_q6_k LAYERS WIDTH HEADS KV_HEADS MLP VOCAB\n"), 2;
  const std::string word = argv[2];
  const Type type = word == "bf16" ? kBF16 : word == "q8_0" ? kQ80 : kQ40;
  const auto number = [&](int i) { return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  const uint32_t layers = number(3), width = number(4), heads = number(5), kv_heads = number(6), mlp = number(7), vocab = number(8);
  const uint64_t kv = uint64_t{width} / heads * kv_heads;
  const Type head = word == "q4_0_q6_k" ? kQ6K : type;
  std::vector<Tensor> tensors{{"token_embd.weight", {width, vocab}, head}, {"output_norm.weight", {width}, kF32, 1}};
  for (uint32_t l = 0; l < layers; ++l) {
    const std::string p = "blk." + std::to_string(l) + ".";
    const auto matrix = [&](const char* name, uint64_t in, uint64_t out) {
      tensors.push_back({p + name + ".weight", {in, out}, type});
    };
    const auto vector = [&](const std::string& name, uint64_t n, float v) { tensors.push_back({p + name, {n}, kF32, v}); };
    vector("attn_norm.weight", width, 1), vector("ffn_norm.weight", width, 1);
    matrix("attn_q", width, width), matrix("attn_k", width, kv), matrix("attn_v", width, kv), matrix("attn_output", width, width);
    vector("attn_q.bias", width, 0), vector("attn_k.bias", kv, 0), vector("attn_v.bias", kv, 0);
    matrix("ffn_gate", width, mlp), matrix("ffn_up", width, mlp), matrix("ffn_down", mlp, width);
  }
  Writer w{std::fopen(argv[1], "wb")};
  if (!w.file) return std::perror(argv[1]), 1;
  w.raw("GGUF", 4), w.number<uint32_t>(3), w.number<uint64_t>(tensors.size()), w.number<uint64_t>(12);
  w.key_text("general.architecture", "qwen2");
  w.key_text("general.name", "random");
  w.key_int("qwen2.block_count", layers), w.key_int("qwen2.context_length", 32768), w.key_int("qwen2.embedding_length", width);
  w.key_int("qwen2.feed_forward_length", mlp), w.key_int("qwen2.attention.head_count", heads);
  w.key_int("qwen2.attention.head_count_kv", kv_heads), w.key_float("qwen2.attention.layer_norm_rms_epsilon", 1e-6F);
  w.key_float("qwen2.rope.freq_base", 1e6F), w.key_int("qwen2.vocab_size", vocab), w.key_text("tokenizer.ggml.model", "none");
  uint64_t offset = 0;
  for (const Tensor& t : tensors) {
    w.text(t.name), w.number<uint32_t>(static_cast<uint32_t>(t.dims.size()));
    for (const uint64_t d : t.dims) w.number(d);
    w.number<uint32_t>(t.type), w.number(offset);
    offset += (t.bytes() + kAlign - 1) / kAlign * kAlign;
  }
  w.pad();
  constexpr uint64_t kBlock = 34 * 9 * 35 * 1024;  // whole blocks of every type: of 2, 34, 18 and 210 bytes
  std::vector<uint8_t> block(kBlock + 8);
  for (const Tensor& t : tensors) {
    for (uint64_t at = 0; at < t.bytes(); at += kBlock) {
      const uint64_t n = t.bytes() - at < kBlock ? t.bytes() - at : kBlock;
      fill(t, block, n);
      w.raw(block.data(), n);
    }
    w.pad();
  }
  return std::fclose(w.file) == 0 ? 0 : 1;
}
