// SPDX-License-Identifier: Apache-2.0
// The objectives against the stored steps (tests/fixtures/train): masks, loss, gradients and one AdamW step in f64 and f32; and the
// savings of rows.h against the full dual stream.
#include <gtest/gtest.h>

#include <cmath>

#include "base/must_testing.h"
#include "core/safetensors.h"
#include "train/loop/optimizer.h"
#include "train/model/model_torch.h"
#include "train/model/weights.h"
#include "train/objective/objective.h"

namespace slip {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(SLIP_FIXTURES) / "train";

json::object fixture(const std::string& name) { return must(read_json(kFixtures / name)).as_object(); }

template <class T>
std::vector<T> numbers(const json::value& v) {
  std::vector<T> out;
  for (const auto& x : v.as_array()) out.push_back(static_cast<T>(x.to_number<double>()));
  return out;
}

Sample sample_of(const json::object& o) {
  Sample s;
  for (const int32_t id : numbers<int32_t>(o.at("tokens"))) s.tokens.push_back({id});
  const size_t n = s.tokens.size();
  s.mask_token = {1};
  for (size_t i = 0; i < n; ++i) s.positions.push_back(Position::text(static_cast<int32_t>(i)));
  if (!o.contains("block")) return s;
  s.block = numbers<int32_t>(o.at("block"));
  s.weight = numbers<float>(o.at("weight"));
  s.response = numbers<uint8_t>(o.at("response"));
  s.fixed = numbers<uint8_t>(o.at("fixed"));
  for (const TokenId t : s.tokens) s.always_masked.push_back(t.value == 3);
  return s;
}

std::array<std::vector<uint8_t>, 2> stored_masks(const json::object& o) {
  return {numbers<uint8_t>(o.at("masked")), numbers<uint8_t>(o.at("complement"))};
}

void append(RowBatch& batch, const SequenceRows& rows, bool drop) { append_sequence(batch, rows, {}, VisionShape{}, drop); }

RowBatch sasd_batch(const json::object& f, bool saving) {
  RowBatch batch;
  for (const auto& v : f.at("samples").as_array()) {
    const Sample s = sample_of(v.as_object());
    const auto masks = stored_masks(v.as_object());
    if (saving) {
      append(batch, sasd_rows(s, masks, {}), true);
    } else {
      for (const SequenceRows& r : sasd_rows_unshared(s, masks, {})) append(batch, r, false);
    }
  }
  return batch;
}

RowBatch nld_batch(const json::object& f) {
  RowBatch batch;
  const NldRule rule{static_cast<int32_t>(f.at("block_size").as_int64()), f.at("alpha").to_number<double>(),
                     f.at("minimum_noise").to_number<double>()};
  for (const auto& v : f.at("samples").as_array()) {
    const auto& o = v.as_object();
    append(batch, nld_rows(sample_of(o), {o.at("t").to_number<double>(), numbers<double>(o.at("draw"))}, rule), true);
  }
  return batch;
}

TrainModel model_of(const json::object& f, Precision precision) {
  const auto folder = kFixtures / f.at("model").as_string().c_str();
  const json::value config = must(read_json(folder / "config.json"));
  TrainModel model(must(ModelShape::from_config(config.as_object(), "config.json")), precision);
  const Checkpoint stored = must(Checkpoint::open_folder(folder));
  const Status loaded = precision == Precision::kF64 ? load_weights(stored, model.table(), model.values<double>())
                                                     : load_weights(stored, model.table(), model.values<float>());
  EXPECT_TRUE(loaded) << loaded.error().message;
  return model;
}

template <class T>
double largest_difference(std::span<const T> a, std::span<const T> b) {
  double d = 0;
  for (size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return d;
}

template <class T>
double largest(std::span<const T> a) {
  double d = 0;
  for (const T v : a) d = std::max(d, std::abs(static_cast<double>(v)));
  return d;
}

AdamWOptions adamw_of(const json::object& f) {
  const auto& o = f.at("adamw").as_object();
  const auto betas = numbers<double>(o.at("betas"));
  return {betas[0], betas[1], o.at("eps").to_number<double>(), o.at("weight_decay").to_number<double>(), true};
}

/// Loss, gradients and the step of one objective against the stored ones.
template <class T>
void check_step(const std::string& name, const RowBatch& batch, double gradient_tolerance, double loss_tolerance,
                double step_tolerance) {
  const json::object f = fixture(name + ".json");
  constexpr bool kDouble = std::is_same_v<T, double>;
  TrainModel model = model_of(f, kDouble ? Precision::kF64 : Precision::kF32);
  const LossSums sums = model.forward_backward(batch, 1 / batch.count);
  const double loss = sums.total() / batch.count,
               expected = f.at(kDouble ? "f64" : "f32").as_object().at("loss").to_number<double>();
  EXPECT_NEAR(loss, expected, loss_tolerance * expected);

  const Checkpoint stored = must(Checkpoint::open_file(kFixtures / (name + (kDouble ? "_f64.safetensors" : "_f32.safetensors"))));
  std::vector<T> gradients(static_cast<size_t>(model.table().size), T(0)), after = gradients;
  ASSERT_TRUE(load_weights<T>(stored, model.table(), gradients, "grad."));
  ASSERT_TRUE(load_weights<T>(stored, model.table(), after, "after."));
  EXPECT_LE(largest_difference<T>(model.gradients<T>(), gradients), gradient_tolerance * largest<T>(gradients));

  AdamW<T> adam(model.table(), adamw_of(f));
  const double clip = f.at("clip").is_null() ? 0 : f.at("clip").to_number<double>();
  const double factor = clip_factor(gradient_norm<T>(model.gradients<T>()), clip);
  adam.step(model.values<T>(), model.gradients<T>(), factor, f.at("adamw").as_object().at("lr").to_number<double>(), 1);
  EXPECT_LE(largest_difference<T>(model.values<T>(), after), step_tolerance);
}

TEST(Sasd, MasksFollowTheDraws) {
  const json::object f = fixture("sasd.json");
  for (const auto& v : f.at("samples").as_array()) {
    const auto& o = v.as_object();
    const Noise noise{numbers<double>(o.at("t_of_block")), numbers<double>(o.at("draw"))};
    EXPECT_EQ(sasd_masks(sample_of(o), noise, 1e-3), stored_masks(o));
  }
}

TEST(Sasd, StepMatchesTheStoredOneInDouble) {
  check_step<double>("sasd", sasd_batch(fixture("sasd.json"), true), 1e-9, 1e-10, 1e-9);
}
TEST(Sasd, StepMatchesTheStoredOneInFloat) { check_step<float>("sasd", sasd_batch(fixture("sasd.json"), true), 2e-5, 1e-5, 2e-5); }
TEST(Sasd, FullLayoutMatchesTheStoredStepToo) {
  check_step<double>("sasd", sasd_batch(fixture("sasd.json"), false), 1e-9, 1e-10, 1e-9);
}
TEST(Nld, StepMatchesTheStoredOneInDouble) { check_step<double>("nld", nld_batch(fixture("nld.json")), 1e-9, 1e-10, 1e-9); }
TEST(Nld, StepMatchesTheStoredOneInFloat) { check_step<float>("nld", nld_batch(fixture("nld.json")), 2e-5, 1e-5, 2e-5); }

TEST(Sasd, SavingsDropRowsButChangeNeitherLossNorGradient) {
  const json::object f = fixture("sasd.json");
  const RowBatch full = sasd_batch(f, false), lean = sasd_batch(f, true);
  EXPECT_LT(lean.tokens.size() * 10, full.tokens.size() * 8);
  TrainModel a = model_of(f, Precision::kF64), b = model_of(f, Precision::kF64);
  const LossSums la = a.forward_backward(full, 1 / full.count), lb = b.forward_backward(lean, 1 / lean.count);
  EXPECT_EQ(full.count, lean.count);
  EXPECT_NEAR(la.noisy, lb.noisy, 1e-9 * la.noisy);
  EXPECT_NEAR(la.ar, lb.ar, 1e-9 * la.ar);
  EXPECT_LE(largest_difference<double>(a.gradients<double>(), b.gradients<double>()),
            1e-9 * largest<double>(a.gradients<double>()));
}

TEST(Sasd, SplittingABatchAddsUpToTheSameGradient) {
  const json::object f = fixture("sasd.json");
  const RowBatch whole = sasd_batch(f, true);
  TrainModel a = model_of(f, Precision::kF64), b = model_of(f, Precision::kF64);
  a.forward_backward(whole, 1 / whole.count);
  for (const auto& v : f.at("samples").as_array()) {
    RowBatch one;
    append(one, sasd_rows(sample_of(v.as_object()), stored_masks(v.as_object()), {}), true);
    b.forward_backward(one, 1 / whole.count);
  }
  EXPECT_LE(largest_difference<double>(a.gradients<double>(), b.gradients<double>()),
            1e-12 * largest<double>(a.gradients<double>()));
}

TEST(Sasd, Bfloat16StaysNearFloat) {
  const json::object f = fixture("sasd.json");
  const RowBatch batch = sasd_batch(f, true);
  TrainModel a = model_of(f, Precision::kF32), b = model_of(f, Precision::kBF16);
  const double la = a.forward_backward(batch, 1 / batch.count).total(), lb = b.forward_backward(batch, 1 / batch.count).total();
  EXPECT_NEAR(la, lb, 2e-2 * la);
  double dot = 0, aa = 0, bb = 0;  // angle between the gradients: bfloat16 keeps 8 bits per number
  for (size_t i = 0; i < a.gradients<float>().size(); ++i) {
    const double x = a.gradients<float>()[i], y = b.gradients<float>()[i];
    dot += x * y, aa += x * x, bb += y * y;
  }
  EXPECT_GT(dot / std::sqrt(aa * bb), 0.999);
}

// What an ablation switches off is gone from the loss, term by term; what stays has its weight.
TEST(Sasd, SwitchesTakeTheirTermsAndNoOthers) {
  const json::object f = fixture("sasd.json"), o = f.at("samples").as_array()[0].as_object();
  const Sample s = sample_of(o);
  const auto masks = stored_masks(o);
  const auto sums = [](const SequenceRows& r) {
    std::array<double, 3> out{};  // weights of noisy and of clean terms, terms
    for (const auto& t : r.terms) out[t.noisy ? 0 : 1] += t.weight, out[2] += 1;
    return out;
  };
  const SequenceRows all = sasd_rows(s, masks, {}), one = sasd_rows(s, masks, {}, {.complement = false}),
                     no_ar = sasd_rows(s, masks, {}, {.ar_weight = 0}), half = sasd_rows(s, masks, {}, {.ar_weight = 0.5}),
                     own = sasd_rows(s, masks, {}, {.by_sequence = true});
  double masked = 0, response = 0;
  for (size_t i = 0; i < s.tokens.size(); ++i) {
    masked += masks[0][i] != 0 ? static_cast<double>(s.weight[i]) : 0;
    response += s.response[i];
  }
  EXPECT_EQ(all.count, 2 * response);
  EXPECT_NEAR(sums(one)[0], masked, 1e-9) << "the complement's terms are gone";
  EXPECT_LT(sums(one)[0], sums(all)[0]);
  EXPECT_EQ(sums(one)[1], sums(all)[1]);
  EXPECT_EQ(one.count, all.count);
  EXPECT_EQ(sums(no_ar)[1], 0);
  EXPECT_EQ(sums(no_ar)[0], sums(all)[0]);
  EXPECT_NEAR(sums(half)[1], sums(all)[1] / 2, 1e-9);
  EXPECT_EQ(own.count, 1);
  EXPECT_NEAR(sums(own)[0], sums(all)[0] / all.count, 1e-12);
  EXPECT_EQ(sums(own)[2], sums(all)[2]);
}

TEST(Noise, OfAStepIsSharedByItsSamples) {
  const Sample s = sample_of(fixture("nld.json").at("samples").as_array()[0].as_object());
  const NldRule own{}, shared{.noise_of_step = true};
  EXPECT_NE(nld_noise(s, own, {7, 0, 3, 1}).t, nld_noise(s, own, {7, 0, 3, 2}).t);
  EXPECT_EQ(nld_noise(s, shared, {7, 0, 3, 1}).draw, nld_noise(s, shared, {7, 0, 3, 2}).draw);
  EXPECT_EQ(nld_noise(s, shared, {7, 0, 3, 0}).draw, nld_noise(s, own, {7, 0, 3, 0}).draw);
  EXPECT_NE(nld_noise(s, shared, {7, 0, 3, 1}).t, nld_noise(s, shared, {7, 0, 4, 1}).t);
}

TEST(Noise, DependsOnItsKeyAndNothingElse) {
  const Sample s = sample_of(fixture("sasd.json").at("samples").as_array()[0].as_object());
  const auto sections = fast_ddrive_sections();
  const Noise a = sasd_noise(s, sections, {7, 0, 3, 1}), b = sasd_noise(s, sections, {7, 0, 3, 1});
  EXPECT_EQ(a.draw, b.draw);
  for (const NoiseKey other : {NoiseKey{8, 0, 3, 1}, NoiseKey{7, 1, 3, 1}, NoiseKey{7, 0, 4, 1}, NoiseKey{7, 0, 3, 2}})
    EXPECT_NE(a.t_of_block, sasd_noise(s, sections, other).t_of_block);
}

TEST(Noise, BetaQuantileInvertsTheDistribution) {
  EXPECT_NEAR(beta_quantile(1, 2, 0.75), 0.5, 1e-12);      // F(t) = 1 - (1 - t)^2
  EXPECT_NEAR(beta_quantile(2, 1, 0.25), 0.5, 1e-12);      // F(t) = t^2
  EXPECT_NEAR(beta_quantile(2, 2, 0.15625), 0.25, 1e-12);  // F(t) = 3 t^2 - 2 t^3
}

}  // namespace
}  // namespace slip
