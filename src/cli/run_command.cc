// SPDX-License-Identifier: Apache-2.0
// `run`: one answer.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/standard_streams.h"
#include "cli/bars.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace slip::cli {

namespace {

Result<std::pair<std::string, double>> section_temperature(const std::string& text) {
  const size_t equals = text.find('=');
  float value = 0;
  const char* end = text.data() + text.size();
  if (equals != std::string::npos) {
    const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, value);
    if (error == std::errc{} && stop == end && value >= 0 && value <= 100)
      return std::pair{text.substr(0, equals), static_cast<double>(value)};
  }
  return usage_error("--section-temperature: expected SECTION=T with T from 0 to 100, got {}", text);
}

Status read_pictures(const RunOptions& o, slipstream::Request& r) {
  for (const std::string& file : o.images) {
    SLIP_TRY(slipstream::Image image, slipstream::read_image(file));
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
    SLIP_TRY(r.ego, slipstream::read_ego(o.ego));
  }
  if (!o.prompt_file.empty()) {
    SLIP_TRY(r.prompt, read_input(o.prompt_file));
    if (!slipstream::is_valid_utf8(r.prompt)) return bad_input("{}: expected valid UTF-8, got other bytes", o.prompt_file);
    if (r.prompt.empty()) return bad_input("{}: expected text, got an empty file", o.prompt_file);
  }
  if (o.has_prompt && r.prompt.empty()) return bad_input("--prompt: expected text, got nothing");
  if (o.has_prompt && !slipstream::is_valid_utf8(r.prompt)) return bad_input("--prompt: expected valid UTF-8, got other bytes");
  if (!r.ego && r.prompt.empty() && r.images.empty() && r.videos.empty())
    return usage_error("run: expected --record, --ego, --prompt, --prompt-file, --image or --video, got none of them");
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

void print_answer(const slipstream::Answer& a) {
  print_text(a.to_text());
  const slipstream::Statistics& s = a.statistics;
  const slipstream::DecoderUsed& d = a.decoder;
  std::string line =
      fmt::format("{} ({} x {} x {}, width {}){}: {} forward passes, {} rows, {} tokens ({} forced)", d.preset, d.schedule,
                  d.drafter, d.verifier, d.width, d.lossy ? " (lossy)" : "", s.forwards, s.rows, s.tokens, s.forced_tokens);
  if (s.drafter_forwards > 0) line += fmt::format(", {} passes of the drafter", s.drafter_forwards);
  if (s.tested > 0) line += fmt::format(", {}/{} drafts accepted", s.accepted, s.tested);
  if (s.relaxed_accepts > 0) line += fmt::format(", {} of them by relaxed bins", s.relaxed_accepts);
  line += fmt::format("; {:.1f} ms: encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}", s.total_ms,
                      s.encode_ms, s.prefill_ms, s.draft_ms, s.verify_ms, s.plan_ms);
  if (!a.valid) line += "\nthe answer is not one of the form's";
  say(line + "\n");
}

/// The picture would replace the trace, or half of it.
Status check_outputs(const RunOptions& o) {
  namespace fs = std::filesystem;
  if (o.trace.empty() || o.picture.empty()) return {};
  std::error_code ec;
  if (fs::exists(o.trace, ec) && !fs::is_regular_file(o.trace, ec)) return {};  // /dev/null takes both
  if (fs::weakly_canonical(fs::absolute(o.trace, ec), ec) != fs::weakly_canonical(fs::absolute(o.picture, ec), ec)) return {};
  return usage_error("--picture: expected another file than that of --trace, got {}", o.picture);
}

}  // namespace

Result<slipstream::Request> request_from(const RunOptions& o) {
  slipstream::Request r = o.request;
  if (o.max_tokens && r.form != "none") return usage_error("--max-tokens: expected free text (--form none), got form {}", r.form);
  r.max_tokens = o.max_tokens.value_or(r.max_tokens);
  for (const std::string& text : o.section_temperatures) {
    SLIP_TRY(auto pair, section_temperature(text));
    r.sampling.section_temperatures.push_back(std::move(pair));
  }
  SLIP_TRY_(slipstream::check_request(r, o.model));
  SLIP_TRY_(read_record(o, r));
  SLIP_TRY_(read_pictures(o, r));
  SLIP_TRY_(read_question(o, r));
  r.trace = !o.trace.empty();
  return r;
}

Status run(const RunOptions& o) {
  SLIP_TRY_(check_outputs(o));
  SLIP_TRY(slipstream::Request request, request_from(o));
  request.cancel = slipstream::CancelToken::of_process();
  Bars bars;
  SLIP_TRY(slipstream::Engine engine, slipstream::Engine::load_for(request, o.model, o.engine, bars.progress(), request.cancel));
  SLIP_TRY(const slipstream::Answer answer,
           engine.answer(request, [&](const slipstream::Event& e) { bars.tell("decoding", e.tokens, 0); }));
  bars.finish();
  if (!o.trace.empty()) SLIP_TRY_(write_file(o.trace, answer.trace_json() + "\n"));
  if (!o.picture.empty()) {
    SLIP_TRY(const std::string png, answer.to_png());
    SLIP_TRY_(write_file(o.picture, png));
  }
  if (o.json) {
    print_text(answer.to_json() + "\n");
  } else {
    print_answer(answer);
  }
  return {};
}

}  // namespace slip::cli
