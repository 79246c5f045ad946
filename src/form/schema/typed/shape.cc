// SPDX-License-Identifier: Apache-2.0
// The walk keeps all places where writing may go on: behind which slot, and the text since. What is fixed is appended to all of them; a
// value takes them all in and is the one place behind itself; alternatives are walked one by one from the same places; an optional member
// leaves the places before it standing beside those behind it. Objects that are alternatives and begin with the same members are written
// together as far as these go, so that what comes after the first free value may still tell them apart.
#include "form/schema/typed/shape.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "form/json_text.h"

namespace slip {
namespace {

constexpr int kMostPartings = 64;  // free values in a row after each of which alternatives part
constexpr size_t kMostSlots = 2048;
constexpr int64_t kMostValues = 32768, kUncounted = int64_t{1} << 40;  // in every answer, constants counted
constexpr size_t kMostWays = 32768;
constexpr size_t kMostPlaces = 1024;            // side by side
constexpr size_t kMostBytes = size_t{1} << 21;  // of texts that are written

class Walk {
 public:
  Walk(std::string_view form, bool space_fixed) : form_(form), space_fixed_(space_fixed) { out_.ways.emplace_back(); }

  Result<Shape> run(const TypedSchema& schema) {
    out_.block_size = schema.block_size;
    out_.any_parents = schema.any_parents;
    if (const int64_t values = least_values(*schema.root); values > kMostValues)
      return unsupported("form {}: #: expected at most {} values that every answer has, got {}: smaller minItems help", form_,
                         kMostValues, values >= kUncounted ? std::string("more") : std::to_string(values));
    Places places{{0, ""}};
    At root{.name = "", .section = 0, .parents = std::nullopt, .top = true};
    SLIP_TRY(places, value(*schema.root, std::move(places), root));
    for (const Place& p : places) {
      if (p.text.empty())
        return unsupported(
            "form {}: #: expected an object, an array or strings at the root, got another value, of which nothing shows the end: "
            "put it "
            "into a member of an object",
            form_);
      SLIP_TRY_(way(p, Shape::kEnd));
    }
    for (const Way& w : out_.ways.front())
      if (w.text.empty() || w.text.front() != out_.ways.front().front().text.front())
        return unsupported(
            "form {}: #: expected answers that all begin with the same character, got alternatives that do not: put them into a "
            "member "
            "of an object",
            form_);
    if (out_.section_names.empty()) out_.section_names = {"answer"};
    return std::move(out_);
  }

 private:
  /// Behind `from` (0: the start, otherwise a slot + 1) with so much text.
  struct Place {
    int32_t from;
    std::string text;
  };
  using Places = std::vector<Place>;
  struct At {
    std::string name;
    int32_t section = 0;
    std::optional<std::vector<std::string>> parents;
    bool top = false, beside = false;  // beside: one of several that may stand here
  };
  /// The members of an object that are still to be written.
  struct Rest {
    const TypedNode* object;
    size_t member;
    bool done() const { return member == object->members.size(); }
    const TypedNode::Member& next() const { return object->members[member]; }
  };

  Status fits() const {
    if (out_.slots.size() > kMostSlots) return unsupported("form {}: expected at most {} values, got more", form_, kMostSlots);
    if (ways_ > kMostWays || bytes_ > kMostBytes)
      return unsupported("form {}: expected at most {} ways between values in {} bytes, got more", form_, kMostWays, kMostBytes);
    return {};
  }

  Error too_many_places() const {
    return unsupported("form {}: expected at most {} {}, got more: smaller maxItems help", form_, kMostPlaces, kTooManyWays);
  }

  Status write(Places& places, std::string_view text) {
    if (places.size() > kMostPlaces) return too_many_places();
    for (Place& p : places) p.text += text;
    bytes_ += places.size() * text.size();
    return fits();
  }

  /// Values of the shortest answer; an item's are counted once.
  static int64_t least_values(const TypedNode& n) {
    int64_t sum = n.kind == TypedNode::Kind::kScalar || n.kind == TypedNode::Kind::kConstant;
    for (const auto& m : n.members)
      if (m.required) sum += least_values(*m.node);
    const auto given = std::min<int64_t>(n.min_items, static_cast<int64_t>(n.prefix.size()));
    for (int64_t i = 0; i < given; ++i) sum += least_values(*n.prefix[static_cast<size_t>(i)]);
    if (n.item && n.min_items > given) sum += (n.min_items - given) * least_values(*n.item);
    if (n.kind == TypedNode::Kind::kChoice && !n.alternatives.empty()) {
      sum = kUncounted;
      for (const TypedPtr& a : n.alternatives) sum = std::min(sum, least_values(*a));
    }
    return std::min(sum, kUncounted);
  }

  static void merge(Places& into, Places more) {
    std::unordered_set<std::string> known;
    const auto name = [](const Place& p) { return fmt::format("{} {}", p.from, p.text); };
    for (const Place& p : into) known.insert(name(p));
    for (Place& p : more)
      if (known.insert(name(p)).second) into.push_back(std::move(p));
  }

