// SPDX-License-Identifier: Apache-2.0
// Reading the files of tokenizer_file.h. What is not understood is refused by name, never skipped.
#include "text/tokenizer_file.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"

namespace slip {

namespace fs = std::filesystem;

const char* const kQwenSplitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// What ByteLevel itself splits by when use_regex is on (GPT-2).
constexpr const char* kGpt2SplitPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr int64_t kMaxId = int64_t{1} << 20;  // tables are indexed by id; the largest vocabularies have 2^18

bool is_present(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v && !v->is_null();
}

Result<int32_t> id_of(int64_t id, std::string_view token, std::string_view where) {
  if (id < 0 || id >= kMaxId)
    return bad_input("{}: token \"{}\": expected an id from 0 to {}, got {}", where, token, kMaxId - 1, id);
  return static_cast<int32_t>(id);
}

Result<AddedToken> read_added(const json::value& v, int64_t id, std::string_view where) {
  if (!v.is_object()) return bad_input("{}: added token {}: expected an object, got another kind of JSON", where, id);
  const json::object& o = v.get_object();
  AddedToken t;
  SLIP_TRY(t.content, get_string(o, "content", where));
  SLIP_TRY(t.id, id_of(id, t.content, where));
  SLIP_TRY(t.single_word, bool_or(o, "single_word", false, where));
  SLIP_TRY(t.lstrip, bool_or(o, "lstrip", false, where));
  SLIP_TRY(t.rstrip, bool_or(o, "rstrip", false, where));
  SLIP_TRY(t.special, bool_or(o, "special", false, where));
  SLIP_TRY(t.normalized, bool_or(o, "normalized", !t.special, where));
  return t;
}

// A later token of an id replaces the one before. The matcher takes some 100 bytes of memory per byte of content.
Status put_added(TokenizerSpec& spec, AddedToken token, std::string_view where) {
  constexpr size_t kLongest = size_t{1} << 16, kTogether = size_t{16} << 20;  // published: 100 bytes, and 65,536 tokens of 25
  if (token.content.size() > kLongest)
    return bad_input("{}: added token {}: expected at most {} bytes, got {}", where, token.id, kLongest, token.content.size());
  spec.added_bytes += token.content.size();
  const auto [at, fresh] = spec.added_at.try_emplace(token.id, spec.added.size());
  if (!fresh) spec.added_bytes -= spec.added[at->second].content.size();
  if (spec.added_bytes > kTogether)
    return bad_input("{}: added tokens: expected at most {} bytes together, got more", where, kTogether);
  if (fresh) {
    spec.added.push_back(std::move(token));
  } else {
    spec.added[at->second] = std::move(token);
  }
  return {};
}

Status read_vocab(const json::object& vocab, TokenizerSpec& spec) {
  std::set<int32_t> seen;
  spec.vocab.reserve(vocab.size());
  for (const auto& [key, value] : vocab) {
    std::string token(key);
    if (!value.is_int64())
      return bad_input("{}: vocab: token \"{}\": expected an integer id, got another kind of JSON", spec.where, token);
    SLIP_TRY(const int32_t id, id_of(value.get_int64(), token, spec.where));
    if (!seen.insert(id).second)
      return bad_input("{}: vocab: token \"{}\": expected an id of its own, got {}, which another has", spec.where, token, id);
    spec.vocab.emplace_back(std::move(token), id);
  }
  return {};
}

Status put_merge(std::string_view line, TokenizerSpec& spec) {
  const size_t blank = line.find(' ');
  if (blank == 0 || blank == std::string_view::npos || blank + 1 == line.size() ||
      line.find(' ', blank + 1) != std::string_view::npos) {
    return bad_input("{}: merge {}: expected two tokens with a blank between, got \"{}\"", spec.where, spec.merges.size(), line);
  }
  spec.merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  return {};
}

Status read_model(const json::object& model, TokenizerSpec& spec) {
  const std::string where = spec.where + ": model";
  SLIP_TRY(const std::string type, string_or(model, "type", "BPE", where));
  if (type != "BPE") return unsupported("{}: expected type BPE, got {}", where, type);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    SLIP_TRY(const std::string affix, string_or(model, key, "", where));
    if (!affix.empty()) return unsupported("{}: {}: expected none, got \"{}\"", where, key, affix);
  }
  SLIP_TRY(const double dropout, number_or(model, "dropout", 0, where));
  if (dropout != 0) return unsupported("{}: dropout: expected none, got {}", where, dropout);
  SLIP_TRY(spec.ignore_merges, bool_or(model, "ignore_merges", false, where));
  SLIP_TRY(spec.sentencepiece, bool_or(model, "byte_fallback", false, where));
  SLIP_TRY(const json::object* vocab, get_object(model, "vocab", where));
  SLIP_TRY_(read_vocab(*vocab, spec));
  SLIP_TRY(const json::array* merges, get_array(model, "merges", where));
  spec.merges.reserve(merges->size());
  for (const json::value& m : *merges) {
    if (m.is_string()) {
      SLIP_TRY_(put_merge(m.get_string(), spec));
    } else if (m.is_array() && m.get_array().size() == 2 && m.get_array()[0].is_string() && m.get_array()[1].is_string()) {
      spec.merges.emplace_back(m.get_array()[0].get_string(), m.get_array()[1].get_string());
    } else {
      return bad_input("{}: merge {}: expected \"a b\" or [\"a\", \"b\"], got another kind of JSON", where, spec.merges.size());
    }
  }
  return {};
}

