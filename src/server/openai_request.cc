// SPDX-License-Identifier: Apache-2.0
// See openai_request.h.
#include "server/openai_request.h"

#include <algorithm>

namespace slip::server {
namespace {

constexpr double kMost = 1e9;

/// A message without the name in front, where it stands there.
std::string behind(std::string_view name, const std::string& message) {
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

class Parser {
 public:
  Parser(const json::object& body, bool chat, const Allowed& allowed) : in_(body, ""), allowed_(allowed) { out_.chat = chat; }

  std::variant<CompletionRequest, Refusal> run() {
    if (out_.chat)
      messages();
    else
      prompt();
    sampling();
    stream();
    form();
    ours();
    rest();
    in_.end();
    settle();
    if (!in_.ok()) return *in_.refusal();
    return std::move(out_);
  }

 private:
  // One message after another; text and images in the order in which they stand.
  void messages() {
    const json::array* all = in_.array("messages");
    if (!all || all->empty()) return in_.fail("messages", "expected at least one message, got none");
    if (all->size() > 256) return in_.fail("messages", fmt::format("expected at most 256 messages, got {}", all->size()));
    for (size_t i = 0; i < all->size() && in_.ok(); ++i) {
      const std::string where = fmt::format("messages[{}]", i);
      const json::value& m = (*all)[i];
      if (!m.is_object()) return in_.fail(where, "expected an object, got another type");
      Reader one(m.get_object(), where);
      const std::string role = one.text("role").value_or("");
      if (role != "user" && role != "system" && role != "assistant" && role != "developer")
        one.fail("role",
                 fmt::format("expected user, system or assistant, got {}", role.empty() ? "none" : shown_value(json::value(role))));
      one.nothing("tool_calls", "no tools here");
      one.nothing("name", "no names here");
      one.nothing("refusal", "not ours");
      for (const char* key : {"function_call", "annotations", "audio"})
        one.nothing(key, "not ours");  // of answers that a client sends back
      slipstream::Message message{role == "developer" ? "system" : role, {}};
      content(one, message);
      one.end();
      if (!one.ok()) return in_.take_over(one);
      out_.request.messages.push_back(std::move(message));
    }
  }
  void content(Reader& one, slipstream::Message& message) {
    const json::value* c = one.take("content");
    if (!c) return one.fail("content", "expected text or parts, got none");
    if (c->is_string()) {
      message.parts.push_back({std::string(c->get_string()), false});
      return;
    }
    if (!c->is_array()) return one.fail("content", fmt::format("expected text or parts, got {}", shown_value(*c)));
    const json::array& parts = c->get_array();
    for (size_t k = 0; k < parts.size() && one.ok(); ++k) {
      const std::string where = fmt::format("content[{}]", k);
      if (!parts[k].is_object()) return one.fail(where, "expected an object, got another type");
      Reader part(parts[k].get_object(), one.path(where));
      read_part(part, message);
      part.end();
      if (!part.ok()) return one.take_over(part);
    }
  }
  void read_part(Reader& part, slipstream::Message& message) {
    const std::string type = part.text("type").value_or("");
    if (type == "text") {
      if (auto text = part.text("text")) message.parts.push_back({std::move(*text), false});
      return;
    }
    if (type != "image_url")
      return part.fail("type",
                       fmt::format("expected text or image_url, got {}", type.empty() ? "none" : shown_value(json::value(type))));
    std::string url;
    const json::value* v = part.take("image_url");
    if (v && v->is_string()) url = v->get_string();
    if (v && v->is_object()) {
      Reader of(v->get_object(), part.path("image_url"));
      url = of.text("url").value_or("");
      of.only("detail", {"auto", "low", "high"}, "pictures are read alike");
      of.end();
      if (!of.ok()) return part.take_over(of);
    }
    if (url.empty()) return part.fail("image_url", "expected {\"url\": \"data:image/...\"}, got another value");
    if (static_cast<int32_t>(out_.images.size()) >= allowed_.most_images)
      return part.fail("image_url", fmt::format("expected at most {} images, got more", allowed_.most_images));
    auto bytes = bytes_of_url(url, allowed_.images);
    if (!bytes) return part.fail("image_url", behind("image_url: ", bytes.error().message));
    out_.images.push_back(std::move(*bytes));
    message.parts.push_back({"", true});
  }
  void prompt() {
    const json::value* p = in_.take("prompt");
    if (p && p->is_array() && p->get_array().size() == 1) p = &p->get_array()[0];
    if (!p || !p->is_string()) return in_.fail("prompt", fmt::format("expected one text, got {}", p ? shown_value(*p) : "none"));
    out_.request.prompt = std::string(p->get_string());
    out_.request.raw_prompt = true;
    in_.nothing("suffix", "no infilling here");
    in_.nothing("echo", "the prompt is not repeated");
  }
  void sampling() {
    slipstream::Sampling& s = out_.request.sampling;
    s.temperature = in_.number("temperature", 0, 100).value_or(0);
    s.top_p = in_.number("top_p", 1e-6, 1).value_or(1);
    s.top_k = static_cast<int32_t>(std::max<int64_t>(0, in_.whole("top_k", -1, 1 << 20).value_or(0)));
    s.min_p = in_.number("min_p", 0, 1).value_or(0);
    s.repetition_penalty = in_.number("repetition_penalty", 0.1, 10).value_or(1);
    out_.request.seed = in_.bits("seed").value_or(0);
    out_.choices = static_cast<int32_t>(in_.whole("n", 1, allowed_.most_choices).value_or(1));
    out_.request.rollouts = s.temperature > 0 ? out_.choices : 1;
    if (const auto best = out_.chat ? std::nullopt : in_.whole("best_of", 0, allowed_.most_choices);
        best.value_or(0) > 0 && *best != out_.choices)
      in_.fail("best_of", fmt::format("expected n, {}, since every answer is told, got {}", out_.choices, *best));
    in_.nothing("frequency_penalty", "use repetition_penalty");
    in_.nothing("presence_penalty", "use repetition_penalty");
    in_.nothing("logit_bias", "a form says what may be drawn");
    log_probs();
    stop();
    constexpr int64_t kMostOfForm = 1 << 24;  // what it may be for is known once the form is: check_max_tokens
    const auto limit = in_.whole("max_tokens", 1, kMostOfForm), completion = in_.whole("max_completion_tokens", 1, kMostOfForm);
    if (limit && completion && *limit != *completion)
      in_.fail("max_tokens", fmt::format("expected max_completion_tokens, {}, or none beside it, got {}", *completion, *limit));
    if (limit || completion) out_.max_tokens = static_cast<int32_t>(completion ? *completion : *limit);
    if (out_.max_tokens) out_.request.max_tokens = *out_.max_tokens;
  }
  // Of chat a flag; of completions a number: how many others each place tells, and 0 tells the drawn ones.
  void log_probs() {
    constexpr int64_t kMostOfChat = 20, kMost = 5;  // OpenAI's
    std::optional<int64_t> top;
    if (out_.chat) {
      out_.log_probs = in_.boolean("logprobs").value_or(false);
      top = in_.whole("top_logprobs", 0, kMostOfChat);
      if (top.value_or(0) > 0 && !out_.log_probs) in_.fail("top_logprobs", "expected logprobs true beside it, got none");
    } else {
      const json::value* v = in_.take("logprobs");
      if (!v || !v->is_bool() || v->get_bool()) top = in_.whole("logprobs", 0, kMost);
      out_.log_probs = top.has_value();
      in_.nothing("top_logprobs", "logprobs is their number here");
    }
    out_.request.top_log_probs = static_cast<int32_t>(top.value_or(0));
    out_.request.log_probs = out_.log_probs;
    if (out_.log_probs && out_.request.rollouts > 1)
      in_.fail("logprobs", fmt::format("expected n 1 with them, got {}", out_.request.rollouts));
  }
  // A text or several; the answer ends before the first of them.
  void stop() {
    constexpr size_t kMostStops = 16, kMostBytes = 1024;
    const json::value* v = in_.take("stop");
    if (!v) return;
    const auto one = [&](const json::value& text) {
      if (!text.is_string() || text.get_string().empty() || text.get_string().size() > kMostBytes)
        return in_.fail("stop", fmt::format("expected texts of 1 to {} bytes, got {}", kMostBytes, shown_value(text)));
      out_.request.stop.emplace_back(text.get_string());
    };
    if (!v->is_array()) return one(*v);
    if (v->get_array().size() > kMostStops)
      return in_.fail("stop", fmt::format("expected at most {} texts, got {}", kMostStops, v->get_array().size()));
    for (const json::value& text : v->get_array()) one(text);
  }
  void stream() {
    out_.stream = in_.boolean("stream").value_or(false);
    const json::object* o = in_.object("stream_options");
    if (!o) return;
    Reader r(*o, "stream_options");
    out_.include_usage = r.boolean("include_usage").value_or(false);
    out_.include_fields = r.boolean("include_fields").value_or(false);
    r.ignore("include_obfuscation");
    r.ignore("continuous_usage_stats");
    r.end();
    if (!r.ok()) in_.take_over(r);
  }
  void form() {
    out_.request.form = "none";
    const json::object* o = in_.object("response_format");
    if (!o) return;
    Reader r(*o, "response_format");
    const std::string type = r.text("type").value_or("");
    if (type == "json_schema") {
      has_format_ = true;
      const json::object* inner = r.object("json_schema");
      if (inner) {
        Reader s(*inner, "response_format.json_schema");
        named(s, s.text("name").value_or(""), s.object("schema"));
        s.ignore("strict");
        s.ignore("description");
        s.end();
        if (!s.ok()) return in_.take_over(s);
      } else if (const json::object* schema = r.object("schema")) {
        named(r, "", schema);
      } else {
        r.fail("json_schema", "expected a schema or the name of a form, got none");
      }
    } else if (type == "json_object") {
      r.fail("type", "expected text or json_schema (any JSON is no form), got json_object");
    } else if (type != "text") {
      r.fail("type", fmt::format("expected text or json_schema, got {}", type.empty() ? "none" : shown_value(json::value(type))));
    }
    r.end();
    if (!r.ok()) in_.take_over(r);
  }
  // A schema with a name is that schema; a name alone is a form that the server knows.
  void named(Reader& r, const std::string& name, const json::object* schema) {
    if (schema && !schema->empty()) {
      out_.brings_schema = true;
      out_.request.form_schema = json::serialize(*schema);
      if (const size_t n = out_.request.form_schema.size(); n > allowed_.most_schema_bytes)
        return r.fail("schema", fmt::format("expected at most {} bytes, got {}", allowed_.most_schema_bytes, n));
      if (schema->contains("title") || name.empty()) return;
      json::object document = *schema;
      document["title"] = name;
      out_.request.form_schema = json::serialize(document);
      return;
    }
    named_form_ = name;
    if (const std::string wrong = name_form(name); !wrong.empty()) r.fail("name", wrong);
  }
  std::string name_form(const std::string& name) {
    if (const auto at = allowed_.forms.find(name); at != allowed_.forms.end()) {
      out_.request.form_schema = at->second;
      return "";
    }
    if (name != "model" && name != "none" && !allowed_.builtin.contains(name))
      return fmt::format("expected a form of GET /v1/forms, got {}", name.empty() ? "none" : shown_value(json::value(name)));
    out_.request.form = name;
    return "";
  }
  // What OpenAI's interface has no word for.
  void ours() {
    if (const json::object* p = in_.object("prediction")) {
      Reader r(*p, "prediction");
      if (r.text("type").value_or("") != "content") r.fail("type", "expected content, got another type");
      if (auto text = r.text("content")) out_.request.prediction = std::move(*text);
      if (const size_t n = out_.request.prediction.size(); n > allowed_.most_text_bytes)
        r.fail("content", fmt::format("expected at most {} bytes, got {}", allowed_.most_text_bytes, n));
      r.end();
      if (!r.ok()) in_.take_over(r);
    }
    const json::object* o = in_.object("slipstream");
    if (!o) return;
    Reader r(*o, "slipstream");
    if (const json::object* ego = r.object("ego")) {
      auto read = slipstream::parse_ego(json::serialize(*ego), "slipstream.ego");
      if (read)
        out_.request.ego = *read;
      else
        r.fail("ego", behind("slipstream.ego: ", read.error().message));
    }
    if (const auto form = r.text("form")) {
      if (has_format_ && *form != named_form_)
        r.fail("form", "expected none beside response_format, which says the form, got one");
      else if (const std::string wrong = name_form(*form); !wrong.empty())
        r.fail("form", wrong);
    }
    slipstream::DecoderChoice& d = out_.request.decoder;
    d.preset = r.text("decoder").value_or("");
    d.drafter = r.text("drafter").value_or("");
    d.verifier = r.text("verifier").value_or("");
    d.width = r.text("width").value_or("");
    if (d.preset == "auto") {
      if (!d.drafter.empty() || !d.verifier.empty() || !d.width.empty())
        r.fail("decoder", "expected no drafter, verifier or width beside auto, which chooses them, got one");
      d.preset.clear();
      out_.names_auto = true;
    }
    if (const std::string wrong = check_decoder_words(d); !wrong.empty()) r.fail("decoder", wrong);
    out_.request.unnorm_key = r.text("unnorm_key").value_or("");
    if (const size_t n = out_.request.unnorm_key.size(); n > kMostEchoed)
      r.fail("unnorm_key", fmt::format("expected at most {} bytes, got {}", kMostEchoed, n));
    out_.terms.deadline_ms = r.number("deadline_ms", 1, kMost).value_or(0);
    out_.partial = out_.terms.partial = r.boolean("partial").value_or(false);
    out_.trajectory_head = r.boolean("trajectory_head").value_or(false);
    out_.request.fast_plan = r.boolean("fast_plan").value_or(false);
    out_.terms.batch = r.boolean("batch").value_or(false);
    out_.session = r.text("session").value_or("");
    if (out_.session.size() > 128) r.fail("session", "expected at most 128 bytes, got more");
    r.end();
    if (!r.ok()) in_.take_over(r);
  }
  void rest() {
    out_.model = in_.text("model").value_or("");
    for (const char* key : {"user", "metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier",
                            "prompt_cache_key", "verbosity", "reasoning_effort"})
      in_.ignore(key);
    in_.nothing("tools", "no tools here");
    in_.nothing("functions", "no tools here");
    for (const char* key : {"tool_choice", "function_call"}) in_.only(key, {"none", "auto"}, "no tools here");
    in_.only("modalities", {"text"}, "no audio here");
    in_.nothing("audio", "no audio here");
  }
  // The ego history makes the prompt, in the model's own words, and means its own form unless another is named.
  void settle() {
    slipstream::Request& r = out_.request;
    if (!in_.ok()) return;
    const bool text = r.form == "none" && r.form_schema.empty() && !r.ego;
    if (!r.stop.empty() && !text) return in_.fail("stop", "expected free text, got a form, whose fields end by themselves");
    if (r.ego) {
      r.messages.clear();
      r.prompt.clear();
      r.raw_prompt = false;
      if (r.form == "none" && r.form_schema.empty()) r.form = "model";
      return;
    }
    for (slipstream::Message& m : r.messages)
      if (m.parts.empty()) m.parts.push_back({"", false});
  }

  Reader in_;
  const Allowed& allowed_;
  CompletionRequest out_;
  bool has_format_ = false;  // response_format says a form
  std::string named_form_;   // by this name
};

}  // namespace

std::string name_head(const std::string& own, bool asked, slipstream::Request& request) {
  if (asked && own.empty()) return "trajectory_head: expected a server that has one beside its model, got one that has none";
  if (!asked && request.fast_plan) return "fast_plan: expected trajectory_head beside it, got none";
  if (asked) request.trajectory_head = own;
  return "";
}

void take_own_decoder(const slipstream::DecoderChoice& own, bool names_auto, slipstream::Request& request) {
  const slipstream::DecoderChoice& named = request.decoder;
  const bool none = named.preset.empty() && named.drafter.empty() && named.verifier.empty() && named.width.empty();
  if (none && !names_auto) request.decoder = own;
}

std::string check_decoder_words(const slipstream::DecoderChoice& c) {
  for (const std::string* word : {&c.preset, &c.drafter, &c.verifier, &c.width}) {
    if (word->size() > kMostEchoed) return fmt::format("expected words of at most {} bytes, got {}", kMostEchoed, word->size());
    for (const char* head : {"previous", "model", "coupled", "dflash", "sampler", "blockpilot"})
      if (word->starts_with(head) || word->find('/') != std::string::npos || word->find('.') != word->rfind('.'))
        return fmt::format("expected a decoder without files, got {}", shown_value(json::value(*word)));
  }
  if (c.preset == "draft-model" || c.preset == "dflash") return fmt::format("expected a decoder without files, got {}", c.preset);
  if (c.width.starts_with("measured:"))
    return fmt::format("expected a width without files, got {}", shown_value(json::value(c.width)));
  return "";
}

std::variant<CompletionRequest, Refusal> read_completion(std::string_view body, bool chat, const Allowed& allowed) {
  auto parsed = parse_json(body, "body");
  if (!parsed) return Refusal{.message = parsed.error().message, .code = "invalid_json"};
  if (!parsed->is_object()) return Refusal{.message = "body: expected an object, got another type", .code = "invalid_json"};
  if (auto flaw = check_written(body, "body")) return *flaw;
  return Parser(parsed->get_object(), chat, allowed).run();
}

std::optional<Refusal> check_names(CompletionRequest& request, const std::string& model, const std::string& head) {
  if (!request.model.empty() && request.model != model)
    return Refusal{.status = 404,
                   .message = fmt::format("model: expected {}, got {}", model, shown_value(json::value(request.model))),
                   .param = "model",
                   .code = "model_not_found"};
  if (const std::string wrong = name_head(head, request.trajectory_head, request.request); !wrong.empty())
    return Refusal{.message = wrong, .param = "slipstream", .code = "unsupported"};
  return std::nullopt;
}

std::optional<Refusal> check_of_file(const CompletionRequest& request) {
  const auto refuse = [](const char* key, const std::string& got) {
    return Refusal{.message = fmt::format("{}: expected none in a file of requests, where it cannot act, got {}", key, got),
                   .param = key,
                   .code = "unsupported"};
  };
  if (request.stream) return refuse("stream", "true");
  if (request.terms.deadline_ms > 0) return refuse("slipstream.deadline_ms", fmt::format("{}", request.terms.deadline_ms));
  if (request.partial) return refuse("slipstream.partial", "true");
  if (!request.session.empty()) return refuse("slipstream.session", shown_value(json::value(request.session)));
  return std::nullopt;
}

std::optional<Refusal> check_max_tokens(CompletionRequest& request, int64_t budget, const Allowed& allowed) {
  if (budget > 0 && request.max_tokens && *request.max_tokens < budget)
    return Refusal{.message = fmt::format("max_tokens: expected at least the form's {}, got {}", budget, *request.max_tokens),
                   .param = "max_tokens",
                   .code = "below_budget"};
  if (budget == 0 && request.max_tokens && *request.max_tokens > allowed.most_tokens)
    return Refusal{
        .message = fmt::format("max_tokens: expected at most {} of free text, got {}", allowed.most_tokens, *request.max_tokens),
        .param = "max_tokens",
        .code = "above_limit"};
  if (budget > 0) request.request.max_tokens = slipstream::Request{}.max_tokens;
  return std::nullopt;
}

Refusal refusal_of_picture(const slipstream::Error& error) {
  if (error.kind != slipstream::ErrorKind::kResource)
    return {.message = error.message, .param = "messages", .code = "invalid_image"};
  return {.status = 503,
          .message = error.message,
          .type = "overloaded_error",
          .param = "messages",
          .code = "resources",
          .retry_after_s = 1};
}

std::optional<Refusal> decode_image(CompletionRequest& request, size_t number, const ImageLimits& limits) {
  auto image = image_of_bytes(request.images[number], fmt::format("image {}", number), limits);
  if (!image) return refusal_of_picture(image.error());
  request.request.images.push_back(std::move(*image));
  return std::nullopt;
}

std::optional<Refusal> decode_images(CompletionRequest& request, const ImageLimits& limits) {
  for (size_t i = 0; i < request.images.size(); ++i)
    if (auto wrong = decode_image(request, i, limits)) return wrong;
  request.images.clear();
  return std::nullopt;
}

}  // namespace slip::server
