// SPDX-License-Identifier: Apache-2.0
// A host program that rounds otherwise, or lets invalid operations trap, gets the answers that all others get.
#include <gtest/gtest.h>

#include <cfenv>
#include <string>
#include <vector>

#include "slipstream/engine.h"

namespace slipstream {
namespace {

/// Of one answer: its text and the logarithms of what it drew.
struct Said {
  std::string text;
  std::vector<double> log_probs;
  bool operator==(const Said&) const = default;
};

Said said_by(Engine& engine) {
  Request request;
  request.prompt = "go on";
  request.form = "none";
  request.max_tokens = 4;
  request.decoder.preset = "ar";
  request.log_probs = true;
  const auto answer = engine.answer(request);
  EXPECT_TRUE(answer) << answer.error().message;
  return {answer->text, answer->token_log_probs()};
}

Engine load() {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/tri", {.threads = 2});
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

TEST(Arithmetic, TheHostsRoundingIsNotTheAnswers) {
  Engine engine = load();
  const Said usual = said_by(engine);
  ASSERT_FALSE(usual.log_probs.empty());
  std::fesetround(FE_UPWARD);
  const Said upward = said_by(engine);
  Engine loaded_upward = load();
  const Said loaded = said_by(loaded_upward);
  EXPECT_EQ(std::fegetround(), FE_UPWARD) << "the host's own goes on";
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(upward, usual);
  EXPECT_EQ(loaded, usual);
}

#if defined(__GLIBC__) && defined(__x86_64__)
TEST(Arithmetic, WhatTheHostTrapsDoesNotTrapHere) {
  ::feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  Engine engine = load();
  const Said said = said_by(engine);
  ::fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_FALSE(said.log_probs.empty());
}
#endif

}  // namespace
}  // namespace slipstream