  Status way(const Place& p, int32_t to) {
    ++ways_;
    out_.ways[static_cast<size_t>(p.from)].push_back({p.text, to});
    return fits();
  }

  std::string unique(const std::string& name) {
    const std::string wanted = name.empty() ? "answer" : name;
    const int32_t times = ++names_[wanted];
    return times == 1 ? wanted : fmt::format("{}({})", wanted, times);
  }

  Result<Places> value(const TypedNode& n, Places places, At at) {
    if (n.parents) at.parents = n.parents;
    switch (n.kind) {
      case TypedNode::Kind::kConstant: {
        SLIP_TRY_(write(places, n.text));
        return places;
      }
      case TypedNode::Kind::kScalar:
        return scalar(n, std::move(places), at);
      case TypedNode::Kind::kObject:
        return object(n, std::move(places), at);
      case TypedNode::Kind::kArray:
        return array(n, std::move(places), at);
      case TypedNode::Kind::kChoice:
        break;
    }
    return choice(n, std::move(places), at);
  }

  Result<Places> choice(const TypedNode& n, Places places, At at) {
    Places all;
    at.beside = true;
    std::vector<bool> done(n.alternatives.size());
    for (size_t i = 0; i < done.size(); ++i) {
      if (done[i]) continue;
      const TypedNode& a = *n.alternatives[i];
      std::vector<Rest> alike{{&a, 0}};
      for (size_t j = i + 1; j < done.size() && a.kind == TypedNode::Kind::kObject; ++j)
        if (n.alternatives[j]->kind == TypedNode::Kind::kObject && shared({&a, 0}, {n.alternatives[j].get(), 0}) > 0) {
          alike.push_back({n.alternatives[j].get(), 0});
          done[j] = true;
        }
      SLIP_TRY(Places behind, alike.size() > 1 ? objects(alike, places, at) : value(a, places, at));
      merge(all, std::move(behind));
      if (all.size() > kMostPlaces) return too_many_places();
    }
    return all;
  }

  Result<Places> scalar(const TypedNode& n, Places places, const At& at) {
    SLIP_TRY_(fits());
    Slot slot{.node = std::make_shared<const TypedNode>(n), .name = unique(at.name), .section = at.section, .parents = at.parents};
    if (n.quoted) {
      SLIP_TRY_(write(places, "\""));
    } else {
      slot.space = !(space_fixed_ && at.beside) &&
                   std::all_of(places.begin(), places.end(), [](const Place& p) { return p.text.ends_with(' '); });
      if (slot.space)
        for (Place& p : places) p.text.pop_back();
    }
    const auto index = static_cast<int32_t>(out_.slots.size());
    for (const Place& p : places) SLIP_TRY_(way(p, index));
    out_.slots.push_back(std::move(slot));
    out_.ways.emplace_back();
    return Places{{index + 1, n.quoted ? "\"" : ""}};
  }

  Result<Places> object(const TypedNode& n, Places places, const At& at) { return objects({{&n, 0}}, std::move(places), at); }

  Result<Places> objects(const std::vector<Rest>& alternatives, Places places, At at) {
    at.beside = false;
    SLIP_TRY_(write(places, "{"));
    const TypedNode& first = *alternatives.front().object;
    SLIP_TRY(places, first.presence ? members_by_rule(first, std::move(places), at)
                                    : members(alternatives, std::move(places), {}, at, at.section));
    SLIP_TRY_(write(places, "}"));
    return places;
  }

  /// How many members both begin with; 0 where these hold no free value, since then their texts are the same anyway.
  size_t shared(Rest a, Rest b) {
    size_t n = 0, with_values = 0;
    if (a.object->presence || b.object->presence) return 0;
    for (; !a.done() && !b.done(); ++a.member, ++b.member) {
      const auto &x = a.next(), &y = b.next();
      if (x.key != y.key || x.required != y.required || !same_text(*x.node, *y.node, compared_)) break;
      ++n;
      if (has_values(*x.node)) with_values = n;
    }
    return with_values > 0 ? n : 0;
  }

  /// `none`: places before the first member that is written; `some`: behind one.
  Result<Places> members(std::vector<Rest> alternatives, Places none, Places some, const At& at, int32_t section) {
    if (++depth_ > kMostPartings) return unsupported("form {}: expected at most {} levels, got more", form_, kMostPartings);
    Places all;
    while (!alternatives.empty()) {
      const Rest first = alternatives.front();
      std::vector<Rest> alike{first}, others;
      size_t together = first.object->members.size() - first.member;
      for (size_t i = 1; i < alternatives.size(); ++i) {
        const size_t n = shared(first, alternatives[i]);
        (n > 0 ? alike : others).push_back(alternatives[i]);
        if (n > 0) together = std::min(together, n);
      }
      alternatives = std::move(others);
      Places before = none, behind = some;
      int32_t in = section;
      for (size_t k = 0; k < together; ++k) SLIP_TRY_(member(first.object->members[first.member + k], before, behind, at, in));
      for (Rest& r : alike) r.member += together;
      if (alike.size() > 1) {
        SLIP_TRY(Places ends, members(std::move(alike), std::move(before), std::move(behind), at, in));
        merge(all, std::move(ends));
      } else {
        merge(all, std::move(before));
        merge(all, std::move(behind));
      }
    }
    --depth_;
    return all;
  }

