// SPDX-License-Identifier: Apache-2.0
// The joint objective's parts (stages, answers alone, image rows, averages) on models of Qwen3's and Ministral 3's shape against stored
// losses and gradients (tests/fixtures/heads/nld_joint, computed by another program in double), and the learning rates.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "train/loop/optimizer.h"
#include "train/model/model_torch.h"
#include "train/model/weights.h"
#include "train/objective/objective.h"
#include "train/objective/stored_testing.h"

namespace slip {
namespace {

class Joint : public testing::TestWithParam<const char*> {
 protected:
  json::object file_ = stored_json("nld_joint/" + std::string(GetParam()) + ".json");
  Checkpoint inputs_ = stored_tensors("nld_joint/" + std::string(GetParam()) + "_inputs.safetensors");
  Checkpoint truth_ = stored_tensors("nld_joint/" + std::string(GetParam()) + "_f64.safetensors");

  TrainModel model() const {
    const auto folder = kStoredHeads / "nld_joint" / file_.at("model").as_string().c_str();
    TrainModel m(must(ModelShape::from_config(must(read_json(folder / "config.json")).as_object(), "config.json")),
                 Precision::kF64);
    const Status s = load_weights(must(Checkpoint::open_folder(folder)), m.table(), m.values<double>());
    EXPECT_TRUE(s) << s.error().message;
    return m;
  }

  Sample sample(const json::object& o) const {
    Sample s;
    for (const int32_t id : numbers<int32_t>(o.at("tokens"))) {
      s.positions.push_back(Position::text(static_cast<int32_t>(s.tokens.size())));
      s.tokens.push_back({id});
    }
    s.response = numbers<uint8_t>(o.at("answer"));
    s.mask_token = {static_cast<int32_t>(file_.at("mask_token").as_int64())};
    s.image_token = {static_cast<int32_t>(file_.at("image_token").as_int64())};
    return s;
  }

  RowBatch batch(const NldRule& rule, bool ar_only, int64_t hidden) const {
    RowBatch b;
    const auto& samples = file_.at("samples").as_array();
    for (size_t k = 0; k < samples.size(); ++k) {
      const json::object& o = samples[k].as_object();
      const Sample s = sample(o);
      const size_t first = b.tokens.size();
      const auto features = static_cast<int32_t>(static_cast<int64_t>(b.given_features.size()) / hidden);
      append_sequence(b, nld_rows(s, {number(o.at("t")), numbers<double>(o.at("draw"))}, rule, ar_only), {}, {}, false);
      const size_t n = s.tokens.size();
      std::vector<int32_t> feature(n, -1);
      int32_t images = 0;
      for (size_t i = 0; i < n; ++i)
        if (s.tokens[i] == s.image_token) feature[i] = features + images++;
      for (size_t i = first; i < b.tokens.size(); ++i) {
        if (feature[(i - first) % n] < 0) continue;
        b.feature_rows.push_back(static_cast<int32_t>(i));
        b.feature_of.push_back(feature[(i - first) % n]);
      }
      if (images == 0) continue;
      for (const float x : read_as_f32(*inputs_.find("features." + std::to_string(k)))) b.given_features.push_back(x);
    }
    return b;
  }

