// SPDX-License-Identifier: Apache-2.0
// Many requests under way on one engine: each gets the bytes that it would get alone, and one that nobody waits for leaves the line.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine.h"
#include "sim/record/make.h"

namespace slip {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Engine> demo() {
  auto engine = Engine::load(SLIP_SOURCE_DIR "/models/demo", {.threads = 2});
  return engine ? std::move(*engine) : nullptr;
}

Request request_about(uint64_t scene, const char* preset) {
  const auto record = sim::make_record(scene);
  Request out{};
  out.ego = ego_of(record->labels);
  out.images = camera_images(record->images);
  out.method = *method_of(preset);
  out.decode.seed = scene;
  out.decode.temperature = 0.7F;
  return out;
}

struct Asked {
  Request request;
  std::vector<TokenId> alone;  // the answer to it when no other is under way
};

std::vector<Asked> asked_of(Engine& engine) {
  std::vector<Asked> out;
  for (const char* preset : {"scaffold-spec", "scaffold-ar", "section-diffusion"})
    for (uint64_t scene = 900'000'000; scene < 900'000'002; ++scene) out.push_back({request_about(scene, preset), {}});
  for (Asked& a : out) {
    const auto answer = engine.run(a.request);
    EXPECT_TRUE(answer) << answer.error().message;
    if (answer) a.alone = answer->decoded.tokens;
  }
  return out;
}

TEST(EngineThreads, GiveTheBytesOfOneAfterTheOther) {
  const auto engine = demo();
  ASSERT_TRUE(engine);
  const std::vector<Asked> asked = asked_of(*engine);
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < asked.size(); ++i) {
        const Asked& a = asked[(i + t) % asked.size()];
        const auto answer = engine->run(a.request);
        equal += answer && answer->decoded.tokens == a.alone;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(equal, static_cast<int>(4 * asked.size()));
}

TEST(EngineThreads, CompileAFormOnceForAll) {
  const auto engine = demo();
  ASSERT_TRUE(engine);
  std::vector<FormPtr> forms(4);
  std::vector<std::thread> threads;
  for (FormPtr& form : forms)
    threads.emplace_back([&] {
      if (auto made = engine->form("drive-cot")) form = *made;
    });
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(forms[0]);
  for (const FormPtr& form : forms) EXPECT_EQ(form, forms[0]);
}

TEST(EngineForms, OfManySchemasTheOneUsedLongestAgoIsForgotten) {
  const auto engine = demo();
  ASSERT_TRUE(engine);
  const auto form = [&](int i) {
    Request r{};
    r.form_schema = R"({"type":"object","properties":{"a)" + std::to_string(i) + R"(":{"type":"boolean"}},"required":["a)" +
                    std::to_string(i) + R"("]})";
    auto out = engine->form_of(r);
    EXPECT_TRUE(out) << out.error().message;
    return *out;
  };
  const FormPtr first = form(0), second = form(1);
  for (int i = 2; i < 64; ++i) form(i);
  EXPECT_EQ(form(0), first) << "64 are kept";
  form(64);
  EXPECT_EQ(form(0), first) << "it was used a moment ago";
  EXPECT_NE(form(1), second) << "nobody had asked for it since";
}

/// A few large ones take the room of many.
TEST(EngineForms, OfLargeSchemasFewerAreKept) {
  const auto engine = demo();
  ASSERT_TRUE(engine);
  const auto schema = [](int i, int values) {
    std::string out = R"({"type":"object","properties":{"a":{"enum":[)";
    for (int k = 0; k < values; ++k) out += fmt::format("{}\"v{}x{}\"", k ? "," : "", i, k);
    return out + R"(]}},"required":["a"]})";
  };
  Forms unbounded(engine->model(), engine->task(), nullptr);
  const auto large = unbounded.of_schema(schema(0, 200));
  ASSERT_TRUE(large) << large.error().message;
  const size_t bytes = bytes_of(**large) + schema(0, 200).size();
  EXPECT_GT(bytes, 200U * sizeof(TokenRules::State));
  Forms forms(engine->model(), engine->task(), nullptr, 3 * bytes + bytes / 2);
  const auto form = [&](int i, int values) {
    auto out = forms.of_schema(schema(i, values));
    EXPECT_TRUE(out) << out.error().message;
    return *out;
  };
  const FormPtr first = form(1, 200), second = form(2, 200), third = form(3, 200);
  EXPECT_EQ(form(1, 200), first) << "three have room";
  const FormPtr fourth = form(4, 200);
  EXPECT_EQ(form(1, 200), first) << "it was used a moment ago";
  EXPECT_EQ(form(3, 200), third);
  EXPECT_EQ(form(4, 200), fourth);
  EXPECT_NE(form(2, 200), second) << "nobody had asked for it since";
  const FormPtr all = form(5, 2000);
  EXPECT_EQ(form(5, 2000), all) << "one that is larger than all may be is kept alone";
  EXPECT_NE(form(4, 200), fourth);
}

TEST(Turns, GoInTheOrderOfThoseWhoWait) {
  Turns turns;
  std::vector<int> order;
  std::vector<std::thread> threads;
  {
    const auto first = turns.wait({});
    ASSERT_TRUE(first);
    for (int i = 0; i < 4; ++i) {
      const size_t before = turns.in_line();
      threads.emplace_back([&, i] {
        const auto turn = turns.wait({});
        order.push_back(i);
      });
      while (turns.in_line() == before) std::this_thread::sleep_for(1ms);  // they come in this order
    }
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(Turns, AreLeftByWhoeverIsNotWaitedForAnyMore) {
  Turns turns;
  auto first = std::make_optional(turns.wait({}));
  CancelToken cancel;
  std::thread other([&] {
    const auto turn = turns.wait(cancel);
    EXPECT_FALSE(turn);
    EXPECT_EQ(turn.error().kind, ErrorKind::kCancelled);
    EXPECT_EQ(turn.error().message, "admit: expected to finish, got cancelled after 0 passes");
  });
  cancel.cancel();
  other.join();
  first.reset();
  EXPECT_TRUE(turns.wait({})) << "the one who left holds nobody up";
}

}  // namespace
}  // namespace slip
