// SPDX-License-Identifier: Apache-2.0
// The pickle machine: a stack of node numbers, marks, a memo. Whitelists and bounds are stated in pickle.h.
#include "core/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace slip {
namespace {

using Kind = PickleNode::Kind;

// data.pkl of a 7B checkpoint with its optimiser has some 20,000 objects in 2 MB.
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr size_t kMaxNodes = size_t{1} << 22;

constexpr std::array<std::string_view, 12> kGlobals = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                                       "torch.FloatStorage",      "torch.DoubleStorage",
                                                       "torch.HalfStorage",       "torch.BFloat16Storage",
                                                       "torch.LongStorage",       "torch.IntStorage",
                                                       "torch.ShortStorage",      "torch.CharStorage",
                                                       "torch.ByteStorage",       "torch.BoolStorage"};

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}
  Result<PickleObjects> run();

 private:
  template <class... A>
  Error wrong(fmt::format_string<A...> f, A&&... a) const {
    return bad_input("{}: offset {}: {}", where_, start_, fmt::format(f, std::forward<A>(a)...));
  }
  // Little-endian number of n bytes.
  Result<uint64_t> number(size_t n);
  Result<std::string_view> text(uint64_t n);
  Result<std::string_view> line();

  Status push(PickleNode node);
  Status push_ref(int32_t i);
  Status push_kind(Kind kind) { return push({.kind = kind}); }
  Status push_integer(int64_t v) { return push({.kind = Kind::kInteger, .integer = v}); }
  Result<int32_t> pop();
  Result<std::vector<int32_t>> pop_to_mark();
  Result<int32_t> top();

  Status one(uint8_t op);
  Status scalar(uint8_t op);
  Status container(uint8_t op);
  Status object(uint8_t op);
  Status remember(uint64_t key);
  Status recall(uint64_t key);
  Status tuple(size_t n);
  Status add_to_list(std::span<const int32_t> items);
  Status add_to_dict(std::span<const int32_t> items);
  Status global(std::string_view module, std::string_view name);
  Status storage();
  Status reduce();
  Status build();
  Status long_integer();

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t at_ = 0, start_ = 0;
  PickleObjects out_;
  std::vector<int32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, int32_t> memo_;
};

Result<uint64_t> Machine::number(size_t n) {
  if (bytes_.size() - at_ < n) return wrong("expected {} more bytes, got {}", n, bytes_.size() - at_);
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i) v |= uint64_t{std::to_integer<uint8_t>(bytes_[at_ + i])} << (8 * i);
  at_ += n;
  return v;
}

Result<std::string_view> Machine::text(uint64_t n) {
  if (bytes_.size() - at_ < n) return wrong("expected a text of {} bytes, got {}", n, bytes_.size() - at_);
  const std::string_view s(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
  at_ += n;
  return s;
}

Result<std::string_view> Machine::line() {
  constexpr size_t kLongest = 256;  // module and name of a global
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, std::min(bytes_.size() - at_, kLongest));
  const size_t n = rest.find('\n');
  if (n == std::string_view::npos) return wrong("expected a line of at most {} bytes, got none", kLongest);
  at_ += n + 1;
  return rest.substr(0, n);
}

Status Machine::push(PickleNode node) {
  if (out_.nodes.size() >= kMaxNodes) return wrong("expected at most {} objects, got more", kMaxNodes);
  out_.nodes.push_back(std::move(node));
  return push_ref(static_cast<int32_t>(out_.nodes.size() - 1));
}

Status Machine::push_ref(int32_t i) {
  if (stack_.size() >= kMaxNodes) return wrong("expected a stack of at most {}, got more", kMaxNodes);
  stack_.push_back(i);
  return {};
}

Result<int32_t> Machine::pop() {
  if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
    return wrong("expected an object on the stack, got none");
  const int32_t i = stack_.back();
  stack_.pop_back();
  return i;
}

Result<int32_t> Machine::top() {
  if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
    return wrong("expected an object on the stack, got none");
  return stack_.back();
}

