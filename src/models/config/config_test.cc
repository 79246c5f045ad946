// SPDX-License-Identifier: Apache-2.0
// Configs as released, with keys missing, and hostile ones: a clear refusal or the library's default, never a crash.
#include "models/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "models/rows_file.h"

namespace slip {
namespace {

Result<ModelConfig> parse(std::string_view text) {
  auto value = parse_json(text, "config.json");
  EXPECT_TRUE(value) << text;
  return parse_model_config(*value, "config.json");
}

Error refusal(std::string_view text) {
  auto config = parse(text);
  EXPECT_FALSE(config) << text;
  return config ? Error{} : config.error();
}

TEST(ModelConfig, MissingKeysTakeTheLibrarysDefaultsOfTheirFamily) {
  const auto qwen2 = parse(R"({"architectures": ["Qwen2ForCausalLM"]})");
  ASSERT_TRUE(qwen2) << qwen2.error().message;
  EXPECT_EQ(qwen2->decoder.width, 4096);
  EXPECT_EQ(qwen2->decoder.head_width, 128);
  EXPECT_EQ(qwen2->decoder.rope.theta, 1e4);
  EXPECT_TRUE(qwen2->decoder.qkv_bias);
  EXPECT_FALSE(qwen2->decoder.tied_head);
  const auto qwen3 = parse(R"({"model_type": "qwen3", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2})");
  ASSERT_TRUE(qwen3) << qwen3.error().message;
  EXPECT_EQ(qwen3->decoder.head_width, 128);
  EXPECT_TRUE(qwen3->decoder.qk_norm);
  EXPECT_FALSE(qwen3->decoder.qkv_bias);
  const auto llama = parse(R"({"architectures": ["LlamaForCausalLM"], "num_attention_heads": 16})");
  ASSERT_TRUE(llama) << llama.error().message;
  EXPECT_EQ(llama->decoder.kv_heads, 16);
}

TEST(ModelConfig, ANullForKeyHeadsMeansAsManyAsHeads) {
  for (const char* type : {"qwen2", "mistral", "llama"}) {
    const auto c = parse(fmt::format(R"({{"model_type": "{}", "num_attention_heads": 16, "num_key_value_heads": null}})", type));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->decoder.kv_heads, 16) << type;
  }
  EXPECT_EQ(parse(R"({"model_type": "mistral", "num_attention_heads": 16})")->decoder.kv_heads, 8) << "a missing key";
}

TEST(ModelConfig, FirstAndLastTokensThatAreMissingAreTheClasss) {
  const auto ids = [](std::string_view text) {
    const auto c = parse(text);
    EXPECT_TRUE(c) << c.error().message;
    return c ? std::pair{c->bos, c->eos} : std::pair{std::optional<TokenId>{}, std::vector<TokenId>{}};
  };
  const std::optional<TokenId> none;
  for (const char* type : {"llama", "mistral", "ministral3"})
    EXPECT_EQ(ids(fmt::format(R"({{"model_type": "{}"}})", type)), (std::pair{std::optional{TokenId{1}}, std::vector{TokenId{2}}}));
  EXPECT_EQ(ids(R"({"model_type": "llama", "bos_token_id": 5, "eos_token_id": [7, 8]})"),
            (std::pair{std::optional{TokenId{5}}, std::vector{TokenId{7}, TokenId{8}}}));
  EXPECT_EQ(ids(R"({"model_type": "llama", "bos_token_id": null, "eos_token_id": null})"),
            (std::pair{none, std::vector<TokenId>{}}));
  EXPECT_EQ(ids(R"({"model_type": "llama", "vocab_size": 2})"), (std::pair{std::optional{TokenId{1}}, std::vector<TokenId>{}}));
  EXPECT_EQ(ids(R"({"model_type": "qwen2"})"), (std::pair{none, std::vector<TokenId>{}}));
}

TEST(ModelConfig, ImagesNeedSectionsOfTheRotation) {
  const Error e = refusal(R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
      "image_token_id": 1, "vision_config": {"hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}})");
  EXPECT_EQ(e.kind, ErrorKind::kBadInput);
  EXPECT_NE(e.message.find("mrope_section: expected three counts"), std::string::npos) << e.message;
  EXPECT_TRUE(parse(R"({"model_type": "qwen2_5_vl"})")) << "text alone needs none";
}

TEST(ModelConfig, QuantisedFoldersOfActionModelsAreRefusedByMethod) {
  const auto with = [](std::string_view file, std::string_view quantization) {
    json::object o = *read_json(std::filesystem::path(SLIP_FIXTURES) / file)->if_object();
    o["quantization_config"] = *parse_json(quantization, "quantization");
    return parse_model_config(o, "config.json");
  };
  const auto config = with("models/openvla/config.json", R"({"quant_method": "bitsandbytes", "load_in_4bit": true})");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(config.error().message.find("quantization_config: quant_method: expected fp8"), std::string::npos);
  EXPECT_NE(config.error().message.find("got bitsandbytes"), std::string::npos);
  const auto fp8 = with("models/openvla/config.json", R"({"quant_method": "fp8"})");
  ASSERT_TRUE(fp8) << fp8.error().message;
  EXPECT_EQ(fp8->quantization, "fp8");
  const Error dino = refusal(R"({"architectures": ["DinoQwenForCausalLM"], "image_token_id": 5,
    "quantization_config": {"quant_method": "bitsandbytes"}, "text_config": {"model_type": "qwen3"}, "vision_config": {}})");
  EXPECT_EQ(dino.kind, ErrorKind::kUnsupported);
  EXPECT_NE(dino.message.find("got bitsandbytes"), std::string::npos) << dino.message;
}

TEST(ModelConfig, MistralsOwnFoldersAreRefusedByTheirForm) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("slip_params_{}", ::getpid());
  std::filesystem::create_directories(folder);
  EXPECT_EQ(read_model_config(folder).error().kind, ErrorKind::kBadInput);
  ASSERT_TRUE(write_file(folder / "params.json", "{}"));
  const auto refused = read_model_config(folder);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(refused.error().message.find("got params.json"), std::string::npos) << refused.error().message;
  std::filesystem::remove_all(folder);
}

