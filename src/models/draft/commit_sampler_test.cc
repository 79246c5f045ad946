// SPDX-License-Identifier: Apache-2.0
// The commit sampler against its formulas written out in double precision, over random weights in a folder of its own.
#include "models/draft/commit_sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "base/file.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kTarget = fs::path(SLIP_FIXTURES) / "models/qwen3";

using Tensors = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>>;
using Matrix = std::vector<std::vector<double>>;

// 3 x 6 + 12 = 30 inputs, heads of 16.
constexpr int kWidth = 48, kLayers = 4, kHeads = 3, kMlp = 80, kMaxBlock = 8, kTokenWidth = 6, kEmbedded = 48, kVocab = 300;

json::object config() {
  return {
      {"model_type", "commit_sampler"}, {"hidden_size", kWidth},  {"num_hidden_layers", kLayers}, {"num_attention_heads", kHeads},
      {"intermediate_size", kMlp},      {"max_block", kMaxBlock}, {"token_width", kTokenWidth},   {"target_hidden_size", kEmbedded},
      {"target_vocab_size", kVocab},    {"threshold", 0.75}};
}

Tensors random_tensors(int inputs) {
  std::mt19937 dice(5);
  Tensors tensors;
  const auto make = [&](const std::string& name, std::vector<int64_t> shape, float centre, float spread) {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = centre + spread * (static_cast<float>(dice() % 2001) / 1000 - 1);
    tensors[name] = {std::move(shape), std::move(values)};
  };
  const auto linear = [&](const std::string& name, int64_t n, int64_t k) {
    make(name + ".weight", {n, k}, 0, 2 / std::sqrt(static_cast<float>(k)));
    make(name + ".bias", {n}, 0, 0.3F);
  };
  const auto norm = [&](const std::string& name) {
    make(name + ".weight", {kWidth}, 1, 0.3F);
    make(name + ".bias", {kWidth}, 0, 0.3F);
  };
  make("pca.mean", {kEmbedded}, 0, 0.1F);
  make("pca.components", {kTokenWidth, kEmbedded}, 0, 1);
  linear("input", kWidth, inputs);
  make("positions.weight", {kMaxBlock, kWidth}, 0, 1);
  for (int i = 0; i < kLayers; ++i) {
    const std::string p = fmt::format("layers.{}.", i);
    norm(p + "norm1");
    norm(p + "norm2");
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) linear(p + name, kWidth, kWidth);
    linear(p + "ffn_up", kMlp, kWidth);
    linear(p + "ffn_down", kWidth, kMlp);
  }
  norm("norm");
  linear("head", 1, kWidth);
  return tensors;
}

// ---- the formulas, in double ----

struct Reference {
  const Tensors& t;
  const PackedMatrix& embedding;