  /// A member that may be left out, or that is written: the places behind it.
  Status member(const TypedNode::Member& m, Places& none, Places& some, const At& at, int32_t& section) {
    SLIP_TRY(Places behind, written(m, none, some, at, section));
    if (m.required) {
      none.clear();
      some = std::move(behind);
    } else {
      merge(some, std::move(behind));
    }
    return {};
  }

  Result<Places> written(const TypedNode::Member& m, Places none, Places some, const At& at, int32_t& section) {
    At below = at;
    below.top = false;
    below.name += (at.name.empty() ? "" : ".") + m.key;
    if (at.top) {
      SLIP_TRY(section, enter_section(m));
    }
    below.section = section;
    const std::string key = json::serialize(json::string(m.key)) + ": ";
    SLIP_TRY_(write(none, key));
    SLIP_TRY_(write(some, ", " + key));
    merge(none, std::move(some));
    return value(*m.node, std::move(none), below);
  }

  /// Places by the state of the object's rule, member by member. A member is written once for every state that it leads to, so that what
  /// was written says what may follow.
  Result<Places> members_by_rule(const TypedNode& n, Places places, const At& at) {
    struct Reached {
      Places none, some;  // before the first member that is written; behind one
    };
    std::map<int32_t, Reached> now{{n.presence->start(), {std::move(places), {}}}};
    int32_t section = at.section;
    for (size_t i = 0; i < n.members.size(); ++i) {
      std::map<int32_t, Reached> then, before;  // `before`: by the state behind the member
      for (const auto& [state, reached] : now) {
        for (const bool present : {false, true}) {
          const int32_t to = n.presence->next(state, i, present);
          if (to == Presence::kNever) continue;
          Reached& into = (present ? before : then)[to];
          merge(into.none, reached.none);
          merge(into.some, reached.some);
        }
      }
      for (auto& [state, reached] : before) {
        SLIP_TRY(Places behind, written(n.members[i], std::move(reached.none), std::move(reached.some), at, section));
        merge(then[state].some, std::move(behind));
      }
      now = std::move(then);
    }
    Places all;
    for (auto& [state, reached] : now) {
      merge(all, std::move(reached.none));
      merge(all, std::move(reached.some));
    }
    return all;
  }

  Result<int32_t> enter_section(const TypedNode::Member& m) {
    if (m.node->section && (out_.section_names.empty() || out_.section_names.back() != *m.node->section)) {
      if (std::find(out_.section_names.begin(), out_.section_names.end(), *m.node->section) != out_.section_names.end())
        return bad_input("form {}: {}: expected the members of section '{}' side by side, got others between", form_,
                         m.node->pointer, shown(*m.node->section));
      out_.section_names.push_back(*m.node->section);
    } else if (out_.section_names.empty()) {
      out_.section_names.emplace_back("answer");
    }
    return static_cast<int32_t>(out_.section_names.size()) - 1;
  }

  Result<Places> array(const TypedNode& n, Places places, const At& at) {
    SLIP_TRY_(write(places, n.name ? "{" : "["));
    Places now = std::move(places), done;
    for (int64_t i = 0; i <= n.max_items; ++i) {
      if (i >= n.min_items) merge(done, now);
      if (i == n.max_items) break;
      if (i > 0) SLIP_TRY_(write(now, ", "));
      const auto k = static_cast<size_t>(i);
      At below = at;
      below.top = below.beside = false;
      below.name += fmt::format("{}{}", at.name.empty() ? "" : ".", i);
      const TypedPtr& item = k < n.prefix.size() ? n.prefix[k] : n.item;
      if (n.name) {
        At name = below;
        name.name += ".name";
        below.name += ".value";
        SLIP_TRY(now, value(*n.name, std::move(now), name));
        SLIP_TRY_(write(now, ": "));
      }
      SLIP_TRY(now, value(*item, std::move(now), below));
    }
    SLIP_TRY_(write(done, n.name ? "}" : "]"));
    return done;
  }

  std::string form_;
  bool space_fixed_;
  int depth_ = 0;
  int64_t compared_ = int64_t{1} << 26;  // entries of tables: a tenth of a second
  Shape out_;
  std::map<std::string, int32_t> names_;
  size_t ways_ = 0, bytes_ = 0;
};

}  // namespace

Result<Shape> shape_of(const TypedSchema& schema, std::string_view form_name, bool space_fixed) {
  return Walk(form_name, space_fixed).run(schema);
}

}  // namespace slip
