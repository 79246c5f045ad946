// SPDX-License-Identifier: Apache-2.0
// Inside of typed.h: the walk that gathers what all schemas that hold for one place say of it (its own, those that it refers to, allOf),
// and makes a node of it.
#pragma once
#include <algorithm>
#include <functional>
#include <set>

#include "form/automaton/numbers.h"
#include "form/schema/typed/typed.h"

namespace slip {

class TypedReader {
 public:
  TypedReader(const json::value& document, std::string_view form, const UsualSizes& usual = {})
      : document_(document), form_(form), usual_(usual) {}
  TypedSchema read();
  const std::vector<Error>& errors() const { return errors_; }

 private:
  /// References that lead to a place, innermost first.
  struct Trail {
    std::string reference;
    std::shared_ptr<const Trail> before;
  };
  /// A schema that holds for a place.
  struct Part {
    const json::value* schema = nullptr;
    std::string pointer;
    std::shared_ptr<const Trail> trail;
    bool inner = false;                    // beside others that hold too: of allOf, of alternatives, referred to
    const json::array* none_of = nullptr;  // besides: the value is none of these; without a schema that of the member `pointer`
    bool made = false;                     // of another keyword, at `pointer`: its own keywords have no place in the document
  };
  struct Group {
    std::vector<std::vector<Part>> alternatives;  // all parts of one of these hold
    std::string pointer;
    bool exclusive = false;
  };
  /// additionalProperties of one schema: what holds for members that its own properties and patterns do not name.
  struct Beyond {
    std::set<std::string> names;
    std::vector<std::string> patterns;
    Part others;  // without a schema: there are none
  };
  struct Pattern {
    std::string text, pointer;
    bool of_format = false;  // our part of a format: other texts may be valid too
  };
  using enum TypedNode::Type;
  /// All that is said of a place.
  struct Place {
    std::string pointer;
    std::string dead;  // why nothing is valid here
    uint32_t types = kAll, hinted = 0, also_valid = 0;
    bool typed = false;
    std::optional<std::vector<const json::value*>> values;
    std::vector<const json::array*> none_of;
    NumberLimits number;
    int64_t min_length = 0, max_length = -1;
    std::vector<Pattern> patterns;
    bool of_format() const {
      return std::any_of(patterns.begin(), patterns.end(), [](const Pattern& p) { return p.of_format; });
    }
    std::vector<std::pair<std::string, std::vector<Part>>> properties;
    std::vector<std::pair<std::string, Part>> pattern_properties;
    std::map<std::string, std::string> required;  // and where that is said
    std::set<std::string> told;                   // of those: asked for by a condition alone, and valid without
    bool closed = false, map = false, has_required = false;
    std::optional<std::vector<std::string>> names;  // propertyNames that are a list
    std::vector<Part> of_names;                     // propertyNames that are not
    std::vector<Beyond> beyond;
    std::vector<Part> unevaluated;  // unevaluatedProperties; without a schema: there are none
    bool opened = false;            // additionalProperties that say nothing: no member is unevaluated
    bool chosen = false;            // one of alternatives, of which others may hold as well
    int64_t min_properties = 0, max_properties = -1;
    std::vector<std::pair<PresenceRulePtr, std::string>> presence;  // rules about which members there are, and their pointers
    std::vector<std::vector<Part>> prefix;
    std::vector<std::pair<size_t, Part>> items;  // from the item behind their own schema's prefix on
    bool unique = false;
    int64_t no_more_items = -1;  // behind so many: `items` is false
    int64_t min_items = 0, max_items = -1;
    std::vector<Group> groups;
    int32_t budget = 0;
    std::string number_format;
    const json::object* aliases = nullptr;
    std::optional<std::string> section;
    std::optional<std::vector<std::string>> parents;
  };

  /// While `on`, places are only looked at for what is wrong in them: nothing is asked of a value there, so that nothing has to be done.
  class Looking {
   public:
    Looking(TypedReader& reader, bool on) : looking_(reader.looking_), on_(on ? 1 : 0) { looking_ += on_; }
    ~Looking() { looking_ -= on_; }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    int& looking_;
    int on_;
  };

  void bad(const std::string& pointer, std::string what) { add(ErrorKind::kBadInput, pointer, std::move(what)); }
  void not_done(const std::string& pointer, std::string what) { add(ErrorKind::kUnsupported, pointer, std::move(what)); }
  void add(ErrorKind kind, const std::string& pointer, std::string what);
  bool full() const {
    return errors_.size() >= kMostErrors || work_ > kMostWork || ByteDfa::work() - automata_before_ > kMostAutomata;
  }

  // ---- gathering (gather.cc)
  void gather(const Part& part, Place& place);
  void keyword(std::string_view key, const json::value& v, const json::object& all, const Part& at, Place& place);
  bool number_keyword(std::string_view key, const json::value& v, const Part& at, Place& place);
  bool string_keyword(std::string_view key, const json::value& v, const Part& at, Place& place);
  bool object_keyword(std::string_view key, const json::value& v, const Part& at, Place& place);
  void properties(std::string_view key, const json::value& v, const Part& at, Place& place);
  static void require(const std::string& name, const std::string& pointer, Place& place);
  void property_names(const json::value& v, const Part& at, Place& place);
  static void no_more_behind(size_t count, Place& place);
  bool array_keyword(std::string_view key, const json::value& v, const Part& at, Place& place);
  bool group_keyword(std::string_view key, const json::value& v, const json::object& all, const Part& at, Place& place);
  bool own_keyword(std::string_view key, const json::value& v, const Part& at, Place& place);
  void type(const json::value& v, const Part& at, Place& place);
  struct Marks {
    std::map<std::string, const json::value*> anchors;
    std::set<const json::value*> embedded;
  };
  const Marks& marks();
  const json::value* referred(std::string path);
  const json::value& alone_referred(const json::value& v);
  void reference(const json::value& v, const Part& at, Place& place);
  const json::array* list_of(const json::value& v);
  void negation(const json::value& v, const Part& at, Place& place);
  void presence(PresenceRulePtr rule, const std::string& pointer, Place& place);
  void dependent(std::string_view key, const json::value& v, const Part& at, Place& place);
  void condition(const json::object& all, const Part& at, Place& place);
  std::optional<int64_t> count(const json::value& v, const std::string& pointer);
  std::optional<double> number(const json::value& v, const std::string& pointer);
  Part below(const Part& at, std::string_view key, const json::value& v) const;
  std::vector<Part>& property(Place& place, const std::string& key);

