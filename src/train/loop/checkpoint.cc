// SPDX-License-Identifier: Apache-2.0
// Checkpoints; contract in checkpoint.h.
#include "train/loop/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/files/beside.h"
#include "base/interrupt.h"
#include "core/safetensors.h"
#include "task/prompt.h"
#include "text/tokenizer.h"
#include "train/loop/learners/learner.h"

namespace slip {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTrainer = "trainer.json";  // written last: a step that has it is whole
constexpr const char* kPartial = ".partial";      // behind the name of a step that is being written
constexpr const char* kAside = ".replaced";       // of one in whose place another is put

fs::path with(fs::path step, const char* ending) {
  step += ending;
  return step;
}

/// N of "step-N", or -1.
int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with("step-")) return -1;
  int64_t n = -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), n);
  return error == std::errc() && end == name.data() + name.size() ? n : -1;
}

std::vector<std::pair<int64_t, fs::path>> step_folders(const fs::path& out) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(out, ec))
    if (entry.is_directory() && step_of(entry.path()) >= 0) found.emplace_back(step_of(entry.path()), entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// The steps in `out` whose names end so, without that.
std::vector<fs::path> steps_with(const fs::path& out, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(out, ec)) {
    const fs::path& name = entry.path();
    if (name.extension() == ending && step_of(name.stem()) >= 0) found.push_back(name.parent_path() / name.stem());
  }
  return found;
}

/// Puts `partial`, which is whole, in the place of `to`. There is a whole step at every moment: `to`, or between the two renames `partial` and the
/// one aside, from which `finish_replacements` goes on.
Status replace(const fs::path& partial, const fs::path& to) {
  const fs::path old = with(to, kAside);
  std::error_code ec;
  fs::remove_all(old, ec);
  {
    const HoldOffEnd both;  // the handler would remove `partial` between them
    const bool was_there = fs::exists(to, ec);
    if (was_there) fs::rename(to, old, ec);
    if (!ec) {
      fs::rename(partial, to, ec);
      std::error_code back;
      if (ec && was_there) fs::rename(old, to, back);
    }
  }
  if (ec) return resource_error("{}: expected to rename it to {}, got {}", partial.string(), to.string(), ec.message());
  fs::remove_all(old, ec);
  return {};
}

/// The steps that are aside with nothing in their place.
std::vector<fs::path> begun_replacements(const fs::path& out) {
  std::vector<fs::path> steps = steps_with(out, kAside);
  std::erase_if(steps, [](const fs::path& step) {
    std::error_code ec;
    return fs::exists(step, ec);
  });
  return steps;
}

/// In the place of each such step comes the one that was to, or where that is not whole the one aside. Nobody else may be writing there, but
/// others may do the same at the same time: each rename happens once.
void finish_held_replacements(const fs::path& out) {
  for (const fs::path& step : begun_replacements(out)) {
    std::error_code ec;
    const bool whole = fs::exists(with(step, kPartial) / kTrainer, ec);
    fs::rename(with(step, whole ? kPartial : kAside), step, ec);
  }
}

/// The same where others may be writing. Who holds the folder is between two renames, or finishes for us: neither takes long.
void finish_replacements(const fs::path& out) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause{10};
  for (int i = 0; i < kTries && !begun_replacements(out).empty(); ++i) {
    if (const Result<Held> held = hold_folder(out)) return finish_held_replacements(out);
    std::this_thread::sleep_for(kPause);
  }
}

/// Where there is such a file. Not the library's copy, which says of a full disk that input or output failed.
Status copy_if_there(const fs::path& source, const fs::path& to) {
  std::error_code ec;
  if (!fs::exists(source, ec)) return {};
  SLIP_TRY(const std::string bytes, read_file(source));
  return write_file(to / source.filename(), bytes);
}

Status copy_tokenizer(const std::string& from, const fs::path& to) {
  if (from.empty()) return {};
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json",
        "chat_template.json", "chat_template.jinja", "preprocessor_config.json", "generation_config.json", "slipstream.json"})
    SLIP_TRY_(copy_if_there(fs::path(from) / name, to));
  return {};
}

