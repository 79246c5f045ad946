// SPDX-License-Identifier: Apache-2.0
// Tokenizers of synthetic folders: the released files where they are given, else one that reads and writes any text, byte by byte,
// and has a made-up word for every other id, so that whatever a random model answers can be read.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "convert/synthesize.h"
#include "text/chat.h"
#include "text/tokenizer_file.h"
#include "text/unicode/unicode.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBlank = "\xe2\x96\x81";  // U+2581

// ChatML as text-only Qwen models are prompted.
constexpr const char* kChatMl =
    "{%- if messages[0].role != 'system' -%}{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}{%- endif -%}\n"
    "{%- for m in messages -%}{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' -}}{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n";

// " babe", " babi", ...: consonant and vowel by turns, different for every number.
std::string word(int64_t number) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string out;
  do {
    out.insert(0, {kConsonants[static_cast<size_t>(number / 5 % 14)], kVowels[static_cast<size_t>(number % 5)]});
    number /= 70;
  } while (number > 0);
  return out;
}

json::object added(int64_t id, std::string_view content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Qwen's added tokens in the order of their ids; the last two are what diffusion fine-tunes add.
json::array qwen_added(int64_t first) {
  static constexpr const char* kNames[] = {
      "<|endoftext|>",  "<|im_start|>",   "<|im_end|>",    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
      "<|box_end|>",    "<|quad_start|>", "<|quad_end|>",  "<|vision_start|>",     "<|vision_end|>",     "<|vision_pad|>",
      "<|image_pad|>",  "<|video_pad|>",  "<tool_call>",   "</tool_call>",         "<|fim_prefix|>",     "<|fim_middle|>",
      "<|fim_suffix|>", "<|fim_pad|>",    "<|repo_name|>", "<|file_sep|>",         "|<MASK>|",           "<|NULL|>"};
  json::array out;
  for (const char* name : kNames) {
    const int64_t i = static_cast<int64_t>(out.size());
    out.push_back(added(first + i, name, i < 14 || i >= 22));
  }
  return out;
}

json::object byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
}

json::object bpe(json::object vocab, bool ignore_merges, bool byte_fallback) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", byte_fallback ? json::value("<unk>") : json::value(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", byte_fallback},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", ignore_merges},
          {"vocab", std::move(vocab)},
          {"merges", json::array{}}};
}

// Bytes at first ..., words up to `end`.
void bytes_and_words(json::object& vocab, int64_t first, int64_t end) {
  for (int b = 0; b < 256; ++b) vocab[spell_bytes(std::string(1, static_cast<char>(b)))] = first + b;
  for (int64_t id = first + 256; id < end; ++id) vocab[spell_bytes(fmt::format(" {}", word(id - first - 256 + 70)))] = id;
}