  // ---- nodes (typed.cc); null: nothing is valid there
  TypedPtr node(std::span<const Part> parts, const std::string& pointer, int depth, std::string* why = nullptr);
  TypedPtr node_of(Place place, int depth, std::string* why);
  TypedPtr choice(Place place, int depth, std::string* why);
  bool exclude_each_other(std::span<TypedPtr> found, uint32_t unmade);
  TypedPtr of_values(const Place& place, std::string* why);
  TypedPtr of_types(Place place, int depth, std::string* why);
  TypedPtr one_type(const Place& place, uint32_t type, int depth, std::string* why);
  std::shared_ptr<const ByteDfa> string_language(const Place& place, int64_t most);
  std::shared_ptr<const ByteDfa> number_language(const Place& place, bool integer);
  TypedPtr string_node(const Place& place, std::string* why);
  TypedPtr number_node(const Place& place, bool integer, std::string* why);
  TypedPtr object_node(const Place& place, int depth, std::string* why);
  TypedPtr map_node(const Place& place, int depth, std::string* why);
  TypedPtr name_node(const Place& place, int depth, std::string* why);
  static bool allows_name(const TypedNode& names, const std::string& name);
  void add_named(Place& place);
  /// kNone: no object is valid, kMistaken: an error was added.
  enum class Ask : uint8_t { kMet, kMistaken, kNone };
  Ask add_required(const Place& place, Place& known, const std::function<bool(const std::string&)>& allowed, std::string* why);
  bool add_presence(const Place& place, TypedNode& object, std::string* why);
  bool add_beyond(Place& place);
  bool add_patterns(const Place& place, Place& known);
  static void settle_unevaluated(Place& place);
  static bool is_closed(const Place& place);
  TypedPtr array_node(const Place& place, int depth, std::string* why);
  static bool fits(const json::value& v, const Place& place, std::span<const ByteDfa> patterns);
  std::optional<std::vector<ByteDfa>> patterns_of_values(const Place& place);
  TypedPtr without_repeats(const TypedNode& array, const Place& place);
  TypedPtr together(std::vector<TypedPtr> alternatives, const Place& place);
  static TypedPtr with_valid(TypedPtr node, uint32_t types);
  TypedPtr joined(std::vector<TypedPtr> alternatives, const Place& place);
  TypedPtr union_of(std::span<const TypedPtr> scalars, const Place& place);
  void join_scalars(bool string, std::vector<TypedPtr>& scalars, const Place& place);
  static TypedPtr word_of(const TypedNode& constant);
  TypedPtr spelled_out(const TypedPtr& object, const std::set<std::string>& keys) const;
  void finish(TypedNode& n, const Place& place) const;

  static constexpr size_t kMostErrors = 50;
  static constexpr int64_t kMostWork = 200000;  // parts gathered: bounds the time of schemas that multiply
  static constexpr size_t kMostNodes = 20000;
  static constexpr int64_t kMostAutomata = int64_t{1} << 27;  // ByteDfa::work of a schema: about a second
  const json::value& document_;
  std::string form_;
  const UsualSizes usual_;
  std::vector<Error> errors_;
  std::set<std::string> said_;
  int64_t work_ = 0;
  const int64_t automata_before_ = ByteDfa::work();
  std::map<std::string, std::shared_ptr<const ByteDfa>> languages_;  // by what is said of a value
  std::optional<Marks> marks_;                                       // once they are asked for
  size_t nodes_ = 0;
  int looking_ = 0;
  uint32_t unmade_ = 0;        // of the place of which no node was made last: what is valid there all the same
  int64_t closed_ = 0;         // places that something closes on purpose: false, not, a recursion's end
  std::vector<Error> beside_;  // what was not done while looking: told where the schema is refused anyway
  std::vector<std::unique_ptr<json::array>> lists_;    // of values that conditions leave out
  std::vector<std::unique_ptr<json::value>> schemas_;  // that dependent members ask for
  TypedSchema out_;
};

/// Where a member of both objects, which `a` may leave out, tells what is made for `a` from `b`: has `a` write it always. False: none does.
bool write_tag(TypedPtr& a, const TypedNode& b);
/// Where objects begin alike, a member that tells them all apart is written first.
void tell_apart_first(std::vector<TypedPtr>& objects);
/// The same text for values that are equal as JSON Schema has it: numbers by value, objects in any order.
std::string canonical(const json::value& v);
inline bool same_value(const json::value& a, const json::value& b) { return canonical(a) == canonical(b); }
inline std::string_view view(const json::string& s) { return {s.data(), s.size()}; }
/// Is it a keyword that says nothing of a value?
bool is_annotation(std::string_view key);
/// A key as a part of a JSON pointer [RFC 6901].
std::string pointer_part(std::string_view key);

}  // namespace slip