// The parts of a Sequence, or the one part itself; nothing for null.
Result<std::vector<const json::object*>> parts_of(const json::object& root, std::string_view key, std::string_view list,
                                                  std::string_view where) {
  std::vector<const json::object*> out;
  if (!is_present(root, key)) return out;
  SLIP_TRY(const json::object* part, get_object(root, key, where));
  SLIP_TRY(const std::string type, get_string(*part, "type", where));
  if (type != "Sequence") {
    out.push_back(part);
    return out;
  }
  SLIP_TRY(const json::array* parts, get_array(*part, list, where));
  for (const json::value& v : *parts) {
    if (!v.is_object()) return bad_input("{}: {}: expected objects in the sequence, got another kind of JSON", where, key);
    out.push_back(&v.get_object());
  }
  return out;
}

Result<std::string> pattern_of(const json::object& part, std::string_view kind, std::string_view where) {
  SLIP_TRY(const json::object* pattern, get_object(part, "pattern", where));
  SLIP_TRY(const std::string text, get_string(*pattern, kind, where));
  return text;
}

Status read_normalizer(const json::object& root, TokenizerSpec& spec) {
  SLIP_TRY(const auto parts, parts_of(root, "normalizer", "normalizers", spec.where));
  std::string kinds;
  for (const json::object* part : parts) {
    SLIP_TRY(const std::string type, get_string(*part, "type", spec.where + ": normalizer"));
    kinds += (kinds.empty() ? "" : " ") + type;
  }
  if (!spec.sentencepiece) {
    if (!kinds.empty() && kinds != "NFC") return unsupported("{}: normalizer: expected NFC or none, got {}", spec.where, kinds);
    spec.nfc = !kinds.empty();
    return {};
  }
  if (kinds.empty() && is_present(root, "pre_tokenizer")) return {};  // Metaspace does the same later
  if (kinds != "Prepend Replace") {
    return unsupported("{}: normalizer: expected Prepend and Replace, or none and Metaspace, beside byte_fallback, got {}",
                       spec.where, kinds.empty() ? "none" : kinds);
  }
  SLIP_TRY(const std::string prepend, get_string(*parts[0], "prepend", spec.where));
  SLIP_TRY(const std::string from, pattern_of(*parts[1], "String", spec.where));
  SLIP_TRY(const std::string to, get_string(*parts[1], "content", spec.where));
  if (prepend != kBlank || from != " " || to != kBlank) {
    return unsupported("{}: normalizer: expected U+2581 in front and for blanks, got \"{}\", \"{}\" for \"{}\"", spec.where,
                       prepend, to, from);
  }
  return {};
}

