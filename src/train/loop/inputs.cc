// SPDX-License-Identifier: Apache-2.0
// See inputs.h.
#include "train/loop/inputs.h"

#include <vector>

#include "base/files/mark.h"
#include "base/json.h"

namespace slip {
namespace fs = std::filesystem;
namespace {

/// Of a file, or of those of a folder's own files that `counts` takes.
template <class Counts>
std::string mark_of(const fs::path& path, Counts counts) {
  std::error_code ec;
  std::vector<fs::path> files;
  if (fs::is_regular_file(path, ec)) files.push_back(path);
  for (fs::directory_iterator at(path, ec), end; !ec && at != end; at.increment(ec))
    if (at->is_regular_file(ec) && counts(at->path())) files.push_back(at->path());
  return files.empty() ? std::string() : mark_of_files(std::move(files));
}

/// What a model computes: a calibration beside it, say, changes nothing.
bool is_of_model(const fs::path& file) { return file.extension() == ".safetensors" || file.filename() == "config.json"; }
bool is_of_tokenizer(const fs::path& file) { return file.filename() == "tokenizer.json"; }
bool is_of_set(const fs::path&) { return true; }

class Marks {
 public:
  template <class Counts>
  void add(std::string_view part, std::string_view name, Counts counts) {
    if (name.empty()) return;
    const std::string mark = mark_of(fs::path(name), counts);
    if (!mark.empty()) out[fmt::format("{} {}", part, name)] = mark;
  }
  void add_data(const json::object& data) {
    const json::value* set = data.if_contains("records");
    if (set != nullptr && set->is_string()) add("data: records", std::string_view(set->get_string()), is_of_set);
    const json::value* parts = data.if_contains("parts");
    if (parts == nullptr || !parts->is_array()) return;
    for (const json::value& part : parts->get_array())
      if (part.is_object()) add_data(part.get_object());
  }
  json::object out;
};

}  // namespace

json::object marks_of_inputs(const TrainConfig& c) {
  Marks marks;
  marks.add_data(c.data);
  marks.add("target", c.target, is_of_model);
  marks.add("tokenizer", c.tokenizer, is_of_tokenizer);
  if (c.objective == ObjectiveKind::kLora || c.objective == ObjectiveKind::kLoraAll)
    marks.add("init", c.init, is_of_model);  // of other kinds only the beginning
  constexpr std::string_view kHead = "dflash:";
  const json::value* drafter = c.head.if_contains("drafter");
  if (drafter != nullptr && drafter->is_string() && std::string_view(drafter->get_string()).starts_with(kHead))
    marks.add("drafter", std::string_view(drafter->get_string()).substr(kHead.size()), is_of_model);
  return marks.out;
}

Status check_inputs(const json::object& now, const fs::path& step_folder) {
  const std::string where = (step_folder / "trainer.json").string();
  SLIP_TRY(const json::value v, read_json(step_folder / "trainer.json"));
  if (!v.is_object() || !v.get_object().contains("inputs")) return {};
  SLIP_TRY(const json::object* before, get_object(v.get_object(), "inputs", where));
  for (const auto& [name, mark] : *before) {
    const json::value* other = now.if_contains(name);
    if (other == nullptr || *other == mark) continue;
    return bad_input(
        "{}: {}: expected what this run was trained with so far, got another of that name (under another name a configuration may "
        "ask for it: --resume with --config)",
        where, std::string_view(name));
  }
  return {};
}

}  // namespace slip
