// SPDX-License-Identifier: Apache-2.0
// What a request may say and what it is refused for, before a model is loaded and by one that is; and what its defaults mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "api/request/requests.h"
#include "base/folder_testing.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kScene = 900000017;
const std::string kModels = std::string(SLIP_SOURCE_DIR) + "/models/";
const std::string kDemo = kModels + "demo";

TEST(Ego, OfNoWordsIsACarAtRest) {
  const Ego none, standing = slip::api::ego_from(slip::standing_ego());
  EXPECT_EQ(none.intent, standing.intent);
  for (size_t i = 0; i < none.history_4hz.size(); ++i) {
    const EgoState &a = none.history_4hz[i], &b = standing.history_4hz[i];
    EXPECT_EQ((std::array{a.t_s, a.x, a.y, a.vx, a.vy, a.ax, a.ay}), (std::array{b.t_s, b.x, b.y, b.vx, b.vy, b.ax, b.ay})) << i;
  }
  Request request;
  request.ego = Ego();
  const auto taken = slip::api::engine_request(request);
  EXPECT_TRUE(taken) << taken.error().message;
}

class OfDemo : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto engine = Engine::load(kDemo, {.threads = 2, .slots = 8192});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = new Engine(std::move(*engine));
  }
  static void TearDownTestSuite() { delete engine_; }
  static Request scene() {
    auto request = request_of_scene(kScene);
    EXPECT_TRUE(request);
    request->decoder.preset = "scaffold-spec";
    return std::move(*request);
  }
  static Answer answer(const Request& request) {
    auto out = engine_->answer(request);
    EXPECT_TRUE(out) << out.error().message;
    return out ? std::move(*out) : Answer();
  }
  static Engine* engine_;
};
Engine* OfDemo::engine_ = nullptr;

// An answer in memory and a text that one expects save passes and change no token; both doors go by the same rules.
TEST_F(OfDemo, EarlierAnswersAndPredictionsDraft) {
  Request request = scene();
  const Answer first = answer(request);
  request.previous = std::make_shared<const Answer>(first);
  const Answer again = answer(request);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_LT(2 * again.statistics.forwards, first.statistics.forwards);
  EXPECT_THAT(again.decoder.drafter, StartsWith("previous:"));
  EXPECT_EQ(request.previous.use_count(), 1) << "an answer that held on to the one before it would hold all of a drive";
  request.previous = nullptr;
  request.prediction = first.text;
  const Answer foretold = answer(request);
  EXPECT_EQ(foretold.tokens, first.tokens);
  EXPECT_LT(2 * foretold.statistics.forwards, first.statistics.forwards);
  const auto told = engine_->answer(request, [](const Event&) {});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->statistics.forwards, foretold.statistics.forwards);
}

TEST_F(OfDemo, WhatIsNoEarlierAnswerOfTheFormIsPassedOver) {
  Request request = scene();
  const Answer first = answer(request);
  request.prediction = "no answer of this form";
  EXPECT_EQ(answer(request).decoder.drafter, first.decoder.drafter);
  request.prediction = "\xff";
  EXPECT_EQ(answer(request).tokens, first.tokens);
  request.prediction = first.text;
  request.decoder.drafter = "lookup";
  EXPECT_THAT(answer(request).decoder.drafter, StartsWith("lookup")) << "who names a drafter gets it";
  Request words;
  words.form = "none";
  words.prompt = "go on";
  words.max_tokens = 4;
  words.previous = std::make_shared<const Answer>(first);
  EXPECT_TRUE(engine_->answer(words)) << "of another form";
}