json::object pattern_tokenizer(json::array added_tokens, json::object vocab, const char* pattern, bool nfc, bool ignore_merges,
                               json::value post_processor) {
  json::array steps;
  steps.push_back(
      json::object{{"type", "Split"}, {"pattern", json::object{{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back(byte_level());
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", nfc ? json::value(json::object{{"type", "NFC"}}) : json::value(nullptr)},
          {"pre_tokenizer", json::object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
          {"post_processor", std::move(post_processor)},
          {"decoder", byte_level()},
          {"model", bpe(std::move(vocab), ignore_merges, false)}};
}

// "<s> text".
json::object begins_with_s() {
  const json::object text{{"Sequence", json::object{{"id", "A"}, {"type_id", 0}}}};
  const json::object s{{"SpecialToken", json::object{{"id", "<s>"}, {"type_id", 0}}}};
  json::array single, ids, tokens;
  single.push_back(s);
  single.push_back(text);
  ids.push_back(1);
  tokens.push_back("<s>");
  const json::object special{{"<s>", json::object{{"id", "<s>"}, {"ids", ids}, {"tokens", tokens}}}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", special}};
}

json::object tekken(int64_t vocab_size) {
  const int64_t specials = vocab_size > 2000 ? 1000 : 128;
  json::array tokens;
  for (int64_t i = 0; i < specials; ++i)
    tokens.push_back(added(i, i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : fmt::format("<SPECIAL_{}>", i), true));
  json::object vocab;
  for (const json::value& t : tokens) vocab[t.as_object().at("content").as_string()] = t.as_object().at("id");
  bytes_and_words(vocab, specials, vocab_size);
  return pattern_tokenizer(std::move(tokens), std::move(vocab), kTekkenPattern, false, true, begins_with_s());
}

// Llama 2's scheme: blanks are U+2581, one in front; characters that are no token become bytes. OpenVLA looks for the lone blank
// at 29871 and for its actions among the last 256 ids before the padding token.
json::object llama(int64_t vocab_size) {
  json::object vocab{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int b = 0; b < 256; ++b) vocab[fmt::format("<0x{:02X}>", b)] = 3 + b;
  const int64_t blank = vocab_size > 29871 ? 29871 : 259;
  for (int64_t id = 259; id < vocab_size - 1; ++id) vocab[fmt::format("{}{}", kBlank, id == blank ? "" : word(id - 259 + 70))] = id;
  json::array tokens;
  tokens.push_back(added(0, "<unk>", true));
  tokens.push_back(added(1, "<s>", true));
  tokens.push_back(added(2, "</s>", true));
  tokens.push_back(added(vocab_size - 1, "<PAD>", true));
  const auto replace = [](const char* from, const char* to) {
    return json::object{{"type", "Replace"}, {"pattern", json::object{{"String", from}}}, {"content", to}};
  };
  json::array normalizers, decoders;
  normalizers.push_back(json::object{{"type", "Prepend"}, {"prepend", kBlank}});
  normalizers.push_back(replace(" ", kBlank));
  decoders.push_back(replace(kBlank, " "));
  decoders.push_back(json::object{{"type", "ByteFallback"}});
  decoders.push_back(json::object{{"type", "Fuse"}});
  decoders.push_back(json::object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(tokens)},
          {"normalizer", json::object{{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", begins_with_s()},
          {"decoder", json::object{{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
          {"model", bpe(std::move(vocab), false, true)}};
}

// The first id behind Qwen's words.
int64_t qwen_words(const SyntheticModel& m) { return m.vocab > 151643 ? 151643 : m.vocab - 64; }

json::object qwen_config(const SyntheticModel& m) {
  json::object decoder;
  for (const json::value& t : qwen_added(qwen_words(m))) {
    json::object o = t.as_object();
    const std::string id = std::to_string(o.at("id").as_int64());
    o.erase("id");
    decoder[id] = std::move(o);
  }
  const bool vision = m.files.front().second.as_object().contains("vision_config");
  return {{"tokenizer_class", "Qwen2Tokenizer"},
          {"added_tokens_decoder", std::move(decoder)},
          {"bos_token", nullptr},
          {"eos_token", "<|im_end|>"},
          {"pad_token", "<|endoftext|>"},
          {"unk_token", nullptr},
          {"add_bos_token", false},
          {"clean_up_tokenization_spaces", false},
          {"chat_template", vision ? json::string(qwen_vl_template_text()) : json::string(kChatMl)}};
}

Status copy_to(const fs::path& from, const fs::path& to) {
  SLIP_TRY(const std::string bytes, read_file(from, size_t{64} << 20));
  return write_file(to, bytes);
}

// tokenizer.json, or vocab.json and merges.txt (by their endings).
Status copy_released(const SyntheticModel& m, const std::vector<fs::path>& files, const fs::path& folder) {
  if (files.size() == 1 && files[0].extension() == ".json") return copy_to(files[0], folder / "tokenizer.json");
  if (files.size() == 2 && m.tokenizer == SyntheticModel::Tokenizer::kQwen) {
    const bool vocab_first = files[0].extension() == ".json";
    const fs::path &vocab = files[vocab_first ? 0 : 1], &merges = files[vocab_first ? 1 : 0];
    if (vocab.extension() == ".json" && merges.extension() == ".txt") {
      SLIP_TRY_(copy_to(vocab, folder / "vocab.json"));
      return copy_to(merges, folder / "merges.txt");
    }
  }
  return usage_error("--tokenizer: expected a tokenizer.json{}, got {} files",
                     m.tokenizer == SyntheticModel::Tokenizer::kQwen ? ", or a vocab.json and a merges.txt" : "", files.size());
}

}  // namespace

Status write_synthetic_tokenizer(const SyntheticModel& m, const SynthesizeOptions& o, const fs::path& folder) {
  const bool qwen = m.tokenizer == SyntheticModel::Tokenizer::kQwen;
  if (qwen) SLIP_TRY_(write_file(folder / "tokenizer_config.json", pretty(qwen_config(m))));
  if (!o.tokenizer.empty()) {
    if (o.tiny) return usage_error("--tokenizer: expected a shape of its own size, got --tiny");
    return copy_released(m, o.tokenizer, folder);
  }
  json::object out;
  if (qwen) {
    const int64_t words = qwen_words(m);
    json::object vocab;
    bytes_and_words(vocab, 0, words);
    out = pattern_tokenizer(qwen_added(words), std::move(vocab), kQwenSplitPattern, true, false, byte_level());
  } else {
    out = m.tokenizer == SyntheticModel::Tokenizer::kTekken ? tekken(m.vocab) : llama(m.vocab);
  }
  return write_file(folder / "tokenizer.json", json::serialize(out));
}

}  // namespace slip
