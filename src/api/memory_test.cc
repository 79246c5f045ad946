// SPDX-License-Identifier: Apache-2.0
// A service whose caller has no memory left: words, once, and nothing thrown. This program's operator new fails where a test says so.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <string>

#include "slipstream/engine.h"

namespace {

thread_local int64_t g_left = -1;  // allocations of this thread until one fails; below 0: none will

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  if (g_left >= 0 && g_left-- == 0) throw std::bad_alloc();
  if (void* at = std::malloc(size > 0 ? size : 1)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, size_t) noexcept { std::free(at); }

namespace slipstream {
namespace {

TEST(Memory, ARequestThatCannotBeCopiedIsToldOnce) {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  auto service = Service::start(std::move(*engine));
  ASSERT_TRUE(service) << service.error().message;
  Request words;
  words.prompt = std::string(100, 'a');
  words.system = std::string(100, 'b');
  words.form = "none";
  const Terms terms{.key = std::string(100, 'c')};  // each of the three is too long to be kept without an allocation
  for (int64_t first = 0; first < 3; ++first) {
    int calls = 0;
    ErrorKind kind = ErrorKind::kInternal;
    Fate fate = Fate::kAnswered;
    const Service::OnDone on_done = [&](const Result<Answer>& answer, const Served& served) {
      ++calls;
      fate = served.fate;
      if (!answer) kind = answer.error().kind;
    };
    Service::OnDone handed = on_done;
    g_left = first;
    EXPECT_NO_THROW(service->submit(words, terms, {}, std::move(handed)));
    g_left = -1;
    EXPECT_EQ(calls, 1) << first;
    EXPECT_EQ(kind, ErrorKind::kResource) << first;
    EXPECT_EQ(fate, Fate::kFailed) << first;
  }
}

/// The service's thread goes on, and tells who is gone as soon as there are words for it.
TEST(Memory, WhoIsDroppedFromTheLineWithoutMemoryIsToldLater) {
  auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + "/models/demo", {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  auto service = Service::start(std::move(*engine), {.most_running = 1});
  ASSERT_TRUE(service) << service.error().message;
  Request words;
  words.prompt = "go on";
  words.form = "none";
  words.max_tokens = 16;
  words.decoder.preset = "ar";
  std::promise<void> runs, waits;
  CancelToken cancel;
  int passes = 0;
  service->on_pass([&](const PassShared&) {
    if (++passes == 1) {
      runs.set_value();
      waits.get_future().wait();
    } else if (passes == 2) {
      cancel.cancel();
      g_left = 0;  // the next allocation of this thread, which is about to look who waits
    }
  });
  const auto ask = [&](const Request& request) {
    const auto told = std::make_shared<std::promise<Served>>();
    service->submit(request, {}, {}, [told](const Result<Answer>&, const Served& served) { told->set_value(served); });
    return told->get_future();
  };
  auto running = ask(words);
  runs.get_future().wait();
  words.cancel = cancel;
  auto dropped = ask(words);
  waits.set_value();
  EXPECT_EQ(dropped.get().fate, Fate::kCancelled);
  EXPECT_EQ(running.get().fate, Fate::kAnswered);
  EXPECT_GT(passes, 2);
}

}  // namespace
}  // namespace slipstream
