// SPDX-License-Identifier: Apache-2.0
// Folders whose configuration counts other blocks of a tower than the file has: they would answer, and nonsense.
#include "models/loader.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// Why a copy of the fixture with a changed configuration is not loaded.
std::string refusal_of(const std::string& fixture, const std::function<void(json::object&)>& change) {
  const test::TemporaryFolder temporary;
  const fs::path folder = temporary.path / fixture;
  fs::copy(fs::path(SLIP_FIXTURES) / "models" / fixture, folder, fs::copy_options::recursive);
  json::value config = *read_json(folder / "config.json");
  change(config.get_object());
  EXPECT_TRUE(write_file(folder / "config.json", json::serialize(config)));
  const auto model = load_model(folder, {WeightType::kF32, 1, 64});
  if (model) return "";
  EXPECT_EQ(model.error().kind, ErrorKind::kBadInput);
  return model.error().message;
}

json::object& part(json::object& config, const char* key) { return config[key].as_object(); }

TEST(Loader, BlocksThatTheConfigurationDoesNotCountAreRefused) {
  const auto none = [](json::object&) {};
  EXPECT_EQ(refusal_of("qwen2_5_vl", none), "");
  EXPECT_EQ(refusal_of("openvla", none), "");
  EXPECT_NE(refusal_of("qwen2_5_vl",
                       [](json::object& c) {
                         part(c, "vision_config")["depth"] = 2;
                         part(c, "vision_config")["fullatt_block_indexes"] = {1};
                       })
                .find("expected the tensors of 2 layers, as config.json says, got model.visual.blocks.2."),
            std::string::npos);
  EXPECT_NE(refusal_of("openvla", [](json::object& c) { c["timm_model_args"].as_array()[1].as_object()["depth"] = 4; })
                .find("expected the tensors of 4 layers, as config.json says, got "),
            std::string::npos);
  EXPECT_NE(refusal_of("openvla", [](json::object& c) { c["timm_model_args"].as_array()[0].as_object()["reg_tokens"] = 0; })
                .find("expected no registers, as config.json says, got "),
            std::string::npos);
}

TEST(Loader, FullAttentionIsOfBlocksThatAreThere) {
  EXPECT_NE(refusal_of("qwen2_5_vl",
                       [](json::object& c) {
                         part(c, "vision_config")["fullatt_block_indexes"] = {1, 9};
                       })
                .find("fullatt_block_indexes: expected blocks of 4, got 9"),
            std::string::npos);
}

}  // namespace
}  // namespace slip
