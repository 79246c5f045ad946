// SPDX-License-Identifier: Apache-2.0
// What is wrong with a server's options is said before it listens; who is answered, and what its numbers count.
#include "server/serve.h"

#include <gtest/gtest.h>

#include "server/app.h"
#include "server/completing.h"
#include "server/metrics.h"
#include "server/policy_socket.h"

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
  // As `run` has it: what is no decoder's word, and what this model does not do.
  for (const slipstream::DecoderChoice& wrong :
       {slipstream::DecoderChoice{.preset = "auto", .verifier = "exact"}, slipstream::DecoderChoice{.preset = "no-such-decoder"}})
    EXPECT_EQ(refused(model("demo"), wrong).substr(0, 2), "2 ") << wrong.preset << ": " << refused(model("demo"), wrong);
  for (const slipstream::DecoderChoice& wrong :
       {slipstream::DecoderChoice{.preset = "ar", .verifier = "rejection"},
        slipstream::DecoderChoice{.preset = "ar", .width = "fixed:4"}, slipstream::DecoderChoice{.preset = "fields"}})
    EXPECT_EQ(refused(model("demo"), wrong).substr(0, 2), "4 ") << wrong.preset << ": " << refused(model("demo"), wrong);
  EXPECT_EQ(refused(model("demo-cot"), {.preset = "section-diffusion"}).substr(0, 2), "4 ");
}

TEST(Serve, RefusesWordsThatMeanNothing) {
  const auto refused = [](ServeOptions o) {
    o.model = model("demo");
    o.forms = {"no form"};  // refused behind them, so that nothing is loaded
    const Status s = serve(o, {});
    return s ? "" : fmt::format("{} {}", static_cast<int>(s.error().kind), s.error().message);
  };
  const std::string prefix = "2 --metrics-prefix: expected letters, digits, _ and :, no digit first, got ";
  for (const char* word : {"my app", "9lives:", "a-b", "a.b", "\xC3\xA9"})
    EXPECT_EQ(refused({.metrics_prefix = word}), prefix + word);
  for (const char* word : {"", "vllm:", "_a9"})
    EXPECT_NE(refused({.metrics_prefix = word}).find("--form"), std::string::npos) << word;
  EXPECT_EQ(refused({.engine = {.slots = 100}}), "2 --slots: expected 0 (which is 32768) or 129 to 16777216, got 100");
  EXPECT_NE(refused({.engine = {.slots = 129}}).find("--form"), std::string::npos);
  EXPECT_EQ(refused({.host = "0.0.0.0", .hosts = {"car7"}}).substr(0, 15), "2 --allow-host:");
  EXPECT_EQ(refused({.api_key_file = "keys", .hosts = {"car7"}}).substr(0, 15), "2 --allow-host:");
  EXPECT_EQ(refused({.hosts = {"car7:8080"}}), "2 --allow-host: expected a host's name without port, got car7:8080");
  EXPECT_NE(refused({.host = "::1", .hosts = {"car7"}}).find("--form"), std::string::npos);
}

