// SPDX-License-Identifier: Apache-2.0
// Text and fields -> ids. The whole answer is tokenised with many sets of values in place and cut at the fields' borders; the
// fixed ids must come out the same every time, else the form cannot be decoded canonically and is refused by field.
#include "form/schema/schema.h"

#include <algorithm>

#include "base/check.h"
#include "form/json_text.h"
#include "form/schema/text.h"
#include "form/schema/text_rules.h"
#include "form/schema/typed/open_form.h"
#include "form/schema/typed/spelling.h"
#include "form/schema/typed/typed.h"

namespace slip {
namespace {

/// Ten fills of equal digits show the id of every digit at every place; four mixed ones show that places do not influence each other.
constexpr int kUniformFills = 10, kMixedFills = 4;
constexpr size_t kMostProbed =
    size_t{1} << 26;  // bytes of all probes; wod-e2e has 150,000; text and ids take some 8 times as much memory
constexpr std::string_view kProbeTexts[] = {"a", "keep going", "the road"};

/// The whole answer once, as text, with the byte range of every piece.
struct Probe {
  std::string text;
  std::vector<std::pair<size_t, size_t>> ranges;  // per piece
  std::vector<std::string> values;                // per field, without NULL
  std::vector<std::vector<TokenId>> ids;          // per piece; filled by cut
};

class Compiler {
 public:
  /// `apart`: every piece is spelled by itself, for vocabularies that spell no whole answer as it is.
  Compiler(FormText text, std::string_view name, const FormTokens& tokens, bool apart)
      : text_(std::move(text)), name_(name), tokens_(tokens), text_rules_(tokens, text_.layout), apart_(apart) {}

  Result<CompiledForm> compile() {
    SLIP_TRY_(spell_fixed());
    SLIP_TRY_(probe_all());
    SLIP_TRY_(fixed_text_is_stable());
    SLIP_TRY_(colons_stand_alone());
    SLIP_TRY_(is_stable_without_instances());
    CompiledForm out;
    out.null_token = tokens_.null_token;
    parts_.name = name_;
    parts_.section_names = text_.section_names;
    parts_.block_size = text_.block_size;
    for (size_t p = 0; p < text_.pieces.size(); ++p) {
      if (text_.pieces[p].field < 0) {
        append_fixed(probes_[0].ids[p], text_.pieces[p].section);
      } else {
        SLIP_TRY(FieldMeaning meaning, field(p));
        out.meanings.push_back(std::move(meaning));
      }
    }
    SLIP_TRY_(link_parents(text_, name_, parts_.fields));
    SLIP_TRY(out.form, Form::make(std::move(parts_)));
    return out;
  }

 private:
  std::string where(const FieldSpec& f) const { return fmt::format("form {}: {}", name_, f.path); }
  bool pads(const FieldSpec& f) const { return f.null_pad && !f.end && tokens_.null_token.has_value(); }

  // ---- probes

  /// `without`: without all that an answer may lack.
  Probe fill(int number, bool with_null, bool without = false) const {
    Probe probe;
    for (const TextPiece& piece : text_.pieces) {
      const size_t begin = probe.text.size();
      if (without && is_optional(text_, probe.ranges.size())) {
        probe.values.resize(probe.values.size() + (piece.field >= 0 ? 1 : 0));
        probe.ranges.emplace_back(begin, begin);
        continue;
      }
      probe.text += piece.text;
      if (piece.field >= 0) {
        const FieldSpec& f = text_.fields[static_cast<size_t>(piece.field)];
        probe.values.push_back(value(f, number));
        if (f.space) probe.text += ' ';
        probe.text += probe.values.back();
        if (with_null && pads(f)) probe.text += tokens_.tokenizer->token_text(*tokens_.null_token);
      }
      probe.ranges.emplace_back(begin, probe.text.size());
    }
    return probe;
  }

