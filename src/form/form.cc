// SPDX-License-Identifier: Apache-2.0
// Form::make: everything that a decoder relies on without looking again is checked here, once. Messages name the form and the
// field. Order of the checks: pieces, fields, rules, graph, sections, blocks.
#include "form/form.h"

#include <algorithm>

#include "form/json_text.h"
#include "form/partition.h"

namespace slip {
namespace {

/// Positions are 32-bit and a form lives in one arena; a million tokens is far beyond any model's context.
constexpr int64_t kMostPositions = 1 << 20;
constexpr size_t kMostEnumerations = 8;  // FastDriveCoT has two

std::string label(const Form::Parts& p, size_t field) {
  return fmt::format("form {}: field {}", p.name,
                     p.fields[field].name.empty() ? std::to_string(field) : shown(p.fields[field].name));
}

/// Pieces name every field once, in the order of `fields`, with a fixed token directly before each.
Status check_pieces(const Form::Parts& p) {
  size_t expected = 0;
  bool fixed_before = false;
  for (const Piece& piece : p.pieces) {
    if (const auto* run = std::get_if<FixedRun>(&piece)) {
      if (run->ids.empty()) return bad_input("form {}: expected fixed runs of at least one token, got an empty one", p.name);
      for (const TokenId id : run->ids)
        if (id.value < 0) return bad_input("form {}: expected fixed tokens of at least 0, got {}", p.name, id.value);
      fixed_before = true;
      continue;
    }
    const int32_t f = std::get<FieldRef>(piece).field;
    if (f < 0 || static_cast<size_t>(f) >= p.fields.size())
      return bad_input("form {}: expected a field below {}, got a piece with field {}", p.name, p.fields.size(), f);
    if (static_cast<size_t>(f) != expected)
      return bad_input("form {}: expected field {} next (fields in the order of the form, each once), got field {}", p.name,
                       expected, f);
    if (!fixed_before) return bad_input("{}: expected a fixed token directly before it, got none", label(p, expected));
    ++expected;
    fixed_before = false;
  }
  if (expected != p.fields.size())
    return bad_input("form {}: expected {} fields in its pieces, got {}", p.name, p.fields.size(), expected);
  if (p.pieces.empty()) return bad_input("form {}: expected at least one piece, got none", p.name);
  return {};
}

/// No content that the rules allow may lead to a place where nothing is allowed, and a full field is a complete one.
Status check_rules(const Form::Parts& p, size_t index) {
  const Field& f = p.fields[index];
  if (f.rules.unrestricted() || f.rules.automaton() != nullptr) return {};  // an automaton's budget is its own
  const size_t n = f.rules.size();
  std::vector<uint8_t> here(n, 0), there(n, 0);
  here[0] = 1;
  for (int32_t depth = 0;; ++depth) {
    std::fill(there.begin(), there.end(), uint8_t{0});
    for (size_t s = 0; s < n; ++s) {
      if (!here[s]) continue;
      const TokenRules::State& state = f.rules.state(static_cast<int32_t>(s));
      if (depth == f.budget - (f.exits.empty() ? 0 : 1)) {
        if (!state.may_end || (!f.exits.empty() && !state.edges.empty()))
          return bad_input("{}: expected complete values within its budget of {}, got one that goes on", label(p, index), f.budget);
        continue;
      }
      const bool can_end = f.end && state.may_end;
      if (!state.any && state.edges.empty() && !can_end)
        return bad_input("{}: expected an allowed token at index {}, got none", label(p, index), depth);
      for (const auto& e : state.edges) there[static_cast<size_t>(e.next)] = 1;
      if (state.any) there[static_cast<size_t>(state.any_next)] = 1;
    }
    const int32_t most = f.budget - (f.exits.empty() ? 0 : 1);
    if (depth == most) return {};
    if (there == here && depth < most - 1) depth = most - 1;  // a fixed point: only the last step differs
    here.swap(there);
  }
}

/// Exits lead to fixed tokens further on that begin with their END.
Status check_exits(const Form::Parts& p, size_t index) {
  const Field& f = p.fields[index];
  if (f.exits.empty()) return {};
  if (f.exits.size() < 2 || !f.end || *f.end != f.exits.front().end)
    return bad_input("{}: expected at least 2 exits, the first its end, got others", label(p, index));
  for (size_t e = 0; e < f.exits.size(); ++e) {
    const Exit& x = f.exits[e];
    if (e > 0 && std::pair{f.exits[e - 1].at_start, f.exits[e - 1].end.value} >= std::pair{x.at_start, x.end.value})
      return bad_input("{}: expected exits in ascending order, got others", label(p, index));
    const auto* run = x.piece >= 0 && static_cast<size_t>(x.piece) < p.pieces.size()
                          ? std::get_if<FixedRun>(&p.pieces[static_cast<size_t>(x.piece)])
                          : nullptr;
    if (run == nullptr || run->ids.empty() || run->ids.front() != x.end)
      return bad_input("{}: expected exits to fixed tokens that begin with their end, got another", label(p, index));
  }
  if (f.exits.back().at_start && f.rules.may_end(0))
    return bad_input("{}: expected no empty value beside exits at its start, got one", label(p, index));
  if (f.rules.unrestricted() || !f.separators.empty() || f.instance_of)
    return bad_input("{}: expected exits on a field with rules that is no enumeration, got others", label(p, index));
  return {};
}

/// Every piece leads further on.
Status check_next(const Form::Parts& p) {
  const auto n = static_cast<int32_t>(p.pieces.size());
  if (!p.next.empty() && p.next.size() != p.pieces.size())
    return bad_input("form {}: expected {} pieces to lead on, got {}", p.name, p.pieces.size(), p.next.size());
  for (int32_t i = 0; i < n; ++i) {
    if (!p.next.empty() && (p.next[static_cast<size_t>(i)] <= i || p.next[static_cast<size_t>(i)] > n))
      return bad_input("form {}: expected piece {} to lead further on, got {}", p.name, i, p.next[static_cast<size_t>(i)]);
    if (const auto* ref = std::get_if<FieldRef>(&p.pieces[static_cast<size_t>(i)]))
      for (const Exit& e : p.fields[static_cast<size_t>(ref->field)].exits)
        if (e.piece <= i || e.piece > n)
          return bad_input("form {}: expected exits further on than piece {}, got {}", p.name, i, e.piece);
  }
  return {};
}

Status check_fields(const Form::Parts& p) {
  for (size_t i = 0; i < p.fields.size(); ++i) {
    const Field& f = p.fields[i];
    if (f.budget < 1) return bad_input("{}: expected a budget of at least 1, got {}", label(p, i), f.budget);
    for (size_t j = 0; j < i; ++j)
      if (!f.name.empty() && p.fields[j].name == f.name)
        return bad_input("{}: expected a name of its own, got one used twice", label(p, i));
    for (const int32_t parent : f.parents)
      if (parent < 0 || static_cast<size_t>(parent) >= p.fields.size())
        return bad_input("{}: expected parents below {}, got {}", label(p, i), p.fields.size(), parent);
    SLIP_TRY_(check_exits(p, i));
    if (f.end && f.end->value < 0) return bad_input("{}: expected an end token of at least 0, got {}", label(p, i), f.end->value);
    SLIP_TRY_(check_rules(p, i));
  }
  return {};
}

/// Repeatedly closes fields whose parents are closed; what is left holds a cycle, which is then walked and named.
Status check_acyclic(const Form::Parts& p) {
  std::vector<uint8_t> closed(p.fields.size(), 0);
  const auto open_parent = [&](size_t f) -> std::optional<int32_t> {
    for (const int32_t parent : p.fields[f].parents)
      if (!closed[static_cast<size_t>(parent)]) return parent;
    return std::nullopt;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t f = 0; f < p.fields.size(); ++f)
      if (!closed[f] && !open_parent(f)) closed[f] = moved = true;
  }
  const auto stuck = std::find(closed.begin(), closed.end(), uint8_t{0});
  if (stuck == closed.end()) return {};
  std::vector<int32_t> walk{static_cast<int32_t>(stuck - closed.begin())};
  while (true) {
    const int32_t parent = *open_parent(static_cast<size_t>(walk.back()));
    const auto seen = std::find(walk.begin(), walk.end(), parent);
    if (seen != walk.end()) {
      walk.erase(walk.begin(), seen);
      break;
    }
    walk.push_back(parent);
  }
  constexpr size_t kNamed = 8;  // a message is a line
  std::string names;
  for (size_t i = 0; i < std::min(kNamed, walk.size()); ++i) names += shown(p.fields[static_cast<size_t>(walk[i])].name) + " <- ";
  if (walk.size() > kNamed) names += fmt::format("{} more <- ", walk.size() - kNamed);
  names += shown(p.fields[static_cast<size_t>(walk.front())].name);
  return bad_input("form {}: expected fields without cycles, got {}", p.name, names);
}

bool is_ancestor(const Form::Parts& p, size_t field, size_t ancestor) {
  std::vector<uint8_t> seen(p.fields.size(), 0);
  std::vector<size_t> open{field};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    for (const int32_t parent : p.fields[at].parents)
      if (!std::exchange(seen[static_cast<size_t>(parent)], uint8_t{1})) open.push_back(static_cast<size_t>(parent));
  }
  return seen[ancestor] != 0;
}

