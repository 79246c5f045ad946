// SPDX-License-Identifier: Apache-2.0
// Reading a commit sampler's folder; layout in commit_sampler.h.
#include <algorithm>
#include <array>

#include "models/config/config_reader.h"
#include "models/draft/commit_sampler.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, kCommitStatistics> kNames = {
    "p1", "p2", "p3", "margin", "top3_mass", "entropy", "log_p1", "log_ratio", "masked", "place", "masked_share", "left_masked"};

Result<std::vector<CommitStatistic>> read_statistics(const Keys& keys) {
  std::vector<CommitStatistic> out;
  if (!keys.has("statistics")) {
    for (int i = 0; i < kCommitStatistics; ++i) out.push_back(static_cast<CommitStatistic>(i));
    return out;
  }
  SLIP_TRY(const json::array* list, get_array(keys.object, "statistics", keys.where));
  for (const json::value& name : *list) {
    const auto* found =
        name.is_string() ? std::find(kNames.begin(), kNames.end(), std::string_view(name.get_string())) : kNames.end();
    if (found == kNames.end()) {
      std::string known;
      for (const std::string_view n : kNames) known += (known.empty() ? "" : ", ") + std::string(n);
      return bad_input("{}: statistics: expected names among {}, got {}", keys.where, known, cut(name));
    }
    out.push_back(static_cast<CommitStatistic>(found - kNames.begin()));
  }
  return out;
}

Result<CommitSamplerOptions> read_options(const Keys& keys, Model& target) {
  CommitSamplerOptions o;
  SLIP_TRY(const std::string type, keys.text("model_type", ""));
  if (type != "commit_sampler") return bad_input("{}: model_type: expected commit_sampler, got \"{}\"", keys.where, type);
  SLIP_TRY(o.width, keys.integer("hidden_size", o.width, 1, 1 << 14));
  SLIP_TRY(o.layers, keys.integer("num_hidden_layers", o.layers, 1, 256));
  SLIP_TRY(o.heads, keys.integer("num_attention_heads", o.heads, 1, 256));
  SLIP_TRY(o.mlp_width, keys.integer("intermediate_size", o.mlp_width, 1, 1 << 16));
  SLIP_TRY(o.max_block, keys.integer("max_block", o.max_block, 1, 4096));
  SLIP_TRY(o.token_width, keys.integer("token_width", o.token_width, 1, 1 << 12));
  SLIP_TRY(const double eps, keys.number("layer_norm_eps", 1e-5, 0, 1));
  o.norm_eps = static_cast<float>(eps);
  SLIP_TRY(const double threshold, keys.number("threshold", .5, 0, 1));
  o.threshold = static_cast<float>(threshold);
  SLIP_TRY(o.statistics, read_statistics(keys));
  if (o.width % o.heads != 0 || o.width / o.heads > kMaxHeadWidth)
    return bad_input("{}: expected hidden_size / num_attention_heads whole and at most {}, got {} / {}", keys.where, kMaxHeadWidth,
                     o.width, o.heads);
  const DecoderOptions& t = target.config().decoder;
  const auto as_target = [&](std::string_view key, int32_t expected) -> Result<int32_t> {
    SLIP_TRY(const int32_t got, keys.integer(key, expected, 1, 1 << 30));
    if (got == expected) return got;
    return bad_input("{}: {}: expected {} as in the target {}, got {}: a commit sampler for another target", keys.where, key,
                     expected, target.folder().string(), got);
  };
  SLIP_TRY(o.target_width, as_target("target_hidden_size", t.width));
  SLIP_TRY(o.target_vocab, as_target("target_vocab_size", t.vocab));
  return o;
}

CommitSamplerWeights::Layer read_layer(WeightReader& reader, const CommitSamplerOptions& o, const std::string& p) {
  const int64_t d = o.width, f = o.mlp_width;
  const auto part = [&](std::string_view name, std::vector<int64_t> shape) {
    return WeightReader::Part{fmt::format("{}{}", p, name), std::move(shape)};
  };
  CommitSamplerWeights::Layer w;
  w.norm1_D = reader.vector({part("norm1.weight", {d})});
  w.norm1_bias_D = reader.vector({part("norm1.bias", {d})});
  w.norm2_D = reader.vector({part("norm2.weight", {d})});
  w.norm2_bias_D = reader.vector({part("norm2.bias", {d})});
  w.qkv = reader.matrix(WeightType::kF32,
                        {part("q_proj.weight", {d, d}), part("k_proj.weight", {d, d}), part("v_proj.weight", {d, d})});
  w.qkv_bias = reader.vector({part("q_proj.bias", {d}), part("k_proj.bias", {d}), part("v_proj.bias", {d})});
  w.o = reader.matrix(WeightType::kF32, {part("o_proj.weight", {d, d})});
  w.o_bias = reader.vector({part("o_proj.bias", {d})});
  w.up = reader.matrix(WeightType::kF32, {part("ffn_up.weight", {f, d})});
  w.up_bias = reader.vector({part("ffn_up.bias", {f})});
  w.down = reader.matrix(WeightType::kF32, {part("ffn_down.weight", {d, f})});
  w.down_bias = reader.vector({part("ffn_down.bias", {d})});
  return w;
}

CommitSamplerWeights read_all(WeightReader& reader, const CommitSamplerOptions& o) {
  const int64_t d = o.width;
  CommitSamplerWeights w;
  w.pca_mean = reader.vector({{"pca.mean", {o.target_width}}});
  w.pca = reader.matrix(WeightType::kF32, {{"pca.components", {o.token_width, o.target_width}}});
  w.input = reader.matrix(WeightType::kF32, {{"input.weight", {d, o.inputs()}}});
  w.input_bias = reader.vector({{"input.bias", {d}}});
  w.positions_JD = reader.vector({{"positions.weight", {o.max_block, d}}});
  for (int32_t i = 0; i < o.layers; ++i) w.layers.push_back(read_layer(reader, o, fmt::format("layers.{}.", i)));
  w.norm_D = reader.vector({{"norm.weight", {d}}});
  w.norm_bias_D = reader.vector({{"norm.bias", {d}}});
  w.head = reader.matrix(WeightType::kF32, {{"head.weight", {1, d}}});
  w.head_bias = reader.vector({{"head.bias", {1}}});
  return w;
}

}  // namespace

std::string_view name_of(CommitStatistic s) { return kNames[static_cast<size_t>(s)]; }

Result<std::unique_ptr<LearnedCommitSampler>> load_commit_sampler(const fs::path& folder, Model& target) {
  const fs::path file = folder / "config.json";
  SLIP_TRY(const json::value value, read_json(file, size_t{1} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", file.string(), cut(value));
  SLIP_TRY(CommitSamplerOptions options, read_options({value.get_object(), file.string()}, target));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(folder));
  WeightReader reader(checkpoint, target.pool(), {});
  read_all(reader, options);
  SLIP_TRY_(reader.end_check());
  const size_t expected = 9 + 16 * static_cast<size_t>(options.layers);
  if (checkpoint.tensors().size() != expected)
    return bad_input("{}: expected the {} tensors of a commit sampler with {} layers, got {}", folder.string(), expected,
                     options.layers, checkpoint.tensors().size());
  CommitSamplerWeights weights = read_all(reader, options);
  SLIP_TRY_(reader.end_load());
  SLIP_TRY(const DecoderLm* decoder, target.need_decoder("a commit sampler"));
  return std::make_unique<LearnedCommitSampler>(folder.string(), std::move(options), std::move(weights), decoder->embedding(),
                                                target.pool());
}

}  // namespace slip
