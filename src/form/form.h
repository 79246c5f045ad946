// SPDX-License-Identifier: Apache-2.0
// A form: the structure of an answer as ids. Fixed tokens (the scaffold) and fields to fill, in order; sections, blocks and the
// field graph. Made from JSON Schema (schema.h), from a built-in (builtin.h), or from ids (tests).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace slip {

class TokenAutomaton;

/// What the content of a field may be: a small deterministic automaton over token ids. State 0 is the start.
/// A state allows either any id but a few, or exactly its listed ids; END and budget are the decoder's business.
class TokenRules {
 public:
  struct Edge {
    TokenId id;
    int32_t next;
  };
  struct State {
    bool any = false;  // every id not in `edges` is allowed and stays in `any_next`
    int32_t any_next = 0;
    std::vector<Edge> edges;      // ascending ids
    std::vector<TokenId> denied;  // ascending; only with any
    bool may_end = true;          // END (where the field has one) is allowed here
  };
  TokenRules() = default;  // anything goes
  explicit TokenRules(std::vector<State> states);
  static TokenRules only(std::vector<TokenId> ids);  // the same set at every index
  /// One of these token sequences; padded with `null` up to `budget` when given.
  static TokenRules one_of(std::span<const std::vector<TokenId>> sequences, std::optional<TokenId> null, int budget);
  /// Texts of a language, in any tokens that spell them; END is among what its states allow.
  explicit TokenRules(std::shared_ptr<const TokenAutomaton> automaton) : automaton_(std::move(automaton)) {}
  const TokenAutomaton* automaton() const { return automaton_.get(); }
  bool unrestricted() const { return states_.empty() && !automaton_; }
  bool may_end(int32_t s) const;  // as State::may_end; true where anything goes
  /// Nothing but END may follow.
  bool complete(int32_t s) const;
  /// The state after `content`; none if it breaks the rules.
  std::optional<int32_t> state_after(std::span<const TokenId> content) const;
  std::optional<int32_t> next(int32_t state, TokenId id) const;  // none: not allowed
  const State& state(int32_t s) const { return states_[static_cast<size_t>(s)]; }
  std::span<const State> states() const { return states_; }
  size_t size() const { return states_.size(); }

 private:
  std::vector<State> states_;
  std::shared_ptr<const TokenAutomaton> automaton_;
};

/// A way on behind a field that may close in several ways: this END closes it, and is the first token of the piece where the form goes on.
/// `at_start`: the END stands in place of a value (an empty array, or a value that is not plain); otherwise it stands behind one.
struct Exit {
  TokenId end;
  int32_t piece = 0;
  bool at_start = false;
};

struct Field {
  std::string name;            // "future_meta_behavior.longitudinal"
  int32_t budget = 0;          // most content tokens; exactly this many where `end` is absent
  std::optional<TokenId> end;  // drawn like a token, never appended
  TokenRules rules;
  std::vector<int32_t> parents;  // field indices
  /// Two or more where the value, or the choice that the field is, says what comes next; ascending by at_start and END. Then `end` is the first of
  /// them, one is always drawn, and it counts as the last place of the budget.
  std::vector<Exit> exits;
  bool closes = false;  // a value that cannot go on closes without drawing END
  int32_t section = 0;
  int32_t start = 0;  // form position of the first content token (budgets reserved)
  /// Tokens of the fixed text before it that go with it (lm/graph_visibility.h): all of them where the field may be absent. Filled by Form::make.
  int32_t hand_off = 1;

  // Fields with several instances work in two stages: an enumeration names what there is, one further field per instance says more.
  std::vector<TokenId> separators;   // of an enumeration, ascending: each one begins a further instance
  std::vector<TokenId> placeholder;  // "N/A": all that an unused instance says, and an enumeration that names nothing
  struct InstanceOf {
    int32_t field = 0;     // the enumeration, a parent or ancestor that stands before this field
    int32_t instance = 0;  // filled when the enumeration names more than this many; otherwise the placeholder is forced
  };
  std::optional<InstanceOf> instance_of;
  /// Of an enumeration: an instance that it does not name is absent, with the fixed text before it, and needs no placeholder.
  bool leaves_out = false;
};

/// Is the token an END of the field in this state of its rules?
bool ends(const Field& field, int32_t state, TokenId token);
/// The exit that a token is, or null.
const Exit* exit_of(const Field& field, TokenId end, bool at_start);
/// The piece that the END at the back of a content leads to (Field::exits), if it is one.
std::optional<int32_t> exit_piece(const Field& field, std::span<const TokenId> content);

