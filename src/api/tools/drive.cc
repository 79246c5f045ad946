// SPDX-License-Identifier: Apache-2.0
// slipstream::drive: a model, its ablations and baselines in the closed loop, each with the latencies that were asked for.
#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <map>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/engines.h"
#include "api/slots.h"
#include "api/tools/asked.h"
#include "api/tools/inputs.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "base/files/atomic_folder.h"
#include "base/files/line_file.h"
#include "decode/types/usual_preset.h"
#include "drive/ensemble.h"
#include "drive/model_planner.h"
#include "drive/replay.h"
#include "drive/study.h"
#include "kernels/kernels.h"
#include "sim/record.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

constexpr std::string_view kGrey = "grey-images", kShuffled = "shuffled-history", kSteady = "steady-history";

bool is_baseline(std::string_view name) {
  const auto names = drive::baseline_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<std::vector<uint32_t>> families_of(const std::vector<std::string>& wanted) {
  std::vector<uint32_t> out;
  const auto names = sim::family_names();
  const auto add = [&](std::string_view name) -> Status {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) return bad_input("--family: expected one of `slipstream simulate --list-families`, got {}", name);
    out.push_back(static_cast<uint32_t>(at - names.begin()));
    if (std::count(out.begin(), out.end(), out.back()) > 1) return usage_error("--family: expected each once, got {} twice", name);
    return {};
  };
  if (wanted.empty())
    for (const std::string_view name : drive::critical_families()) SLIP_TRY_(add(name));
  for (const std::string& name : wanted) SLIP_TRY_(add(name));
  return out;
}

/// Decoders' names as given; one with parts of its own is called by its preset.
std::vector<slipstream::DecoderChoice> choices_of(const slipstream::DriveOptions& o, const std::string& folder) {
  if (o.decoders.empty()) {
    // What auto takes goes by this machine's clock. Passes that are counted must be the same ones tomorrow.
    slipstream::DecoderChoice c = o.decoder;
    const bool any = c.preset.empty() && c.drafter.empty() && c.schedule.empty() && c.width.empty() && c.verifier.empty() &&
                     o.verifiers.empty() && o.widths.empty();
    if (any) c.preset = usual_preset(true, visibility_of_folder(folder) == Visibility::kGraph, true);
    std::vector<slipstream::DecoderChoice> out;
    for (const std::string& verifier : o.verifiers.empty() ? std::vector{c.verifier} : o.verifiers)
      for (const std::string& width : o.widths.empty() ? std::vector{c.width} : o.widths) {
        out.push_back(c);
        out.back().verifier = verifier, out.back().width = width;
      }
    return out;
  }
  std::vector<slipstream::DecoderChoice> out;
  for (const std::string& preset : o.decoders) {
    slipstream::DecoderChoice c;
    c.preset = preset;
    out.push_back(c);
  }
  return out;
}

