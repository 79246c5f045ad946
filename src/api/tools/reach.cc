// SPDX-License-Identifier: Apache-2.0
// slipstream::reach: several decoders reach for the same objects.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/slots.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "drive/reach/reach_study.h"
#include "kernels/kernels.h"
#include "slipstream/engine.h"
#include "task/arm_prompt.h"

namespace slip::api {

namespace {

constexpr int64_t kMostDrafts = sim::kArmNumbers, kMostRadius = 255;
constexpr std::string_view kPlain = "scaffold-ar";  // one number a pass; `ar` pays for the form's own token as well

Status check_numbers(const std::vector<int64_t>& numbers, int64_t least, int64_t most, std::string_view option) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < least || numbers[i] > most)
      return usage_error("{}: expected {} to {}, got {}", option, least, most, numbers[i]);
    if (std::count(numbers.begin(), numbers.end(), numbers[i]) > 1)
      return usage_error("{}: expected each once, got {} twice", option, numbers[i]);
  }
  return {};
}

std::vector<std::string> decoders_of(const slipstream::ReachOptions& o) {
  if (!o.decoders.empty()) return o.decoders;
  return {o.draft_model.empty() ? "scaffold-spec" : "draft-model"};
}

/// The decoder's words with so many drafts and this radius.
slipstream::DecoderChoice choice_of(const slipstream::ReachOptions& o, const std::string& preset, int64_t drafts, int64_t radius) {
  slipstream::DecoderChoice c;
  c.preset = preset;
  const bool second = preset == "draft-model";
  if (second) c.drafter = "model:" + o.draft_model;
  // Of a block that the model drafts itself the first row is the token that is known.
  if (drafts > 0) c.width = fmt::format("fixed:{}", second ? drafts : drafts + 1);
  if (radius > 0) c.verifier = fmt::format("relaxed:{}", radius);
  return c;
}

Status check_options(const std::string& folder, const slipstream::ReachOptions& o) {
  if (folder.empty()) return usage_error("--model: expected a model of an arm, got none");
  SLIP_TRY_(check_numbers(o.drafts, 1, kMostDrafts, "--drafts"));
  SLIP_TRY_(check_numbers(o.radii, 0, kMostRadius, "--radius"));
  if (o.episodes < 1) return usage_error("--episodes: expected at least 1, got {}", o.episodes);
  if (!o.replay.empty() && (o.episodes != 1 || !o.csv.empty()))
    return usage_error("--replay: expected one episode (--episodes 1) without --csv, got {}",
                       o.episodes != 1 ? fmt::format("{} episodes", o.episodes) : std::string("--csv"));
  for (const std::string* file : {&o.csv, &o.replay}) SLIP_TRY_(check_writable(*file));
  const std::vector<std::string> decoders = decoders_of(o);
  const bool second = std::find(decoders.begin(), decoders.end(), "draft-model") != decoders.end();
  for (const std::string& d : decoders) {
    if (d != "draft-model" || !o.draft_model.empty()) SLIP_TRY_(check_words(choice_of(o, d, 0, 0)));
    if (d == "auto") return usage_error("--decoders: expected decoders whose passes are the same ones in every run, got auto");
    if (std::count(decoders.begin(), decoders.end(), d) > 1) return usage_error("--decoders: expected each once, got {} twice", d);
  }
  if (second != !o.draft_model.empty())
    return usage_error("--draft-model: expected it with decoder draft-model, got {}", second ? "none" : "it without");
  return {};
}

/// One number a pass first; then every decoder with all numbers of drafts and all radii, where it drafts.
Result<std::vector<drive::Reached>> reachers_of(const slipstream::ReachOptions& o, Engine& engine) {
  std::vector<drive::Reached> out;
  const auto add = [&](const std::string& preset, int64_t drafts, int64_t radius) -> Status {
    drive::Reacher who{.decoder = preset,
                       .drafts = static_cast<int32_t>(drafts),
                       .radius = static_cast<int32_t>(radius),
                       .second_model = preset == "draft-model",
                       .method = {}};
    SLIP_TRY(who.method, method_from(choice_of(o, preset, drafts, radius), {}, &engine, true));
    out.push_back({std::move(who), {}, {}, {}});
    return {};
  };
  SLIP_TRY_(add(std::string(kPlain), 0, 0));
  const std::vector<int64_t> drafts = o.drafts.empty() ? std::vector<int64_t>{4} : o.drafts,
                             radii = o.radii.empty() ? std::vector<int64_t>{0} : o.radii;
  bool drafts_at_all = false;
  for (const std::string& preset : decoders_of(o)) {
    if (preset == kPlain) continue;
    SLIP_TRY(const Method method, method_from(choice_of(o, preset, 0, 0), {}, &engine, true));
    if (method.schedule == Schedule::kSections || !method.drafts()) {  // sections commit in blocks of their own
      SLIP_TRY_(add(preset, 0, 0));
      continue;
    }
    drafts_at_all = true;
    for (const int64_t d : drafts)
      for (const int64_t r : radii) SLIP_TRY_(add(preset, d, r));
  }
  if (!drafts_at_all && !(o.drafts.empty() && o.radii.empty()))
    return usage_error("{}: expected a decoder that drafts, got {}", o.drafts.empty() ? "--radius" : "--drafts",
                       fmt::join(decoders_of(o), ", "));
  return out;
}

