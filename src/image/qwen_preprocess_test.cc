// SPDX-License-Identifier: Apache-2.0
// Promises of the preprocessing, against the image fixture: transformers' arrays, bit for bit.
#include "image/qwen_preprocess.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "image/openvla_preprocess.h"
#include "image/sha256_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "images";

std::string digest(const std::vector<float>& v) { return sha256_hex(std::as_bytes(std::span(v))); }

/// The fixture's images, decoded as each case's variant says.
Result<Image> image_of(const json::value& c) {
  ImageOptions o;
  if (c.at("variant").as_string() == "white") o.alpha = AlphaMode::kWhite;
  o.grey16 = c.at("variant").as_string() == "high-byte" ? Grey16::kHighByte : Grey16::kClip;  // of the others Pillow's
  return load_image(kFixtures / std::string(c.at("file").as_string()), o);
}

void expect_samples(const std::vector<float>& values, const json::value& want) {
  for (const json::value& s : want.at("samples").as_array())
    EXPECT_FLOAT_EQ(values[static_cast<size_t>(s.as_array()[0].as_int64())], s.as_array()[1].to_number<float>());
}

TEST(SmartResize, EqualsTheTable) {
  const auto table = read_json(kFixtures / "smart_resize.json");
  ASSERT_TRUE(table) << table.error().message;
  const json::array& settings = table->at("settings_min_max").as_array();
  int n = 0;
  for (const json::value& c : table->at("cases").as_array()) {
    const int h = static_cast<int>(c.at("height").as_int64()), w = static_cast<int>(c.at("width").as_int64());
    for (size_t i = 0; i < settings.size(); ++i, ++n) {
      const auto got = smart_resize(h, w, 28, settings[i].as_array()[0].as_int64(), settings[i].as_array()[1].as_int64());
      const json::value& want = c.at("out").as_array()[i];
      ASSERT_EQ(got.has_value(), !want.is_null()) << h << " x " << w;
      if (!got) {
        EXPECT_EQ(got.error().kind, ErrorKind::kBadInput);
        continue;
      }
      EXPECT_EQ(got->height, want.as_array()[0].as_int64()) << h << " x " << w << " setting " << i;
      EXPECT_EQ(got->width, want.as_array()[1].as_int64()) << h << " x " << w << " setting " << i;
    }
  }
  EXPECT_GE(n, 300);
}

TEST(QwenPatches, GiveThePublishedDigestOfTheRamp) {
  Image ramp{252, 252, std::vector<uint8_t>(252 * 252 * 3)};
  for (size_t i = 0; i < ramp.rgb.size(); ++i) ramp.rgb[i] = static_cast<uint8_t>(i);
  const auto g = qwen_patches(ramp, {.max_pixels = 12845056});
  ASSERT_TRUE(g);
  EXPECT_EQ(g->patches(), 324);
  EXPECT_EQ(g->merged(), 81);
  EXPECT_EQ(g->patch_dim, 1176);
  EXPECT_EQ(digest(g->values), "c49b6d88be7086491c81cd45f80c362d4ec930e16768767d299154b250418b35");
}

TEST(QwenPatches, EqualTransformersForEveryFixtureAndSetting) {
  const auto cases = read_json(kFixtures / "cases.json");
  ASSERT_TRUE(cases) << cases.error().message;
  int n = 0;
  for (const json::value& c : cases->at("cases").as_array()) {
    const auto image = image_of(c);
    ASSERT_TRUE(image) << image.error().message;
    for (const json::value& q : c.at("qwen").as_array()) {
      const PreprocessorConfig config{.min_pixels = q.at("min_pixels").as_int64(), .max_pixels = q.at("max_pixels").as_int64()};
      const auto g = qwen_patches(*image, config);
      ASSERT_TRUE(g) << g.error().message;
      const json::array& grid = q.at("grid_thw").as_array();
      EXPECT_EQ(g->t, grid[0].as_int64());
      EXPECT_EQ(g->h, grid[1].as_int64());
      EXPECT_EQ(g->w, grid[2].as_int64());
      const Image resized = resize_bicubic(*image, g->w * 14, g->h * 14);
      EXPECT_EQ(sha256_hex(std::as_bytes(std::span(resized.rgb))), q.at("resized_sha256").as_string());
      EXPECT_EQ(digest(g->values), q.at("pixel_values").at("sha256").as_string()) << c.at("file") << " " << config.max_pixels;
      expect_samples(g->values, q.at("pixel_values"));
      ++n;
    }
  }
  EXPECT_GE(n, 60);
}

TEST(OpenvlaPlanes, EqualTorchvisionForEveryFixture) {
  const auto cases = read_json(kFixtures / "cases.json");
  ASSERT_TRUE(cases);
  const std::array<ChannelScaling, 2> scalings{
      {{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}, {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}}};
  for (const json::value& c : cases->at("cases").as_array()) {
    const auto image = image_of(c);
    ASSERT_TRUE(image);
    for (const json::value& v : c.at("openvla").as_array()) {
      const int side = static_cast<int>(v.at("side").as_int64());
      PlanesConfig config{.height = side, .width = side};
      for (const ChannelScaling& scaling : scalings) config.towers.push_back({.height = side, .width = side, .scaling = scaling});
      const auto planes = image_planes(*image, config);
      ASSERT_TRUE(planes) << planes.error().message;
      EXPECT_EQ(digest(planes->values), v.at("pixel_values").at("sha256").as_string()) << c.at("file");
      expect_samples(planes->values, v.at("pixel_values"));
    }
  }
}

TEST(PreprocessorConfig, ReadsBothSpellingsAndFallsBackToTheClass) {
  const auto read = [](const char* text) { return preprocessor_config(parse_json(text, "p.json")->as_object(), "p.json"); };
  const auto old =
      read(R"({"min_pixels": 3136, "max_pixels": 12845056, "image_std": [0.5, 0.5, 0.5], "rescale_factor": 0.00392156862745098})");
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old->max_pixels, 12845056);
  EXPECT_EQ(old->image_std[1], 0.5);
  EXPECT_EQ(old->rescale_factor, 1.0 / 255);
  const auto renamed = read(R"({"size": {"shortest_edge": 200704, "longest_edge": 200704}})");
  ASSERT_TRUE(renamed);
  EXPECT_EQ(renamed->min_pixels, 200704);
  EXPECT_EQ(renamed->max_pixels, 200704);
  const auto nothing = read("{}");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->min_pixels, 3136);
  EXPECT_EQ(nothing->max_pixels, 1003520);
  EXPECT_EQ(nothing->patch_dim(), 1176);
  EXPECT_EQ(nothing->factor(), 28);
}

TEST(PreprocessorConfig, RefusesWhatItCannotDo) {
  const auto read = [](const char* text) { return preprocessor_config(parse_json(text, "p.json")->as_object(), "p.json"); };
  EXPECT_EQ(read(R"({"do_resize": false})").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read(R"({"resample": 2})").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read(R"({"patch_size": 0})").error().message, "p.json: patch_size: expected 1 to 256, got 0");
  EXPECT_EQ(read(R"({"image_std": [0, 1, 1]})").error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(read(R"({"min_pixels": 10, "max_pixels": 5})").error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(read(R"({"min_pixels": 33554433, "max_pixels": 1099511627776})").error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(read(R"({"max_pixels": 1099511627776})")->max_pixels, 33554432) << "more than twice what is released";
}

}  // namespace
}  // namespace slip
