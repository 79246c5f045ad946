// SPDX-License-Identifier: Apache-2.0
// Running a template's tree. Names are looked up from the innermost scope. A loop's body has a scope of its own for every turn, as have
// its else, the body of a {% set %} block and that of {% generation %}, so that only namespaces carry values out (as in Jinja). A macro
// sees its parameters and the names of the scope that it was defined in.
#include "text/jinja/jinja.h"

#include <algorithm>
#include <optional>

#include "text/jinja/syntax.h"

namespace slip::jinja {
namespace {

constexpr int kMaxCalls = 50;    // of macros in macros
constexpr int kMaxLevels = 400;  // of bodies and expressions; each takes 1.0 to 1.4 KiB of stack (g++ 12, -O2): 0.6 MB in all

enum class Flow : uint8_t { kOn, kBreak, kContinue };

class Run {
 public:
  Run(const Dict& context, std::string_view where) : where_(where) {
    scopes_.push_back({context, 0, 0});
    open_scope(0);
  }
  Result<std::string> all(const Node& root) {
    SLIP_TRY_(body(root.body));
    return std::move(out_);
  }

 private:
  // ---- names
  Result<Value> look_up(const std::string& name) {
    for (size_t i = scopes_.size() - 1;; i = scopes_[i].around) {
      const Dict& names = scopes_[i].names;
      SLIP_TRY_(budget_.look_in(names.entries.size(), name));
      if (const Value* v = names.find(name)) return *v;
      if (i == 0) return is_global(name) ? Value(Macro{}) : Value();
    }
  }
  Status set(const std::string& name, Value value) {
    Dict& names = scopes_.back().names;
    SLIP_TRY_(budget_.look_in(names.entries.size(), name));
    names.set(name, std::move(value));
    return {};
  }
  void open_scope(size_t around) { scopes_.push_back({Dict{}, around, ++serial_}); }
  void open_scope() { open_scope(scopes_.size() - 1); }
  Result<Flow> scoped(const std::vector<NodePtr>& nodes) {
    open_scope();
    auto flow = body(nodes);
    scopes_.pop_back();
    return flow;
  }
  Error at(const Node& n, const Error& e) const {
    if (e.message.starts_with(where_)) return e;
    return Error{e.kind, fmt::format("{}: line {}: {}", where_, n.line, e.message)};
  }

  // Bodies and expressions inside of each other, through macros too: each is a call of eval() or body() that has not ended.
  struct Level {
    int& value;
    explicit Level(int& v) : value(v) { ++value; }
    ~Level() { --value; }
    Status check() const {
      if (value > kMaxLevels)
        return bad_input("expected at most {} blocks, calls and expressions inside of each other, got more", kMaxLevels);
      return {};
    }
  };

