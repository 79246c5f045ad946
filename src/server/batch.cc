// SPDX-License-Identifier: Apache-2.0
// See batch.h.
#include "server/batch.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/files/line_file.h"
#include "base/json.h"
#include "base/json/shown.h"
#include "server/completing.h"
#include "server/openai_reply.h"

namespace slip::server {
namespace {

namespace fs = std::filesystem;

/// Settings are kept as texts: a number that is read again may be the next one (json.h).
json::string told(const json::value& v) {
  return json::string(v.is_double() ? fmt::format("{}", v.get_double()) : json::serialize(v));
}
std::string shown(const json::value& v) {
  constexpr size_t kMost = 60;
  if (!v.is_string()) return shown_json(v);
  const std::string text(v.get_string());
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

/// Lines in order, beside the file that they will be.
class Lines {
 public:
  /// `is_ours(i, line)`: is a line that is there the answer to question i of this run, or what is another?
  using IsOurs = std::function<Status(int64_t i, const json::object& line)>;
  static Result<Lines> open(const std::string& out, const IsOurs& is_ours) {
    Lines lines;
    lines.out_ = out;
    std::error_code ec;
    if (!fs::path(out).has_filename() || fs::is_directory(out, ec)) return bad_input("{}: expected a file, got a folder", out);
    SLIP_TRY(lines.file_, LineFile::open(out + ".partial", "{", [&](std::string_view text, int64_t number) -> Status {
               const std::string where = fmt::format("{}.partial, line {}", out, number);
               SLIP_TRY(const json::value line, parse_json(text, where));
               if (!line.is_object()) return bad_input("{}: expected an answer of a run before, got another value", where);
               if (const Status ours = is_ours(lines.kept_, line.get_object()); !ours)
                 return bad_input("{}: {}; another --out starts anew", where, ours.error().message);
               ++lines.kept_;
               lines.kept_failed_ += is_failure(line.get_object());
               return {};
             }));
    return lines;
  }
  /// Are the lines that are there of a run that asked for the same? One that has none yet leaves word of what it asks for.
  Status check_asked(const json::object& asked) const {
    const std::string file = asked_file();
    if (kept_ == 0) return write_file(file, json::serialize(asked) + "\n");
    std::error_code ec;
    if (!fs::exists(file, ec))
      return bad_input("{}.partial: expected {} beside it, which says what its answers go by, got none; another --out starts anew",
                       out_, file);
    SLIP_TRY(const json::value before, read_json(file));
    for (const auto& [key, value] : asked) {
      const json::value* v = before.is_object() ? before.get_object().if_contains(key) : nullptr;
      if (v && *v == value) continue;
      return bad_input("{}.partial: expected answers with {} {}, as this run asks for, got {}; another --out starts anew", out_,
                       key, shown(value), v ? shown(*v) : "none");
    }
    return {};
  }
  int64_t kept() const { return kept_; }
  int64_t kept_failed() const { return kept_failed_; }
  Status add(const std::string& line) { return file_.add(line); }
  Status finish() {
    SLIP_TRY_(file_.sync());
    std::error_code ec;
    fs::rename(out_ + ".partial", out_, ec);
    if (ec) return resource_error("{}: expected a file that can be written, got: {}", out_, ec.message());
    fs::remove(asked_file(), ec);
    return {};
  }

 private:
  std::string asked_file() const { return out_ + ".partial.asked"; }
  /// Of a record: {"error"}; of a request: a response that is not 200.
  static bool is_failure(const json::object& line) {
    const json::value* response = line.if_contains("response");
    if (!response) return line.contains("error");
    const json::value* status = response->is_object() ? response->get_object().if_contains("status_code") : nullptr;
    return !status || *status != 200;
  }
  std::string out_;
  LineFile file_;
  int64_t kept_ = 0, kept_failed_ = 0;
};

struct Line {
  std::string text;
  std::optional<Error> error;
};

json::object error_line(const Refusal& r) { return error_body(r); }

/// Makes the line where it is kept, so that a lack of memory is noticed there. `make` is wanted by std::ref: a copy might need memory itself.
using Tell = std::function<void(const std::function<Line()>& make)>;
/// Asks for question `i`; `tell` gets its line, now or later. An error ends the run.
using AskOne = std::function<Status(int64_t i, Tell tell)>;

/// `in_common`: the questions differ in their inputs alone, so that an error before the first answer is taken for one of what they share.
Result<BatchDone> run_all(Lines& lines, int64_t total, int32_t at_once, bool in_common, const AskOne& ask,
                          const slipstream::Progress& progress, const CancelToken& cancel) {
  // Answers come from the service's thread, and may come when this has been left by an exception.
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<int64_t, Line> ready;
    int64_t lost = 0;  // answers that there was no memory for
  };
  const auto told = std::make_shared<Told>();
  BatchDone done{.kept = lines.kept(), .kept_failed = lines.kept_failed()};
  int64_t next = lines.kept(), asked = next;
  Status status;
  while (next < total && status) {
    while (asked < total && asked - next < at_once) {
      status = ask(asked, [told, i = asked](const std::function<Line()>& make) {
        const std::lock_guard lock(told->mutex);
        try {
          told->ready.emplace(i, make());
        } catch (const std::bad_alloc&) {
          ++told->lost;
        }
        told->changed.notify_one();
      });
      if (!status) break;
      ++asked;
    }
    if (!status) break;
    std::unique_lock lock(told->mutex);
    told->changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return told->ready.contains(next) || told->lost > 0; });
    if (told->lost > 0) break;
    for (auto at = told->ready.find(next); at != told->ready.end() && status; at = told->ready.find(next)) {
      const std::optional<Error>& error = at->second.error;
      // What was interrupted is no answer: the next run asks again. Nor is what refuses the options that all have in common.
      if (error && (error->kind == ErrorKind::kCancelled || (in_common && done.answered + done.kept == 0))) status = *error;
      if (!status) break;
      status = lines.add(at->second.text);
      ++(error ? done.failed : done.answered);
      told->ready.erase(at);
      ++next;
      if (progress) progress("answering", next, total);
    }
    if (status) status = cancel.check("run", next, "records");
  }
  std::unique_lock lock(told->mutex);  // those under way come to their end
  while (static_cast<int64_t>(told->ready.size()) + told->lost < asked - next)
    told->changed.wait_for(lock, std::chrono::milliseconds(20));
  if (told->lost > 0) throw std::bad_alloc();
  if (!status) return status.error();
  return done;
}