Result<std::vector<int32_t>> Machine::pop_to_mark() {
  if (marks_.empty()) return wrong("expected a mark on the stack, got none");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<int32_t> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

Status Machine::remember(uint64_t key) {
  SLIP_TRY(const int32_t i, top());
  if (memo_.size() >= kMaxNodes) return wrong("expected at most {} remembered objects, got more", kMaxNodes);
  memo_[key] = i;
  return {};
}

Status Machine::recall(uint64_t key) {
  const auto at = memo_.find(key);
  if (at == memo_.end()) return wrong("expected a remembered object, got number {}", key);
  return push_ref(at->second);
}

Status Machine::tuple(size_t n) {
  PickleNode node{.kind = Kind::kTuple};
  node.items.resize(n);
  for (size_t i = n; i > 0; --i) {
    SLIP_TRY(node.items[i - 1], pop());
  }
  return push(std::move(node));
}

Status Machine::add_to_list(std::span<const int32_t> items) {
  SLIP_TRY(const int32_t list, top());
  PickleNode& node = out_.nodes[static_cast<size_t>(list)];
  if (node.kind != Kind::kList) return wrong("expected a list to append to, got another object");
  node.items.insert(node.items.end(), items.begin(), items.end());
  return {};
}

Status Machine::add_to_dict(std::span<const int32_t> items) {
  SLIP_TRY(const int32_t dict, top());
  PickleNode& node = out_.nodes[static_cast<size_t>(dict)];
  if (node.kind != Kind::kDict || items.size() % 2 != 0) return wrong("expected a dict and pairs to put in, got others");
  node.items.insert(node.items.end(), items.begin(), items.end());
  return {};
}

Status Machine::global(std::string_view module, std::string_view name) {
  const std::string full = fmt::format("{}.{}", module, name);
  if (std::find(kGlobals.begin(), kGlobals.end(), full) == kGlobals.end())
    return wrong("expected what a checkpoint of plain tensors needs, got the global {} (nothing was executed)",
                 full.substr(0, 120));
  return push({.kind = Kind::kGlobal, .text = full});
}

// ('storage', type, key, location, elements)
Status Machine::storage() {
  SLIP_TRY(const int32_t id, pop());
  const auto refused = [&] { return wrong("expected a persistent id of a storage, got another"); };
  const std::vector<int32_t>& items = out_.at(id).items;
  if (out_.at(id).kind != Kind::kTuple || items.size() != 5) return refused();
  const PickleNode &word = out_.at(items[0]), &type = out_.at(items[1]), &key = out_.at(items[2]), &count = out_.at(items[4]);
  if (word.kind != Kind::kText || word.text != "storage" || type.kind != Kind::kGlobal || !type.text.ends_with("Storage") ||
      key.kind != Kind::kText || count.kind != Kind::kInteger || count.integer < 0)
    return refused();
  PickleNode node{.kind = Kind::kStorage, .integer = count.integer, .text = key.text, .items = {items[1]}};
  return push(std::move(node));
}

Status Machine::reduce() {
  SLIP_TRY(const int32_t arguments, pop());
  SLIP_TRY(const int32_t callable, pop());
  const PickleNode &f = out_.at(callable), &a = out_.at(arguments);
  if (f.kind != Kind::kGlobal || a.kind != Kind::kTuple) return wrong("expected a constructor and its arguments, got others");
  if (f.text == "collections.OrderedDict" && a.items.empty()) return push_kind(Kind::kDict);
  if (f.text == "torch._utils._rebuild_tensor_v2" && (a.items.size() == 6 || a.items.size() == 7)) {
    PickleNode node{.kind = Kind::kTensor, .items = a.items};
    return push(std::move(node));
  }
  return wrong("expected arguments of {}, got {} of them", f.text, a.items.size());
}

// Attributes of a state dict (`_metadata`): dropped.
Status Machine::build() {
  SLIP_TRY(const int32_t state, pop());
  SLIP_TRY(const int32_t object, top());
  if (out_.at(object).kind != Kind::kDict || out_.at(state).kind != Kind::kDict)
    return wrong("expected attributes of a dict, got those of another object");
  return {};
}

Status Machine::long_integer() {
  SLIP_TRY(const uint64_t n, number(1));
  if (n > 8) return wrong("expected an integer of at most 8 bytes, got {}", n);
  SLIP_TRY(uint64_t v, number(n));
  if (n > 0 && n < 8 && (v >> (8 * n - 1)) != 0) v |= ~uint64_t{0} << (8 * n);  // two's complement
  return push_integer(static_cast<int64_t>(v));
}

Status Machine::scalar(uint8_t op) {
  switch (op) {
    case 'N':
      return push_kind(Kind::kNone);
    case 0x88:
    case 0x89:
      return push({.kind = Kind::kBool, .integer = op == 0x88});
    case 'J': {
      SLIP_TRY(const uint64_t v, number(4));
      return push_integer(static_cast<int32_t>(static_cast<uint32_t>(v)));
    }
    case 'K':
    case 'M': {
      SLIP_TRY(const uint64_t v, number(op == 'K' ? 1 : 2));
      return push_integer(static_cast<int64_t>(v));
    }
    case 0x8a:
      return long_integer();
    case 'G': {  // big-endian
      SLIP_TRY(const uint64_t v, number(8));
      return push({.kind = Kind::kReal, .real = std::bit_cast<double>(__builtin_bswap64(v))});
    }
    default: {  // 'X', 0x8c
      SLIP_TRY(const uint64_t n, number(op == 'X' ? 4 : 1));
      SLIP_TRY(const std::string_view s, text(n));
      return push({.kind = Kind::kText, .text = std::string(s)});
    }
  }
}

Status Machine::container(uint8_t op) {
  switch (op) {
    case '}':
      return push_kind(Kind::kDict);
    case ']':
      return push_kind(Kind::kList);
    case ')':
      return push_kind(Kind::kTuple);
    case 0x85:
    case 0x86:
    case 0x87:
      return tuple(op - 0x84u);
    case '(':
      if (marks_.size() >= kMaxNodes) return wrong("expected at most {} marks, got more", kMaxNodes);
      marks_.push_back(stack_.size());
      return {};
    case 't': {
      SLIP_TRY(std::vector<int32_t> items, pop_to_mark());
      return push({.kind = Kind::kTuple, .items = std::move(items)});
    }
    case 'e': {
      SLIP_TRY(const std::vector<int32_t> items, pop_to_mark());
      return add_to_list(items);
    }
    case 'u': {
      SLIP_TRY(const std::vector<int32_t> items, pop_to_mark());
      return add_to_dict(items);
    }
    case 'a': {
      SLIP_TRY(const int32_t item, pop());
      return add_to_list({&item, 1});
    }
    default: {  // 's'
      SLIP_TRY(const int32_t value, pop());
      SLIP_TRY(const int32_t key, pop());
      return add_to_dict(std::array{key, value});
    }
  }
}

Status Machine::object(uint8_t op) {
  switch (op) {
    case 'c': {
      SLIP_TRY(const std::string_view module, line());
      SLIP_TRY(const std::string_view name, line());
      return global(module, name);
    }
    case 0x93: {
      SLIP_TRY(const int32_t name, pop());
      SLIP_TRY(const int32_t module, pop());
      if (out_.at(name).kind != Kind::kText || out_.at(module).kind != Kind::kText)
        return wrong("expected the name of a global, got another object");
      return global(std::string(out_.at(module).text), std::string(out_.at(name).text));
    }
    case 'q':
    case 'r':
    case 'h':
    case 'j': {
      SLIP_TRY(const uint64_t key, number(op == 'q' || op == 'h' ? 1 : 4));
      return op == 'q' || op == 'r' ? remember(key) : recall(key);
    }
    case 0x94:
      return remember(memo_.size());
    case 'Q':
      return storage();
    case 'R':
      return reduce();
    default:  // 'b'
      return build();
  }
}

Status Machine::one(uint8_t op) {
  constexpr std::string_view kScalars = "NJKMGX", kContainers = "}])(teuas", kObjects = "cqrhjQRb";
  const auto in = [op](std::string_view set) { return op < 0x80 && set.find(static_cast<char>(op)) != std::string_view::npos; };
  if (in(kScalars) || op == 0x88 || op == 0x89 || op == 0x8a || op == 0x8c) return scalar(op);
  if (in(kContainers) || (op >= 0x85 && op <= 0x87)) return container(op);
  if (in(kObjects) || op == 0x93 || op == 0x94) return object(op);
  if (op == 0x80 || op == 0x95) {  // protocol, frame
    SLIP_TRY(const uint64_t v, number(op == 0x80 ? 1 : 8));
    if (op == 0x80 && (v < 2 || v > 5)) return wrong("expected pickle protocol 2 to 5, got {}", v);
    return {};
  }
  return wrong("expected an opcode of a checkpoint of tensors, got 0x{:02x}", op);
}

Result<PickleObjects> Machine::run() {
  if (bytes_.size() > kMaxBytes) return wrong("expected at most {} bytes, got {}", kMaxBytes, bytes_.size());
  while (true) {
    start_ = at_;
    SLIP_TRY(const uint64_t op, number(1));
    if (op == '.') break;
    SLIP_TRY_(one(static_cast<uint8_t>(op)));
  }
  SLIP_TRY(out_.root, pop());
  if (!stack_.empty() || !marks_.empty()) return wrong("expected one object at the end, got more");
  return std::move(out_);
}

}  // namespace

Result<PickleObjects> read_pickle(std::span<const std::byte> bytes, std::string_view where) { return Machine(bytes, where).run(); }

}  // namespace slip
