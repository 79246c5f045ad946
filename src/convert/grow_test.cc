// SPDX-License-Identifier: Apache-2.0
// A grown model says what the model before said, in every bit of every logit, in f32, bf16 and int8, alone and with its neighbours.
#include "convert/grow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "convert/quantize.h"
#include "core/safetensors.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(SLIP_SOURCE_DIR) / "models";

/// Logits of some tokens, all rows in one pass; with the adapter where asked for.
std::vector<float> logits_of(const fs::path& folder, WeightType type, bool adapter = false) {
  auto model = load_model(folder, {type, 2, 64});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  Lm& lm = (*model)->lm();
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (int i = 0; i < 24; ++i) {
    rows.push_back({TokenId{(i * 37 + 11) % lm.info().vocab}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
    spans.push_back({0, i + 1});
  }
  PassOutput out;
  Pass pass{.rows = rows, .spans = spans};
  pass.draft_adapter = adapter;
  const Status done = lm.forward(pass, out);
  EXPECT_TRUE(done) << done.error().message;
  return out.logits_NV;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The largest difference of two lists of one length; infinite where they have not.
float farthest(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.empty() || a.size() != b.size()) return std::numeric_limits<float>::infinity();
  float out = 0;
  for (size_t i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

// 96 is a multiple of 32 and not of 64: to rounding with AVX-512, which these models' width leaves half of a sum's last cut.
bool exact_here(const Grown& g) {
  return isa_choice().isa == Isa::kAvx512 || isa_choice().isa == Isa::kAmx ? g.same_bits_avx512 : g.same_bits_avx2;
}

TEST(Grow, SaysTheSameInEveryBit) {
  const test::TemporaryFolder root;
  for (const char* name : {"pair-draft", "tri", "demo"}) {
    for (const GrowOptions& o : {GrowOptions{.times = 4}, GrowOptions{.times = 1, .mlp = 3, .layers = 2},
                                 GrowOptions{.times = 4, .mlp = 2, .layers = 2}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", name, o.times, o.mlp, o.layers));
      const fs::path out = root.path / fmt::format("{}-{}-{}-{}", name, o.times, o.mlp, o.layers);
      const auto grown = grow(kModels / name, out, o);
      ASSERT_TRUE(grown) << grown.error().message;
      EXPECT_GT(grown->parameters, grown->parameters_before * (o.times == 4 ? 4 : 1));
      EXPECT_TRUE(grown->same_bits_avx2);
      const std::vector<float> exact = logits_of(kModels / name, WeightType::kF32);
      for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
        const std::vector<float> was = logits_of(kModels / name, type), is = logits_of(out, type);
        if (exact_here(*grown)) {
          EXPECT_TRUE(same_bits(was, is)) << static_cast<int>(type);
        }
        // To rounding: the grown model is no farther from the small one than the type is from f32, whatever numbers these weights make.
        EXPECT_LE(farthest(was, is), type == WeightType::kF32 ? 1e-4F : farthest(was, exact)) << static_cast<int>(type);
      }
    }
  }
}

TEST(Grow, TakesTheDraftAdapterAlong) {
  const test::TemporaryFolder root;
  const auto grown = grow(kModels / "demo", root.path / "demo", {.times = 4, .layers = 2});
  ASSERT_TRUE(grown) << grown.error().message;
  const auto was = logits_of(kModels / "demo", WeightType::kBF16, true),
             is = logits_of(root.path / "demo", WeightType::kBF16, true);
  EXPECT_FALSE(same_bits(was, logits_of(kModels / "demo", WeightType::kBF16)));
  if (exact_here(*grown)) {
    EXPECT_TRUE(same_bits(was, is));
  }
}

// A tensor of a 7B's, grown, takes more than most machines' memory.
TEST(Grow, MakesATensorInPieces) {
  const test::TemporaryFolder root;
  int64_t before = 0, largest = 0, all = 0;
  const auto grown = grow(kModels / "pair-draft", root.path / "grown", {.times = 4, .mlp = 4}, [&](int64_t done, int64_t total) {
    largest = std::max(largest, done - before);
    before = done;
    all = total;
  });
  ASSERT_TRUE(grown) << grown.error().message;
  EXPECT_EQ(before, all);
  EXPECT_LE(largest, 1 << 20) << "the MLP's matrices have 3 MB each";
}

TEST(Grow, RefusesWhatItCannotGrow) {
  const test::TemporaryFolder root;
  const auto refused = [&](const fs::path& model, const GrowOptions& o, ErrorKind kind, const char* words) {
    const fs::path out = root.path / "refused";
    const auto made = grow(model, out, o);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, kind) << made.error().message;
    EXPECT_NE(made.error().message.find(words), std::string::npos) << made.error().message;
    EXPECT_FALSE(fs::exists(out));
  };
  const fs::path small = kModels / "pair-draft";
  refused(small, {.times = 2}, ErrorKind::kUsage, "1, 4, 16 or 64");
  refused(small, {.times = 0}, ErrorKind::kUsage, "1, 4, 16 or 64");
  refused(small, {.times = 1}, ErrorKind::kUsage, "something to grow");
  refused(small, {.times = 4, .mlp = 0}, ErrorKind::kUsage, "--mlp");
  refused(small, {.times = 4, .layers = 65}, ErrorKind::kUsage, "--layers");
  refused(root.path / "nowhere", {}, ErrorKind::kBadInput, "nowhere");
  ASSERT_TRUE(fs::create_directory(root.path / "there"));
  EXPECT_FALSE(grow(small, root.path / "there", {}));

  // A tensor that the shape does not explain, and one that nobody knows.
  const fs::path odd = root.path / "odd";
  fs::copy(small, odd);
  const auto checkpoint = Checkpoint::open_folder(small);
  ASSERT_TRUE(checkpoint);
  const auto with = [&](const std::string& name, std::vector<int64_t> shape) {
    std::vector<TensorToWrite> all;
    for (const auto& [n, t] : checkpoint->tensors()) all.push_back({n, t.dtype, t.shape, t.bytes});
    const std::vector<std::byte> numbers(static_cast<size_t>(shape[0]) * 2);
    std::erase_if(all, [&](const TensorToWrite& t) { return t.name == name; });
    all.push_back({name, DType::kBF16, shape, numbers});
    const Status wrote = write_safetensors(odd / "model.safetensors", all);
    ASSERT_TRUE(wrote) << wrote.error().message;
  };
  with("model.layers.0.input_layernorm.weight", {95});
  refused(odd, {}, ErrorKind::kBadInput, "input_layernorm");
  with("model.layers.0.mlp.experts.weight", {4});
  refused(odd, {}, ErrorKind::kUnsupported, "mlp.experts");
  // What does not load does not grow: a tensor that is not there, and one whose shape config.json does not say.
  const auto without = [&](std::string_view name) {
    std::vector<TensorToWrite> all;
    for (const auto& [n, t] : checkpoint->tensors())
      if (n != name) all.push_back({n, t.dtype, t.shape, t.bytes});
    ASSERT_TRUE(write_safetensors(odd / "model.safetensors", all));
  };
  without("model.layers.0.self_attn.q_proj.weight");
  refused(odd, {}, ErrorKind::kBadInput, "q_proj");
  without("model.norm.weight");
  refused(odd, {}, ErrorKind::kBadInput, "norm.weight");
  without("model.embed_tokens.weight");
  refused(odd, {}, ErrorKind::kBadInput, "embed_tokens");
}

// Files would be copied into themselves.
TEST(Grow, NoFolderIsWrittenIntoTheOneThatIsRead) {
  const test::TemporaryFolder root;
  const fs::path model = root.path / "model";
  fs::copy(kModels / "pair-draft", model, fs::copy_options::recursive);
  for (const fs::path& out : {model / "sub", model / "a" / ".." / "sub", root.path / "model" / "." / "x" / "y"}) {
    const auto grown = grow(model, out, {});
    ASSERT_FALSE(grown);
    EXPECT_EQ(grown.error().kind, ErrorKind::kUsage);
    const auto packed = QuantizedFolder::make(model, out, {.type = WeightType::kI8, .compare = false});
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().kind, ErrorKind::kUsage);
  }
  EXPECT_TRUE(grow(model, root.path / "models", {})) << "a name that begins alike is another folder's";
}

TEST(Grow, APackedFolderIsRefusedAndAGrownOnePacks) {
  const test::TemporaryFolder root;
  ASSERT_TRUE(grow(kModels / "pair-draft", root.path / "grown", {}));
  {
    auto packed = QuantizedFolder::make(root.path / "grown", root.path / "packed", {.type = WeightType::kI8, .compare = false});
    ASSERT_TRUE(packed) << packed.error().message;
    ASSERT_TRUE(packed->commit());
  }
  const auto again = grow(root.path / "packed", root.path / "again", {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::kBadInput);
}

}  // namespace
}  // namespace slip
