// SPDX-License-Identifier: Apache-2.0
// Shape -> pieces. The texts that may stand behind a value are tokenised and put into a tree; where they all agree the tokens are fixed,
// where they part the value's END says which one follows, and further on a field of its own that is nothing but such an END. The last
// token before a value is a piece by itself, shared by all that lead to it: the value's hand-off row along a graph.
// Tokens are cut where values begin and end: what a value may hold must not depend on what the tokenizer would merge it with.
#include "form/schema/typed/open_form.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>

#include "base/check.h"
#include "form/automaton/token_automaton.h"
#include "form/json_text.h"
#include "form/schema/typed/shape.h"
#include "form/schema/typed/way_texts.h"

namespace slip {
namespace {

constexpr size_t kMostPieces = 32768;
constexpr int64_t kMostFixed = 32768;                 // all alternatives together
constexpr double kWarmMs = 20;                        // of a form's masks, made while it is compiled
constexpr std::chrono::milliseconds kMostStarts{10};  // and of those with which its values begin

using Ids = std::vector<TokenId>;
using Tree = TokenTree;

class OpenCompiler {
 public:
  OpenCompiler(Shape shape, std::string_view name, const FormTokens& tokens, int32_t usual_tokens)
      : shape_(std::move(shape)),
        name_(name),
        tokens_(tokens),
        usual_tokens_(usual_tokens),
        trie_(tokens.tokenizer->trie()),
        texts_(shape_, name_, *tokens.tokenizer) {}
  OpenCompiler(const OpenCompiler&) = delete;  // its texts look at its shape
  OpenCompiler& operator=(const OpenCompiler&) = delete;
  ~OpenCompiler() = default;

  /// Did it fail for its size, in these tokens?
  bool too_large() const { return too_large_; }

  Result<CompiledForm> compile() {
    SLIP_TRY_(texts_.start());
    entry_piece_.assign(shape_.slots.size(), -1);
    SLIP_TRY_(behind(-1));
    for (size_t s = 0; s < shape_.slots.size(); ++s) {
      section_ = shape_.slots[s].section;
      entry_piece_[s] = piece(FixedRun{{texts_.entry(static_cast<int32_t>(s))}, section_});
      parts_.next.back() = entry_piece_[s] + 1;
      const int32_t ref = piece(FieldRef{static_cast<int32_t>(parts_.fields.size())});
      parts_.next[static_cast<size_t>(ref)] = ref + 1;
      SLIP_TRY_(value(static_cast<int32_t>(s)));
    }
    SLIP_TRY_(join());
    int64_t fixed = 0;
    for (const Piece& p : parts_.pieces)
      if (const auto* run = std::get_if<FixedRun>(&p)) fixed += static_cast<int64_t>(run->ids.size());
    too_large_ = fixed > kMostFixed;
    if (too_large_) return unsupported("form {}: expected at most {} tokens of fixed text, got {}", name_, kMostFixed, fixed);
    parts_.name = name_;
    parts_.section_names = shape_.section_names;
    parts_.block_size = shape_.block_size;
    CompiledForm out;
    out.null_token = tokens_.null_token;
    out.meanings = std::move(meanings_);
    auto form = Form::make(std::move(parts_));
    too_large_ = !form && form.error().kind == ErrorKind::kUnsupported;  // of positions; a cycle is no question of tokens
    if (!form) return form.error();
    out.form = std::move(*form);
    return out;
  }

 private:
  std::string where(const Slot& s) const { return fmt::format("form {}: {}", name_, s.node->pointer); }

  // ---- pieces

  int32_t piece(Piece p) {
    parts_.pieces.push_back(std::move(p));
    parts_.next.push_back(-1);
    return static_cast<int32_t>(parts_.pieces.size()) - 1;
  }
  /// Where a piece leads to, known once all slots have their places.
  void leads(int32_t piece, int32_t leaf) { open_.push_back({piece, -1, -1, leaf}); }

  /// What follows slot `s`, or the start: its exits or its END, then pieces.
  Status behind(int32_t s) {
    SLIP_TRY(const Tree whole, texts_.behind(s));
    if (s >= 0) {
      const auto field = static_cast<int32_t>(parts_.fields.size()) - 1;
      if (whole.nodes[0].below.size() > 1) return exits(whole, 0, field);
      SLIP_TRY_(run(whole, 0, field));
      return {};
    }
    SLIP_TRY_(run(whole, 0, -1));
    return {};
  }