  std::string value(const FieldSpec& f, int number) const {
    const auto n = static_cast<size_t>(number);
    if (const auto* choice = std::get_if<ChoiceSpec>(&f.kind)) return choice->words[n % choice->words.size()];
    if (std::holds_alternative<TextSpec>(f.kind)) {
      const size_t text = n % (std::size(kProbeTexts) + (f.placeholder.empty() ? 0 : 1));
      return text < std::size(kProbeTexts) ? std::string(kProbeTexts[text]) : f.placeholder;
    }
    if (const auto* bins = std::get_if<BinsSpec>(&f.kind)) {  // in a layout of tokens nothing merges with them
      std::string s;
      for (int32_t i = 0; text_.layout != Layout::kTokens && i < std::max(bins->count, 1); ++i)
        s += (number + i) % 2 == 0 ? bins->first : bins->last;
      return s;
    }
    std::string s = std::get<NumberFormat>(f.kind).render(number % 2 == 0 ? 0.0 : -0.0);
    size_t place = 0;
    for (char& c : s)
      if (c == '0') c = static_cast<char>('0' + (n + (number < kUniformFills ? 0 : 3 * place++)) % 10);
    return s;
  }

  /// Cuts the probe's ids at the borders of its pieces; a token over a field's border is refused.
  Status cut(Probe& probe) const {
    if (text_.layout == Layout::kTokens) return spell(probe);
    if (apart_) return spell_apart(probe);
    auto encoded = tokens_.tokenizer->encode(probe.text);
    if (!encoded) return Error{encoded.error().kind, fmt::format("form {}: {}", name_, encoded.error().message)};
    const std::vector<TokenId> ids = std::move(*encoded);
    probe.ids.assign(text_.pieces.size(), {});
    size_t at = 0, piece = 0;
    for (const TokenId id : ids) {
      while (piece + 1 < probe.ranges.size() && at >= probe.ranges[piece].second) ++piece;
      const bool by_name = (tokens_.null_token && id == *tokens_.null_token) || is_bins(piece);
      const std::string_view bytes = by_name ? tokens_.tokenizer->token_text(id) : tokens_.tokenizer->token_bytes(id);
      if (probe.text.compare(at, bytes.size(), bytes) != 0 || bytes.empty())
        return bad_input("form {}: expected a tokenizer that spells \"{}\" as it is, got another spelling", name_,
                         probe.text.substr(at, 24));
      for (size_t p = piece; p < probe.ranges.size() && probe.ranges[p].second < at + bytes.size(); ++p) {
        const int32_t left = text_.pieces[p].field, right = text_.pieces[p + 1].field;
        if (left >= 0 || right >= 0)
          return bad_input("{}: expected tokens that end where the value {}, got \"{}\" across the border",
                           where(text_.fields[static_cast<size_t>(left >= 0 ? left : right)]), left >= 0 ? "ends" : "begins",
                           shown(bytes));
      }
      probe.ids[piece].push_back(id);
      at += bytes.size();
    }
    if (at != probe.text.size())
      return bad_input("form {}: expected a tokenizer that spells \"{}\", got nothing for it", name_, probe.text.substr(at, 24));
    return {};
  }

  bool is_bins(size_t piece) const {
    const int32_t f = text_.pieces[piece].field;
    return f >= 0 && std::holds_alternative<BinsSpec>(text_.fields[static_cast<size_t>(f)].kind);
  }

  /// In a layout of tokens every piece stands by itself: specials are borders that nothing merges across.
  Status spell(Probe& probe) const {
    for (size_t p = 0; p < text_.pieces.size(); ++p) {
      const auto [begin, end] = probe.ranges[p];
      auto ids = text_.pieces[p].field < 0 ? Result(spelled_[p]) : tokens_.tokenizer->encode(probe.text.substr(begin, end - begin));
      if (!ids) return Error{ids.error().kind, fmt::format("form {}: {}", name_, ids.error().message)};
      probe.ids.push_back(std::move(*ids));
    }
    return {};
  }

