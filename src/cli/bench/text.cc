// SPDX-License-Identifier: Apache-2.0
// `bench text`: free text by several decoders. Of texts about simulated scenes (task/scene_text.h) the right answers are known: how many are exactly
// right, tokens per forward pass, milliseconds. Of other prompts the rest is measured. `--calibrate` writes down how often drafts held.
#include <algorithm>

#include "api/choice.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "cli/bench/commands.h"
#include "cli/output.h"
#include "cli/study.h"
#include "decode/decoder.h"
#include "decode/draft_length/collect.h"
#include "decode/draft_length/model_file.h"
#include "engine/engine.h"
#include "eval/evaluate.h"
#include "kernels/kernels.h"
#include "sim/record/make.h"
#include "task/scene_text.h"

namespace slip::cli {

namespace {

struct Tally {
  int64_t right = 0, same = 0;  // as the truth; as the first decoder
  int64_t tokens = 0, forwards = 0;
  double ms = 0;
  ChosenDecoder chosen;  // by `auto`, for the last text
};

struct Question {
  Request request;
  std::optional<std::string> answer;  // where it is known
};

Request as_chat(std::string text) {
  Request r;
  r.messages = {ChatMessage{"user", {TextItem{std::move(text)}}}};
  return r;
}

/// Prompt and answer have to fit the positions that the model was made for, and with drafts the cache; said before anything is asked.
Status check_room(Engine& engine, const Request& request, const BenchTextOptions& o, std::string_view where) {
  constexpr int64_t kDrafts = 128;
  SLIP_TRY(const Prompt prompt, engine.prompt(request));
  const Model& model = engine.model();
  const int64_t rows = std::ssize(prompt.inputs);
  const int64_t most = std::min<int64_t>(model.config().max_positions, model.options().slots - kDrafts) - o.max_tokens;
  if (rows <= most) return {};
  return bad_input("{}: expected a prompt of at most {} rows beside --max-tokens {}, got {}", where, std::max<int64_t>(0, most),
                   o.max_tokens, rows);
}

Result<Question> known_question(const BenchTextOptions& o, int64_t i) {
  SLIP_TRY(SceneText text, scene_text_at(static_cast<uint64_t>(o.first_seed), i));
  return Question{as_chat(std::move(text.prompt)), std::move(text.answer)};
}

Result<Question> scene(const BenchTextOptions& o, int64_t i) {
  SLIP_TRY(const sim::Record record, sim::make_record(static_cast<uint64_t>(o.first_seed + i)));
  return Question{request_of(record.labels, record.images, {}), std::nullopt};
}

Result<std::vector<Question>> questions_of_file(Engine& engine, const BenchTextOptions& o) {
  SLIP_TRY(const std::string text, read_input(o.prompts, kMostTextBytes));
  std::vector<Question> out;
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size() && (o.count == 0 || std::ssize(out) < o.count); ++number) {
    SLIP_TRY_(check_interrupt());
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin), where = fmt::format("{}, line {}", o.prompts, number);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    SLIP_TRY(const json::value v, parse_json(line, where));
    const json::value* prompt = v.is_object() ? v.get_object().if_contains("prompt") : nullptr;
    if (!prompt || !prompt->is_string()) return bad_input("{}: expected {{\"prompt\": TEXT}}, got {}", where, line.substr(0, 80));
    Request request = as_chat(std::string(prompt->get_string()));
    SLIP_TRY_(check_room(engine, request, o, where));
    out.push_back({std::move(request), std::nullopt});
  }
  if (out.empty()) return bad_input("{}: expected lines {{\"prompt\": TEXT}}, got none", o.prompts);
  return out;
}