  /// A field that is an END and nothing else.
  Status choice(const Tree& tree, int32_t node, int32_t before) {
    Field f;
    f.name = fmt::format("choice({})", ++choices_);
    while (fields_by_name_.contains(f.name)) f.name += "'";
    f.budget = 1;
    f.rules = TokenRules(std::vector<TokenRules::State>(1));
    f.section = section_;
    if (before >= 0) f.parents = {before};
    fields_by_name_.insert(f.name);
    meanings_.push_back(JsonMeaning{.choice = true});
    slot_of_.push_back(-1);
    parts_.fields.push_back(std::move(f));
    return exits(tree, node, static_cast<int32_t>(parts_.fields.size()) - 1);
  }

  Status exits(const Tree& tree, int32_t node, int32_t field) {
    parts_.next.back() = static_cast<int32_t>(parts_.pieces.size());  // of the field's piece; its exits count
    auto& f = parts_.fields[static_cast<size_t>(field)];
    f.closes = false;
    for (const auto& [id, below] : tree.nodes[static_cast<size_t>(node)].below) f.exits.push_back({id, -1});
    f.end = f.exits.front().end;
    const auto& below = tree.nodes[static_cast<size_t>(node)].below;
    for (size_t e = 0; e < below.size(); ++e) {
      SLIP_TRY(const Begin begin, run(tree, node, field, below[e]));
      if (begin.piece >= 0)
        parts_.fields[static_cast<size_t>(field)].exits[e].piece = begin.piece;
      else
        open_.push_back({-1, field, static_cast<int32_t>(e), begin.leaf});
    }
    return {};
  }

  /// Where a run of fixed tokens begins: a piece, or, where it has none of its own, the slot that it leads to.
  struct Begin {
    int32_t piece = -1, leaf = Shape::kEnd;
  };

  /// Fixed tokens from a node on, along `first` where given, up to where the tree parts or a slot begins.
  Result<Begin> run(const Tree& tree, int32_t node, int32_t field,
                    std::optional<std::pair<TokenId, int32_t>> first = std::nullopt) {
    Ids ids;
    int32_t at = node;
    if (first) ids.push_back(first->first), at = first->second;
    const auto& n = [&]() -> const Tree::Node& { return tree.nodes[static_cast<size_t>(at)]; };
    while (n().below.size() == 1 && !n().leaf) {
      ids.push_back(n().below.front().first);
      at = n().below.front().second;
    }
    const std::optional<int32_t> leaf = n().leaf;
    if (leaf && !n().below.empty()) SLIP_TRY_(starts_otherwise(tree, at, *leaf));
    if (leaf && *leaf >= 0) ids.pop_back();  // the slot's entry
    too_large_ = parts_.pieces.size() > kMostPieces;
    if (too_large_) return unsupported("form {}: expected at most {} pieces, got more", name_, kMostPieces);
    if (ids.empty()) {
      SLIP_CHECK(leaf, "a form does not begin where its ways part");
      if (!first && field >= 0) open_.push_back({static_cast<int32_t>(parts_.pieces.size()) - 1, -1, -1, *leaf});
      from_[*leaf].push_back(field);
      return Begin{-1, *leaf};
    }
    const int32_t p = piece(FixedRun{std::move(ids), section_});
    if (leaf) {
      leads(p, *leaf);
      from_[*leaf].push_back(field);
      return Begin{p};
    }
    parts_.next[static_cast<size_t>(p)] = p + 1;
    piece(FieldRef{static_cast<int32_t>(parts_.fields.size())});
    SLIP_TRY_(choice(tree, at, field));
    return Begin{p};
  }

  /// Where a value may stand, other text may stand too: the value's field leads there by an END at its start.
  Status starts_otherwise(const Tree& tree, int32_t node, int32_t leaf) {
    if (leaf < 0)
      return unsupported("{}: expected alternatives that end alike, got others",
                         where_before(static_cast<int32_t>(parts_.pieces.size()) - 1));
    const Slot& slot = shape_.slots[static_cast<size_t>(leaf)];
    const auto known = starts_.find(leaf);
    if (slot.node->quoted || (known != starts_.end() && !same(known->second.first, known->second.second, tree, node)))
      return unsupported("{}: expected alternatives that differ before their first free value, got two that begin alike",
                         where(slot));
    if (known == starts_.end()) starts_.emplace(leaf, std::pair{tree, node});
    ++starts_seen_[leaf];
    return {};
  }

