// SPDX-License-Identifier: Apache-2.0
// `bench answer` of a model that was trained for a form: one scene's whole answer, real weights and real words, and where each
// microsecond of it went. The decoders take turns; of each, the answer of median length is shown. Stages and operations are those of the
// thread that decodes: what other threads do beside it is not added, so that the table's sum is the answer's time.
#include "cli/bench/own_answer.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "api/choice.h"
#include "api/request/requests.h"
#include "api/slots.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/bench/measure.h"
#include "cli/bench/operations.h"
#include "cli/output.h"
#include "decode/types/words.h"

namespace slip::cli {

namespace {

struct TimedAnswer {
  std::unique_ptr<OperationClock> clock;
  Answer answer;
};

struct OwnContender {
  std::string preset;
  Method method;
  std::vector<TimedAnswer> runs;
  const TimedAnswer& median() const {
    std::vector<size_t> order(runs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return runs[a].clock->total_ns() < runs[b].clock->total_ns(); });
    return runs[order[order.size() / 2]];
  }
  double least_ms() const {
    int64_t ns = runs.front().clock->total_ns();
    for (const TimedAnswer& t : runs) ns = std::min(ns, t.clock->total_ns());
    return static_cast<double>(ns) * 1e-6;
  }
};

Result<std::vector<OwnContender>> own_contenders(const BenchAnswerOptions& o, Engine& engine) {
  std::vector<std::string> presets = o.presets;
  if (presets.empty()) presets = presets_of_model_alone(engine.visibility());
  std::vector<OwnContender> out;
  for (const std::string& preset : presets) {
    SLIP_TRY(Method method, api::method_from({.preset = preset}, {}, &engine, true));
    out.push_back({preset, std::move(method), {}});
  }
  return out;
}

Result<TimedAnswer> timed_answer(Engine& engine, Request& request, const Method& method) {
  request.method = method;
  auto clock = std::make_unique<OperationClock>();
  clock->start();
  auto answer = engine.run(request);
  clock->stop();
  if (!answer) return answer.error();
  return TimedAnswer{std::move(clock), std::move(*answer)};
}

json::object json_of(const BenchAnswerOptions& o, const Engine& engine, Model& model, const OwnContender& c, uint64_t scene) {
  const TimedAnswer& t = c.median();
  const Statistics& s = t.answer.decoded.statistics;
  const double total = static_cast<double>(t.clock->total_ns()) * 1e-6;
  return json::object{{"bench", "answer"},
                      {"model", o.model},
                      {"type", word_of_type(model.options().type)},
                      {"preset", c.preset},
                      {"decoder", decoder_json(t.answer.method, t.answer.form.get(), &t.answer.chosen)},
                      {"scene", scene},
                      {"visibility", words(engine.visibility())},
                      {"prompt_rows", t.answer.prompt_rows},
                      {"reused_rows", s.reused_rows},
                      {"tokens", s.tokens},
                      {"forwards", s.forwards},
                      {"draft_forwards", s.draft_forwards},
                      {"rows", s.rows},
                      {"repeats", c.runs.size()},
                      {"ms", stages_json(*t.clock)},
                      {"total_ms", total},
                      {"least_ms", c.least_ms()},
                      {"named_ms", named_ms(*t.clock)},
                      {"operations", operations_json(*t.clock)},
                      {"device", o.device},
                      {"isa", isa_of(o.device)},
                      {"threads", model.pool().threads()}};
}

void print_own(const OwnContender& c) {
  const TimedAnswer& t = c.median();
  const Statistics& s = t.answer.decoded.statistics;
  const double total = static_cast<double>(t.clock->total_ns()) * 1e-6;
  const std::string chosen = t.answer.chosen.name.empty() ? "" : fmt::format(" ({})", t.answer.chosen.name);
  print_text(fmt::format("{}{}: {} passes, {} rows ({} of the prompt, {} of them reused), {} tokens; {:.2f} ms, least {:.2f}\n\n",
                         c.preset, chosen, s.forwards, s.rows, t.answer.prompt_rows, s.reused_rows, s.tokens, total, c.least_ms()));
  print_operations(*t.clock);
}

}  // namespace

bool has_own_answer(const BenchAnswerOptions& o) {
  const std::string form = slipstream::own_form(o.model);
  const bool acts = form == "openvla-action" || form == "minivla-action";
  return !o.recorded && !o.no_images && form != "none" && !acts && api::config_of(o.model).has_value();
}

Status bench_own_answer(const BenchAnswerOptions& o) {
  const uint64_t scene = o.scene ? o.scene : api::kHeldOutScene;
  SLIP_TRY(slipstream::Request asked, slipstream::request_of_scene(scene));
  SLIP_TRY(Request request, api::engine_request(asked));
  request.reuse_prompt = o.reuse;
  SLIP_TRY(const int slots, api::slots_for(asked, o.model));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, slots, o.device));
  SLIP_TRY(std::vector<OwnContender> contenders, own_contenders(o, *engine));
  {
    Progress progress("answering", o.repeats + 1);
    for (int round = 0; round <= o.repeats; ++round) {  // the first settles buffers and measures what `auto` goes by
      for (OwnContender& c : contenders) {
        SLIP_TRY_(check_interrupt());
        SLIP_TRY(TimedAnswer t, timed_answer(*engine, request, c.method));
        if (round > 0) c.runs.push_back(std::move(t));
      }
      progress.update(round + 1);
    }
  }
  Model& model = engine->model();
  if (!o.json)
    print_text(fmt::format("{}, {}, {} threads, scene {}, {} answers by each decoder in turns\n{}\n\n", o.model,
                           word_of_type(model.options().type), model.pool().threads(), scene, o.repeats, where_it_runs(o.device)));
  const std::vector<TokenId>& tokens = contenders.front().runs.front().answer.decoded.tokens;
  for (const OwnContender& c : contenders) {
    if (o.json)
      print_json(json_of(o, *engine, model, c, scene));
    else
      print_own(c);
    for (const TimedAnswer& t : c.runs)
      if (t.answer.decoded.tokens != tokens)
        return check_failed("bench answer: {}: expected the tokens of {}, got others", c.preset, contenders.front().preset);
  }
  return {};
}

}  // namespace slip::cli
