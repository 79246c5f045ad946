// SPDX-License-Identifier: Apache-2.0
// What is wrong with a server's options is said before it listens; and what its numbers count.
#include "server/serve.h"

#include <gtest/gtest.h>

#include "server/metrics.h"

namespace slip::server {
namespace {

std::string model(const char* name) { return SLIP_SOURCE_DIR "/models/" + std::string(name); }

TEST(Serve, RefusesADecoderThatCouldAnswerNobody) {
  const auto refused = [](const std::string& of, const slipstream::DecoderChoice& decoder) {
    // Forms are read behind the decoder, so that a wrong one keeps the test from listening.
    const Status s = serve({.model = of, .metrics_prefix = "x:", .forms = {"no form"}, .port = 0, .decoder = decoder}, {});
    return !s && s.error().message.find("--form") == std::string::npos
               ? fmt::format("{} {}", static_cast<int>(s.error().kind), s.error().message)
               : "";
  };
  EXPECT_EQ(refused(model("demo"), {}), "");
  EXPECT_EQ(refused(model("demo"), {.preset = "auto"}), "");
  EXPECT_EQ(refused(model("demo"), {.preset = "ar"}), "");
  EXPECT_EQ(refused(model("demo"), {.preset = "self-spec"}), "");
  EXPECT_EQ(refused(model("demo"), {.preset = "section-diffusion"}), "");
  EXPECT_EQ(refused(model("demo"), {.width = "fixed:4"}), "");
  EXPECT_EQ(refused(model("demo-cot"), {.preset = "fields-spec"}), "");
  for (const slipstream::DecoderChoice& wrong :
       {slipstream::DecoderChoice{.preset = "ar", .verifier = "rejection"},
        slipstream::DecoderChoice{.preset = "ar", .width = "fixed:4"},
        slipstream::DecoderChoice{.preset = "auto", .verifier = "exact"}, slipstream::DecoderChoice{.preset = "no-such-decoder"},
        slipstream::DecoderChoice{.preset = "fields"}})
    EXPECT_EQ(refused(model("demo"), wrong).substr(0, 2), "2 ") << wrong.preset << ": " << refused(model("demo"), wrong);
  EXPECT_EQ(refused(model("demo-cot"), {.preset = "section-diffusion"}).substr(0, 2), "2 ");
}

std::string line_of(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(Metrics, TheFirstTokensTimeHasTheQueueOnce) {
  Metrics metrics("m:", "demo");
  // Waited for 200 ms, answered 100 ms later; its first field came 250 ms behind its submission.
  metrics.answered({}, {.queue_ms = 200, .run_ms = 100}, 250, "stop");
  const std::string text = metrics.text(nullptr);
  EXPECT_EQ(line_of(text, "m:time_to_first_token_seconds_sum"), "m:time_to_first_token_seconds_sum{model_name=\"demo\"} 0.25")
      << text;
  metrics.answered({}, {.queue_ms = 200, .run_ms = 50}, 0, "stop");  // nothing was told before its end
  EXPECT_EQ(line_of(metrics.text(nullptr), "m:time_to_first_token_seconds_sum"),
            "m:time_to_first_token_seconds_sum{model_name=\"demo\"} 0.5");
}

TEST(Metrics, CountWhatTheEngineFailed) {
  using slipstream::ErrorKind;
  using slipstream::Fate;
  Metrics metrics("m:", "demo");
  metrics.failed(Fate::kFailed, ErrorKind::kInternal);
  metrics.failed(Fate::kFailed, ErrorKind::kBadInput);
  metrics.failed(Fate::kFailed, ErrorKind::kUsage);
  metrics.failed(Fate::kCancelled, ErrorKind::kCancelled);
  metrics.failed(Fate::kLate, ErrorKind::kCancelled);
  const std::string text = metrics.text(nullptr);
  EXPECT_NE(text.find("m:requests_failed_total{kind=\"internal\",model_name=\"demo\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("m:requests_failed_total{kind=\"bad_input\",model_name=\"demo\"} 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("kind=\"cancelled\""), std::string::npos) << "who hangs up and who is late have counters of their own";
}

}  // namespace
}  // namespace slip::server