  double at(const std::string& name, int64_t i) const { return t.at(name).second[static_cast<size_t>(i)]; }
  Matrix linear(const std::string& name, const Matrix& x) const {
    const int64_t n = t.at(name + ".weight").first[0], k = t.at(name + ".weight").first[1];
    Matrix y;
    for (const auto& row : x) {
      auto& out = y.emplace_back();
      for (int64_t i = 0; i < n; ++i) {
        double sum = at(name + ".bias", i);
        for (int64_t j = 0; j < k; ++j) sum += at(name + ".weight", i * k + j) * row[static_cast<size_t>(j)];
        out.push_back(sum);
      }
    }
    return y;
  }
  Matrix norm(const std::string& name, Matrix x) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / kWidth;
      for (const double v : row) variance += (v - mean) * (v - mean) / kWidth;
      for (size_t d = 0; d < row.size(); ++d)
        row[d] = (row[d] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", static_cast<int64_t>(d)) +
                 at(name + ".bias", static_cast<int64_t>(d));
    }
    return x;
  }
  static void add(Matrix& x, const Matrix& y) {
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t d = 0; d < x[j].size(); ++d) x[j][d] += y[j][d];
  }
  Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v) const {
    constexpr size_t kHead = kWidth / kHeads;
    Matrix out(q.size(), std::vector<double>(kWidth, 0));
    for (size_t h = 0; h < kHeads; ++h)
      for (size_t i = 0; i < q.size(); ++i) {
        std::vector<double> weight;
        double total = 0;
        for (size_t j = 0; j < k.size(); ++j) {
          double score = 0;
          for (size_t d = h * kHead; d < (h + 1) * kHead; ++d) score += q[i][d] * k[j][d];
          weight.push_back(std::exp(score / std::sqrt(double{kHead})));
          total += weight.back();
        }
        for (size_t j = 0; j < k.size(); ++j)
          for (size_t d = h * kHead; d < (h + 1) * kHead; ++d) out[i][d] += weight[j] / total * v[j][d];
      }
    return out;
  }
  std::vector<double> token(TokenId id) const {
    std::vector<float> e(kEmbedded);
    embedding.row(id.value, e);
    std::vector<double> out;
    for (int64_t i = 0; i < kTokenWidth; ++i) {
      double sum = 0;
      for (int64_t d = 0; d < kEmbedded; ++d)
        sum += at("pca.components", i * kEmbedded + d) * (double{e[static_cast<size_t>(d)]} - at("pca.mean", d));
      out.push_back(sum);
    }
    return out;
  }
  std::vector<double> inputs(std::span<const CommitPlace> block, size_t j) const {
    const CommitPlace& p = block[j];
    std::vector<double> in;
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<double> one = token(p.top[i]);
      for (const double v : one) in.push_back(p.masked || i == 0 ? v : 0);
    }
    double masked = 0, left = 0;
    for (size_t i = 0; i < block.size(); ++i) masked += block[i].masked;
    for (size_t i = 0; i < j; ++i) left += block[i].masked;
    const double p1 = p.masked ? p.probability[0] : 1, p2 = p.masked ? p.probability[1] : 0, p3 = p.masked ? p.probability[2] : 0;
    const double l1 = std::log(std::max(p1, 1e-6)), l2 = std::log(std::max(p2, 1e-6));
    for (const double s : {p1, p2, p3, p1 - p2, p1 + p2 + p3, p.masked ? double{p.entropy} : 0.0, l1, l1 - l2, p.masked ? 1.0 : 0.0,
                           static_cast<double>(j) / kMaxBlock, masked / static_cast<double>(block.size()),
                           j == 0 ? 0.0 : left / static_cast<double>(j)})
      in.push_back(s);
    return in;
  }
  std::vector<double> run(std::span<const CommitPlace> block) const {
    Matrix in;
    for (size_t j = 0; j < block.size(); ++j) in.push_back(inputs(block, j));
    Matrix x = linear("input", in);
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t d = 0; d < kWidth; ++d) x[j][d] += at("positions.weight", static_cast<int64_t>(j * kWidth + d));
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("layers.{}.", i);
      const Matrix a = norm(p + "norm1", x);
      add(x, linear(p + "o_proj", attend(linear(p + "q_proj", a), linear(p + "k_proj", a), linear(p + "v_proj", a))));
      Matrix hidden = linear(p + "ffn_up", norm(p + "norm2", x));
      for (auto& row : hidden)
        for (double& v : row) v = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
      add(x, linear(p + "ffn_down", hidden));
    }
    std::vector<double> out;
    const Matrix logits = linear("head", norm("norm", x));
    for (size_t j = 0; j < block.size(); ++j) out.push_back(block[j].masked ? 1 / (1 + std::exp(-logits[j][0])) : 0);
    return out;
  }
};

std::vector<CommitPlace> random_block(size_t n, unsigned seed) {
  std::mt19937 dice(seed);
  std::vector<CommitPlace> block(n);
  for (CommitPlace& p : block) {
    for (TokenId& id : p.top) id.value = static_cast<int32_t>(dice() % kVocab);
    const float p1 = 0.34F + static_cast<float>(dice() % 600) / 1000;
    p.probability = {p1, (1 - p1) * 0.5F, (1 - p1) * 0.25F};
    p.entropy = static_cast<float>(dice() % 500) / 100;
    p.masked = dice() % 4 != 0;
  }
  return block;
}

struct Sampler : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("slip_commit_" + std::to_string(getpid()));
  std::unique_ptr<Model> target = std::move(*load_model(kTarget, {WeightType::kF32, 2, 16}));
  Tensors tensors = random_tensors(3 * kTokenWidth + kCommitStatistics);

  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
    write(config(), tensors);
  }
  void TearDown() override { fs::remove_all(folder); }
  void write(const json::object& config, const Tensors& tensors) {
    ASSERT_TRUE(write_file(folder / "config.json", pretty(config)));
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, DType::kF32, tensor.first, std::as_bytes(std::span(tensor.second))});
    ASSERT_TRUE(write_safetensors(folder / "model.safetensors", list));
  }
  void expect_refused(std::string_view word) {
    const auto sampler = load_commit_sampler(folder, *target);
    ASSERT_FALSE(sampler);
    EXPECT_EQ(sampler.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(sampler.error().message.find(word), std::string::npos) << sampler.error().message;
  }
};