Line record_line(int64_t index, const slipstream::Result<slipstream::Answer>& answer) {
  json::object line{{"record", index}};
  if (answer) {
    auto all = parse_json(answer->to_json(), "answer");
    if (all && all->is_object())
      for (auto& [key, value] : all->get_object()) line[key] = std::move(value);
  } else {
    line["error"] = {{"kind", static_cast<int>(answer.error().kind)}, {"message", answer.error().message}};
  }
  return {json::serialize(line), answer ? std::nullopt : std::optional(answer.error())};
}

AskOne ask_records(slipstream::Service& service, const BatchOptions& o, const CancelToken& cancel) {
  return [&service, &o, cancel](int64_t i, Tell tell) -> Status {
    const int64_t index = o.first + i;
    SLIP_TRY(slipstream::Request record, slipstream::request_of_record(fmt::format("{}:{}", o.records, index)));
    slipstream::Request r = o.request;
    r.ego = record.ego;
    r.images = std::move(record.images);
    r.cancel = cancel;
    service.submit(r, {.batch = true}, {}, [tell, index](slipstream::Result<slipstream::Answer> answer, const slipstream::Served&) {
      const auto make = [&] { return record_line(index, answer); };
      tell(std::ref(make));
    });
    return {};
  };
}

std::string response_line(const std::string& id, const std::string& custom_id, int status, json::object body) {
  return json::serialize(json::object{{"id", "batch_req_" + id},
                                      {"custom_id", custom_id},
                                      {"response", {{"status_code", status}, {"request_id", id}, {"body", std::move(body)}}},
                                      {"error", nullptr}});
}

