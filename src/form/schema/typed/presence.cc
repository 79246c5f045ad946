// SPDX-License-Identifier: Apache-2.0
#include "form/schema/typed/presence.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace slip {
namespace {

using Kind = PresenceRule::Kind;
constexpr size_t kMostNodes = 16384;
constexpr size_t kMostChoices = size_t{1} << 18;

PresenceRulePtr rule_of(PresenceRule r) { return std::make_shared<const PresenceRule>(std::move(r)); }

/// Null where one of them is.
PresenceRulePtr combined(Kind kind, std::vector<PresenceRulePtr> of) {
  if (std::find(of.begin(), of.end(), nullptr) != of.end()) return nullptr;
  return rule_of({.kind = kind, .key = {}, .of = std::move(of)});
}

std::optional<int64_t> count_of(const json::value& v) {
  if (v.is_int64() && v.get_int64() >= 0) return v.get_int64();
  return std::nullopt;
}

PresenceRulePtr required_rule(const json::value& v) {
  if (!v.is_array()) return nullptr;
  std::vector<PresenceRulePtr> all;
  for (const json::value& name : v.get_array())
    all.push_back(name.is_string() ? has_member(std::string(std::string_view(name.get_string()))) : nullptr);
  return combined(Kind::kAll, std::move(all));
}

/// `properties` of which each is false (the member is not there) or says nothing.
PresenceRulePtr properties_rule(const json::value& v) {
  if (!v.is_object()) return nullptr;
  std::vector<PresenceRulePtr> all;
  for (const auto& m : v.get_object()) {
    const json::object* o = m.value().if_object();
    if (m.value().is_bool() && !m.value().get_bool())
      all.push_back(not_of(has_member(std::string(std::string_view(m.key())))));
    else if (!m.value().is_bool() && !(o && o->empty()))
      return nullptr;
  }
  return combined(Kind::kAll, std::move(all));
}

PresenceRulePtr list_rule(Kind kind, const json::value& v) {
  if (!v.is_array() || v.get_array().empty()) return nullptr;
  std::vector<PresenceRulePtr> all;
  for (const json::value& x : v.get_array())
    if (all.push_back(presence_rule(x)); !all.back()) return nullptr;
  return combined(kind, std::move(all));
}

/// (if and then) or (not if and else)
PresenceRulePtr condition_rule(const json::object& o) {
  static const json::value kTrue = true;
  const auto branch = [&](const char* name) {
    const json::value* v = o.if_contains(name);
    return presence_rule(v ? *v : kTrue);
  };
  const PresenceRulePtr test = branch("if");
  const PresenceRulePtr then = test ? branch("then") : nullptr;
  const PresenceRulePtr otherwise = then ? branch("else") : nullptr;
  return otherwise ? any_of({all_of({test, then}), all_of({not_of(test), otherwise})}) : nullptr;
}

PresenceRulePtr dependent_rules(const json::value& v) {
  if (!v.is_object()) return nullptr;
  std::vector<PresenceRulePtr> all;
  for (const auto& [name, asked] : v.get_object()) all.push_back(dependent_rule(std::string_view(name), asked));
  return combined(Kind::kAll, std::move(all));
}

}  // namespace

bool PresenceRule::holds_for_others() const {
  const auto holds = [](const PresenceRulePtr& r) { return r->holds_for_others(); };
  switch (kind) {
    case Kind::kHas:
    case Kind::kCount:
      return true;
    case Kind::kObject:
      return false;
    case Kind::kNot:
      return !holds(of.front());
    case Kind::kAll:
      return std::all_of(of.begin(), of.end(), holds);
    case Kind::kAny:
      return std::any_of(of.begin(), of.end(), holds);
    case Kind::kOne:
      break;
  }
  return std::count_if(of.begin(), of.end(), holds) == 1;
}

int64_t PresenceRule::size() const {
  int64_t n = kind == Kind::kHas || kind == Kind::kCount ? 1 : 0;
  for (const PresenceRulePtr& r : of) n += r->size();
  return n;
}

int64_t PresenceRule::counted() const {
  int64_t n = kind == Kind::kCount ? std::max(least, most + 1) : 0;
  for (const PresenceRulePtr& r : of) n = std::max(n, r->counted());
  return n;
}

