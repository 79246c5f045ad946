// SPDX-License-Identifier: Apache-2.0
// Samples of the action form: the engine's own prompt and answer, frames of several moments, rounded accelerations.
#include "train/data/action_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "task/wod.h"

namespace slip {
namespace {

using testing::HasSubstr;

std::string pair_folder() { return (std::filesystem::path(SLIP_SOURCE_DIR) / "configs" / "pair-draft").string(); }

json::object data(const char* more = "") {
  return parse_json(R"({"kind": "simulated", "first_seed": 77, "count": 5, "model": ")" + pair_folder() +
                        R"(/config.json", "action_step": 0.5)" + more + "}",
                    "data")
      ->as_object();
}

TEST(ActionSource, MakesSamplesThatTheEngineWouldAsk) {
  const auto source = make_record_source(data(), pair_folder());
  ASSERT_TRUE(source) << source.error().message;
  const auto tokenizer = Tokenizer::load(pair_folder());
  ASSERT_TRUE(tokenizer);
  const TokenId zero{tokenizer->find("<|extra_0|>")->value + 127};
  std::set<std::vector<TokenId>> different;
  for (int64_t i = 0; i < 40; ++i) {
    const auto s = (*source)->get(i), again = (*source)->get(i);
    ASSERT_TRUE(s) << s.error().message;
    ASSERT_TRUE(check_sample(*s));
    EXPECT_EQ(s->tokens, again->tokens);
    different.insert(s->tokens);
    const size_t n = s->tokens.size() - 9;  // line break, seven bins, the closing token
    EXPECT_EQ(std::count(s->response.begin(), s->response.end(), 1), 9);
    EXPECT_EQ(s->fixed[n], 1);
    EXPECT_EQ(s->always_masked.back(), 1);
    EXPECT_EQ(s->positions.back().t, static_cast<int32_t>(s->tokens.size()) - 1);
    for (size_t k = 1; k <= 7; ++k) {
      // Multiples of 0.5 of 12 over 255: 10.625 bins.
      const double steps = (s->tokens[n + k].value - zero.value) / 10.625;
      EXPECT_NEAR(steps, std::round(steps), 0.5 / 10.625 + 1e-9) << i << ", " << k;
    }
    EXPECT_THAT(tokenizer->decode(s->tokens), HasSubstr("GO_"));
  }
  EXPECT_GT(different.size(), 8u) << "five scenes, four moments of each";
  EXPECT_LE(different.size(), 20u);
}

TEST(ActionSource, RefusesByName) {
  const auto why = [](const json::object& d) {
    const auto s = make_record_source(d, pair_folder());
    return s ? std::string("made") : s.error().message;
  };
  json::object d = data();
  d["kind"] = "records";
  EXPECT_THAT(why(d), HasSubstr("expected simulated for the form action, got records"));
  d = data();
  d["count"] = 0;
  EXPECT_THAT(why(d), HasSubstr("count: expected 1 to"));
  d = data();
  d["first_seed"] = -1;
  EXPECT_THAT(why(d), HasSubstr("first_seed: expected 0 to 4611686018427387904, got -1"));
  d = data();
  d["action_step"] = -1;
  EXPECT_THAT(why(d), HasSubstr("action_step: expected 0 to 10, got -1"));
  d = data();
  d["actions_step"] = 1;
  EXPECT_THAT(why(d), HasSubstr("data: expected a known key, got \"actions_step\""));
}

}  // namespace
}  // namespace slip