  /// Numbers a character at a time, so that any digit may stand at any place.
  Status spell_apart(Probe& probe) const {
    for (size_t p = 0; p < text_.pieces.size(); ++p) {
      if (is_bins(p)) {
        probe.ids.emplace_back();
        continue;
      }
      const auto [begin, end] = probe.ranges[p];
      std::string_view text = std::string_view(probe.text).substr(begin, end - begin);
      const FieldSpec* f = text_.pieces[p].field < 0 ? nullptr : &text_.fields[static_cast<size_t>(text_.pieces[p].field)];
      const std::string_view null = f && pads(*f) ? tokens_.tokenizer->token_text(*tokens_.null_token) : std::string_view();
      const bool padded = !null.empty() && text.ends_with(null);
      if (padded) text.remove_suffix(null.size());
      const bool digits = f && std::holds_alternative<NumberFormat>(f->kind);
      std::vector<TokenId>& ids = probe.ids.emplace_back();
      for (size_t at = 0; at < text.size(); at += digits ? 1 : text.size()) {
        SLIP_TRY(const std::vector<TokenId> more, spelled_alone(*tokens_.tokenizer, digits ? text.substr(at, 1) : text, name_));
        ids.insert(ids.end(), more.begin(), more.end());
      }
      if (padded) ids.push_back(*tokens_.null_token);
    }
    return {};
  }

  Result<TokenId> find(std::string_view spelling, const std::string& at) const {
    const auto id = tokens_.tokenizer->find(spelling);
    if (id) return *id;
    return bad_input("{}: expected a tokenizer with the token \"{}\", got one without", at, shown(spelling));
  }

  /// A model that was not made for the form is refused here, by the token that it lacks.
  Status spell_fixed() {
    spelled_.resize(text_.pieces.size());
    for (size_t p = 0; p < text_.pieces.size(); ++p)
      for (const std::string& token : text_.pieces[p].tokens) {
        SLIP_TRY(const TokenId id, find(token, "form " + name_));
        spelled_[p].push_back(id);
      }
    return {};
  }

  /// Every word is tried inside the whole answer: long enums in long forms multiply. A piece costs about 64 bytes besides its text.
  Status probes_fit(size_t fills) const {
    const size_t one = fill(0, false).text.size() + 64 * text_.pieces.size();
    if (2 * fills * one <= kMostProbed) return {};
    const auto words = [](const FieldSpec& f) {
      return std::holds_alternative<ChoiceSpec>(f.kind) ? std::get<ChoiceSpec>(f.kind).words.size() : 0;
    };
    const auto most = std::max_element(text_.fields.begin(), text_.fields.end(),
                                       [&](const auto& a, const auto& b) { return words(a) < words(b); });
    return bad_input("{}: expected {} values to be tried in at most {} bytes of answers, got {}",
                     most == text_.fields.end() ? "form " + name_ : where(*most), fills, kMostProbed, 2 * fills * one);
  }

  Status probe_all() {
    size_t fills = kUniformFills + kMixedFills;
    for (const FieldSpec& f : text_.fields)
      if (const auto* choice = std::get_if<ChoiceSpec>(&f.kind)) fills = std::max(fills, choice->words.size());
    SLIP_TRY_(probes_fit(fills));
    for (const bool with_null : {false, true}) {
      if (with_null && std::none_of(text_.fields.begin(), text_.fields.end(), [&](const FieldSpec& f) { return pads(f); })) break;
      for (size_t v = 0; v < fills; ++v) {
        probes_.push_back(fill(static_cast<int>(v), with_null));
        SLIP_TRY_(cut(probes_.back()));
      }
    }
    return {};
  }

  Status fixed_text_is_stable() const {
    for (size_t p = 0; p < text_.pieces.size(); ++p) {
      if (text_.pieces[p].field >= 0) continue;
      for (const Probe& probe : probes_) {
        if (probe.ids[p] == probes_[0].ids[p]) continue;
        const size_t near = p > 0 && text_.pieces[p - 1].field >= 0 ? p - 1 : p + 1 < text_.pieces.size() ? p + 1 : p;
        const int32_t f = text_.pieces[near].field;
        return bad_input("{}: expected \"{}\" beside it to have the same tokens with any value, got others with \"{}\"",
                         f >= 0 ? where(text_.fields[static_cast<size_t>(f)]) : "form " + name_, shown(text_.pieces[p].text),
                         f >= 0 ? shown(probe.values[static_cast<size_t>(f)]) : "");
      }
    }
    return {};
  }

