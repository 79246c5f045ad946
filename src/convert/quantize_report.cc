// SPDX-License-Identifier: Apache-2.0
// What packing cost: outputs compared on texts, and the report as JSON and as a table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "convert/quantize.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// A few kinds of text that driving models read and write. The first 64 tokens of each count.
constexpr std::string_view kTexts[] = {
    "The ego vehicle approaches a signalised intersection at 8.4 m/s. A pedestrian is waiting at the crosswalk on the right, and "
    "the "
    "light ahead has just turned yellow, so the plan is to slow down and stop before the line.",
    "{\"critical_objects\": {\"pedestrian\": \"yes\", \"cyclist\": \"no\"}, \"trajectory\": [[+08.12, -00.04], [+15.90, -00.11], "
    "[+22.71, -00.20], [+28.03, -00.31]]}",
    "Two lanes merge into one behind the construction site. The truck in front brakes; keep a distance of at least two seconds, do "
    "not "
    "change lanes, and follow once it moves again.",
    "What action should the robot take to pick up the black bowl and put it on the plate? Move forward ten centimetres, lower the "
    "gripper, close it, and lift.",
};
constexpr size_t kTokensPerText = 64;

std::vector<std::vector<TokenId>> texts_of(const Model& model) {
  std::vector<std::vector<TokenId>> out;
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    std::vector<TokenId> ids;
    if (const Tokenizer* tokenizer = model.tokenizer()) {
      if (auto encoded = tokenizer->encode(kTexts[i])) ids = std::move(*encoded);
    }
    const int32_t vocab = model.config().decoder.vocab;
    const bool usable = ids.size() > 1 && std::all_of(ids.begin(), ids.end(), [&](TokenId t) { return t.value < vocab; });
    if (!usable) {
      ids.clear();
      PhiloxStream numbers(17, i);
      for (size_t t = 0; t < kTokensPerText; ++t)
        ids.push_back({static_cast<int32_t>(numbers.below(static_cast<uint32_t>(vocab)))});
    }
    ids.resize(std::min(ids.size(), kTokensPerText));
    out.push_back(std::move(ids));
  }
  return out;
}

// What one model computes on the texts.
struct Outputs {
  std::vector<std::vector<float>> layers;  // per layer: T x D over all texts
  std::vector<float> logits_TV;
  int64_t vocab = 0;
};

Result<Outputs> run_texts(const fs::path& folder, WeightType type, int threads, const LoadProgress& loading) {
  ModelOptions options{type, threads, static_cast<int>(kTokensPerText)};
  options.draft_adapter = "none";
  SLIP_TRY(const std::unique_ptr<Model> model, load_model(folder, options, loading));
  Outputs out;
  out.vocab = model->config().decoder.vocab;
  out.layers.resize(static_cast<size_t>(model->config().decoder.layers));
  model->decoder()->set_tap([&](std::string_view name, std::span<const float> x, int64_t) {
    if (!name.starts_with("layer_")) return;
    const size_t layer = std::stoul(std::string(name.substr(6)));
    out.layers.at(layer).insert(out.layers.at(layer).end(), x.begin(), x.end());
  });
  PassOutput pass;
  int64_t texts = 0;
  for (const std::vector<TokenId>& ids : texts_of(*model)) {
    SLIP_TRY_(loading.cancel.check("comparing", texts++, "texts"));
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t slot = static_cast<int32_t>(i);
      rows.push_back({ids[i], Position::text(slot), slot, static_cast<uint32_t>(i), 1, Want::kLogits});
      spans.push_back({0, slot + 1});
    }
    SLIP_TRY_(model->lm().forward({.rows = rows, .spans = spans}, pass));
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto line = pass.logits_V(i);
      out.logits_TV.insert(out.logits_TV.end(), line.begin(), line.end());
    }
  }
  return out;
}

double relative_error(std::span<const float> reference, std::span<const float> other) {
  double error = 0, power = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(other[i]) - reference[i];
    error += d * d;
    power += static_cast<double>(reference[i]) * reference[i];
  }
  return power > 0 ? std::sqrt(error / power) : 0;
}

double log_sum_exp(std::span<const float> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float v : x) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

double divergence(std::span<const float> p_V, std::span<const float> q_V) {
  const double p0 = log_sum_exp(p_V), q0 = log_sum_exp(q_V);
  double sum = 0;
  for (size_t v = 0; v < p_V.size(); ++v) sum += std::exp(p_V[v] - p0) * ((p_V[v] - p0) - (q_V[v] - q0));
  return std::max(0.0, sum);
}

// The types of a report's matrices, with the mean and the largest of their errors.
struct TypeErrors {
  int64_t count = 0;
  double sum = 0, largest = -1;
  std::string worst;
};

