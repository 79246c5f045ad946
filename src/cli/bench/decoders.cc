// SPDX-License-Identifier: Apache-2.0
// `bench decoders`: one request, every preset, in rounds over the presets so that noise hits all of them alike. Over a form `ar`
// is forced onto it, so that all exact presets owe the same tokens.
#include <algorithm>
#include <filesystem>

#include "api/choice.h"
#include "api/request/requests.h"
#include "api/slots.h"
#include "base/measure.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "cli/bench/measure.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "decode/types/capacity.h"
#include "decode/types/presets.h"
#include "decode/types/usual_preset.h"
#include "eval/evaluate.h"
#include "limits/speculation_algebra.h"

namespace slip::cli {

namespace {

struct Contender {
  std::string label;
  Method method;
  Answer answer;  // of the last round
  std::vector<double> ms;
  std::vector<double> decode_ms, step_ms, draft_step_ms, draft_prompt_ms, prefill_ms;  // of every round
  std::string left_out;                                                                // why this model cannot be asked
  bool from_earlier = false;                                                           // may use the earlier frame's answer
};

bool nothing_asked(const RunOptions& o) {
  return o.record.empty() && o.ego.empty() && o.request.prompt.empty() && o.prompt_file.empty() && o.images.empty() &&
         o.videos.empty();
}

constexpr double kFrameS = 0.5;  // between the frame whose answer is the earlier one and the frame that is asked about

struct Requests {
  slipstream::Request asked;
  Request request;
  std::optional<Request> earlier;  // the same scene half a second before
};

// The request of the command line, or a frame of a held-out scene for the form that the model was trained for.
Result<Requests> requests_from(const RunOptions& o) {
  RunOptions copy = o;
  if (nothing_asked(o)) copy.request.prompt = " ";  // replaced by the scene
  Requests out;
  SLIP_TRY(out.asked, request_from(copy));
  for (const double t : nothing_asked(o) ? std::vector{0.0, kFrameS} : std::vector<double>{}) {
    if (t > 0) {
      SLIP_TRY(out.earlier, api::engine_request(out.asked));
    }
    SLIP_TRY(slipstream::Request scene, slipstream::request_of_scene(api::kHeldOutScene, t));
    out.asked.prompt.clear();
    out.asked.ego = scene.ego;
    out.asked.images = std::move(scene.images);
  }
  SLIP_TRY(out.request, api::engine_request(out.asked));
  return out;
}

// Heads that lie in the model's folder under their usual names take part unless others are named; "none" leaves one out.
void take_own_heads(BenchDecodersOptions& o) {
  const std::filesystem::path folder(o.run.model);
  const auto take = [&](std::string& name, const char* usual, const char* file) {
    std::error_code ec;
    const std::filesystem::path own = folder / usual;
    if (name.empty() && std::filesystem::exists(*file != '\0' ? own / file : own, ec)) name = own.string();
    if (name == "none") name.clear();
  };
  take(o.dflash, "dflash", "config.json");
  take(o.sampler, "commit_sampler", "config.json");
  take(o.blockpilot, "blockpilot.bin", "");
}

// Presets, and the parts that no preset names, for the visibility that the request is decoded by; a label begins with the preset that runs.
// `earlier`: there is an answer to draft from.
Result<std::vector<Contender>> contenders_of(const BenchDecodersOptions& o, Engine& engine, const Request& request, bool earlier) {
  const bool form = !request.form.empty(), graph = request.visibility.value_or(engine.visibility()) == Visibility::kGraph;
  std::vector<Contender> out;
  const auto add = [&](std::string label, std::string_view preset, std::string_view drafter, std::string_view width,
                       const std::string& verifier = "") -> Status {
    SLIP_TRY(
        Method m,
        api::method_from(
            {.preset = std::string(preset), .drafter = std::string(drafter), .verifier = verifier, .width = std::string(width)}, {},
            &engine, form));
    out.push_back({.label = std::move(label), .method = std::move(m)});
    return {};
  };
  for (const Preset& named : kPresets) {
    const std::string_view preset = named.name;
    std::string drafter;
    if (preset == "draft-model" && !o.draft_model.empty()) drafter = "model:" + o.draft_model;
    if (preset == "dflash" && !o.dflash.empty()) drafter = "dflash:" + o.dflash;
    SLIP_TRY_(add(std::string(preset), preset, drafter, ""));
    if ((preset == "draft-model" && o.draft_model.empty()) || (preset == "dflash" && o.dflash.empty()))
      out.back().left_out = fmt::format("it needs --{}", preset);
  }
  const std::string_view spec = usual_preset(form, graph, true), plain = usual_preset(form, graph, false);
  const std::string base(spec);
  if (!o.sampler.empty())
    SLIP_TRY_(add(form ? "section-diffusion sampler" : "text-diffusion sampler", form ? "section-diffusion" : "text-diffusion", "",
                  "", "sampler:" + o.sampler));
  const std::string head = o.dflash.empty() || graph ? "" : "dflash:" + o.dflash;
  if (form && !head.empty()) SLIP_TRY_(add(base + " dflash", spec, head, "fixed:15"));
  if (!o.blockpilot.empty()) {
    const std::string_view preset = form || head.empty() ? spec : "dflash";
    SLIP_TRY_(add(fmt::format("{}{} blockpilot", preset, form && !head.empty() ? " dflash" : ""), preset, head,
                  "blockpilot:" + o.blockpilot));
  }
  SLIP_TRY_(add(base + " lora", spec, "diffusion:lora", ""));
  SLIP_TRY_(add(std::string(plain) + " lookup", plain, "lookup", "fixed:8"));
  if (form) SLIP_TRY_(add(std::string(plain) + " quadratic", plain, "quadratic", "fixed:3"));
  if (form) SLIP_TRY_(add(base + " measured", spec, "", "measured"));
  if (form && graph) SLIP_TRY_(add(base + " ahead", spec, "diffusion:ahead", "fixed:8"));
  if (earlier) SLIP_TRY_(add(base + " previous", spec, "previous:earlier frame", ""));
  if (earlier && graph) SLIP_TRY_(add(base + " previous measured", spec, "previous:earlier frame", "measured"));
  SLIP_TRY_(add("auto", kAutomatic, "", ""));
  if (earlier) SLIP_TRY_(add("auto previous", kAutomatic, "", ""));
  out.back().from_earlier = earlier;
  for (Contender& c : out) {
    c.from_earlier |= std::holds_alternative<PreviousSpec>(c.method.drafter);
    if (c.method.automatic) continue;
    const Schedule s = c.method.schedule;
    if (!form && s != Schedule::kText) c.left_out = "it needs a form";
    if (form && diffuses_text(c.method)) c.left_out = "it is for free text";
    if (form && !graph && s == Schedule::kFields) c.left_out = "it needs graph visibility";
    if (form && graph && s == Schedule::kSections) c.left_out = "it needs chain visibility";
  }
  return out;
}

// Milliseconds of a pass behind the prompt, and of one of the drafter's: its prompt, where it has one, travels with its first.
void keep_times(const Answer& answer, Contender& c) {
  const Statistics& s = answer.decoded.statistics;
  c.ms.push_back(answer.stages.total_ms);
  c.decode_ms.push_back(s.ms.total);
  c.prefill_ms.push_back(s.ms.prefill);
  if (s.forwards > 1) c.step_ms.push_back(s.ms.verify / static_cast<double>(s.forwards - 1));
  const int64_t steps = s.drafter_forwards - (s.ms.drafter_prompt > 0);
  if (steps > 0) c.draft_step_ms.push_back((s.ms.draft - s.ms.drafter_prompt) / static_cast<double>(steps));
  if (s.drafter_forwards > 0) c.draft_prompt_ms.push_back(s.ms.drafter_prompt);
}

Status run_round(Engine& engine, Request& request, const PreviousAnswer* previous, std::vector<Contender>& contenders,
                 bool counts) {
  for (Contender& c : contenders) {
    if (!c.left_out.empty()) continue;
    request.method = c.method;
    request.context.previous = c.from_earlier ? previous : nullptr;
    auto answer = engine.run(request);
    const bool refused = !answer && (answer.error().kind == ErrorKind::kUnsupported || answer.error().kind == ErrorKind::kUsage);
    if (refused && !counts) {
      c.left_out = answer.error().message;
      continue;
    }
    if (!answer) return answer.error();
    if (counts) keep_times(*answer, c);
    c.answer = std::move(*answer);
  }
  return {};
}

// "lossy", or whether the tokens are those of the first exact preset.
json::value equality(const Contender& c, const Contender& first) {
  if (c.method.lossy()) return "lossy";
  return c.answer.decoded.tokens == first.answer.decoded.tokens;
}

// What acceptance and costs of this run promise a drafter with passes of its own, beside what came out (docs/lab/0005-two-models.md):
//   speedup        (1 - a^(g+1)) / (1 - a) / (1 + c g)   [Leviathan 2211.17192], c g for g steps of a model; a head drafts all in one, c
//   with_prefills  an answer of exactly this length, both prompts counted in steps of the target
// a = accepted / tested, c = the drafter's step over the target's, both medians of this run; measured: decoding without drafts over with.
struct Prediction {
  double alpha = 0, c = 0, speedup = 0, with_prefills = 0, measured = 0;
  int gamma = 0;
};

std::optional<Prediction> predict(const Contender& c, const std::vector<Contender>& all) {
  const bool head = std::holds_alternative<DFlashSpec>(c.method.drafter);
  const Statistics& s = c.answer.decoded.statistics;
  if ((!head && !std::holds_alternative<ModelSpec>(c.method.drafter)) || s.tested == 0 || c.draft_step_ms.empty()) return {};
  if (c.method.draft_length.kind != DraftLengthSpec::Kind::kFixed) return {};
  // The same engine without drafts, scaffold forced in the same way: over a form the last of ar and scaffold-ar.
  const Contender* plain = nullptr;
  for (const Contender& x : all)
    if (x.left_out.empty() && !x.method.automatic && std::holds_alternative<NoDraftSpec>(x.method.drafter) &&
        x.method.schedule != Schedule::kFields && (x.method.schedule == Schedule::kChain || !plain))
      plain = &x;
  if (!plain || plain->step_ms.empty()) return {};
  Prediction p{.alpha = static_cast<double>(s.accepted) / static_cast<double>(s.tested), .gamma = c.method.draft_length.tokens};
  const double step = median(plain->step_ms);
  p.c = median(c.draft_step_ms) / step;
  const double round_cost = head ? p.c : p.c * p.gamma;
  p.speedup = speculative_speedup(p.alpha, p.gamma, round_cost / p.gamma);
  const auto tokens = static_cast<int>(plain->answer.decoded.statistics.forwards);
  const FiniteRun run = finite_run(tokens, p.alpha, p.gamma);
  const double prefill = median(plain->prefill_ms) / step, draft_prefill = median(c.draft_prompt_ms) / step;
  const double drafts = p.c * ((head ? run.rounds : run.draft_steps) - 1);
  p.with_prefills = (prefill + tokens - 1) / (prefill + draft_prefill + run.rounds - 1 + drafts);
  p.measured = median(plain->decode_ms) / median(c.decode_ms);
  return p;
}

json::value prediction_json(const std::optional<Prediction>& p) {
  if (!p) return nullptr;
  return json::object{{"alpha", p->alpha},     {"gamma", p->gamma},       {"c", p->c},
                      {"speedup", p->speedup}, {"measured", p->measured}, {"with_prefills", p->with_prefills}};
}

void print_predictions(const std::vector<Contender>& contenders) {
  for (const Contender& c : contenders)
    if (const auto p = c.left_out.empty() ? predict(c, contenders) : std::nullopt)
      print_text(
          fmt::format("\n{}: {} of {} tested drafts accepted, a step costs {:.3f} of the model's: by the formula {:.2f} times as "
                      "fast, with both prompts {:.2f}; measured {:.2f}\n",
                      c.label, c.answer.decoded.statistics.accepted, c.answer.decoded.statistics.tested, p->c, p->speedup,
                      p->with_prefills, p->measured));
}

// Decoding times of auto over those of the best exact preset and of the best without drafts; by medians of this run, and by passes and rows at
// the prices that auto went by.
struct AutomaticRatio {
  std::string best, plain;
  double to_best = 0, to_plain = 0;
};

std::optional<AutomaticRatio> automatic_ratio(const Contender& c, const std::vector<Contender>& all) {
  if (!c.method.automatic || !c.left_out.empty()) return {};
  const auto is_preset = [](const Contender& x) {
    return std::any_of(kPresets.begin(), kPresets.end(), [&](const Preset& p) { return p.name == x.label; });
  };
  AutomaticRatio out;
  double best = 0, plain = 0;
  for (const Contender& x : all) {
    if (!x.left_out.empty() || x.method.lossy() || !is_preset(x)) continue;
    const double ms = median(x.decode_ms);
    const auto take = [&](double& least, std::string& name) {
      if (least > 0 && ms >= least) return;
      least = ms;
      name = x.label;
    };
    take(best, out.best);
    if (std::holds_alternative<NoDraftSpec>(x.method.drafter)) take(plain, out.plain);
  }
  if (!(best > 0) || !(plain > 0)) return {};
  out.to_best = median(c.decode_ms) / best;
  out.to_plain = median(c.decode_ms) / plain;
  return out;
}

json::value ratio_json(const std::optional<AutomaticRatio>& r) {
  if (!r) return nullptr;
  return json::object{{"best_preset", r->best},
                      {"of_best_preset", r->to_best},
                      {"best_without_drafts", r->plain},
                      {"of_best_without_drafts", r->to_plain}};
}

void print_contender(const Contender& c, const json::value& equal, const std::vector<Contender>& all, bool as_json) {
  const Statistics& s = c.answer.decoded.statistics;
  const double fastest = *std::min_element(c.ms.begin(), c.ms.end());
  const double per_forward = s.forwards ? static_cast<double>(s.tokens) / static_cast<double>(s.forwards) : 0;
  if (as_json) {
    print_json(json::object{{"label", c.label},
                            {"decoder", decoder_json(c.answer.method, c.answer.form.get(), &c.answer.chosen)},
                            {"statistics", statistics_json(c.answer)},
                            {"ms", {{"median", median(c.ms)}, {"min", fastest}}},
                            {"tokens_per_forward", per_forward},
                            {"prediction", prediction_json(predict(c, all))},
                            {"auto", ratio_json(automatic_ratio(c, all))},
                            {"equal", equal}});
    return;
  }
  const std::string word = equal.is_string() ? "lossy" : equal.as_bool() ? "equal" : "DIFFER";
  print_text(fmt::format("  {:<29} {:>8} {:>6} {:>8} {:>8} {:>10.2f} {:>14} {:>8} {:>9.1f} {:>9.1f} {:>8}\n", c.label, s.forwards,
                         s.draft_forwards + s.drafter_forwards, s.rows, s.tokens, per_forward,
                         s.tested ? fmt::format("{}/{}/{}", s.accepted, s.tested, s.proposed) : "-",
                         s.critical_path ? std::to_string(s.critical_path) : "-", median(c.ms), fastest, word));
}

void print_ratios(const std::vector<Contender>& contenders) {
  for (const Contender& c : contenders)
    if (const auto r = automatic_ratio(c, contenders))
      print_text(
          fmt::format("\n{}: {:.2f} of {}, the best preset, and {:.2f} of {}, the best without drafts (decoding, medians)\n  {}\n",
                      c.label, r->to_best, r->best, r->to_plain, r->plain, c.answer.chosen.why));
}

}  // namespace

Status bench_decoders(const BenchDecodersOptions& asked) {
  BenchDecodersOptions o = asked;
  take_own_heads(o);
  SLIP_TRY(Requests requests, requests_from(o.run));
  Request& request = requests.request;
  request.reuse_prompt = o.reuse;
  const slipstream::EngineOptions& how = o.run.engine;
  SLIP_TRY(const int enough, api::slots_for(requests.asked, o.run.model));
  SLIP_TRY(const std::unique_ptr<Engine> engine,
           load_engine(o.run.model, how.dtype, how.threads, how.slots > 0 ? how.slots : enough, how.device, how.kv_type));
  PreviousAnswer previous;
  if (requests.earlier) {
    SLIP_TRY(requests.earlier->method, api::method_from({}, {}, engine.get(), !request.form.empty()));
    requests.earlier->visibility.reset();  // the decoder is that of the model's own visibility; drafts may come from there
    SLIP_TRY(const Answer earlier, engine->run(*requests.earlier));
    previous = {earlier.form ? earlier.form->form.name() : "", earlier.decoded.fields, earlier.decoded.tokens};
  }
  SLIP_TRY(std::vector<Contender> contenders, contenders_of(o, *engine, request, requests.earlier.has_value()));
  {
    Progress progress("decoding", o.repeats + 1);
    for (int round = 0; round <= o.repeats; ++round) {  // round 0 settles buffers
      SLIP_TRY_(run_round(*engine, request, requests.earlier ? &previous : nullptr, contenders, round > 0));
      progress.update(round + 1);
    }
  }
  if (!o.run.json)
    print_text(fmt::format("{} rounds, {}\n\n  {:<29} {:>8} {:>6} {:>8} {:>8} {:>10} {:>14} {:>8} {:>9} {:>9} {:>8}\n", o.repeats,
                           where_it_runs(how.device), "decoder", "forwards", "drafts", "rows", "tokens", "per pass",
                           "acc/test/prop", "critical", "median ms", "min ms", "tokens"));
  std::string differs;
  for (const Contender& c : contenders) {
    if (!c.left_out.empty()) {
      say(fmt::format("{}: left out: {}\n", c.label, c.left_out));
      continue;
    }
    const json::value equal = equality(c, contenders.front());
    if (equal.is_bool() && !equal.as_bool()) differs = c.label;
    print_contender(c, equal, contenders, o.run.json);
  }
  if (!o.run.json) print_predictions(contenders);
  if (!o.run.json) print_ratios(contenders);
  if (!differs.empty())
    return check_failed("bench decoders: {}: expected the tokens of {}, got others", differs, contenders.front().label);
  return {};
}

}  // namespace slip::cli
