// SPDX-License-Identifier: Apache-2.0
// `run`: one answer.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/standard_streams.h"
#include "cli/bars.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "server/batch.h"

namespace slip::cli {

namespace {

/// Something is asked, before a model is looked at. Standard input is read once: two options that name it are refused before either reads.
Status check_inputs(const RunOptions& o, const slipstream::Request& r) {
  if (o.record.empty() && o.ego.empty() && o.messages.empty() && o.prompt_file.empty() && !o.has_prompt && o.images.empty() &&
      o.videos.empty() && r.prompt.empty())
    return usage_error("run: expected --record, --ego, --prompt, --prompt-file, --messages, --image or --video, got none of them");
  const auto several = std::count(o.images.begin(), o.images.end(), "-") + (o.ego == "-") + (o.messages == "-") +
                       (o.prompt_file == "-") + (r.form == "-");
  if (several < 2) return {};
  return usage_error("standard input: expected one option that reads it (-), got {}", several);
}

Status read_pictures(const RunOptions& o, slipstream::Request& r) {
  for (const std::string& file : o.images) {
    if (!is_stream(file)) {
      SLIP_TRY(slipstream::Image image, slipstream::read_image(file));
      r.images.push_back(std::move(image));
      continue;
    }
    SLIP_TRY(const std::string bytes, read_piped(file));
    SLIP_TRY(slipstream::Image image, slipstream::decode_image(bytes, name_of_input(file)));
    r.images.push_back(std::move(image));
  }
  for (const std::string& folder : o.videos) {
    SLIP_TRY(slipstream::Video video, slipstream::read_video(folder, o.fps));
    r.videos.push_back(std::move(video));
  }
  return {};
}

// What is asked: an ego history, a text, or pictures alone.
Status read_question(const RunOptions& o, slipstream::Request& r) {
  if (!o.ego.empty()) {
    SLIP_TRY(const std::string text, read_piped(o.ego, kMostTextBytes));
    SLIP_TRY(r.ego, slipstream::parse_ego(text, name_of_input(o.ego)));
  }
  if (!o.messages.empty()) {
    SLIP_TRY(const std::string text, read_piped(o.messages, kMostTextBytes));
    SLIP_TRY(r.messages, slipstream::parse_messages(text, name_of_input(o.messages)));
  }
  if (!o.prompt_file.empty()) {
    SLIP_TRY(r.prompt, read_piped(o.prompt_file, kMostTextBytes));
    if (!slipstream::is_valid_utf8(r.prompt)) return bad_input("{}: expected valid UTF-8, got other bytes", o.prompt_file);
    if (r.prompt.empty()) return bad_input("{}: expected text, got an empty file", o.prompt_file);
  }
  if (o.has_prompt && r.prompt.empty()) return bad_input("--prompt: expected text, got nothing");
  if (o.has_prompt && !slipstream::is_valid_utf8(r.prompt)) return bad_input("--prompt: expected valid UTF-8, got other bytes");
  return {};
}

// The record's pictures, history and truth, in a request that says the rest already.
Status read_record(const RunOptions& o, slipstream::Request& r) {
  if (o.record.empty()) return {};
  SLIP_TRY(slipstream::Request record, slipstream::request_of_record(o.record));
  r.ego = record.ego;
  r.images = std::move(record.images);
  r.truth = std::move(record.truth);
  return {};
}

/// How the answer came about, and what a person should know of it.
void say_facts(const slipstream::Answer& a, bool verbose) {
  const slipstream::Statistics& s = a.statistics;
  const slipstream::DecoderUsed& d = a.decoder;
  std::string line = fmt::format("{} ({} x {} x {}, width {}){}: {} forward passes, {} rows, {} tokens ({} forced)", d.preset,
                                 d.schedule, d.drafter, d.verifier, d.width,
                                 d.lossy   ? " (lossy)"
                                 : d.exact ? ""
                                           : " (same law, other tokens)",
                                 s.forwards, s.rows, s.tokens, s.forced_tokens);
  if (s.drafter_forwards > 0) line += fmt::format(", {} passes of the drafter", s.drafter_forwards);
  if (s.tested > 0) line += fmt::format(", {}/{} drafts accepted", s.accepted, s.tested);
  if (s.relaxed_accepts > 0) line += fmt::format(", {} of them by relaxed bins", s.relaxed_accepts);
  const std::string choice = s.choice_ms >= 0.05 ? fmt::format("choice {:.1f}, ", s.choice_ms) : "";
  line += fmt::format("; {:.1f} ms: {}encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}", s.total_ms, choice,
                      s.encode_ms, s.prefill_ms, s.draft_ms, s.verify_ms, s.plan_ms);
  if (s.head_forwards > 0)
    line += fmt::format(", trajectory head {:.1f} ({} plans before the last)", s.head_ms, a.early_plans.size());
  if (verbose && !d.chosen.empty()) line += fmt::format("\nauto: {}", d.chosen);
  if (!a.valid) line += "\nthe answer is not one of the form's";
  for (const std::string& why : a.trajectory.infeasible) line += "\nno car could follow the plan: " + why;
  for (const std::string& remark : a.remarks) line += "\nnote: " + remark;
  say(line + "\n");
}

void say_log_probs(const slipstream::Answer& a) {
  std::string lines;
  for (const slipstream::LogProbs& l : a.log_probs)
    lines += fmt::format("log-probability of {}: {:.3f} ({} tokens)\n", l.field.empty() ? "the text" : l.field,
                         std::round(l.sum * 1000) / 1000 + 0.0,  // no -0
                         l.tokens.size());
  const auto has_top = [](const slipstream::LogProbs& l) { return !l.top.empty(); };
  if (std::any_of(a.log_probs.begin(), a.log_probs.end(), has_top))
    lines += "the likeliest tokens of each place are in the result that --json prints\n";
  if (!lines.empty()) say(lines);
}

/// What is written would replace what is read: a photograph, say, or the schema.
Status check_against_inputs(const RunOptions& o, const std::string& option, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (file.empty() || !fs::is_regular_file(file, ec)) return {};
  std::vector<std::string> inputs = o.images;
  for (const std::string& input : {o.request.form, o.prompt_file, o.messages, o.ego}) inputs.push_back(input);
  if (const std::string_view drafter = o.request.decoder.drafter; drafter.starts_with("previous:"))
    inputs.emplace_back(drafter.substr(std::string_view("previous:").size()));
  for (const std::string& input : inputs)
    if (!input.empty() && fs::equivalent(input, file, ec))
      return usage_error("{}: expected another file than what is read, got {}", option, file);
  return {};
}

/// The picture would replace the trace, or half of it. And can they be written? Minutes of work may lie before.
Status check_outputs(const RunOptions& o) {
  namespace fs = std::filesystem;
  std::error_code ec;
  SLIP_TRY_(check_against_inputs(o, "--trace", o.trace));
  SLIP_TRY_(check_against_inputs(o, "--picture", o.picture));
  for (const std::string& file : {o.trace, o.picture}) SLIP_TRY_(check_writable(file));
  if (o.trace.empty() || o.picture.empty()) return {};
  if (fs::exists(o.trace, ec) && !fs::is_regular_file(o.trace, ec)) return {};  // /dev/null takes both
  if (fs::weakly_canonical(fs::absolute(o.trace, ec), ec) != fs::weakly_canonical(fs::absolute(o.picture, ec), ec)) return {};
  return usage_error("--picture: expected another file than that of --trace, got {}", o.picture);
}

/// A schema that comes through a pipe, in place of a form's name.
Status read_form(slipstream::Request& r) {
  if (!is_stream(r.form)) return {};
  const std::string name = name_of_input(r.form);
  SLIP_TRY(r.form_schema, read_piped(r.form, kMostSchemaBytes));
  if (r.form_schema.empty()) return bad_input("{}: expected a JSON Schema, got nothing", name);
  return {};
}

/// What is shown while the answer grows.
class Shown {
 public:
  Shown(const RunOptions& o, Bars& bars)
      : bars_(bars), text_(o.stream || (!o.json && ::isatty(STDOUT_FILENO) == 1)), fields_(o.stream) {}

