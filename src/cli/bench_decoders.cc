// SPDX-License-Identifier: Apache-2.0
// `bench decoders`: one request, every preset, in rounds over the presets so that noise hits all of them alike. Over a form `ar`
// is forced onto it, so that all exact presets owe the same tokens.
#include <algorithm>

#include "base/progress.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "eval/evaluate.h"

namespace slip::cli {

namespace {

struct Contender {
  Method method;
  Answer answer;  // of the last round
  std::vector<double> ms;
  std::string left_out;  // why this model cannot be asked
};

bool nothing_asked(const RunOptions& o) {
  return o.record.empty() && o.ego.empty() && o.prompt.empty() && o.prompt_file.empty() && o.images.empty();
}

// The request of the command line, or a held-out scene for the form that the model was trained for.
Result<Request> request_from(const RunOptions& o) {
  RunOptions copy = o;
  std::optional<sim::Record> record;
  if (nothing_asked(o)) {
    SLIP_TRY(record, sim::make_record(kHeldOutScene));
    copy.prompt = " ";  // replaced by the scene
  }
  SLIP_TRY(Prepared prepared, prepare(copy));
  Request& request = prepared.request;
  if (record) {
    const Request scene = request_of(record->labels, record->images, {.blank_images = o.blank_images});
    request.prompt.clear();
    request.ego = scene.ego;
    request.images = scene.images;
  }
  return std::move(prepared.request);
}

// Free text is for the text schedule, a form for all but self-spec.
bool fits(const Method& m, bool form) {
  const bool text = m.schedule == Schedule::kText;
  return form ? !text || std::holds_alternative<NoDrafter>(m.drafter) : text;
}

Status run_round(Engine& engine, Request& request, std::vector<Contender>& contenders, bool counts) {
  for (Contender& c : contenders) {
    if (!c.left_out.empty()) continue;
    request.method = c.method;
    auto answer = engine.run(request);
    if (!answer && answer.error().kind == ErrorKind::kUnsupported && c.ms.empty()) {
      c.left_out = answer.error().message;
      continue;
    }
    if (!answer) return answer.error();
    if (counts) c.ms.push_back(answer->stages.total_ms);
    c.answer = std::move(*answer);
  }
  return {};
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// "lossy", or whether the tokens are those of the first exact preset.
json::value equality(const Contender& c, const Contender& first) {
  if (c.method.lossy()) return "lossy";
  return c.answer.decoded.tokens == first.answer.decoded.tokens;
}

void print_contender(const Contender& c, const json::value& equal, bool as_json) {
  const Statistics& s = c.answer.decoded.statistics;
  const double fastest = *std::min_element(c.ms.begin(), c.ms.end());
  const double per_forward = s.forwards ? static_cast<double>(s.tokens) / static_cast<double>(s.forwards) : 0;
  if (as_json) {
    print_json(json::object{{"decoder", decoder_json(c.method)},
                            {"statistics", statistics_json(c.answer)},
                            {"ms", {{"median", median(c.ms)}, {"min", fastest}}},
                            {"tokens_per_forward", per_forward},
                            {"equal", equal}});
    return;
  }
  const std::string word = equal.is_string() ? "lossy" : equal.as_bool() ? "equal" : "DIFFER";
  print_text(fmt::format("  {:<20} {:>8} {:>8} {:>8} {:>10.2f} {:>14} {:>10.1f} {:>10.1f} {:>8}\n", c.method.preset, s.forwards,
                         s.rows, s.tokens, per_forward, s.tested ? fmt::format("{}/{}", s.accepted, s.tested) : "-", median(c.ms),
                         fastest, word));
}

}  // namespace

Status bench_decoders(const BenchDecodersOptions& o) {
  SLIP_TRY(Request request, request_from(o.run));
  SLIP_TRY(const int slots, slots_for(o.run, request));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.run.model, o.run.dtype, o.run.threads, slots));
  std::vector<Contender> contenders;
  for (const std::string_view preset : preset_names()) {
    SLIP_TRY(Method method, method_of(preset));
    const bool fit = fits(method, !request.form.empty());
    contenders.push_back({.method = std::move(method),
                          .left_out = fit                    ? ""
                                      : request.form.empty() ? "it needs a form"
                                                             : "over a form it is refused"});
  }
  {
    Progress progress("decoding", o.repeats + 1);
    for (int round = 0; round <= o.repeats; ++round) {  // round 0 settles buffers
      SLIP_TRY_(run_round(*engine, request, contenders, round > 0));
      progress.update(round + 1);
    }
  }
  if (!o.run.json)
    print_text(fmt::format("{} rounds, {}\n\n  {:<20} {:>8} {:>8} {:>8} {:>10} {:>14} {:>10} {:>10} {:>8}\n", o.repeats,
                           isa_choice().reason, "decoder", "forwards", "rows", "tokens", "per pass", "accepted", "median ms",
                           "min ms", "tokens"));
  std::string differs;
  for (const Contender& c : contenders) {
    if (!c.left_out.empty()) {
      fmt::print(stderr, "{}: left out: {}\n", c.method.preset, c.left_out);
      continue;
    }
    const json::value equal = equality(c, contenders.front());
    if (equal.is_bool() && !equal.as_bool()) differs = c.method.preset;
    print_contender(c, equal, o.run.json);
  }
  if (!differs.empty())
    return check_failed("bench decoders: {}: expected the tokens of {}, got others", differs, contenders.front().method.preset);
  return {};
}

}  // namespace slip::cli
