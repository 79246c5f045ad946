// SPDX-License-Identifier: Apache-2.0
#include "form/automaton/kind_steps.h"

#include <algorithm>

namespace slip {

int plain_next(int s, int b) {
  // 1, 2, 3: so many continuation bytes to come; 4 E0, 5 ED, 6 F0, 7 F4: the next one is bounded
  const bool continues = b >= 0x80 && b <= 0xBF;
  switch (s) {
    case 0:
      if (b < 0x80) return b >= 0x20 && b != '"' && b != '\\' ? 0 : -1;
      if (b >= 0xC2 && b <= 0xDF) return 1;
      if (b == 0xE0) return 4;
      if (b == 0xED) return 5;
      if (b >= 0xE1 && b <= 0xEF) return 2;
      if (b == 0xF0) return 6;
      if (b == 0xF4) return 7;
      return b >= 0xF1 && b <= 0xF3 ? 3 : -1;
    case 4:
      return b >= 0xA0 && b <= 0xBF ? 1 : -1;
    case 5:
      return b >= 0x80 && b <= 0x9F ? 1 : -1;
    case 6:
      return b >= 0x90 && b <= 0xBF ? 2 : -1;
    case 7:
      return b >= 0x80 && b <= 0x8F ? 2 : -1;
    default:
      return continues ? s - 1 : -1;
  }
}

KindSteps::KindSteps(const ByteDfa& dfa)
    : dfa_(&dfa),
      to_(std::make_unique<std::atomic<uint16_t>[]>(dfa.size() * TokenTrie::kKinds)),
      any_(std::make_unique<std::atomic<uint16_t>[]>(dfa.size())),
      loops_(std::make_unique<std::atomic<uint64_t>[]>(dfa.size())) {
  const auto alike = [&dfa](uint8_t a, uint8_t b) { return dfa.class_of(a) == dfa.class_of(b); };
  const auto add = [&alike](std::vector<uint8_t>& to, uint8_t b) {
    if (std::none_of(to.begin(), to.end(), [&](uint8_t x) { return alike(x, b); })) to.push_back(b);
  };
  for (int b = 0; b < 0x80; ++b) {
    if (plain_next(0, b) != 0) continue;
    add(bytes_[static_cast<size_t>(TokenTrie::kind_of(static_cast<uint8_t>(b)))], static_cast<uint8_t>(b));
    add(ascii_, static_cast<uint8_t>(b));
  }
  for (int u = 0; u < 8; ++u)
    for (int b = 0x80; b < 0x100; ++b) {
      const int v = plain_next(u, b);
      auto& of = utf8_[static_cast<size_t>(u)];
      const bool known = std::any_of(of.begin(), of.end(),
                                     [&](const auto& x) { return x.first == v && alike(x.second, static_cast<uint8_t>(b)); });
      if (v >= 0 && !known) of.emplace_back(v, static_cast<uint8_t>(b));
    }
}

int32_t KindSteps::find(int32_t state, int kind) const {
  if (kind == TokenTrie::kBeyond) return beyond(state);
  const auto& bytes = bytes_[static_cast<size_t>(kind)];
  const int32_t to = dfa_->next(state, bytes.front());
  for (const uint8_t b : bytes)
    if (dfa_->next(state, b) != to) return kMixed;
  return to;
}

int32_t KindSteps::find_any(int32_t state) const {
  const int32_t to = dfa_->next(state, ascii_.front());
  for (const uint8_t b : ascii_)
    if (dfa_->next(state, b) != to) return kMixed;
  return this->to(state, TokenTrie::kBeyond) == to ? to : kMixed;
}

uint64_t KindSteps::loops(int32_t state) const {
  constexpr uint64_t kKnown = uint64_t{1} << 63;
  std::atomic<uint64_t>& at = loops_[static_cast<size_t>(state)];
  uint64_t bits = at.load(std::memory_order_relaxed);
  if (bits != 0) return bits & ~kKnown;
  for (int kind = 0; kind < TokenTrie::kKinds; ++kind)
    if (to(state, kind) == state) bits |= uint64_t{1} << kind;
  at.store(bits | kKnown, std::memory_order_relaxed);
  return bits;
}

/// Where all characters beyond ASCII lead.
int32_t KindSteps::beyond(int32_t state) const {
  std::array<std::pair<int32_t, int>, 64> open;
  size_t count = 1;
  open[0] = {state, 0};
  int32_t found = kMixed;
  bool some = false, dead = false;
  for (size_t i = 0; i < count; ++i)
    for (const auto& [v, byte] : utf8_[static_cast<size_t>(open[i].second)]) {
      const int32_t to = dfa_->next(open[i].first, byte);
      if (to < 0 || v == 0) {
        if (to >= 0 && some && to != found) return kMixed;
        dead = dead || to < 0;
        some = some || to >= 0;
        if (to >= 0) found = to;
        if (some && dead) return kMixed;
        continue;
      }
      const std::pair place{to, v};
      if (std::find(open.begin(), open.begin() + static_cast<ptrdiff_t>(count), place) !=
          open.begin() + static_cast<ptrdiff_t>(count))
        continue;
      if (count == open.size()) return kMixed;
      open[count++] = place;
    }
  return some ? found : -1;
}

}  // namespace slip