  /// Do two trees hold the same behind these nodes?
  static bool same(const Tree& a, int32_t m, const Tree& b, int32_t n) {
    const Tree::Node& x = a.nodes[static_cast<size_t>(m)];
    const Tree::Node& y = b.nodes[static_cast<size_t>(n)];
    if (x.leaf != y.leaf || x.below.size() != y.below.size()) return false;
    for (size_t i = 0; i < x.below.size(); ++i)
      if (x.below[i].first != y.below[i].first || !same(a, x.below[i].second, b, y.below[i].second)) return false;
    return true;
  }

  /// The exits at the start of slot `s`'s field, behind those at its end.
  Status start_exits(int32_t s, int32_t field) {
    const auto [tree, node] = starts_.at(s);
    if (starts_seen_.at(s) != static_cast<int32_t>(from_[s].size()))  // some ways lead to the value alone
      return unsupported("{}: expected alternatives that differ before their first free value, got two that begin alike",
                         where(shape_.slots[static_cast<size_t>(s)]));
    const auto below = tree.nodes[static_cast<size_t>(node)].below;
    if (parts_.fields[static_cast<size_t>(field)].exits.empty()) {  // its one END is an exit now
      SLIP_TRY(const TokenId end, texts_.first_behind(s));
      const int32_t ref = entry_piece_[static_cast<size_t>(s)] + 1;
      parts_.fields[static_cast<size_t>(field)].exits.push_back({end, parts_.next[static_cast<size_t>(ref)]});
      for (Open& o : open_)
        if (o.piece == ref) o = {-1, field, 0, o.leaf};
      parts_.next[static_cast<size_t>(ref)] = ref + 1;
    }
    for (const auto& first : below) {
      auto& exits = parts_.fields[static_cast<size_t>(field)].exits;
      const size_t e = exits.size();
      exits.push_back({first.first, -1, true});
      SLIP_TRY(const Begin begin, run(tree, node, field, first));
      if (begin.piece >= 0)
        parts_.fields[static_cast<size_t>(field)].exits[e].piece = begin.piece;
      else
        open_.push_back({-1, field, static_cast<int32_t>(e), begin.leaf});
    }
    Field& f = parts_.fields[static_cast<size_t>(field)];
    f.end = f.exits.front().end;
    f.closes = false;
    return {};
  }

  // ---- values

  Status value(int32_t s) {
    const Slot& slot = shape_.slots[static_cast<size_t>(s)];
    const auto index = parts_.fields.size();
    Field f;
    f.name = slot.name;
    while (fields_by_name_.contains(f.name)) f.name += "'";
    fields_by_name_.insert(f.name);
    f.section = slot.section;
    f.closes = true;
    for (const int32_t p : from_[s])
      if (p >= 0 && std::find(f.parents.begin(), f.parents.end(), p) == f.parents.end()) f.parents.push_back(p);
    parts_.fields.push_back(std::move(f));
    meanings_.push_back(JsonMeaning{.quoted = slot.node->quoted, .space = slot.space});
    slot_of_.push_back(s);
    SLIP_TRY_(behind(s));
    if (starts_.contains(s)) SLIP_TRY_(start_exits(s, static_cast<int32_t>(index)));
    Field& made = parts_.fields[index];
    if (made.exits.empty()) {  // the first token of what follows
      SLIP_TRY(const TokenId end, texts_.first_behind(s));
      made.end = end;
    }
    Ids ends, start;
    for (const Exit& e : made.exits) (e.at_start ? start : ends).push_back(e.end);
    if (made.exits.empty()) ends.push_back(*made.end);
    return slot.node->words.empty() ? language(slot, ends, start, made)
                                    : words(slot, ends, made, std::get<JsonMeaning>(meanings_[index]));
  }

