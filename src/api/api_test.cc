// SPDX-License-Identifier: Apache-2.0
// The C++ interface as a program uses it: what a callback may do, what a deadline leaves, and an answer that drafts the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <future>
#include <limits>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/folder_testing.h"
#include "base/json.h"
#include "models/draft/flow_head_testing.h"
#include "slipstream/engine.h"
#include "slipstream/model.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kScene = 900000017;

/// A forked process that hangs is ended after 20 s.
void expect_success(pid_t child) {
  ASSERT_GT(child, 0);
  int status = -1;
  for (int i = 0; i < 2000 && ::waitpid(child, &status, WNOHANG) == 0; ++i) ::usleep(10'000);
  if (!WIFEXITED(status)) ::kill(child, SIGKILL);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

class Api : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 2});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = new Engine(std::move(*engine));
    auto request = request_of_scene(kScene);
    ASSERT_TRUE(request);
    request_ = new Request(std::move(*request));
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete request_;
  }
  /// The scene's request with a token of its own.
  static Request asked() {
    Request out = *request_;
    out.cancel = CancelToken();
    return out;
  }
  static Answer answer(const Request& request) {
    auto out = engine_->answer(request);
    EXPECT_TRUE(out) << out.error().message;
    return out ? std::move(*out) : Answer();
  }

  static Engine* engine_;
  static Request* request_;
};
Engine* Api::engine_ = nullptr;
Request* Api::request_ = nullptr;

TEST_F(Api, WhatACallbackThrowsEndsTheAnswerAndNothingElse) {
  const Answer before = answer(asked());
  for (const int64_t pass : {1, 2, 7}) {
    const auto thrown = engine_->answer(asked(), [&](const Event& e) {
      if (e.kind == Event::Kind::kPass && e.forwards >= pass) throw std::runtime_error("of the caller");
    });
    ASSERT_FALSE(thrown);
    EXPECT_EQ(thrown.error().kind, ErrorKind::kInternal);
    EXPECT_THAT(thrown.error().message, HasSubstr("of the caller"));
    const auto number = engine_->answer(asked(), [&](const Event& e) {
      if (e.kind == Event::Kind::kField) throw 7;
    });
    ASSERT_FALSE(number);
    EXPECT_EQ(number.error().kind, ErrorKind::kInternal);
    EXPECT_EQ(answer(asked()).tokens, before.tokens);
  }
}

// The machine has no memory, wherever that shows: not a mistake of the library's.
TEST_F(Api, MemoryThatACallbackMissesIsMemory) {
  const auto none = engine_->answer(asked(), [](const Event&) { throw std::bad_alloc(); });
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kResource);
  EXPECT_EQ(none.error().message, "on_event: memory: expected enough of it, got an allocation that failed");
  const auto own = engine_->answer(asked(), [](const Event&) { throw std::length_error("of the caller"); });
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().kind, ErrorKind::kInternal);
  EXPECT_EQ(own.error().message, "on_event: expected no exception, got: of the caller");
}

// A pass of many requests is no place for one's exception: each kind of event ends its own answer, and the others go on.
TEST(Doors, WhatCallbacksOfAServiceThrowEndsTheirAnswerAlone) {
  const std::string folder = std::string(SLIP_SOURCE_DIR) + "/models/demo";
  auto scene = request_of_scene(kScene);
  auto engine = Engine::load(folder, {.threads = 2, .slots = 8192});
  ASSERT_TRUE(scene && engine);
  auto service = Service::start(std::move(*engine));
  ASSERT_TRUE(service) << service.error().message;
  service->on_pass([](const PassShared&) { throw std::runtime_error("of on_pass"); });
  scene->reuse_prompt = false;
  const auto before = service->answer(*scene);
  ASSERT_TRUE(before) << before.error().message;
  using Kind = Event::Kind;
  for (const Kind kind : {Kind::kPrefill, Kind::kField, Kind::kPass, Kind::kPlan}) {
    Served served;
    const auto throws = [&](const Event& e) {
      if (e.kind == kind) throw std::runtime_error("of the caller");
    };
    const auto thrown = service->answer(*scene, {}, throws, &served);
    ASSERT_FALSE(thrown) << static_cast<int>(kind);
    EXPECT_EQ(served.fate, Fate::kFailed);
    EXPECT_EQ(thrown.error().kind, ErrorKind::kInternal);
    EXPECT_EQ(thrown.error().message, "on_event: expected no exception, got: of the caller");
  }
  service->submit(*scene, {}, {}, [](const Result<Answer>&, const Served&) { throw 7; });
  std::string inside;
  const auto asks = [&](const Event& e) {
    if (e.kind == Kind::kPass && inside.empty()) inside = service->answer(*scene).error().message;
  };
  ASSERT_TRUE(service->answer(*scene, {}, asks));
  EXPECT_THAT(inside, HasSubstr("would wait for itself"));
  const auto after = service->answer(*scene);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->tokens, before->tokens);
}