std::optional<std::string> PresenceRule::unknown(std::span<const std::string> members, bool asked) const {
  if (kind == Kind::kHas && asked && std::find(members.begin(), members.end(), key) == members.end()) return key;
  for (const PresenceRulePtr& r : of)
    if (auto name = r->unknown(members, asked != (kind == Kind::kNot))) return name;
  return std::nullopt;
}

PresenceRulePtr has_member(std::string key) { return rule_of({.kind = Kind::kHas, .key = std::move(key), .of = {}}); }
PresenceRulePtr all_of(std::vector<PresenceRulePtr> of) { return combined(Kind::kAll, std::move(of)); }
PresenceRulePtr any_of(std::vector<PresenceRulePtr> of) { return combined(Kind::kAny, std::move(of)); }
PresenceRulePtr not_of(PresenceRulePtr rule) { return combined(Kind::kNot, {std::move(rule)}); }
PresenceRulePtr member_count(int64_t least, int64_t most) {
  return rule_of({.kind = Kind::kCount, .key = {}, .of = {}, .least = least, .most = most});
}

PresenceRulePtr dependent_rule(std::string_view name, const json::value& asked) {
  return any_of({not_of(has_member(std::string(name))), asked.is_array() ? required_rule(asked) : presence_rule(asked)});
}

PresenceRulePtr presence_rule(std::string_view key, const json::value& v, const json::object& all) {
  if (key == "required") return required_rule(v);
  if (key == "properties") return properties_rule(v);
  if (key == "type") return v == "object" ? rule_of({.kind = Kind::kObject, .key = {}, .of = {}}) : nullptr;
  if (key == "anyOf") return list_rule(Kind::kAny, v);
  if (key == "oneOf") return list_rule(Kind::kOne, v);
  if (key == "allOf") return list_rule(Kind::kAll, v);
  if (key == "not") return not_of(presence_rule(v));
  if (key == "if") return condition_rule(all);
  if (key == "dependentRequired" || key == "dependentSchemas" || key == "dependencies") return dependent_rules(v);
  const auto n = count_of(v);
  if (key == "minProperties") return n ? member_count(*n, -1) : nullptr;
  if (key == "maxProperties") return n ? member_count(0, *n) : nullptr;
  if (key == "then" || key == "else" || key == "title" || key == "description" || key == "$comment") return all_of({});
  return nullptr;
}

PresenceRulePtr presence_rule(const json::value& schema) {
  if (schema.is_bool()) return schema.get_bool() ? all_of({}) : any_of({});
  if (!schema.is_object()) return nullptr;
  std::vector<PresenceRulePtr> all;
  for (const auto& m : schema.get_object()) {
    all.push_back(presence_rule(std::string_view(m.key()), m.value(), schema.get_object()));
    if (!all.back()) return nullptr;
  }
  return all_of(std::move(all));
}

/// Reduced and ordered: equal rules have the same node.
class Presence::Builder {
 public:
  explicit Builder(std::span<const std::string> members) : members_(members) {
    nodes_.push_back({members.size(), kNever, kNever});
    nodes_.push_back({members.size(), kAlways, kAlways});
  }

  int32_t build(const PresenceRule& r) {
    switch (r.kind) {
      case Kind::kHas: {
        const auto at = std::find(members_.begin(), members_.end(), r.key);
        return at == members_.end() ? kNever : node(static_cast<size_t>(at - members_.begin()), kNever, kAlways);
      }
      case Kind::kObject:
        return kAlways;
      case Kind::kCount:
        return count(r.least, r.most);
      case Kind::kNot:
        return choose(build(*r.of.front()), kNever, kAlways);
      case Kind::kOne:
        return one(r);
      case Kind::kAll:
      case Kind::kAny:
        break;
    }
    int32_t out = r.kind == Kind::kAll ? kAlways : kNever;
    for (const PresenceRulePtr& x : r.of)
      out = r.kind == Kind::kAll ? choose(build(*x), out, kNever) : choose(build(*x), kAlways, out);
    return out;
  }
  bool full() const { return nodes_.size() >= kMostNodes || chosen_.size() >= kMostChoices; }
  std::vector<Node> nodes() && { return std::move(nodes_); }