  // ---- statements
  Result<Flow> body(const std::vector<NodePtr>& nodes) {
    const Level level(levels_);
    SLIP_TRY_(level.check());
    for (const NodePtr& n : nodes) {
      auto flow = statement(*n);
      if (!flow) return at(*n, flow.error());
      if (*flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Status print(std::string_view text) {
    SLIP_TRY_(budget_.take(0, static_cast<int64_t>(text.size())));
    out_ += text;
    return {};
  }

  Result<Flow> statement(const Node& n) {
    SLIP_TRY_(budget_.take(1, 0));
    switch (n.kind) {
      case Kind::kData:
        SLIP_TRY_(print(n.text));
        return Flow::kOn;
      case Kind::kPrint: {
        SLIP_TRY(const Value value, eval(*n.kids[0]));
        SLIP_TRY(const std::string text, to_text(value));
        SLIP_TRY_(print(text));
        return Flow::kOn;
      }
      case Kind::kIf: {
        SLIP_TRY(const Value condition, eval(*n.kids[0]));
        return body(condition.truthy() ? n.body : n.otherwise);
      }
      case Kind::kFor:
        return for_loop(n);
      case Kind::kSet: {
        SLIP_TRY(Value value, eval(*n.kids[0]));
        SLIP_TRY_(bind(n.names, std::move(value)));
        return Flow::kOn;
      }
      case Kind::kSetAttribute:
        SLIP_TRY_(set_attribute(n));
        return Flow::kOn;
      case Kind::kSetBlock: {
        open_scope();
        auto text = captured(n.body);
        scopes_.pop_back();
        if (!text) return text.error();
        SLIP_TRY_(set(n.text, std::move(*text)));
        return Flow::kOn;
      }
      case Kind::kMacro:
        SLIP_TRY_(set(n.text, Macro{&n, scopes_.size() - 1, scopes_.back().serial}));
        return Flow::kOn;
      case Kind::kBreak:
        return Flow::kBreak;
      case Kind::kContinue:
        return Flow::kContinue;
      default:
        return scoped(n.body);  // {% generation %}
    }
  }

  Result<std::string> captured(const std::vector<NodePtr>& nodes) {
    std::string outer = std::exchange(out_, {});
    auto flow = body(nodes);
    std::string text = std::exchange(out_, std::move(outer));
    if (!flow) return flow.error();
    return text;
  }

  Status bind(const std::vector<std::string>& names, Value value) {
    if (names.size() == 1) return set(names[0], std::move(value));
    SLIP_TRY(List parts, elements(value, budget_));
    if (parts.size() != names.size())
      return bad_input("expected {} values for {} names, got {}", names.size(), names.size(), parts.size());
    for (size_t i = 0; i < names.size(); ++i) SLIP_TRY_(set(names[i], std::move(parts[i])));
    return {};
  }

  // A namespace inside a namespace could hold itself.
  Status set_attribute(const Node& n) {
    SLIP_TRY(const Value object, look_up(n.names[0]));
    Dict* dict = object.dict();
    if (!dict || !dict->is_namespace)
      return bad_input("{}: expected a namespace to set an attribute of, got {}", n.names[0], object.type_name());
    SLIP_TRY(Value value, eval(*n.kids[0]));
    SLIP_TRY(const bool nested, holds_namespace(value, budget_));
    if (nested) return unsupported("expected a value without namespaces in it, got one with");
    SLIP_TRY_(budget_.look_in(dict->entries.size(), n.text));
    dict->set(n.text, std::move(value));
    return {};
  }

  Result<Flow> for_loop(const Node& n) {
    SLIP_TRY(const Value over, eval(*n.kids[0]));
    SLIP_TRY(List items, elements(over, budget_));
    if (n.kids[1]) {
      List kept;
      for (Value& item : items) {
        open_scope();
        const Status bound = bind(n.names, item);
        auto wanted = bound ? eval(*n.kids[1]) : Result<Value>(bound.error());
        scopes_.pop_back();
        if (!wanted) return wanted.error();
        if (wanted->truthy()) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) return scoped(n.otherwise);
    for (size_t i = 0; i < items.size(); ++i) {
      open_scope();
      const auto index = static_cast<int64_t>(i), length = static_cast<int64_t>(items.size());
      scopes_.back().names.set("loop", Dict{{{"index", index + 1},
                                             {"index0", index},
                                             {"revindex", length - index},
                                             {"revindex0", length - index - 1},
                                             {"first", i == 0},
                                             {"last", i + 1 == items.size()},
                                             {"length", length},
                                             {"depth", 1},  // of recursive loops, which are not done
                                             {"depth0", 0},
                                             {"previtem", i > 0 ? items[i - 1] : Value()},
                                             {"nextitem", i + 1 < items.size() ? items[i + 1] : Value()}}});
      const Status bound = bind(n.names, items[i]);
      auto flow = bound ? body(n.body) : Result<Flow>(bound.error());
      scopes_.pop_back();
      if (!flow) return flow;
      if (*flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  // ---- expressions
  Result<Value> eval(const Node& n) {
    const Level level(levels_);
    if (const Status shallow = level.check(); !shallow) return at(n, shallow.error());
    if (const Status affordable = budget_.take(1, 0); !affordable) return at(n, affordable.error());
    auto value = expression(n);
    if (!value) return at(n, value.error());
    if (value->depth() > kMostLevels)
      return at(n, bad_input("expected at most {} lists and dictionaries inside of each other, got more", kMostLevels));
    if (const std::string* s = value->string())
      if (const Status affordable = budget_.take(0, static_cast<int64_t>(s->size())); !affordable) return at(n, affordable.error());
    return value;
  }

  Result<Value> expression(const Node& n) {
    switch (n.kind) {
      case Kind::kConstant:
        return n.value;
      case Kind::kName:
        return look_up(n.text);
      case Kind::kList:
        return list_of(n);
      case Kind::kDict:
        return dict_of(n);
      case Kind::kAttribute:
        return attribute(n);
      case Kind::kIndex:
        return index(n);
      case Kind::kSlice:
        return slice(n);
      case Kind::kCall:
        return call(n);
      case Kind::kMethod:
      case Kind::kFilter:
      case Kind::kTest:
        return applied(n);
      case Kind::kNegative:
        return negative(n);
      case Kind::kBinary:
        return binary(n);
      case Kind::kCompare:
        return compare(n);
      case Kind::kAnd:
      case Kind::kOr: {
        SLIP_TRY(Value left, eval(*n.kids[0]));
        if (left.truthy() == (n.kind == Kind::kOr)) return left;
        return eval(*n.kids[1]);
      }
      case Kind::kNot: {
        SLIP_TRY(const Value value, eval(*n.kids[0]));
        return Value(!value.truthy());
      }
      case Kind::kConditional: {
        SLIP_TRY(const Value condition, eval(*n.kids[1]));
        if (condition.truthy()) return eval(*n.kids[0]);
        return n.kids[2] ? eval(*n.kids[2]) : Result<Value>(Value());
      }
      default:
        return bad_input("expected an expression, got a statement");
    }
  }

  Result<Value> list_of(const Node& n) {
    List list;
    for (const NodePtr& kid : n.kids) {
      SLIP_TRY(Value value, eval(*kid));
      list.push_back(std::move(value));
    }
    return Value(std::make_shared<const Listing>(std::move(list), n.flag));
  }

  Result<Value> dict_of(const Node& n) {
    Dict dict;
    for (size_t i = 0; i + 1 < n.kids.size(); i += 2) {
      SLIP_TRY(const Value key, eval(*n.kids[i]));
      SLIP_TRY(Value value, eval(*n.kids[i + 1]));
      if (!key.string()) return unsupported("expected strings as keys of a dictionary, got {}", key.type_name());
      SLIP_TRY_(budget_.look_in(dict.entries.size(), *key.string()));
      dict.set(*key.string(), std::move(value));
    }
    return Value(std::move(dict));
  }

  Result<Value> negative(const Node& n) {
    SLIP_TRY(const Value value, eval(*n.kids[0]));
    int64_t i = 0;
    if (value.integer(i)) return operate("-", Value(0), value, budget_);
    if (!value.is_number()) return bad_input("expected a number behind -, got {}", value.type_name());
    return Value(-value.number());
  }

  Result<Value> attribute(const Node& n) {
    SLIP_TRY(const Value object, eval(*n.kids[0]));
    SLIP_TRY(const Value* const own, own_attribute(object, n.text));
    if (own) return *own;  // before a key of that name
    if (const Dict* d = object.dict()) {
      SLIP_TRY_(budget_.look_in(d->entries.size(), n.text));
      const Value* v = d->find(n.text);
      return v ? *v : Value();
    }
    if (object.undefined()) return bad_input("expected something to have .{}, got an undefined value", n.text);
    return Value();
  }

  Result<Value> index(const Node& n) {
    SLIP_TRY(const Value object, eval(*n.kids[0]));
    SLIP_TRY(const Value key, eval(*n.kids[1]));
    if (const Dict* d = object.dict(); d && key.string()) SLIP_TRY_(budget_.look_in(d->entries.size(), *key.string()));
    return element(object, key);
  }

  // An end of a slice, as Python clamps it.
  Result<int64_t> bound(const Node* n, int64_t other, int64_t low, int64_t high, int64_t length) {
    if (!n) return other;
    SLIP_TRY(const Value value, eval(*n));
    if (value.none()) return other;
    int64_t i = 0;
    if (!value.integer(i)) return bad_input("expected an integer in a slice, got {}", value.type_name());
    return std::clamp(i < 0 ? i + length : i, low, high);
  }

  Result<Value> slice(const Node& n) {
    SLIP_TRY(const Value object, eval(*n.kids[0]));
    const List* list = object.is_lazy() ? nullptr : object.list();
    if (!list && !object.string()) return bad_input("expected a list or a string to take a slice of, got {}", object.type_name());
    const int64_t length = list ? static_cast<int64_t>(list->size()) : characters(*object.string());
    int64_t step = 1;
    if (n.kids[3]) {
      SLIP_TRY(const Value value, eval(*n.kids[3]));
      if (!value.integer(step) || step == 0 || step > (1 << 30) || step < -(1 << 30))
        return bad_input("expected an integer other than 0 as a slice's step, got {}", value.type_name());
    }
    SLIP_TRY(const int64_t begin,
             bound(n.kids[1].get(), step > 0 ? 0 : length - 1, step > 0 ? 0 : -1, step > 0 ? length : length - 1, length));
    SLIP_TRY(const int64_t end,
             bound(n.kids[2].get(), step > 0 ? length : -1, step > 0 ? 0 : -1, step > 0 ? length : length - 1, length));
    if (!list) {
      if (step != 1) return unsupported("expected a slice of a string without a step, got a step of {}", step);
      return Value(std::string(characters_of(*object.string(), begin, end)));
    }
    SLIP_TRY_(budget_.take(0, object.list_bytes()));
    List out;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
      out.push_back((*list)[static_cast<size_t>(i)]);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    SLIP_TRY_(budget_.take(static_cast<int64_t>(out.size()), 0));
    return Value(std::make_shared<const Listing>(std::move(out), object.is_tuple()));
  }

  Result<Arguments> arguments(const Node& n, size_t from) {
    Arguments out;
    for (size_t i = from; i < n.kids.size(); ++i) {
      SLIP_TRY(Value value, eval(*n.kids[i]));
      out.values.push_back(std::move(value));
    }
    for (const auto& [name, kid] : n.named) {
      SLIP_TRY(Value value, eval(*kid));
      out.named.emplace_back(name, std::move(value));
    }
    return out;
  }

  Result<Value> applied(const Node& n) {
    SLIP_TRY(const Value object, eval(*n.kids[0]));
    SLIP_TRY(const Arguments a, arguments(n, 1));
    if (n.kind == Kind::kFilter) return apply_filter(n.text, object, a, budget_);
    if (n.kind == Kind::kMethod) return call_method(n.text, object, a, budget_);
    SLIP_TRY(const bool holds, apply_test(n.text, object, a, budget_));
    return Value(holds != n.flag);
  }

  Result<Value> call(const Node& n) {
    SLIP_TRY(const Arguments a, arguments(n, 0));
    SLIP_TRY(const Value known, look_up(n.text));
    const auto* macro = std::get_if<Macro>(&known.v);
    if (macro && macro->node) return call_macro(*macro, a);
    if (!macro && !known.undefined() && n.text != "strftime_now")
      return bad_input("{}: expected a function or macro, got {}", n.text, known.type_name());
    if (n.text == "raise_exception") {
      SLIP_TRY(const std::string text, to_text(a.at(0, "message")));
      return bad_input("expected messages that the template takes, got its refusal: {}", text);
    }
    if (n.text == "namespace") {
      Dict dict{a.named, true};
      if (!a.values.empty()) return unsupported("namespace: expected named values, got others");
      return Value(std::move(dict));
    }
    if (n.text == "dict" && a.values.empty()) return Value(Dict{a.named, false});
    if (n.text == "range") return range(a, budget_);
    if (n.text == "strftime_now") {
      SLIP_TRY(const std::string format, to_text(a.at(0, "format")));
      SLIP_TRY(std::string date, format_date(known.string() ? *known.string() : "", format));
      return Value(std::move(date));
    }
    return bad_input("{}: expected a function or macro, got {}", n.text, known.type_name());
  }

  Status check_arguments(const Node& macro, const Arguments& a) const {
    if (a.values.size() > macro.names.size())
      return bad_input("{}: expected at most {} arguments, got {}", macro.text, macro.names.size(), a.values.size());
    for (const auto& [name, value] : a.named) {
      const auto place = static_cast<size_t>(std::find(macro.names.begin(), macro.names.end(), name) - macro.names.begin());
      if (place == macro.names.size()) return bad_input("{}: expected no argument {}, got one", macro.text, name);
      if (place < a.values.size()) return bad_input("{}: expected one argument {}, got two", macro.text, name);
    }
    return {};
  }

  // Defaults see the parameters before theirs.
  Status bind_parameters(const Node& macro, const Arguments& a) {
    const size_t plain = macro.names.size() - macro.kids.size();
    for (size_t i = 0; i < macro.names.size(); ++i) {
      Value value = a.at(i, macro.names[i]);
      if (i >= plain && !a.has(i, macro.names[i])) {
        SLIP_TRY(value, eval(*macro.kids[i - plain]));
      }
      SLIP_TRY_(set(macro.names[i], std::move(value)));
    }
    return {};
  }

  Result<Value> call_macro(const Macro& macro, const Arguments& a) {
    const Node& n = *macro.node;
    if (++calls_ > kMaxCalls) return bad_input("{}: expected at most {} macros in macros, got more", n.text, kMaxCalls);
    if (macro.scope >= scopes_.size() || scopes_[macro.scope].serial != macro.serial)
      return unsupported("{}: expected a macro of a block that has not ended, got one of a block that has", n.text);
    SLIP_TRY_(check_arguments(n, a));
    open_scope(macro.scope);
    const Status bound = bind_parameters(n, a);
    auto text = bound ? captured(n.body) : Result<std::string>(bound.error());
    scopes_.pop_back();
    --calls_;
    if (!text) return text.error();
    return Value(std::move(*text));
  }

  Result<Value> binary(const Node& n) {
    SLIP_TRY(const Value a, eval(*n.kids[0]));
    SLIP_TRY(const Value b, eval(*n.kids[1]));
    return operate(n.text, a, b, budget_);
  }

  Result<Value> compare(const Node& n) {
    SLIP_TRY(Value left, eval(*n.kids[0]));
    for (size_t i = 0; i < n.names.size(); ++i) {
      SLIP_TRY(Value right, eval(*n.kids[i + 1]));
      SLIP_TRY(const bool holds, holds_between(n.names[i], left, right, budget_));
      if (!holds) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  std::string_view where_;
  struct Scope {
    Dict names;
    size_t around;  // the place of the scope that is looked in next
    int64_t serial;
  };
  std::vector<Scope> scopes_;  // 0: the context; 1: the template's own names; then loops, macros and blocks
  int64_t serial_ = 0;
  int calls_ = 0, levels_ = 0;
  std::string out_;
  Budget budget_;
};

}  // namespace

Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view text, std::string_view where) {
  SLIP_TRY(const std::vector<Token> tokens, tokenize(text, where));
  Template out;
  out.where_ = where;
  SLIP_TRY(out.root_, parse(tokens, where));
  return out;
}

Result<std::string> Template::render(const Dict& context) const { return Run(context, where_).all(*root_); }

}  // namespace slip::jinja
