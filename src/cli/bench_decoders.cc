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
  std::string label;
  Method method;
  Answer answer;  // of the last round
  std::vector<double> ms;
  std::string left_out;  // why this model cannot be asked
};

bool nothing_asked(const RunOptions& o) {
  return o.record.empty() && o.ego.empty() && o.prompt.empty() && o.prompt_file.empty() && o.images.empty();
}

constexpr double kFrameS = 0.5;  // between the frame whose answer is the earlier one and the frame that is asked about

struct Requests {
  Request request;
  std::optional<Request> earlier;  // the same scene half a second before
};

// The request of the command line, or a frame of a held-out scene for the form that the model was trained for.
Result<Requests> requests_from(const RunOptions& o) {
  RunOptions copy = o;
  if (nothing_asked(o)) copy.prompt = " ";  // replaced by the scene
  SLIP_TRY(Prepared prepared, prepare(copy));
  Requests out{std::move(prepared.request), {}};
  if (!nothing_asked(o)) return out;
  for (const double t : {0.0, kFrameS}) {
    SLIP_TRY(const sim::Record record, sim::make_frame(kHeldOutScene, {}, t));
    if (t > 0) out.earlier = out.request;
    const Request scene = request_of(record.labels, record.images, {.blank_images = o.blank_images});
    out.request.prompt.clear();
    out.request.ego = scene.ego;
    out.request.images = scene.images;
  }
  return out;
}

// Presets, and the parts that no preset names; `earlier`: there is an answer to draft from.
Result<std::vector<Contender>> contenders_of(const BenchDecodersOptions& o, const Engine& engine, bool form, bool earlier) {
  std::vector<Contender> out;
  const auto add = [&](std::string label, std::string_view preset, std::string_view drafter, std::string_view width) -> Status {
    SLIP_TRY(Method m, method_from(MethodFlags{preset, "", drafter, "", width}, &engine, form));
    out.push_back({.label = std::move(label), .method = std::move(m)});
    return {};
  };
  const bool graph = engine.law() == Law::kGraph;
  for (const std::string_view preset : preset_names()) {
    std::string drafter;
    if (preset == "draft-model" && !o.draft_model.empty()) drafter = "model:" + o.draft_model;
    if (preset == "dflash" && !o.dflash.empty()) drafter = "dflash:" + o.dflash;
    SLIP_TRY_(add(std::string(preset), preset, drafter, ""));
    if ((preset == "draft-model" && o.draft_model.empty()) || (preset == "dflash" && o.dflash.empty()))
      out.back().left_out = fmt::format("it needs --{}", preset);
  }
  const std::string_view spec = !form ? "self-spec" : graph ? "fields-spec" : "scaffold-spec";
  const std::string_view plain = !form ? "ar" : graph ? "fields" : "scaffold-ar";
  const std::string base(spec);
  SLIP_TRY_(add(base + " lora", spec, "diffusion:lora", ""));
  SLIP_TRY_(add(base + " lookup", plain, "lookup", "fixed:8"));
  if (form) SLIP_TRY_(add(base + " quadratic", plain, "quadratic", "fixed:3"));
  if (form) SLIP_TRY_(add(base + " measured", spec, "", "measured"));
  if (earlier) SLIP_TRY_(add(base + " previous", spec, "previous:earlier frame", ""));
  for (Contender& c : out) {
    const Schedule s = c.method.schedule;
    if (!form && s != Schedule::kText) c.left_out = "it needs a form";
    if (form && !graph && s == Schedule::kFields) c.left_out = "it needs a model of the graph law";
    if (form && graph && s == Schedule::kSections) c.left_out = "it needs a model of the chain law";
  }
  return out;
}

Status run_round(Engine& engine, Request& request, std::vector<Contender>& contenders, bool counts) {
  for (Contender& c : contenders) {
    if (!c.left_out.empty()) continue;
    request.method = c.method;
    auto answer = engine.run(request);
    const bool refused = !answer && (answer.error().kind == ErrorKind::kUnsupported || answer.error().kind == ErrorKind::kUsage);
    if (refused && !counts) {
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
    print_json(json::object{{"label", c.label},
                            {"decoder", decoder_json(c.method, c.answer.form)},
                            {"statistics", statistics_json(c.answer)},
                            {"ms", {{"median", median(c.ms)}, {"min", fastest}}},
                            {"tokens_per_forward", per_forward},
                            {"equal", equal}});
    return;
  }
  const std::string word = equal.is_string() ? "lossy" : equal.as_bool() ? "equal" : "DIFFER";
  print_text(fmt::format("  {:<22} {:>8} {:>6} {:>8} {:>8} {:>10.2f} {:>14} {:>8} {:>9.1f} {:>9.1f} {:>8}\n", c.label, s.forwards,
                         s.draft_forwards + s.drafter_forwards, s.rows, s.tokens, per_forward,
                         s.tested ? fmt::format("{}/{}/{}", s.accepted, s.tested, s.proposed) : "-",
                         s.critical_path ? std::to_string(s.critical_path) : "-", median(c.ms), fastest, word));
}

}  // namespace

Status bench_decoders(const BenchDecodersOptions& o) {
  SLIP_TRY(Requests requests, requests_from(o.run));
  Request& request = requests.request;
  SLIP_TRY(const int slots, slots_for(o.run, request));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.run.model, o.run.dtype, o.run.threads, slots));
  PreviousAnswer previous;
  if (requests.earlier) {
    SLIP_TRY(requests.earlier->method, method_from(MethodFlags{}, engine.get(), !request.form.empty()));
    SLIP_TRY(const Answer earlier, engine->run(*requests.earlier));
    previous = {earlier.form ? earlier.form->form.name() : "", earlier.decoded.fields, earlier.decoded.tokens};
    request.decode.previous = &previous;
  }
  SLIP_TRY(std::vector<Contender> contenders, contenders_of(o, *engine, !request.form.empty(), requests.earlier.has_value()));
  {
    Progress progress("decoding", o.repeats + 1);
    for (int round = 0; round <= o.repeats; ++round) {  // round 0 settles buffers
      SLIP_TRY_(run_round(*engine, request, contenders, round > 0));
      progress.update(round + 1);
    }
  }
  if (!o.run.json)
    print_text(fmt::format("{} rounds, {}\n\n  {:<22} {:>8} {:>6} {:>8} {:>8} {:>10} {:>14} {:>8} {:>9} {:>9} {:>8}\n", o.repeats,
                           isa_choice().reason, "decoder", "forwards", "drafts", "rows", "tokens", "per pass", "acc/test/prop",
                           "critical", "median ms", "min ms", "tokens"));
  std::string differs;
  for (const Contender& c : contenders) {
    if (!c.left_out.empty()) {
      fmt::print(stderr, "{}: left out: {}\n", c.label, c.left_out);
      continue;
    }
    const json::value equal = equality(c, contenders.front());
    if (equal.is_bool() && !equal.as_bool()) differs = c.label;
    print_contender(c, equal, o.run.json);
  }
  if (!differs.empty())
    return check_failed("bench decoders: {}: expected the tokens of {}, got others", differs, contenders.front().label);
  return {};
}

}  // namespace slip::cli