 private:
  int32_t node(size_t member, int32_t absent, int32_t present) {
    if (absent == present) return absent;
    const auto [at, added] = known_.try_emplace(Node{member, absent, present}, static_cast<int32_t>(nodes_.size()));
    if (added) {
      if (full()) return known_.erase(at), kNever;
      nodes_.push_back(at->first);
    }
    return at->second;
  }

  /// `test` ? `yes` : `no`
  int32_t choose(int32_t test, int32_t yes, int32_t no) {
    if (test == kAlways || yes == no) return yes;
    if (test == kNever) return no;
    const auto key = std::tuple{test, yes, no};
    if (const auto at = chosen_.find(key); at != chosen_.end()) return at->second;
    if (full()) return kNever;
    const auto nodes =
        std::array{nodes_[static_cast<size_t>(test)], nodes_[static_cast<size_t>(yes)], nodes_[static_cast<size_t>(no)]};
    const size_t member = std::min({nodes[0].member, nodes[1].member, nodes[2].member});
    const auto side = [&](bool present) {
      const auto of = [&](size_t i, int32_t whole) {
        return nodes[i].member != member ? whole : present ? nodes[i].present : nodes[i].absent;
      };
      return choose(of(0, test), of(1, yes), of(2, no));
    };
    const int32_t absent = side(false), present = side(true);
    return chosen_[key] = node(member, absent, present);
  }

  int32_t one(const PresenceRule& r) {
    int32_t none = kAlways, one = kNever;
    for (const PresenceRulePtr& x : r.of) {
      const int32_t now = build(*x);
      one = choose(now, none, one);
      none = choose(now, kNever, none);
    }
    return one;
  }

  /// By how many are there before each member, from the last member back.
  int32_t count(int64_t least, int64_t most) {
    const auto n = static_cast<int64_t>(members_.size());
    std::vector<int32_t> behind;
    for (int64_t k = 0; k <= n; ++k) behind.push_back(k >= least && (most < 0 || k <= most) ? kAlways : kNever);
    for (int64_t m = n - 1; m >= 0; --m)
      for (int64_t k = 0; k <= m; ++k)
        behind[static_cast<size_t>(k)] =
            node(static_cast<size_t>(m), behind[static_cast<size_t>(k)], behind[static_cast<size_t>(k) + 1]);
    return behind.front();
  }

  std::span<const std::string> members_;
  std::vector<Node> nodes_;
  std::map<Node, int32_t> known_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> chosen_;
};

std::shared_ptr<const Presence> Presence::make(const PresenceRule& rule, std::span<const std::string> members) {
  Builder builder(members);
  const int32_t start = builder.build(rule);
  if (builder.full()) return nullptr;
  // Those that can be reached, in the order in which they are.
  const std::vector<Node> all = std::move(builder).nodes();
  std::map<int32_t, int32_t> place{{kNever, kNever}, {kAlways, kAlways}};
  std::vector<int32_t> reached{kNever, kAlways};
  const auto placed = [&](int32_t old) {
    const auto [at, added] = place.try_emplace(old, static_cast<int32_t>(reached.size()));
    if (added) reached.push_back(old);
    return at->second;
  };
  Presence out;
  out.start_ = placed(start);
  for (size_t i = 0; i < reached.size(); ++i) {
    const Node& n = all[static_cast<size_t>(reached[i])];
    out.nodes_.push_back({n.member, placed(n.absent), placed(n.present)});
  }
  return std::make_shared<const Presence>(std::move(out));
}

int32_t Presence::next(int32_t state, size_t member, bool written) const {
  const Node& n = nodes_[static_cast<size_t>(state)];
  return n.member != member ? state : written ? n.present : n.absent;
}

bool Presence::forces(size_t member) const {
  std::set<int32_t> seen{start_};
  std::vector<int32_t> open{start_};
  while (!open.empty()) {
    const int32_t state = open.back();
    open.pop_back();
    if (state == kNever) continue;
    const Node& n = nodes_[static_cast<size_t>(state)];
    if (n.member > member) return false;  // on this way it may be left out
    for (const int32_t to : {n.absent, n.present}) {
      if (n.member == member && to == n.absent && to != kNever) return false;
      if (n.member != member && seen.insert(to).second) open.push_back(to);
    }
  }
  return true;
}

}  // namespace slip