TEST(ModelConfig, NestedAndFlatKeysAndTheirSynonymsMeanTheSame) {
  const auto flat = parse(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "image_token_id": 310, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "rope_theta": 5e5, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
    "vision_config": {"in_chans": 4, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}})");
  const auto nested = parse(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "image_token_index": 310,
    "text_config": {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320,
    "dtype": "bfloat16", "tie_word_embeddings": true,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 3, 3]}},
    "vision_config": {"in_channels": 4, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}})");
  ASSERT_TRUE(flat) << flat.error().message;
  ASSERT_TRUE(nested) << nested.error().message;
  for (const ModelConfig& c : {*flat, *nested}) {
    EXPECT_EQ(c.stored_dtype, "bfloat16");
    EXPECT_EQ(c.decoder.rope.sections, (std::array<int32_t, 3>{2, 3, 3}));
    EXPECT_EQ(c.decoder.rope.theta, 5e5);
    EXPECT_TRUE(c.decoder.tied_head);
    EXPECT_EQ(c.image_token, TokenId{310});
    ASSERT_TRUE(c.vision);
    EXPECT_EQ(c.vision->channels, 4);
    EXPECT_EQ(c.vision->depth, 32);
    EXPECT_EQ(c.vision->full_attention_blocks, (std::vector<int32_t>{7, 15, 23, 31}));
  }
}

TEST(ModelConfig, FamiliesKnownForADraftRuleSetItAndKeysOverrideIt) {
  const auto drive = parse(R"({"architectures": ["Fast_dDriveForConditionalGeneration"], "bd_size": 16})");
  ASSERT_TRUE(drive) << drive.error().message;
  EXPECT_TRUE(drive->decoder.rule.shift);
  EXPECT_FALSE(drive->decoder.rule.block_causal_context);
  EXPECT_EQ(drive->decoder.rule.block_size, 16);
  EXPECT_FALSE(drive->decoder.rule.has_mask);
  const auto v2 = parse(R"({"architectures": ["Fast_dLLM_QwenForCausalLM"]})");
  ASSERT_TRUE(v2);
  EXPECT_TRUE(v2->decoder.rule.block_causal_context);
  const auto plain = parse(R"({"architectures": ["Qwen2ForCausalLM"], "diffusion_shift": true, "mask_token_id": 7})");
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->decoder.rule.shift);
  EXPECT_TRUE(plain->decoder.rule.has_mask);
  EXPECT_EQ(plain->decoder.rule.mask, TokenId{7});
}