// Files from before `prepend_scheme` say add_prefix_space.
Status read_metaspace(const json::object& part, const std::string& where, TokenizerSpec& spec) {
  SLIP_TRY(const std::string type, get_string(part, "type", where));
  if (type != "Metaspace") return unsupported("{}: expected Metaspace or none beside byte_fallback, got {}", where, type);
  SLIP_TRY(const std::string blank, string_or(part, "replacement", kBlank, where));
  if (blank != kBlank) return unsupported("{}: Metaspace: expected replacement U+2581, got \"{}\"", where, blank);
  SLIP_TRY(const bool prefix, bool_or(part, "add_prefix_space", true, where));
  SLIP_TRY(const std::string scheme, string_or(part, "prepend_scheme", prefix ? "always" : "never", where));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return unsupported("{}: Metaspace: expected prepend_scheme always, first or never, got \"{}\"", where, scheme);
  spec.blank = scheme == "always" ? BlankInFront::kAlways : scheme == "first" ? BlankInFront::kFirst : BlankInFront::kNever;
  SLIP_TRY(spec.cut_at_blanks, bool_or(part, "split", true, where));
  return {};
}

Status read_split(const json::object& part, const std::string& where, TokenizerSpec& spec) {
  SLIP_TRY(const std::string behavior, get_string(part, "behavior", where));
  SLIP_TRY(const bool invert, bool_or(part, "invert", false, where));
  const bool isolated = behavior == "Isolated" && !invert, matches_only = behavior == "Removed" && invert;
  if (!isolated && !matches_only)
    return unsupported("{}: Split: expected behavior Isolated, or Removed and inverted, got {}{}", where, behavior,
                       invert ? ", inverted" : "");
  SLIP_TRY(std::string pattern, pattern_of(part, "Regex", where));
  spec.splits.push_back({std::move(pattern), matches_only});
  return {};
}

Status read_pre_tokenizer(const json::object& root, TokenizerSpec& spec) {
  const std::string where = spec.where + ": pre_tokenizer";
  SLIP_TRY(const auto parts, parts_of(root, "pre_tokenizer", "pretokenizers", spec.where));
  if (spec.sentencepiece) {
    if (parts.empty()) return {};
    if (is_present(root, "normalizer") || parts.size() > 1)
      return unsupported("{}: expected Metaspace alone beside byte_fallback, got more", where);
    return read_metaspace(*parts[0], where, spec);
  }
  bool byte_level = false;
  for (const json::object* part : parts) {
    SLIP_TRY(const std::string type, get_string(*part, "type", where));
    if (byte_level) return unsupported("{}: expected ByteLevel as the last part, got {} behind it", where, type);
    if (type == "ByteLevel") {
      SLIP_TRY(const bool prefix, bool_or(*part, "add_prefix_space", true, where));
      if (prefix) return unsupported("{}: ByteLevel: expected add_prefix_space false, got true", where);
      SLIP_TRY(const bool regex, bool_or(*part, "use_regex", true, where));
      if (regex) spec.splits.push_back({kGpt2SplitPattern});
      byte_level = true;
    } else if (type == "Split") {
      SLIP_TRY_(read_split(*part, where, spec));
    } else {
      return unsupported("{}: expected Split and ByteLevel, got {}", where, type);
    }
  }
  if (!byte_level) return unsupported("{}: expected ByteLevel, got none", where);
  return {};
}

Status check_decoder(const json::object& root, TokenizerSpec& spec) {
  SLIP_TRY(const auto parts, parts_of(root, "decoder", "decoders", spec.where));
  std::string kinds;
  for (const json::object* part : parts) {
    SLIP_TRY(const std::string type, get_string(*part, "type", spec.where + ": decoder"));
    kinds += (kinds.empty() ? "" : " ") + type;
  }
  spec.strip_blank = kinds != "Replace ByteFallback Fuse";
  const char* const expected = !spec.sentencepiece ? "ByteLevel"
                               : spec.strip_blank  ? "Replace ByteFallback Fuse Strip"
                                                   : kinds.c_str();
  if (kinds != expected)
    return unsupported("{}: decoder: expected {}, got {}", spec.where, expected, kinds.empty() ? "none" : kinds);
  return {};
}