/// Who waits holds its pictures, who runs has let them go.
TEST(Doors, PicturesThatWaitHaveALimit) {
  auto scene = request_of_scene(kScene);
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 2, .slots = 8192});
  ASSERT_TRUE(scene && engine);
  ASSERT_FALSE(scene->images.empty());
  auto service = Service::start(std::move(*engine), {.most_running = 1, .picture_bytes = 1});
  ASSERT_TRUE(service) << service.error().message;
  const auto ask = [&](const Request& request, OnEvent on_event = {}) {
    const auto told = std::make_shared<std::promise<Served>>();
    service->submit(request, {}, std::move(on_event), [told](const Result<Answer>&, const Served& s) { told->set_value(s); });
    return told->get_future();
  };
  std::promise<void> runs, may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  bool first = true;
  auto running = ask(*scene, [&](const Event& e) {
    if (e.kind != Event::Kind::kPass || !std::exchange(first, false)) return;
    runs.set_value();
    end.wait();
  });
  runs.get_future().wait();
  auto waits = ask(*scene), refused = ask(*scene);
  ASSERT_EQ(refused.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  const Served full = refused.get();
  EXPECT_EQ(full.fate, Fate::kFull);
  EXPECT_GT(full.retry_after_s, 0);
  Request without;
  without.prompt = "go on";
  without.form = "none";
  without.max_tokens = 4;
  auto also_waits = ask(without);
  may_end.set_value();
  for (auto* each : {&running, &waits, &also_waits}) EXPECT_EQ(each->get().fate, Fate::kAnswered);
  EXPECT_EQ(ask(*scene).get().fate, Fate::kAnswered) << "its room is given back";
}

TEST_F(Api, AnEngineRefusesToBeAskedFromItsOwnCallback) {
  std::string why;
  const auto outer = engine_->answer(asked(), [&](const Event& e) {
    if (e.kind != Event::Kind::kPass || !why.empty()) return;
    const auto inner = engine_->answer(asked());
    ASSERT_FALSE(inner);
    EXPECT_EQ(inner.error().kind, ErrorKind::kUsage);
    why = inner.error().message;
  });
  ASSERT_TRUE(outer) << outer.error().message;
  EXPECT_THAT(why, HasSubstr("its own callback"));
}