  Status words(const Slot& slot, const Ids& ends, Field& f, JsonMeaning& meaning) {
    std::vector<Ids> all;
    size_t longest = 0;
    for (const std::string& w : slot.node->words) {
      SLIP_TRY(Ids ids, texts_.encode(slot.space ? " " + w : w));
      longest = std::max(longest, ids.size());
      too_large_ = slot.node->budget > 0 && ids.size() > static_cast<size_t>(slot.node->budget);
      if (too_large_)
        return bad_input("{}: expected at most {} tokens for \"{}\", got {}", where(slot), slot.node->budget, shown(w), ids.size());
      meaning.words.emplace_back(w, ids);
      all.push_back(std::move(ids));
    }
    meaning.aliases = slot.node->aliases;
    f.rules = TokenRules::one_of(all, std::nullopt, static_cast<int>(longest));
    f.budget = static_cast<int32_t>(longest) + (f.exits.empty() ? 0 : 1);
    for (const Exit& x : f.exits)
      if (x.at_start && (f.rules.may_end(0) || f.rules.next(0, x.end)))
        return unsupported("{}: expected what may stand in its place to begin otherwise than its values, got \"{}\" before both",
                           where(slot), shown(tokens_.tokenizer->token_bytes(x.end)));
    for (const auto& state : f.rules.states())
      for (const auto& e : state.edges)
        if (state.may_end && std::find(ends.begin(), ends.end(), e.id) != ends.end())
          return unsupported("{}: expected values that do not go on with what follows them, got \"{}\"", where(slot),
                             shown(tokens_.tokenizer->token_bytes(e.id)));
    return {};
  }

  /// One for all values of a language, so that they share what is found out about it.
  Result<std::shared_ptr<const TokenLanguage>> over_tokens(const Slot& slot) {
    std::shared_ptr<const TokenLanguage>& made = languages_[{slot.node->language.get(), slot.space}];
    if (made) return made;
    ByteDfa d = *slot.node->language;
    if (slot.space) {
      SLIP_TRY(ByteDfa space, ByteDfa::literal(" "));
      const std::vector<ByteDfa> both{std::move(space), std::move(d)};
      SLIP_TRY(d, ByteDfa::concat(both));
    }
    return made = std::make_shared<const TokenLanguage>(std::move(d), trie_, tokens_.vocab);
  }

  Status language(const Slot& slot, const Ids& ends, const Ids& start, Field& f) {
    SLIP_TRY(const std::shared_ptr<const TokenLanguage> shared, over_tokens(slot));
    const ByteDfa& d = shared->dfa();
    for (const TokenId end : start)
      if (trie_->bytes(end).empty() || d.accepts(0) || d.after(0, trie_->bytes(end)) >= 0)
        return unsupported("{}: expected what may stand in its place to begin otherwise than its values, got \"{}\" before both",
                           where(slot), shown(trie_->bytes(end)));
    for (const TokenId end : ends) {
      const std::string_view bytes = trie_->bytes(end);
      for (int32_t q = 0; q < static_cast<int32_t>(d.size()); ++q)
        if (bytes.empty() || (d.accepts(q) && d.after(q, bytes) >= 0))
          return unsupported("{}: expected values that do not go on with what follows them, got \"{}\"", where(slot), shown(bytes));
    }
    const int32_t shortest = d.distances(trie_->single_bytes())[0];
    const auto longest = d.longest();
    int32_t budget = slot.node->budget;
    if (budget == 0)
      budget = longest && *longest <= usual_tokens_ ? static_cast<int32_t>(std::max<int64_t>(*longest, 1)) : usual_tokens_;
    if (slot.node->budget == 0 && shortest < ByteDfa::kFar) budget = std::max(budget, shortest + shortest / 2);
    auto automaton = TokenAutomaton::make(shared, ends, start, budget);
    too_large_ = !automaton;
    if (!automaton) return Error{automaton.error().kind, fmt::format("{}: {}", where(slot), automaton.error().message)};
    f.budget = budget + (f.exits.empty() ? 0 : 1);
    f.rules = TokenRules(std::move(*automaton));
    return {};
  }

  // ---- joints

