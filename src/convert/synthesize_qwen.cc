// SPDX-License-Identifier: Apache-2.0
// Qwen2.5-VL-3B and Qwen2.5-0.5B (docs/notes/checkpoints.md#shapes).
#include <algorithm>

#include "convert/synthesize_parts.h"
#include "image/qwen_preprocess.h"

namespace slip {
namespace {

// Ids of the Qwen vocabulary: bytes and words up to `words`, then the added tokens (docs/notes/checkpoints.md#tokenizers).
struct QwenIds {
  int64_t words;
  int64_t end_of_text() const { return words; }
  int64_t im_end() const { return words + 2; }
  int64_t vision_start() const { return words + 9; }
  int64_t image_pad() const { return words + 12; }
};

struct QwenTower {
  int64_t depth, width, heads, mlp;
};

json::object qwen_vl_config(const SynthesizeOptions& o, const DecoderSizes& s, const QwenIds& ids, const QwenTower& t) {
  json::array full;
  const int64_t fulls = std::min<int64_t>(4, t.depth / 2);  // the others have windows
  for (int64_t i = 1; i <= fulls; ++i) full.push_back(t.depth * i / fulls - 1);
  json::object config{{"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
                      {"model_type", "qwen2_5_vl"},
                      {"attention_dropout", 0.0},
                      {"bos_token_id", ids.end_of_text()},
                      {"eos_token_id", ids.im_end()},
                      {"vision_start_token_id", ids.vision_start()},
                      {"vision_end_token_id", ids.vision_start() + 1},
                      {"vision_token_id", ids.vision_start() + 2},
                      {"image_token_id", ids.image_pad()},
                      {"video_token_id", ids.image_pad() + 1}};
  put(config, decoder_keys(s, 1e-6, o.tiny ? 4096 : 128000));
  const json::array sections = o.tiny ? json::array{2, 3, 3} : json::array{16, 24, 24};
  put(config, {{"max_window_layers", 70},
               {"rope_theta", 1e6},
               {"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}}},
               {"sliding_window", 32768},
               {"use_sliding_window", false},
               {"tie_word_embeddings", true},
               {"use_cache", true},
               {"vision_config",
                {{"depth", t.depth},
                 {"hidden_act", "silu"},
                 {"hidden_size", t.width},
                 {"intermediate_size", t.mlp},
                 {"num_heads", t.heads},
                 {"in_chans", 3},
                 {"out_hidden_size", s.width},
                 {"patch_size", 14},
                 {"spatial_merge_size", 2},
                 {"spatial_patch_size", 14},
                 {"window_size", 112},
                 {"fullatt_block_indexes", full},
                 {"tokens_per_second", 2},
                 {"temporal_patch_size", 2}}}});
  return config;
}

void add_tower(SyntheticTensors& out, const QwenTower& t, int64_t out_width) {
  const int64_t d = t.width, f = t.mlp;
  out.push_back({"visual.patch_embed.proj.weight", {d, 3, 2, 14, 14}, 0, fan_in(1176)});
  for (int64_t i = 0; i < t.depth; ++i) {
    const std::string p = "visual.blocks." + std::to_string(i) + ".";
    add_gain(out, p + "norm1.weight", d);
    add_gain(out, p + "norm2.weight", d);
    add_linear(out, p + "attn.qkv", 3 * d, d);
    add_linear(out, p + "attn.proj", d, d);
    add_linear(out, p + "mlp.gate_proj", f, d);
    add_linear(out, p + "mlp.up_proj", f, d);
    add_linear(out, p + "mlp.down_proj", d, f);
  }
  add_gain(out, "visual.merger.ln_q.weight", d);
  add_linear(out, "visual.merger.mlp.0", 4 * d, 4 * d);
  add_linear(out, "visual.merger.mlp.2", out_width, 4 * d);
}

}  // namespace

SyntheticModel synthetic_qwen_vl(const SynthesizeOptions& o) {
  const DecoderSizes s = o.tiny ? DecoderSizes{704, 64, layers_of(o, 2), 4, 2, 16, 176}
                                : DecoderSizes{151936, 2048, layers_of(o, 36), 16, 2, 128, 11008};
  const QwenTower tower = o.tiny ? QwenTower{4, 32, 2, 44} : QwenTower{thinned(32, o, 36), 1280, 16, 3420};
  const QwenIds ids{o.tiny ? 640 : 151643};
  SyntheticModel m;
  m.vocab = static_cast<int32_t>(s.vocab);
  add_decoder(m.tensors, s, "model.", true);
  add_tower(m.tensors, tower, s.width);
  m.files.emplace_back("config.json", qwen_vl_config(o, s, ids, tower));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", ids.end_of_text()},
                                                              {"pad_token_id", ids.end_of_text()},
                                                              {"eos_token_id", {ids.im_end(), ids.end_of_text()}},
                                                              {"do_sample", false}});
  m.files.emplace_back("preprocessor_config.json", json::object{{"min_pixels", 3136},
                                                                {"max_pixels", 12845056},
                                                                {"patch_size", 14},
                                                                {"temporal_patch_size", 2},
                                                                {"merge_size", 2},
                                                                {"image_mean", json::value_from(PreprocessorConfig{}.image_mean)},
                                                                {"image_std", json::value_from(PreprocessorConfig{}.image_std)},
                                                                {"image_processor_type", "Qwen2VLImageProcessor"},
                                                                {"processor_class", "Qwen2_5_VLProcessor"}});
  return m;
}

SyntheticModel synthetic_qwen_text(const SynthesizeOptions& o) {
  const DecoderSizes s =
      o.tiny ? DecoderSizes{704, 56, layers_of(o, 2), 14, 2, 4, 152} : DecoderSizes{151936, 896, layers_of(o, 24), 14, 2, 64, 4864};
  const QwenIds ids{o.tiny ? 640 : 151643};
  json::object config{{"architectures", {"Qwen2ForCausalLM"}},
                      {"model_type", "qwen2"},
                      {"attention_dropout", 0.0},
                      {"bos_token_id", ids.end_of_text()},
                      {"eos_token_id", ids.im_end()}};
  put(config, decoder_keys(s, 1e-6, o.tiny ? 4096 : 32768));
  put(config, {{"max_window_layers", 21},
               {"rope_theta", 1e6},
               {"sliding_window", 32768},
               {"use_sliding_window", false},
               {"tie_word_embeddings", true},
               {"use_cache", true}});
  SyntheticModel m;
  m.vocab = static_cast<int32_t>(s.vocab);
  add_decoder(m.tensors, s, "model.", true);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", ids.end_of_text()},
                                                              {"pad_token_id", ids.end_of_text()},
                                                              {"eos_token_id", {ids.im_end(), ids.end_of_text()}}});
  return m;
}

}  // namespace slip