// Numbers that no document could set, set in memory: refused before anything is made of them.
TEST_F(Api, SettingsOutOfTheirRangeAreRefusedHereToo) {
  const auto refused = [](const char* what, auto&& set) {
    Request request = asked();
    set(request);
    const auto got = engine_->answer(request);
    ASSERT_FALSE(got) << what;
    EXPECT_EQ(got.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(got.error().message, StartsWith(std::string("request: ") + what + ": expected"));
  };
  refused("rollouts", [](Request& r) { r.rollouts = 1'000'000; });
  refused("rollouts", [](Request& r) { r.rollouts = INT32_MIN; });
  refused("top_log_probs", [](Request& r) { r.top_log_probs = 1000; });
  refused("max_rows", [](Request& r) { r.max_rows = -1; });
  refused("temperature", [](Request& r) { r.sampling.temperature = 1e308; });
  refused("top_p", [](Request& r) { r.sampling.top_p = std::numeric_limits<double>::quiet_NaN(); });
  refused("stop", [](Request& r) { r.stop = {""}; });
  refused("section_temperatures: explanation", [](Request& r) { r.sampling.section_temperatures = {{"explanation", 1e308}}; });
}

// Fields that are told within a round stand behind its passes.
TEST(Doors, FieldsAlongAGraphCountThePassesBeforeThem) {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo-cot", {.threads = 2});
  auto request = request_of_scene(5);
  ASSERT_TRUE(engine && request);
  request->decoder.preset = "fields-spec";
  int64_t fields = 0, tokens = 0;
  const auto a = engine->answer(*request, [&](const Event& e) {
    if (e.kind != Event::Kind::kField) return;
    ++fields;
    EXPECT_GT(e.forwards, 0) << e.field->name;
    EXPECT_GE(e.tokens, tokens) << e.field->name;
    tokens = e.tokens;
  });
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_GT(fields, 20);
  EXPECT_GT(tokens, 0);
}

// What a program that forks finds in its child: words, and no hang.
TEST_F(Api, AForkIsToldThatItHasNoEngine) {
  ASSERT_TRUE(engine_->answer(asked()));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto here = engine_->answer(asked());
    bool told = !here && here.error().kind == ErrorKind::kUnsupported && here.error().message.find("fork") != std::string::npos;
    told = told && !Service::start(std::move(*engine_));
    delete engine_;
    ::_exit(told ? 0 : 1);
  }
  expect_success(child);
  ASSERT_TRUE(engine_->answer(asked()));
}

// The service's thread is the parent's: a lock that it held when the process forked is held for ever.
TEST(Doors, AForkIsToldThatItHasNoService) {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  auto service = Service::start(std::move(*engine));
  ASSERT_TRUE(service) << service.error().message;
  Request words;
  words.prompt = "go on";
  words.form = "none";
  words.max_tokens = 4;
  EXPECT_EQ(service->outlook(words, {}).fate, Fate::kAnswered);
  EXPECT_GT(service->load().room, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto refused = [](const auto& result) { return !result && result.error().kind == ErrorKind::kUnsupported; };
    Served served;
    bool told = refused(service->answer(words, {}, {}, &served)) && served.fate == Fate::kFailed;
    told = told && service->outlook(words, {}).fate == Fate::kFailed && service->load().room == 0;
    told = told && refused(service->most_tokens(words)) && service->tokenize("go on").has_value();
    ::_exit(told ? 0 : 1);
  }
  expect_success(child);
}

TEST_F(Api, ACallbackMayCancelAndWhatItWasToldStaysTrue) {
  const Answer whole = answer(asked());
  for (const size_t enough : {1, 3, 8}) {
    Request request = asked();
    std::map<std::string, std::string> known;
    const auto stopped = engine_->answer(request, [&](const Event& e) {
      if (e.kind == Event::Kind::kField) known[e.field->name] = e.field->text;
      if (known.size() >= enough) request.cancel.cancel();
    });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
    EXPECT_GE(known.size(), enough);
    EXPECT_LT(known.size(), whole.fields.size());
    for (const auto& [name, text] : known) {
      ASSERT_NE(whole.field(name), nullptr) << name;
      EXPECT_EQ(whole.field(name)->text, text) << name;
    }
  }
}

/// Of a form whose shape its values choose: values of the way that the answer goes, in its order, and nothing else.
TEST_F(Api, FieldsAreToldAlongTheAnswersOwnWay) {
  for (const char* preset : {"ar", "scaffold-spec"})
    for (const uint64_t seed : {1, 2, 3}) {
      Request request = asked();
      request.form_schema = R"({"anyOf": [
        {"type": "object", "properties": {"kind": {"const": "go"}, "metres": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["kind", "metres"]},
        {"type": "object", "properties": {"kind": {"const": "wait"}, "why": {"type": "string", "maxLength": 6}, "sure": {"type": "boolean"}}, "required": ["kind"]}]})";
      request.decoder.preset = preset;
      request.sampling.temperature = 1;
      request.seed = seed;
      std::vector<std::string> told;
      const auto a = engine_->answer(request, [&](const Event& e) {
        if (e.kind == Event::Kind::kField) told.push_back(e.field->name + "=" + e.field->json);
      });
      ASSERT_TRUE(a) << a.error().message;
      const slip::json::value document = *slip::parse_json(a->text, "answer");
      std::vector<std::string> expected;
      for (const auto& m : document.as_object())
        if (m.key() != "kind") expected.push_back(std::string(m.key()) + "=" + slip::json::serialize(m.value()));
      EXPECT_EQ(told, expected) << preset << " " << a->text;
    }
}

