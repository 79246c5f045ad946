// SPDX-License-Identifier: Apache-2.0
// The tokenizer: added tokens, normaliser, split, BPE, and the way back. Two kinds share it: byte-level (symbols are bytes)
// and SentencePiece-like (symbols are characters, with byte tokens for those that are not in the vocabulary).
#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "text/bpe.h"
#include "text/split_regex.h"
#include "text/tokenizer_file.h"
#include "text/unicode/unicode.h"

namespace slip {

namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

struct HashText {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
using IdByText = std::unordered_map<std::string, int32_t, HashText, std::equal_to<>>;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string_view::npos; at = hit + from.size())
    out.append(text, at, hit - at).append(to);
  return out.append(text, at);
}

// The byte of a token spelled <0xNN>, else -1.
int fallback_byte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int value = 0;
  for (const char c : spelling.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

std::string text_of_run(std::string_view run, ByteRuns runs) {
  if (is_valid_utf8(run)) return std::string(run);
  if (runs == ByteRuns::kCharacters) return to_valid_utf8(run);
  std::string out;
  for (size_t i = 0; i < run.size(); ++i) out += kReplacement;
  return out;
}

}  // namespace

constexpr int32_t kNoToken = -1;
constexpr size_t kPiecesBetween = 256;
/// NFC makes at most so many bytes one: three jamo of nine bytes become a syllable of three.
constexpr size_t kMostComposed = 3;

struct Tokenizer::Impl {
  struct Entry {
    std::string spelling, bytes;
    bool known = false, added = false, special = false;
    bool byte_run = false;  // <0xNN> of the SentencePiece-like kind
  };
  std::vector<Entry> entries;  // by id
  IdByText id_of_spelling;     // vocabulary, then added tokens over it
  IdByText id_of_piece;        // vocabulary alone, as a piece of text has it
  std::array<int32_t, 256> id_of_byte{};
  Bpe bpe;
  AddedTokenMatcher raw, normalized;
  std::vector<SplitRegex> splits;
  bool nfc = false, ignore_merges = false, sentencepiece = false, cut_at_blanks = false, strip_blank = true;
  BlankInFront blank = BlankInFront::kNormalizer;
  TemplateIds around;
  size_t longest = 1;  // bytes of a token

  Status build(const TokenizerSpec& spec);
  Status build_symbols(const TokenizerSpec& spec, const IdByText& vocab);
  void build_added(const TokenizerSpec& spec);
  std::string normalize(std::string_view text) const;
  /// `begins`: a text of its own, in front of which a blank may go.
  Result<std::vector<TokenId>> encode(std::string_view text, bool begins, Status (*between)()) const;
  /// `first`: the segment is the text's start.
  Status encode_segment(std::string_view normalized_text, bool begins, bool first, Status (*between)(),
                        std::vector<TokenId>& out) const;
  Result<std::vector<std::string_view>> pieces_of(std::string_view segment) const;
  void encode_piece(std::string_view piece, std::vector<int32_t>& symbols) const;
  void characters(std::string_view text, std::vector<int32_t>& symbols) const;
  mutable std::mutex trie_mutex;
  mutable std::shared_ptr<const TokenTrie> trie;
  const Entry* entry(TokenId id) const {
    if (id.value < 0 || static_cast<size_t>(id.value) >= entries.size()) return nullptr;
    const Entry& e = entries[static_cast<size_t>(id.value)];
    return e.known ? &e : nullptr;
  }
};