Status check_placeholder(const Form::Parts& p, size_t index) {
  const Field& f = p.fields[index];
  const size_t n = f.placeholder.size();
  const auto budget = static_cast<size_t>(f.budget);
  if (n > budget || (!f.end && n != budget))
    return bad_input("{}: expected a placeholder of {}{} tokens, got {}", label(p, index), f.end ? "at most " : "", budget, n);
  const auto state = f.rules.state_after(f.placeholder);
  if (!state || !(f.rules.unrestricted() || f.rules.state(*state).may_end))
    return bad_input("{}: expected a placeholder that its rules allow, got another", label(p, index));
  for (size_t i = 0; f.end && i < n; ++i) {  // it could not be told from a field that ended there
    if (f.placeholder[i] != *f.end) continue;
    const int32_t before = *f.rules.state_after(std::span(f.placeholder).first(i));
    if (f.rules.unrestricted() || f.rules.state(before).may_end)
      return bad_input("{}: expected a placeholder without the field's end, got {} at {}", label(p, index), f.end->value, i);
  }
  return {};
}

/// Both stages of fields with several instances: what enumerates, and what says more of one instance.
Status check_instances(const Form::Parts& p) {
  size_t enumerations = 0;
  for (size_t i = 0; i < p.fields.size(); ++i) {
    const Field& f = p.fields[i];
    if (!std::is_sorted(f.separators.begin(), f.separators.end()) || (!f.separators.empty() && f.separators.front().value < 0))
      return bad_input("{}: expected separators of at least 0 in ascending order, got others", label(p, i));
    if (!f.separators.empty() && ++enumerations > kMostEnumerations)
      return bad_input("form {}: expected at most {} enumerations, got more", p.name, kMostEnumerations);
    if (f.leaves_out && f.separators.empty())
      return bad_input("{}: expected an enumeration to leave out what it does not name, got another field", label(p, i));
    if (!f.placeholder.empty()) SLIP_TRY_(check_placeholder(p, i));
    if (!f.instance_of) continue;
    const int32_t of = f.instance_of->field;
    const bool absent = of >= 0 && static_cast<size_t>(of) < i && p.fields[static_cast<size_t>(of)].leaves_out;
    if (f.placeholder.empty() && !absent)
      return bad_input("{}: expected a placeholder for an unused instance, got none", label(p, i));
    if (f.instance_of->instance < 0)
      return bad_input("{}: expected an instance of at least 0, got {}", label(p, i), f.instance_of->instance);
    if (of < 0 || static_cast<size_t>(of) >= i || p.fields[static_cast<size_t>(of)].separators.empty())
      return bad_input("{}: expected to be an instance of an enumeration that stands before it, got field {}", label(p, i), of);
    if (!is_ancestor(p, i, static_cast<size_t>(of)))
      return bad_input("{}: expected its enumeration {} among its ancestors, got a graph without that", label(p, i),
                       shown(p.fields[static_cast<size_t>(of)].name));
  }
  return {};
}

