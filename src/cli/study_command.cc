// SPDX-License-Identifier: Apache-2.0
// `study`: trains arms by slipstream-train, evaluates them through the library, prints the table. What is done stays on disk: a study that was
// stopped goes on where it was, an arm in the middle of its training from its last checkpoint.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/standard_streams.h"
#include "cli/bars.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/study.h"

namespace slip::cli {

namespace fs = std::filesystem;

namespace {

/// The newest step-N of a training folder, and N; N = -1 without one.
struct Newest {
  fs::path folder;
  int64_t step = -1;
};
Newest newest_step(const fs::path& run) {
  Newest out;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(run, ec)) {
    const std::string name = entry.path().filename().string();
    int64_t n = 0;
    if (!name.starts_with("step-")) continue;
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), n);
    if (error == std::errc{} && end == name.data() + name.size() && n > out.step) out = {entry.path(), n};
  }
  return out;
}

/// The trainer, in a group of its own: a terminal's Ctrl-C reaches it once, through here, and a second one ends both at once. It ends
/// when this process is gone.
Status run_trainer(const fs::path& trainer, std::vector<std::string> arguments) {
  constexpr int kGraceMs = 120'000;  // as the trainer's own: it ends its step and writes a checkpoint
  set_interrupt_grace(kGraceMs);
  if (is_quiet()) arguments.emplace_back("--quiet");
  std::vector<char*> argv{const_cast<char*>(trainer.c_str())};
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return resource_error("study: expected to start {}, got: {}", trainer.string(), std::strerror(errno));
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  bool told = false;
  for (pid_t ended = 0; ended != child;) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return resource_error("study: expected the trainer to end, got: {}", std::strerror(errno));
    if (ended == child) break;
    if (interrupted() && !std::exchange(told, true)) ::kill(child, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  SLIP_TRY_(check_interrupt());  // the trainer has written its checkpoint
  set_interrupt_grace(kUsualGraceMs);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0) return {};
  const bool known = code >= 1 && code <= 6;
  return Error{known ? static_cast<ErrorKind>(code) : ErrorKind::kInternal,
               fmt::format("study: expected the trainer to end well, got exit code {}; its own message says why", code)};
}

/// Of an arm: the model, and the head that stands on it; the same folder where there is none.
struct Checkpoints {
  fs::path model, head;
  bool has_head() const { return model != head; }
};

class Running {
 public:
  Running(const Study& study, fs::path trainer) : s_(study), trainer_(std::move(trainer)) {}

  /// The folders that an arm's answers come from.
  Result<Checkpoints> trained(const StudyArm& arm, int64_t seed) const {
    if (!arm.checkpoint.empty()) return Checkpoints{arm.checkpoint, arm.checkpoint};
    Checkpoints out;
    for (size_t stage = 0; stage < arm.stages.size(); ++stage) {
      const fs::path folder = folder_of(arm, seed) / fmt::format("stage-{}", stage + 1);
      SLIP_TRY(json::object config, configuration(arm, arm.stages[stage]));
      const bool head = !config.contains("model");  // it stands on a target, which the trainer knows
      if (stage > 0) config[head ? "target" : "init"] = out.model.string();
      SLIP_TRY(out.head, train_stage(arm, seed, std::move(config), folder));
      if (!head || stage == 0) out.model = out.head;  // a head of a model that is named in its configuration
    }
    return out;
  }

  /// eval's JSON of a mode, from disk where it is there.
  Result<json::value> evaluated(const StudyArm& arm, int64_t seed, const StudyMode& mode, const Checkpoints& from,
                                Bars& bars) const {
    const fs::path file = folder_of(arm, seed) / fmt::format("eval-{}.json", mode.name);
    slipstream::EvaluateOptions options = mode.options;
    for (std::string* text : {&options.decoder.drafter, &options.decoder.verifier, &options.decoder.width}) fill(*text, from.head);
    if (mode.head && from.has_head()) options.trajectory_head = from.head.string();
    json::object asked = asked_of(mode, options, from);
    if (fs::exists(file)) {
      SLIP_TRY(json::value known, read_json(file));
      const json::value* its = known.is_object() ? known.get_object().if_contains("asked") : nullptr;
      if (its && its->is_object())
        for (const auto& [key, value] : asked)
          if (const json::value* was = its->get_object().if_contains(key); was && *was != value)
            return bad_input("{}: {}: expected numbers of {}, got those of {}: the study changed, take another \"out\"",
                             file.string(), std::string_view(key), json::serialize(value), json::serialize(*was));
      return known;
    }
    SLIP_TRY(const fs::path model, model_of(mode, from.model, folder_of(arm, seed)));
    json::value out;
    if (mode.texts) {
      StudyMode filled = mode;
      filled.options = options;
      SLIP_TRY(out, text_answers(model.string(), filled));
    } else {
      SLIP_TRY(const slipstream::Report report,
               slipstream::evaluate(model.string(), {}, options, bars.progress(), slipstream::CancelToken::of_process()));
      SLIP_TRY(out, parse_json(report.json, "eval's result"));
    }
    if (out.is_object()) out.get_object()["asked"] = std::move(asked);
    std::error_code ec;
    fs::create_directories(file.parent_path(), ec);
    SLIP_TRY_(write_file(file, json::serialize(out)));
    return out;
  }