/// The engine and the planners that use it.
class Planners {
 public:
  Status load(const std::string& folder, const slipstream::EngineOptions& how,
              const std::vector<slipstream::DecoderChoice>& choices, const slipstream::DriveOptions& o,
              const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
    const bool priced = !o.latency.empty() || !o.measure_latency.empty();
    constexpr int kAnswer = 1024;  // an answer's rows with drafts, of the driving forms
    int slots = how.slots;
    for (const auto& c : choices) slots = std::max(slots, slots_for(c, folder) + (how.slots > 0 ? 0 : (o.rollouts - 1) * kAnswer));
    drive::DrawnPlans drawn{.rollouts = o.rollouts, .section_temperatures = {}, .trajectory_head = o.trajectory_head};
    for (const auto& [section, temperature] : o.section_temperatures)
      drawn.section_temperatures.emplace_back(section, static_cast<float>(temperature));
    const EngineOptions options{
        .dtype = how.dtype, .threads = how.threads, .slots = slots, .device = how.device, .kv_type = how.kv_type};
    SLIP_TRY(engine_, Engine::load(folder, options, load_progress(progress, cancel)));
    if (o.rollouts > 1 && engine_->task().form == TaskForm::kAction)
      return unsupported("--rollouts: expected a model whose answers have a trajectory to average, got one of actions");
    for (const auto& c : choices) {
      SLIP_TRY(Method method, method_from(c, {}, engine_.get(), true));
      if (method.automatic && priced)
        return usage_error(
            "drive: expected a decoder whose passes are the same ones in every run, got auto, which goes by the clock");
      if (!o.latency.empty() && method.draft_length.kind == DraftLengthSpec::Kind::kMeasured)
        return usage_error(
            "drive: --latency: expected a decoder whose passes are the same ones in every run, got --width measured, which goes by "
            "the clock");
      const auto planner = [&](drive::Ablation ablation) {
        return std::make_unique<drive::ModelPlanner>(*engine_, method, ablation, drawn);
      };
      names_.push_back(name_of(c, method, o));
      planners_[names_.back()] = planner(drive::Ablation::kNone);
      if (names_.size() > 1) continue;
      planners_[std::string(kGrey)] = planner(drive::Ablation::kGreyImages);
      planners_[std::string(kShuffled)] = planner(drive::Ablation::kShuffledHistory);
      planners_[std::string(kSteady)] = planner(drive::Ablation::kSteadyHistory);
    }
    if (o.ensemble_s > 0)
      for (const auto& [name, planner] : planners_)
        ensembles_[name] = std::make_unique<drive::EnsemblePlanner>(*planner, o.ensemble_s, o.careful);
    return {};
  }
  const std::vector<std::string>& names() const { return names_; }
  Engine& engine() { return *engine_; }
  drive::ModelPlanner* model(const std::string& name) { return static_cast<drive::ModelPlanner*>(planners_.at(name).get()); }
  Result<drive::Planner*> of(const drive::Entrant& e) {
    if (const auto at = ensembles_.find(e.driver); at != ensembles_.end()) return at->second.get();
    auto& planner = planners_[e.driver];
    if (!planner) planner = drive::baseline(e.driver);
    if (!planner) return usage_error("drive: expected a decoder or a baseline, got {}", e.driver);
    return planner.get();
  }

 private:
  /// "scaffold-spec", with what differs from the preset: "draft-model model:pair-draft relaxed:2". The name is in files of lines and of
  /// latencies, so it keeps no folder of this machine: a drafter is known by its own folder's name.
  static std::string name_of(const slipstream::DecoderChoice& c, const Method& method, const slipstream::DriveOptions& o) {
    std::string out = method.preset;
    for (const std::string* part : {&c.schedule, &c.drafter, &c.verifier, &c.width})
      if (!part->empty()) out += " " + (part == &c.drafter ? without_folders(*part) : *part);
    out += head_words(o.trajectory_head);
    if (o.rollouts > 1) out += fmt::format(" rollouts:{}", o.rollouts);
    for (const auto& [section, temperature] : o.section_temperatures) out += fmt::format(" {}={}", section, temperature);
    return out;
  }
  /// "model:a/b/c/" -> "model:c".
  static std::string without_folders(std::string_view drafter) {
    while (drafter.ends_with('/')) drafter.remove_suffix(1);
    const size_t colon = drafter.find(':'), slash = drafter.rfind('/');
    if (colon == std::string_view::npos || slash == std::string_view::npos || slash < colon) return std::string(drafter);
    return std::string(drafter.substr(0, colon + 1)) + std::string(drafter.substr(slash + 1));
  }
  std::unique_ptr<Engine> engine_;
  std::vector<std::string> names_;
  std::map<std::string, std::unique_ptr<drive::Planner>> planners_;
  std::map<std::string, std::unique_ptr<drive::Planner>> ensembles_;  // over the model's, which stay as they are
};

