// SPDX-License-Identifier: Apache-2.0
// Tokens to a tree, with Jinja's precedences: if-else, or, and, not, comparisons, + -, ~, * / // %, unary, then attributes, calls,
// filters and tests. Names of filters, tests, methods and functions are looked up here, so that a template that needs more than there
// is, is refused before it is used.
#include <algorithm>
#include <set>

#include "text/jinja/reader.h"

namespace slip::jinja {
namespace {

constexpr int kMaxDepth = 200;  // of nested expressions and blocks; released templates stay below 20

class Parser : TokenReader {
 public:
  Parser(const std::vector<Token>& tokens, std::string_view where) : TokenReader(tokens, where) {
    // A macro may be used above its definition's line only by another macro, but its name is known everywhere.
    for (size_t i = 0; i + 2 < tokens.size(); ++i)
      if (tokens[i].type == TokenType::kBlockBegin && tokens[i + 1].text == "macro") macros_.insert(tokens[i + 2].text);
  }

  Result<NodePtr> run() {
    NodePtr root = node(Kind::kBody);
    SLIP_TRY(const std::string end, body(root->body, {}));
    if (!end.empty()) return wrong("the end of the template", end);
    return root;
  }

 private:
  struct Depth {
    int& value;
    explicit Depth(int& v) : value(v) { ++value; }
    ~Depth() { --value; }
  };

  // ---- statements
  // Until a block whose word is one of `ends`, which is returned with its begin and word consumed; empty at the template's end.
  Result<std::string> body(std::vector<NodePtr>& out, std::initializer_list<std::string_view> ends) {
    const Depth depth(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("at most {} nested blocks", kMaxDepth), "more");
    while (peek().type != TokenType::kEnd) {
      if (peek().type == TokenType::kData) {
        out.push_back(node(Kind::kData, peek().text));
        ++at_;
      } else if (peek().type == TokenType::kPrintBegin) {
        ++at_;
        SLIP_TRY(NodePtr value, tuple());
        SLIP_TRY_(need(TokenType::kPrintEnd, "the end of the tag"));
        out.push_back(with(Kind::kPrint, {}, std::move(value)));
      } else {
        ++at_;  // a block's begin: nothing else is left
        if (peek().type != TokenType::kName) return wrong("a statement", shown());
        const std::string word = tokens_[at_++].text;
        if (std::find(ends.begin(), ends.end(), word) != ends.end()) return word;
        if (word == "endfor" || word == "endif" || word == "endmacro" || word == "endset" || word == "endgeneration")
          return wrong("blocks in pairs", word);
        SLIP_TRY_(statement(word, out));
      }
    }
    if (ends.size() > 0) return wrong(*(ends.end() - 1), "the end of the template");
    return std::string();
  }
  Status end_tag() { return need(TokenType::kBlockEnd, "the end of the tag"); }
  Status end_body(std::vector<NodePtr>& out, std::string_view end) {
    SLIP_TRY_(end_tag());
    SLIP_TRY_(body(out, {end}));
    return end_tag();
  }

  // That no break leaves.
  Status closed_body(std::vector<NodePtr>& out, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    SLIP_TRY_(end_body(out, end));
    loops_ = loops;
    return {};
  }

  Status statement(const std::string& word, std::vector<NodePtr>& out) {
    if (word == "if") return if_block(out);
    if (word == "for") return for_block(out);
    if (word == "set") return set_block(out);
    if (word == "macro") return macro_block(out);
    if (word == "generation") {  // marks what a trainer learns; prints its body
      NodePtr n = node(Kind::kBody);
      SLIP_TRY_(closed_body(n->body, "endgeneration"));
      out.push_back(std::move(n));
      return {};
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) return wrong("a loop around it", word);
      out.push_back(node(word == "break" ? Kind::kBreak : Kind::kContinue));
      return end_tag();
    }
    return not_done("one of if, for, set, macro, generation, break, continue", word);
  }

  Status if_block(std::vector<NodePtr>& out) {
    const Depth depth(depth_);  // elif is a block inside else
    if (depth_ > kMaxDepth) return wrong(fmt::format("at most {} nested blocks", kMaxDepth), "more");
    SLIP_TRY(NodePtr condition, tuple());
    NodePtr n = with(Kind::kIf, {}, std::move(condition));
    SLIP_TRY_(end_tag());
    SLIP_TRY(const std::string end, body(n->body, {"elif", "else", "endif"}));
    if (end == "elif") {
      SLIP_TRY_(if_block(n->otherwise));
    } else if (end == "else") {
      SLIP_TRY_(end_body(n->otherwise, "endif"));
    } else {
      SLIP_TRY_(end_tag());
    }
    out.push_back(std::move(n));
    return {};
  }

