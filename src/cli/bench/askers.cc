// SPDX-License-Identifier: Apache-2.0
// See askers.h.
#include "cli/bench/askers.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "base/measure.h"
#include "cli/bench/http_client.h"

namespace slip::cli {
namespace {

constexpr uint64_t kFirstScene = 900'000'000;

class ServiceAsker : public Asker {
 public:
  ServiceAsker(slipstream::Service service, const BenchServeOptions& o, std::vector<slipstream::Request> scenes)
      : service_(std::move(service)), o_(o), scenes_(std::move(scenes)) {}

  void ask(const std::string& decoder, uint64_t number, const CancelToken& cancel, Told told) override {
    slipstream::Request r = scenes_[number % scenes_.size()];
    r.seed = number;
    if (decoder != "auto") r.decoder.preset = decoder;
    r.sampling.temperature = o_.temperature;
    r.reuse_prompt = o_.reuse;
    r.cancel = cancel;
    service_.submit(
        r, {.key = "", .batch = false, .deadline_ms = o_.deadline_ms},
        [first = std::move(told.first), plan = std::move(told.plan)](const slipstream::Event& e) {
          if (e.kind == slipstream::Event::Kind::kField || e.kind == slipstream::Event::Kind::kText) first();
          if (e.kind == slipstream::Event::Kind::kPlan) plan();
        },
        [done = std::move(told.done)](slipstream::Result<slipstream::Answer> answer, const slipstream::Served&) {
          done(answer.has_value(), answer ? answer->statistics.tokens : 0);
        });
  }
  void on_pass(std::function<void(const slipstream::PassShared&)> told) override { service_.on_pass(std::move(told)); }
  std::string visibility() const override { return service_.info().visibility; }
  Status check(const std::string& decoder) const override {
    slipstream::Request r = scenes_.front();
    r.decoder.preset = decoder;
    return slipstream::check_request(r, o_.model);
  }

 private:
  slipstream::Service service_;
  const BenchServeOptions& o_;
  const std::vector<slipstream::Request> scenes_;
};

class ServerAsker : public Asker {
 public:
  ServerAsker(const BenchServeOptions& o, std::string visibility, std::vector<json::object> scenes)
      : o_(o), visibility_(std::move(visibility)), scenes_(std::move(scenes)) {}
  ~ServerAsker() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return under_way_ == 0; });
  }

  void ask(const std::string& decoder, uint64_t number, const CancelToken& cancel, Told told) override {
    json::object body = scenes_[number % scenes_.size()];
    json::object& ours = body["slipstream"].as_object();
    ours["decoder"] = decoder;
    if (o_.deadline_ms > 0) ours["deadline_ms"] = o_.deadline_ms;
    body["seed"] = number;
    body["temperature"] = o_.temperature;
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}, {"include_fields", true}};
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
    }
    std::thread([this, text = json::serialize(body), cancel, told = std::move(told)] {
      run(text, cancel, told);
      const std::lock_guard lock(mutex_);
      if (--under_way_ == 0) ended_.notify_all();
    }).detach();
  }
  void on_pass(std::function<void(const slipstream::PassShared&)>) override {}  // the server's own affair
  std::string visibility() const override { return visibility_; }
  Status check(const std::string&) const override { return {}; }  // the first answer says it

 private:
  void run(const std::string& body, const CancelToken& cancel, const Told& told) {
    auto client = take();
    bool complete = false;
    int64_t tokens = 0;
    auto reply = client ? client->ask("POST", "/v1/chat/completions", body, cancel,
                                      [&](std::string_view line) { read_line(line, told, complete, tokens); })
                        : Result<HttpClient::Reply>(client.error());
    const bool answered = reply && reply->status == 200 && complete;
    if (reply) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(*client));
    }
    told.done(answered, tokens);
  }
  static void read_line(std::string_view line, const Told& told, bool& complete, int64_t& tokens) {
    constexpr std::string_view kData = "data: ";
    if (!line.starts_with(kData)) return;
    line.remove_prefix(kData.size());
    if (line == "[DONE]") return;
    if (line.find("\"event\":\"field\"") != std::string_view::npos || line.find("\"content\":\"") != std::string_view::npos)
      told.first();
    if (line.find("\"event\":\"plan\"") != std::string_view::npos) told.plan();
    if (line.find("\"usage\"") == std::string_view::npos) return;
    const auto end = parse_json(line, "event");
    const json::value* usage = end && end->is_object() ? end->get_object().if_contains("usage") : nullptr;
    if (!usage || !usage->is_object()) return;
    complete = true;
    if (const json::value* n = usage->get_object().if_contains("completion_tokens")) tokens = n->to_number<int64_t>();
  }
  Result<HttpClient> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        HttpClient out = std::move(idle_.back());
        idle_.pop_back();
        return out;
      }
    }
    return HttpClient::of(o_.url, o_.key);
  }

  const BenchServeOptions& o_;
  const std::string visibility_;
  const std::vector<json::object> scenes_;
  std::mutex mutex_;
  std::vector<HttpClient> idle_;
  int under_way_ = 0;
  std::condition_variable ended_;
};