/// Everybody with every latency: priced by the file, or the same number of milliseconds for all.
Result<std::vector<drive::Entrant>> entrants_of(const slipstream::DriveOptions& o, const std::vector<std::string>& decoders,
                                                drive::Mode mode) {
  std::vector<drive::Entrant> out;
  std::optional<drive::LatencyFile> file;
  if (!o.latency.empty()) {
    SLIP_TRY(file, drive::read_latency(o.latency));
  }
  const auto delayed = [&](const std::string& driver) {
    for (const int64_t ms : o.delays_ms) out.push_back({driver, fmt::format("{} ms", ms), mode, {{}, ms}});
  };
  for (const std::string& name : decoders) {
    if (file) {
      SLIP_TRY(const drive::Costs costs, file->of(name, o.latency));
      out.push_back({name, "priced", mode, {costs, 0}});
    }
    delayed(name);
    if (!file && o.delays_ms.empty()) out.push_back({name, "", drive::Mode::kSync, {}});
  }
  for (const std::string& name : o.baselines) {
    const bool of_model = name == kGrey || name == kShuffled || name == kSteady;
    if (of_model && decoders.empty()) return usage_error("--baselines: {}: expected a model beside it, got none", name);
    if (!of_model && !is_baseline(name))
      return usage_error("--baselines: expected {}, {}, {} or {}, got {}", fmt::join(drive::baseline_names(), ", "), kGrey,
                         kShuffled, kSteady, name);
    if (file && of_model) {
      SLIP_TRY(const drive::Costs costs, file->of(decoders.front(), o.latency));
      out.push_back({name, "priced", mode, {costs, 0}});
    }
    delayed(name);
    if (o.delays_ms.empty() && !(file && of_model)) out.push_back({name, "", drive::Mode::kSync, {}});
  }
  if (o.ensemble_s > 0 && decoders.empty()) return usage_error("--ensemble: expected a model whose plans are averaged, got none");
  for (drive::Entrant& e : out)
    if (o.ensemble_s > 0 && !is_baseline(e.driver))
      e.followed = fmt::format("temporal-ensemble:{}{}", o.ensemble_s, o.careful ? ",careful" : "");
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (out[i].label() == out[j].label()) return usage_error("drive: expected each driver once, got {} twice", out[i].label());
  if (out.empty()) return usage_error("drive: expected a model or --baselines, got neither");
  return out;
}

/// Lines that are there are read; new ones are appended whole, one after another. A disk that fills costs the lines, not the drives.
class DriveLines {
 public:
  /// `asked`: of all drivers, `of_model` of a model's; `decoder`: what the model's ablations run.
  static Result<DriveLines> open(const std::string& file, json::object asked, json::object of_model, const std::string& decoder,
                                 drive::Study& study, std::string& remarks) {
    DriveLines out;
    out.asked_ = std::move(asked), out.of_model_ = std::move(of_model);
    for (const auto& [key, value] : out.asked_) out.of_model_[key] = value;
    out.of_ablation_ = out.of_model_;
    out.of_ablation_["decoder"] = decoder;
    if (file.empty()) return out;
    int64_t known = 0;
    SLIP_TRY(LineFile lines, LineFile::open(file, R"({"entrant":")", [&](std::string_view line, int64_t number) -> Status {
               const std::string where = fmt::format("{}, line {}", file, number);
               SLIP_TRY(const json::value v, parse_json(line, where));
               if (!v.is_object()) return bad_input("{}: expected an object, got another type", where);
               ++known;
               SLIP_TRY_(study.take(v.get_object(), where));
               return check_asked(v.get_object(), out.asked_of(v.get_object()), where);
             }));
    if (known > 0) remarks += fmt::format("{}: {} drives are there already\n", file, known);
    out.file_.emplace(std::move(lines));
    return out;
  }
  void add(json::object line) {
    line["asked"] = asked_of(line);
    if (file_ && status_) status_ = file_->add(line_of(line));
  }
  Status finish() { return status_; }

 private:
  const json::object& asked_of(const json::object& line) const {
    const std::string model = string_or(line, "model", "", "line").value_or(""),
                      entrant = string_or(line, "entrant", "", "line").value_or("");
    for (const std::string_view ablation : {kGrey, kShuffled, kSteady})
      if (entrant.starts_with(ablation)) return of_ablation_;
    return model.empty() ? asked_ : of_model_;
  }

  json::object asked_, of_model_, of_ablation_;
  std::optional<LineFile> file_;
  Status status_;
};

