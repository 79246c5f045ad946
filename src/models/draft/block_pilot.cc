// SPDX-License-Identifier: Apache-2.0
#include "models/draft/block_pilot.h"

#include <algorithm>
#include <vector>

#include "base/content_hash.h"
#include "base/log.h"
#include "core/safetensors.h"
#include "models/config/config_reader.h"

namespace slip {
namespace {

struct Linear {
  const TensorView* weight = nullptr;
  std::vector<float> bias;
};

std::vector<float> product(const Linear& l, std::span<const float> x) {
  std::vector<float> y(l.bias), row(x.size());
  for (size_t o = 0; o < y.size(); ++o) {
    read_as_f32(*l.weight, static_cast<int64_t>(o * x.size()), row);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(row[i]) * static_cast<double>(x[i]);
    y[o] += static_cast<float>(sum);
  }
  return y;
}

class PublishedPilot : public BlockPilot {
 public:
  static Result<std::unique_ptr<BlockPilot>> open(const std::filesystem::path& path);
  int32_t vocab() const override { return vocab_; }
  int32_t classes() const override { return classes_; }
  int32_t pick(std::span<const float> logits_V) const override {
    std::vector<float> x(logits_V.begin(), logits_V.begin() + vocab_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      std::vector<float> y = product(layers_[i], x);
      for (size_t k = 0; k < y.size(); ++k) y[k] = std::max(y[k], 0.0F) + (i > 0 ? x[k] : 0.0F);
      x = std::move(y);
    }
    const std::vector<float> y = product(out_, x);
    return static_cast<int32_t>(std::max_element(y.begin(), y.end()) - y.begin());
  }

 private:
  Checkpoint files_;
  std::vector<Linear> layers_;
  Linear out_;
  int32_t vocab_ = 0, classes_ = 0;
};

Result<std::unique_ptr<BlockPilot>> PublishedPilot::open(const std::filesystem::path& path) {
  auto p = std::make_unique<PublishedPilot>();
  if (std::filesystem::is_directory(path)) {
    SLIP_TRY(p->files_, Checkpoint::open_folder(path));
  } else {
    SLIP_TRY(p->files_, Checkpoint::open_file(path));
  }
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) -> Result<Linear> {
    Linear l;
    const int64_t shape[] = {out, in};
    SLIP_TRY(l.weight, p->files_.get(name + ".weight", shape));
    const int64_t rows[] = {l.weight->shape[0]};
    SLIP_TRY(const TensorView* bias, p->files_.get(name + ".bias", rows));
    if (!all_finite(*l.weight) || !all_finite(*bias))
      return bad_input("{}: {}: expected finite numbers, got NaN or infinity", path.string(), name);
    l.bias = read_as_f32(*bias);
    return l;
  };
  int64_t width = -1;
  do {
    SLIP_TRY(Linear l, linear(fmt::format("layers.{}", p->layers_.size()), width, width));
    if (width < 0) p->vocab_ = static_cast<int32_t>(l.weight->shape[1]);
    width = l.weight->shape[0];
    p->layers_.push_back(std::move(l));
  } while (p->files_.has(fmt::format("layers.{}.weight", p->layers_.size())));
  SLIP_TRY(p->out_, linear("fc_out", -1, width));
  p->classes_ = static_cast<int32_t>(p->out_.bias.size());
  if (p->vocab_ < 1 || p->classes_ < 1)
    return bad_input("{}: expected at least 1 input and 1 class, got {} and {}", path.string(), p->vocab_, p->classes_);
  return std::unique_ptr<BlockPilot>(std::move(p));
}

}  // namespace

Result<std::unique_ptr<BlockPilot>> load_block_pilot(const std::filesystem::path& path) { return PublishedPilot::open(path); }

json::object block_pilot_marks(const Model& target) {
  const DecoderOptions& d = target.config().decoder;
  json::object marks{{"target_vocab_size", d.vocab}, {"target_hidden_size", d.width}, {"target_num_hidden_layers", d.layers}};
  if (const Tokenizer* t = target.tokenizer()) {
    uint64_t h = kFnvStart;
    for (int32_t id = 0; id < t->size(); ++id) h = fnv1a(std::string_view("\0", 1), fnv1a(t->token_text(TokenId{id}), h));
    marks["target_tokenizer"] = fmt::format("{:016x}", h);
  }
  return marks;
}

Status check_block_pilot(const std::filesystem::path& path, const BlockPilot& pilot, const Model& target) {
  constexpr size_t kMostConfigBytes = size_t{1} << 20;  // the trainer's has 300
  const std::string model = target.folder().string();
  std::error_code ec;
  bool marked = false;
  if (const auto file = path / "config.json"; std::filesystem::is_regular_file(file, ec)) {
    SLIP_TRY(const json::value config, read_json(file, kMostConfigBytes));
    if (!config.is_object()) return bad_input("{}: expected an object, got {}", file.string(), cut(config));
    for (const auto& [key, wanted] : block_pilot_marks(target)) {
      const json::value* got = config.get_object().if_contains(key);
      marked |= got != nullptr;
      if (got && *got != wanted)
        return bad_input("{}: {}: expected {} as in the target {}, got {}: a block pilot for another target", file.string(),
                         std::string_view(key), cut(wanted), model, cut(*got));
    }
  }
  const int32_t most = target.config().decoder.vocab, least = target.tokenizer() ? std::min(most, target.tokenizer()->size()) : 1;
  if (pilot.vocab() >= least && pilot.vocab() <= most) {
    const bool own = std::filesystem::equivalent(std::filesystem::absolute(path, ec).parent_path(), target.folder(), ec);
    if (!marked && !own)
      log(LogLevel::kWarn, "{}: expected a classifier that says whose it is, got one without: is it of {}?", path.string(), model);
    return {};
  }
  return bad_input(
      "{}: expected a classifier that reads {} to {} logits, the tokens and rows of the target {}, got one that reads {}",
      path.string(), least, most, model, pilot.vocab());
}

}  // namespace slip