std::map<WeightType, TypeErrors> by_type(const std::vector<MatrixError>& matrices) {
  std::map<WeightType, TypeErrors> out;
  for (const MatrixError& m : matrices) {
    TypeErrors& t = out[m.type];
    ++t.count;
    t.sum += m.relative;
    if (m.relative <= t.largest) continue;
    t.largest = m.relative;
    t.worst = m.name;
  }
  return out;
}

std::string agreement_text(const json::object& a) {
  const auto percent = [&](const char* key) { return 100 * a.at(key).to_number<double>(); };
  return fmt::format(
      "\ngreedy answers to {} simulated records, packed beside bf16: the same\n{:<10} {:>6.1f} %\n{:<10} {:>6.1f} %\n{:<10} "
      "{:>6.1f} %\n"
      "waypoints lie {:.2f} m apart in the mean\n",
      a.at("records").to_number<int64_t>(), "answers", percent("same_answers"), "fields", percent("same_fields"), "tokens",
      percent("same_tokens"), a.at("waypoint_distance_m").to_number<double>());
}

}  // namespace

Result<OutputError> compare_outputs(const fs::path& reference, WeightType reference_type, const fs::path& packed, WeightType type,
                                    int threads, const LoadProgress& loading) {
  SLIP_TRY(const Outputs a, run_texts(reference, reference_type, threads, loading));
  SLIP_TRY(const Outputs b, run_texts(packed, type, threads, loading));
  OutputError out;
  for (size_t i = 0; i < a.layers.size(); ++i) out.layers.push_back(relative_error(a.layers[i], b.layers[i]));
  out.logits = relative_error(a.logits_TV, b.logits_TV);
  const size_t v = static_cast<size_t>(a.vocab), tokens = a.logits_TV.size() / v;
  int64_t same = 0;
  for (size_t t = 0; t < tokens; ++t) {
    const std::span p = std::span(a.logits_TV).subspan(t * v, v), q = std::span(b.logits_TV).subspan(t * v, v);
    same += argmax(p) == argmax(q);
    out.kl += divergence(p, q) / static_cast<double>(tokens);
    for (size_t i = 0; i < v; ++i) out.logits_largest = std::max(out.logits_largest, std::fabs(static_cast<double>(p[i]) - q[i]));
  }
  out.tokens = static_cast<int64_t>(tokens);
  out.top1 = static_cast<double>(same) / static_cast<double>(tokens);
  return out;
}

json::object QuantizeReport::json() const {
  json::object matrices_json;
  for (const MatrixError& m : matrices) matrices_json[m.name] = m.relative;
  json::object out{{"relative_error_of_matrices", std::move(matrices_json)},
                   {"source_bytes", source_bytes},
                   {"packed_bytes", packed_bytes},
                   {"seconds", seconds}};
  if (output) {
    json::array layers;
    for (const double e : output->layers) layers.emplace_back(e);
    out["against_bf16"] = {{"tokens", output->tokens},
                           {"relative_error_of_layers", std::move(layers)},
                           {"relative_error_of_logits", output->logits},
                           {"largest_difference_of_logits", output->logits_largest},
                           {"same_top1", output->top1},
                           {"kl", output->kl}};
  }
  if (!agreement.empty()) out["greedy_answers"] = agreement;
  return out;
}

std::string QuantizeReport::text() const {
  std::string out = fmt::format("{:.0f} MB -> {:.0f} MB in {:.1f} s\n\n{:<8} {:>9} {:>11} {:>11}  {}\n", source_bytes / 1048576.0,
                                packed_bytes / 1048576.0, seconds, "type", "matrices", "mean error", "largest", "of");
  for (const auto& [type, t] : by_type(matrices))
    out += fmt::format("{:<8} {:>9} {:>11.5f} {:>11.5f}  {}\n", word_of_type(type), t.count, t.sum / static_cast<double>(t.count),
                       t.largest, t.worst);
  if (output) {
    out += fmt::format("\nagainst bf16 on {} tokens: error relative to the output's root mean square\n", output->tokens);
    for (size_t i = 0; i < output->layers.size(); ++i)
      out += fmt::format("layer {:<3} {:.5f}{}", i, output->layers[i], i % 4 == 3 || i + 1 == output->layers.size() ? "\n" : "   ");
    out += fmt::format("logits    {:.5f}, largest difference {:.3f}, same likeliest token {:.1f} %, KL {:.5f}\n", output->logits,
                       output->logits_largest, 100 * output->top1, output->kl);
  }
  if (!agreement.empty()) out += agreement_text(agreement);
  return out;
}

}  // namespace slip
