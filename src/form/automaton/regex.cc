// SPDX-License-Identifier: Apache-2.0
// Read by recursive descent straight into an automaton. `^` and `$` are edges for markers that stand around every text, so that they
// may stand anywhere: a text w is found when marker w marker is, with anything allowed before and behind the pattern. Repetitions are
// written out: the automaton's bound is theirs.
#include "form/automaton/regex.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "form/automaton/characters.h"

namespace slip {
namespace {

constexpr int kDeepest = 100;
constexpr int64_t kMostRepeats = 4096;

const Characters kDigits{{'0', '9'}};
const Characters kWords{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
// ECMA-262 WhiteSpace and LineTerminator
const Characters kSpaces{{9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                         {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Characters kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Reader {
 public:
  Reader(std::string_view pattern, bool json) : p_(pattern), json_(json) {}

  Result<ByteDfa> read() {
    SLIP_TRY(const auto body, alternatives(0));
    if (at_ < p_.size()) return refused("')'");
    Fragments around{anything(), body, anything()};
    const auto all = nfa_.concat(around);
    return ByteDfa::of(nfa_, all, true);
  }

 private:
  using Fragment = ByteNfa::Fragment;
  using Fragments = std::vector<Fragment>;

  Error refused(std::string_view got) const { return bad_input("expected a regular expression, got {} at character {}", got, at_); }
  Error not_done(std::string_view what) const {
    return unsupported("expected a regular expression without {}, got one at character {}", what, at_);
  }
  bool take(std::string_view s) {
    if (!p_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  bool more() const { return at_ < p_.size(); }
  char peek() const { return more() ? p_[at_] : '\0'; }

  /// Any text with its markers: what an unanchored pattern may have around it.
  Fragment anything() {
    Fragments one{one_of(nfa_, Characters::all(), json_), nfa_.marker(ByteNfa::kBegin), nfa_.marker(ByteNfa::kEnd)};
    return nfa_.star(nfa_.either(one));
  }

  Result<Fragment> alternatives(int depth) {
    if (depth > kDeepest) return unsupported("expected at most {} groups in each other, got more", kDeepest);
    Fragments all;
    do {
      SLIP_TRY(const Fragment one, sequence(depth));
      all.push_back(one);
    } while (take("|"));
    return nfa_.either(all);
  }

  Result<Fragment> sequence(int depth) {
    Fragments parts;
    while (more() && peek() != '|' && peek() != ')') {
      const size_t begin = at_;
      SLIP_TRY(const Fragment first, atom(depth));
      SLIP_TRY(const Fragment part, repeated(first, begin, depth));
      parts.push_back(part);
      SLIP_TRY_(nfa_.fits());
    }
    return nfa_.concat(parts);
  }

  Result<int64_t> number() {
    int64_t n = 0;
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9' && n <= kMostRepeats) n = 10 * n + (p_[at_++] - '0');
    if (at_ == begin) return refused("a repetition without a number");
    if (n > kMostRepeats) return unsupported("expected at most {} repetitions, got more", kMostRepeats);
    return n;
  }

  Result<Fragment> repeated(Fragment first, size_t begin, int depth) {
    int64_t least = 1, most = 1;
    if (take("*")) {
      least = 0, most = -1;
    } else if (take("+")) {
      least = 1, most = -1;
    } else if (take("?")) {
      least = 0, most = 1;
    } else if (counted()) {
      ++at_;
      SLIP_TRY(least, number());
      most = least;
      if (take(",")) {
        most = -1;
        if (peek() != '}') {
          SLIP_TRY(most, number());
        }
      }
      if (!take("}")) return refused("a repetition without '}'");
      if (most >= 0 && most < least) return refused("a repetition whose bounds are the wrong way round");
    } else {
      return first;
    }
    if (p_[begin] == '^' || p_[begin] == '$') return refused("a repetition of a border");
    take("?");  // greedy or not: the same language
    if (peek() == '*' || peek() == '+' || peek() == '?' || counted()) return refused("a repetition of a repetition");
    return copies(first, begin, depth, least, most);
  }

  /// `{3`: the beginning of a repetition; a brace before anything else is a character.
  bool counted() const { return peek() == '{' && at_ + 1 < p_.size() && p_[at_ + 1] >= '0' && p_[at_ + 1] <= '9'; }

  /// The atom at `begin` is read anew for each copy; nothing of it is shared.
  Result<Fragment> copies(Fragment first, size_t begin, int depth, int64_t least, int64_t most) {
    const size_t after = at_;
    bool used = false;
    const auto copy = [&]() -> Result<Fragment> {
      if (!std::exchange(used, true)) return first;
      at_ = begin;
      auto f = atom(depth);
      at_ = after;
      if (f) SLIP_TRY_(nfa_.fits());
      return f;
    };
    Fragments parts;
    for (int64_t i = 0; i < least; ++i) {
      SLIP_TRY(const Fragment f, copy());
      parts.push_back(f);
    }
    if (most < 0) {
      SLIP_TRY(const Fragment f, copy());
      parts.push_back(nfa_.star(f));
    } else {
      std::optional<Fragment> rest;  // (x(x(x)?)?)?: one way to each number
      for (int64_t i = least; i < most; ++i) {
        SLIP_TRY(const Fragment f, copy());
        const Fragments both{f, rest.value_or(nfa_.empty())};
        rest = nfa_.optional(nfa_.concat(both));
      }
      if (rest) parts.push_back(*rest);
    }
    return nfa_.concat(parts);
  }

  Result<Fragment> atom(int depth) {
    if (take("^")) return nfa_.marker(ByteNfa::kBegin);
    if (take("$")) return nfa_.marker(ByteNfa::kEnd);
    if (take(".")) return one_of(nfa_, kLineEnds.inverse(), json_);
    if (peek() == '(') return group(depth);
    if (take("[")) {
      SLIP_TRY(const Characters set, characters());
      return one_of(nfa_, set, json_);
    }
    if (peek() == '*' || peek() == '+' || peek() == '?') return refused("a repetition of nothing");
    if (take("\\")) {
      SLIP_TRY(const Characters set, escape(false));
      return one_of(nfa_, set, json_);
    }
    SLIP_TRY(const uint32_t c, character());
    return one_of(nfa_, {{c, c}}, json_);
  }

  Result<Fragment> group(int depth) {
    for (const std::string_view look : {"(?=", "(?!", "(?<=", "(?<!"})
      if (p_.substr(at_).starts_with(look)) return not_done("look-around");
    take("(");
    if (!take("?:") && take("?<")) {
      const size_t end = p_.find('>', at_);
      if (end == std::string_view::npos) return refused("a group's name without '>'");
      at_ = end + 1;
    } else if (peek() == '?') {
      return refused("a group of an unknown kind");
    }
    SLIP_TRY(const Fragment inside, alternatives(depth + 1));
    if (!take(")")) return refused("a group without ')'");
    return inside;
  }

  /// One UTF-8 character.
  Result<uint32_t> character() {
    const auto lead = static_cast<uint8_t>(p_[at_]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (at_ + length > p_.size()) return refused("half a character");
    uint32_t c = length == 1 ? lead : lead & (0x7FU >> length);
    for (size_t i = 1; i < length; ++i) c = c << 6 | (static_cast<uint8_t>(p_[at_ + i]) & 0x3F);
    at_ += length;
    return c;
  }

  Result<uint32_t> hex(size_t digits) {
    uint32_t c = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char x = peek();
      const int v = x >= '0' && x <= '9' ? x - '0' : x >= 'a' && x <= 'f' ? x - 'a' + 10 : x >= 'A' && x <= 'F' ? x - 'A' + 10 : -1;
      if (v < 0) return refused("an escape without its hexadecimal digits");
      c = 16 * c + static_cast<uint32_t>(v);
      ++at_;
    }
    return c;
  }

  Result<Characters> code_point() {  // behind \u
    uint32_t c = 0;
    if (take("{")) {
      const size_t end = p_.find('}', at_);
      if (end == std::string_view::npos || end - at_ > 6 || end == at_) return refused("an escape without its hexadecimal digits");
      SLIP_TRY(c, hex(end - at_));
      ++at_;
    } else {
      SLIP_TRY(c, hex(4));
      if (c >= 0xD800 && c < 0xDC00 && take("\\u")) {
        SLIP_TRY(const uint32_t low, hex(4));
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (c > 0x10FFFF) return refused("a code point beyond Unicode");
    return Characters{{c, c}};
  }

  /// Behind a backslash.
  Result<Characters> escape(bool in_class) {
    if (!more()) return refused("a backslash at the end");
    const char c = p_[at_++];
    const auto single = [](uint32_t x) { return Characters{{x, x}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return kDigits.inverse();
      case 'w':
        return kWords;
      case 'W':
        return kWords.inverse();
      case 's':
        return kSpaces;
      case 'S':
        return kSpaces.inverse();
      case 'n':
        return single('\n');
      case 'r':
        return single('\r');
      case 't':
        return single('\t');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case '0':
        if (peek() >= '0' && peek() <= '7') return not_done("octal escapes");
        return single(0);
      case 'u':
        return code_point();
      case 'x': {
        SLIP_TRY(const uint32_t x, hex(2));
        return single(x);
      }
      case 'c': {
        if (const char letter = static_cast<char>(peek() | 0x20); letter < 'a' || letter > 'z')
          return refused("a control escape without its letter");
        return single(static_cast<uint32_t>(p_[at_++]) & 31);
      }
      case 'b':
        if (in_class) return single('\b');
        return not_done("word borders");
      case 'B':
        return not_done("word borders");
      case 'p':
      case 'P':
        return not_done("Unicode properties");
      case 'k':
        return not_done("back references");
      default:
        break;
    }
    if (c >= '1' && c <= '9') return not_done("back references");
    // \A and \Z are borders elsewhere and letters here: whoever writes them means the borders.
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
      return not_done("escaped letters that mean nothing in ECMAScript (^ and $ are its borders)");
    --at_;
    SLIP_TRY(const uint32_t itself, character());
    return single(itself);
  }

  /// Behind '['.
  Result<Characters> characters() {
    const bool inverse = take("^");
    Characters set;
    while (more() && peek() != ']') {
      SLIP_TRY(const Characters first, member());
      const auto& r = first.ranges();
      const bool single = r.size() == 1 && r[0].first == r[0].last;
      if (single && peek() == '-' && at_ + 1 < p_.size() && p_[at_ + 1] != ']') {
        ++at_;
        SLIP_TRY(const Characters last, member());
        const auto& l = last.ranges();
        if (l.size() != 1 || l[0].first != l[0].last) {  // a class behind it: the '-' is itself
          set.add('-', '-');
          set.add(r[0].first, r[0].first);
          set.add(last);
          continue;
        }
        if (l[0].first < r[0].first) return refused("a range that ends before it begins");
        set.add(r[0].first, l[0].first);
      } else {
        set.add(first);
      }
    }
    if (!take("]")) return refused("a class without ']'");
    return inverse ? set.inverse() : set;
  }

  Result<Characters> member() {
    if (take("\\")) return escape(true);
    SLIP_TRY(const uint32_t c, character());
    return Characters{{c, c}};
  }

  std::string_view p_;
  bool json_;
  size_t at_ = 0;
  ByteNfa nfa_;
};

}  // namespace

namespace {

/// The place of the parenthesis that closes the group which begins at `open`; npos where there is none.
size_t end_of_group(std::string_view pattern, size_t open) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = open; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\')
      ++i;
    else if (in_class || c == '[')
      in_class = c != ']';
    else if (c == '(')
      ++depth;
    else if (c == ')' && --depth == 0)
      return i;
  }
  return std::string_view::npos;
}

/// Calls `see` with the place of each character that stands outside of classes, groups and escapes, until it says false.
template <class See>
void at_top(std::string_view pattern, const See& see) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class || c == '[') {
      in_class = c != ']';
    } else {
      if (!see(i)) return;
      if (c == '(') i = std::min(end_of_group(pattern, i), pattern.size());
    }
  }
}

std::vector<std::string> alternatives_of(std::string_view pattern) {
  std::vector<std::string> out;
  size_t begin = 0;
  at_top(pattern, [&](size_t i) {
    if (pattern[i] == '|') out.emplace_back(pattern.substr(begin, i - begin)), begin = i + 1;
    return true;
  });
  out.emplace_back(pattern.substr(begin));
  return out;
}

bool is_ahead(std::string_view group) { return group.starts_with("(?!") || group.starts_with("(?="); }

/// The first group of a pattern `^...` that is a look-ahead, or the last thing in it and holds one.
struct Ahead {
  size_t begin = 0, end = 0;  // of its parentheses
  bool itself = false;
};

std::optional<Ahead> first_ahead(std::string_view pattern) {
  if (!pattern.starts_with('^') || alternatives_of(pattern).size() > 1) return std::nullopt;
  std::optional<Ahead> found;
  bool unknown = false;
  at_top(pattern, [&](size_t i) {
    if (pattern[i] != '(') return true;
    const size_t end = end_of_group(pattern, i);
    if (end == std::string_view::npos) return !(unknown = true);
    const std::string_view group = pattern.substr(i, end + 1 - i), behind = pattern.substr(end + 1);
    const bool holds = group.find("(?=", 1) != std::string_view::npos || group.find("(?!", 1) != std::string_view::npos;
    if (!is_ahead(group) && !holds) return true;
    if (is_ahead(group) ? !behind.empty() && std::string_view("*+?{").find(behind.front()) != std::string_view::npos
                        : behind.find_first_not_of('$') != std::string_view::npos)
      return !(unknown = true);
    found = Ahead{i, end, is_ahead(group)};
    return false;
  });
  return unknown ? std::nullopt : found;
}

/// `^A(?=B)C`: A, and behind it what both B and C say of the rest; `^A(?:B|C)$`: one of `^AB$` and `^AC$`. Others hold no look-ahead, or
/// are refused by the reader.
Result<ByteDfa> compile_pattern(std::string_view pattern, bool json, int depth) {
  constexpr size_t kLongest = 4096;
  constexpr int kMostAhead = 8;
  if (pattern.size() > kLongest) return unsupported("expected a pattern of at most {} bytes, got {}", kLongest, pattern.size());
  const auto ahead = first_ahead(pattern);
  if (ahead && depth >= kMostAhead)
    return unsupported("expected at most {} look-aheads behind or in each other, got more", kMostAhead);
  if (!ahead) return Reader(pattern, json).read();
  const std::string before(pattern.substr(1, ahead->begin - 1)), behind(pattern.substr(ahead->end + 1));
  if (!ahead->itself) {
    size_t inside = ahead->begin + 1;
    if (pattern.substr(inside).starts_with("?:"))
      inside += 2;
    else if (pattern.substr(inside).starts_with("?"))
      return Reader(pattern, json).read();
    std::vector<ByteDfa> ways;
    for (const std::string& way : alternatives_of(pattern.substr(inside, ahead->end - inside))) {
      SLIP_TRY(ByteDfa one, compile_pattern("^" + before + way + behind, json, depth + 1));
      ways.push_back(std::move(one));
    }
    return ByteDfa::either(ways);
  }
  std::string_view condition = pattern.substr(ahead->begin + 3, ahead->end - ahead->begin - 3);
  if (before.empty() && condition.starts_with('^') && alternatives_of(condition).size() == 1)
    condition.remove_prefix(1);  // said twice
  SLIP_TRY(const ByteDfa asked, compile_pattern("^(?:" + std::string(condition) + ")", json, depth + 1));
  SLIP_TRY(const ByteDfa rest, compile_pattern("^" + behind, json, depth + 1));
  auto both = pattern[ahead->begin + 2] == '!' ? ByteDfa::first_only(rest, asked) : ByteDfa::both(rest, asked);
  if (!both || before.empty()) return both;
  // What stands before it is a text of its own: borders in it would speak of another one.
  if (before.find_first_of("^$") != std::string::npos) return Reader(pattern, json).read();
  SLIP_TRY(const ByteDfa first, compile_pattern("^(?:" + before + ")$", json, depth + 1));
  const std::array<ByteDfa, 2> parts{first, std::move(*both)};
  return ByteDfa::concat(parts);
}

}  // namespace

Result<ByteDfa> compile_regex(std::string_view pattern, bool json) { return compile_pattern(pattern, json, 0); }

Result<ByteDfa> texts_of_length(int64_t least, int64_t most, bool json) {
  ByteNfa nfa;
  const auto any = one_of(nfa, Characters::all(), json);
  SLIP_TRY(const ByteDfa one, ByteDfa::of(nfa, any));
  // A state is a count of whole characters and a state of `one`, which reads the bytes of the next character. The count stops at counts - 1:
  // with `most` nothing may follow there, without it further characters leave the count as it is.
  const auto places = static_cast<int64_t>(one.size());
  const int64_t counts = (most < 0 ? least : most) + 1;
  if (counts * places > static_cast<int64_t>(ByteDfa::kMostStates))
    return unsupported("expected at most {} characters, got {}", static_cast<int64_t>(ByteDfa::kMostStates) / places - 1,
                       counts - 1);
  const auto next = [&](int32_t s, int byte) -> int32_t {
    const int64_t count = s / places;
    if (most >= 0 && count == most) return -1;
    const int32_t to = one.next(static_cast<int32_t>(s % places), static_cast<uint8_t>(byte));
    if (to < 0) return -1;
    return static_cast<int32_t>(one.accepts(to) ? std::min(count + 1, counts - 1) * places : count * places + to);
  };
  const auto accepts = [&](int32_t s) { return s % places == 0 && s / places >= least; };
  return ByteDfa::table(static_cast<size_t>(counts * places), one.class_of_bytes(), next, accepts);
}

}  // namespace slip