/// How many instances an enumeration's content names: 0 if empty or the placeholder, otherwise 1 + its separators.
int32_t instances_in(const Field& enumeration, std::span<const TokenId> content);
class Form;
/// Is the field an instance that the enumeration does not name, as the contents have it? It is forced to its placeholder, or absent.
bool is_unused(const Form& form, std::span<const std::vector<TokenId>> contents, size_t field);
/// Such a field of an enumeration that leaves out: the answer does not hold it.
bool is_absent(const Form& form, std::span<const std::vector<TokenId>> contents, size_t field);

struct Section {
  std::string name;
  int32_t begin = 0, end = 0;  // form positions
};

/// A half-open run of form positions that one draft covers.
struct Block {
  int32_t begin = 0, end = 0;
};

struct FixedRun {
  std::vector<TokenId> ids;
  int32_t section = 0;
};
struct FieldRef {
  int32_t field = 0;
};
using Piece = std::variant<FixedRun, FieldRef>;

/// Immutable once made by `Form::make`, which checks what a decoder relies on: budgets >= 1, parents exist and are acyclic, a
/// fixed token stands directly before every field, sections are contiguous and in order; at most 8 enumerations, an instance's
/// enumeration stands before it and is an ancestor, its placeholder is a value that its rules and budget allow. Where instances may be absent,
/// the fixed text before one and the text behind it begin with the same token, so that a field before them ends by it either way.
class Form {
 public:
  struct Parts {
    std::string name;
    std::vector<Piece> pieces;
    std::vector<Field> fields;  // `start` is filled by make
    std::vector<std::string> section_names;
    int32_t block_size = 32;    // value positions per block
    std::vector<Block> blocks;  // empty: Fast-dDrive's partition; otherwise contiguous and covering 0 .. length
    std::vector<int32_t>
        next;  // per piece the one behind it, always further on; empty: the next in order. Fields with exits go by those.
  };
  /// kBadInput: "form <name>: field <f>: expected a budget of at least 1, got 0", a cycle is named field by field.
  static Result<Form> make(Parts parts);

  const std::string& name() const { return parts_.name; }
  const Parts& parts() const { return parts_; }
  std::span<const Piece> pieces() const { return parts_.pieces; }
  std::span<const Field> fields() const { return parts_.fields; }
  std::span<const Section> sections() const { return sections_; }
  /// Fast-dDrive's inference partition (tests/fixtures/decode, partition.json): contiguous, covers 0 .. length.
  std::span<const Block> blocks() const { return blocks_; }
  int32_t length() const { return static_cast<int32_t>(fixed_.size()); }  // U: form positions, budgets reserved
  /// Tokens of the longest answer: of all ways from the first piece to the last, the one of most tokens. length() where the form has one way.
  int32_t longest() const { return longest_; }
  /// The fixed id at a form position, or nothing where a field's value goes.
  const std::optional<TokenId>& fixed_at(int32_t u) const { return fixed_[static_cast<size_t>(u)]; }
  /// The field that position u belongs to, if it is one's.
  std::optional<int32_t> field_at(int32_t u) const { return field_of_[static_cast<size_t>(u)]; }
  int32_t section_at(int32_t u) const { return section_of_[static_cast<size_t>(u)]; }
  int32_t block_at(int32_t u) const { return block_of_[static_cast<size_t>(u)]; }
  int32_t fixed_tokens() const;
  /// The piece behind a piece (fields with exits: by their END), pieces().size() behind the last; the form position where one begins.
  int32_t next_piece(int32_t piece) const { return parts_.next.empty() ? piece + 1 : parts_.next[static_cast<size_t>(piece)]; }
  int32_t begin_of(int32_t piece) const { return begin_[static_cast<size_t>(piece)]; }
  /// Does the shape of an answer depend on its values?
  bool branches() const { return branches_; }
  /// Has the form instances that an answer may lack? The field that goes with a piece, if it is one.
  bool leaves_out() const { return leaves_out_; }
  std::optional<int32_t> optional_field(int32_t piece) const;
  bool may_be_absent(int32_t field) const;
  /// A fixed token that no such field takes along: a scaffold row under graph visibility.
  bool is_scaffold(int32_t u) const;

 private:
  Status place_pieces();
  Status place_optional();
  Status divide();
  void measure_ways();

  Parts parts_;
  std::vector<Section> sections_;
  std::vector<Block> blocks_;
  std::vector<std::optional<TokenId>> fixed_;
  std::vector<std::optional<int32_t>> field_of_;
  std::vector<int32_t> section_of_, block_of_;
  std::vector<int32_t> begin_;  // per piece, and the length
  int32_t longest_ = 0;
  bool branches_ = false, leaves_out_ = false;
  std::vector<uint8_t> goes_along_;  // by position, where leaves_out_: fixed text that a field takes along
};

}  // namespace slip