TEST_F(Api, CopiesOfARequestShareItsToken) {
  Request request = asked();
  const Request copy = request;
  request.cancel.cancel();
  EXPECT_EQ(engine_->answer(copy).error().kind, ErrorKind::kCancelled);
  Request renewed = copy;
  renewed.cancel = CancelToken();
  EXPECT_TRUE(engine_->answer(renewed));
}

TEST_F(Api, WaitingForATurnCountsForTheDeadline) {
  Request slow = asked(), late = asked();
  slow.decoder.preset = "ar";
  slow.sampling.temperature = 1;
  slow.rollouts = 8;
  bool asked_late = false;
  ErrorKind kind = ErrorKind::kInternal;
  std::thread other;
  const auto stopped = engine_->answer(slow, [&](const Event&) {
    if (asked_late) {
      slow.cancel.cancel();
      return;
    }
    asked_late = true;
    other = std::thread([&] {
      late.cancel.set_deadline(CancelToken::Clock::now() + std::chrono::milliseconds(20));
      const auto none = engine_->answer(late);
      if (!none) kind = none.error().kind;
    });
    other.join();  // the turn is kept meanwhile
  });
  ASSERT_FALSE(stopped);
  EXPECT_TRUE(asked_late) << stopped.error().message;
  EXPECT_EQ(kind, ErrorKind::kCancelled);
}

TEST_F(Api, AnEarlierAnswerDraftsTheNextInFewerPasses) {
  const Answer first = answer(asked());
  Request next = asked();
  next.previous_answer = first.to_json();
  const Answer again = answer(next);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_LT(2 * again.statistics.forwards, first.statistics.forwards);
  EXPECT_THAT(again.decoder.drafter, StartsWith("previous:"));
  auto later = request_of_scene(kScene, 0.5);
  ASSERT_TRUE(later);
  const Answer alone = answer(*later);
  later->previous_answer = first.to_json();
  EXPECT_EQ(answer(*later).tokens, alone.tokens) << "whatever was said before";
  later->previous_answer = alone.to_json();
  later->form = "none";
  later->ego.reset();
  later->prompt = "go on";
  EXPECT_EQ(engine_->answer(*later).error().kind, ErrorKind::kBadInput) << "of another form";
}

TEST_F(Api, PlansOfAHeadAreToldAsTheyComeAndStandInTheAnswer) {
  slip::test::TemporaryFolder folder;
  const auto model = slip::load_model(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 1, .slots = 64});
  ASSERT_TRUE(model);
  slip::test::write_random_head(**model, folder.path / "head", {.until = "trajectory"});
  const Answer own = answer(asked());
  EXPECT_EQ(own.plan_source, "answer");
  EXPECT_FALSE(own.own_trajectory);
  Request request = asked();
  request.trajectory_head = (folder.path / "head").string();
  request.fast_plan = true;
  std::vector<std::string> told;
  std::vector<std::vector<Point>> plans;
  const auto a = engine_->answer(request, [&](const Event& e) {
    if (e.kind != Event::Kind::kPlan) return;
    told.push_back(std::string(e.plan_source) + " " + std::string(e.after_section) + (e.final ? "" : " ..."));
    plans.push_back(e.plan->points_4hz);
  });
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(told, (std::vector<std::string>{"head prompt ...", "head critical_objects ...", "head explanation ...",
                                            "head future_meta_behavior", "answer "}));
  EXPECT_EQ(a->tokens, own.tokens);
  EXPECT_EQ(a->plan_source, "head");
  ASSERT_TRUE(a->own_trajectory);
  EXPECT_EQ(a->own_trajectory->points_4hz, own.trajectory.points_4hz);
  ASSERT_EQ(a->early_plans.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a->early_plans[i].trajectory.points_4hz, plans[i]);
  EXPECT_EQ(a->trajectory.points_4hz, plans[3]);
  EXPECT_EQ(plans[4], own.trajectory.points_4hz);
  EXPECT_GT(a->statistics.head_ms, 0);
  EXPECT_THAT(a->to_json(), HasSubstr("\"plan_source\":\"head\""));
  EXPECT_THAT(a->to_json(), HasSubstr("\"after_section\":\"explanation\""));
  EXPECT_THAT(a->to_json(), HasSubstr(a->trajectory.to_json()));
}

