// SPDX-License-Identifier: Apache-2.0
// `bench answer` of a model without a form of its own: a three-camera driving request of Fast-dDrive's size, stage by stage, for
// any weights. The passes are the engine's decoders' own; what they say is a recorded answer, and drafts hold with odds that bring
// scaffold-spec to the published tokens per pass (replay.h), or as a model's calibration saw it (recorded_acceptance.h). The stage `commit` is
// everything of decoding that is not a pass.
#include <algorithm>
#include <array>
#include <optional>

#include "base/clock/operation_clock.h"
#include "base/interrupt.h"
#include "base/measure.h"
#include "cli/bench/measure.h"
#include "cli/bench/operations.h"
#include "cli/bench/own_answer.h"
#include "cli/bench/pictures.h"
#include "cli/bench/recorded_acceptance.h"
#include "cli/bench/replay.h"
#include "cli/output.h"
#include "decode/pass/prefix_cache.h"
#include "decode/types/presets.h"
#include "eval/verify.h"
#include "forecast/forecast.h"
#include "models/device.h"
#include "models/weights/packed_folder.h"
#include "plan/fit.h"

namespace slip::cli {

namespace {

struct Stages {
  double admit = 0, encode = 0, form = 0, prefill = 0, draft = 0, verify = 0, commit = 0, plan = 0;
  double total() const { return admit + encode + form + prefill + draft + verify + commit + plan; }
};

struct Asked {
  Prompt prompt, earlier;  // the frame before: the same text, other pictures
  double admit_ms = 0, encode_ms = 0;
  EncodedPictures pictures;
};

Result<std::vector<PictureBytes>> pictures_of(const BenchAnswerOptions& o) {
  if (o.no_images) return std::vector<PictureBytes>{};
  return driving_pictures(o.images, o.cameras, o.width, o.height);
}

/// Text, pictures, text: as many rows as asked for, half of the way in text that does not change from frame to frame.
Result<Asked> ask(Model& model, const BenchAnswerOptions& o, std::span<const PictureBytes> pictures) {
  Asked out;
  const auto text = [&](std::vector<TokenId>& tokens, int n) {
    for (int i = 0; i < n; ++i) tokens.push_back({ReplayIds::kWords + (i * 13) % ReplayIds::kWordCount});
  };
  std::vector<TokenId> tokens;
  if (!o.images.empty() && !(model.vision() && model.preprocessor() && model.config().image_token))
    return unsupported("--image: expected a model with Qwen2.5-VL's vision tower, got {}, {}", o.model,
                       model.config().architecture);
  if (!model.vision() || !model.preprocessor() || !model.config().image_token || o.no_images) {
    text(tokens, o.rows);
    out.prompt = prompt_rows(tokens);
    out.earlier = out.prompt;
    return out;
  }
  SLIP_TRY(out.pictures, patch_pictures(model, pictures, kDrivingPixels));
  std::vector<VisionGrid> grids;
  int features = 0;
  for (const PatchGrid& g : out.pictures.grids) {
    grids.push_back({g.t, g.h, g.w});
    features += g.merged();
  }
  const int words = o.rows - features, before = words * 4 / 5;  // the ego history stands behind the pictures
  if (words < 2)
    return usage_error("--rows: expected at least {} for the rows of {} pictures and text around them, got {}", features + 2,
                       grids.size(), o.rows);
  SLIP_TRY_(run_tower(model, out.pictures));  // settles buffers
  SLIP_TRY(out.pictures, encode_pictures(model, pictures, kDrivingPixels));
  text(tokens, before);
  for (size_t i = 0; i < grids.size(); ++i) tokens.push_back(*model.config().image_token);
  text(tokens, words - before);
  const VisionRules rules{*model.config().image_token, model.config().video_token.value_or(TokenId{-1}),
                          model.config().vision->merge, static_cast<int32_t>(model.config().vision->tokens_per_second)};
  SLIP_TRY(out.prompt, prompt_rows(tokens, grids, rules));
  out.prompt.features = std::move(out.pictures.features);
  out.earlier = out.prompt;  // of other pictures
  out.earlier.features = {};
  SLIP_TRY_(out.prompt.features.read(out.earlier.features.numbers_ND));
  for (float& x : out.earlier.features.numbers_ND) x *= 0.5F;
  out.admit_ms = out.pictures.decode_ms;
  out.encode_ms = out.pictures.resize_ms + out.pictures.tower_ms;
  return out;
}

LmInfo replayed(const LmInfo& info) {
  LmInfo out = info;
  out.rule = {.shift = true, .has_mask = true, .has_null = true, .mask = ReplayIds::kMask, .null_token = ReplayIds::kNull};
  return out;
}

DecodeOptions options_for(Visibility visibility) {
  DecodeOptions o;
  o.visibility = visibility;
  o.forced = true;
  return o;
}

Result<RecordedForm> answer_of(std::string_view preset) {
  return preset.starts_with("fields") ? drive_cot_answer() : fast_ddrive_answer();
}
Visibility law_of(std::string_view preset) { return preset.starts_with("fields") ? Visibility::kGraph : Visibility::kChain; }

/// Odds of a draft at which scaffold-spec makes its answer in tokens / per_pass passes, the prefill's included; by halving.
Result<float> odds_for(double per_pass) {
  SLIP_TRY(const RecordedForm answer, fast_ddrive_answer());
  LmInfo info = replayed({.name = "replay", .vocab = ReplayIds::kAll, .hidden_size = 1, .slots = 4096});
  Prompt prompt;
  prompt.inputs.emplace_back(TokenId{ReplayIds::kWords});
  prompt.positions.push_back(Position::text(0));
  prompt.next_position = 1;
  float low = 0, high = 1;
  for (int i = 0; i < 12; ++i) {
    const float odds = (low + high) / 2;
    double forwards = 0, tokens = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Recording recording = record(answer, odds);
      recording.first_position = 1;
      recording.seed = seed;
      ReplayLm lm(nullptr, info, std::move(recording));
      SLIP_TRY(const Decoded d, decode(lm, prompt, &answer.form, preset("scaffold-spec"), options_for(Visibility::kChain),
                                       {.cancel = CancelToken::of_process()}));
      forwards += static_cast<double>(d.statistics.forwards);
      tokens += static_cast<double>(d.statistics.tokens);
    }
    (tokens / forwards < per_pass ? low : high) = odds;
  }
  return (low + high) / 2;
}

/// How drafts hold: at even odds, or as was seen.
struct Odds {
  float even = 0;
  std::optional<RecordedAcceptance> seen;
};

/// Before a model is loaded; of `--acceptance` still without what passes cost.
Result<Odds> odds_of(const BenchAnswerOptions& o) {
  Odds out;
  if (o.acceptance.empty()) {
    SLIP_TRY(out.even, odds_for(o.per_pass));
  } else {
    SLIP_TRY(out.seen, recorded_acceptance(o.acceptance));
  }
  return out;
}

/// `--acceptance`: what passes cost is measured, since `auto` goes by it.
Status measure_passes(Model& model, int32_t prompt_rows, Odds& odds) {
  if (!odds.seen) return {};
  SLIP_TRY(CostTable costs, measure_costs(model.lm(), {.visible = prompt_rows, .cancel = CancelToken::of_process()}));
  odds.seen->model.pass = std::move(costs);
  return {};
}

/// Five waypoints, fitted: what the engine does with an answer once its numbers are read.
Result<double> plan_ms() {
  const auto start = Clock::now();
  std::vector<Waypoint> waypoints;
  for (size_t i = 0; i < 5; ++i) waypoints.push_back({static_cast<float>(i) * 4, static_cast<float>(i % 3) * 0.1F});
  SLIP_TRY(const FitMap map, FitMap::make({}));
  SLIP_TRY([[maybe_unused]] const RolloutFit fit,
           average_rollouts(map, std::vector<std::vector<Waypoint>>{waypoints}, Waypoint{4, 0}));
  return ms_since(start);
}

struct Outcome {
  Stages ms;
  Statistics statistics;
  std::string chosen, why;         // by auto
  std::optional<double> first_ms;  // of the first answer by this decoder, on a device
  int64_t passes_run = 0, passes = 0;
  bool as_recorded = false;
};

/// The frame before: its prompt lies in the arena, and with a calibration its answer is there to draft from.
struct EarlierFrame {
  PrefixCache memory;
  PreviousAnswer answer;
};
Status run_earlier(ReplayLm& lm, const Asked& asked, EarlierFrame& frame) {
  CausalRows rows;
  SLIP_TRY_(rows.run(lm, asked.earlier, 0, static_cast<int>(asked.earlier.inputs.size()), 0));
  frame.memory.assign(asked.earlier, lm.info().hidden_size, nullptr);
  frame.memory.ran(lm);
  lm.clear_log();
  return {};
}

/// One answer on its way: the recorded form, a model that says it, and what its decoder is lent.
struct Replayed {
  RecordedForm answer;
  std::unique_ptr<StandInLm> stand_in;  // with a calibration
  std::unique_ptr<ReplayLm> lm;
  DraftLengthTracker tracker;
  EarlierFrame earlier;
  Method method;
  DecodeOptions options;
  DecodeContext context{.cancel = CancelToken::of_process()};
};

Status set_up(const std::string& preset, Model& model, const Asked& asked, const BenchAnswerOptions& o, const Odds& odds,
              Replayed& r, Outcome& out) {
  constexpr uint64_t kSeed = 1;
  const auto form_start = Clock::now();
  if (odds.seen) {
    r.answer = odds.seen->answer;
  } else {
    SLIP_TRY(r.answer, answer_of(preset));
  }
  out.ms.form = ms_since(form_start);
  const LmInfo info = replayed(model.lm().info());
  Recording recording = record(r.answer, odds.even);
  recording.first_position = asked.prompt.next_position;
  // ar and scaffold-ar run hundreds of passes of one row that differ by a few keys: every n-th stands for its neighbours.
  r.lm = std::make_unique<ReplayLm>(&model.lm(), info, std::move(recording), o.every);
  r.options = options_for(odds.seen ? odds.seen->visibility : law_of(preset));
  if (o.reuse) {
    SLIP_TRY_(run_earlier(*r.lm, asked, r.earlier));
    r.options.reuse_prompt = true;
    r.context.prefix_cache = &r.earlier.memory;
  }
  if (!odds.seen) {
    SLIP_TRY(r.method, method_of(preset));
    return {};
  }
  const RecordedAcceptance& seen = *odds.seen;
  StandInAnswer says = StandInAnswer::of_form(r.answer.form, r.answer.contents, seen.visibility == Visibility::kChain);
  PhiloxStream random(kSeed, 0);
  if (o.reuse) r.earlier.answer = earlier_of(&r.answer.form, r.answer.contents, says, ForecastSettings{}.persistence, random);
  r.stand_in =
      std::make_unique<StandInLm>(info, StandInOdds{.survival = &seen.model.survival}, seen.model.pass, asked.prompt.next_position);
  r.stand_in->begin(std::move(says), kSeed);
  r.lm->say_by(*r.stand_in);
  r.context.draft_length_model = &seen.model;
  r.context.draft_length_tracker = &r.tracker;
  r.context.previous = o.reuse ? &r.earlier.answer : nullptr;
  if (preset != kAutomatic) {
    SLIP_TRY(r.method, method_of(preset));
    return {};
  }
  SLIP_TRY(QuickestMethod quickest, quickest_method(seen, info, r.options, static_cast<int32_t>(asked.prompt.inputs.size()),
                                                    o.reuse, CancelToken::of_process()));
  r.method = std::move(quickest.method);
  out.chosen = std::move(quickest.name);
  out.why = std::move(quickest.why);
  return {};
}

/// `clock` counts what runs of the decoding.
Result<Outcome> answer_with(const std::string& preset, Model& model, const Asked& asked, const BenchAnswerOptions& o,
                            const Odds& odds, OperationClock& clock) {
  Outcome out;
  out.ms.admit = asked.admit_ms;
  out.ms.encode = asked.encode_ms;
  Replayed r;
  SLIP_TRY_(set_up(preset, model, asked, o, odds, r, out));
  Decoder decoder(*r.lm, r.method);
  const double spent_before = r.lm->spent_ms();
  clock.start();
  auto answered = [&] {
    const StageScope stage("commit");
    const OperationScope rounds("rounds");
    return decoder.decode(asked.prompt, &r.answer.form, r.options, r.context);
  }();
  clock.stop();
  SLIP_TRY(const Decoded decoded, std::move(answered));
  for (const ReplayPass& p : r.lm->log()) {
    (p.kind == ReplayKind::kPrefill ? out.ms.prefill : p.kind == ReplayKind::kDraft ? out.ms.draft : out.ms.verify) += p.ms;
    out.passes_run += p.ran;
    ++out.passes;
  }
  out.ms.commit = std::max(0.0, decoded.statistics.ms.total - (r.lm->spent_ms() - spent_before));
  SLIP_TRY(out.ms.plan, plan_ms());
  out.statistics = decoded.statistics;
  out.as_recorded = decoded.fields == r.answer.contents;
  return out;
}

json::object json_of(const BenchAnswerOptions& o, Model& model, const std::string& preset, const Asked& asked, const Outcome& out,
                     const MachineState& state, double peak, const Odds& odds, const OperationClock& clock) {
  const Statistics& s = out.statistics;
  const Stages& m = out.ms;
  const bool on_processor = o.device == "cpu";  // these are its own
  return json::object{{"bench", "answer"},
                      {"model", o.model},
                      {"type", word_of_type(model.options().type)},
                      {"preset", preset},
                      {"prompt_rows", asked.prompt.inputs.size()},
                      {"reused_rows", s.reused_rows},
                      {"tokens", s.tokens},
                      {"forwards", s.forwards},
                      {"draft_forwards", s.draft_forwards},
                      {"rows", s.rows},
                      {"tokens_per_forward", static_cast<double>(s.tokens) / static_cast<double>(std::max<int64_t>(1, s.forwards))},
                      {"proposed", s.proposed},
                      {"tested", s.tested},
                      {"accepted", s.accepted},
                      {"odds", odds.seen ? json::value() : json::value(odds.even)},
                      {"acceptance", odds.seen ? json::value(odds.seen->file.string()) : json::value()},
                      {"chosen", out.chosen.empty() ? json::value() : json::value(out.chosen)},
                      {"passes_run", out.passes_run},
                      {"extrapolated", out.passes_run < out.passes},
                      {"ms",
                       {{"admit", m.admit},
                        {"encode", m.encode},
                        {"form", m.form},
                        {"prefill", m.prefill},
                        {"draft", m.draft},
                        {"verify", m.verify},
                        {"commit", m.commit},
                        {"plan", m.plan},
                        {"total", m.total()}}},
                      {"first_ms", out.first_ms ? json::value(*out.first_ms) : json::value()},
                      {"device", o.device},
                      {"read_gbps", on_processor ? json::value(state.read_gbps) : json::value()},
                      {"steady", on_processor ? json::value(state.steady()) : json::value()},
                      {"dot_gops", on_processor ? json::value(peak) : json::value()},
                      {"isa", isa_of(o.device)},
                      {"threads", model.pool().threads()},
                      {"operations", operations_json(clock)}};
}

void print_row(const std::string& preset, const Outcome& out, const MachineState& state) {
  const Stages& m = out.ms;
  const Statistics& s = out.statistics;
  print_text(
      fmt::format("  {:<14} {:>5} {:>6} {:>6} {:>7.2f} {:>7} | {:>7.1f} {:>8.1f} {:>6.2f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.1f} "
                  "{:>6.2f} {:>10.1f}{}{}\n",
                  preset, s.forwards, s.rows, s.tokens, static_cast<double>(s.tokens) / static_cast<double>(s.forwards),
                  s.reused_rows, m.admit, m.encode, m.form, m.prefill, m.draft, m.verify, m.commit, m.plan, m.total(),
                  out.passes_run < out.passes ? fmt::format("  ({} of {} passes run)", out.passes_run, out.passes) : "",
                  state.steady() ? "" : "  unsteady: the bandwidth changed"));
}

/// Those of the kind of answer where none are named.
Status choose_presets(const Odds& odds, BenchAnswerOptions& o) {
  constexpr std::array kEven{preset("ar"), preset("scaffold-ar"), preset("scaffold-spec"), preset("fields-spec")};
  constexpr std::array kChain{preset("auto"), preset("ar"), preset("scaffold-ar"), preset("scaffold-spec")};
  constexpr std::array kGraph{preset("auto"), preset("ar"), preset("fields"), preset("fields-spec")};
  const auto& usual = !odds.seen ? kEven : odds.seen->visibility == Visibility::kGraph ? kGraph : kChain;
  if (o.presets.empty()) o.presets.assign(usual.begin(), usual.end());
  if (!odds.seen && std::find(o.presets.begin(), o.presets.end(), kAutomatic) != o.presets.end())
    return usage_error("--decoders: expected presets of a recorded answer, whose drafts hold by dice, or --acceptance, got auto");
  return {};
}

std::string header(const BenchAnswerOptions& o, const Model& model, const Asked& asked, const Odds& odds) {
  const std::string hold = odds.seen ? fmt::format("as {} says of {}", odds.seen->file.string(), odds.seen->answer.form.name())
                                     : fmt::format("with odds {:.3f} ({:.2f} tokens a pass)", odds.even, o.per_pass);
  return fmt::format(
      "{}, {}: {} prompt rows, drafts hold {}\n\n  {:<14} {:>5} {:>6} {:>6} {:>7} {:>7} | {:>7} {:>8} {:>6} {:>9} {:>9} {:>9} "
      "{:>7} "
      "{:>6} {:>10}  ms\n",
      o.model, word_of_type(model.options().type), asked.prompt.inputs.size(), hold, "preset", "pass", "rows", "tokens", "/pass",
      "reused", "admit", "encode", "form", "prefill", "draft", "verify", "commit", "plan", "total");
}

}  // namespace