/// One answer at the start of each scene, for every decoder, and passes by their rows, which tell what rows take beside passes.
Status measure_latency(const slipstream::DriveOptions& o, const std::string& folder, Planners& planners,
                       const std::vector<uint32_t>& families, const slipstream::Progress& progress,
                       const slipstream::CancelToken& cancel, json::object& report) {
  drive::LatencyFile file{to_valid_utf8(std::filesystem::path(folder).filename().string()),
                          isa_choice().reason,
                          "measured by slipstream drive --measure-latency",
                          {}};
  constexpr int kWarm = 2, kKeys = 512, kMostRows = 64;
  int64_t done = 0;
  std::vector<std::pair<std::string, std::vector<drive::Measured>>> measured;
  const auto total = static_cast<int64_t>(planners.names().size() * families.size());
  for (const std::string& name : planners.names()) {
    std::vector<drive::Measured> answers;
    drive::ModelPlanner* planner = planners.model(name);
    for (const uint32_t family : families) {
      SLIP_TRY(drive::World world, drive::World::make(o.first_seed, family, true));
      drive::Motion ego{0, 0, 0, world.scene().v0};
      world.decide(0, ego);
      drive::Situation s{world, 0, 0, ego, ego, 0, 0, {}, world.intent(ego)};
      for (size_t i = 0; i < 16; ++i) s.history[i] = world.history(-0.25 * static_cast<double>(15 - i));
      for (int i = 0; i < (answers.empty() ? kWarm + 1 : 1); ++i) {
        SLIP_TRY_(cancel.check("measure", done, "answers"));
        SLIP_TRY(const drive::Planned planned, planner->plan(s, cancel));
      }
      const Answer& a = planner->answer();
      const Statistics& n = a.decoded.statistics;
      const bool drafter = n.drafter_forwards > 0;  // else drafts are passes of the model itself
      answers.push_back({planner->counts(), a.stages.encode_ms, n.ms.prefill, n.ms.verify + (drafter ? 0 : n.ms.draft),
                         a.stages.form_ms + a.stages.plan_ms, (drafter ? n.ms.draft : 0) + a.stages.head_ms});
      if (progress) progress("measuring", ++done, total);
    }
    measured.emplace_back(name, std::move(answers));
  }
  SLIP_TRY(const CostTable passes, measure_costs(planners.engine().model().lm(),
                                                 {.visible = kKeys, .most_rows = kMostRows, .budget_ms = 400, .cancel = cancel}));
  for (const auto& [name, answers] : measured)
    file.decoders.emplace_back(name, drive::fitted_costs(answers, drive::row_in_passes(passes)));
  report["latency"] = o.measure_latency;
  return drive::write_latency(file, o.measure_latency);
}

/// Tells of every plan: how many a drive takes goes by how long it lasts.
class ToldPlanner : public drive::Planner {
 public:
  ToldPlanner(drive::Planner& planner, const slipstream::Progress& progress) : planner_(planner), progress_(progress) {}
  Result<drive::Planned> plan(const drive::Situation& s, const CancelToken& cancel) override {
    if (progress_) progress_("driving", ++plans_, 0);
    return planner_.plan(s, cancel);
  }

 private:
  drive::Planner& planner_;
  const slipstream::Progress& progress_;
  int64_t plans_ = 0;
};

bool is_recording(const std::filesystem::path& video) { return video.extension() == ".mcap"; }

/// A recording is a file, other videos are new folders.
Status check_video_target(const std::filesystem::path& video) {
  return video.empty() || is_recording(video) ? check_writable(video) : check_new_folder(video);
}

/// One drive to look at.
Result<slipstream::Report> show_one(const slipstream::DriveOptions& o, Planners& planners, const std::vector<uint32_t>& families,
                                    const std::vector<drive::Entrant>& entrants, const slipstream::Progress& progress,
                                    const slipstream::CancelToken& cancel) {
  if (families.size() != 1 || o.count != 1 || entrants.size() != 1)
    return usage_error("--replay, --video, --picture: expected one driver in one scene (--family, --count 1), got {} in {}",
                       entrants.size(), static_cast<int64_t>(families.size()) * o.count);
  if (!o.out.empty() || !o.csv.empty() || !o.figure.empty())
    return usage_error(
        "--replay, --video, --picture: expected no --out, --csv or --figure beside them, which are of many drives, got one");
  drive::EpisodeSettings settings{
      .seed = o.first_seed, .family = families.front(), .mode = drive::Mode::kSync, .delay = {}, .reactive = o.reactive};
  settings.record = true;
  const auto expert = drive::baseline("expert");
  SLIP_TRY(const drive::Episode best, drive::drive_episode(settings, *expert, cancel));
  settings.mode = entrants.front().mode;
  settings.delay = entrants.front().delay;
  SLIP_TRY(drive::Planner* const planner, planners.of(entrants.front()));
  ToldPlanner told(*planner, progress);
  SLIP_TRY(const drive::Episode e, drive::drive_episode(settings, told, cancel));
  if (!o.replay.empty()) {
    SLIP_TRY(const json::object replay, drive::replay_of(e, settings));
    SLIP_TRY_(write_file(o.replay, line_of(replay) + "\n"));
  }
  const auto drawn = [&](int64_t done, int64_t total) {
    if (progress) progress("drawing", done, total);
  };
  if (is_recording(o.video))
    SLIP_TRY_(drive::write_mcap(e, settings, o.video, cancel, drawn));
  else if (!o.video.empty())
    SLIP_TRY_(drive::write_frames(e, o.video, cancel, drawn));
  const drive::Drove drove{families.front(), o.first_seed, 0, drive::score_episode(e, best), e.calls, e.invalid};
  if (!o.picture.empty()) {
    const std::string title = fmt::format("{} {}: {}, score {:.3f}", sim::family_names()[settings.family], settings.seed,
                                          entrants.front().label(), drove.score.score);
    SLIP_TRY(const MapView view, drive::view_of(e, best, settings, title));
    SLIP_TRY_(draw_map(view, o.picture));
  }
  const json::object result = drive::to_json(drove, entrants.front());
  return report_of(result, pretty(result));
}