/// How pictures become patches, and what numbers actions stand for, is what the samples were made with, whose configuration may lie elsewhere
/// than the tokenizer.
Status copy_beside_model(const TrainConfig& c, const fs::path& to) {
  const json::value* model = c.data.if_contains("model");
  if (model == nullptr || !model->is_string()) return {};
  for (const char* name : {"preprocessor_config.json", "dataset_statistics.json"})
    SLIP_TRY_(copy_if_there(fs::path(std::string_view(model->get_string())).parent_path() / name, to));
  return {};
}

/// The codebook of a model that answers in codes goes where its tokenizer goes.
Status copy_codebook(const TrainConfig& c, const fs::path& to) {
  SLIP_TRY(const TaskOptions task, task_options(c.model, "model"));
  if (task.drive_cot.codes == 0 || c.tokenizer.empty()) return {};
  SLIP_TRY(const std::string bytes, read_file(fs::path(c.tokenizer) / task.codebook));
  return write_file(to / task.codebook, bytes);
}

// A folder that is removed again unless it was kept: on an error, and when an interrupt ends the process meanwhile.
class PartialFolder {
 public:
  explicit PartialFolder(fs::path path) : path_(std::move(path)) { remember_temporary(path_); }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    std::error_code ec;
    fs::remove_all(path_, ec);  // nothing there once it was renamed
    forget_temporary(path_);
  }

 private:
  fs::path path_;
};

/// Where the first number lies that is infinite or none.
std::optional<size_t> not_finite(std::span<const float> data) {
  const auto at = std::find_if(data.begin(), data.end(), [](float v) { return !std::isfinite(v); });
  return at == data.end() ? std::nullopt : std::optional(static_cast<size_t>(at - data.begin()));
}

Status write_parts(const TrainConfig& c, const Learner& learner, const TrainState& s, const std::string& loss_lines,
                   const fs::path& to) {
  const ParameterTable& table = learner.table();
  const std::span<const float> published = !s.best.empty()     ? std::span<const float>(s.best)
                                           : s.average.empty() ? s.values
                                                               : s.average;
  if (!learner.writes_a_model()) {
    SLIP_TRY_(learner.publish(to, published));
  } else if (c.objective == ObjectiveKind::kLora) {
    SLIP_TRY_(save_lora(to / kLoraFolder, table, published, c.lora_rule, c.init, c.store));
  } else {
    SLIP_TRY_(save_model(c, table, published, to));
  }
  const auto n = static_cast<int64_t>(s.values.size());
  std::vector<TensorToWrite> flat;
  for (const auto& [name, data] : {std::pair{"values", s.values}, {"first", s.first}, {"second", s.second}, {"average", s.average}})
    if (!data.empty()) flat.push_back({name, DType::kF32, {n}, std::as_bytes(std::span<const float>(data))});
  if (!s.best.empty()) flat.push_back({"best", DType::kF32, {n}, std::as_bytes(std::span<const float>(s.best))});
  SLIP_TRY_(write_safetensors(to / "trainer.safetensors", flat));
  SLIP_TRY_(write_file(to / "loss.jsonl", loss_lines));
  std::error_code ec;
  const std::string here = fs::current_path(ec).string();
  json::object trainer{{"step", s.step}, {"elapsed_s", s.elapsed_s}};
  if (!s.best.empty()) trainer["best"] = json::object{{"score", s.best_score}, {"worse", s.worse}};
  if (s.score_due) trainer["score_due"] = true;
  if (is_valid_utf8(here)) trainer["working_folder"] = here;  // JSON has no words for another name
  if (!s.inputs.empty()) trainer["inputs"] = s.inputs;
  trainer["config"] = c.source;
  return write_file(to / kTrainer, pretty(trainer));
}

}  // namespace

fs::path step_folder(const fs::path& out, int64_t step) { return out / fmt::format("step-{}", step); }