  /// Every piece and exit gets the place that it leads to; every field its parents.
  Status join() {
    const auto end = static_cast<int32_t>(parts_.pieces.size());
    const auto place = [&](int32_t leaf) { return leaf < 0 ? end : entry_piece_[static_cast<size_t>(leaf)]; };
    for (const Open& o : open_) {
      if (o.piece >= 0)
        parts_.next[static_cast<size_t>(o.piece)] = place(o.leaf);
      else
        parts_.fields[static_cast<size_t>(o.field)].exits[static_cast<size_t>(o.exit)].piece = place(o.leaf);
    }
    SLIP_CHECK(std::none_of(parts_.next.begin(), parts_.next.end(), [](int32_t n) { return n < 0; }), "every piece leads on");
    for (int32_t i = 0; i < end; ++i) {
      const auto* ref = std::get_if<FieldRef>(&parts_.pieces[static_cast<size_t>(i)]);
      const auto back = [&](const Exit& e) { return e.piece <= i; };
      if (parts_.next[static_cast<size_t>(i)] <= i ||
          (ref && std::any_of(parts_.fields[static_cast<size_t>(ref->field)].exits.begin(),
                              parts_.fields[static_cast<size_t>(ref->field)].exits.end(), back)))
        return unsupported("{}: expected alternatives whose values stand in one order, got others", where_before(i));
    }
    return shape_.any_parents ? name_parents() : Status();
  }

  /// The value at a piece, or the last one before it: what a message points to.
  std::string where_before(int32_t piece) const {
    for (; piece >= 0; --piece)
      if (const auto* ref = std::get_if<FieldRef>(&parts_.pieces[static_cast<size_t>(piece)]))
        if (const int32_t s = slot_of_[static_cast<size_t>(ref->field)]; s >= 0) return where(shape_.slots[static_cast<size_t>(s)]);
    return fmt::format("form {}: #", name_);
  }

  /// x-parents by name, and the choices that say whether a value is there at all.
  Status name_parents() {
    for (size_t i = 0; i < parts_.fields.size(); ++i) {
      if (slot_of_[i] < 0) continue;  // a choice comes behind what it follows
      const Slot& slot = shape_.slots[static_cast<size_t>(slot_of_[i])];
      std::vector<int32_t> named;
      for (const int32_t c : choices_before(static_cast<int32_t>(i))) named.push_back(c);
      for (const std::string& name : slot.parents.value_or(std::vector<std::string>{})) {
        bool found = false;
        for (size_t j = 0; j < parts_.fields.size(); ++j) {
          const std::string& other = parts_.fields[j].name;
          if (j == i || slot_of_[j] < 0 || (other != name && !other.starts_with(name + ".") && !other.starts_with(name + "(")))
            continue;
          found = true;
          if (std::find(named.begin(), named.end(), static_cast<int32_t>(j)) == named.end())
            named.push_back(static_cast<int32_t>(j));
        }
        if (!found) return bad_input("{}: expected names of fields in x-parents, got '{}'", where(slot), shown(name));
      }
      parts_.fields[i].parents = std::move(named);
    }
    return {};
  }

  /// The nearest fields with exits on all ways to a field.
  std::vector<int32_t> choices_before(int32_t field) const {
    std::vector<int32_t> out, open{field};
    std::set<int32_t> seen;
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      const int32_t slot = slot_of_[static_cast<size_t>(at)];
      const auto from = slot < 0               ? parts_.fields[static_cast<size_t>(at)].parents
                        : from_.contains(slot) ? from_.at(slot)
                                               : std::vector<int32_t>{};
      for (const int32_t p : from) {
        if (p < 0 || !seen.insert(p).second) continue;
        if (parts_.fields[static_cast<size_t>(p)].exits.empty())
          open.push_back(p);
        else
          out.push_back(p);
      }
    }
    return out;
  }

  struct Open {
    int32_t piece, field, exit, leaf;
  };

  Shape shape_;
  std::string name_;
  const FormTokens& tokens_;
  const int32_t usual_tokens_;
  std::shared_ptr<const TokenTrie> trie_;
  WayTexts texts_;
  Form::Parts parts_;
  std::vector<FieldMeaning> meanings_;
  std::map<std::pair<const ByteDfa*, bool>, std::shared_ptr<const TokenLanguage>> languages_;  // with a blank in front, without
  std::vector<int32_t> slot_of_;                                                               // by field: -1 for a choice
  std::vector<int32_t> entry_piece_;                                                           // by slot
  std::vector<Open> open_;                              // what leads to a slot, or to the end
  std::map<int32_t, std::vector<int32_t>> from_;        // by slot: fields that stand directly before it, -1 for the start
  std::map<int32_t, std::pair<Tree, int32_t>> starts_;  // by slot: what may stand in place of its value
  std::map<int32_t, int32_t> starts_seen_;              // ways on which that was met
  std::set<std::string> fields_by_name_;
  int32_t section_ = 0, choices_ = 0;
  bool too_large_ = false;
};

}  // namespace

