// SPDX-License-Identifier: Apache-2.0
// Loading and running a trajectory head; formulas in flow_head.h.
#include "models/draft/flow_head.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "models/config/config_reader.h"
#include "models/loader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

struct Sizes {
  DecoderOptions decoder;
  int32_t encoder = 0, features = 0;
};

/// Layers and cache must be the target's, whose keys are read.
Result<Sizes> read_sizes(const Keys& keys, Model& target, FlowHeadInfo& info) {
  SLIP_TRY(const std::string type, keys.text("model_type", ""));
  if (type != "flow_head") return bad_input("{}: model_type: expected flow_head, got \"{}\"", keys.where, type);
  SLIP_TRY(DecoderLm * decoder, target.need_decoder("a trajectory head"));
  const DecoderOptions& t = decoder->options();
  Sizes s;
  DecoderOptions& o = s.decoder;
  o.name = "flow_head";
  const auto as_target = [&](std::string_view key, int32_t expected) -> Status {
    SLIP_TRY(const int32_t got, keys.integer(key, expected, 1, 1 << 20));
    if (got == expected) return {};
    return bad_input("{}: {}: expected {} as in the target {}, got {}: a trajectory head for another target", keys.where, key,
                     expected, target.folder().string(), got);
  };
  SLIP_TRY_(as_target("num_hidden_layers", t.layers));
  SLIP_TRY_(as_target("num_key_value_heads", t.kv_heads));
  SLIP_TRY_(as_target("head_dim", t.head_width));
  o.layers = t.layers;
  o.kv_heads = t.kv_heads;
  o.head_width = t.head_width;
  SLIP_TRY(o.width, keys.integer("hidden_size", t.width, 1, 1 << 16));
  SLIP_TRY(o.mlp_width, keys.integer("intermediate_size", t.mlp_width, 1, 1 << 18));
  SLIP_TRY(o.heads, keys.integer("num_attention_heads", t.heads, 1, 1 << 12));
  if (o.heads % o.kv_heads != 0)
    return bad_input("{}: num_attention_heads: expected a multiple of {}, got {}", keys.where, o.kv_heads, o.heads);
  SLIP_TRY(const double eps, keys.number("rms_norm_eps", 1e-6, 0, 1));
  o.norm_eps = static_cast<float>(eps);
  SLIP_TRY(o.rope.theta, keys.number("rope_theta", 1e4, 1, 1e12));
  o.rope.width = o.head_width;
  o.qk_norm = true;
  SLIP_TRY(info.rows, keys.integer("rows", 64, 1, 4096));
  SLIP_TRY(info.action, keys.integer("action_width", 3, 1, 64));
  SLIP_TRY(info.steps, keys.integer("euler_steps", 10, 1, 1000));
  SLIP_TRY(info.row_s, keys.number("row_s", 0.1, 1e-3, 10));
  SLIP_TRY(const std::string reads, keys.text("reads", "answer"));
  if (reads != "prompt" && reads != "answer" && reads != "sections")
    return bad_input("{}: reads: expected prompt, answer or sections, got \"{}\"", keys.where, reads);
  info.reads_answer = reads != "prompt";
  info.any_section = reads == "sections";
  SLIP_TRY(info.until, keys.text("until", ""));
  if (!info.reads_answer && !info.until.empty())
    return bad_input("{}: until: expected none for a head that reads the prompt alone, got \"{}\"", keys.where, info.until);
  SLIP_TRY(const std::string visibility, keys.text("visibility", "chain"));
  if (visibility != "chain" && visibility != "graph")
    return bad_input("{}: visibility: expected chain or graph, got \"{}\"", keys.where, visibility);
  info.visibility = visibility == "graph" ? Visibility::kGraph : Visibility::kChain;
  o.vocab = info.action;
  SLIP_TRY(s.encoder, keys.integer("encoder_width", 128, 1, 1 << 14));
  SLIP_TRY(s.features, keys.integer("fourier_features", 20, 2, 1024));
  if (s.features % 2 != 0)  // a sine and a cosine of each frequency
    return bad_input("{}: fourier_features: expected an even number, got {}", keys.where, s.features);
  return s;
}

Result<std::vector<double>> numbers_of(const Keys& keys, std::string_view key, int32_t count, double other) {
  std::vector<double> out(static_cast<size_t>(count), other);
  if (!keys.has(key)) return out;
  SLIP_TRY(const json::array* list, get_array(keys.object, key, keys.where));
  if (static_cast<int32_t>(list->size()) != count)
    return bad_input("{}: {}: expected {} numbers, got {}", keys.where, key, count, list->size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!(*list)[i].is_number()) return bad_input("{}: {}: expected numbers, got {}", keys.where, key, cut((*list)[i]));
    out[i] = (*list)[i].to_number<double>();
  }
  return out;
}