  /// The hand-off row of a field on a line is its label's colon.
  Status colons_stand_alone() const {
    for (size_t p = 1; p < text_.pieces.size(); ++p) {
      if (text_.pieces[p].field < 0 || !text_.fields[static_cast<size_t>(text_.pieces[p].field)].on_line) continue;
      const std::string_view last = tokens_.tokenizer->token_bytes(probes_[0].ids[p - 1].back());
      if (last != ":")
        return bad_input("{}: expected a label whose colon is a token of its own, got \"{}\"",
                         where(text_.fields[static_cast<size_t>(text_.pieces[p].field)]), shown(last));
    }
    return {};
  }

  /// Lines that close up have the tokens that they have apart.
  Status is_stable_without_instances() const {
    if (std::none_of(text_.fields.begin(), text_.fields.end(), [](const FieldSpec& f) { return f.optional; })) return {};
    Probe probe = fill(0, false, true);
    SLIP_TRY_(cut(probe));
    for (size_t p = 0; p < text_.pieces.size(); ++p)
      if (text_.pieces[p].field < 0 && !is_optional(text_, p) && probe.ids[p] != probes_[0].ids[p])
        return bad_input("form {}: expected \"{}\" to have the same tokens behind absent instances, got others", name_,
                         shown(text_.pieces[p].text));
    return {};
  }

  // ---- fields

  void append_fixed(std::span<const TokenId> ids, int32_t section) {
    if (ids.empty()) return;
    FixedRun* last = parts_.pieces.empty() ? nullptr : std::get_if<FixedRun>(&parts_.pieces.back());
    if (last == nullptr || last->section != section) {
      parts_.pieces.emplace_back(FixedRun{{}, section});
      last = &std::get<FixedRun>(parts_.pieces.back());
    }
    last->ids.insert(last->ids.end(), ids.begin(), ids.end());
  }

  std::optional<TokenId> first_fixed_after(size_t piece) const {
    for (size_t p = piece + 1; p < text_.pieces.size() && text_.pieces[p].field < 0; ++p)
      if (!probes_[0].ids[p].empty()) return probes_[0].ids[p].front();
    return std::nullopt;
  }

  Result<FieldMeaning> field(size_t piece) {
    const FieldSpec& spec = text_.fields[static_cast<size_t>(text_.pieces[piece].field)];
    Field f;
    f.name = spec.name;
    f.section = spec.section;
    f.budget = spec.budget;
    f.instance_of = spec.instance_of;
    f.leaves_out = spec.leaves_out;
    FieldMeaning meaning;
    if (std::holds_alternative<ChoiceSpec>(spec.kind)) {
      SLIP_TRY(meaning, choice(spec, piece, f));
    } else if (std::holds_alternative<TextSpec>(spec.kind)) {
      SLIP_TRY(meaning, free_text(spec, piece, f));
    } else if (const auto* range = std::get_if<BinsSpec>(&spec.kind)) {
      SLIP_TRY(meaning, bins(spec, *range, f));
    } else {
      SLIP_TRY(meaning, number(spec, piece, f));
    }
    parts_.pieces.emplace_back(FieldRef{static_cast<int32_t>(parts_.fields.size())});
    parts_.fields.push_back(std::move(f));
    return meaning;
  }

  Status end_by_next_token(const FieldSpec& spec, size_t piece, Field& f) const {
    f.end = first_fixed_after(piece);
    if (!f.end) return bad_input("{}: expected fixed text after a value of varying length, got none", where(spec));
    return {};
  }

