// SPDX-License-Identifier: Apache-2.0
// The draft adapter's folder, and what a pass without it owes it: nothing. (Its numbers: fixture_test.cc, cases `_lora`.)
#include "models/adapter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/file.h"
#include "base/json.h"
#include "models/model.h"
#include "models/rows_file.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kModel = fs::path(SLIP_FIXTURES) / "models/nemotron_labs_diffusion";

struct Adapter : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("slip_adapter_" + std::to_string(getpid()));
  ThreadPool pool{1};
  DecoderOptions decoder = read_model_config(kModel)->decoder;

  void SetUp() override {
    fs::remove_all(folder);
    fs::copy(kModel / kDraftAdapterFolder, folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  void change_config(const std::function<void(json::object&)>& change) {
    json::value config = *read_json(kModel / kDraftAdapterFolder / "adapter_config.json");
    change(config.get_object());
    ASSERT_TRUE(write_file(folder / "adapter_config.json", pretty(config)));
  }
  Error refusal() {
    const auto adapter = load_draft_adapter(folder, decoder, WeightType::kF32, pool);
    EXPECT_FALSE(adapter);
    return adapter ? Error{} : adapter.error();
  }
  void expect_refused(ErrorKind kind, std::string_view word) {
    const Error e = refusal();
    EXPECT_EQ(e.kind, kind) << e.message;
    EXPECT_NE(e.message.find(word), std::string::npos) << e.message;
  }
};

TEST_F(Adapter, ScaleIsAlphaOverTheRankOrItsRoot) {
  auto adapter = load_draft_adapter(folder, decoder, WeightType::kF32, pool);
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_EQ(adapter->rank, 4);
  EXPECT_EQ(adapter->scale, 4.0F);
  change_config([](json::object& o) { o["use_rslora"] = true; });
  adapter = load_draft_adapter(folder, decoder, WeightType::kI8, pool);
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_EQ(adapter->scale, 8.0F);
  EXPECT_EQ(adapter->layers[0].a.type(), WeightType::kBF16);
}

TEST_F(Adapter, OtherKindsOfAdaptersAreRefusedWithTheirKey) {
  const std::vector<std::pair<std::string, json::value>> unsupported = {
      {"target_modules", json::array{"o_proj", "q_proj"}},
      {"target_modules", json::array{"q_proj"}},
      {"target_modules", nullptr},
      {"peft_type", "LOHA"},
      {"bias", "all"},
      {"use_dora", true},
      {"rank_pattern", json::object{{"o_proj", 8}}},
      {"layers_to_transform", json::array{0}},
      {"modules_to_save", json::array{"lm_head"}},
  };
  for (const auto& [key, value] : unsupported) {
    change_config([&](json::object& o) { o[key] = value; });
    expect_refused(ErrorKind::kUnsupported, key);
  }
  for (const json::value& rank : {json::value(0), json::value(nullptr)}) {
    change_config([&](json::object& o) { o["r"] = rank; });
    expect_refused(ErrorKind::kBadInput, ": r: ");
  }
  change_config([](json::object& o) { o["r"] = "four"; });
  expect_refused(ErrorKind::kBadInput, "key \"r\"");
}

TEST_F(Adapter, RanksAndBaseModelsThatDoNotFitAreRefused) {
  change_config([](json::object& o) { o["r"] = 8; });
  expect_refused(ErrorKind::kBadInput, "expected shape [8, 64], got [4, 64]");
  change_config([](json::object&) {});
  decoder.width = 32;
  expect_refused(ErrorKind::kBadInput, "expected shape [32, 4], got [48, 4]");
  decoder.width = 48;
  decoder.layers = 1;
  expect_refused(ErrorKind::kBadInput, "expected 2 tensors");
  decoder.layers = 3;
  expect_refused(ErrorKind::kBadInput, "layers.2.self_attn.o_proj.lora_A.weight");
  decoder.layers = 2;
  fs::remove(folder / "adapter_model.safetensors");
  expect_refused(ErrorKind::kBadInput, "adapter_model.safetensors");
  fs::remove_all(folder);
  expect_refused(ErrorKind::kBadInput, "adapter_config.json");
}

TEST_F(Adapter, IsFoundInTheModelsFolderTakenFromAnotherOrLeftOut) {
  ModelOptions options{WeightType::kF32, 1, 64};
  EXPECT_TRUE((*load_model(kModel, options))->lm().info().has_draft_adapter);
  options.draft_adapter = folder;
  EXPECT_TRUE((*load_model(kModel, options))->lm().info().has_draft_adapter);
  options.draft_adapter = "none";
  auto without = load_model(kModel, options);
  ASSERT_TRUE(without);
  EXPECT_FALSE((*without)->lm().info().has_draft_adapter);
  const Row row{TokenId{5}, Position::text(0), 0, 0, 1, Want::kArgmax};
  const SlotSpan own{0, 1};
  PassOutput out;
  const Status refused = (*without)->lm().forward({{&row, 1}, {&own, 1}, {}, true}, out);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  options.draft_adapter = folder / "nowhere";
  const auto missing = load_model(kModel, options);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kBadInput);
}

TEST_F(Adapter, PassesWithoutItKeepTheirBits) {
  const auto rows = read_rows_file(kModel / "rows_block.json");
  ASSERT_TRUE(rows);
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
    ModelOptions options{type, 2, 128};
    auto with = load_model(kModel, options);
    options.draft_adapter = "none";
    auto without = load_model(kModel, options);
    ASSERT_TRUE(with && without);
    const auto plain = forward_rows((*without)->lm(), *rows, {});
    const auto before = forward_rows((*with)->lm(), *rows, {});
    const auto adapted = forward_rows((*with)->lm(), *rows, {}, {0, {}, true});
    const auto after = forward_rows((*with)->lm(), *rows, {});
    ASSERT_TRUE(plain && before && adapted && after);
    EXPECT_EQ(std::memcmp(plain->data(), before->data(), plain->size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(plain->data(), after->data(), plain->size() * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(plain->data(), adapted->data(), plain->size() * sizeof(float)), 0) << "the adapter does something";
  }
}

}  // namespace
}  // namespace slip