  void tell(const slipstream::Event& e) {
    using Kind = slipstream::Event::Kind;
    if (e.kind == Kind::kPrefill) return bars_.tell("reading the prompt", e.done, e.total);
    if (e.kind == Kind::kPass && shown_ == Seen::kNothing) return bars_.tell("decoding", e.tokens, 0);
    if (e.kind == Kind::kText && text_) show(Seen::kText, e.text);
    if (e.kind == Kind::kField && fields_) show(Seen::kFields, fmt::format("{}: {}\n", e.field->name, e.field->text));
  }
  /// Is the whole answer on stdout already? Ends its line. Fields are not the whole: an empty list has none.
  bool end() {
    if (shown_ == Seen::kText) print_text("\n");
    return shown_ == Seen::kText;
  }

 private:
  enum class Seen { kNothing, kText, kFields };
  void show(Seen what, std::string_view text) {
    bars_.finish();
    print_text(text);
    shown_ = what;
  }
  Bars& bars_;
  bool text_, fields_;
  Seen shown_ = Seen::kNothing;
};

Status write_outputs(const RunOptions& o, const slipstream::Answer& answer) {
  if (!o.trace.empty()) SLIP_TRY_(write_file(o.trace, answer.trace_json() + "\n"));
  if (o.picture.empty()) return {};
  const bool svg = std::filesystem::path(o.picture).extension() == ".svg";
  SLIP_TRY(const std::string picture, svg ? answer.to_svg() : answer.to_png());
  return write_file(o.picture, picture);
}

/// The model's own form, and whether all that was asked goes together.
Status check_form(const RunOptions& o, slipstream::Request& r) {
  if (r.form == "model" && slipstream::own_form(o.model) == "none") r.form = "none";
  if (o.max_tokens_given && (r.form != "none" || !r.form_schema.empty()))
    return usage_error("--max-tokens: expected free text (--form none), got form {}", r.form);
  return slipstream::check_request(r, o.model);
}

/// Of a batch every request says itself what it wants, also whether the trajectory head plans: nothing else is passed over.
Status check_batch(const RunOptions& o) {
  const auto refuse = [](std::string_view name) {
    return usage_error("--{}: expected requests that say what they want, got an option for all of them beside --batch", name);
  };
  for (const auto& [given, name] : {std::pair{!o.images.empty(), "image"},
                                    {!o.videos.empty(), "video"},
                                    {!o.prompt_file.empty(), "prompt-file"},
                                    {!o.messages.empty(), "messages"},
                                    {!o.ego.empty(), "ego"},
                                    {o.has_prompt, "prompt"},
                                    {o.max_tokens_given, "max-tokens"}})
    if (given) return refuse(name);
  constexpr std::string_view kHead = "trajectory_head";
  slipstream::Request usual;
  usual.form = "model";
  SLIP_TRY(const json::value was, parse_json(slipstream::settings_of(usual), "settings"));
  SLIP_TRY(const json::value is, parse_json(slipstream::settings_of(o.request), "settings"));
  for (const slipstream::RequestOption& option : slipstream::request_options())
    if (option.name != kHead && was.at(option.name) != is.at(option.name))
      return refuse(option.flag.empty() ? option.name : option.flag);
  return {};
}

/// Many answers with one load.
Status run_many(const RunOptions& o) {
  server::BatchOptions b{.model = o.model,
                         .out = o.out,
                         .records = o.records,
                         .batch = o.batch,
                         .first = o.first,
                         .count = o.count,
                         .at_once = o.at_once,
                         .request = o.request,
                         .name = o.name,
                         .engine = o.engine};
  for (const auto& [given, name] : {std::pair{!o.trace.empty(), "--trace"},
                                    {!o.picture.empty(), "--picture"},
                                    {o.stream, "--stream"},
                                    {!o.record.empty(), "--record"}})
    if (given) return usage_error("{}: expected one answer to write, got --records or --batch", name);
  if (!o.batch.empty()) {
    SLIP_TRY_(check_batch(o));
    b.engine.trajectory_head = std::exchange(b.request.trajectory_head, {});
  }
  SLIP_TRY_(read_form(b.request));
  SLIP_TRY_(check_form(o, b.request));
  Bars bars;
  auto answered = server::run_batch(b, bars.progress(), slipstream::CancelToken::of_process());
  std::error_code ec;
  if (const std::string kept = o.out + ".partial";
      !answered && answered.error().kind == ErrorKind::kCancelled && std::filesystem::exists(kept, ec))
    return Error{ErrorKind::kCancelled,
                 fmt::format("{}; {} has what is done, and the same command goes on from it", answered.error().message, kept)};
  SLIP_TRY(const server::BatchDone done, std::move(answered));
  bars.finish();
  say(done.remarks);
  say(fmt::format("{} answers in {}, {} of them errors, {} of a run before\n", done.answered + done.failed + done.kept, o.out,
                  done.failed + done.kept_failed, done.kept));
  return {};
}

}  // namespace

Result<slipstream::Request> request_from(const RunOptions& o) {
  slipstream::Request r = o.request;
  SLIP_TRY_(check_inputs(o, r));
  SLIP_TRY_(read_form(r));
  SLIP_TRY_(check_form(o, r));
  SLIP_TRY_(read_record(o, r));
  SLIP_TRY_(read_pictures(o, r));
  SLIP_TRY_(read_question(o, r));
  r.trace = !o.trace.empty();
  return r;
}

// The answer is told before pictures and traces are written: none is lost when they fail.
Status run(const RunOptions& o) {
  if (!o.out.empty()) return run_many(o);
  SLIP_TRY_(check_outputs(o));
  SLIP_TRY(slipstream::Request request, request_from(o));
  request.cancel = slipstream::CancelToken::of_process();
  Bars bars;
  SLIP_TRY(slipstream::Engine engine, slipstream::Engine::load_for(request, o.model, o.engine, bars.progress(), request.cancel));
  Shown shown(o, bars);
  const auto answer = engine.answer(request, [&](const slipstream::Event& e) { shown.tell(e); });
  bars.finish();
  const bool is_shown = shown.end();
  if (!answer) return answer.error();
  if (o.json)
    print_text(answer->to_json() + "\n");
  else if (!is_shown)
    print_text(answer->to_text());
  for (size_t i = 1; !o.json && i < answer->finishes.size(); ++i)  // of free text; a form's rollouts have their plans' average
    print_text(fmt::format("\nanswer {} of {}:\n{}\n", i + 1, answer->finishes.size(), answer->texts[i]));
  result_is_printed();
  if (!o.json && !is_quiet()) say_facts(*answer, o.verbose);
  if (!o.json) say_log_probs(*answer);  // asked for by name
  return write_outputs(o, *answer);
}

}  // namespace slip::cli