  Result<FieldMeaning> choice(const FieldSpec& spec, size_t piece, Field& f) {
    const auto& words = std::get<ChoiceSpec>(spec.kind);
    ChoiceMeaning meaning{words.words, std::vector<std::vector<TokenId>>(words.words.size()), words.aliases};
    size_t longest = 0, shortest = SIZE_MAX;
    for (const Probe& probe : probes_) {
      const std::string& word = probe.values[static_cast<size_t>(text_.pieces[piece].field)];
      const auto w = static_cast<size_t>(std::find(words.words.begin(), words.words.end(), word) - words.words.begin());
      std::vector<TokenId> ids = probe.ids[piece];
      if (pads(spec) && ids.back() == *tokens_.null_token) ids.pop_back();
      if (!meaning.ids[w].empty() && meaning.ids[w] != ids)
        return bad_input("{}: expected one spelling of \"{}\" in tokens, got two", where(spec), shown(word));
      // Spelled apart, a word takes more tokens than in the vocabulary that the budget was counted in.
      if (!apart_ && spec.budget > 0 && ids.size() > static_cast<size_t>(spec.budget))
        return bad_input("{}: expected at most {} tokens for \"{}\", got {}", where(spec), spec.budget, shown(word), ids.size());
      longest = std::max(longest, ids.size());
      shortest = std::min(shortest, ids.size());
      meaning.ids[w] = std::move(ids);
    }
    if (!spec.placeholder.empty())
      f.placeholder =
          meaning
              .ids[static_cast<size_t>(std::find(words.words.begin(), words.words.end(), spec.placeholder) - words.words.begin())];
    const bool padded = pads(spec);
    f.budget = static_cast<int32_t>(padded && spec.budget > 0 ? std::max(static_cast<size_t>(spec.budget), longest) : longest);
    f.rules = TokenRules::one_of(meaning.ids, padded ? tokens_.null_token : std::nullopt, f.budget);
    if (!padded && (shortest != longest || spec.end)) SLIP_TRY_(end_by_next_token(spec, piece, f));
    return FieldMeaning(std::move(meaning));
  }

  Result<FieldMeaning> free_text(const FieldSpec& spec, size_t piece, Field& f) {
    SLIP_TRY_(find_placeholder(spec, piece, f));
    f.rules = text_rules_.rules(spec, pads(spec));
    if (spec.separator != 0) f.separators = text_rules_.containing(spec.separator);
    if (!pads(spec)) SLIP_TRY_(end_by_next_token(spec, piece, f));
    return FieldMeaning(TextMeaning{spec.space, spec.placeholder});
  }

  Status find_placeholder(const FieldSpec& spec, size_t piece, Field& f) const {
    if (spec.placeholder.empty()) return {};
    for (const Probe& probe : probes_) {
      if (probe.values[static_cast<size_t>(text_.pieces[piece].field)] != spec.placeholder) continue;
      if (!f.placeholder.empty() && f.placeholder != probe.ids[piece])
        return bad_input("{}: expected one spelling of \"{}\" in tokens, got two", where(spec), shown(spec.placeholder));
      f.placeholder = probe.ids[piece];
    }
    return {};
  }