/// A line of OpenAI's batch format. What is wrong with a request is its own response, as it would be over HTTP.
AskOne ask_requests(slipstream::Service& service, const std::vector<std::string>& questions, const Allowed& allowed,
                    const std::string& model, const std::string& head, const CancelToken& cancel) {
  return [&service, &questions, &allowed, model, head, cancel](int64_t i, Tell tell) -> Status {
    const std::string id = fmt::format("{:08}", i), &text = questions[static_cast<size_t>(i)],
                      where = fmt::format("line {}", i + 1);
    auto line = parse_json(text, where);
    const json::object* o = line && line->is_object() ? &line->get_object() : nullptr;
    const auto text_of = [&](const char* key) {
      const json::value* v = o ? o->if_contains(key) : nullptr;
      return v && v->is_string() ? std::string(v->get_string()) : std::string();
    };
    const std::string custom = text_of("custom_id"), url = text_of("url");
    const auto refuse = [&](const Refusal& r) {
      const auto make = [&] {
        return Line{response_line(id, custom, r.status, error_line(r)), Error{ErrorKind::kBadInput, r.message}};
      };
      tell(std::ref(make));
      return Status{};
    };
    const json::value* body = o ? o->if_contains("body") : nullptr;
    const bool chat = url == "/v1/chat/completions";
    if (!body || (!chat && url != "/v1/completions"))
      return refuse(
          {.message = line ? "line: expected {\"custom_id\", \"method\", \"url\": \"/v1/chat/completions\", \"body\"}, got another"
                           : line.error().message});
    if (const auto flaw = check_written(text, where)) return refuse(*flaw);  // a value that was read keeps one of two
    auto read = read_completion(json::serialize(*body), chat, allowed);
    if (const auto* no = std::get_if<Refusal>(&read)) return refuse(*no);
    auto request = std::make_shared<CompletionRequest>(std::move(std::get<CompletionRequest>(read)));
    if (const auto no = check_of_file(*request)) return refuse(*no);
    if (const auto no = check_asked(*request, service, model, head, allowed)) return refuse(*no);
    if (const auto no = decode_images(*request, allowed.images)) return refuse(*no);
    request->request.cancel = cancel;
    const ReplyHead reply = reply_head(chat, model, service.fingerprint());
    const TokenBytes bytes = [&service](int32_t token) { return service.token_bytes(token); };
    service.submit(request->request, {.batch = true}, {},
                   [=](slipstream::Result<slipstream::Answer> answer, const slipstream::Served& served) {
                     const auto make = [&]() -> Line {
                       if (answer)
                         return {response_line(id, custom, 200, completion(reply, *request, *answer, served, bytes)), std::nullopt};
                       const Refusal r = refusal_of(answer.error(), served);
                       return {response_line(id, custom, r.status, error_line(r)), answer.error()};
                     };
                     tell(std::ref(make));
                   });
    return {};
  };
}

/// Of a record's answer: its number, and what it was made with.
Status is_of_record(const BatchOptions& o, int64_t i, const json::object& line) {
  const auto same = [&](const char* key, const json::value& wanted) -> Status {
    const json::value* v = line.if_contains(key);
    if (!v && line.contains("error")) return {};  // a refusal says no more than its record
    if (v && json::serialize(*v) == json::serialize(wanted)) return {};
    return bad_input("expected {} {}, got {}", key, json::serialize(wanted), v ? json::serialize(*v) : "none");
  };
  SLIP_TRY_(same("record", o.first + i));
  SLIP_TRY_(same("model", json::string(o.model)));
  return same("seed", o.request.seed);
}

/// Of a request's answer: the request's own id.
Status is_of_request(const std::string& question, const json::object& line) {
  const auto asked = parse_json(question, "request");
  const json::object* q = asked && asked->is_object() ? &asked->get_object() : nullptr;
  const json::value *wanted = q ? q->if_contains("custom_id") : nullptr, *got = line.if_contains("custom_id");
  if (!wanted || !wanted->is_string() || (got && *got == *wanted)) return {};
  return bad_input("expected custom_id {}, got {}", json::serialize(*wanted), got ? json::serialize(*got) : "none");
}

/// What the requests of a batch call the model.
std::string name_of(const BatchOptions& o) {
  std::error_code ec;
  return o.name.empty() ? fs::weakly_canonical(o.model, ec).filename().string() : o.name;
}

