// SPDX-License-Identifier: Apache-2.0
// See head_learner.h.
#include "train/loop/learners/head_learner.h"

#include <algorithm>

#include "core/safetensors.h"
#include "train/parallel/shard_sum.h"

namespace slip {
namespace {

constexpr const char* kWhere = "objective";

/// The text part of a target's config.
const json::object& text_of(const json::object& config) {
  const json::value* nested = config.if_contains("text_config");
  return nested != nullptr && nested->is_object() ? nested->get_object() : config;
}

}  // namespace

Status HeadLearner::start(bool) {
  constexpr double kDeviation = 0.02;
  random_weights(table(), c_.seed, kDeviation, values());
  return {};
}

Status HeadLearner::load_target() {
  constexpr int64_t kMostScenes = 1 << 20;
  SLIP_TRY(scenes_, whole("scenes", 0, 0, kMostScenes));
  SLIP_TRY(target_, Target::load(c_.target, c_.threads));
  return {};
}

Result<LearnedStep> HeadLearner::in_shards(const std::function<Result<Sums>(int64_t first, int64_t last)>& part) {
  enum Number : size_t { kLoss, kCount };
  const int64_t samples = samples_of_step();
  ShardSum sum(*c_.processes, c_.range());
  for (int64_t shard = sum.range().first; shard < sum.range().last; ++shard) {
    network().clear_gradients();
    const int64_t first = sum.range().sample_begin(shard, samples), last = sum.range().sample_begin(shard + 1, samples);
    const Result<Sums> sums = first < last ? part(first, last) : Sums{};
    if (!sums) return sum.fail(sums.error());
    ShardSum::Numbers numbers{};
    numbers[kLoss] = sums->loss, numbers[kCount] = sums->count;
    sum.add(gradients(), numbers);
  }
  SLIP_TRY(const ShardSum::Numbers all, sum.finish(gradients()));
  const double count = all[kCount] > 0 ? all[kCount] : 1;  // nothing to learn: the gradient is 0
  for (float& g : gradients()) g = static_cast<float>(g / count);
  return LearnedStep{.loss = all[kLoss] / count, .noisy = all[kLoss] / count, .samples = samples};
}

int64_t HeadLearner::index_of(int64_t step, int64_t i) const {
  if (step == 0) return c_.validation.first_sample + i;
  const int64_t number = (step - 1) * samples_of_step() + i;
  return c_.first_sample + (scenes_ > 0 ? number % scenes_ : number);
}

Result<Sample> HeadLearner::sample(int64_t step, int64_t i) {
  SLIP_TRY(Sample s, source_.get(index_of(step, i)));
  SLIP_TRY_(check_sample(s));
  return s;
}

PhiloxStream HeadLearner::stream(int64_t step, int64_t i, uint32_t purpose) const {
  return noise_stream({c_.seed, 0, static_cast<uint32_t>(step), static_cast<uint32_t>(i)}, purpose);
}

Status HeadLearner::only_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : c_.head) {
    const std::string_view name(key.data(), key.size());
    if (name != "kind" && name != "scenes" && std::find(known.begin(), known.end(), name) == known.end())
      return bad_input("{}: expected a known key of kind \"{}\", got \"{}\"", kWhere, word_of(c_.objective), name);
  }
  return {};
}

Result<int32_t> HeadLearner::whole(std::string_view key, int64_t other, int64_t least, int64_t most) const {
  SLIP_TRY(const int64_t n, int_or(c_.head, key, other, kWhere));
  if (n < least || n > most) return bad_input("{}: {}: expected {} to {}, got {}", kWhere, key, least, most, n);
  return static_cast<int32_t>(n);
}

Result<double> HeadLearner::real(std::string_view key, double other, double least, double most) const {
  SLIP_TRY(const double x, number_or(c_.head, key, other, kWhere));
  if (!(x >= least && x <= most)) return bad_input("{}: {}: expected {} to {}, got {}", kWhere, key, least, most, x);
  return x;
}

Result<Qwen3Shape> HeadLearner::qwen3_shape(int32_t layers) const {
  const json::object& text = text_of(c_.model);
  const std::string where = c_.target + "/config.json";
  Qwen3Shape s;
  const auto own = [&](std::string_view key, std::string_view of_target, int64_t other) -> Result<int32_t> {
    SLIP_TRY(const int64_t as_target, int_or(text, of_target, other, where));
    return whole(key, as_target, 1, 1 << 16);
  };
  s.layers = layers;
  SLIP_TRY(const int64_t hidden, get_int(text, "hidden_size", where));
  s.hidden = static_cast<int32_t>(hidden);
  SLIP_TRY(s.heads, own("heads", "num_attention_heads", 1));
  SLIP_TRY(s.kv_heads, own("kv_heads", "num_key_value_heads", s.heads));
  SLIP_TRY(const int64_t target_heads, int_or(text, "num_attention_heads", s.heads, where));
  SLIP_TRY(s.head_dim, own("head_dim", "head_dim", hidden / std::max<int64_t>(1, target_heads)));
  SLIP_TRY(s.ffn, own("intermediate_size", "intermediate_size", 4 * hidden));
  if (s.heads % s.kv_heads != 0 || s.head_dim % 2 != 0)
    return bad_input("{}: expected heads a multiple of kv_heads and an even head_dim, got {}, {} and {}", kWhere, s.heads,
                     s.kv_heads, s.head_dim);
  return s;
}

Result<Constant> HeadLearner::tensor(std::initializer_list<std::string> names) const {
  SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(c_.target));
  for (const std::string& name : names)
    if (const TensorView* t = stored.find(name)) return Constant{read_as_f32(*t), t->shape};
  return bad_input("{}: expected a tensor {}, got none of that name", c_.target, *names.begin());
}

Result<Constant> HeadLearner::embedding() const {
  return tensor({"model.embed_tokens.weight", "model.language_model.embed_tokens.weight"});
}

Result<Constant> HeadLearner::head() const {
  SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(c_.target));
  return stored.has("lm_head.weight") ? tensor({"lm_head.weight"}) : embedding();
}

Status HeadLearner::save(const std::filesystem::path& file, std::span<const float> values,
                         const std::vector<std::pair<std::string, const Constant*>>& more) const {
  const bool narrow = c_.store == StoreAs::kBF16;
  std::vector<std::vector<BF16>> kept;
  std::vector<TensorToWrite> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, std::span<const float> x) {
    if (!narrow) {
      tensors.push_back({name, DType::kF32, shape, std::as_bytes(x)});
      return;
    }
    auto& to = kept.emplace_back();
    for (const float v : x) to.push_back(to_bf16(v));
    tensors.push_back({name, DType::kBF16, shape, std::as_bytes(std::span(to))});
  };
  kept.reserve(table().parameters.size() + more.size());
  for (const Parameter& p : table().parameters)
    add(p.name, p.shape, values.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.count)));
  for (const auto& [name, constant] : more) add(name, constant->shape, constant->numbers);
  return write_safetensors(file, tensors);
}

}  // namespace slip