TEST(ModelConfig, UnknownArchitecturesAreNamedTogetherWithWhatIsDone) {
  const Error e = refusal(R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})");
  EXPECT_EQ(e.kind, ErrorKind::kUnsupported);
  EXPECT_NE(e.message.find("MambaForCausalLM"), std::string::npos);
  EXPECT_NE(e.message.find("Qwen2_5_VLForConditionalGeneration"), std::string::npos);
  EXPECT_EQ(refusal("{}").kind, ErrorKind::kBadInput);
}

TEST(ModelConfig, WhatIsValidButNotDoneIsUnsupported) {
  for (const char* text : {
           R"({"model_type": "qwen2", "hidden_act": "gelu"})",
           R"({"model_type": "llama", "sliding_window": 4096})",
           R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope", "factor": 2}})",
           R"({"model_type": "llama", "rope_parameters": {"full_attention": {"rope_type": "default"}}})",
           R"({"model_type": "llama", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
           R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2, "llama_4_scaling_beta": 0.1}})",
           R"({"model_type": "mistral", "attention_bias": true})",
           R"({"model_type": "qwen2", "mlp_bias": true})",
           R"({"model_type": "mistral", "num_local_experts": 8})",
           R"({"model_type": "qwen3", "num_experts": 128})",
           R"({"model_type": "llama", "attn_logit_softcapping": 50.0})",
           R"({"model_type": "llama", "final_logit_softcapping": 30.0})",
           R"({"model_type": "llama", "attention_sinks": true})",
           R"({"model_type": "llama", "sliding_window_pattern": 6})",
           R"({"model_type": "llama", "attention_chunk_size": 8192})",
           R"({"model_type": "llama", "logit_scale": 0.0625})",
           R"({"model_type": "llama", "query_pre_attn_scalar": 256})",
           R"({"model_type": "qwen2", "layer_types": ["linear_attention"], "num_hidden_layers": 1})",
           R"({"model_type": "qwen2", "layer_types": ["sliding_attention"], "num_hidden_layers": 1})",
           R"({"model_type": "mistral", "layer_types": ["full_attention"], "num_hidden_layers": 1})",
           R"({"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {"model_type": "gemma"}})",
           R"({"architectures": ["Qwen3VLForConditionalGeneration"]})",
           R"({"model_type": "qwen2", "quantization_config": {}})",
           R"({"model_type": "qwen2", "rope_scaling": {"type": "dynamic", "factor": 2}})",
           R"({"model_type": "qwen2", "rope_scaling": {"mrope_section": [16, 24, 24], "mrope_interleaved": true}})",
           R"({"model_type": "qwen2", "quantization_config": {"quant_method": "awq"}})",
       })
    EXPECT_EQ(refusal(text).kind, ErrorKind::kUnsupported) << text;
}

TEST(ModelConfig, RefusalsNameTheKeyWhatIsExpectedAndWhatCame) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"model_type": "llama", "hidden_act": "gelu"})", "config.json: hidden_act: expected silu, got gelu"},
      {R"({"model_type": "llama", "final_logit_softcapping": 30.0})",
       "config.json: final_logit_softcapping: expected no softcap, got 3E1"},
      {R"({"model_type": "mistral", "num_local_experts": 8})", "config.json: num_local_experts: expected a dense MLP, got 8"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}})",
       "config.json: rope_scaling: expected rope type default, mrope, linear, llama3 or yarn, got longrope"},
      {R"({"model_type": "llama", "quantization_config": {"quant_method": "awq"}})",
       "config.json: quantization_config: quant_method: expected fp8, or f32, bf16 or f16 weights without a quantization_config, "
       "got awq"},
      {R"({"architectures": ["MixtralForCausalLM"]})", "got MixtralForCausalLM: a mixture of experts"},
  };
  for (const auto& [text, message] : cases) {
    const Error e = refusal(text);
    EXPECT_NE(e.message.find(message), std::string::npos) << e.message;
  }
}