Result<json::value> get_json(HttpClient& client, const std::string& path, const CancelToken& cancel) {
  SLIP_TRY(const HttpClient::Reply reply, client.ask("GET", path, "", cancel));
  if (reply.status != 200) return resource_error("{}: expected status 200, got {}", path, reply.status);
  return parse_json(reply.body, path);
}

/// A scene of the server's as the body of a question.
Result<json::object> question_of(const json::value& scene, std::string_view where) {
  const json::object* o = scene.is_object() ? &scene.get_object() : nullptr;
  const json::value *images = o ? o->if_contains("images") : nullptr, *ego = o ? o->if_contains("ego") : nullptr;
  if (!images || !images->is_array() || !ego)
    return bad_input("{}: expected a scene with images and ego, got another value", where);
  json::array parts;
  for (const json::value& url : images->get_array())
    parts.emplace_back(json::object{{"type", "image_url"}, {"image_url", {{"url", url}}}});
  json::object out;
  out["messages"] = json::array{json::object{{"role", "user"}, {"content", std::move(parts)}}};
  out["slipstream"] = json::object{{"ego", *ego}};
  return out;
}

}  // namespace

Result<std::unique_ptr<Asker>> ask_here(const BenchServeOptions& o, const slipstream::Progress& progress,
                                        const CancelToken& cancel) {
  std::vector<slipstream::Request> scenes;
  for (int i = 0; i < o.scenes; ++i) {
    SLIP_TRY_(cancel.check("bench", i, "scenes"));
    SLIP_TRY(slipstream::Request r, slipstream::request_of_scene(kFirstScene + static_cast<uint64_t>(i)));
    scenes.push_back(std::move(r));
    progress("scenes", i + 1, o.scenes);
  }
  SLIP_TRY(slipstream::Engine engine,
           slipstream::Engine::load(o.model, {.dtype = o.dtype, .threads = o.threads, .slots = 1 << 16}, progress, cancel));
  const slipstream::ServiceOptions options{
      .most_running = 64, .most_waiting = 4096, .feature_bytes = o.reuse ? int64_t{256} << 20 : 0};
  SLIP_TRY(slipstream::Service service, slipstream::Service::start(std::move(engine), options, cancel));
  return std::unique_ptr<Asker>(std::make_unique<ServiceAsker>(std::move(service), o, std::move(scenes)));
}

Result<std::unique_ptr<Asker>> ask_server(const BenchServeOptions& o, const CancelToken& cancel) {
  SLIP_TRY(HttpClient client, HttpClient::of(o.url, o.key));
  SLIP_TRY(const json::value props, get_json(client, "/props", cancel));
  const json::value* law = props.is_object() ? props.get_object().if_contains("law") : nullptr;
  std::vector<json::object> scenes;
  for (int i = 0; i < o.scenes; ++i) {
    const std::string path = fmt::format("/v1/scene?seed={}", kFirstScene + static_cast<uint64_t>(i));
    SLIP_TRY(const json::value scene, get_json(client, path, cancel));
    SLIP_TRY(json::object question, question_of(scene, path));
    scenes.push_back(std::move(question));
  }
  return std::unique_ptr<Asker>(
      std::make_unique<ServerAsker>(o, law && law->is_string() ? std::string(law->get_string()) : "chain", std::move(scenes)));
}

}  // namespace slip::cli