Status check_length(const Form::Parts& p) {
  int64_t length = 0;
  for (const Piece& piece : p.pieces)
    length += std::holds_alternative<FixedRun>(piece) ? static_cast<int64_t>(std::get<FixedRun>(piece).ids.size())
                                                      : p.fields[static_cast<size_t>(std::get<FieldRef>(piece).field)].budget;
  if (length <= kMostPositions) return {};
  return unsupported("form {}: expected at most {} positions, got {}", p.name, kMostPositions, length);
}

Status check_blocks(const Form::Parts& p, int32_t length) {
  int32_t at = 0;
  for (const Block& b : p.blocks) {
    if (b.begin != at || b.end <= b.begin)
      return bad_input("form {}: expected a block that begins at {} and is not empty, got [{}, {})", p.name, at, b.begin, b.end);
    at = b.end;
  }
  if (at != length) return bad_input("form {}: expected blocks up to {}, got {}", p.name, length, at);
  return {};
}

}  // namespace

Result<Form> Form::make(Parts parts) {
  SLIP_TRY_(check_pieces(parts));
  SLIP_TRY_(check_fields(parts));
  SLIP_TRY_(check_next(parts));
  SLIP_TRY_(check_acyclic(parts));
  SLIP_TRY_(check_instances(parts));
  if (parts.block_size < 1) return bad_input("form {}: expected a block size of at least 1, got {}", parts.name, parts.block_size);
  if (parts.section_names.empty()) parts.section_names = {"answer"};
  SLIP_TRY_(check_length(parts));
  Form form;
  form.parts_ = std::move(parts);
  SLIP_TRY_(form.place_pieces());
  SLIP_TRY_(form.place_optional());
  SLIP_TRY_(form.divide());
  form.measure_ways();
  return form;
}