  Result<std::vector<std::string>> targets() {
    std::vector<std::string> names;
    const bool bracket = take_op("(");
    do {
      SLIP_TRY(std::string one, name("a name"));
      names.push_back(std::move(one));
    } while (take_op(","));
    if (bracket) SLIP_TRY_(need_op(")"));
    return names;
  }

  Status for_block(std::vector<NodePtr>& out) {
    NodePtr n = node(Kind::kFor);
    SLIP_TRY(n->names, targets());
    SLIP_TRY_(need_word("in"));
    SLIP_TRY(NodePtr list, either());
    n->kids.push_back(std::move(list));
    n->kids.push_back(nullptr);
    if (take_name("if")) {
      SLIP_TRY(n->kids[1], expression());
    }
    if (is_name("recursive")) return not_done("a loop that is not recursive", "recursive");
    SLIP_TRY_(end_tag());
    ++loops_;
    SLIP_TRY(const std::string end, body(n->body, {"else", "endfor"}));
    --loops_;
    if (end == "else") {
      SLIP_TRY_(end_body(n->otherwise, "endfor"));
    } else {
      SLIP_TRY_(end_tag());
    }
    out.push_back(std::move(n));
    return {};
  }

  Status set_block(std::vector<NodePtr>& out) {
    SLIP_TRY(std::vector<std::string> names, targets());
    NodePtr n = node(Kind::kSet);
    if (names.size() == 1 && take_op(".")) {
      n->kind = Kind::kSetAttribute;
      SLIP_TRY(n->text, name("an attribute"));
    } else if (names.size() == 1 && peek().type == TokenType::kBlockEnd) {
      n->kind = Kind::kSetBlock;
      n->text = names[0];
      SLIP_TRY_(closed_body(n->body, "endset"));
      out.push_back(std::move(n));
      return {};
    }
    n->names = std::move(names);
    if (is_op("|")) return not_done("a {% set %} block without a filter", "a filter");
    SLIP_TRY_(need_op("="));
    SLIP_TRY(NodePtr value, tuple());
    n->kids.push_back(std::move(value));
    out.push_back(std::move(n));
    return end_tag();
  }

  Status macro_block(std::vector<NodePtr>& out) {
    NodePtr n = node(Kind::kMacro);
    SLIP_TRY(n->text, name("a macro's name"));
    SLIP_TRY_(need_op("("));
    while (!take_op(")")) {
      SLIP_TRY(std::string parameter, name("a parameter"));
      n->names.push_back(std::move(parameter));
      if (take_op("=")) {
        SLIP_TRY(NodePtr value, expression());
        n->kids.push_back(std::move(value));
      } else if (!n->kids.empty()) {
        return wrong("a default behind a parameter that has one", shown());
      }
      if (!is_op(")")) SLIP_TRY_(need_op(","));
    }
    SLIP_TRY_(closed_body(n->body, "endmacro"));
    out.push_back(std::move(n));
    return {};
  }

  // ---- expressions
  // Several, joined by commas, are a tuple.
  Result<NodePtr> tuple() {
    SLIP_TRY(NodePtr first, expression());
    if (!is_op(",")) return first;
    NodePtr list = with(Kind::kList, {}, std::move(first));
    list->flag = true;
    while (take_op(",")) {
      if (peek().type == TokenType::kBlockEnd || peek().type == TokenType::kPrintEnd || is_op(")")) break;
      SLIP_TRY(NodePtr next, expression());
      list->kids.push_back(std::move(next));
    }
    return list;
  }

