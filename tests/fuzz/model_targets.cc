// SPDX-License-Identifier: Apache-2.0
// A model folder's JSON: config.json, preprocessor_config.json, the configuration of a draft adapter, the
// description of a packed folder, and rows files.
#include "fuzz/targets.h"
#include "image/qwen_preprocess.h"
#include "models/adapter.h"
#include "models/config/config.h"
#include "models/rows_file.h"
#include "models/weights/packed_folder.h"

namespace slip::fuzz {

void run_config(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "config.json");
  if (!v) return require_refusal(v.error());
  const auto config = parse_model_config(*v, "config.json");
  if (!config) return require_refusal(config.error());
  const DecoderOptions& d = config->decoder;
  require(d.layers > 0 && d.width > 0 && d.heads > 0 && d.kv_heads > 0 && d.head_width > 0 && d.vocab > 0, "sizes are positive");
  if (config->vision) require(config->vision->width > 0 && config->vision->heads > 0, "the tower's sizes are positive");
}

std::vector<std::string> seeds_config() {
  std::vector<std::string> out;
  for (const auto& e : std::filesystem::recursive_directory_iterator(std::filesystem::path(SLIP_FIXTURES) / "models")) {
    if (e.path().filename() == "config.json") out.push_back(fixture(std::filesystem::relative(e.path(), SLIP_FIXTURES)));
  }
  return out;
}

void run_preprocessor(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "preprocessor_config.json");
  if (!v) return require_refusal(v.error());
  if (!v->is_object()) return;
  const auto config = preprocessor_config(v->get_object(), "preprocessor_config.json");
  if (!config) return require_refusal(config.error());
  // Sizes of up to 2^28 pixels are allowed; only small ones are made here.
  const auto size = smart_resize(33, 57, config->factor(), config->min_pixels, config->max_pixels);
  if (!size) return require_refusal(size.error());
  require(int64_t{size->height} * size->width > 0, "sides are positive");
  if (int64_t{size->height} * size->width > int64_t{1} << 16 || config->temporal_patch_size > 4) return;
  const auto patches = qwen_patches({57, 33, std::vector<uint8_t>(57 * 33 * 3, 90)}, *config);
  if (!patches) return require_refusal(patches.error());
  require(patches->values.size() == static_cast<size_t>(patches->patches()) * static_cast<size_t>(patches->patch_dim),
          "patches have their numbers");
}

std::vector<std::string> seeds_preprocessor() {
  return {
      fixture("models/qwen2_5_vl/preprocessor_config.json"),
      R"({"size":{"shortest_edge":784,"longest_edge":3136},"resample":3,"rescale_factor":0.00392156862745098,"do_resize":true})",
      R"({"min_pixels":null,"max_pixels":12845056,"patch_size":16,"merge_size":1,"temporal_patch_size":1})"};
}

void run_adapter(Bytes bytes) {
  static ThreadPool pool(1);
  static const auto kConfig = read_model_config(std::filesystem::path(SLIP_FIXTURES) / "models/nemotron_labs_diffusion");
  require(static_cast<bool>(kConfig), "the fixture's configuration is read");
  static const bool once = [] {
    put("adapter_model.safetensors", fixture("models/nemotron_labs_diffusion/linear_spec_lora/adapter_model.safetensors"));
    return true;
  }();
  require(once, "the adapter's tensors are there");
  put("adapter_config.json", text_of(bytes));
  const auto adapter = load_draft_adapter(scratch(), kConfig->decoder, WeightType::kF32, pool);
  if (!adapter) require_refusal(adapter.error());
}

std::vector<std::string> seeds_adapter() {
  return {fixture("models/nemotron_labs_diffusion/linear_spec_lora/adapter_config.json")};
}

void run_rows(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "rows.json");
  if (!v) return require_refusal(v.error());
  const auto file = parse_rows(*v, "rows.json", scratch());
  if (!file) return require_refusal(file.error());
  for (const int64_t split : {0, 1, 3}) {
    const auto firsts = plan_passes(*file, split);
    require(firsts.front() == 0 && firsts.back() == static_cast<int32_t>(file->rows.size()), "passes hold all rows");
    for (size_t i = 1; i < firsts.size(); ++i) require(firsts[i - 1] < firsts[i] || file->rows.empty(), "passes are not empty");
  }
}

std::vector<std::string> seeds_rows() {
  return {
      R"({"rows":[{"token":1,"position":0},{"token":2,"position":[1,1,2],"sees":[[0,1],[1,2]]},{"token":3,"position":2,"sees":[[0,4]]},{"token":3,"position":2,"sees":[]}]})",
      R"({"rows":[{"image":0,"patch":3,"position":[0,1,2]},{"token":5,"position":1}],"images":["a.png","/b.png"]})"};
}

void run_packed(Bytes bytes) {
  put("packed/slipstream.json", text_of(bytes));
  const auto folder = read_packed_folder(scratch() / "packed");
  if (!folder) return require_refusal(folder.error());
  if (!*folder) return;
  for (const auto& [name, m] : (*folder)->matrices) require(m.rows > 0 && m.columns > 0, "a matrix has rows and columns");
  put("packed/slipstream.json", json::serialize(packed_folder_json(**folder)));
  const auto again = read_packed_folder(scratch() / "packed");
  require(again && *again && (*again)->matrices.size() == (*folder)->matrices.size(), "what was written is read");
}

std::vector<std::string> seeds_packed() {
  PackedFolder folder{.type = WeightType::kI8, .matrices = {}, .source = {{"folder", "x"}}, .errors = {}};
  folder.matrices["model.embed_tokens.weight"] = {WeightType::kBF16, 870, 32, {"model.embed_tokens.weight"}};
  folder.matrices["q"] = {WeightType::kI8, 96, 32, {"q", "k", "v"}};
  return {json::serialize(packed_folder_json(folder)), "{}", R"({"packed":{"version":1}})",
          R"({"packed":{"version":1,"type":"int8","source":{},"errors":{"x":1e999},"matrices":{}}})"};
}

}  // namespace slip::fuzz