/// What all answers of this run go by.
json::object asked_by(const BatchOptions& o, const std::vector<std::string>& questions, const std::string& fingerprint) {
  json::object out{{"model", fingerprint}};
  if (!o.batch.empty()) {
    uint64_t h = kFnvStart;
    for (const std::string& q : questions) h = fnv1a(q + "\n", h);
    out["requests"] = fmt::format("{:016x}", h);
    out["name"] = name_of(o);
    return out;
  }
  out["records"] = slipstream::folder_mark(o.records);
  out["first"] = o.first;
  if (const std::string parts = slipstream::parts_mark(o.request.decoder); !parts.empty()) out["parts"] = parts;
  if (!o.request.trajectory_head.empty()) out["head"] = slipstream::folder_mark(o.request.trajectory_head);
  slipstream::Request asked = o.request;
  if (asked.decoder.preset == "auto") asked.decoder.preset.clear();  // what is taken where none is named
  if (auto settings = parse_json(slipstream::settings_of(asked), "settings"); settings && settings->is_object())
    for (const auto& [key, value] : settings->get_object()) out[key] = told(value);
  return out;
}

/// Whoever joins answers and requests by their ids would lose one of two.
Status check_ids(const std::string& file, const std::vector<std::string>& questions) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto asked = parse_json(questions[i], "request");  // what is wrong with a request is its own answer
    const json::value* id = asked && asked->is_object() ? asked->get_object().if_contains("custom_id") : nullptr;
    if (!id || !id->is_string()) continue;
    const auto [at, is_new] = seen.emplace(std::string(id->get_string()), i);
    if (!is_new)
      return bad_input("{}: request {}: expected a custom_id of its own, got that of request {}: {}", file, i + 1, at->second + 1,
                       shown_json(*id));
  }
  return {};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.find_first_not_of(" \t\r", at) < end) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

Result<BatchDone> run_batch(const BatchOptions& o, const slipstream::Progress& progress, const CancelToken& cancel) {
  std::error_code ec;
  if (fs::exists(o.out, ec)) return bad_input("{}: expected a file that is not there yet, got one", o.out);
  std::vector<std::string> questions;
  std::string remarks;
  int64_t total = 0;
  if (o.batch.empty()) {
    SLIP_TRY(total, slipstream::count_records(o.records));
    if (o.first >= total) return bad_input("{}: expected a first record below {}, got {}", o.records, total, o.first);
    total -= o.first;
    if (o.count > total) remarks = fmt::format("{}: {} records from {} on, not {}\n", o.records, total, o.first, o.count);
    if (o.count > 0) total = std::min(total, o.count);
  } else {
    SLIP_TRY(const std::string text, read_file(o.batch));
    questions = lines_of(text);
    SLIP_TRY_(check_ids(o.batch, questions));
    total = static_cast<int64_t>(questions.size());
  }
  SLIP_TRY(Lines lines, Lines::open(o.out, [&](int64_t i, const json::object& line) -> Status {
             if (i >= total) return bad_input("expected at most {} lines, got more", total);
             return o.batch.empty() ? is_of_record(o, i, line) : is_of_request(questions[static_cast<size_t>(i)], line);
           }));
  slipstream::EngineOptions engine_options = o.engine;
  if (engine_options.slots <= 0) engine_options.slots = 2048 * std::max(8, o.at_once);
  SLIP_TRY(slipstream::Engine engine, slipstream::Engine::load(o.model, engine_options, progress, cancel));
  SLIP_TRY(slipstream::Service service,
           slipstream::Service::start(std::move(engine), {.most_running = o.at_once, .most_waiting = 2 * o.at_once}, cancel));
  SLIP_TRY_(lines.check_asked(asked_by(o, questions, service.fingerprint())));
  Allowed allowed;
  for (std::string& form : slipstream::builtin_forms()) allowed.builtin.insert(std::move(form));
  const AskOne ask = o.batch.empty() ? ask_records(service, o, cancel)
                                     : ask_requests(service, questions, allowed, name_of(o), o.engine.trajectory_head, cancel);
  SLIP_TRY(BatchDone done, run_all(lines, total, o.at_once, o.batch.empty(), ask, progress, cancel));
  SLIP_TRY_(lines.finish());
  done.remarks = std::move(remarks);
  return done;
}

}  // namespace slip::server