  Result<NodePtr> expression() {
    const Depth depth(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("at most {} nested expressions", kMaxDepth), "more");
    SLIP_TRY(NodePtr value, either());
    while (take_name("if")) {
      SLIP_TRY(NodePtr condition, either());
      NodePtr other;
      if (take_name("else")) {
        SLIP_TRY(other, expression());
      }
      value = with(Kind::kConditional, {}, std::move(value), std::move(condition), std::move(other));
    }
    return value;
  }
  Result<NodePtr> either() {
    SLIP_TRY(NodePtr left, both());
    while (take_name("or")) {
      SLIP_TRY(NodePtr right, both());
      left = with(Kind::kOr, {}, std::move(left), std::move(right));
    }
    return left;
  }
  Result<NodePtr> both() {
    SLIP_TRY(NodePtr left, negation());
    while (take_name("and")) {
      SLIP_TRY(NodePtr right, negation());
      left = with(Kind::kAnd, {}, std::move(left), std::move(right));
    }
    return left;
  }
  Result<NodePtr> negation() {
    int nots = 0;
    while (take_name("not")) ++nots;
    SLIP_TRY(NodePtr value, comparison());
    if (nots == 0) return value;
    value = with(Kind::kNot, {}, std::move(value));
    return nots % 2 == 1 ? Result<NodePtr>(std::move(value)) : Result<NodePtr>(with(Kind::kNot, {}, std::move(value)));
  }
  Result<NodePtr> comparison() {
    SLIP_TRY(NodePtr left, sum());
    NodePtr n = node(Kind::kCompare);
    while (true) {
      std::string op;
      for (const char* candidate : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && take_op(candidate)) op = candidate;
      if (op.empty() && take_name("in")) op = "in";
      if (op.empty() && is_name("not") && peek(1).type == TokenType::kName && peek(1).text == "in") {
        at_ += 2;
        op = "not in";
      }
      if (op.empty()) break;
      if (n->kids.empty()) n->kids.push_back(std::move(left));
      n->names.push_back(op);
      SLIP_TRY(NodePtr right, sum());
      n->kids.push_back(std::move(right));
    }
    return n->kids.empty() ? std::move(left) : std::move(n);
  }
  Result<NodePtr> binary(std::initializer_list<std::string_view> operators, Result<NodePtr> (Parser::*next)()) {
    SLIP_TRY(NodePtr left, (this->*next)());
    while (peek().type == TokenType::kOperator) {
      const auto op = std::find(operators.begin(), operators.end(), peek().text);
      if (op == operators.end()) break;
      ++at_;
      SLIP_TRY(NodePtr right, (this->*next)());
      left = with(Kind::kBinary, std::string(*op), std::move(left), std::move(right));
    }
    return left;
  }
  Result<NodePtr> sum() { return binary({"+", "-"}, &Parser::joined); }
  Result<NodePtr> joined() { return binary({"~"}, &Parser::product); }
  Result<NodePtr> product() { return binary({"*", "/", "//", "%"}, &Parser::filtered); }

  Result<NodePtr> filtered() {
    SLIP_TRY(NodePtr value, signed_value());
    while (true) {
      if (take_op("|")) {
        SLIP_TRY(std::string filter, name("a filter"));
        if (!is_filter(filter)) return not_done("a filter that is done", filter);
        value = with(Kind::kFilter, std::move(filter), std::move(value));
        if (is_op("(")) SLIP_TRY_(arguments(*value));
      } else if (take_name("is")) {
        SLIP_TRY(value, test(std::move(value)));
      } else {
        return value;
      }
    }
  }
  Result<NodePtr> signed_value() {
    const Depth depth(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("at most {} nested expressions", kMaxDepth), "more");
    if (is_op("**")) return not_done("an expression without powers", "**");
    if (take_op("+")) return signed_value();
    if (!take_op("-")) return postfixed();
    SLIP_TRY(NodePtr value, signed_value());
    return with(Kind::kNegative, {}, std::move(value));
  }

  Result<NodePtr> test(NodePtr value) {
    const bool negated = take_name("not");
    std::string word = peek().type == TokenType::kOperator || is_name("in") ? peek().text : std::string();
    if (word == "in" || word == "==" || word == "!=") {
      ++at_;
    } else {
      SLIP_TRY(word, name("a test"));
    }
    if (!is_test(word)) return not_done("a test that is done", word);
    NodePtr n = with(Kind::kTest, word, std::move(value));
    n->flag = negated;
    const Token& next = peek();
    static const std::set<std::string_view> kWords = {"and", "or", "not", "in", "is", "if", "else"};
    if (is_op("(")) {
      SLIP_TRY_(arguments(*n));
    } else if (next.type == TokenType::kString || next.type == TokenType::kInteger || next.type == TokenType::kFloat ||
               is_op("[") || (next.type == TokenType::kName && !kWords.contains(next.text))) {
      SLIP_TRY(NodePtr argument, postfixed());
      n->kids.push_back(std::move(argument));
    }
    return n;
  }

  Status arguments(Node& call) {
    SLIP_TRY_(need_op("("));
    while (!take_op(")")) {
      if (is_op("*") || is_op("**")) return not_done("arguments one by one", shown());
      if (peek().type == TokenType::kName && peek(1).type == TokenType::kOperator && peek(1).text == "=") {
        SLIP_TRY(std::string key, name("an argument's name"));
        ++at_;
        SLIP_TRY(NodePtr value, expression());
        call.named.emplace_back(std::move(key), std::move(value));
      } else {
        if (!call.named.empty()) return wrong("a named argument behind a named one", shown());
        SLIP_TRY(NodePtr value, expression());
        call.kids.push_back(std::move(value));
      }
      if (!is_op(")")) SLIP_TRY_(need_op(","));
    }
    return {};
  }