// A line that one reads, whatever stands in the file.
TEST(ModelConfig, LongTextsOfAFileAreShownByTheirBeginning) {
  const std::string many(70'000, 'm');
  for (const char* document :
       {R"({{"model_type": "{}"}})", R"({{"architectures": ["{}"]}})", R"({{"model_type": "qwen2", "hidden_act": "{}"}})",
        R"({{"model_type": "qwen2", "rope_scaling": {{"rope_type": "{}"}}}})",
        R"({{"model_type": "qwen2", "quantization_config": {{"quant_method": "{}"}}}})"}) {
    const std::string why = refusal(fmt::format(fmt::runtime(document), many)).message;
    EXPECT_LT(why.size(), 2000U) << document;
    EXPECT_TRUE(why.find("got mmm") != std::string::npos && why.ends_with("m...")) << why;
  }
}

TEST(ModelConfig, NeutralValuesOfForeignKeysAreTaken) {
  for (
      const char* text : {
          R"({"model_type": "llama", "attn_logit_softcapping": null, "final_logit_softcapping": 0.0, "num_experts": 0})",
          R"({"model_type": "qwen2", "attention_sinks": false, "logit_scale": 1.0, "partial_rotary_factor": 1.0, "no_rope_layers": []})",
          R"({"model_type": "llama", "hidden_act": "swish", "sliding_window": null, "is_encoder_decoder": false})",
          R"({"model_type": "mistral", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})",
      }) {
    const auto config = parse(text);
    EXPECT_TRUE(config) << config.error().message;
  }
  EXPECT_EQ(parse(R"({"model_type": "mistral", "quantization_config": {"quant_method": "fp8"}})")->quantization, "fp8");
}

TEST(ModelConfig, WindowsFollowTheRuleOfTheClass) {
  const auto window = [](std::string_view text) {
    const auto c = parse(text);
    EXPECT_TRUE(c) << c.error().message;
    return c ? std::pair{c->decoder.window, c->decoder.slides_L} : std::pair{-1, std::vector<uint8_t>{}};
  };
  using Slides = std::vector<uint8_t>;
  EXPECT_EQ(window(R"({"model_type": "mistral", "num_hidden_layers": 2})"), (std::pair{4096, Slides{1, 1}}));
  EXPECT_EQ(window(R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": null})"), (std::pair{0, Slides{}}));
  EXPECT_EQ(window(R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 16})"), (std::pair{16, Slides{1, 1}}));
  EXPECT_EQ(window(R"({"model_type": "ministral3", "num_hidden_layers": 2})"), (std::pair{0, Slides{}}));
  EXPECT_EQ(window(R"({"model_type": "ministral3", "num_hidden_layers": 2, "sliding_window": 8})"), (std::pair{8, Slides{1, 1}}));
  EXPECT_EQ(window(R"({"model_type": "qwen2", "sliding_window": 8})"), (std::pair{0, Slides{}}));
  EXPECT_EQ(window(R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 8,
    "max_window_layers": 1})"),
            (std::pair{8, Slides{0, 1, 1}}));
  EXPECT_EQ(window(R"({"model_type": "qwen3", "num_hidden_layers": 30, "use_sliding_window": true})").first, 4096);
  EXPECT_EQ(window(R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "max_window_layers": 3})"),
            (std::pair{0, Slides{}}));
  EXPECT_EQ(window(R"({"model_type": "qwen2", "num_hidden_layers": 2, "use_sliding_window": true, "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"]})"),
            (std::pair{4, Slides{1, 0}}));
  EXPECT_EQ(window(R"({"model_type": "qwen2", "num_hidden_layers": 1, "sliding_window": 4, "layer_types": ["full_attention"]})"),
            (std::pair{0, Slides{}}));
  EXPECT_EQ(refusal(R"({"model_type": "qwen2", "layer_types": ["full_attention"]})").kind, ErrorKind::kBadInput);
  EXPECT_EQ(refusal(R"({"model_type": "mistral", "sliding_window": 0})").kind, ErrorKind::kBadInput);
}

TEST(ModelConfig, MinistralWithoutRopeKeysTurnsByYarnAndScalesQueries) {
  const auto c = parse(R"({"model_type": "ministral3"})");
  ASSERT_TRUE(c) << c.error().message;
  const auto* yarn = std::get_if<RopeYarn>(&c->decoder.rope.scaling);
  ASSERT_NE(yarn, nullptr);
  EXPECT_EQ(yarn->factor, 16);
  EXPECT_EQ(yarn->original_max_position, 16384);
  EXPECT_EQ(yarn->mscale, 1);
  EXPECT_EQ(c->decoder.rope.theta, 1e6);
  EXPECT_EQ(c->decoder.q_scale_beta, 0.1);
  EXPECT_EQ(c->decoder.q_scale_positions, 16384);
  const auto plain = parse(R"({"model_type": "ministral3", "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->decoder.rope.scaling.index(), 0u);
  EXPECT_EQ(plain->decoder.q_scale_beta, 0);
  EXPECT_EQ(plain->decoder.rope.theta, 5e5);
}