  Result<FieldMeaning> number(const FieldSpec& spec, size_t piece, Field& f) {
    NumberMeaning meaning{.format = std::get<NumberFormat>(spec.kind)};
    const auto index = static_cast<size_t>(text_.pieces[piece].field);
    const size_t count = probes_[0].ids[piece].size();
    std::vector<size_t> widths;
    for (const TokenId id : probes_[0].ids[piece]) widths.push_back(tokens_.tokenizer->token_bytes(id).size());
    meaning.ids.resize(count);
    for (const Probe& probe : probes_) {
      const std::string& value = probe.values[index];
      const auto& ids = probe.ids[piece];
      if (ids.size() != count)
        return bad_input("{}: expected {} tokens for any number, got {} for \"{}\"", where(spec), count, ids.size(), value);
      size_t at = 0;
      for (size_t i = 0; i < count; ++i) {
        const size_t width = tokens_.tokenizer->token_bytes(ids[i]).size();
        // " +" is one token in Qwen's vocabulary; every other token of a number is one character.
        if (width != widths[i] || width != (i == 0 && value[0] == ' ' && count + 1 == value.size() ? 2u : 1u))
          return bad_input("{}: expected one token per digit, got \"{}\" in \"{}\"", where(spec),
                           tokens_.tokenizer->token_bytes(ids[i]), value);
        at += width;
        const auto [known, added] = meaning.ids[i].try_emplace(value[at - 1], ids[i]);
        if (!added && known->second != ids[i])
          return bad_input("{}: expected one token for '{}' in \"{}\", got two", where(spec), value[at - 1], value);
      }
    }
    // A space that is a token of its own is known beforehand: scaffold.
    if (meaning.format.space && widths[0] == 1) {
      append_fixed(std::span(probes_[0].ids[piece]).first(1), spec.section);
      meaning.ids.erase(meaning.ids.begin());
      meaning.skip = 1;
    }
    f.budget = static_cast<int32_t>(meaning.ids.size());
    std::vector<TokenRules::State> states(meaning.ids.size() + 1);
    for (size_t i = 0; i < meaning.ids.size(); ++i) {
      for (const auto& [c, id] : meaning.ids[i]) states[i].edges.push_back({id, static_cast<int32_t>(i) + 1});
      std::sort(states[i].edges.begin(), states[i].edges.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      states[i].may_end = false;
    }
    f.rules = TokenRules(std::move(states));
    return FieldMeaning(std::move(meaning));
  }

  Result<FieldMeaning> bins(const FieldSpec& spec, const BinsSpec& range, Field& f) const {
    BinsMeaning m{
        .count = range.count, .number = range.number, .descending = range.descending, .low = range.low, .high = range.high};
    SLIP_TRY(m.first, find(range.first, where(spec)));
    SLIP_TRY(m.last, find(range.last, where(spec)));
    if (m.size() != range.ids || range.ids < 2)
      return bad_input("{}: expected {} ids (at least 2) from \"{}\" to \"{}\", got {}", where(spec), range.ids, shown(range.first),
                       shown(range.last), m.size());
    f.budget = std::max(range.count, 1);
    std::vector<TokenId> ids;
    for (int32_t id = m.first.value; id <= m.last.value; ++id) {
      // Text around a word of the vocabulary could merge with it.
      if (text_.layout != Layout::kTokens && !tokens_.tokenizer->is_added({id}))
        return bad_input("{}: expected ids of added tokens from \"{}\" to \"{}\" in a layout of lines, got \"{}\"", where(spec),
                         shown(range.first), shown(range.last), shown(tokens_.tokenizer->token_text({id})));
      ids.push_back({id});
    }
    f.rules = TokenRules::only(std::move(ids));
    return FieldMeaning(m);
  }

  FormText text_;
  std::string name_;
  const FormTokens& tokens_;
  std::vector<Probe> probes_;
  Form::Parts parts_;
  TextRules text_rules_;
  std::vector<std::vector<TokenId>> spelled_;  // of fixed pieces, in a layout of tokens
  bool apart_;
};

}  // namespace

namespace {

/// Llama 2's kind: no text is spelled as it is, and a blank belongs to what follows it.
bool puts_blank_in_front(const Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("x");
  return ids && !ids->empty() && tokenizer.token_bytes(ids->front()).starts_with(' ');
}

/// Anything whose answer is more than enums, budgeted text and fixed numbers in a fixed shape.
bool is_open(const json::value& v) {
  if (const json::array* list = v.if_array())
    return std::any_of(list->begin(), list->end(), [](const json::value& x) { return is_open(x); });
  const json::object* o = v.if_object();
  if (o == nullptr) return false;
  const json::value* required = o->if_contains("required");
  const json::value* properties = o->if_contains("properties");
  if (required && required->is_array() && properties && properties->is_object() &&
      required->get_array().size() < properties->get_object().size())
    return true;
  const json::value* type = o->if_contains("type");
  if (type && (!type->is_string() || type->get_string() == "boolean")) return true;
  return std::any_of(o->begin(), o->end(), [](const auto& m) { return is_open(m.value()); });
}

}  // namespace

Result<CompiledForm> compile_schema(const json::value& schema, std::string_view name, const FormTokens& tokens) {
  SLIP_CHECK(tokens.tokenizer != nullptr, "a form is compiled for a tokenizer");
  if (is_trained_form(schema)) return compile_trained(schema, name, tokens);
  if (!is_open(schema))
    if (Result<CompiledForm> form = compile_trained(schema, name, tokens)) {
      const Status sound = check_schema(schema, name);  // knows contradictions
      return sound || sound.error().kind != ErrorKind::kBadInput ? std::move(form) : Result<CompiledForm>(sound.error());
    }
  return compile_open(schema, name, tokens);
}

Status check_schema(const json::value& schema, std::string_view name) {
  if (const auto typed = read_typed(schema, name); !typed) return typed.error();
  return {};
}

Result<CompiledForm> compile_trained(const json::value& schema, std::string_view name, const FormTokens& tokens) {
  SLIP_TRY(FormText text, read_schema(schema, name));
  return Compiler(std::move(text), name, tokens, puts_blank_in_front(*tokens.tokenizer)).compile();
}

}  // namespace slip
