// SPDX-License-Identifier: Apache-2.0
#include "convert/prismatic_parts.h"
#include "models/config/config_reader.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kExtraTokens = 256;

// Ids of the vocabulary without its added tokens, as the native action tokenizer counts them (`vocab_size` of the library's
// tokenizers): 32000 of Llama 2 with a padding token behind, 151643 of Qwen2.5 with its special tokens.
Result<int32_t> base_vocabulary(const json::value& tokenizer, const std::string& where) {
  const json::object* root = tokenizer.if_object();
  const json::object* model = root ? object_at(*root, "model") : nullptr;
  const json::object* vocab = model ? object_at(*model, "vocab") : nullptr;
  if (!vocab) return bad_input("{}: expected model.vocab, got none", where);
  return static_cast<int32_t>(vocab->size());
}

// <|extra_0|> .. <|extra_255|> behind `size` ids.
Status add_extra_tokens(json::value& tokenizer, int32_t size, const std::string& where) {
  json::object* object = tokenizer.if_object();
  json::value* added = object ? object->if_contains("added_tokens") : nullptr;
  if (!added || !added->is_array()) return bad_input("{}: expected added_tokens, got none", where);
  for (int32_t i = 0; i < kExtraTokens; ++i)
    added->get_array().push_back(json::object{{"id", size + i},
                                              {"content", fmt::format("<|extra_{}|>", i)},
                                              {"single_word", false},
                                              {"lstrip", false},
                                              {"rstrip", false},
                                              {"normalized", false},
                                              {"special", true}});
  return {};
}

}  // namespace

Result<bool> has_extra_tokens(const json::object& config, const std::string& where) {
  const json::object* vla = object_at(config, "vla");
  const json::value* name = vla ? vla->if_contains("action_tokenizer") : nullptr;
  if (!name || name->is_null())
    return text_at(vla ? *vla : config, vla ? "base_vlm" : "llm_backbone_id").find("extra") != std::string::npos;
  if (*name == json::value("extra_action_tokenizer")) return true;
  if (*name == json::value("action_tokenizer")) return false;
  return unsupported("{}: vla: action_tokenizer: expected action_tokenizer or extra_action_tokenizer, got {}", where, cut(*name));
}

Result<int32_t> write_prismatic_tokenizer(const fs::path& from, const fs::path& to, bool extra, int32_t vocab) {
  SLIP_TRY(const Tokenizer tokenizer, Tokenizer::load(from));
  std::error_code ec;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json"}) {
    if (!fs::exists(from / name, ec)) continue;
    SLIP_TRY(const std::string bytes, read_file(from / name));
    SLIP_TRY_(write_file(to / name, bytes));
  }
  const fs::path file = from / "tokenizer.json";
  if (!fs::exists(file, ec)) return bad_input("{}: expected tokenizer.json, got none", from.string());
  SLIP_TRY(json::value value, read_json(file));
  int32_t bound = 0;
  if (!extra) {
    SLIP_TRY(bound, base_vocabulary(value, file.string()));
  } else if (const auto last = tokenizer.find(fmt::format("<|extra_{}|>", kExtraTokens - 1))) {
    bound = last->value + 1;
  } else {
    SLIP_TRY_(add_extra_tokens(value, tokenizer.size(), file.string()));
    bound = tokenizer.size() + kExtraTokens;
  }
  if (bound > vocab)
    return bad_input("{}: expected at most {} ids as the checkpoint has rows, got {}", from.string(), vocab, bound);
  SLIP_TRY_(write_file(to / "tokenizer.json", json::serialize(value)));
  return bound;
}

Result<int32_t> known_action_bound(int32_t vocab, bool extra) {
  if (vocab == 151936) return extra ? 151921 : 151643;  // 151665 ids of Qwen2.5 and 256 extra ones; or its base vocabulary
  if (vocab == 32064) return 32000;                     // Llama 2's 32000, a padding token, padded to 64
  return bad_input("convert: expected --tokenizer, since {} rows are of no published vocabulary, got none", vocab);
}

}  // namespace slip
