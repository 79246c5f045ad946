// SPDX-License-Identifier: Apache-2.0
// The trainer of train_bpe.h. Pair counts are kept up to date word by word: a merge changes few words.
#include "text/train_bpe.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "base/json.h"
#include "text/bpe.h"
#include "text/chat.h"
#include "text/split_regex.h"
#include "text/tokenizer_file.h"
#include "text/unicode/unicode.h"

namespace slip {

namespace {

using Pair = std::pair<int32_t, int32_t>;

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

std::vector<int32_t> bytes_of(std::string_view piece) {
  std::vector<int32_t> out;
  for (const char b : piece) out.push_back(static_cast<uint8_t>(b));
  return out;
}

// Replaces the pair wherever it stands, from the left.
void apply(std::vector<int32_t>& symbols, Pair pair, int32_t merged) {
  size_t to = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const bool hit = i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
    symbols[to++] = hit ? merged : symbols[i];
    i += hit ? 1 : 0;
  }
  symbols.resize(to);
}

// Tokens and merges as they grow. Two ways to the same bytes are one token.
class Vocabulary {
 public:
  Vocabulary() {
    for (int b = 0; b < 256; ++b) id_of(std::string(1, static_cast<char>(b)));
  }
  int32_t merge(Pair pair) {
    const int32_t id = id_of(tokens_[static_cast<size_t>(pair.first)] + tokens_[static_cast<size_t>(pair.second)]);
    bpe_.add_merge(pair.first, pair.second, static_cast<int32_t>(merges_.size()), id);
    merges_.push_back(pair);
    return id;
  }
  // Adds merges behind all others until the piece is one token. Those before keep their precedence, so no piece that was
  // one token stops being it.
  void force(std::string_view piece) {
    for (;;) {
      std::vector<int32_t> symbols = bytes_of(piece);
      bpe_.merge(symbols);
      if (symbols.size() == 1) return;
      merge({symbols[0], symbols[1]});
    }
  }
  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<Pair>& merges() const { return merges_; }

 private:
  int32_t id_of(std::string bytes) {
    const auto [it, fresh] = ids_.try_emplace(bytes, static_cast<int32_t>(tokens_.size()));
    if (fresh) tokens_.push_back(std::move(bytes));
    return it->second;
  }
  std::vector<std::string> tokens_;
  std::vector<Pair> merges_;
  std::unordered_map<std::string, int32_t> ids_;
  Bpe bpe_;
};

Result<std::vector<Word>> count_words(std::span<const std::string> texts, const std::vector<AddedToken>& added,
                                      const SplitRegex& split) {
  AddedTokenMatcher matcher;
  for (const AddedToken& t : added) matcher.add(t.content, t);
  std::map<std::string, int64_t, std::less<>> counts;
  Status status;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!is_valid_utf8(texts[i])) return bad_input("training text {}: expected UTF-8, got other bytes", i);
    matcher.split(texts[i], [&](std::string_view part, const AddedToken* token) {
      if (token || !status) return;
      const std::string normal = nfc(part);
      std::vector<std::string_view> pieces;
      status = split.split(normal, pieces);
      for (const std::string_view piece : pieces) ++counts[std::string(piece)];
    });
    if (!status) return std::move(status).error();
  }
  std::vector<Word> words;
  words.reserve(counts.size());
  for (const auto& [piece, count] : counts) words.push_back({bytes_of(piece), count});
  return words;
}

// Merges in the order in which they are learned, until `tokens` exist or no pair is frequent enough.
std::vector<Pair> learn(std::vector<Word> words, size_t tokens, int64_t min_count) {
  Vocabulary vocabulary;
  std::map<Pair, int64_t> counts;  // ordered: of equal counts the lowest pair is met first
  const auto count = [&](const Word& w, int64_t sign) {
    for (size_t i = 0; i + 1 < w.symbols.size(); ++i) counts[{w.symbols[i], w.symbols[i + 1]}] += sign * w.count;
  };
  for (const Word& w : words) count(w, 1);
  while (vocabulary.tokens().size() < tokens) {
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < min_count) break;
    const Pair pair = best->first;
    const int32_t merged = vocabulary.merge(pair);
    for (Word& w : words) {
      bool has = false;
      for (size_t i = 0; i + 1 < w.symbols.size() && !has; ++i) has = w.symbols[i] == pair.first && w.symbols[i + 1] == pair.second;
      if (!has) continue;
      count(w, -1);
      apply(w.symbols, pair, merged);
      count(w, 1);
    }
    std::erase_if(counts, [](const auto& item) { return item.second == 0; });
  }
  return vocabulary.merges();
}

Result<std::vector<AddedToken>> collect_added(const TrainBpeOptions& options) {
  std::vector<AddedToken> out;
  std::set<std::string> seen;
  const auto take = [&](const std::vector<std::string>& contents, bool special) -> Status {
    for (const std::string& content : contents) {
      if (content.empty() || !is_valid_utf8(content))
        return bad_input("added token {}: expected UTF-8 text, got \"{}\"", out.size(), to_valid_utf8(content));
      if (!seen.insert(content).second) return bad_input("added token \"{}\": expected it once, got it twice", content);
      out.push_back({.content = content, .special = special});
    }
    return {};
  };
  SLIP_TRY_(take(options.special_tokens, true));
  SLIP_TRY_(take(options.added_tokens, false));
  return out;
}