/// What is a model's is refused where there is none.
Status check_without_model(const slipstream::EngineOptions& how, const slipstream::DriveOptions& o) {
  const slipstream::DecoderChoice& d = o.decoder;
  const slipstream::EngineOptions usual;
  for (const auto& [option, given] : {std::pair{"--decoder", !d.preset.empty()},
                                      {"--schedule", !d.schedule.empty()},
                                      {"--drafter", !d.drafter.empty()},
                                      {"--verifier", !d.verifier.empty()},
                                      {"--width", !d.width.empty()},
                                      {"--verifiers", !o.verifiers.empty()},
                                      {"--widths", !o.widths.empty()},
                                      {"--trajectory-head", !o.trajectory_head.empty()},
                                      {"--section-temperature", !o.section_temperatures.empty()},
                                      {"--latency", !o.latency.empty()},
                                      {"--dtype", how.dtype != usual.dtype},
                                      {"--kv", how.kv_type != usual.kv_type},
                                      {"--device", how.device != usual.device}})
    if (given) return usage_error("drive: {}: expected --model beside it, got none", option);
  return {};
}

/// Nothing that is read is written: latencies, the model's folder, what decoders and heads are read from.
Status check_sources_kept(const std::string& folder, const slipstream::DriveOptions& o,
                          const std::vector<slipstream::DecoderChoice>& choices, FilesByOption outputs) {
  outputs.emplace_back("--measure-latency", o.measure_latency);
  FilesByOption inputs = {{"--model", folder}, {"--latency", o.latency}, {"--trajectory-head", o.trajectory_head}};
  for (const slipstream::DecoderChoice& c : choices)
    for (auto& named : files_of_choice(c)) inputs.push_back(std::move(named));
  return check_inputs_kept(inputs, outputs);
}