Status save_model(const TrainConfig& c, const ParameterTable& table, std::span<const float> values, const fs::path& to) {
  std::vector<TensorToWrite> more;
  std::optional<Checkpoint> init;
  if (c.shape.vit && !c.init.empty()) {
    SLIP_TRY(init, Checkpoint::open_folder(c.init));
    std::set<std::string_view> written;
    for (const Parameter& p : table.parameters) written.insert(p.name);
    for (const auto& [name, t] : init->tensors())
      if (!written.contains(name) && std::any_of(c.shape.vit->vits.begin(), c.shape.vit->vits.end(),
                                                 [&](const auto& v) { return name.starts_with(v.prefix); }))
        more.push_back({name, t.dtype, t.shape, t.bytes});
  }
  json::object config = c.model;
  config["torch_dtype"] = c.store == StoreAs::kBF16 ? "bfloat16" : "float32";
  SLIP_TRY_(write_file(to / "config.json", pretty(config)));
  SLIP_TRY_(save_weights(to / "model.safetensors", table, values, c.store, more));
  SLIP_TRY_(copy_tokenizer(c.tokenizer, to));
  SLIP_TRY_(copy_beside_model(c, to));
  return copy_codebook(c, to);
}

Status check_finite(const ParameterTable& table, const TrainState& s) {
  for (const auto& [name, data] : {std::pair<const char*, std::span<const float>>{"values", s.values},
                                   {"first moments", s.first},
                                   {"second moments", s.second},
                                   {"average", s.average},
                                   {"best values", s.best}}) {
    const std::optional<size_t> at = not_finite(data);
    if (!at) continue;
    std::string_view tensor = "no tensor";
    for (const Parameter& p : table.parameters)
      if (p.offset <= static_cast<int64_t>(*at)) tensor = p.name;  // offsets rise
    return check_failed("step {}: {} of {}: expected finite numbers for a checkpoint, got {}", s.step, name, tensor, data[*at]);
  }
  return {};
}

Status save_checkpoint(const TrainConfig& c, const Learner& learner, const TrainState& s, const std::string& loss_lines) {
  const fs::path to = step_folder(c.out, s.step), partial = with(to, kPartial);
  std::error_code ec;
  const PartialFolder guard(partial);
  fs::remove_all(partial, ec);
  fs::create_directories(partial, ec);
  if (ec) return resource_error("{}: expected to create the folder, got {}", partial.string(), ec.message());
  SLIP_TRY_(write_parts(c, learner, s, loss_lines, partial));
  SLIP_TRY_(sync_folder(partial));
  SLIP_TRY_(replace(partial, to));
  auto found = step_folders(c.out);
  if (c.keep > 0)
    for (size_t i = 0; i + static_cast<size_t>(c.keep) < found.size(); ++i)
      if (found[i].first < s.step) fs::remove_all(found[i].second, ec);
  return {};
}

bool is_stored(const TrainConfig& c, const fs::path& folder, int64_t step) {
  std::error_code ec;
  if (!fs::equivalent(folder, step_folder(c.out, step), ec)) return false;
  const auto trainer = read_json(folder / kTrainer);
  const json::value* config = trainer && trainer->is_object() ? trainer->get_object().if_contains("config") : nullptr;
  return config != nullptr && config->is_object() && config->get_object() == c.source;
}

void remove_partial_checkpoints(const fs::path& out) {
  finish_held_replacements(out);
  std::error_code ec;
  for (const char* ending : {kPartial, kAside})
    for (const fs::path& step : steps_with(out, ending)) fs::remove_all(with(step, ending), ec);
  remove_leftovers(out, "");
}

namespace {

Status check_stored(std::span<const float> data, const char* name, const fs::path& folder) {
  const std::optional<size_t> at = not_finite(data);
  if (!at) return {};
  return bad_input("{}: {}: expected finite numbers, got {} at {}", (folder / "trainer.safetensors").string(), name, data[*at],
                   *at);
}

}  // namespace