DecoderWeights read_layers(WeightReader& reader, const DecoderOptions& o) {
  DecoderWeights w;
  for (int32_t i = 0; i < o.layers; ++i)
    w.layers.push_back(read_layer(reader, o, fmt::format("expert.layers.{}.", i), WeightType::kF32));
  w.final_norm_D = reader.vector({{"expert.norm.weight", {o.width}}});
  w.head = std::make_shared<const PackedMatrix>(reader.matrix(WeightType::kF32, {{"action_out_proj.weight", {o.vocab, o.width}}}));
  w.embedding = w.head;  // never read: rows are features
  return w;
}

float silu(float x) { return x / (1 + std::exp(-x)); }

void rms_norm_row(std::vector<float>& x, const std::vector<float>& gain) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<double>(x[i]) * scale) * gain[i];
}

void layer_norm_row(std::vector<float>& x, const std::vector<float>& gain, const std::vector<float>& bias) {
  double mean = 0, squares = 0;
  for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(x.size());
  for (const float v : x) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((static_cast<double>(x[i]) - mean) * scale) * gain[i] + bias[i];
}

}  // namespace

Result<std::unique_ptr<FlowHead>> load_flow_head(const fs::path& folder, Model& target) {
  const fs::path file = folder / "config.json";
  SLIP_TRY(const json::value value, read_json(file, size_t{1} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", file.string(), cut(value));
  const Keys keys{value.get_object(), file.string()};
  std::unique_ptr<FlowHead> head(new FlowHead);
  head->target_ = &target;
  head->info_.name = folder.string();
  SLIP_TRY(const Sizes s, read_sizes(keys, target, head->info_));
  SLIP_TRY(head->mean_, numbers_of(keys, "action_mean", head->info_.action, 0));
  SLIP_TRY(head->deviation_, numbers_of(keys, "action_deviation", head->info_.action, 1));
  SLIP_TRY(const double top, keys.number("max_frequency", 100, 1, 1e6));
  const int32_t half = s.features / 2;
  for (int32_t i = 0; i < half; ++i)
    head->frequencies_.push_back(half == 1 ? 1 : std::pow(top, static_cast<double>(i) / (half - 1)));
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(folder));
  WeightReader reader(checkpoint, target.pool(), {});
  DecoderWeights weights;
  const auto read_all = [&] {
    const std::string trunk = "action_in_proj.encoder.trunk.";
    const auto linear = [&](const std::string& name, int32_t out, int32_t in) {
      const std::vector<float> rows = reader.vector({{name + ".weight", {out, in}}});
      FlowHead::Linear l{std::vector<float>(rows.size()), reader.vector({{name + ".bias", {out}}})};
      for (size_t i = 0; i < rows.size(); ++i)
        l.columns[i % static_cast<size_t>(in) * static_cast<size_t>(out) + i / static_cast<size_t>(in)] = rows[i];
      return l;
    };
    head->trunk0_ = linear(trunk + "0", s.encoder, (head->info_.action + 1) * s.features);
    head->norm2_ = reader.vector({{trunk + "2.weight", {s.encoder}}});
    head->trunk3_ = linear(trunk + "3", s.encoder, s.encoder);
    head->norm5_ = reader.vector({{trunk + "5.weight", {s.encoder}}});
    head->trunk6_ = linear(trunk + "6", s.decoder.width, s.encoder);
    head->norm_ = reader.vector({{"action_in_proj.norm.weight", {s.decoder.width}}});
    head->norm_bias_ = reader.vector({{"action_in_proj.norm.bias", {s.decoder.width}}});
    weights = read_layers(reader, s.decoder);
    head->out_bias_ = reader.vector({{"action_out_proj.bias", {head->info_.action}}});
  };
  read_all();
  SLIP_TRY_(reader.end_check());
  const size_t expected = 11 + 2 + 11 * static_cast<size_t>(s.decoder.layers);
  if (checkpoint.tensors().size() != expected)
    return bad_input("{}: expected the {} tensors of a trajectory head with {} layers, got {}", folder.string(), expected,
                     s.decoder.layers, checkpoint.tensors().size());
  const int32_t slots = target.lm().info().slots + head->info_.rows;
  MemoryNeed need;
  need.weights = reader.bytes_needed();
  need.cache =
      static_cast<int64_t>(KvArena::bytes_needed(s.decoder.layers, slots, s.decoder.kv_heads, s.decoder.head_width, KvType::kF32));
  SLIP_TRY_(check_memory(need, available_memory(), folder.string()));
  read_all();
  SLIP_TRY_(reader.end_load());
  SLIP_TRY(head->lm_, DecoderLm::create(s.decoder, std::move(weights), slots, target.pool()));
  return head;
}

Status FlowHead::read(std::span<const SlotSpan> slots, int32_t position) {
  const DecoderOptions& o = lm_->options();
  const KvArena& from = target_->decoder()->arena();
  int32_t rows = 0;
  for (const SlotSpan& s : slots) {
    if (s.begin < 0 || s.end < s.begin || s.end > from.slots())
      return resource_error("{}: expected slots of the target's cache below {}, got {} to {}", info_.name, from.slots(), s.begin,
                            s.end);
    rows += s.end - s.begin;
  }
  if (rows > from.slots())
    return resource_error("{}: expected at most {} rows of the target's cache, got {}", info_.name, from.slots(), rows);
  const auto n = static_cast<size_t>(o.kv_heads) * static_cast<size_t>(o.head_width);
  std::vector<float> keys(n), values(n);
  for (int32_t layer = 0; layer < o.layers; ++layer) {
    int32_t row = 0;
    for (const SlotSpan& s : slots)
      for (int32_t slot = s.begin; slot < s.end; ++slot, ++row) {
        from.load(layer, slot, keys.data(), values.data());
        lm_->arena().store(layer, row, keys.data(), values.data());
      }
  }
  prefix_ = rows;
  position_ = position;
  return {};
}

std::vector<float> FlowHead::encoded(std::span<const float> x, double t) const {
  const auto apply = [](const Linear& l, const std::vector<float>& in) {
    std::vector<float> y(l.bias);
    // Each sum adds in the order of its inputs; side by side, they fill a register.
    std::vector<double> sum(y.size(), 0);
    for (size_t k = 0; k < in.size(); ++k) {
      const float* column = l.columns.data() + k * y.size();
      for (size_t i = 0; i < y.size(); ++i) sum[i] += static_cast<double>(column[i]) * static_cast<double>(in[k]);
    }
    for (size_t i = 0; i < y.size(); ++i) y[i] += static_cast<float>(sum[i]);
    return y;
  };
  std::vector<float> out;
  const auto A = static_cast<size_t>(info_.action);
  for (size_t r = 0; r < static_cast<size_t>(info_.rows); ++r) {
    std::vector<float> u;
    for (size_t k = 0; k <= A; ++k) {
      const double y = k < A ? static_cast<double>(x[r * A + k]) : t;
      for (const double f : frequencies_)
        u.push_back(static_cast<float>(std::numbers::sqrt2 * std::sin(2 * std::numbers::pi * f * y)));
      for (const double f : frequencies_)
        u.push_back(static_cast<float>(std::numbers::sqrt2 * std::cos(2 * std::numbers::pi * f * y)));
    }
    std::vector<float> h = apply(trunk0_, u);
    for (float& v : h) v = silu(v);
    rms_norm_row(h, norm2_);
    h = apply(trunk3_, h);
    for (float& v : h) v = silu(v);
    rms_norm_row(h, norm5_);
    h = apply(trunk6_, h);
    layer_norm_row(h, norm_, norm_bias_);
    out.insert(out.end(), h.begin(), h.end());
  }
  return out;
}

Status FlowHead::velocity(std::span<const float> x, double t, std::vector<float>& v) {
  const auto A = static_cast<size_t>(info_.action), R = static_cast<size_t>(info_.rows);
  if (x.size() != R * A) return bad_input("{}: expected {} x {} numbers, got {}", info_.name, R, A, x.size());
  const std::vector<float> features = encoded(x, t);
  std::vector<Row> rows;
  rows.reserve(R);
  const std::vector<SlotSpan> spans{{0, prefix_ + info_.rows}};
  for (int32_t r = 0; r < info_.rows; ++r)
    rows.push_back({.input = Feature{r},
                    .position = Position::text(position_ + r),
                    .slot = prefix_ + r,
                    .sees_first = 0,
                    .sees_count = 1,
                    .want = Want::kLogits});
  SLIP_TRY_(lm_->forward({.rows = rows, .spans = spans, .features = features}, out_));
  v.assign(out_.logits_NV.begin(), out_.logits_NV.end());
  for (size_t i = 0; i < v.size(); ++i) v[i] += out_bias_[i % A];
  return {};
}

std::vector<float> FlowHead::noise_of(uint64_t seed) const {
  PhiloxStream draw(seed, 0);
  std::vector<float> out(static_cast<size_t>(info_.rows * info_.action));
  for (size_t i = 0; i < out.size(); i += 2) {
    const double r = std::sqrt(-2 * std::log(1 - draw.uniform())), angle = 2 * std::numbers::pi * draw.uniform();
    out[i] = static_cast<float>(r * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(r * std::sin(angle));
  }
  return out;
}

Status FlowHead::sample(std::span<const float> noise, std::vector<float>& action, const CancelToken& cancel) {
  std::vector<float> x(noise.begin(), noise.end()), v;
  for (int32_t k = 0; k < info_.steps; ++k) {
    SLIP_TRY_(cancel.check("trajectory head", k, "steps"));
    SLIP_TRY_(velocity(x, static_cast<double>(k) / info_.steps, v));
    for (size_t i = 0; i < x.size(); ++i) x[i] += v[i] / static_cast<float>(info_.steps);
  }
  const auto A = static_cast<size_t>(info_.action);
  action.clear();
  for (size_t i = 0; i < x.size(); ++i)
    action.push_back(static_cast<float>(static_cast<double>(x[i]) * deviation_[i % A] + mean_[i % A]));
  return {};
}

}  // namespace slip