  /// Means over the last twentieth of the loss log.
  Result<json::value> losses(const StudyArm& arm, int64_t seed) const {
    const fs::path file = folder_of(arm, seed) / fmt::format("stage-{}", arm.stages.size()) / "loss.jsonl";
    SLIP_TRY(const std::string text, read_file(file));
    std::vector<json::value> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      SLIP_TRY(json::value v, parse_json(std::string_view(text).substr(at, end - at), file.string()));
      lines.push_back(std::move(v));
      at = end + 1;
    }
    const size_t n = std::max<size_t>(1, lines.size() / 20);
    json::object out;
    for (const std::string_view key : kLosses) {
      double sum = 0;
      for (size_t i = lines.size() - std::min(n, lines.size()); i < lines.size(); ++i) sum += number_at(lines[i], key).value_or(0);
      out[key] = lines.empty() ? 0.0 : sum / static_cast<double>(n);
    }
    return json::value(std::move(out));
  }

 private:
  fs::path folder_of(const StudyArm& arm, int64_t seed) const { return fs::path(s_.out) / arm.name / fmt::format("seed-{}", seed); }

  /// What the numbers of a mode go by. A study that was changed must not take those of the one before for its own. Folders count by what lies in them:
  /// the study may have been moved.
  static json::object asked_of(const StudyMode& mode, const slipstream::EvaluateOptions& filled, const Checkpoints& from) {
    const slipstream::DecoderChoice& named = mode.options.decoder;
    const std::string checkpoint = from.model.string();
    // Texts, since numbers that were written and read again may be of another kind.
    const auto text = [](const auto& number) { return fmt::format("{}", number); };
    return {{"weights", slipstream::folder_mark(mode.on.empty() ? checkpoint : mode.on)},
            {"checkpoint", slipstream::folder_mark(checkpoint)},  // of "on", whose own weights are others, the adapter
            {"head", slipstream::folder_mark(from.head.string())},
            {"decoder", fmt::format("{} {} {} {} {}", named.preset, named.schedule, named.drafter, named.verifier, named.width)},
            {"parts", slipstream::parts_mark(filled.decoder)},  // heads, calibrations and earlier answers
            {"trajectory_head", mode.head},
            {"texts", mode.texts},
            {"records", filled.records.empty() ? "simulated" : slipstream::folder_mark(filled.records)},
            {"count", text(filled.count)},
            {"seed", text(filled.seed)},
            {"temperature", text(filled.temperature)}};
  }

  static void fill(std::string& text, const fs::path& checkpoint) {
    constexpr std::string_view kMark = "{checkpoint}";
    if (const size_t at = text.find(kMark); at != std::string::npos) text.replace(at, kMark.size(), checkpoint.string());
  }

  /// The checkpoint itself; or a folder of links to the model's files, with the checkpoint's adapter in the model's place.
  static Result<fs::path> model_of(const StudyMode& mode, const fs::path& checkpoint, const fs::path& beside) {
    if (mode.on.empty()) return checkpoint;
    const fs::path adapter = checkpoint / "linear_spec_lora";
    std::error_code ec;
    if (!fs::exists(adapter, ec)) return fs::path(mode.on);
    const fs::path out = beside / fmt::format("model-{}", mode.name);
    fs::remove_all(out, ec);
    fs::create_directories(out, ec);
    for (const auto& entry : fs::directory_iterator(mode.on, ec))
      if (entry.path().filename() != "linear_spec_lora")
        fs::create_symlink(fs::absolute(entry.path()), out / entry.path().filename(), ec);
    fs::create_directory_symlink(fs::absolute(adapter), out / "linear_spec_lora", ec);
    if (ec) return bad_input("{}: expected links to the model's files, got: {}", out.string(), ec.message());
    return out;
  }

  /// What a stage trains with: the base or a configuration of its own, and what is set in it.
  Result<json::object> configuration(const StudyArm& arm, const json::object& stage) const {
    const std::string where = "arm " + arm.name;
    json::object config = s_.base;
    if (stage.contains("config")) {
      SLIP_TRY(config, read_configuration(stage, "config", where));
    }
    for (const auto& [path, value] : stage)
      if (std::string_view(path) != "config") SLIP_TRY_(set_at(config, path, value, where));
    return config;
  }

  Result<fs::path> train_stage(const StudyArm& arm, int64_t seed, json::object config, const fs::path& folder) const {
    config["seed"] = seed;
    config["out"] = folder.string();
    SLIP_TRY(const int64_t steps, int_or(config, "steps", 1000, "arm " + arm.name));
    const fs::path file = folder / "study-config.json";
    const std::string text = pretty(config);
    std::error_code ec;
    fs::create_directories(folder, ec);
    if (ec) return bad_input("{}: expected a folder that can be made, got: {}", folder.string(), ec.message());
    if (fs::exists(file)) {
      SLIP_TRY(const std::string was, read_file(file));
      if (was != text)
        return bad_input(
            "{}: expected the configuration that this study gives, got another: the study changed, take another \"out\"",
            file.string());
    }
    SLIP_TRY_(write_file(file, text));
    const fs::path done = folder / "done";
    Newest newest = newest_step(folder);
    if (newest.step >= steps || fs::exists(done)) return newest.folder;
    if (!is_quiet())
      say(fmt::format("study: arm {}, seed {}, {}: {}\n", arm.name, seed, folder.filename().string(),
                      newest.step < 0 ? std::string("training") : fmt::format("going on from step {}", newest.step)));
    SLIP_TRY_(newest.step < 0 ? run_trainer(trainer_, {"--config", file.string()})
                              : run_trainer(trainer_, {"--resume", folder.string()}));
    SLIP_TRY_(write_file(done, ""));  // a run that stops by time has fewer steps
    newest = newest_step(folder);
    if (newest.step < 0) return bad_input("{}: expected a checkpoint behind the training, got none", folder.string());
    return newest.folder;
  }

  const Study& s_;
  fs::path trainer_;
};