TEST(ServiceBounds, ThatMakeNoSenseAreRefusedByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
  const std::pair<const char*, ServiceOptions> wrong[] = {
      {"most_running", {.most_running = 0}},        {"most_running", {.most_running = -1}},
      {"most_waiting", {.most_waiting = -1}},       {"pass_budget_ms", {.pass_budget_ms = 0}},
      {"pass_budget_ms", {.pass_budget_ms = kNan}}, {"pass_budget_ms", {.pass_budget_ms = kInfinite}},
      {"feature_bytes", {.feature_bytes = -1}},
  };
  for (const auto& [name, options] : wrong) {
    auto engine = Engine::load(kDemo, {.threads = 1, .slots = 1024});
    ASSERT_TRUE(engine) << engine.error().message;
    const auto refused = Service::start(std::move(*engine), options);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(refused.error().message, StartsWith(std::string("service: ") + name + ": expected "));
  }
}

TEST(ServiceBounds, DeadlinesBelowNowAreRefusedAndRoomHasAnEnd) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  auto engine = Engine::load(kDemo, {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  auto service = Service::start(std::move(*engine), {.most_running = kMost, .most_waiting = kMost});
  ASSERT_TRUE(service) << service.error().message;
  EXPECT_EQ(service->load().room, kMost);
  Request words;
  words.form = "none";
  words.prompt = "go on";
  words.max_tokens = 4;
  for (const double ms : {-1.0, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    Served served;
    const auto refused = service->answer(words, {.deadline_ms = ms}, {}, &served);
    ASSERT_FALSE(refused) << ms;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(refused.error().message, StartsWith("terms: deadline_ms: expected "));
    EXPECT_EQ(served.fate, Fate::kFailed);
    EXPECT_EQ(service->outlook(words, {.deadline_ms = ms}).fate, Fate::kFailed);
  }
  EXPECT_TRUE(service->answer(words, {.deadline_ms = std::numeric_limits<double>::infinity()})) << "none";
  EXPECT_GT(service->outlook(words, {}).predicted_ms, 0) << "its kind is known now";
}

// Texts and parts alike, as parse_messages does of a document.
TEST_F(OfDemo, ARoleThatNoConversationHasIsRefused) {
  for (const char* role : {"bot", "", "User", "system\n", "\xff"}) {
    Request request;
    request.form = "none";
    request.max_tokens = 2;
    request.messages = {{.role = "user", .text = "go on"}, {.role = role, .text = "and on"}};
    for (const bool parts : {false, true}) {
      if (parts)
        request.messages = {{.role = "user", .text = "", .parts = {{.text = "go on"}}},
                            {.role = role, .text = "", .parts = {{.text = "on"}}}};
      const auto refused = engine_->answer(request);
      ASSERT_FALSE(refused) << role;
      EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
      EXPECT_THAT(refused.error().message, StartsWith("messages[1]: role: expected system, user or assistant, got "));
    }
  }
}

/// What is wrong with a request to models/demo, which sees along the chain.
struct Wrong {
  const char* what;
  void (*make)(Request&);
  ErrorKind kind;
  const char* message;
};
constexpr auto kText = [](Request& r) {
  r.form = "none";
  r.ego.reset();
  r.prompt = "go on";
};
const Wrong kWrong[] = {
    {"fields along a chain", [](Request& r) { r.decoder.preset = "fields"; }, ErrorKind::kUnsupported, "expected graph visibility"},
    {"a form's decoder over text",
     [](Request& r) {
       kText(r);
       r.decoder.preset = "scaffold-spec";
     },
     ErrorKind::kUsage, "expected a form for scaffold-spec, got none"},
    {"text by diffusion over a form", [](Request& r) { r.decoder.preset = "text-diffusion"; }, ErrorKind::kUnsupported,
     "expected free text for text-diffusion"},
    {"a draft model without a folder", [](Request& r) { r.decoder.preset = "draft-model"; }, ErrorKind::kUsage,
     "expected model:DIR for preset draft-model, got no folder"},
    {"a block of one row",
     [](Request& r) {
       r.decoder.preset = "scaffold-spec";
       r.decoder.width = "fixed:1";
     },
     ErrorKind::kUsage, "expected a draft length of at least 2"},
    {"log-probabilities of other tokens",
     [](Request& r) {
       r.decoder.preset = "section-diffusion";
       r.log_probs = true;
     },
     ErrorKind::kUnsupported, "log-probabilities: expected verifier exact"},
    {"ego and prompt", [](Request& r) { r.prompt = "go on"; }, ErrorKind::kUsage, "expected an ego history or a prompt, got both"},
    {"system alone", [](Request& r) { r.system = "Be brief."; }, ErrorKind::kUsage, "system: expected a prompt behind it"},
    {"an intent that is none", [](Request& r) { r.ego->intent = "GO_UP"; }, ErrorKind::kBadInput, "intent: expected GO_STRAIGHT"},
    {"a schema that is no JSON", [](Request& r) { r.form_schema = "{"; }, ErrorKind::kBadInput, "schema"},
    {"a schema that says nothing known", [](Request& r) { r.form_schema = R"({"type": "strange"})"; }, ErrorKind::kBadInput,
     "type"},
    {"a form that is none", [](Request& r) { r.form = "strange"; }, ErrorKind::kBadInput, "--form: expected a built-in"},
    {"a schema file that is not there", [](Request& r) { r.form = "no/such.json"; }, ErrorKind::kBadInput, "no/such.json"},
};

// One list for both: whoever checks a request first finds what would be refused later, in the same words.
TEST_F(OfDemo, WhatNeedsNoWeightsIsSaidBeforeAnythingIsLoadedAndByAnswer) {
  Request sound;
  sound.ego = Ego();
  EXPECT_TRUE(check_request(sound, kDemo));
  for (const Wrong& wrong : kWrong) {
    Request request = sound;
    wrong.make(request);
    const auto before = check_request(request, kDemo);
    const auto after = engine_->answer(request);
    ASSERT_FALSE(before) << wrong.what;
    ASSERT_FALSE(after) << wrong.what;
    EXPECT_EQ(before.error().kind, wrong.kind) << wrong.what << ": " << before.error().message;
    EXPECT_THAT(before.error().message, HasSubstr(wrong.message)) << wrong.what;
    EXPECT_EQ(after.error().kind, before.error().kind) << wrong.what << ": " << after.error().message;
    EXPECT_EQ(after.error().message, before.error().message) << wrong.what;
  }
}

TEST_F(OfDemo, ARequestThatAsksNothingYetIsCheckedAsFarAsItGoes) {
  EXPECT_TRUE(check_request({}, kDemo)) << "its inputs are read later";
  const auto loaded = Engine::load_for({}, kDemo);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(loaded.error().message, engine_->answer({}).error().message);
  const auto nowhere = check_request({}, "/no/such/model");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(nowhere.error().message, Engine::load("/no/such/model").error().message);
}

// A decoder may be one of forms alone, or of free text alone.
TEST(Decoders, OfAServerNeedSuitOneKindOfRequest) {
  for (const char* preset : {"text-diffusion", "scaffold-spec", "ar", "section-diffusion"})
    EXPECT_TRUE(check_decoder({.preset = preset}, kDemo)) << preset;
  EXPECT_EQ(check_decoder({.preset = "fields"}, kDemo).error().kind, ErrorKind::kUnsupported) << "as an answer is refused";
  EXPECT_EQ(check_decoder({.preset = "ar", .verifier = "rejection"}, kDemo).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(check_decoder({.preset = "far"}, kDemo).error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(check_decoder({.preset = "draft-model", .drafter = "model:no/such"}, kDemo)) << "read with the model";
  for (const DecoderChoice& none :
       {DecoderChoice{.preset = "draft-model"}, DecoderChoice{.preset = "scaffold-spec", .drafter = "model:"}}) {
    const auto refused = check_decoder(none, kDemo);
    ASSERT_FALSE(refused) << "no request names the folder either";
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(refused.error().message.find("--drafter: expected model:DIR"), 0U) << refused.error().message;
  }
}

}  // namespace
}  // namespace slipstream
