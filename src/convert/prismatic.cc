// SPDX-License-Identifier: Apache-2.0
// See prismatic.h.
#include "convert/prismatic.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/files/atomic_folder.h"
#include "base/json.h"
#include "convert/folder_writer.h"
#include "convert/prismatic_parts.h"
#include "core/torch_zip.h"
#include "models/config/config.h"
#include "models/config/config_reader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// ---- finding the files ----

struct Source {
  fs::path checkpoint, folder;  // the run's folder: config.json, dataset_statistics.json
  json::object config;
};

Result<fs::path> newest_step(const fs::path& folder) {
  std::error_code ec;
  fs::path best;
  int64_t newest = -1;
  for (const auto& e : fs::directory_iterator(folder / "checkpoints", ec)) {
    const std::string name = e.path().filename().string();
    if (e.path().extension() != ".pt" || !name.starts_with("step-")) continue;
    int64_t step = 0;  // as a number: names are as wide as their steps are
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (std::pair(step, name) > std::pair(newest, best.filename().string())) newest = step, best = e.path();
  }
  if (best.empty()) return bad_input("{}: expected checkpoints/step-*.pt, got none", folder.string());
  return best;
}

Result<Source> find_source(const fs::path& path) {
  Source s;
  std::error_code ec;
  if (!fs::exists(path, ec)) return bad_input("{}: expected a .pt file or a run's folder, got nothing there", path.string());
  if (fs::is_directory(path, ec)) {
    s.folder = path;
    SLIP_TRY(s.checkpoint, newest_step(path));
  } else {
    s.checkpoint = path;
    s.folder = fs::absolute(path, ec).parent_path();
    if (s.folder.filename() == "checkpoints") s.folder = s.folder.parent_path();
  }
  const fs::path config = s.folder / "config.json";
  if (!fs::exists(config, ec)) return bad_input("{}: expected the run's config.json, got none", s.folder.string());
  SLIP_TRY(const json::value value, read_json(config, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", config.string(), cut(value));
  s.config = value.get_object();
  return s;
}

// ---- names ----

bool replace_front(std::string& s, std::string_view from, std::string_view to) {
  if (!s.starts_with(from)) return false;
  s.replace(0, from.size(), to);
  return true;
}

// The name in OpenVLA's layout; nothing for what is no weight.
std::optional<std::string> new_name(const std::vector<std::string>& path) {
  if (path.size() != 3 || path[0] != "model") return std::nullopt;
  std::string name = path[2];
  if (path[1] == "vision_backbone") {
    if (!replace_front(name, "dino_featurizer.", "vision_backbone.featurizer.") &&
        !replace_front(name, "siglip_featurizer.", "vision_backbone.fused_featurizer.") &&
        !replace_front(name, "featurizer.", "vision_backbone.featurizer."))
      return std::nullopt;
    if (name.ends_with(".gamma")) name.replace(name.size() - 5, 5, "scale_factor");
    return name;
  }
  if (path[1] == "projector") {
    for (const auto& [from, to] :
         {std::pair{"projector.0.", "projector.fc1."}, {"projector.2.", "projector.fc2."}, {"projector.4.", "projector.fc3."}})
      if (replace_front(name, from, to)) return name;
    return std::nullopt;
  }
  if (path[1] == "llm_backbone" && replace_front(name, "llm.", "language_model.") && !name.ends_with("rotary_emb.inv_freq"))
    return name;
  return std::nullopt;
}

// ---- the folder ----

struct Folder {
  Source source;
  TensorsByName tensors;
  json::object config;
  int64_t left_out = 0;
};

Status collect(const TorchFile& file, Folder& f) {
  for (const TorchFile::Entry& e : file.tensors()) {
    const auto name = e.path.empty() || e.path[0] != "model" ? std::nullopt : new_name(e.path);
    const DType t = e.view.dtype;
    if (!name || (t != DType::kF32 && t != DType::kBF16 && t != DType::kF16 && t != DType::kF64)) {
      ++f.left_out;
      continue;
    }
    TensorView view = e.view;
    view.name = *name;
    if (!f.tensors.emplace(*name, std::move(view)).second)
      return bad_input("{}: expected one tensor that becomes {}, got two", f.source.checkpoint.string(), *name);
  }
  if (f.tensors.empty())
    return bad_input("{}: expected {{\"model\": {{\"vision_backbone\", \"projector\", \"llm_backbone\"}}}}, got none of them",
                     f.source.checkpoint.string());
  const auto head = f.tensors.find("language_model.lm_head.weight"),
             embed = f.tensors.find("language_model.model.embed_tokens.weight");
  if (head != f.tensors.end() && embed != f.tensors.end() && head->second.dtype == embed->second.dtype &&
      head->second.shape == embed->second.shape &&
      std::memcmp(head->second.bytes.data(), embed->second.bytes.data(), head->second.bytes.size()) == 0) {
    f.tensors.erase(head);  // tied
    ++f.left_out;
  }
  return {};
}

// Everything but the weights' numbers.
Status write_around(const ConvertOptions& options, const fs::path& to, Folder& f, Converted& done) {
  const auto vocab = static_cast<int32_t>(f.tensors.at("language_model.model.embed_tokens.weight").shape[0]);
  SLIP_TRY(const bool extra, has_extra_tokens(f.source.config, (f.source.folder / "config.json").string()));
  int32_t bound = 0;
  if (options.tokenizer.empty()) {
    SLIP_TRY(bound, known_action_bound(vocab, extra));
    done.notes.push_back("no tokenizer was given (--tokenizer): forward works, run needs one");
  } else {
    SLIP_TRY(bound, write_prismatic_tokenizer(options.tokenizer, to, extra, vocab));
  }
  f.config["pad_to_multiple_of"] = vocab - bound;  // the published readers' name for what lies beyond the action ids
  // What is written has to be a folder that loads.
  SLIP_TRY(const ModelConfig config, parse_model_config(f.config, done.checkpoint.string() + ": as converted"));
  SLIP_TRY_(write_file(to / "config.json", pretty(f.config)));
  SLIP_TRY_(write_file(to / "preprocessor_config.json",
                       pretty(prismatic_preprocessor(config.vit_tower->vits, text_at(f.config, "image_resize_strategy")))));
  std::error_code ec;
  const fs::path stats = f.source.folder / "dataset_statistics.json";
  if (!fs::exists(stats, ec)) {
    done.notes.push_back("no dataset_statistics.json beside the run's config.json: actions cannot be put in physical units");
    return {};
  }
  SLIP_TRY(const std::string bytes, read_file(stats, size_t{64} << 20));
  return write_file(to / "dataset_statistics.json", bytes);
}

// The weights' numbers: slice by slice, since released checkpoints have gigabytes of them.
Status write_weights(const fs::path& to, const Folder& f, int64_t total, const std::function<void(int64_t, int64_t)>& tell,
                     const CancelToken& cancel) {
  constexpr size_t kSliceBytes = size_t{16} << 20;
  std::vector<TensorPlan> plans;
  for (const auto& [name, view] : f.tensors) plans.push_back({name, view.dtype, view.shape});
  SLIP_TRY(TensorFileWriter out, TensorFileWriter::create(to / "model.safetensors", std::move(plans)));
  size_t tensor = 0;
  int64_t done = 0;
  for (const auto& [name, view] : f.tensors) {
    for (size_t at = 0; at < view.bytes.size(); at += kSliceBytes) {
      SLIP_TRY_(cancel.check("convert", done, "bytes"));
      const auto slice = view.bytes.subspan(at, std::min(kSliceBytes, view.bytes.size() - at));
      SLIP_TRY_(out.write(tensor, static_cast<int64_t>(at), slice.data(), slice.size()));
      done += static_cast<int64_t>(slice.size());
      if (tell) tell(done, total);
    }
    ++tensor;
  }
  return out.commit();
}

}  // namespace

Result<Converted> convert_prismatic(const ConvertOptions& options, const fs::path& out,
                                    const std::function<void(int64_t bytes, int64_t total)>& tell, const CancelToken& cancel) {
  Folder f;
  SLIP_TRY(f.source, find_source(options.source));
  SLIP_TRY(const TorchFile file, TorchFile::open(f.source.checkpoint));
  SLIP_TRY_(collect(file, f));
  SLIP_TRY(f.config, prismatic_config(f.tensors, f.source.config, f.source.checkpoint.string()));
  Converted done{f.source.checkpoint, static_cast<int64_t>(f.tensors.size()), 0, f.left_out, {}};
  for (const auto& [name, view] : f.tensors) done.bytes += static_cast<int64_t>(view.bytes.size());
  SLIP_TRY(AtomicFolder folder, AtomicFolder::create(out, done.bytes));
  SLIP_TRY_(write_around(options, folder.path(), f, done));
  SLIP_TRY_(write_weights(folder.path(), f, done.bytes, tell, cancel));
  SLIP_TRY_(folder.commit());
  return done;
}

}  // namespace slip