Result<std::vector<Question>> questions(Engine& engine, const BenchTextOptions& o) {
  if (o.prompts != "questions" && o.prompts != "scenes") return questions_of_file(engine, o);
  std::vector<Question> out;
  constexpr int64_t kUsual = 100;
  for (int64_t i = 0; i < (o.count ? o.count : kUsual); ++i) {
    SLIP_TRY_(check_interrupt());
    SLIP_TRY(Question q, o.prompts == "scenes" ? scene(o, i) : known_question(o, i));
    SLIP_TRY_(check_room(engine, q.request, o, fmt::format("{}, number {}", o.prompts, i + 1)));
    out.push_back(std::move(q));
  }
  return out;
}

/// Greedy answers of one decoder; `first`: those of the first decoder, filled where it is empty.
Result<Tally> ask_all(Engine& engine, const Method& method, std::span<const Question> asked, int32_t limit,
                      std::vector<std::string>& first, DraftLengthCollector* collector = nullptr) {
  const bool leads = first.empty();
  Tally t;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (collector) collector->begin(static_cast<int64_t>(i));
    Request request = asked[i].request;
    request.form.clear();
    request.method = method;
    request.decode.limit = limit;
    request.context.draft_length_observer = collector;
    request.context.cancel = CancelToken::of_process();
    request.reuse_prompt = false;
    SLIP_TRY(const Answer a, engine.run(request));
    if (collector) collector->answered(a.decoded);
    if (leads) first.push_back(a.text);
    t.right += a.text == asked[i].answer;
    t.same += a.text == first[i];
    t.tokens += a.decoded.statistics.tokens;
    t.forwards += a.decoded.statistics.forwards;
    t.ms += a.decoded.statistics.ms.total;
    t.chosen = a.chosen;
  }
  return t;
}

Result<std::unique_ptr<Engine>> load(const std::string& folder, int threads) { return Engine::load(folder, {.threads = threads}); }

double tokens_per_forward(const Tally& t) {
  return static_cast<double>(t.tokens) / static_cast<double>(std::max<int64_t>(1, t.forwards));
}

}  // namespace

Result<json::value> text_answers(const std::string& folder, const StudyMode& mode) {
  const slipstream::DecoderChoice& c = mode.options.decoder;
  SLIP_TRY(const auto engine, load(folder, 0));
  SLIP_TRY(const Method method, api::method_from(c, {}, engine.get(), false));
  BenchTextOptions o;
  o.count = mode.options.count;
  o.first_seed = static_cast<int64_t>(mode.options.first_seed);
  SLIP_TRY(const std::vector<Question> asked, questions(*engine, o));
  std::vector<std::string> first;
  SLIP_TRY(const Tally t, ask_all(*engine, method, asked, o.max_tokens, first));
  const auto n = static_cast<double>(asked.size());
  return json::value{{"texts", asked.size()},
                     {"right", static_cast<double>(t.right) / n},
                     {"tokens_per_forward", tokens_per_forward(t)},
                     {"ms", t.ms / n}};
}