  void check(const std::string& name) {
    const json::object& c = file_.at("cases").as_object().at(name).as_object();
    const auto is = [&](const char* key, std::string_view word) { return c.at(key).is_string() && c.at(key).as_string() == word; };
    const bool ar_only = number(c.at("alpha")) == 0;
    const NldRule rule{.block_size = static_cast<int32_t>(file_.at("block_size").as_int64()),
                       .alpha = number(c.at("alpha")),
                       .minimum_noise = number(file_.at("minimum_noise")),
                       .ar_weight = number(c.at("ar_weight")),
                       .answers_masked = is("maskable", "answer"),
                       .answers_predicted = is("labels", "answer"),
                       .by_sequence = is("averaging", "per_sequence")};
    TrainModel m = model();
    const RowBatch b = batch(rule, ar_only, m.shape().hidden);
    const double loss = m.forward_backward(b, 1 / b.count).total() / b.count, expected = number(c.at("loss"));
    EXPECT_NEAR(loss, expected, 1e-10 * expected) << name;
    if (truth_.find(name + ".grad.model.norm.weight") == nullptr) return;
    std::vector<double> gradients(m.gradients<double>().size(), 0);
    ASSERT_TRUE(load_weights<double>(truth_, m.table(), gradients, name + ".grad."));
    double most = 0, off = 0, squares = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      most = std::max(most, std::abs(gradients[i]));
      off = std::max(off, std::abs(gradients[i] - m.gradients<double>()[i]));
      squares += gradients[i] * gradients[i];
    }
    EXPECT_LE(off, 1e-9 * most) << name;
    EXPECT_NEAR(std::sqrt(squares), number(c.at("grad_norm")), 1e-9 * std::sqrt(squares)) << "the stored gradients are all of them";
  }
};

TEST_P(Joint, MasksFollowTheDrawsAndNeverAnImage) {
  for (const auto& v : file_.at("samples").as_array()) {
    const json::object& o = v.as_object();
    const Sample s = sample(o);
    for (const bool answers : {false, true}) {
      NldRule rule{.block_size = 4};
      rule.answers_masked = answers;
      const SequenceRows rows = nld_rows(s, {number(o.at("t")), numbers<double>(o.at("draw"))}, rule);
      const size_t n = s.tokens.size();
      std::vector<uint8_t> masked(n, 0);
      for (const auto& term : rows.terms)
        if (term.noisy) masked[static_cast<size_t>(term.row) - n] = 1;
      EXPECT_EQ(masked, numbers<uint8_t>(o.at(answers ? "masked_answer" : "masked_text")));
    }
  }
}

TEST(NldRows, NeitherImagesNorTheEgoHistoryAreMaskedOrPredicted) {
  Sample s;
  for (const int32_t id : {5, 4, 6, 3, 7, 8}) {  // 4: an image's row, 3: the history's
    s.positions.push_back(Position::text(static_cast<int32_t>(s.tokens.size())));
    s.tokens.push_back({id});
  }
  s.response = {0, 0, 0, 0, 1, 1};
  s.mask_token = {1};
  s.image_token = {4};
  s.history_token = {3};
  const NldNoise all{1, std::vector<double>(s.tokens.size(), 0)};
  const auto count = [&] { return nld_rows(s, all, {.block_size = 4}).count; };
  EXPECT_EQ(count(), 5 + 4) << "a token of that id is a token like others where no history is told";
  s.history = {0.5F, 1};
  EXPECT_EQ(count(), 4 + 4 - 1);
  for (const auto& term : nld_rows(s, all, {.block_size = 4}).terms) EXPECT_NE(term.target, 3);
}

TEST_P(Joint, LossesAndGradientsAreTheStoredOnes) {
  for (const auto& [name, unused] : file_.at("cases").as_object()) check(std::string(name));
}

INSTANTIATE_TEST_SUITE_P(Models, Joint, testing::Values("qwen3", "ministral3"), [](const auto& i) { return std::string(i.param); });

TEST(Schedules, RatesAreTheStoredOnes) {
  const json::object file = stored_json("schedules/rates.json");
  for (const auto& v : file.at("rates").as_array()) {
    const json::object& o = v.as_object();
    RateSchedule r{.lr = number(o.at("lr")), .final_fraction = number(o.at("final_fraction"))};
    r.warmup = o.at("warmup").as_int64();
    r.steps = o.at("steps").as_int64();
    const bool wsd = o.at("kind").as_string() == "wsd";
    if (wsd) r.decay_steps = o.at("decay_steps").as_int64();
    const std::string shape(wsd ? o.at("shape").as_string() : o.at("kind").as_string());
    r.decay = shape == "cosine"   ? Decay::kCosine
              : shape == "linear" ? Decay::kLinear
              : shape == "sqrt"   ? Decay::kSqrt
                                  : Decay::kExponential;
    const auto at = numbers<int64_t>(o.at("at"));
    const auto value = numbers<double>(o.at("value"));
    for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(r.at(at[i]), value[i], 2 * 2.3e-16 * value[i]) << shape << " " << at[i];
  }
}

}  // namespace
}  // namespace slip
