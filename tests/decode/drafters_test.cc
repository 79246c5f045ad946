// SPDX-License-Identifier: Apache-2.0
// Quadratic self-speculation and a second model as drafter against recorded answers of tiny models, token for token, round for
// round, pass for pass (tests/fixtures/decode); look-up against ar's tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/decoder.h"
#include "decode/testing/draft_model_testing.h"
#include "tests/decode/fixtures.h"

namespace slip {
namespace {

using namespace test;  // fixtures

Decoded run(const json::value& c, const Method& method, DecodeOptions options, const DecodeContext& context = {}) {
  options.trace = true;
  auto answer = Decoder(model_of(c), method).decode(prompt_of_case(c), nullptr, options, context);
  if (!answer) throw std::runtime_error(answer.error().message);
  return std::move(*answer);
}

DecodeOptions options_of(const json::value& c) {
  DecodeOptions o;
  o.end_tokens = {{0}};
  o.limit = int_of(c.at("limit"));
  if (const auto* t = c.as_object().if_contains("temperature")) o.temperature = t->to_number<float>();
  if (const auto* s = c.as_object().if_contains("seed")) o.seed = std::stoull(std::string(s->as_string()));
  if (const auto* r = c.as_object().if_contains("request")) o.request = static_cast<uint32_t>(r->as_int64());
  return o;
}

Method method_with(std::string_view preset, int32_t tokens) {
  Method m = *method_of(preset);
  m.draft_length.tokens = tokens;
  return m;
}

/// The small model drafts; both vocabularies are one.
DraftModel small_drafter(const Prompt& prompt) { return draft_model_of_same_ids(model_named("small"), prompt); }

void expect_counts(const Decoded& d, const json::object& e) {
  const Statistics& s = d.statistics;
  for (const auto& [key, mine] : {std::pair{"forwards", s.forwards},
                                  {"draft_forwards", s.draft_forwards},
                                  {"drafter_forwards", s.drafter_forwards},
                                  {"proposed", s.proposed},
                                  {"tested", s.tested},
                                  {"accepted", s.accepted}})
    if (const auto* want = e.if_contains(key)) {
      EXPECT_EQ(mine, want->as_int64()) << key;
    }
}

/// `heads`: quadratic records its drafts behind the newest token, as heads.
void expect_rounds(const Decoded& d, const json::array& rounds, bool heads) {
  ASSERT_EQ(d.rounds.size(), rounds.size());
  for (size_t r = 0; r < rounds.size(); ++r) {
    std::vector<TokenId> drafts = ids_of(rounds[r].at(heads ? "heads" : "draft"));
    if (heads) drafts.erase(drafts.begin());
    EXPECT_EQ(d.rounds[r].draft, drafts) << r;
    EXPECT_EQ(d.rounds[r].verify, ids_of(rounds[r].at("verify"))) << r;
    EXPECT_EQ(d.rounds[r].accepted, int_of(rounds[r].at("accepted"))) << r;
    EXPECT_EQ(d.rounds[r].emitted, ids_of(rounds[r].at("emitted"))) << r;
  }
}

TEST(DrafterFixtures, Quadratic) {
  const auto file = load("quadratic");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const auto& e = c.at("expected").as_object();
    const Decoded d = run(c, method_with("self-spec-quadratic", int_of(c.at("k"))), options_of(c));
    EXPECT_EQ(d.tokens, ids_of(e.at("tokens")));
    expect_counts(d, e);
    expect_rounds(d, e.at("rounds").as_array(), true);
    const int64_t k = int_of(c.at("k"));
    EXPECT_EQ(d.statistics.rows,
              static_cast<int64_t>(prompt_of_case(c).inputs.size()) + k + (d.statistics.forwards - 1) * (k * k + k));
  }
}

TEST(DrafterFixtures, DraftModel) {
  const auto file = load("draft_model");
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const auto& e = c.at("expected").as_object();
    const DecodeOptions o = options_of(c);
    const DraftModel drafter = small_drafter(prompt_of_case(c));
    const DecodeContext context{.draft_model = &drafter};
    const Decoded d = run(c, method_with("draft-model", int_of(c.at("width"))), o, context);
    EXPECT_EQ(d.tokens, ids_of(e.at("tokens")));
    expect_counts(d, e);
    expect_rounds(d, e.at("rounds").as_array(), false);
  }
}

TEST(DrafterFixtures, SampledText) {
  const auto file = load("sampled_text");
  int quadratic = 0;
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const auto& all = c.at("expected").as_object();
    const DecodeOptions o = options_of(c);
    const DraftModel drafter = small_drafter(prompt_of_case(c));
    const DecodeContext context{.draft_model = &drafter};
    for (const std::string way : {"draft-model", "draft-model-coupled", "self-spec-quadratic"}) {
      const auto* e = all.if_contains(way);
      if (!e) continue;
      SCOPED_TRACE(way);
      const bool heads = way == "self-spec-quadratic";
      Method m = method_with(heads ? "self-spec-quadratic" : "draft-model", int_of(c.at("width").at(way)));
      if (!heads) std::get<ModelSpec>(m.drafter).coupled = way == "draft-model-coupled";
      const Decoded d = run(c, m, o, context);
      EXPECT_EQ(d.tokens, ids_of(all.at("tokens")));
      expect_counts(d, e->as_object());
      expect_rounds(d, e->at("rounds").as_array(), heads);
      quadratic += heads;
    }
  }
  EXPECT_EQ(quadratic, 4);
}

/// The tokens of every exact method are ar's; look-up has no recorded rounds.
TEST(DrafterFixtures, LookupWritesWhatArWrites) {
  const auto file = load("ar");
  int64_t accepted = 0;
  for (const auto& c : file.at("cases").as_array()) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    Method m = method_with("ar", 4);
    m.drafter = LookupSpec{3};
    const Decoded d = run(c, m, options_of(c));
    EXPECT_EQ(d.tokens, ids_of(c.at("expected").at("tokens")));
    EXPECT_LE(d.statistics.forwards, c.at("expected").at("forwards").as_int64());
    accepted += d.statistics.accepted;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace slip