Status Tokenizer::Impl::build(const TokenizerSpec& spec) {
  nfc = spec.nfc;
  ignore_merges = spec.ignore_merges;
  sentencepiece = spec.sentencepiece;
  cut_at_blanks = spec.cut_at_blanks;
  strip_blank = spec.strip_blank;
  blank = spec.blank;
  around = spec.around;
  int32_t largest = -1;
  for (const auto& [token, id] : spec.vocab) largest = std::max(largest, id);
  for (const AddedToken& t : spec.added) largest = std::max(largest, t.id);
  entries.resize(static_cast<size_t>(largest + 1));
  id_of_spelling.reserve(spec.vocab.size() + spec.added.size());
  for (const auto& [token, id] : spec.vocab) {
    Entry& e = entries[static_cast<size_t>(id)];
    e.spelling = token;
    e.bytes = sentencepiece ? replace_all(token, kBlank, " ") : bytes_of_spelling(token);
    e.known = true;
    id_of_spelling.emplace(token, id);
    if (ignore_merges || sentencepiece) id_of_piece.emplace(sentencepiece ? e.spelling : e.bytes, id);
    if (const int b = sentencepiece ? fallback_byte(token) : -1; b >= 0) {
      e.bytes = std::string(1, static_cast<char>(b));
      e.byte_run = true;
    }
  }
  SLIP_TRY_(build_symbols(spec, id_of_spelling));
  for (const TokenizerSpec::Split& s : spec.splits) {
    SLIP_TRY(SplitRegex split, SplitRegex::compile(s.pattern, s.matches_only, spec.where));
    splits.push_back(std::move(split));
  }
  build_added(spec);
  for (const Entry& e : entries) longest = std::max(longest, e.bytes.size());
  return {};
}

Status Tokenizer::Impl::build_symbols(const TokenizerSpec& spec, const IdByText& vocab) {
  for (int b = 0; b < 256; ++b) {
    std::string spelling = fmt::format("<0x{:02X}>", b);
    if (!sentencepiece) {
      spelling.clear();
      append_utf8(spelling, character_of_byte(static_cast<uint8_t>(b)));
    }
    const auto it = vocab.find(spelling);
    // A small byte-level alphabet may lack bytes: encode() refuses text that needs them.
    if (it == vocab.end() && sentencepiece) {
      return bad_input("{}: vocab: expected a token for each of the 256 bytes, got none for byte {:#04x} (\"{}\")", spec.where, b,
                       spelling);
    }
    id_of_byte[static_cast<size_t>(b)] = it == vocab.end() ? kNoToken : it->second;
  }
  bpe.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const auto l = vocab.find(left), r = vocab.find(right), m = vocab.find(left + right);
    if (l == vocab.end() || r == vocab.end() || m == vocab.end()) {
      return bad_input("{}: merge {}: expected tokens of the vocabulary, got \"{}\" + \"{}\"", spec.where, rank, left, right);
    }
    bpe.add_merge(l->second, r->second, static_cast<int32_t>(rank), m->second);
  }
  return {};
}

// A normalized added token is known by its normalised content, and special ones are left out of a decoding by comparing
// contents: both as the `tokenizers` library 0.23 has it.
void Tokenizer::Impl::build_added(const TokenizerSpec& spec) {
  std::set<std::string> special;
  for (const AddedToken& t : spec.added) {
    if (t.special) special.insert(t.content);
  }
  for (const AddedToken& t : spec.added) {
    if (t.content.empty()) continue;
    const std::string content = t.normalized ? normalize(t.content) : t.content;
    (t.normalized ? normalized : raw).add(content, t);
    Entry& e = entries[static_cast<size_t>(t.id)];
    e.spelling = content;
    e.bytes = sentencepiece ? replace_all(content, kBlank, " ") : bytes_of_spelling(content);
    e.known = e.added = true;
    e.byte_run = false;
    id_of_spelling[t.content] = t.id;
    id_of_spelling[content] = t.id;
  }
  for (Entry& e : entries) e.special = e.known && special.contains(e.spelling);
}

std::string Tokenizer::Impl::normalize(std::string_view text) const {
  if (nfc) return slip::nfc(text);
  if (sentencepiece && blank == BlankInFront::kNormalizer && !text.empty()) return kBlank + replace_all(text, " ", kBlank);
  return std::string(text);
}

void Tokenizer::Impl::characters(std::string_view text, std::vector<int32_t>& symbols) const {
  for (size_t at = 0; at < text.size();) {
    const auto n = static_cast<size_t>(utf8_length(text, at));
    const std::string_view character = text.substr(at, n);
    at += n;
    if (const auto it = id_of_piece.find(character); it != id_of_piece.end()) {
      symbols.push_back(it->second);
    } else {
      for (const char b : character) symbols.push_back(id_of_byte[static_cast<uint8_t>(b)]);
    }
  }
}