Status load_checkpoint(const fs::path& folder, TrainState& s) {
  SLIP_TRY(const json::value v, read_json(folder / kTrainer));
  const std::string where = (folder / kTrainer).string();
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", where, json::serialize(v).substr(0, 40));
  SLIP_TRY(s.step, get_int(v.get_object(), "step", where));
  if (s.step < 0) return bad_input("{}: step: expected at least 0, got {}", where, s.step);
  std::error_code ec;
  if (const int64_t named = step_of(fs::canonical(folder, ec)); named >= 0 && named != s.step)
    return bad_input("{}: step: expected {} as its folder's name says, got {}", where, named, s.step);
  SLIP_TRY(s.elapsed_s, get_number(v.get_object(), "elapsed_s", where));
  SLIP_TRY(s.score_due, bool_or(v.get_object(), "score_due", false, where));
  SLIP_TRY(const Checkpoint stored, Checkpoint::open_file(folder / "trainer.safetensors"));
  for (const auto& [name, data] :
       {std::pair{"values", s.values}, {"first", s.first}, {"second", s.second}, {"average", s.average}}) {
    if (data.empty()) continue;
    // A run that starts averaging now starts from the weights.
    const char* source = std::string_view(name) == "average" && !stored.has(name) ? "values" : name;
    const std::array<int64_t, 1> shape{static_cast<int64_t>(data.size())};
    SLIP_TRY(const TensorView* t, stored.get(source, shape));
    read_as_f32(*t, 0, data);
    SLIP_TRY_(check_stored(data, source, folder));
  }
  s.best.clear();
  if (!v.get_object().contains("best")) return {};
  SLIP_TRY(const json::object* best, get_object(v.get_object(), "best", where));
  SLIP_TRY(s.best_score, get_number(*best, "score", where));
  SLIP_TRY(s.worse, get_int(*best, "worse", where));
  const std::array<int64_t, 1> shape{static_cast<int64_t>(s.values.size())};
  SLIP_TRY(const TensorView* t, stored.get("best", shape));
  s.best = read_as_f32(*t);
  return check_stored(s.best, "best", folder);
}

Result<fs::path> newest_checkpoint(const fs::path& path) {
  finish_replacements(step_of(path) >= 0 ? path.parent_path() : path);
  if (fs::exists(path / kTrainer)) return path;
  const auto found = step_folders(path);
  if (found.empty()) return bad_input("{}: expected a checkpoint or a folder of step-N checkpoints, got neither", path.string());
  return found.back().second;
}

namespace {

/// Steps that are newer than the one that goes on would be of another run, and the next start would take them for this one's.
Status check_newest(const std::vector<std::pair<int64_t, fs::path>>& found, const fs::path& resume) {
  std::error_code ec;
  const int64_t step = step_of(fs::canonical(resume, ec));
  std::string newer;
  for (const auto& [n, folder] : found)
    if (step >= 0 && n > step) newer += (newer.empty() ? "" : ", ") + folder.filename().string();
  if (newer.empty()) return {};
  return bad_input("{}: expected the newest step of its folder, got {} beside it (--out DIR goes on from here in another folder)",
                   resume.string(), newer);
}

}  // namespace

Status check_out(const fs::path& out, const std::optional<fs::path>& resume) {
  finish_replacements(out);
  const auto found = step_folders(out);
  if (found.empty()) return {};
  std::error_code ec;
  if (resume && fs::equivalent(fs::absolute(*resume, ec) / "..", out, ec)) return check_newest(found, *resume);
  return bad_input("{}: expected {}, got one with {}", out.string(),
                   resume ? "the folder of the checkpoint that goes on, or one without step-N folders"
                          : "a folder without step-N folders (--resume goes on from them)",
                   found.back().second.filename().string());
}

namespace {

Result<json::object> read_trainer_json(const fs::path& folder, const std::string& where) {
  SLIP_TRY(const json::value v, read_json(folder / kTrainer));
  if (!v.is_object()) return bad_input("{}: expected an object, got {}", where, json::serialize(v).substr(0, 40));
  return v.get_object();
}

}  // namespace

Result<TrainConfig> checkpoint_config(const fs::path& folder) {
  const std::string where = (folder / kTrainer).string();
  SLIP_TRY(const json::object o, read_trainer_json(folder, where));
  SLIP_TRY(const json::object* config, get_object(o, "config", where));
  SLIP_TRY(TrainConfig c, TrainConfig::parse(*config, where));
  std::error_code ec;
  c.out = fs::canonical(folder, ec).parent_path();
  if (ec) return bad_input("{}: expected a folder, got: {}", folder.string(), ec.message());
  return c;
}

Result<fs::path> checkpoint_working_folder(const fs::path& folder) {
  const std::string where = (folder / kTrainer).string();
  SLIP_TRY(const json::object o, read_trainer_json(folder, where));
  SLIP_TRY(const std::string name, string_or(o, "working_folder", "", where));
  return fs::path(name);
}

}  // namespace slip
