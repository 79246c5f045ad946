// SPDX-License-Identifier: Apache-2.0
// What compiling a form and asking for its masks costs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "form/form_testing.h"
#include "form/schema/typed/open_form_testing.h"

namespace slip::test {
namespace {

// ---- what masks cost over a vocabulary of 150,000 tokens

/// The schemas that the guide writes into files.
std::vector<std::pair<std::string, json::value>> schemas_of_guide() {
  std::vector<std::pair<std::string, json::value>> out;
  for (const char* page : {"forms.md", "your-form.md"}) {
    std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "docs/guide" / page);
    std::string name, text;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("<!-- file: ")) {
        name = line.substr(11, line.find(" -->") - 11);
        text.clear();
      } else if (line == "```" && !name.empty()) {
        if (auto schema = parse_json(text, name)) out.emplace_back(std::exchange(name, ""), std::move(*schema));
        name.clear();
      } else if (!name.empty() && line != "```json") {
        text += line + "\n";
      }
    }
  }
  return out;
}

constexpr double kSlow = 50;  // us; slower masks are named

struct Times {
  std::vector<double> all;
  double mean() const { return all.empty() ? 0 : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()); }
  double share(double of) {
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    return all[std::min(all.size() - 1, static_cast<size_t>(of * static_cast<double>(all.size())))];
  }
  std::string words(std::string_view unit) {
    return fmt::format("{:6} of them, mean {:.2f}, median {:.2f}, 99 % {:.2f}, most {:.2f} {}", all.size(), mean(), share(0.5),
                       share(0.99), share(1), unit);
  }
};

/// A mask that was asked for the first time, and what was asked for it.
struct Slow {
  double us = 0;
  std::string where;
  bool operator<(const Slow& o) const { return us > o.us; }
};

/// Rows of random values: masks asked for the first time, and again.
void time_rows(const CompiledForm& form, const std::string& schema, PhiloxStream& r, Times& first, Times& again,
               std::vector<Slow>& slowest) {
  for (const Field& f : form.form.fields()) {
    const TokenAutomaton* a = f.rules.automaton();
    for (int walk = 0; a && walk < 3; ++walk)
      for (int32_t state = 0, i = 0; i < f.budget && state >= 0; ++i) {
        const size_t before = a->masks();
        const double begin = now();
        const TokenMask& m = a->mask(state);
        const double us = (now() - begin) * 1e6;
        const bool made = a->masks() != before || !m.kept;
        (made ? first : again).all.push_back(us);
        if (made && us > kSlow)
          slowest.push_back({us, fmt::format("{} {} at {}, {} left, {} allowed", schema, f.name, state / (a->budget() + 1),
                                             a->budget() - state % (a->budget() + 1), m.count)});
        const auto choices = allowed(f, state);
        ASSERT_FALSE(choices.empty()) << f.name;
        const TokenId id = choices[r.below(static_cast<uint32_t>(choices.size()))];
        state = ends(f, state, id) ? -1 : f.rules.next(state, id).value_or(-1);
      }
  }
}

/// With SLIP_EVERY=1 the guide's schemas are held to 100 ms to compile, with the vocabulary's tree that the first of them needs, and
/// 99 of 100 rows to 50 us: docs/lab/0024-masks.md.
TEST(Masks, CostLittleOverALargeVocabulary) {
  const auto t = test::qwen_tokenizer();
  if (!t) GTEST_SKIP() << "no vocabulary of 150,000 tokens on this machine";
  const FormTokens tokens{&*t, std::nullopt, 151936};
  const bool every = std::getenv("SLIP_EVERY") != nullptr;
  auto schemas = schemas_of_guide();
  const size_t of_guide = schemas.size();
  std::ifstream in(std::filesystem::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  std::string line;
  for (size_t n = 0; std::getline(in, line); ++n)
    if (const auto entry = parse_json(line, "schemas.jsonl"); entry && (every || n % 16 == 0))
      schemas.emplace_back(std::string(entry->at("name").as_string()), entry->at("schema"));
  const double tree_begin = now();
  t->trie();  // once a vocabulary, whatever the schemas
  const double tree = (now() - tree_begin) * 1e3;
  fmt::print("the vocabulary's tree {:.1f} ms\n", tree);
  Times guide, compile, first, again;
  int refused = 0;
  std::vector<Slow> slowest;
  PhiloxStream r(1, 9);
  for (size_t i = 0; i < schemas.size(); ++i) {
    const double begin = now();
    const auto form = compile_schema(schemas[i].second, schemas[i].first, tokens);
    const double ms = (now() - begin) * 1e3;
    if (!form) {
      ++refused;
      continue;
    }
    (i < of_guide ? guide : compile).all.push_back(ms);
    time_rows(*form, schemas[i].first, r, first, again, slowest);
  }
  std::sort(slowest.begin(), slowest.end());
  for (size_t i = 0; every && i < std::min<size_t>(slowest.size(), 40); ++i)
    fmt::print("{:8.0f} us: {}\n", slowest[i].us, slowest[i].where);
  Times rows{first.all};
  rows.all.insert(rows.all.end(), again.all.begin(), again.all.end());
  fmt::print(
      "compile, guide    {}\ncompile, others   {}\nmasks, first time {}\nmasks, again      {}\nmasks, all rows   {}\nrefused {}\n",
      guide.words("ms"), compile.words("ms"), first.words("us"), again.words("us"), rows.words("us"), refused);
  EXPECT_GE(guide.all.size(), 4U);
  EXPECT_GT(rows.all.size(), 200U);
  if (!every) return;
  EXPECT_LE(tree + guide.share(1), 100);
  EXPECT_LE(rows.share(0.99), 50);
}

}  // namespace
}  // namespace slip::test