TEST(Serve, TellsWhereItAnswers) {
  EXPECT_EQ(url_of("127.0.0.1", 8080), "http://127.0.0.1:8080/");
  EXPECT_EQ(url_of("::1", 80), "http://[::1]:80/");
  for (const char* host : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "localhost"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1", "::ffff:10.0.0.1", "127.0.0.1.nip.io", "0x7f.1", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

/// What an application answers.
class Asked final : public Exchange {
 public:
  explicit Asked(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  CancelToken& hang_up() override { return hang_up_; }
  void reply(HttpReply reply) override { answer = std::move(reply); }
  void begin_stream(HttpReply) override {}
  void send(std::string) override {}
  void send(Pieces) override {}
  void end() override {}
  void apart(std::function<void()> work) override { work(); }
  void later(std::function<void()> work) override { work(); }
  void give_up() noexcept override {}
  HttpReply answer{.status = 0};

 private:
  const HttpRequest request_;
  CancelToken hang_up_;
};

HttpReply reply_of(App& app, const std::string& method, const std::string& target, std::string body = "",
                   std::map<std::string, std::string> header = {}) {
  const size_t mark = std::min(target.find('?'), target.size());
  HttpRequest r{.method = method, .path = target.substr(0, mark), .header = std::move(header), .body = std::move(body)};
  if (mark < target.size()) r.query = target.substr(mark + 1);
  HttpReply reply;
  if (!app.admits(r, reply) || app.handle_now(r, reply)) return reply;
  const auto asked = std::make_shared<Asked>(std::move(r));
  app.handle(asked);
  return asked->answer;
}

std::string field_of(const HttpReply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.header)
    if (key == name) return value;
  return "";
}

TEST(App, CompressedBodiesAreRefused) {
  App app({.model_name = "demo"});
  const auto status = [&](const std::string& coding) {
    HttpRequest head{.method = "POST", .path = "/tokenize", .header = {{"content-encoding", coding}}};
    HttpReply refusal;
    return app.admits(head, refusal) ? 200 : refusal.status;
  };
  EXPECT_EQ(status("gzip"), 415);
  EXPECT_NE(status("Identity"), 415);
}

TEST(App, AKeysSchemeHasNoCase) {
  App app({.keys = {"secret"}, .model_name = "demo"});
  const auto status = [&](const std::string& shown) {
    return reply_of(app, "GET", "/v1/models", "", {{"authorization", shown}}).status;
  };
  for (const char* shown : {"Bearer secret", "bearer secret", "BEARER  secret", "api-key secret"})
    EXPECT_EQ(status(shown), 200) << shown;
  for (const char* shown : {"secret", "Bearer", "Bearer ", "Bearer secret2", "Basic secret", ""})
    EXPECT_EQ(status(shown), 401) << shown;
  EXPECT_EQ(field_of(reply_of(app, "GET", "/v1/models"), "WWW-Authenticate"), "Bearer");
  EXPECT_NE(app.metrics().text(nullptr).find("requests_rejected_total{model_name=\"demo\",reason=\"key\"} 7"), std::string::npos)
      << app.metrics().text(nullptr);
}

TEST(App, NamesOfOtherSitesLeadNowhere) {
  const auto status = [](bool asks, const std::string& host) {
    App app({.asks_host = asks, .hosts = {"car7"}, .model_name = "demo"});
    return reply_of(app, "GET", "/v1/models", "", {{"host", host}}).status;
  };
  for (const char* host :
       {"localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::1]", "Car7:80", ""})
    EXPECT_EQ(status(true, host), 200) << host;
  for (const char* host :
       {"evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "128.0.0.1", "[::2]", "[", ":8080", "car71"}) {
    EXPECT_EQ(status(true, host), 403) << host;
    EXPECT_EQ(status(false, host), 200) << host;
  }
  App app({.asks_host = true});
  EXPECT_EQ(reply_of(app, "GET", "/livez", "", {{"host", "evil.example"}}).status, 200);
  const HttpReply told =
      reply_of(app, "POST", "/v1/completions", "{}", {{"host", "evil.example"}, {"origin", "http://evil.example"}});
  EXPECT_EQ(told.status, 403);
  EXPECT_NE(told.body.find("\"code\":\"host\""), std::string::npos) << told.body;
}

TEST(App, APathHasItsMethods) {
  App app({.model_name = "demo"});
  const auto told = [&](const char* method, const char* path) {
    const HttpReply reply = reply_of(app, method, path);
    return fmt::format("{} {}", reply.status, field_of(reply, "Allow"));
  };
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"})
    for (const char* method : {"GET", "HEAD", "PUT"}) EXPECT_EQ(told(method, path), "405 POST") << method << path;
  for (const char* path :
       {"/", "/v1/models", "/v1/models/demo", "/v1/forms", "/v1/forms/a", "/props", "/v1/scene", "/health", "/metrics"})
    for (const char* method : {"POST", "DELETE", "OPTIONS"}) EXPECT_EQ(told(method, path), "405 GET, HEAD") << method << path;
  for (const char* method : {"GET", "HEAD", "POST"}) EXPECT_EQ(told(method, "/nowhere"), "404 ") << method;
  for (const char* method : {"GET", "HEAD"}) {
    EXPECT_EQ(told(method, "/v1/scene?seed=5"), "200 ");
    for (const char* wrong :
         {"/v1/scene?seeds=5", "/v1/scene?seed=5&frame=1", "/v1/scene?seed=5&seed=6", "/v1/scene?seed=x", "/v1/scene?seed"})
      EXPECT_EQ(told(method, wrong), "400 ") << wrong;
  }
}

TEST(App, CountsWhatItRefuses) {
  App app({.asks_host = true, .metrics_prefix = "m:"});
  const auto count = [&](const std::string& reason) {
    const std::string text = app.metrics().text(nullptr),
                      name = "m:requests_rejected_total{model_name=\"\",reason=\"" + reason + "\"} ";
    const size_t at = text.find(name);
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + name.size()));
  };
  for (const char* path : {"/props", "/v1/forms", "/v1/models/demo"}) EXPECT_EQ(reply_of(app, "GET", path).status, 503) << path;
  EXPECT_EQ(reply_of(app, "POST", "/tokenize", "{}").status, 503);
  EXPECT_EQ(count("loading"), 4);
  EXPECT_EQ(reply_of(app, "POST", "/tokenize", "{}", {{"content-type", "text/plain"}}).status, 415);
  EXPECT_EQ(reply_of(app, "POST", "/tokenize", "{}", {{"host", "x"}, {"origin", "http://y"}}).status, 403);
  EXPECT_EQ(reply_of(app, "POST", "/tokenize", "{}", {{"host", "localhost"}, {"origin", "http://y"}}).status, 403);
  EXPECT_EQ(app.error(413, "body: expected less, got more").status, 413);
  EXPECT_EQ(app.error(503, "body: expected room, got none").status, 503);
  EXPECT_EQ(app.error(431, "http: expected less, got more").status, 431);
  for (const char* reason : {"media_type", "host", "origin", "body_too_large", "bodies", "malformed"})
    EXPECT_EQ(count(reason), 1) << reason;
}

TEST(App, TellsModelsTokensAndRemarks) {
  App app({.model_name = "org/my demo", .allowed = {.builtin = {"wod-e2e"}}});
  auto engine = slipstream::Engine::load(model("demo"), {.threads = 2, .slots = 8192});
  ASSERT_TRUE(engine) << engine.error().message;
  auto service = slipstream::Service::start(std::move(*engine));
  ASSERT_TRUE(service) << service.error().message;
  app.serve(*service);
  const auto status = [&](const char* method, const char* path, std::string body = "") {
    return reply_of(app, method, path, std::move(body)).status;
  };
  EXPECT_EQ(status("GET", "/v1/models/org%2Fmy%20demo"), 200);
  EXPECT_EQ(status("HEAD", "/v1/models/org/my%20demo"), 200);
  EXPECT_EQ(status("GET", "/v1/models/demo"), 404);
  EXPECT_EQ(status("HEAD", "/v1/forms/wod%2De2e"), 200);
  EXPECT_EQ(status("HEAD", "/props"), 200);
  EXPECT_EQ(status("GET", "/v1/forms/other"), 404);
  EXPECT_EQ(status("POST", "/tokenize",
                   R"({"prompt":"go on","model":"org/my demo","add_special_tokens":true,"return_token_strs":false})"),
            200);
  EXPECT_EQ(status("POST", "/tokenize", R"({"prompt":"go on","model":"demo"})"), 404);
  for (const char* more :
       {R"("content":"x")", R"("return_token_strs":true)", R"("add_special_tokens":1)", R"("with_pieces":false)"})
    EXPECT_EQ(status("POST", "/tokenize", fmt::format(R"({{"prompt":"go on",{}}})", more)), 400) << more;
  EXPECT_EQ(status("POST", "/detokenize", R"({"tokens":[1,2]})"), 200);
  EXPECT_EQ(status("POST", "/detokenize", R"({"tokens":[1,2],"prompt":"x"})"), 400);
  std::string ids = "1";
  for (int i = 0; i < 1 << 20; ++i) ids += ",1";
  const auto refused = [&](const std::string& body) { return reply_of(app, "POST", "/detokenize", body).body; };
  EXPECT_NE(refused("{\"tokens\":[" + ids + "]}").find("tokens: expected at most 1048576 ids, got 1048577"), std::string::npos);
  EXPECT_NE(refused(std::string(17 << 20, ' ')).find("body: expected at most 16777216 bytes of ids, got 17825792"),
            std::string::npos);
  slipstream::Request words;
  words.prompt = "go on";
  words.form = "none";
  words.max_tokens = 2;
  words.sampling.top_k = 3;
  const auto answer = service->answer(words);
  ASSERT_TRUE(answer) << answer.error().message;
  const std::string told =
      json::serialize(completion({}, {}, *answer, {}, [&](int32_t token) { return service->token_bytes(token); }));
  EXPECT_NE(told.find("\"top_k does nothing at temperature 0"), std::string::npos) << told;
}

class QuietSocket final : public Socket {
 public:
  const HttpRequest& request() const override { return request_; }
  void send(std::string, bool) override {}
  void close(std::string reason) override { closed = std::move(reason); }
  void run(std::function<void()>) override {}
  std::string closed;

 private:
  const HttpRequest request_;
};

TEST(App, CountsFramesThatNobodyWaitsForAnyMore) {
  App app({.metrics_prefix = "m:", .allowed = {.builtin = {"wod-e2e"}}});
  const std::string frame =
      pack({PackedMap{{{std::string("prompt")}, {std::string("go on")}}, {{std::string("form")}, {std::string("none")}}}});
  {
    auto engine = slipstream::Engine::load(model("demo"), {.threads = 2, .slots = 8192});
    ASSERT_TRUE(engine) << engine.error().message;
    auto service = slipstream::Service::start(std::move(*engine));
    ASSERT_TRUE(service) << service.error().message;
    app.serve(*service);
    const auto socket = std::make_shared<QuietSocket>();
    const auto user = make_policy_user(app, "");
    user->opened(socket);
    for (int i = 0; i < 2; ++i) user->received(frame, true);
    user->closed();
    app.drain();
    user->received(frame, true);
    EXPECT_NE(socket->closed.find("drains"), std::string::npos);
  }
  const std::string text = app.metrics().text(nullptr);
  EXPECT_NE(text.find("m:requests_cancelled_total{model_name=\"\",reason=\"hang_up\"} 2"), std::string::npos) << text;
  EXPECT_NE(text.find("m:requests_rejected_total{model_name=\"\",reason=\"draining\"} 1"), std::string::npos) << text;
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

/// What comes before the service has a request counts for it, and not for what the service foresaw.
TEST(Metrics, ARequestsTimeHasItsPicturesAndItsForm) {
  Metrics metrics("m:", "demo");
  metrics.answered({}, {.queue_ms = 200, .run_ms = 50, .predicted_ms = 125}, 0, "stop", 1000);
  const std::string text = metrics.text(nullptr);
  for (const char* name : {"m:e2e_request_latency_seconds_sum", "m:time_to_first_token_seconds_sum"})
    EXPECT_EQ(line_of(text, name), fmt::format("{}{{model_name=\"demo\"}} 1", name)) << text;
  EXPECT_EQ(line_of(text, "m:predicted_to_actual_ratio_sum"), "m:predicted_to_actual_ratio_sum{model_name=\"demo\"} 0.5") << text;
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

TEST(Completing, UsageOfAPartIsWhatWasDecidedOfIt) {
  using Kind = slipstream::Event::Kind;
  CompletionRequest request;
  request.choices = 2;
  SoFar so_far;
  so_far.take({.kind = Kind::kPass, .tokens = 5, .tested = 4, .accepted = 3});
  so_far.take({.kind = Kind::kText, .text = "x", .tokens = 7});
  so_far.take({.kind = Kind::kPrefill});
  const json::object usage = so_far.usage(request, {.prompt_rows = 100, .kept_rows = 30});
  EXPECT_EQ(usage.at("prompt_tokens"), 100);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 30);
  EXPECT_EQ(usage.at("completion_tokens"), 14) << "copies count as often as they are told";
  EXPECT_EQ(usage.at("total_tokens"), 114);
  EXPECT_EQ(usage.at("completion_tokens_details").at("accepted_prediction_tokens"), 3);
  EXPECT_EQ(usage.at("completion_tokens_details").at("rejected_prediction_tokens"), 1);
}

TEST(Completing, APartHasAsManyChoicesAsWereAskedFor) {
  const ReplyHead head = reply_head(true, "demo", "print");
  const json::object reply = with_choices(partial_completion(head, "begin", {}, {}, {}), 3);
  const json::array& choices = reply.at("choices").as_array();
  ASSERT_EQ(choices.size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    const json::value& one = choices[static_cast<size_t>(i)];
    EXPECT_EQ(one.at("index"), i);
    EXPECT_EQ(one.at("message").at("content"), "begin");
    EXPECT_EQ(one.at("finish_reason"), "length");
  }
}

/// Copies of one answer share the text of their log-probabilities, whatever stands in their own.
TEST(Completing, LogProbabilitiesOfCopiesAreThereOnce) {
  const ReplyHead head = reply_head(true, "demo", "print");
  CompletionRequest request;
  request.choices = 3;
  slipstream::Answer answer;
  answer.text = R"({"logprobs":null})";
  const std::string plain = json::serialize(completion(head, request, answer, {}, {}));
  const std::string log_probs = R"({"content":[{"token":"\"logprobs\":null"}],"refusal":null})";
  const Pieces pieces = with_log_probs(plain, request.choices, log_probs);
  std::string all;
  for (const auto& piece : pieces) all += *piece;
  auto whole = parse_json(all, "reply");
  ASSERT_TRUE(whole) << whole.error().message << all;
  json::value want = *parse_json(plain, "reply");
  for (json::value& choice : want.at("choices").as_array()) choice.at("logprobs") = *parse_json(log_probs, "log_probs");
  EXPECT_EQ(*whole, want) << all;
  ASSERT_EQ(pieces.size(), 7U);
  EXPECT_EQ(pieces[1], pieces[3]);
  EXPECT_EQ(pieces[1], pieces[5]);
  EXPECT_EQ(*with_log_probs(plain, 0, log_probs).front(), plain);
}

}  // namespace
}  // namespace slip::server
