// SPDX-License-Identifier: Apache-2.0
// Inside of typed.h: which members an object has. A rule is a formula over members ("a or b", "not both", "at most two"); Presence is the
// rule as a binary decision diagram over the members in their order [Bryant 1986], which the walk over an object follows member by member.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace slip {

struct PresenceRule;
using PresenceRulePtr = std::shared_ptr<const PresenceRule>;
struct PresenceRule {
  enum class Kind { kHas, kNot, kAll, kAny, kOne, kCount, kObject };
  Kind kind = Kind::kAll;
  std::string key;                  // kHas: the member is there
  std::vector<PresenceRulePtr> of;  // kNot: one; kAll, kAny, kOne (exactly one): any number
  int64_t least = 0, most = -1;     // kCount: so many members are there; most -1: any number. kObject: true of every object

  /// Is it true of a value that is no object? `required` and counts are, since they speak of objects alone.
  bool holds_for_others() const;
  /// Names and counts in it; 0: it says nothing of members.
  int64_t size() const;
  /// The most members that a count in it speaks of.
  int64_t counted() const;
  /// Some member that it asks for and `members` does not name.
  std::optional<std::string> unknown(std::span<const std::string> members, bool asked = true) const;
};
PresenceRulePtr has_member(std::string key);
PresenceRulePtr all_of(std::vector<PresenceRulePtr> of);
PresenceRulePtr any_of(std::vector<PresenceRulePtr> of);
PresenceRulePtr not_of(PresenceRulePtr rule);
PresenceRulePtr member_count(int64_t least, int64_t most);

/// A schema that says nothing else than which members an object has: required, minProperties, maxProperties, dependentRequired, members
/// that are `false`, and anyOf, oneOf, allOf, not, if/then/else, dependentSchemas of such. Null for any other.
PresenceRulePtr presence_rule(const json::value& schema);
/// The same of one keyword of a schema; `all` has the `then` and `else` of an `if`.
PresenceRulePtr presence_rule(std::string_view key, const json::value& value, const json::object& all);
/// The member `name` asks for others (a list of names), or for a schema of that kind. Null for any other.
PresenceRulePtr dependent_rule(std::string_view name, const json::value& asked);

class Presence {
 public:
  static constexpr int32_t kNever = 0, kAlways = 1;  // the states in which nothing is open any more
  static constexpr size_t kMostMembers = 256;

  /// Null where the diagram grows beyond 16,384 nodes. A member that `members` does not name is never there.
  static std::shared_ptr<const Presence> make(const PresenceRule& rule, std::span<const std::string> members);

  int32_t start() const { return start_; }
  int32_t next(int32_t state, size_t member, bool written) const;
  /// Has every object that the rule allows this member?
  bool forces(size_t member) const;
  friend bool operator==(const Presence& a, const Presence& b) { return a.start_ == b.start_ && a.nodes_ == b.nodes_; }

 private:
  struct Node {
    size_t member;
    int32_t absent, present;
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  class Builder;
  std::vector<Node> nodes_;  // the first two stand for kNever and kAlways
  int32_t start_ = kAlways;
};

}  // namespace slip