// TemplateProcessing's `single`: special tokens around sequence A. ByteLevel adds nothing.
Status read_template(const json::object& part, const std::string& where, TemplateIds& around) {
  SLIP_TRY(const json::array* single, get_array(part, "single", where));
  SLIP_TRY(const json::object* specials, get_object(part, "special_tokens", where));
  bool behind = false;
  for (const json::value& v : *single) {
    const json::object* piece = v.if_object();
    if (piece && piece->contains("Sequence")) {
      behind = true;
      continue;
    }
    if (!piece) return bad_input("{}: single: expected objects, got another kind of JSON", where);
    SLIP_TRY(const json::object* token, get_object(*piece, "SpecialToken", where));
    SLIP_TRY(const std::string name, get_string(*token, "id", where));
    SLIP_TRY(const json::object* special, get_object(*specials, name, where));
    SLIP_TRY(const json::array* ids, get_array(*special, "ids", where));
    for (const json::value& id : *ids) {
      if (!id.is_int64()) return bad_input("{}: token \"{}\": expected integer ids, got another kind of JSON", where, name);
      SLIP_TRY(const int32_t n, id_of(id.get_int64(), name, where));
      (behind ? around.back : around.front).push_back({n});
    }
  }
  return {};
}

Status read_post_processor(const json::object& root, TokenizerSpec& spec) {
  const std::string where = spec.where + ": post_processor";
  SLIP_TRY(const auto parts, parts_of(root, "post_processor", "processors", spec.where));
  for (const json::object* part : parts) {
    SLIP_TRY(const std::string type, get_string(*part, "type", where));
    if (type == "TemplateProcessing") {
      SLIP_TRY_(read_template(*part, where, spec.around));
    } else if (type != "ByteLevel") {
      return unsupported("{}: expected TemplateProcessing and ByteLevel, got {}", where, type);
    }
  }
  return {};
}

Status read_tokenizer_json(const fs::path& file, TokenizerSpec& spec) {
  SLIP_TRY(const json::value value, read_json(file));
  if (!value.is_object()) return bad_input("{}: expected an object, got another kind of JSON", spec.where);
  const json::object& root = value.get_object();
  SLIP_TRY(const json::object* model, get_object(root, "model", spec.where));
  SLIP_TRY_(read_model(*model, spec));
  SLIP_TRY_(read_normalizer(root, spec));
  SLIP_TRY_(read_pre_tokenizer(root, spec));
  SLIP_TRY_(check_decoder(root, spec));
  SLIP_TRY_(read_post_processor(root, spec));
  if (!is_present(root, "added_tokens")) return {};
  SLIP_TRY(const json::array* added, get_array(root, "added_tokens", spec.where));
  for (const json::value& v : *added) {
    if (!v.is_object()) return bad_input("{}: added_tokens: expected objects, got another kind of JSON", spec.where);
    SLIP_TRY(const int64_t id, get_int(v.get_object(), "id", spec.where + ": added_tokens"));
    SLIP_TRY(AddedToken token, read_added(v, id, spec.where));
    SLIP_TRY_(put_added(spec, std::move(token), spec.where));
  }
  return {};
}

Status read_vocab_and_merges(const fs::path& folder, TokenizerSpec& spec) {
  SLIP_TRY(const json::value vocab, read_json(folder / "vocab.json"));
  if (!vocab.is_object()) return bad_input("{}: expected an object, got another kind of JSON", spec.where);
  SLIP_TRY_(read_vocab(vocab.get_object(), spec));
  const fs::path file = folder / "merges.txt";
  SLIP_TRY(const std::string text, read_file(file, size_t{1} << 28));
  if (!is_valid_utf8(text)) return bad_input("{}: expected UTF-8, got other bytes", file.string());
  spec.where = file.string();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    SLIP_TRY_(put_merge(line, spec));
  }
  spec.nfc = true;
  spec.splits = {{kQwenSplitPattern}};
  return {};
}