TEST(ModelConfig, DraftersHaveTheirFamilysMaskAndBlock) {
  const auto nemotron = parse(R"({"architectures": ["NemotronLabsDiffusionModel"]})");
  ASSERT_TRUE(nemotron) << nemotron.error().message;
  EXPECT_FALSE(nemotron->decoder.rule.shift);
  EXPECT_FALSE(nemotron->decoder.rule.block_causal_context);
  EXPECT_TRUE(nemotron->decoder.rule.has_mask);
  EXPECT_EQ(nemotron->decoder.rule.mask, TokenId{100});
  EXPECT_EQ(nemotron->decoder.rule.block_size, 32);
  const auto sdar = parse(R"({"architectures": ["SDARForCausalLM"], "model_type": "sdar", "block_size": 8})");
  ASSERT_TRUE(sdar) << sdar.error().message;
  EXPECT_TRUE(sdar->decoder.qk_norm);
  EXPECT_TRUE(sdar->decoder.rule.block_causal_context);
  EXPECT_FALSE(sdar->decoder.rule.shift);
  EXPECT_EQ(sdar->decoder.rule.block_size, 8);
  EXPECT_EQ(sdar->family->draft.mask, "<MASK>");
}

TEST(ModelConfig, EveryOptionSaysWhereItCameFrom) {
  const auto c = parse(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "image_token_id": 7, "bd_size": 16,
    "text_config": {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
      "rope_parameters": {"rope_theta": 5e5, "mrope_section": [2, 3, 3]}},
    "vision_config": {"hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}})");
  ASSERT_TRUE(c) << c.error().message;
  const auto from = [&](std::string_view key) {
    for (const ConfigOption& o : c->options)
      if (o.key == key) return json::serialize(o.value) + " " + o.from;
    return std::string("not there");
  };
  EXPECT_EQ(from("hidden_size"), "64 config.json: text_config");
  EXPECT_EQ(from("vocab_size"), "152064 default of Qwen2_5_VLTextConfig");
  EXPECT_EQ(from("rope.rope_theta"), "5E5 config.json: text_config: rope_parameters");
  EXPECT_EQ(from("bd_size"), "16 config.json");
  EXPECT_EQ(from("diffusion_shift"), "false default of the family qwen2_5_vl");
  EXPECT_EQ(from("vision.hidden_size"), "32 config.json: vision_config");
  EXPECT_EQ(from("vision.depth"), "32 default of Qwen2_5_VLVisionConfig");
}

TEST(ModelConfig, HeadsWiderThanTheKernelsTakeAreUnsupportedByKeyAndLimit) {
  EXPECT_TRUE(parse(R"({"model_type": "qwen2", "head_dim": 256})"));
  for (
      const auto& [text, key] : std::vector<std::pair<std::string, std::string>>{
          {R"({"model_type": "qwen2", "head_dim": 258})", "head_dim"},
          {R"({"model_type": "qwen2", "head_dim": 1024})", "head_dim"},
          {R"({"model_type": "qwen2", "text_config": {"head_dim": 512}})", "text_config: head_dim"},
          {R"({"model_type": "qwen2", "hidden_size": 4096, "num_attention_heads": 8, "num_key_value_heads": 8})",
           "hidden_size / num_attention_heads"},
          {R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "image_token_id": 1,
             "vision_config": {"hidden_size": 520, "num_heads": 2, "out_hidden_size": 64}})",
           "vision_config: hidden_size / num_heads"}}) {
    const Error e = refusal(text);
    EXPECT_EQ(e.kind, ErrorKind::kUnsupported) << e.message;
    EXPECT_NE(e.message.find(key + ": expected heads of at most 256"), std::string::npos) << e.message;
  }
}