namespace {

/// With the alternatives of every choice the other way round.
TypedPtr turned(const TypedPtr& node) {
  if (!node) return node;
  TypedNode n = *node;
  for (auto& m : n.members) m.node = turned(m.node);
  for (TypedPtr& p : n.prefix) p = turned(p);
  n.item = turned(n.item);
  for (TypedPtr& a : n.alternatives) a = turned(a);
  std::reverse(n.alternatives.begin(), n.alternatives.end());
  return std::make_shared<const TypedNode>(std::move(n));
}

/// `too_large`: whether a form failed, or one of several tries did, for its size.
Result<CompiledForm> compiled_with(const json::value& schema, std::string_view name, const FormTokens& tokens,
                                   const UsualSizes& usual, bool* too_large = nullptr) {
  bool large = false;
  SLIP_TRY(const TypedSchema typed, read_typed(schema, name, usual));
  const auto compiled = [&](const TypedSchema& s, bool space_fixed) -> Result<CompiledForm> {
    auto shape = shape_of(s, name, space_fixed);
    large = large || !shape;  // its errors are sizes, but for a root, which is the same each time
    if (!shape) return shape.error();
    OpenCompiler compiler(std::move(*shape), name, tokens, usual.tokens);
    auto form = compiler.compile();
    large = large || compiler.too_large();
    return form;
  };
  auto form_or = compiled(typed, false);
  if (too_large) *too_large = large;
  if (!form_or && large) return form_or;
  const auto again = [&](const TypedSchema& s, bool space_fixed) {
    if (!form_or && form_or.error().kind == ErrorKind::kUnsupported)
      if (auto other = compiled(s, space_fixed)) form_or = std::move(other);
  };
  again(typed, true);
  if (!form_or) {  // a value may have to stand before what may stand in its place
    TypedSchema other = typed;
    other.root = turned(typed.root);
    for (const bool space_fixed : {false, true}) again(other, space_fixed);
  }
  if (too_large) *too_large = large;
  return form_or;
}

/// Makes masks ahead: those that every answer begins its values with, then others while there is time; how values go on only some ask.
void warm(const Form& form) {
  double left = kWarmMs;
  const auto start = std::chrono::steady_clock::now();
  for (const Field& f : form.fields())
    if (const TokenAutomaton* a = f.rules.automaton(); a && std::chrono::steady_clock::now() - start < kMostStarts) a->mask(0);
  for (const Field& f : form.fields())
    if (const TokenAutomaton* a = f.rules.automaton(); a && left > 0) {
      const auto begin = std::chrono::steady_clock::now();
      a->warm(left);
      left -= std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
}

}  // namespace

Status try_in_bytes(const json::value& schema, std::string_view name) {
  static const Tokenizer kBytes = Tokenizer::of_bytes();
  bool too_large = false;
  const auto form = compiled_with(schema, name, {&kBytes, std::nullopt, kBytes.size()}, kLeastSizes, &too_large);
  return form || too_large ? Status() : Status(form.error());
}

/// Lists of lists of texts, each as long as is usual, soon have a longest answer beyond the model's positions, and lists of lists of lists more
/// ways side by side than are followed. Then less is usual.
Result<CompiledForm> compile_open(const json::value& schema, std::string_view name, const FormTokens& tokens) {
  const int64_t room = int64_t{tokens.positions} * 3 / 4;  // the rest is the prompt's
  const auto fits = [&](const CompiledForm& f) {
    return tokens.positions <= 0 || (tokens.graph ? f.form.length() : f.form.longest()) <= room;
  };
  auto form_or = compiled_with(schema, name, tokens, {});
  const bool too_large = form_or ? !fits(*form_or) : form_or.error().message.find(kTooManyWays) != std::string::npos;
  if (too_large)
    for (const UsualSizes& less : kLessUsual)
      if (auto other = compiled_with(schema, name, tokens, less); other && fits(*other)) {
        form_or = std::move(other);
        break;
      }
  if (form_or) warm(form_or->form);
  return form_or;
}

}  // namespace slip