// The contents that tokenizer_config.json names as special: "eos_token" and its kind, and the additional ones.
std::set<std::string> special_contents(const json::object& config) {
  std::set<std::string> out;
  const auto take = [&](const json::value& v) {
    if (v.is_string()) out.emplace(v.get_string());
    if (const auto* o = v.if_object()) {
      if (const auto* c = o->if_contains("content"); c && c->is_string()) out.emplace(c->get_string());
    }
  };
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (const json::value* v = config.if_contains(key)) take(*v);
  }
  if (const json::value* v = config.if_contains("additional_special_tokens"); v && v->is_array()) {
    for (const json::value& item : v->get_array()) take(item);
  }
  return out;
}

Status read_beside(const fs::path& folder, bool has_tokenizer_json, TokenizerSpec& spec) {
  std::error_code ec;
  json::value config = json::object();  // braces would make it an array of one
  const fs::path config_file = folder / "tokenizer_config.json", added_file = folder / "added_tokens.json";
  if (fs::exists(config_file, ec)) {
    SLIP_TRY(config, read_json(config_file));
    if (!config.is_object()) return bad_input("{}: expected an object, got another kind of JSON", config_file.string());
  }
  const json::object& c = config.get_object();
  if (!has_tokenizer_json) {
    SLIP_TRY(const std::string kind, string_or(c, "tokenizer_class", "Qwen2Tokenizer", config_file.string()));
    if (!kind.starts_with("Qwen")) {
      return unsupported("{}: tokenizer_class: expected Qwen2Tokenizer beside vocab.json without tokenizer.json, got {}",
                         config_file.string(), kind);
    }
    if (fs::exists(added_file, ec)) {
      SLIP_TRY(const json::value added, read_json(added_file));
      if (!added.is_object()) return bad_input("{}: expected an object, got another kind of JSON", added_file.string());
      const auto special = special_contents(c);
      for (const auto& [key, value] : added.get_object()) {
        AddedToken t;
        t.content = std::string(key);
        if (!value.is_int64())
          return bad_input("{}: token \"{}\": expected an integer id, got another kind of JSON", added_file.string(), t.content);
        SLIP_TRY(t.id, id_of(value.get_int64(), t.content, added_file.string()));
        t.special = special.contains(t.content);
        t.normalized = !t.special;
        SLIP_TRY_(put_added(spec, std::move(t), added_file.string()));
      }
    }
  }
  if (!is_present(c, "added_tokens_decoder")) return {};
  const std::string where = config_file.string() + ": added_tokens_decoder";
  SLIP_TRY(const json::object* decoder, get_object(c, "added_tokens_decoder", config_file.string()));
  for (const auto& [key, value] : *decoder) {
    const std::string digits(key);
    if (digits.empty() || digits.size() > 9 ||
        !std::all_of(digits.begin(), digits.end(), [](char d) { return d >= '0' && d <= '9'; })) {
      return bad_input("{}: expected an id, got \"{}\"", where, digits);
    }
    SLIP_TRY(AddedToken token, read_added(value, std::stol(digits), where));
    SLIP_TRY_(put_added(spec, std::move(token), where));
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> read_tokenizer(const fs::path& folder) {
  TokenizerSpec spec;
  std::error_code ec;
  const fs::path whole = folder / "tokenizer.json", vocab = folder / "vocab.json";
  const bool has_tokenizer_json = fs::exists(whole, ec);
  if (has_tokenizer_json) {
    spec.where = whole.string();
    SLIP_TRY_(read_tokenizer_json(whole, spec));
  } else if (fs::exists(vocab, ec)) {
    spec.where = vocab.string();
    SLIP_TRY_(read_vocab_and_merges(folder, spec));
  } else {
    return bad_input("{}: expected tokenizer.json, or vocab.json and merges.txt, got neither", folder.string());
  }
  SLIP_TRY_(read_beside(folder, has_tokenizer_json, spec));
  return spec;
}

}  // namespace slip
