// SPDX-License-Identifier: Apache-2.0
// The mutations of mutate.h.
#include "fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace slip::fuzz {

namespace {

uint32_t below(PhiloxStream& random, size_t n) { return random.below(static_cast<uint32_t>(std::max<size_t>(n, 1))); }

/// All values of a document, with the root; pointers hold until the document changes.
void collect(json::value& v, std::vector<json::value*>& out) {
  out.push_back(&v);
  if (auto* o = v.if_object()) {
    for (auto& item : *o) collect(item.value(), out);
  } else if (auto* a = v.if_array()) {
    for (json::value& item : *a) collect(item, out);
  }
}

/// Numbers at the edges of the types that readers keep them in, and small ones.
json::value edge_number(PhiloxStream& random) {
  constexpr int64_t kWhole[] = {0,
                                1,
                                2,
                                3,
                                7,
                                8,
                                64,
                                255,
                                256,
                                65535,
                                65536,
                                1 << 20,
                                (1 << 30) - 1,
                                INT32_MAX,
                                int64_t{1} << 31,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 62,
                                INT64_MAX};
  const int64_t whole = kWhole[below(random, std::size(kWhole))];
  switch (random.below(8)) {
    case 0:
      return whole == 0 ? json::value(UINT64_MAX) : json::value(-whole);
    case 1:
      return whole == INT64_MAX ? json::value(INT64_MIN) : json::value(whole + 1);
    case 2: {
      constexpr double kReal[] = {0.5, -0.5, 1e-320, 1e-30, 1e30, 1e300, 1.7976931348623157e308, -0.0, 1e9, 0.1};
      return kReal[below(random, std::size(kReal))];
    }
    default:
      return whole;
  }
}

std::string edge_text(PhiloxStream& random) {
  switch (random.below(8)) {
    case 0:
      return "";
    case 1:
      return std::string(1 + random.below(3000), 'a');
    case 2:
      return "\xc3\xa9\xe2\x96\x81\xf0\x9f\x9a\x97";
    case 3:
      return std::string("\0\n\x1b[2J", 6);
    case 4:
      return "../x";
    case 5:
      return "(?:(a+)+)+b";
    case 6:
      return "<|image_pad|>";
    default:
      return "\\u0000\"{}";
  }
}

json::value edge_value(PhiloxStream& random) {
  switch (random.below(8)) {
    case 0:
      return nullptr;
    case 1:
      return random.below(2) == 0;
    case 2:
      return json::string(edge_text(random));
    case 3:
      return json::array{};
    case 4:
      return json::object{};
    default:
      return edge_number(random);
  }
}

void change_number(json::value& v, PhiloxStream& random) {
  if (v.is_int64() && random.below(2) == 0) {
    const auto by = static_cast<int64_t>(random.below(5)) - 2;
    v = static_cast<int64_t>(static_cast<uint64_t>(v.get_int64()) + static_cast<uint64_t>(by));
  } else {
    v = edge_number(random);
  }
}

void change_text(json::value& v, PhiloxStream& random) {
  std::string s(v.get_string());
  switch (random.below(4)) {
    case 0:
      s = edge_text(random);
      break;
    case 1:
      if (!s.empty()) s.erase(below(random, s.size()), 1 + random.below(4));
      break;
    case 2:
      s.insert(below(random, s.size() + 1), edge_text(random));
      break;
    default:
      if (!s.empty()) s[below(random, s.size())] = static_cast<char>(32 + random.below(95));
      break;
  }
  v = json::string(s);
}

void change_array(json::array& a, const json::value& other, PhiloxStream& random) {
  const size_t i = below(random, a.size());
  switch (random.below(5)) {
    case 0:
      if (!a.empty()) a.erase(a.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      a.insert(a.begin() + static_cast<std::ptrdiff_t>(std::min(i, a.size())), other);
      break;
    case 2:
      if (!a.empty()) {
        const json::value copy = a[i];
        for (uint32_t n = 1 + random.below(8); n > 0; --n) a.push_back(copy);
      }
      break;
    case 3:
      if (a.size() > 1) std::swap(a[i], a[below(random, a.size())]);
      break;
    default:
      a.resize(i);
      break;
  }
}

void change_object(json::object& o, const json::value& other, PhiloxStream& random) {
  if (o.empty()) {
    o["x"] = other;
    return;
  }
  const auto at = [&] { return o.begin() + static_cast<std::ptrdiff_t>(below(random, o.size())); };
  switch (random.below(4)) {
    case 0:
      o.erase(at());
      break;
    case 1: {  // renamed
      const auto it = at();
      const json::value value = it->value();
      std::string key(it->key());
      o.erase(it);
      if (!key.empty() && random.below(2) == 0)
        key[below(random, key.size())] = static_cast<char>(97 + random.below(26));
      else
        key += edge_text(random);
      o[key] = value;
      break;
    }
    case 2:
      at()->value() = other;
      break;
    default:
      o[edge_text(random)] = other;
      break;
  }
}

void change_once(json::value& document, PhiloxStream& random) {
  std::vector<json::value*> all;
  collect(document, all);
  json::value& v = *all[below(random, all.size())];
  const json::value other = random.below(2) == 0 ? edge_value(random) : *all[below(random, all.size())];
  if (random.below(4) == 0) {
    v = other;
  } else if (auto* o = v.if_object()) {
    change_object(*o, other, random);
  } else if (auto* a = v.if_array()) {
    change_array(*a, other, random);
  } else if (v.is_string()) {
    change_text(v, random);
  } else if (v.is_number()) {
    change_number(v, random);
  } else {
    v = v.is_bool() && random.below(2) == 0 ? json::value(!v.get_bool()) : other;
  }
}

// A larger document is no use to a fuzzer, and repeated copies of its parts grow it without end.
constexpr size_t kLargestDocument = size_t{1} << 18;

bool mutate_document(std::string& text, PhiloxStream& random) {
  auto document = parse_json(text, "seed");
  if (!document) return false;
  mutate_json(*document, random);
  std::string changed = json::serialize(*document);
  if (changed.size() <= kLargestDocument) text = std::move(changed);
  return true;
}

bool mutate_header(std::string& file, PhiloxStream& random) {
  uint64_t length = 0;
  if (file.size() < 8) return false;
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8) return false;
  std::string header = file.substr(8, length);
  if (!mutate_document(header, random)) return false;
  const std::string data = file.substr(8 + length);
  length = header.size();
  file.assign(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header + data;
  return true;
}

}  // namespace

void mutate_bytes(std::string& b, PhiloxStream& random) {
  for (uint32_t changes = 1 + random.below(8); changes > 0 && b.size() > 4; --changes) {
    const auto n = static_cast<uint32_t>(b.size());
    const uint32_t at = random.below(n), run = 1 + random.below(std::min(n - at, 64u));
    switch (random.below(6)) {
      case 0:
        b[at] = static_cast<char>(random.bits());
        break;
      case 1:
        b[at] = static_cast<char>(b[at] ^ 1 << random.below(8));
        break;
      case 2:
        b.erase(at, run);
        break;
      case 3:
        b.insert(at, b.substr(at, run));
        break;
      case 4:
        b.resize(1 + random.below(n));
        break;
      default:
        b[random.below(std::min(n, 64u))] = static_cast<char>(random.bits());
        break;
    }
  }
}

void mutate_json(json::value& document, PhiloxStream& random) {
  for (uint32_t changes = 1 + random.below(3); changes > 0; --changes) change_once(document, random);
}

void mutate(std::string& input, Shape shape, PhiloxStream& random) {
  const bool structured = shape != Shape::kBytes && random.below(4) != 0;
  if (structured && (shape == Shape::kJson ? mutate_document(input, random) : mutate_header(input, random))) return;
  mutate_bytes(input, random);
}

}  // namespace slip::fuzz
