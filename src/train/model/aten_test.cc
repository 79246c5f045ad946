// SPDX-License-Identifier: Apache-2.0
// ATen's operations (aten_functions.h), which a device would run, against the fused functions on the processor: losses, gradients and logits
// of every model that is trained: losses in double to 1e-10 and in bf16 to 2e-2, gradients to ten times that of the largest.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/must_testing.h"
#include "train/loop/batcher.h"
#include "train/loop/config.h"
#include "train/model/weights.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// Configurations name models by paths from the source's folder.
class AtenOperations : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    fs::current_path(SLIP_SOURCE_DIR);
    config_ = must(TrainConfig::load(GetParam()));
    config_.batch = 1;
    config_.accumulate = 1;
    const auto source = must(make_source(config_.data, config_.tokenizer));
    for (RowBatch& part : must(make_step(*source, config_, 1)).parts)
      if (!part.terms.empty()) parts_.push_back(std::move(part));
    ASSERT_FALSE(parts_.empty());
  }
  void TearDown() override { fs::current_path(before_); }

  template <class T>
  TrainModel model(Precision precision, Operations operations) const {
    TrainModel m(config_.shape, precision, {.operations = operations});
    random_weights<T>(m.table(), 3, 0.05, m.values<T>());
    m.set_recompute(operations == Operations::kAten);  // layers that run again, too
    return m;
  }

  template <class T>
  void compare(Precision precision, double tolerance) {
    TrainModel fused = model<T>(precision, Operations::kFused), aten = model<T>(precision, Operations::kAten);
    for (const RowBatch& part : parts_) {
      const LossSums a = fused.forward_backward(part, 0.5), b = aten.forward_backward(part, 0.5);
      EXPECT_NEAR(a.noisy, b.noisy, tolerance * (1 + std::abs(a.noisy)));
      EXPECT_NEAR(a.ar, b.ar, tolerance * (1 + std::abs(a.ar)));
    }
    double largest = 0, worst = 0;
    const auto g = fused.gradients<T>(), h = aten.gradients<T>();
    for (size_t i = 0; i < g.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(g[i])));
      worst = std::max(worst, static_cast<double>(std::abs(g[i] - h[i])));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LE(worst, 10 * tolerance * largest);
    const std::vector<float> x = fused.logits(parts_[0]), y = aten.logits(parts_[0]);
    ASSERT_EQ(x.size(), y.size());
    double logits = 0;
    for (size_t i = 0; i < x.size(); ++i) logits = std::max(logits, static_cast<double>(std::abs(x[i] - y[i])));
    EXPECT_LE(logits, std::max(tolerance, 1e-6) * 10);
  }

  fs::path before_;
  TrainConfig config_;
  std::vector<RowBatch> parts_;
};

TEST_P(AtenOperations, SayWhatTheFusedOnesDoInDouble) { compare<double>(Precision::kF64, 1e-10); }
TEST_P(AtenOperations, SayWhatTheFusedOnesDoInBFloat16) { compare<float>(Precision::kBF16, 2e-2); }

INSTANTIATE_TEST_SUITE_P(Models, AtenOperations,
                         ::testing::Values("configs/smoke/sasd.json", "configs/smoke/nld.json", "configs/smoke/graph.json",
                                           "configs/smoke/dino.json", "configs/demo.json"),
                         [](const auto& info) {
                           const fs::path file = info.param;
                           return (file.parent_path().filename() == "smoke" ? "smoke_" : "") + file.stem().string();
                         });

TEST(TrainDevice, OneThatIsNotThereIsRefusedByName) {
  EXPECT_TRUE(check_train_device("cpu", "f"));
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:123", "cuda:00", "CUDA"}) {
    const Status s = check_train_device(name, "f.json");
    ASSERT_FALSE(s) << name;
    EXPECT_EQ(s.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(s.error().message.find(std::string("f.json: device: expected cpu, cuda or cuda:N, got ") + name), std::string::npos);
  }
  if (const Status s = check_train_device("cuda:0", "f.json"); !s) {
    EXPECT_EQ(s.error().kind, ErrorKind::kUnsupported);
  }
}

}  // namespace
}  // namespace slip