Result<StudyValues> run_all(const Study& s, const Running& running) {
  Bars bars;
  StudyValues values(s.arms.size(), std::vector<std::vector<std::optional<double>>>(s.columns.size()));
  for (const int64_t seed : s.seeds)
    for (size_t a = 0; a < s.arms.size(); ++a) {
      const StudyArm& arm = s.arms[a];
      SLIP_TRY_(check_interrupt());
      SLIP_TRY(const Checkpoints from, running.trained(arm, seed));
      std::vector<std::pair<std::string, json::value>> results;
      for (const StudyMode& mode : s.modes) {
        SLIP_TRY(json::value v, running.evaluated(arm, seed, mode, from, bars));
        if (seed == s.seeds.front() && a == 0) {  // before more is trained for a column of nothing
          SLIP_TRY(const std::string remarks, check_columns(s, mode.name, v));
          if (!is_quiet()) say(remarks);
        }
        results.emplace_back(mode.name, std::move(v));
      }
      if (!arm.stages.empty()) {
        SLIP_TRY(json::value v, running.losses(arm, seed));
        results.emplace_back("train", std::move(v));
      }
      for (size_t c = 0; c < s.columns.size(); ++c) {
        std::optional<double> number;
        for (const auto& [mode, v] : results)
          if (mode == s.columns[c].mode) number = number_at(v, s.columns[c].path);
        values[a][c].push_back(number);
      }
    }
  bars.finish();
  return values;
}

}  // namespace

Status study(const StudyOptions& o, const char* self) {
  SLIP_TRY(Study s, read_study(o.file));
  if (!o.out.empty()) s.out = o.out;
  SLIP_TRY_(check_kept(s));
  SLIP_TRY_(check_measures(s, slipstream::evaluation_measures()));
  const fs::path trainer = own_folder(self) / "slipstream-train";
  const bool trains = std::any_of(s.arms.begin(), s.arms.end(), [](const StudyArm& a) { return !a.stages.empty(); });
  if (trains && !fs::exists(trainer))
    return unsupported("study: expected {} (built where libtorch-dev is installed), got nothing there", trainer.string());
  const fs::path out = s.out, table_json = out / "table.json", table_md = out / "table.md";
  for (const fs::path& file : {table_json, table_md}) SLIP_TRY_(check_writable(file));
  SLIP_TRY(const StudyValues values, run_all(s, Running(s, trainer)));
  const json::object result = study_json(s, values);
  const std::string table = study_table(s, values);
  SLIP_TRY_(write_file(table_json, pretty(result)));
  SLIP_TRY_(write_file(table_md, table));
  if (o.json)
    print_json(result);
  else
    print_text(table);
  return {};
}

}  // namespace slip::cli