// Keys of a config and a word of what must be said of them.
const std::vector<std::pair<std::string, std::string>> kHostile = {
    {R"("hidden_size": -1)", "hidden_size"},
    {R"("hidden_size": 99999999999999)", "hidden_size"},
    {R"("hidden_size": 1e3)", "hidden_size"},
    {R"("hidden_size": "big")", "hidden_size"},
    {R"("hidden_size": 100, "num_attention_heads": 3, "num_key_value_heads": 3)", "hidden_size"},
    {R"("num_hidden_layers": 0)", "num_hidden_layers"},
    {R"("num_attention_heads": 8, "num_key_value_heads": 3)", "num_key_value_heads"},
    {R"("vocab_size": 0)", "vocab_size"},
    {R"("head_dim": 7)", "head"},
    {R"("rms_norm_eps": -1)", "rms_norm_eps"},
    {R"("rope_theta": 0)", "rope_theta"},
    {R"("rope_scaling": [1])", "rope_scaling"},
    {R"("rope_scaling": {"mrope_section": [1, 2]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [-1, 33, 32]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [32, 32, -5]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [32, 32, "x"]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [32, 32, 0.5]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [64, 1e30, 0]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [65, 0, 0]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": [32, 32, 0, 0]})", "mrope_section"},
    {R"("rope_scaling": {"mrope_section": ["a", "b", "c"]})", "mrope_section"},
    {R"("rope_scaling": {"rope_type": "yarn", "factor": 0})", "factor"},
    {R"("rope_scaling": {"rope_type": "yarn"})", "rope_scaling: factor"},
    {R"("rope_scaling": {"rope_type": "linear"})", "rope_scaling: factor"},
    {R"("rope_scaling": {"rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 64})",
     "rope_scaling: factor"},
    {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 4, "original_max_position_embeddings": 64})",
     "low_freq_factor"},
    {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "original_max_position_embeddings": 64})",
     "high_freq_factor"},
    {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4})",
     "original_max_position_embeddings"},
    {R"("mask_token_id": 151936)", "mask_token_id"},
    {R"("eos_token_id": [1, -2])", "eos_token_id"},
    {R"("bd_size": 0)", "bd_size"},
    {R"("diffusion_shift": 2)", "diffusion_shift"},
    {R"("context_mask": "sideways")", "context_mask"},
    {R"("tie_word_embeddings": "yes")", "tie_word_embeddings"},
    {R"("text_config": 3)", "text_config"},
    {R"("model_type": 3)", "model_type"},
};

TEST(ModelConfig, HostileNumbersAndTypesAreRefusedWithTheirKey) {
  for (const auto& [text, key] : kHostile) {
    const Error e = refusal(R"({"architectures": ["Qwen2ForCausalLM"], )" + text + "}");
    EXPECT_EQ(e.kind, ErrorKind::kBadInput) << text << ": " << e.message;
    EXPECT_NE(e.message.find(key), std::string::npos) << text << ": " << e.message;
    EXPECT_NE(e.message.find("config.json"), std::string::npos) << e.message;
  }
  EXPECT_EQ(refusal("[]").kind, ErrorKind::kBadInput);
  EXPECT_EQ(refusal(R"({"architectures": 5})").kind, ErrorKind::kBadInput);
  EXPECT_EQ(refusal(R"({"architectures": []})").kind, ErrorKind::kBadInput);
}

TEST(ModelConfig, VisionThatCannotFitIsRefused) {
  const auto with = [](std::string_view vision) {
    return R"({"model_type": "qwen2_5_vl", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
      "image_token_id": 1, "rope_scaling": {"mrope_section": [2, 3, 3]}, "vision_config": {)" +
           std::string(vision) + "}}";
  };
  EXPECT_TRUE(parse(with(R"("hidden_size": 32, "num_heads": 2, "out_hidden_size": 64)")));
  for (const char* text : {R"("hidden_size": 32, "num_heads": 2, "out_hidden_size": 63)",
                           R"("hidden_size": 30, "num_heads": 4, "out_hidden_size": 64)",
                           R"("hidden_size": 32, "num_heads": 16, "out_hidden_size": 64)",
                           R"("hidden_size": 32, "num_heads": 2, "out_hidden_size": 64, "window_size": 14)",
                           R"("hidden_size": 32, "num_heads": 2, "out_hidden_size": 64, "fullatt_block_indexes": ["x"])"})
    EXPECT_EQ(refusal(with(text)).kind, ErrorKind::kBadInput) << text;
}

