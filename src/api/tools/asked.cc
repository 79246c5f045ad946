// SPDX-License-Identifier: Apache-2.0
// See asked.h. Tests: tests/cli/drive_test.cc
#include "api/tools/asked.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/file.h"
#include "base/files/mark.h"
#include "base/json/shown.h"
#include "plot/chart.h"

namespace slip::api {

namespace {

namespace fs = std::filesystem;

bool differ(const json::value& a, const json::value& b) {
  return a.is_number() && b.is_number() ? a.to_number<double>() != b.to_number<double>() : a != b;
}

std::string told(const json::value& v) { return v.is_double() ? fmt::format("{}", v.get_double()) : shown_json(v); }

bool is_of_model(const fs::path& file) {
  constexpr std::array kSaid = {"golden.json", "trainer.json"};  // of the model, not by it
  const fs::path ending = file.extension();
  return ending == ".safetensors" || ending == ".bin" || ending == ".jinja" ||
         (ending == ".json" && std::ranges::find(kSaid, file.filename().string()) == kSaid.end());
}

std::string model_mark(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (fs::recursive_directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    if (at.depth() > 0) at.disable_recursion_pending();  // dflash, linear_spec_lora, commit_sampler
    if (is_of_model(at->path())) files.push_back(at->path());
  }
  return mark_of_files(std::move(files));
}

std::string set_mark(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
    if (std::error_code of_one; at->is_regular_file(of_one)) files.push_back(at->path());
  return mark_of_files(std::move(files));
}

/// What a choice's words name that is there: folders of draft models, heads and samplers, files of answers, calibrations and classifiers. A pipe is
/// left to its reader.
std::vector<fs::path> named_by(const slipstream::DecoderChoice& choice) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const std::string* word : {&choice.drafter, &choice.verifier, &choice.width}) {
    const size_t colon = word->find(':');
    if (colon == std::string::npos) continue;
    fs::path named = word->substr(colon + 1);
    if (fs::is_directory(named, ec) || fs::is_regular_file(named, ec)) out.push_back(std::move(named));
  }
  return out;
}

}  // namespace

std::string mark_of(const fs::path& what) {
  std::error_code ec;
  if (!fs::is_directory(what, ec)) return mark_of_files({what});
  return fs::exists(what / "index.json", ec) ? set_mark(what) : model_mark(what);
}

json::object asked_of_model(const fs::path& folder, const slipstream::EngineOptions& how,
                            const std::vector<slipstream::DecoderChoice>& choices, const std::string& trajectory_head) {
  if (folder.empty()) return {};
  json::object parts;
  std::error_code ec;
  const auto part = [&](const fs::path& named) {
    json::value& marks = parts[fs::weakly_canonical(named, ec).filename().string()];
    const std::string mark = mark_of(named), before = marks.is_string() ? std::string(marks.get_string()) : "";
    if (before.find(mark) == std::string::npos) marks = before.empty() ? mark : before + " " + mark;  // a/width.json, b/width.json
  };
  for (const slipstream::DecoderChoice& c : choices)
    for (const fs::path& named : named_by(c)) part(named);
  if (fs::is_directory(trajectory_head, ec)) part(trajectory_head);
  return {
      {"weights", mark_of(folder)}, {"dtype", how.dtype}, {"kv", how.kv_type}, {"device", how.device}, {"parts", std::move(parts)}};
}

std::string choice_line(const slipstream::DecoderChoice& choice) {
  std::string out = choice.preset.empty() ? "auto" : choice.preset;
  for (const auto& [name, part] : {std::pair{"schedule", &choice.schedule},
                                   {"drafter", &choice.drafter},
                                   {"verifier", &choice.verifier},
                                   {"width", &choice.width}})
    if (!part->empty()) out += fmt::format(" --{} {}", name, *part);
  return out;
}

Status check_asked(const json::object& line, const json::object& asked, std::string_view where) {
  const json::value* its = line.if_contains("asked");
  if (!its || !its->is_object()) return {};
  const bool weighed = asked.contains("weights") && its->get_object().contains("weights");
  for (const auto& [key, value] : asked) {
    if (weighed && key == "model") continue;
    const json::value* other = its->get_object().if_contains(key);
    if (!other || !differ(*other, value)) continue;
    return bad_input("{}: {}: expected a line that was asked for with {}, got one with {}", where, std::string_view(key),
                     told(value), told(*other));
  }
  return {};
}

Status check_seeds(uint64_t first, int64_t count) {
  const uint64_t last = std::numeric_limits<uint64_t>::max();
  if (count < 1 || first <= last - static_cast<uint64_t>(count - 1)) return {};
  return usage_error("--seed: expected {} seeds up to {}, got {} as the first", count, last, first);
}

Status check_not_in_set(const std::string& file, const std::string& set) {
  if (file.empty() || set.empty()) return {};
  std::error_code failed;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  };
  if (place(file).parent_path() != place(set)) return {};
  return usage_error("{}: expected a file to write outside of the record set {}, got one in it", file, set);
}

Status check_figure_target(const std::filesystem::path& file) {
  if (file.empty()) return {};
  // A chart of nothing is never written: it is refused, and where nothing can be drawn for that reason first.
  if (Status drawn = draw_chart({}, file); !drawn && drawn.error().kind == ErrorKind::kUnsupported) return drawn;
  return check_writable(file);
}

Status check_outputs(const std::vector<std::pair<std::string_view, std::string>>& files) {
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (files[i].second.empty() || files[j].second.empty()) continue;
      std::error_code failed;
      const auto place = [&](const std::string& file) {
        return std::filesystem::weakly_canonical(std::filesystem::absolute(file, failed), failed);
      };
      if (place(files[i].second) != place(files[j].second)) continue;
      const auto& device = files[i].second;
      if (std::filesystem::exists(device, failed) && !std::filesystem::is_regular_file(device, failed) &&
          !std::filesystem::is_directory(device, failed))
        continue;
      return usage_error("{} and {}: expected two files, got {} for both", files[j].first, files[i].first, files[i].second);
    }
  return {};
}

}  // namespace slip::api

namespace slipstream {

std::string folder_mark(const std::string& path) { return slip::api::mark_of(path); }

std::string parts_mark(const DecoderChoice& choice) {
  std::string out;
  for (const std::filesystem::path& named : slip::api::named_by(choice)) out += slip::api::mark_of(named) + " ";
  return out;
}

}  // namespace slipstream