json::object describe(const AddedToken& t) {
  return {{"content", t.content}, {"single_word", t.single_word}, {"lstrip", t.lstrip},
          {"rstrip", t.rstrip},   {"normalized", t.normalized},   {"special", t.special}};
}

json::object tokenizer_json(const TrainedBpe& bpe) {
  json::array added, merges;
  for (const AddedToken& t : bpe.added) {
    json::object o{{"id", t.id}};
    for (const auto& [key, value] : describe(t)) o[key] = value;
    added.push_back(std::move(o));
  }
  json::object vocab;
  for (size_t id = 0; id < bpe.tokens.size(); ++id) vocab[spell_bytes(bpe.tokens[id])] = id;
  for (const auto& [left, right] : bpe.merges) {
    merges.push_back(json::array{json::string(spell_bytes(bpe.tokens[static_cast<size_t>(left)])),
                                 json::string(spell_bytes(bpe.tokens[static_cast<size_t>(right)]))});
  }
  const auto byte_level = [](bool trim) {
    return json::object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim}, {"use_regex", false}};
  };
  const json::object split{
      {"type", "Split"}, {"pattern", json::object{{"Regex", kQwenSplitPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  json::array steps;
  steps.push_back(split);
  steps.push_back(byte_level(false));
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", json::object{{"type", "NFC"}}},
          {"pre_tokenizer", json::object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
          {"post_processor", byte_level(false)},
          {"decoder", byte_level(false)},
          {"model", json::object{{"type", "BPE"},
                                 {"dropout", nullptr},
                                 {"unk_token", nullptr},
                                 {"continuing_subword_prefix", ""},
                                 {"end_of_word_suffix", ""},
                                 {"fuse_unk", false},
                                 {"byte_fallback", false},
                                 {"ignore_merges", false},
                                 {"vocab", std::move(vocab)},
                                 {"merges", std::move(merges)}}}};
}

json::object config_json(const TrainedBpe& bpe) {
  json::object decoder;
  const auto if_present = [&](std::string_view content) -> json::value {
    const bool has = std::any_of(bpe.added.begin(), bpe.added.end(), [&](const AddedToken& t) { return t.content == content; });
    return has ? json::value(json::string_view(content.data(), content.size())) : json::value(nullptr);
  };
  for (const AddedToken& t : bpe.added) decoder[std::to_string(t.id)] = describe(t);
  return {{"tokenizer_class", "Qwen2Tokenizer"},
          {"added_tokens_decoder", std::move(decoder)},
          {"bos_token", nullptr},
          {"eos_token", if_present("<|im_end|>")},
          {"pad_token", if_present("<|endoftext|>")},
          {"unk_token", nullptr},
          {"add_bos_token", false},
          {"add_prefix_space", false},
          {"clean_up_tokenization_spaces", false},
          {"chat_template", json::string(qwen_vl_template_text())}};
}

}  // namespace

Result<TrainedBpe> train_bpe(std::span<const std::string> texts, const TrainBpeOptions& options) {
  TrainedBpe out;
  SLIP_TRY(out.added, collect_added(options));
  SLIP_TRY(const SplitRegex split, SplitRegex::compile(kQwenSplitPattern, false, "train_bpe"));
  std::vector<std::string> whole;
  for (const std::string& piece : options.whole) {
    if (piece.empty() || !is_valid_utf8(piece))
      return bad_input("whole token: expected UTF-8 text, got \"{}\"", to_valid_utf8(piece));
    whole.push_back(nfc(piece));
    std::vector<std::string_view> parts;
    SLIP_TRY_(split.split(whole.back(), parts));
    if (parts.size() != 1)
      return bad_input("whole token \"{}\": expected one piece under the split pattern, got {}", piece, parts.size());
  }
  const int64_t budget = int64_t{options.vocab_size} - static_cast<int64_t>(out.added.size());
  if (budget < 256)
    return bad_input("vocab_size: expected at least {} (256 bytes and the added tokens), got {}", 256 + out.added.size(),
                     options.vocab_size);
  SLIP_TRY(std::vector<Word> words, count_words(texts, out.added, split));
  const std::vector<Pair> learned = learn(std::move(words), static_cast<size_t>(budget), std::max<int64_t>(1, options.min_count));

  // The most learned merges that leave room for what the whole tokens still need.
  for (size_t keep = learned.size();; --keep) {
    Vocabulary vocabulary;
    for (size_t i = 0; i < keep; ++i) vocabulary.merge(learned[i]);
    for (const std::string& piece : whole) vocabulary.force(piece);
    if (vocabulary.tokens().size() <= static_cast<size_t>(budget)) {
      out.tokens = vocabulary.tokens();
      out.merges = vocabulary.merges();
      break;
    }
    if (keep == 0) return bad_input("vocab_size: expected room for {} whole tokens, got {}", whole.size(), options.vocab_size);
  }
  for (size_t i = 0; i < out.added.size(); ++i) out.added[i].id = static_cast<int32_t>(out.tokens.size() + i);
  return out;
}

Status write_tokenizer(const TrainedBpe& bpe, const std::filesystem::path& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return bad_input("{}: expected a folder to write to, got: {}", folder.string(), ec.message());
  SLIP_TRY_(write_file(folder / "tokenizer.json", pretty(tokenizer_json(bpe))));
  return write_file(folder / "tokenizer_config.json", pretty(config_json(bpe)));
}

}  // namespace slip