Result<slipstream::Report> drive_all(const std::string& folder, const slipstream::EngineOptions& how,
                                     const slipstream::DriveOptions& o, const slipstream::Progress& progress,
                                     const slipstream::CancelToken& cancel) {
  SLIP_TRY(const drive::Mode mode, drive::mode_named(o.mode));
  for (const auto& [option, file] : {std::pair{"--figure", &o.figure}, {"--picture", &o.picture}}) {
    const std::string ending = std::filesystem::path(*file).extension().string();
    if (!file->empty() && ending != ".png" && ending != ".svg")
      return usage_error("{}: expected a name that ends in .png or .svg, got {}", option, *file);
  }
  SLIP_TRY(const std::vector<uint32_t> families, families_of(o.families));
  if (!(o.ensemble_s >= 0 && o.ensemble_s <= 10)) return usage_error("--ensemble: expected 0 to 10 seconds, got {}", o.ensemble_s);
  if (o.careful && o.ensemble_s == 0) return usage_error("--careful: expected --ensemble beside it, got none");
  if (o.rollouts < 1 || o.rollouts > 64) return usage_error("--rollouts: expected 1 to 64, got {}", o.rollouts);
  if (o.rollouts > 1 && o.section_temperatures.empty())
    return usage_error(
        "--rollouts: expected --section-temperature beside it (trajectory=0.7), got none: greedy answers are all the same");
  const std::vector<slipstream::DecoderChoice> choices =
      folder.empty() ? std::vector<slipstream::DecoderChoice>{} : choices_of(o, folder);
  for (const auto& c : choices) SLIP_TRY_(check_words(c));
  if (folder.empty() && (!o.decoders.empty() || !o.measure_latency.empty()))
    return usage_error("drive: expected --model with --decoders and --measure-latency, got none");
  FilesByOption outputs = {{"--out", o.out},       {"--csv", o.csv},     {"--figure", o.figure},
                           {"--replay", o.replay}, {"--video", o.video}, {"--picture", o.picture}};
  SLIP_TRY_(check_outputs(outputs));
  SLIP_TRY_(check_sources_kept(folder, o, choices, outputs));
  if (!o.measure_latency.empty()) {  // nobody drives
    outputs.emplace_back("--delays", o.delays_ms.empty() ? "" : "some");
    outputs.emplace_back("--baselines", o.baselines.empty() ? "" : "some");
    for (const auto& [option, given] : outputs)
      if (!given.empty()) return usage_error("--measure-latency: expected no {} beside it, since nobody drives, got it", option);
  }
  SLIP_TRY_(check_seeds(o.first_seed, o.count));
  if (folder.empty()) SLIP_TRY_(check_without_model(how, o));
  for (const std::string* file : {&o.csv, &o.replay, &o.measure_latency}) SLIP_TRY_(check_writable(*file));
  SLIP_TRY_(check_video_target(o.video));
  for (const std::string* file : {&o.figure, &o.picture}) SLIP_TRY_(check_figure_target(*file));
  Planners planners;
  const bool late = !o.latency.empty() || !o.delays_ms.empty();
  if (mode != drive::Mode::kSync && mode != drive::Mode::kAsync && !late)
    return usage_error("--mode {}: expected --latency or --delays beside it, got neither", o.mode);
  if (mode == drive::Mode::kSync && late)
    return usage_error("--mode sync: expected no --latency or --delays beside it, since its world waits for answers, got {}",
                       o.latency.empty() ? "--delays" : "--latency");
  if (!folder.empty()) SLIP_TRY_(planners.load(folder, how, choices, o, progress, cancel));
  json::object result;
  if (!o.measure_latency.empty()) {
    SLIP_TRY_(measure_latency(o, folder, planners, families, progress, cancel, result));
    return report_of(result, fmt::format("{} written\n", o.measure_latency));
  }
  SLIP_TRY(std::vector<drive::Entrant> entrants, entrants_of(o, planners.names(), mode));
  for (drive::Entrant& e : entrants)
    if (!is_baseline(e.driver)) e.model = folder;
  if (!o.replay.empty() || !o.video.empty() || !o.picture.empty())
    return show_one(o, planners, families, entrants, progress, cancel);
  drive::Study study({.families = families, .first_seed = o.first_seed, .seeds = o.count, .reactive = o.reactive},
                     std::move(entrants));
  std::string remarks;
  SLIP_TRY(DriveLines lines,
           DriveLines::open(o.out, {{"reactive", o.reactive}}, asked_of_model(folder, how, choices, o.trajectory_head),
                            planners.names().empty() ? "" : planners.names().front(), study, remarks));
  int64_t done = 0;
  SLIP_TRY_(study.run([&](const drive::Entrant& e) { return planners.of(e); },
                      [&](const drive::Drove& d) {
                        lines.add(drive::to_json(d, study.entrants()[d.entrant]));
                        if (progress) progress("driving", ++done, study.drives());
                      },
                      cancel));
  result = study.to_json();
  result["mode"] = drive::name_of(late ? mode : drive::Mode::kSync);  // without a latency nobody is late
  result["model"] = folder;
  slipstream::Report report = report_of(result, study.table(), lines.finish());
  // A file that cannot be written costs the file, not the numbers.
  if (report.outcome && !o.csv.empty()) report.outcome = write_file(o.csv, study.csv());
  if (report.outcome && !o.figure.empty()) report.outcome = draw_chart(study.chart(), o.figure);
  report.remarks = std::move(remarks);
  return report;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

std::vector<std::string> drive_baselines() {
  std::vector<std::string> out;
  for (const std::string_view name : slip::drive::baseline_names()) out.emplace_back(name);
  out.emplace_back(slip::api::kGrey);
  out.emplace_back(slip::api::kShuffled);
  out.emplace_back(slip::api::kSteady);
  return out;
}

Result<Report> drive(const std::string& folder, const EngineOptions& engine, const DriveOptions& options, const Progress& progress,
                     const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::drive_all(folder, engine, options, progress, cancel); });
}

}  // namespace slipstream
