// SPDX-License-Identifier: Apache-2.0
// What an answer says where models, tokenizers and limits are unusual.
#include <gtest/gtest.h>

#include <string>

#include "base/folder_testing.h"
#include "slipstream/engine.h"

namespace slipstream {
namespace {

const std::string kModels = std::string(SLIP_SOURCE_DIR) + "/models/";

Answer answer_of(Engine& engine, const Request& request) {
  auto out = engine.answer(request);
  EXPECT_TRUE(out) << out.error().message;
  return out ? std::move(*out) : Answer();
}

/// A model of actions with random weights, whose tokenizer is of Llama 2's kind.
class OfActions : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = (made_.path / "model").string();
    const auto report = synthesize(folder, {.like = "openvla-7b", .dtype = "f32", .seed = 5, .threads = 2, .tiny = true});
    ASSERT_TRUE(report) << report.error().message;
    auto engine = Engine::load(folder, {.dtype = "f32", .threads = 2});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_.emplace(std::move(*engine));
  }
  slip::test::TemporaryFolder made_;
  std::optional<Engine> engine_;
};

TEST_F(OfActions, ASchemaInMemoryStandsInPlaceOfTheirForm) {
  Request request;
  request.prompt = "hi";
  request.form_schema = R"({"type":"object","properties":{"a":{"const":1}}})";
  EXPECT_EQ(answer_of(*engine_, request).text, R"({"a": 1})") << "a form without fields";
  request.form_schema = R"({"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]})";
  EXPECT_EQ(answer_of(*engine_, request).text.substr(0, 6), R"({"a": )");
}

// Bytes that are no character are tokens there, and so are a quote and a brace.
TEST_F(OfActions, AFormsOwnTextStandsBehindABrokenCharacter) {
  Request request;
  request.prompt = "hi";
  request.form_schema = R"({"type":"object","properties":{"x":{"type":"string","x-budget":3}},"required":["x"]})";
  request.decoder.preset = "ar";
  request.sampling.temperature = 3;
  int broken = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    request.seed = seed;
    const std::string text = answer_of(*engine_, request).text;
    EXPECT_TRUE(text.starts_with(R"({"x": ")") && text.ends_with(R"("})")) << seed << ": " << text;
    broken += text.find("\xEF\xBF\xBD") != std::string::npos;
  }
  EXPECT_GT(broken, 5);
}

TEST(LogProbs, TellOfAnEndWhereItWasAChoice) {
  auto engine = Engine::load(kModels + "demo", {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request;
  request.prompt = "hi";
  request.form_schema = R"({"type":"object","properties":{"n":{"type":"string","maxLength":0},"b":{"type":"boolean"}}})";
  request.log_probs = true;
  request.top_log_probs = 2;
  request.decoder.preset = "ar";
  const Answer slow = answer_of(*engine, request);
  request.decoder.preset = "scaffold-spec";
  const Answer quick = answer_of(*engine, request);
  EXPECT_EQ(quick.text, slow.text);
  ASSERT_EQ(quick.log_probs.size(), slow.log_probs.size());
  for (size_t f = 0; f < slow.log_probs.size(); ++f) {
    EXPECT_EQ(quick.log_probs[f].tokens, slow.log_probs[f].tokens) << f;
    EXPECT_EQ(quick.log_probs[f].top.size(), slow.log_probs[f].top.size()) << f;
  }
}

// Half a character at the limit is left out; broken ones before it are not.
TEST(Streams, SayWhatTheWholeAnswerSays) {
  auto engine = Engine::load(kModels + "tri", {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request;
  request.prompt = "hi";
  request.form = "none";
  request.decoder.preset = "ar";
  request.sampling.temperature = 30;
  request.sampling.repetition_penalty = 0.1;
  int cut = 0;
  for (request.max_tokens = 1; request.max_tokens <= 4; ++request.max_tokens)
    for (request.seed = 0; request.seed < 100; ++request.seed) {
      std::string streamed;
      const auto answer = engine->answer(request, [&](const Event& e) {
        if (e.kind == Event::Kind::kText) streamed += e.text;
      });
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_EQ(streamed, answer->text) << request.max_tokens << " tokens, seed " << request.seed;
      cut += answer->text.find("\xEF\xBF\xBD") != std::string::npos;
    }
  EXPECT_GT(cut, 10);
}

}  // namespace
}  // namespace slipstream