namespace {

/// PRESET, PRESET/VERIFIER or PRESET/VERIFIER/WIDTH.
slipstream::DecoderChoice choice_named(const std::string& words) {
  const size_t a = words.find('/'), b = a == std::string::npos ? a : words.find('/', a + 1);
  slipstream::DecoderChoice out;
  out.preset = words.substr(0, a);
  if (a != std::string::npos) out.verifier = words.substr(a + 1, b == std::string::npos ? b : b - a - 1);
  if (b != std::string::npos) out.width = words.substr(b + 1);
  return out;
}

/// Without an engine the words are checked, so that a mistake is said before a model is loaded.
Result<std::vector<Method>> methods_of(const BenchTextOptions& o, Engine* engine) {
  std::vector<Method> out;
  for (const std::string& words : o.decoders) {
    SLIP_TRY(Method method, api::method_from(choice_named(words), {}, engine, false));
    out.push_back(std::move(method));
  }
  return out;
}

Status check_calibration(const BenchTextOptions& o) {
  if (o.calibrate.empty()) return {};
  if (o.decoders.size() != 1) return usage_error("bench text: --calibrate: expected one of --decoders, got {}", o.decoders.size());
  SLIP_TRY(const std::vector<Method> methods, methods_of(o, nullptr));
  const Method& method = methods.front();
  if (!std::holds_alternative<DiffusionSpec>(method.drafter) || !std::holds_alternative<ExactSpec>(method.verifier))
    return usage_error("bench text: --calibrate: expected self-spec, exact, whose drafts have a pass of their own, got {}",
                       o.decoders.front());
  if (method.draft_length.kind == DraftLengthSpec::Kind::kMeasured)
    return usage_error(
        "bench text: --calibrate: expected a fixed draft length (self-spec/exact/fixed:32), got {}, whose drafts are cut by the "
        "calibration of before",
        o.decoders.front());
  return check_writable(o.calibrate);
}

Status write_calibration(Engine& engine, const DraftLengthCollector& collector, const Method& method, const BenchTextOptions& o) {
  SLIP_TRY(Calibration found, collector.finish());
  constexpr int32_t kVisible = 512;
  SLIP_TRY(CostTable cost, measure_costs(engine.model().lm(), {.visible = kVisible, .cancel = CancelToken::of_process()}));
  if (!is_quiet())
    fmt::print(stderr, "calibration: {} drafts tested, expected calibration error {:.3f} on {} held out\n", found.tested, found.ece,
               found.held_out);
  DraftLengthModel w = model_of(std::move(found), std::move(cost), nullptr, method);
  std::error_code ec;
  w.model = std::filesystem::weakly_canonical(o.model, ec).filename().string();
  w.machine = isa_choice().reason;
  w.visible = kVisible;
  return write_draft_length_model(w, o.calibrate);
}

void print_line(const std::string& words, const Tally& t, const Method& method, size_t texts, bool known, bool json) {
  const double n = static_cast<double>(texts), per = tokens_per_forward(t), right = static_cast<double>(t.right) / n;
  if (json)
    return print_json({{"decoder", words},
                       {"texts", texts},
                       {"right", known ? json::value(right) : json::value()},
                       {"as_first", static_cast<double>(t.same) / n},
                       {"tokens_per_forward", per},
                       {"ms", t.ms / n},
                       {"lossy", method.lossy()},
                       {"chosen", method.automatic ? json::value(t.chosen.name) : json::value()}});
  print_text(fmt::format("{:<28} {:>8} {:>10.3f} {:>16.2f} {:>12.2f}\n", words, known ? fmt::format("{:.3f}", right) : "-",
                         static_cast<double>(t.same) / n, per, t.ms / n));
  if (method.automatic) print_text(fmt::format("    for the last text: {}\n", t.chosen.why));
}

}  // namespace

Status bench_text(const BenchTextOptions& o) {
  SLIP_TRY_(check_calibration(o));
  SLIP_TRY_(methods_of(o, nullptr));
  SLIP_TRY(const auto engine, load(o.model, o.threads));
  SLIP_TRY(const std::vector<Method> methods, methods_of(o, engine.get()));
  SLIP_TRY(const std::vector<Question> asked, questions(*engine, o));
  std::vector<std::string> first;
  if (!o.json)
    print_text(fmt::format("{:<28} {:>8} {:>10} {:>16} {:>12}\n", "decoder", "right", "as first", "tokens/forward", "ms/answer"));
  for (size_t i = 0; i < methods.size(); ++i) {
    const Method& method = methods[i];
    DraftLengthCollector collector(nullptr);
    DraftLengthCollector* const watching = o.calibrate.empty() ? nullptr : &collector;
    SLIP_TRY(const Tally t, ask_all(*engine, method, asked, o.max_tokens, first, watching));
    print_line(o.decoders[i], t, method, asked.size(), asked.front().answer.has_value(), o.json);
    if (watching) SLIP_TRY_(write_calibration(*engine, collector, method, o));
  }
  return {};
}

}  // namespace slip::cli