TEST_F(Api, AnEarlierAnswerFindsRoomAndRefusesWhatMakesNoSense) {
  Request next = asked();
  next.previous_answer = answer(asked()).to_json();
  const std::string folder = std::string(SLIP_SOURCE_DIR) + "/models/demo";
  auto fitting = Engine::load_for(next, folder, {.threads = 2});
  ASSERT_TRUE(fitting) << fitting.error().message;
  EXPECT_TRUE(fitting->answer(next));
  next.decoder.drafter = "lookup";
  EXPECT_EQ(engine_->answer(next).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(check_request(next, folder).error().kind, ErrorKind::kUsage);
  next.decoder.drafter.clear();
  for (const char* document : {"", "{", "[]", "{}", R"({"tokens": [1, 2, 3]})", R"({"tokens": [999999999], "form": "wod-e2e"})"}) {
    next.previous_answer = document;
    const auto refused = engine_->answer(next);
    if (!*document) {
      EXPECT_TRUE(refused) << "none";
      continue;
    }
    ASSERT_FALSE(refused) << document;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput) << document;
    EXPECT_THAT(refused.error().message, StartsWith("previous_answer")) << document;
  }
}

TEST_F(Api, ExactSameLawAndLossyAreThreeThings) {
  const auto used = [&](const char* preset, const char* verifier) {
    Request request = asked();
    request.sampling.temperature = 0.8;
    request.decoder.preset = preset;
    request.decoder.verifier = verifier;
    const DecoderUsed& d = answer(request).decoder;
    return std::pair(d.exact, d.lossy);
  };
  EXPECT_EQ(used("scaffold-spec", ""), std::pair(true, false));
  EXPECT_EQ(used("scaffold-spec", "rejection"), std::pair(false, false));
  EXPECT_EQ(used("section-diffusion", ""), std::pair(false, true));
}

TEST_F(Api, ACacheThatIsTooSmallNamesItsOption) {
  auto small = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 1, .slots = 64});
  ASSERT_TRUE(small) << small.error().message;
  const auto refused = small->answer(asked());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kResource);
  EXPECT_THAT(refused.error().message, HasSubstr("EngineOptions::slots"));
}

// Log probabilities stand beside the tokens one for one: those of the fields, and 0 where the form writes.
TEST_F(Api, LogProbabilitiesStandBesideTheTokens) {
  Request r = asked();
  r.log_probs = true;
  const Answer a = answer(r);
  const std::vector<double> each = a.token_log_probs();
  ASSERT_EQ(each.size(), a.tokens.size());
  double drawn = 0, ends = 0;
  size_t in_fields = 0;
  for (const LogProbs& of : a.log_probs) in_fields += of.tokens.size(), drawn += of.sum;
  double sum = 0;
  for (const double p : each) sum += p;
  ends = drawn - sum;
  EXPECT_LE(ends, 1e-9);  // what the fields' ENDs add can only make it less
  EXPECT_LT(sum, 0);
  EXPECT_GT(in_fields, 0U);
  EXPECT_TRUE(answer(asked()).token_log_probs().empty());
}

}  // namespace
}  // namespace slipstream