// ---- rows file ----

Result<RowsFile> rows(std::string_view text) {
  auto value = parse_json(text, "rows.json");
  EXPECT_TRUE(value) << text;
  return parse_rows(*value, "rows.json", "folder");
}

TEST(RowsFile, ReadsTokensPatchesPositionsAndSight) {
  const auto file = rows(R"({"images": ["a.png"], "rows": [{"token": 3, "position": 4},
    {"image": 0, "patch": 2, "position": [1, 2, 3], "sees": [[1, 2], [0, 1]]}]})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->images[0], std::filesystem::path("folder/a.png"));
  EXPECT_EQ(file->rows[0].sees, (IndexRanges{{0, 1}}));
  EXPECT_EQ(file->rows[0].position, Position::text(4));
  EXPECT_EQ(std::get<ImagePatch>(file->rows[1].input), (ImagePatch{0, 2}));
  EXPECT_EQ(file->rows[1].position, (Position{1, 2, 3}));
  EXPECT_EQ(file->rows[1].sees, (IndexRanges{{1, 2}, {0, 1}}));
}

TEST(RowsFile, WrongRowsAreRefusedByNumber) {
  for (const char* row :
       {R"({})", R"({"token": 1})", R"({"position": 1})", R"({"token": -1, "position": 1})", R"({"token": 1.5, "position": 1})",
        R"({"token": 1, "position": -1})", R"({"token": 1, "position": [1, 2]})", R"({"token": 1, "position": "x"})",
        R"({"token": 1, "position": 1, "sees": []})", R"({"token": 1, "position": 1, "sees": [[0, 3]]})",
        R"({"token": 1, "position": 1, "sees": [[1, 1]]})", R"({"token": 1, "position": 1, "sees": [[-1, 1]]})",
        R"({"token": 1, "position": 1, "sees": [3]})", R"({"token": 1, "position": 1, "sees": 3})",
        R"({"image": 0, "patch": 0, "position": 1})", R"({"token": 1, "image": 0, "patch": 0, "position": 1})",
        R"({"token": 1, "patch": 0, "position": 1})", R"(7)"}) {
    const auto file = rows(std::string(R"({"rows": [{"token": 1, "position": 0}, )") + row + "]}");
    ASSERT_FALSE(file) << row;
    EXPECT_EQ(file.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(file.error().message.find("rows.json: row 1"), std::string::npos) << file.error().message;
  }
  EXPECT_FALSE(rows(R"({"rows": []})"));
  EXPECT_FALSE(rows(R"({"rows": 1})"));
  EXPECT_FALSE(rows(R"({})"));
  EXPECT_FALSE(rows(R"([])"));
  EXPECT_FALSE(rows(R"({"images": [1], "rows": [{"token": 1, "position": 0}]})"));
}

RowsFile seeing(const std::vector<IndexRanges>& sees) {
  RowsFile file;
  for (const IndexRanges& s : sees) file.rows.push_back({TokenId{0}, Position{}, s});
  return file;
}

TEST(RowsFile, PassesHoldAtMostSplitRowsButNeverPartARowFromLaterOnesItSees) {
  const RowsFile causal = seeing({{{0, 1}}, {{0, 2}}, {{0, 3}}, {{0, 4}}, {{0, 5}}});
  EXPECT_EQ(plan_passes(causal, 0), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(plan_passes(causal, 2), (std::vector<int32_t>{0, 2, 4, 5}));
  EXPECT_EQ(plan_passes(causal, 9), (std::vector<int32_t>{0, 5}));
  const RowsFile block = seeing({{{0, 1}}, {{0, 4}}, {{0, 4}}, {{0, 4}}, {{0, 5}}, {{0, 6}}});
  EXPECT_EQ(plan_passes(block, 1), (std::vector<int32_t>{0, 1, 4, 5, 6}));
  EXPECT_EQ(plan_passes(block, 2), (std::vector<int32_t>{0, 1, 4, 6}));
  const RowsFile chained = seeing({{{0, 2}}, {{2, 3}}, {{0, 1}}, {{3, 4}}});
  EXPECT_EQ(plan_passes(chained, 1), (std::vector<int32_t>{0, 3, 4}));
}

}  // namespace
}  // namespace slip