Status bench_answer(const BenchAnswerOptions& asked_for) {
  if (has_own_answer(asked_for)) return bench_own_answer(asked_for);
  if (!asked_for.of_own.empty())
    return usage_error(
        "{}: expected a model with a form of its own, whose scene is answered, got {}, whose answer is a recorded one",
        asked_for.of_own, asked_for.model);
  BenchAnswerOptions o = asked_for;
  constexpr int kRoomForAnswer = 1600;
  SLIP_TRY(const DeviceName device, parse_device(o.device));
  SLIP_TRY(Odds odds, odds_of(o));
  SLIP_TRY_(choose_presets(odds, o));
  SLIP_TRY(const std::vector<PictureBytes> pictures, pictures_of(o));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, o.rows + kRoomForAnswer, o.device));
  Model& model = engine->model();
  if (model.lm().info().vocab < ReplayIds::kAll)
    return unsupported("{}: expected a vocabulary of at least {} ids, got {}", o.model, ReplayIds::kAll, model.lm().info().vocab);
  SLIP_TRY(const Asked asked, ask(model, o, pictures));
  SLIP_TRY_(measure_passes(model, static_cast<int32_t>(asked.prompt.inputs.size()), odds));
  StateWatch watch(model.pool());
  const double peak = device.cpu() ? dot_gops(model.options().type, model.pool()) : 0;
  if (!o.json) print_text(header(o, model, asked, odds));
  std::vector<std::unique_ptr<OperationClock>> clocks;
  for (const std::string& preset : o.presets) {
    SLIP_TRY_(check_interrupt());
    OperationClock& clock = *clocks.emplace_back(std::make_unique<OperationClock>());
    // A pass's shape runs as it is the first time and is captured the second, but for those that are captured at load.
    std::optional<double> first_ms;
    for (int before = 0; before < 2 && !device.cpu(); ++before) {
      OperationClock uncounted;
      SLIP_TRY(const Outcome warming, answer_with(preset, model, asked, o, odds, uncounted));
      if (before == 0) first_ms = warming.ms.total();
    }
    SLIP_TRY(Outcome out, answer_with(preset, model, asked, o, odds, clock));
    out.first_ms = first_ms;
    const MachineState state = device.cpu() ? watch.next() : MachineState{};
    if (!out.as_recorded) return check_failed("bench answer: {}: expected the recorded answer, got another", preset);
    if (o.json)
      print_json(json_of(o, model, preset, asked, out, state, peak, odds, clock));
    else
      print_row(preset, out, state);
    if (!o.json && !out.why.empty()) print_text(fmt::format("    auto: {}\n", out.why));
  }
  for (size_t i = 0; !o.json && i < clocks.size(); ++i) {
    print_text(fmt::format("\n{}, passes that ran:\n", o.presets[i]));
    print_operations(*clocks[i]);
  }
  return {};
}

}  // namespace slip::cli
