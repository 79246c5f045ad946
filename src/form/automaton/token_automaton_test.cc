// SPDX-License-Identifier: Apache-2.0
// Masks are made by short cuts (copied, walked by kinds of characters, kept by what is left of a budget). Each must be what the automaton's
// step says of every token of the vocabulary, one by one.
#include "form/automaton/token_automaton.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "form/automaton/numbers.h"
#include "form/automaton/regex.h"
#include "form/form_testing.h"
#include "form/schema/typed/string_formats.h"

namespace slip {
namespace {

/// Languages of many kinds, with the pattern that they come from.
std::vector<std::pair<std::string, ByteDfa>> languages() {
  std::vector<std::pair<std::string, ByteDfa>> out;
  for (const char* pattern :
       {"^[a-z]{1,12}$", "^[A-Za-z0-9_-]+$", "^[a-f0-9]{8}-[a-f0-9]{4}$", "^(yes|no|maybe [a-z ]+)$", "\\d", "^[^aeiou]{2,30}$",
        "^[ -~]{0,20}$", "^\\w+( \\w+){0,5}[.!?]$", "^[A-Z][a-z]{1,20}( [A-Z][a-z]{1,20})*$", "^.{3,9}$",
        "^[\u00e0-\u00ff a-z]{1,9}$", "^[\u4e00-\u9fff]+$", "^.*stop.*$", "^[a-z]+@[a-z]+\\.(com|org)$", "^#[0-9a-fA-F]{6}$",
        "^$|^x", "^[^\n]{0,40}\n[a-z]*$"}) {
    auto one = compile_regex(pattern);
    EXPECT_TRUE(one) << pattern;
    if (one) out.emplace_back(pattern, std::move(*one));
  }
  for (const auto& [least, most] : {std::pair{0, -1}, {0, 40}, {20, 64}, {5, 5}, {17, 200}})
    out.emplace_back("length " + std::to_string(least) + " to " + std::to_string(most), *texts_of_length(least, most));
  out.emplace_back("integers", *numbers({.integer = true, .least = -7, .most = 123456}));
  out.emplace_back("numbers", *numbers({.least = -0.5, .most = 99}));
  const auto yes = ByteDfa::literal("yes");
  out.emplace_back("not yes", *ByteDfa::first_only(*texts_of_length(0, 30), *yes));
  return out;
}

std::vector<std::pair<std::string, Tokenizer>> vocabularies() {
  std::vector<std::pair<std::string, Tokenizer>> out;
  out.emplace_back("characters", test::character_tokenizer());
  auto demo = Tokenizer::load(std::filesystem::path(SLIP_SOURCE_DIR) / "models/demo");
  EXPECT_TRUE(demo);
  if (demo) out.emplace_back("demo", std::move(*demo));
  if (auto qwen = test::qwen_tokenizer()) out.emplace_back("qwen", std::move(*qwen));
  return out;
}

/// The mask by asking for every token; empty where they agree, else the first token on which they differ.
std::string differs(const TokenAutomaton& a, const TokenTrie& trie, int32_t state, std::span<const TokenId> ends) {
  const TokenMask& mask = a.mask(state);
  int32_t count = 0;
  for (int32_t id = 0; id < trie.size(); ++id) {
    const bool end = a.may_end(state) && std::find(ends.begin(), ends.end(), TokenId{id}) != ends.end();
    const bool allowed = end || a.next(state, {id});
    count += allowed;
    if (allowed != mask.contains({id}))
      return fmt::format("token {} '{}' is {}", id, std::string(trie.bytes({id})), allowed ? "missing" : "too much");
  }
  return count == mask.count ? "" : fmt::format("counts {}, {} allowed", mask.count, count);
}

TEST(TokenAutomaton, MasksAreWhatEveryTokenByItselfSays) {
  for (const auto& [name, tokenizer] : vocabularies()) {
    const auto trie = tokenizer.trie();
    const std::vector<TokenId> ends{{1}, {34}};
    PhiloxStream r(3, 14);
    for (const auto& [from, language] : languages())
      for (const int32_t budget : {6, 48}) {
        const auto a = TokenAutomaton::make(std::make_shared<TokenLanguage>(language, trie, tokenizer.size()), ends, {}, budget);
        if (!a) continue;  // the shortest text does not fit the budget
        for (int walk = 0; walk < (name == "qwen" ? 1 : 4); ++walk)
          for (int32_t state = 0, i = 0; i < budget && state >= 0; ++i) {
            if (name != "qwen" || i % 3 == 0 || i + 6 > budget) {
              ASSERT_EQ(differs(**a, *trie, state, ends), "") << name << " " << from << " budget " << budget << " at " << i;
            }
            // A token as a model writes it: mostly one of the shorter ones.
            const TokenMask& mask = (*a)->mask(state);
            int32_t next = -1;
            for (int tries = 0; tries < 4000 && next < 0; ++tries) {
              const TokenId id{static_cast<int32_t>(r.below(static_cast<uint32_t>(trie->size())))};
              if (mask.contains(id) && trie->bytes(id).size() <= 8) next = (*a)->next(state, id).value_or(-1);
            }
            for (int32_t id = 0; id < trie->size() && next < 0; ++id)
              if (mask.contains({id})) next = (*a)->next(state, {id}).value_or(-1);
            state = next;
          }
      }
  }
}

TEST(TokenTrie, KindsHoldEveryPlainTokenOnce) {
  for (const auto& [name, tokenizer] : vocabularies()) {
    const auto trie = tokenizer.trie();
    size_t plain = 0, by_kind = 0;
    ASSERT_EQ(trie->all_plain_ids().size(), static_cast<size_t>(trie->all_plain_count()));
    for (const TokenTrie::Node& n : trie->plain()) plain += static_cast<size_t>(n.count);
    std::vector<int> kinds(trie->deepest() + 1);
    for (const TokenTrie::KindNode& n : trie->kinds()) {
      kinds[n.depth - 1U] = n.kind;
      by_kind += static_cast<size_t>(n.count);
      for (const TokenId id : trie->ids(n)) {
        size_t depth = 0;
        for (const char c : trie->bytes(id)) {
          if ((static_cast<uint8_t>(c) & 0xC0) == 0x80) continue;
          ASSERT_EQ(TokenTrie::kind_of(static_cast<uint8_t>(c)), kinds[depth++]) << name << " " << trie->bytes(id);
        }
        ASSERT_EQ(depth, n.depth);
      }
      ASSERT_GE(trie->ids_below(n).size(), trie->ids(n).size());
    }
    EXPECT_EQ(plain, by_kind) << name;
  }
}

}  // namespace
}  // namespace slip