void Tokenizer::Impl::encode_piece(std::string_view piece, std::vector<int32_t>& symbols) const {
  symbols.clear();
  if (ignore_merges) {
    if (const auto it = id_of_piece.find(piece); it != id_of_piece.end()) {
      symbols.push_back(it->second);
      return;
    }
  }
  if (sentencepiece) {
    characters(piece, symbols);
  } else {
    for (const char b : piece) symbols.push_back(id_of_byte[static_cast<uint8_t>(b)]);
  }
  bpe.merge(symbols);
}

Result<std::vector<std::string_view>> Tokenizer::Impl::pieces_of(std::string_view segment) const {
  std::vector<std::string_view> pieces = {segment};
  for (const SplitRegex& split : splits) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) SLIP_TRY_(split.split(piece, finer));
    pieces = std::move(finer);
  }
  if (!cut_at_blanks) return pieces;
  pieces.clear();
  for (size_t at = 0; at < segment.size();) {
    const size_t end = std::min(segment.find(kBlank, at + 1), segment.size());
    pieces.push_back(segment.substr(at, end - at));
    at = end;
  }
  return pieces;
}

Status Tokenizer::Impl::encode_segment(std::string_view text, bool begins, bool first, Status (*between)(),
                                       std::vector<TokenId>& out) const {
  std::string metaspace;
  if (sentencepiece && blank != BlankInFront::kNormalizer) {
    metaspace = replace_all(text, " ", kBlank);
    const bool wanted = begins && (blank == BlankInFront::kAlways || (blank == BlankInFront::kFirst && first));
    if (wanted && !metaspace.starts_with(kBlank)) metaspace.insert(0, kBlank);
    text = metaspace;
  }
  SLIP_TRY(const auto pieces, pieces_of(text));
  std::vector<int32_t> symbols;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view piece = pieces[i];
    if (between && i % kPiecesBetween == kPiecesBetween - 1) SLIP_TRY_(between());
    encode_piece(piece, symbols);
    for (const int32_t id : symbols) {
      if (id == kNoToken) return bad_input("text: expected characters of the tokenizer's alphabet, got \"{}\"", piece);
      out.push_back({id});
    }
  }
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  SLIP_TRY(const TokenizerSpec spec, read_tokenizer(folder));
  auto impl = std::make_unique<Impl>();
  SLIP_TRY_(impl->build(spec));
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::of_bytes() {
  TokenizerSpec spec;
  spec.where = "bytes";
  for (int b = 0; b < 256; ++b) {
    std::string spelling;
    append_utf8(spelling, character_of_byte(static_cast<uint8_t>(b)));
    spec.vocab.emplace_back(std::move(spelling), b);
  }
  const std::string blank = spec.vocab[' '].first;
  for (int b = '!'; b < 0x7F; ++b) {
    const std::string other = spec.vocab[static_cast<size_t>(b)].first;
    spec.merges.emplace_back(blank, other);
    spec.vocab.emplace_back(blank + other, 256 + b - '!');
  }
  auto impl = std::make_unique<Impl>();
  const Status built = impl->build(spec);
  SLIP_CHECK(built, "a byte is a token");
  return Tokenizer(std::move(impl));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, Status (*between)()) const {
  return impl_->encode(text, true, between);
}

Result<std::vector<TokenId>> Tokenizer::encode_inside(std::string_view text) const { return impl_->encode(text, false, nullptr); }

// Blanks count for nothing: an added token may swallow any number of them.
size_t Tokenizer::least_tokens(std::string_view text) const {
  size_t bytes = 0;
  for (size_t at = 0; at < text.size();) {
    if (const auto c = static_cast<uint8_t>(text[at]); c < 0x80) {
      bytes += c > ' ';
      ++at;
      continue;
    }
    const int n = utf8_length(text, at);
    if (n == 0) return 0;  // encode() refuses it
    if (!is_space(next_character(text, at))) bytes += static_cast<size_t>(n);
  }
  return bytes / (impl_->longest * (impl_->nfc ? kMostComposed : 1));
}

