// SPDX-License-Identifier: Apache-2.0
// The service with a real model: whatever is under way beside it, an answer is the engine's alone, byte for byte.
#include "service/service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "base/folder_testing.h"
#include "base/philox.h"
#include "models/draft/flow_head_testing.h"
#include "sim/record.h"
#include "sim/record/make.h"

namespace slip {
namespace {

constexpr int kScenes = 3;
constexpr const char* kPresets[] = {"ar", "scaffold-ar", "scaffold-spec", "self-spec", "section-diffusion"};

std::unique_ptr<Engine> load(const char* folder = "/models/demo", int slots = 16384) {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + folder, {.threads = 2, .slots = slots});
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

Request scene_request(int scene, std::string_view preset, float temperature = 0, uint64_t seed = 0) {
  static const std::vector<sim::Record> records = [] {
    std::vector<sim::Record> out;
    for (uint64_t i = 0; i < kScenes; ++i) out.push_back(*sim::make_record(900000001 + i));
    return out;
  }();
  const sim::Record& record = records[static_cast<size_t>(scene)];
  Request r;
  r.ego = ego_of(record.labels);
  r.images = camera_images(record.images);
  r.method = *method_of(preset);
  r.decode.temperature = temperature;
  r.decode.seed = seed;
  return r;
}

struct Reply {
  std::promise<std::pair<Result<Answer>, Served>> promise;
  std::future<std::pair<Result<Answer>, Served>> future = promise.get_future();
};

std::shared_ptr<Reply> ask(Service& service, Request request, Terms terms = {}) {
  auto reply = std::make_shared<Reply>();
  service.submit({std::move(request), std::move(terms),
                  [reply](Result<Answer> a, const Served& s) {
                    reply->promise.set_value({std::move(a), s});
                  },
                  "test"});
  return reply;
}

struct Kind {
  int scene, preset;
  bool sampled;
};
Kind kind_of(uint32_t n) { return {static_cast<int>(n % kScenes), static_cast<int>(n / kScenes % 5), n / (5 * kScenes) % 2 == 1}; }
Request request_of(const Kind& k, uint64_t seed = 5) {
  return scene_request(k.scene, kPresets[k.preset], k.sampled ? 0.8F : 0, seed);
}

TEST(Service, AnswersAreTheEnginesAloneWhoeverElseIsUnderWay) {
  const auto engine = load(), alone = load();
  ASSERT_TRUE(engine && alone);
  constexpr uint32_t kKinds = 5 * kScenes * 2;
  std::vector<std::string> want;
  for (uint32_t k = 0; k < kKinds; ++k) {
    const auto a = alone->run(request_of(kind_of(k)));
    ASSERT_TRUE(a) << a.error().message;
    want.push_back(a->text);
  }
  auto service = Service::start(*engine, {.most_running = 12, .pass_budget_ms = 5});
  ASSERT_TRUE(service) << service.error().message;
  PhiloxStream r(4, 1);
  std::vector<std::pair<uint32_t, std::shared_ptr<Reply>>> replies;
  std::vector<std::pair<CancelToken, int>> hang_ups;
  int64_t cancelled = 0;
  for (int i = 0; i < 120; ++i) {
    const uint32_t k = r.below(kKinds);
    Request request = request_of(kind_of(k));
    CancelToken cancel = request.context.cancel = CancelToken();
    replies.emplace_back(k, ask(**service, std::move(request)));
    if (r.chance(0.25)) hang_ups.emplace_back(cancel, static_cast<int>(r.below(20)));
    for (auto& [token, at] : hang_ups)
      if (at-- == 0) token.cancel();
    if (r.chance(0.2)) std::this_thread::sleep_for(std::chrono::milliseconds(r.below(30)));
  }
  for (auto& [k, reply] : replies) {
    const auto [a, served] = reply->future.get();
    if (served.fate == Fate::kCancelled) {
      ++cancelled;
      EXPECT_EQ(a.error().kind, ErrorKind::kCancelled);
      continue;
    }
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_EQ(a->text, want[k]) << kPresets[kind_of(k).preset];
  }
  EXPECT_GT(cancelled, 3);
  for (int i = 0; i < 200 && (*service)->load().running > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const ServiceLoad load = (*service)->load();
  EXPECT_EQ(load.running, 0);
  EXPECT_EQ(load.pages_held, 0) << "no slot is held by those who are gone";
  EXPECT_GT(load.prompt_rows_found, load.prompt_rows / 4);
  EXPECT_GT(load.images_found, load.images / 2);
}

// A head reads keys that lie in pages, shared ones among them, while others' passes go on.
TEST(Service, PlansOfATrajectoryHeadAreTheEnginesAlone) {
  const auto engine = load(), alone = load();
  ASSERT_TRUE(engine && alone);
  const test::TemporaryFolder folder;
  test::write_random_head(engine->model(), folder.path / "head", {.until = "trajectory"});
  const auto with_head = [&](Request r, bool fast) {
    r.trajectory_head = (folder.path / "head").string();
    r.fast_plan = fast;
    return r;
  };
  const auto points_of = [](const Answer& a) {
    std::vector<Waypoint> out = a.plan.fitted->points;
    for (const HeadPlan& p : a.early_plans) out.insert(out.end(), p.plan.fitted->points.begin(), p.plan.fitted->points.end());
    return out;
  };
  auto service = Service::start(*engine, {.most_running = 12, .pass_budget_ms = 5});
  ASSERT_TRUE(service);
  std::vector<std::pair<Answer, std::shared_ptr<Reply>>> replies;
  for (int i = 0; i < 36; ++i) {
    Request request = request_of(kind_of(static_cast<uint32_t>(5 * i)), static_cast<uint64_t>(i % 3));
    if (i % 4 > 0) request = with_head(std::move(request), i % 4 > 1);
    auto a = alone->run(request);
    ASSERT_TRUE(a) << a.error().message;
    replies.emplace_back(std::move(*a), ask(**service, std::move(request)));
  }
  for (auto& [want, reply] : replies) {
    const auto [a, served] = reply->future.get();
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_EQ(a->text, want.text);
    EXPECT_EQ(points_of(*a), points_of(want)) << want.method.preset;
    EXPECT_EQ(a->head_forwards, want.head_forwards);
  }
}

TEST(Service, AnswersAreTheSameAlongAGraph) {
  const auto engine = load("/models/demo-cot"), alone = load("/models/demo-cot");
  ASSERT_TRUE(engine && alone);
  auto service = Service::start(*engine, {.pass_budget_ms = 5});
  ASSERT_TRUE(service);
  std::vector<std::pair<std::string, std::shared_ptr<Reply>>> replies;
  for (const char* preset : {"fields", "fields-spec"})
    for (int scene = 0; scene < kScenes; ++scene)
      for (const float t : {0.0F, 0.9F}) {
        Request request = scene_request(scene, preset, t, 3);
        const auto a = alone->run(request);
        ASSERT_TRUE(a) << a.error().message;
        Request measured = request;
        if (std::string_view(preset) == "fields-spec") measured.method.draft_length = {.kind = DraftLengthSpec::Kind::kMeasured};
        if (t > 0) {
          request.rollouts = measured.rollouts = 3;
          const auto many = alone->run(request);
          ASSERT_TRUE(many);
          EXPECT_EQ(many->texts[0], a->text);
          ASSERT_EQ(many->texts.size(), 3U);
        }
        replies.emplace_back(a->text, ask(**service, request));
        replies.emplace_back(a->text, ask(**service, measured));
      }
  for (auto& [want, reply] : replies) {
    const auto [a, served] = reply->future.get();
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_EQ(a->text, want);
  }
}

// `auto` prices passes. Alone it measures them in the arena's first slots; here others' rows lie there, kept ones among them.
TEST(Service, AutoMeasuresNothingWhereOthersRowsLie) {
  const test::TemporaryFolder cache;  // no costs kept
  const char* kept = std::getenv("XDG_CACHE_HOME");
  const std::string before = kept == nullptr ? "" : kept;
  ::setenv("XDG_CACHE_HOME", cache.path.c_str(), 1);
  const auto engine = load("/models/demo-cot"), alone = load("/models/demo-cot");
  ASSERT_TRUE(engine && alone);
  auto service = Service::start(*engine, {});
  ASSERT_TRUE(service);
  std::vector<std::string> want;
  for (int scene = 0; scene < kScenes; ++scene) {
    const auto a = alone->run(scene_request(scene, "fields"));
    ASSERT_TRUE(a) << a.error().message;
    want.push_back(a->text);
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<int, std::shared_ptr<Reply>>> replies;
    for (int scene = 0; scene < kScenes; ++scene) {
      replies.emplace_back(scene, ask(**service, scene_request(scene, round == 1 ? "auto" : "fields")));
      Request many = scene_request(scene, "auto", 0.8F, 7);
      many.rollouts = 1 + round;
      replies.emplace_back(-1, ask(**service, std::move(many)));
      if (round == 0) replies.emplace_back(scene, ask(**service, scene_request(scene, "ar")));
    }
    for (auto& [scene, reply] : replies) {
      const auto [a, served] = reply->future.get();
      ASSERT_TRUE(a) << a.error().message;
      if (scene >= 0) {
        EXPECT_EQ(a->text, want[static_cast<size_t>(scene)]) << "round " << round;
      }
      if (!a->chosen.name.empty()) {
        EXPECT_EQ(a->chosen.costs, "measured before the first request");
      }
    }
  }
  ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

TEST(Service, WhoHangsUpIsGoneBeforeTheNextPass) {
  const auto engine = load();
  ASSERT_TRUE(engine);
  auto service = Service::start(*engine, {.pass_budget_ms = 5});
  ASSERT_TRUE(service);
  int64_t passes = 0, since = 0;  // of the service's thread
  CancelToken cancel;
  for (const int64_t at : {1, 2, 9, 40}) {  // while a prompt's slices run, and while an answer is decoded
    (*service)->on_pass([&, at](const PassTold&) {
      since += cancel.cancelled();
      if (++passes == at) cancel.cancel();
    });
    passes = since = 0;
    Request request = scene_request(static_cast<int>(at % kScenes), "ar", 0.7F, static_cast<uint64_t>(at));
    request.reuse_prompt = false;
    cancel = request.context.cancel = CancelToken();
    const auto [a, served] = ask(**service, std::move(request))->future.get();
    EXPECT_FALSE(a);
    EXPECT_EQ(served.fate, Fate::kCancelled);
    EXPECT_EQ(passes, at);
    EXPECT_EQ(since, 0) << "passes behind the hang-up at " << at;
    for (int i = 0; i < 200 && (*service)->load().running > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ((*service)->load().pages_held, 0);
  }
}

TEST(Service, RefusesWhatDoesNotFitAndEndsWhatIsLate) {
  const auto engine = load("/models/demo", 2048);
  ASSERT_TRUE(engine);
  auto service = Service::start(*engine, {.most_running = 1, .most_waiting = 2});
  ASSERT_TRUE(service);
  Request big = scene_request(0, "scaffold-ar", 0.5F);
  big.rollouts = 64;
  const auto [none, failed] = ask(**service, big)->future.get();
  ASSERT_FALSE(none);
  EXPECT_EQ(failed.fate, Fate::kFailed);
  EXPECT_EQ(none.error().kind, ErrorKind::kResource) << "it could never fit";
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 12; ++i) replies.push_back(ask(**service, scene_request(i % kScenes, "ar")));
  int full = 0, answered = 0;
  for (auto& reply : replies) {
    const auto [a, served] = reply->future.get();
    full += served.fate == Fate::kFull;
    answered += served.fate == Fate::kAnswered;
    EXPECT_TRUE(served.fate != Fate::kFull || served.retry_after_s > 0);
  }
  EXPECT_EQ(full + answered, 12);
  EXPECT_GE(answered, 2);
  EXPECT_GE(full, 1);
  // What is known of its kind says that this deadline cannot be kept ...
  const auto [a, served] =
      ask(**service, scene_request(0, "ar"), {.deadline = Clock::now() + std::chrono::microseconds(200)})->future.get();
  EXPECT_FALSE(a);
  EXPECT_EQ(served.fate, Fate::kTooLate);
  EXPECT_GT(served.predicted_ms, 0.2) << "why it was refused";
  const Served outlook = (*service)->outlook({.name = "test"}, {});
  EXPECT_EQ(outlook.fate, Fate::kAnswered);
  EXPECT_GT(outlook.predicted_ms, 0.2);
  EXPECT_EQ((*service)->outlook({.name = "unheard of"}, {}).predicted_ms, 0);
  // ... and of a kind of which nothing is known it ends where it stands.
  Request unknown = scene_request(0, "ar");
  auto reply = std::make_shared<Reply>();
  (*service)->submit({std::move(unknown),
                      {.deadline = Clock::now() + std::chrono::milliseconds(3)},
                      [reply](Result<Answer> x, const Served& s) {
                        reply->promise.set_value({std::move(x), s});
                      },
                      "another kind"});
  const auto [b, late] = reply->future.get();
  EXPECT_FALSE(b);
  EXPECT_EQ(late.fate, Fate::kLate);
}

/// A graph in which the plan needs nothing of the text that stands before it.
constexpr const char* kPlanAside = R"({"title": "aside", "type": "object", "x-layout": "lines", "properties": {
  "weather": {"type": "string", "x-budget": 4, "x-parents": []},
  "note": {"type": "string", "x-budget": 32, "x-parents": ["weather"]},
  "trajectory": {"type": "array", "minItems": 4, "maxItems": 4, "x-parents": [], "x-section": "trajectory", "x-independent": true,
                 "items": {"type": "number", "x-format": " +000.00"}}}})";

TEST(Service, WhoTakesAPartGetsThePlanFirstWhereTheWholeMayBeLate) {
  const auto engine = load("/models/demo-cot");
  ASSERT_TRUE(engine);
  auto service = Service::start(*engine, {});
  ASSERT_TRUE(service);
  const auto ask_for = [&](bool partial, Clock::duration time, const std::string& kind, std::vector<std::string>& told) {
    Request request = scene_request(0, "fields");
    request.form_schema = kPlanAside;
    const FormPtr form = *engine->form_of(request);
    request.context.on_field = [&told, form](int32_t field, std::span<const TokenId>, int64_t) {
      told.push_back(form->form.fields()[static_cast<size_t>(field)].name);
    };
    auto reply = std::make_shared<Reply>();
    (*service)->submit({std::move(request),
                        {.deadline = Clock::now() + time, .partial = partial},
                        [reply](Result<Answer> x, const Served& s) {
                          reply->promise.set_value({std::move(x), s});
                        },
                        kind});
    return reply->future.get();
  };
  const auto place = [](const std::vector<std::string>& told, std::string_view name) {
    return std::find(told.begin(), told.end(), name) - told.begin();
  };
  std::vector<std::string> plain, first, known, late;
  constexpr std::chrono::hours kLong{1};
  const auto [a, one] = ask_for(false, kLong, "plain", plain);
  const auto [b, two] = ask_for(true, kLong, "partial", first);  // nobody knows what it takes
  const auto [c, three] = ask_for(true, kLong, "partial", known);
  ASSERT_TRUE(a && b && c) << (a ? "" : a.error().message);
  EXPECT_EQ(a->text, b->text);
  EXPECT_EQ(a->text, c->text);
  EXPECT_LT(place(plain, "weather"), place(plain, "trajectory.3"));
  EXPECT_LT(place(first, "trajectory.3"), place(first, "weather")) << "the plan before all that it does not need";
  EXPECT_EQ(known, plain) << "there is time for the whole: the quickest order";
  for (int i = 0; i < 2000 && (*service)->load().running > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto [d, four] = ask_for(true, std::chrono::microseconds(50), "partial", late);
  EXPECT_FALSE(d);
  EXPECT_EQ(four.fate, Fate::kLate) << "a part of nothing, but no refusal";
  const auto [e, five] = ask_for(false, std::chrono::microseconds(50), "partial", late);
  EXPECT_FALSE(e);
  EXPECT_NE(five.fate, Fate::kAnswered);
}

TEST(Service, WhoWaitsBeyondADeadlineIsToldAtOnce) {
  const auto engine = load("/models/demo", 2048);
  ASSERT_TRUE(engine);
  auto service = Service::start(*engine, {.most_running = 1, .most_waiting = 8});
  ASSERT_TRUE(service);
  // One request runs and asks for the others from its own passes: they wait until it is over, whatever the machine does.
  std::shared_ptr<Reply> waits;
  bool told_before_the_end = false;
  int64_t passes = 0;
  (*service)->on_pass([&](const PassTold&) {
    if (++passes == 1) {
      Request request = scene_request(1, "ar");
      waits = std::make_shared<Reply>();
      (*service)->submit({std::move(request),
                          {.deadline = Clock::now() + std::chrono::milliseconds(2)},
                          [reply = waits](Result<Answer> x, const Served& s) {
                            reply->promise.set_value({std::move(x), s});
                          },
                          "waits"});
    } else if (passes == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } else if (passes == 3) {
      told_before_the_end = waits->future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
  });
  const auto [a, served] = ask(**service, scene_request(0, "ar"))->future.get();
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_GT(passes, 3);
  EXPECT_TRUE(told_before_the_end) << "it waits for nothing that it could still get";
  const auto [b, late] = waits->future.get();
  EXPECT_FALSE(b);
  EXPECT_EQ(late.fate, Fate::kLate);
}

/// Who is answered in which order when a batch request has come before an interactive one, and both wait.
std::vector<std::string> order_of_a_queue(double aging_s) {
  const auto engine = load("/models/demo", 2048);
  if (!engine) return {};
  auto service = Service::start(*engine, {.most_running = 1, .aging_s = aging_s});
  if (!service) return {};
  std::vector<std::string> order;  // written on the service's thread
  std::vector<std::future<void>> over;
  const auto submit = [&](const char* name, bool batch) {
    auto done = std::make_shared<std::promise<void>>();
    over.push_back(done->get_future());
    (*service)->submit({scene_request(0, "scaffold-spec"),
                        {.batch = batch},
                        [&order, name, done](Result<Answer> a, const Served&) {
                          order.push_back(a ? name : a.error().message);
                          done->set_value();
                        },
                        "test"});
  };
  std::promise<void> runs, all_here;
  bool first = true;
  (*service)->on_pass([&](const PassTold&) {
    if (!std::exchange(first, false)) return;
    runs.set_value();
    all_here.get_future().wait();
  });
  submit("running", false);
  runs.get_future().wait();
  submit("batch", true);
  submit("interactive", false);
  all_here.set_value();
  for (auto& o : over) o.wait();
  return order;
}

TEST(Service, BatchGetsWhatInteractiveRequestsLeave) {
  EXPECT_EQ(order_of_a_queue(3600), (std::vector<std::string>{"running", "interactive", "batch"}));
  EXPECT_EQ(order_of_a_queue(0), (std::vector<std::string>{"running", "batch", "interactive"})) << "it has waited long enough";
}

}  // namespace
}  // namespace slip