/// From the last piece back: what is behind a piece is measured before it.
void Form::measure_ways() {
  const size_t n = parts_.pieces.size();
  std::vector<int32_t> behind(n + 1, 0);
  for (size_t p = n; p-- > 0;) {
    int32_t most = 0;
    const auto* ref = std::get_if<FieldRef>(&parts_.pieces[p]);
    const Field* field = ref ? &parts_.fields[static_cast<size_t>(ref->field)] : nullptr;
    if (!field || field->exits.empty()) most = behind[static_cast<size_t>(next_piece(static_cast<int32_t>(p)))];
    if (field)
      for (const Exit& e : field->exits) most = std::max(most, behind[static_cast<size_t>(e.piece)]);
    behind[p] = begin_[p + 1] - begin_[p] + most;
  }
  longest_ = behind[0];
}

/// Every position's fixed token, field and section.
Status Form::place_pieces() {
  int32_t section_now = 0;
  for (const Piece& piece : parts_.pieces) {
    const auto* run = std::get_if<FixedRun>(&piece);
    const auto f = run ? std::nullopt : std::optional(std::get<FieldRef>(piece).field);
    const int32_t section = run ? run->section : parts_.fields[static_cast<size_t>(*f)].section;
    if (section < section_now || static_cast<size_t>(section) >= parts_.section_names.size())
      return bad_input("form {}: expected sections in order, {} to {}, got {}", parts_.name, section_now,
                       parts_.section_names.size() - 1, section);
    section_now = section;
    begin_.push_back(length());
    if (run) {
      fixed_.insert(fixed_.end(), run->ids.begin(), run->ids.end());
    } else {
      Field& field = parts_.fields[static_cast<size_t>(*f)];
      field.start = length();
      fixed_.resize(fixed_.size() + static_cast<size_t>(field.budget));
    }
    field_of_.resize(fixed_.size(), f);
    section_of_.resize(fixed_.size(), section);
  }
  begin_.push_back(length());
  branches_ = std::any_of(parts_.fields.begin(), parts_.fields.end(), [](const Field& f) { return !f.exits.empty(); });
  return {};
}

/// Hand-offs: the fixed text before a field that may be absent is all its own.
Status Form::place_optional() {
  for (size_t f = 0; f < parts_.fields.size(); ++f) {
    Field& field = parts_.fields[f];
    field.hand_off = 1;
    if (!may_be_absent(static_cast<int32_t>(f))) continue;
    leaves_out_ = true;
    goes_along_.resize(fixed_.size());
    while (fixed_at(field.start - field.hand_off - 1)) ++field.hand_off;  // its enumeration stands before it
    std::fill_n(goes_along_.begin() + field.start - field.hand_off, field.hand_off, uint8_t{1});
    const TokenId first = *fixed_at(field.start - field.hand_off);
    const int32_t behind = field.start + field.budget;
    if (behind == length() || *fixed_at(behind) != first)
      return bad_input(
          "{}: expected the fixed text behind an instance that may be absent to begin like that before it, with {}, got {}",
          label(parts_, f), first.value, behind == length() ? "the end" : std::to_string(fixed_at(behind)->value));
  }
  if (leaves_out_ && (branches_ || !parts_.next.empty()))
    return unsupported("form {}: expected a form of one shape beside instances that may be absent, got exits", parts_.name);
  return {};
}