std::shared_ptr<const TokenTrie> Tokenizer::trie() const {
  const std::lock_guard lock(impl_->trie_mutex);
  if (!impl_->trie) impl_->trie = std::make_shared<const TokenTrie>(*this);
  return impl_->trie;
}

Result<std::vector<TokenId>> Tokenizer::Impl::encode(std::string_view text, bool begins, Status (*between)()) const {
  if (!is_valid_utf8(text)) return bad_input("text: expected UTF-8, got other bytes");
  std::vector<TokenId> out;
  Status status;
  raw.split(text, [&](std::string_view part, const AddedToken* token) {
    if (token) {
      out.push_back({token->id});
      return;
    }
    const std::string normal = begins || !sentencepiece ? normalize(part) : replace_all(part, " ", kBlank);
    normalized.split(normal, [&](std::string_view piece, const AddedToken* inner) {
      if (inner) {
        out.push_back({inner->id});
      } else if (status) {
        status = encode_segment(piece, begins, part.data() == text.data() && piece.data() == normal.data(), between, out);
      }
    });
  });
  if (!status) return std::move(status).error();
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special, ByteRuns runs) const {
  StreamDecoder decoder(*this, skip_special, runs);
  std::string out;
  for (const TokenId id : ids) out += decoder.push(id);
  return out + decoder.flush();
}

const TemplateIds& Tokenizer::template_ids() const { return impl_->around; }

std::string_view Tokenizer::token_bytes(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e ? std::string_view(e->bytes) : std::string_view();
}
std::string_view Tokenizer::token_text(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e ? std::string_view(e->spelling) : std::string_view();
}
std::optional<TokenId> Tokenizer::find(std::string_view content) const {
  const auto it = impl_->id_of_spelling.find(content);
  if (it == impl_->id_of_spelling.end()) return std::nullopt;
  return TokenId{it->second};
}
bool Tokenizer::is_special(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e && e->special;
}
bool Tokenizer::is_added(TokenId id) const {
  const Impl::Entry* e = impl_->entry(id);
  return e && e->added;
}
int32_t Tokenizer::size() const { return static_cast<int32_t>(impl_->entries.size()); }

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special, ByteRuns runs)
    : tokenizer_(tokenizer), skip_special_(skip_special), runs_(runs) {}

std::string StreamDecoder::push(TokenId id) {
  const Tokenizer::Impl& impl = *tokenizer_.impl_;
  const Tokenizer::Impl::Entry* e = impl.entry(id);
  if (!e || (skip_special_ && e->special)) return {};
  std::string out;
  if (impl.sentencepiece) {
    if (e->byte_run) {
      run_ = true;
      pending_ += e->bytes;
      return {};
    }
    out = run_ ? text_of_run(std::exchange(pending_, {}), runs_) : std::string();
    run_ = false;
    out += e->bytes;
    if (!started_ && impl.strip_blank && out.starts_with(' ')) out.erase(0, 1);
    started_ = started_ || !e->bytes.empty();
    return out;
  }
  pending_ += e->bytes;
  size_t at = 0;
  while (at < pending_.size()) {
    if (const int n = utf8_length(pending_, at); n > 0) {
      out.append(pending_, at, static_cast<size_t>(n));
      at += static_cast<size_t>(n);
      continue;
    }
    bool may_continue;
    const int n = utf8_ill_formed_length(pending_, at, may_continue);
    if (may_continue) break;
    out += kReplacement;
    at += static_cast<size_t>(n);
  }
  pending_.erase(0, at);
  return out;
}

std::string StreamDecoder::flush() {
  const bool run = std::exchange(run_, false);
  std::string out = run ? text_of_run(pending_, runs_) : to_valid_utf8(pending_);
  pending_.clear();
  if (run && !started_ && tokenizer_.impl_->strip_blank && out.starts_with(' ')) out.erase(0, 1);
  started_ = false;
  return out;
}

}  // namespace slip