  Result<NodePtr> postfixed() {
    SLIP_TRY(NodePtr value, primary());
    while (true) {
      if (take_op(".")) {
        if (peek().type == TokenType::kInteger) {
          NodePtr index = node(Kind::kConstant);
          index->value = int64_t{std::stoll(tokens_[at_++].text)};
          value = with(Kind::kIndex, {}, std::move(value), std::move(index));
          continue;
        }
        SLIP_TRY(std::string attribute, name("an attribute"));
        const bool call = is_op("(");
        if (call && !is_method(attribute)) return not_done("a method that is done", attribute);
        value = with(call ? Kind::kMethod : Kind::kAttribute, std::move(attribute), std::move(value));
        if (call) SLIP_TRY_(arguments(*value));
      } else if (take_op("[")) {
        SLIP_TRY(value, subscript(std::move(value)));
      } else if (is_op("(")) {
        if (value->kind != Kind::kName) return not_done("a function's name before its arguments", "an expression");
        if (!is_function(value->text) && !macros_.contains(value->text)) return not_done("a function that is done", value->text);
        value->kind = Kind::kCall;
        SLIP_TRY_(arguments(*value));
      } else {
        return value;
      }
    }
  }

  Result<NodePtr> subscript(NodePtr object) {
    NodePtr parts[3];
    size_t colons = 0;
    while (!take_op("]")) {
      if (take_op(":")) {
        if (++colons > 2) return wrong("at most two colons", "three");
      } else if (parts[colons]) {
        return wrong("]", shown());
      } else {
        SLIP_TRY(parts[colons], expression());
      }
    }
    if (colons > 0) return with(Kind::kSlice, {}, std::move(object), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
    if (!parts[0]) return wrong("an index", "]");
    return with(Kind::kIndex, {}, std::move(object), std::move(parts[0]));
  }

  Result<NodePtr> primary() {
    const Token& token = peek();
    switch (token.type) {
      case TokenType::kString: {
        NodePtr n = node(Kind::kConstant);
        std::string text;
        while (peek().type == TokenType::kString) text += tokens_[at_++].text;
        n->value = std::move(text);
        return n;
      }
      case TokenType::kInteger:
      case TokenType::kFloat: {
        NodePtr n = node(Kind::kConstant);
        n->value = token.type == TokenType::kInteger ? Value(int64_t{std::stoll(token.text)}) : Value(std::stod(token.text));
        ++at_;
        return n;
      }
      case TokenType::kName:
        return word();
      case TokenType::kOperator:
        return bracketed();
      default:
        return wrong("an expression", shown());
    }
  }
  Result<NodePtr> word() {
    NodePtr n = node(Kind::kConstant);
    SLIP_TRY(std::string text, name("an expression"));
    if (text == "true" || text == "True") {
      n->value = true;
    } else if (text == "false" || text == "False") {
      n->value = false;
    } else if (text == "none" || text == "None") {
      n->value = None{};
    } else {
      n->kind = Kind::kName;
      n->text = std::move(text);
    }
    return n;
  }
  Result<NodePtr> bracketed() {
    if (take_op("(")) {
      if (take_op(")")) {
        NodePtr none = node(Kind::kList);
        none->flag = true;
        return none;
      }
      SLIP_TRY(NodePtr value, tuple());
      SLIP_TRY_(need_op(")"));
      return value;
    }
    NodePtr n = node(Kind::kList);
    if (take_op("[")) {
      while (!take_op("]")) {
        SLIP_TRY(NodePtr value, expression());
        n->kids.push_back(std::move(value));
        if (!is_op("]")) SLIP_TRY_(need_op(","));
      }
      return n;
    }
    if (!take_op("{")) return wrong("an expression", shown());
    n->kind = Kind::kDict;
    while (!take_op("}")) {
      SLIP_TRY(NodePtr key, expression());
      SLIP_TRY_(need_op(":"));
      SLIP_TRY(NodePtr value, expression());
      n->kids.push_back(std::move(key));
      n->kids.push_back(std::move(value));
      if (!is_op("}")) SLIP_TRY_(need_op(","));
    }
    return n;
  }

  std::set<std::string, std::less<>> macros_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Result<NodePtr> parse(const std::vector<Token>& tokens, std::string_view where) { return Parser(tokens, where).run(); }

}  // namespace slip::jinja