TEST_F(Sampler, ProbabilitiesAreTheFormulasOfTheFolder) {
  const auto sampler = load_commit_sampler(folder, *target);
  ASSERT_TRUE(sampler) << sampler.error().message;
  EXPECT_EQ((*sampler)->info().threshold, 0.75F);
  EXPECT_EQ((*sampler)->info().max_block, kMaxBlock);
  const Reference reference{tensors, *target->decoder()->embedding()};
  std::vector<float> probability;
  double low = 1, high = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<CommitPlace> block = random_block(1 + seed % kMaxBlock, seed);
    ASSERT_TRUE((*sampler)->probabilities(block, probability));
    const std::vector<double> expected = reference.run(block);
    ASSERT_EQ(probability.size(), expected.size());
    for (size_t j = 0; j < expected.size(); ++j) {
      EXPECT_NEAR(probability[j], expected[j], 2e-5 * (1 + expected[j])) << seed << ' ' << j;
      if (!block[j].masked) continue;
      low = std::min(low, expected[j]);
      high = std::max(high, expected[j]);
    }
  }
  EXPECT_LT(low, 0.3);
  EXPECT_GT(high, 0.7);
}

TEST_F(Sampler, APlaceSeesTheWholeBlockAndNothingOfACommittedOneButItsToken) {
  const auto sampler = load_commit_sampler(folder, *target);
  ASSERT_TRUE(sampler);
  std::vector<CommitPlace> block = random_block(6, 3);
  for (CommitPlace& p : block) p.masked = true;
  std::vector<float> before, after;
  ASSERT_TRUE((*sampler)->probabilities(block, before));
  block[5].top[0].value ^= 1;
  ASSERT_TRUE((*sampler)->probabilities(block, after));
  EXPECT_NE(before[0], after[0]) << "both ways";
  block[2].masked = false;
  ASSERT_TRUE((*sampler)->probabilities(block, before));
  block[2].probability = {0.1F, 0.05F, 0.01F};
  block[2].entropy = 9;
  block[2].top[1].value ^= 1;
  block[2].top[2].value ^= 1;
  ASSERT_TRUE((*sampler)->probabilities(block, after));
  EXPECT_EQ(before, after);
  EXPECT_EQ(after[2], 0);
  block[2].top[0].value ^= 1;
  ASSERT_TRUE((*sampler)->probabilities(block, after));
  EXPECT_NE(before[0], after[0]);
  ASSERT_TRUE((*sampler)->probabilities({}, after));
  EXPECT_TRUE(after.empty());
}

TEST_F(Sampler, TheFolderStatesTheSplitOfItsInputs) {
  CommitSamplerOptions published;
  published.statistics.resize(kCommitStatistics);
  EXPECT_EQ(published.inputs(), 144);
  json::object six = config();
  six["statistics"] = {"p1", "margin", "entropy", "top3_mass", "masked", "place"};
  write(six, random_tensors(3 * kTokenWidth + 6));
  const auto sampler = load_commit_sampler(folder, *target);
  ASSERT_TRUE(sampler) << sampler.error().message;
  EXPECT_EQ((*sampler)->options().statistics[1], CommitStatistic::kMargin);
  std::vector<float> probability;
  EXPECT_TRUE((*sampler)->probabilities(random_block(4, 1), probability));
}

TEST_F(Sampler, FoldersThatDoNotFitAreRefused) {
  const auto with = [&](const std::string& key, const json::value& value) {
    json::object changed = config();
    changed[key] = value;
    write(changed, tensors);
  };
  with("model_type", "qwen3");
  expect_refused("expected commit_sampler");
  with("target_hidden_size", 64);
  expect_refused("target_hidden_size: expected 48 as in the target " + target->folder().string());
  with("target_vocab_size", 301);
  expect_refused("target_vocab_size");
  with("statistics", json::array{"p1", "p9"});
  expect_refused("log_ratio");
  with("num_attention_heads", 5);
  expect_refused("num_attention_heads");
  with("token_width", 7);
  expect_refused("pca.components: expected shape [7, 48], got [6, 48]");
  with("num_hidden_layers", 3);
  expect_refused("expected the 57 tensors");
  with("num_hidden_layers", 5);
  expect_refused("layers.4.");
}

TEST_F(Sampler, BlocksThatAreTooLongAndIdsOutsideTheVocabularyAreRefused) {
  const auto sampler = load_commit_sampler(folder, *target);
  ASSERT_TRUE(sampler);
  std::vector<float> probability;
  EXPECT_EQ((*sampler)->probabilities(random_block(kMaxBlock + 1, 1), probability).error().kind, ErrorKind::kBadInput);
  std::vector<CommitPlace> block = random_block(2, 1);
  block[1].top[2].value = kVocab;
  EXPECT_EQ((*sampler)->probabilities(block, probability).error().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace slip