bool Form::is_scaffold(int32_t u) const {
  return fixed_at(u).has_value() && (goes_along_.empty() || goes_along_[static_cast<size_t>(u)] == 0);
}

bool Form::may_be_absent(int32_t field) const {
  const auto& of = parts_.fields[static_cast<size_t>(field)].instance_of;
  return of && parts_.fields[static_cast<size_t>(of->field)].leaves_out;
}

std::optional<int32_t> Form::optional_field(int32_t piece) const {
  if (!leaves_out_) return std::nullopt;
  for (auto p = static_cast<size_t>(piece); p < parts_.pieces.size(); ++p)
    if (const auto* ref = std::get_if<FieldRef>(&parts_.pieces[p]))
      return may_be_absent(ref->field) ? std::optional(ref->field) : std::nullopt;
  return std::nullopt;
}

/// Sections and blocks as ranges of positions.
Status Form::divide() {
  std::vector<uint8_t> is_value(fixed_.size());
  for (size_t u = 0; u < is_value.size(); ++u) is_value[u] = !fixed_[u];
  std::vector<SectionRange> ranges;
  int32_t at = 0;
  for (size_t s = 0; s < parts_.section_names.size(); ++s) {
    const int32_t begin = at;
    while (at < length() && section_of_[static_cast<size_t>(at)] == static_cast<int32_t>(s)) ++at;
    ranges.push_back({begin, at});
    sections_.push_back({parts_.section_names[s], begin, at});
  }
  if (parts_.blocks.empty()) {
    blocks_ = blocks_of_ids(partition_ids(is_value, ranges, parts_.block_size));
  } else {
    SLIP_TRY_(check_blocks(parts_, length()));
    blocks_ = parts_.blocks;
  }
  block_of_.resize(fixed_.size());
  for (size_t b = 0; b < blocks_.size(); ++b)
    for (int32_t u = blocks_[b].begin; u < blocks_[b].end; ++u) block_of_[static_cast<size_t>(u)] = static_cast<int32_t>(b);
  return {};
}

bool ends(const Field& field, int32_t state, TokenId token) {
  if (!field.end) return false;
  if (field.exits.empty()) return token == *field.end && field.rules.may_end(state);
  return (state == 0 && exit_of(field, token, true) != nullptr) ||
         (field.rules.may_end(state) && exit_of(field, token, false) != nullptr);
}

const Exit* exit_of(const Field& field, TokenId end, bool at_start) {
  for (const Exit& e : field.exits)
    if (e.end == end && e.at_start == at_start) return &e;
  return nullptr;
}

std::optional<int32_t> exit_piece(const Field& field, std::span<const TokenId> content) {
  if (content.empty()) return std::nullopt;
  const Exit* e = content.size() == 1 ? exit_of(field, content.back(), true) : nullptr;
  if (e == nullptr) e = exit_of(field, content.back(), false);
  return e ? std::optional(e->piece) : std::nullopt;
}

int32_t instances_in(const Field& enumeration, std::span<const TokenId> content) {
  if (content.empty() || std::equal(content.begin(), content.end(), enumeration.placeholder.begin(), enumeration.placeholder.end()))
    return 0;
  const auto& s = enumeration.separators;
  return 1 + static_cast<int32_t>(std::count_if(content.begin(), content.end(),
                                                [&](TokenId id) { return std::binary_search(s.begin(), s.end(), id); }));
}

bool is_unused(const Form& form, std::span<const std::vector<TokenId>> contents, size_t field) {
  const auto& of = form.fields()[field].instance_of;
  if (!of) return false;
  const auto e = static_cast<size_t>(of->field);
  return instances_in(form.fields()[e], contents[e]) <= of->instance;
}

bool is_absent(const Form& form, std::span<const std::vector<TokenId>> contents, size_t field) {
  return form.may_be_absent(static_cast<int32_t>(field)) && is_unused(form, contents, field);
}

int32_t Form::fixed_tokens() const {
  return static_cast<int32_t>(std::count_if(fixed_.begin(), fixed_.end(), [](const auto& id) { return id.has_value(); }));
}

}  // namespace slip