/// The first answers of a reacher touch memory that the next ones find.
Status warm_up(Engine& engine, const std::vector<drive::Reached>& all, uint64_t seed, const slipstream::Progress& progress,
               const CancelToken& cancel) {
  int64_t done = 0;
  const auto total = 2 * static_cast<int64_t>(all.size());
  for (const drive::Reached& r : all) {
    Request request;
    request.prompt = arm_prompt(sim::Reach(seed).sight());
    request.method = r.who.method;
    request.context.cancel = cancel;
    for (int i = 0; i < 2; ++i) {
      SLIP_TRY_(engine.run(request));
      if (progress) progress("warming up", ++done, total);
    }
  }
  return {};
}

Result<slipstream::Report> reach_all(const std::string& folder, const slipstream::EngineOptions& how,
                                     const slipstream::ReachOptions& o, const slipstream::Progress& progress,
                                     const slipstream::CancelToken& cancel) {
  SLIP_TRY_(check_options(folder, o));
  int slots = how.slots;
  for (const std::string& d : decoders_of(o)) slots = std::max(slots, slots_for(choice_of(o, d, 0, 0), folder));
  const EngineOptions options{
      .dtype = how.dtype, .threads = how.threads, .slots = slots, .device = how.device, .kv_type = how.kv_type};
  SLIP_TRY(const std::unique_ptr<Engine> engine, Engine::load(folder, options, load_progress(progress, cancel)));
  SLIP_TRY_(check_arm_model(engine->task(), folder));
  SLIP_TRY(std::vector<drive::Reached> all, reachers_of(o, *engine));
  if (!o.replay.empty()) {
    if (all.size() > 2)
      return usage_error("--replay: expected one decoder with one number of drafts and one radius, got {} of them", all.size() - 1);
    const auto told = [&](int64_t steps) {  // how many there will be, nobody knows
      if (progress) progress("reaching", steps, 0);
    };
    SLIP_TRY(const drive::ReachEpisode e, drive::reach_episode(*engine, all.back().who, o.first_seed, cancel, told));
    const json::object replay = drive::replay_json(e, all.back().who, o.first_seed);
    SLIP_TRY_(write_file(o.replay, line_of(replay) + "\n"));
    return report_of(replay, fmt::format("{} written: {} after {} steps\n", o.replay, sim::words(e.end), e.moments.size()));
  }
  SLIP_TRY_(warm_up(*engine, all, o.first_seed, progress, cancel));
  int64_t done = 0;
  const int64_t total = o.episodes * static_cast<int64_t>(all.size());
  for (int64_t i = 0; i < o.episodes; ++i)
    for (drive::Reached& r : all) {  // in turn, so that a busy minute is everybody's
      SLIP_TRY(const drive::ReachEpisode e, drive::reach_episode(*engine, r.who, o.first_seed + static_cast<uint64_t>(i), cancel));
      r.add(e);
      if (progress) progress("reaching", ++done, total);
    }
  json::object result = drive::reach_json(all);
  result["model"] = folder;
  if (!o.draft_model.empty()) result["draft_model"] = o.draft_model;
  result["first_seed"] = o.first_seed;
  result["isa"] = isa_choice().reason;
  const Status written = o.csv.empty() ? Status() : write_file(o.csv, drive::reach_csv(result));
  return report_of(result, drive::reach_table(result), written);
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> reach(const std::string& folder, const EngineOptions& engine, const ReachOptions& options, const Progress& progress,
                     const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::reach_all(folder, engine, options, progress, cancel); });
}

}  // namespace slipstream
