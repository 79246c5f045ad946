// SPDX-License-Identifier: Apache-2.0
// Planes for plain ViTs against the pixel values of OpenVLA's processor, bit for bit, and what a damaged configuration may do.
#include "image/openvla_preprocess.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/safetensors.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kModels = fs::path(SLIP_FIXTURES) / "models";

json::object config_of(const std::string& text) {
  auto v = parse_json(text, "test");
  EXPECT_TRUE(v) << v.error().message;
  return v->get_object();
}

Result<PlanesConfig> fixture_config(const std::string& model) {
  auto v = read_json(kModels / model / "preprocessor_config.json");
  EXPECT_TRUE(v);
  return planes_config(v->get_object(), model);
}

Image gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) image.rgb.push_back(static_cast<uint8_t>(x * 7 + y * 3 + c * 50));
  return image;
}

class PlanesFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(PlanesFixture, EqualThePublishedProcessorBitForBit) {
  const fs::path folder = kModels / GetParam();
  const auto config = fixture_config(GetParam());
  ASSERT_TRUE(config) << config.error().message;
  const auto image = load_image(folder / "image_0.png");
  ASSERT_TRUE(image);
  const auto planes = image_planes(*image, *config);
  ASSERT_TRUE(planes) << planes.error().message;
  const auto expected = Checkpoint::open_file(folder / "expected_images.safetensors");
  ASSERT_TRUE(expected);
  const TensorView* view = expected->find("pixel_values");
  ASSERT_NE(view, nullptr);
  ASSERT_EQ(view->shape, (std::vector<int64_t>{planes->channels, planes->height, planes->width}));
  ASSERT_EQ(view->bytes.size(), planes->values.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(view->bytes.data(), planes->values.data(), view->bytes.size()), 0);
  EXPECT_EQ(config->height, planes->height);
  EXPECT_EQ(config->width, planes->width);
}

INSTANTIATE_TEST_SUITE_P(Models, PlanesFixture, ::testing::Values("openvla", "dinov2", "dinov2_registers", "dinov2_swiglu"),
                         [](const auto& info) { return std::string(info.param); });

// One tower of Prismatic's processor, with mean 0 and std 1: values are bytes / 255.
PlanesConfig prismatic(const std::string& size, const std::string& more = "") {
  auto c = planes_config(config_of(R"({"image_processor_type": "PrismaticImageProcessor", "tvf_resize_params": [{"size": )" + size +
                                   R"(, "interpolation": 3}], "tvf_crop_params": [{"output_size": [8, 8]}],
      "tvf_normalize_params": [{"mean": [0, 0, 0], "std": [1, 1, 1]}])" +
                                   more + "}"),
                         "test");
  EXPECT_TRUE(c) << c.error().message;
  return *c;
}

TEST(Planes, ResizeNaiveLosesTheAspectAndResizeCropCutsTheMiddle) {
  const Image image = gradient(40, 20);
  const auto naive = image_planes(image, prismatic("[8, 8]"));
  ASSERT_TRUE(naive);
  const Image square = resize_bicubic(image, 8, 8);
  EXPECT_EQ(naive->values[5], static_cast<float>(square.rgb[15]) / 255.0F);
  const auto crop = image_planes(image, prismatic("8"));
  ASSERT_TRUE(crop);
  const Image scaled = resize_bicubic(image, 16, 8);
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x)
      EXPECT_EQ(crop->values[64 + y * 8 + x], static_cast<float>(scaled.rgb[3 * (y * 16 + x + 4) + 1]) / 255.0F);
}

TEST(Planes, LetterboxPadsWithTheFillAndKeepsTheAspect) {
  // 28 rows of fill above and below; an output row of the filter reads 16 around its middle.
  const Image image{64, 8, std::vector<uint8_t>(64 * 8 * 3, 255)};
  const auto c = prismatic("8", R"(, "tvf_do_letterbox": true, "tvf_letterbox_fill": [10, 20, 30])");
  const auto planes = image_planes(image, c);
  ASSERT_TRUE(planes);
  EXPECT_EQ(planes->values[0], 10 / 255.0F);
  EXPECT_EQ(planes->values[64], 20 / 255.0F);
  EXPECT_EQ(planes->values[128], 30 / 255.0F);
  EXPECT_EQ(planes->values[63], 10 / 255.0F);
  EXPECT_GT(planes->values[4 * 8 + 4], 100 / 255.0F);
}

TEST(Planes, OddMarginsAreRoundedAsEachLibraryRoundsThem) {
  // 8 of 11 columns: margins of 1.5. round(1.5) is 2, 3 // 2 is 1.
  const Image image = gradient(11, 8);
  const auto torch = image_planes(image, prismatic("[8, 11]"));
  auto own = prismatic("[8, 11]");
  own.halves_to_even = false;
  const auto cut = image_planes(image, own);
  ASSERT_TRUE(torch);
  ASSERT_TRUE(cut);
  EXPECT_EQ(torch->values[0], static_cast<float>(image.rgb[6]) / 255.0F);
  EXPECT_EQ(cut->values[0], static_cast<float>(image.rgb[3]) / 255.0F);
}

TEST(Planes, AnExtremeShapeIsRefusedBeforeItIsMade) {
  const Image thin{100000, 1, std::vector<uint8_t>(300000)};
  const auto refused = image_planes(thin, prismatic("4096", R"(, "x": 1)"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  const auto boxed = image_planes(thin, prismatic("8", R"(, "tvf_do_letterbox": true, "tvf_letterbox_fill": [0, 0, 0])"));
  ASSERT_FALSE(boxed);
  const auto small = image_planes(gradient(4, 4), prismatic("[4, 4]"));
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, ErrorKind::kUnsupported);
}

TEST(Planes, DamagedConfigurationsAreErrorsThatNameTheKey) {
  const std::string rest = R"(, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]})";
  for (const auto& [text, kind, named] : std::vector<std::tuple<std::string, ErrorKind, std::string>>{
           {R"({"image_processor_type": "CLIPImageProcessor"})", ErrorKind::kUnsupported, "image_processor_type"},
           {R"({"size": {"shortest_edge": 0})" + rest, ErrorKind::kBadInput, "size"},
           {R"({"size": {"shortest_edge": 100000})" + rest, ErrorKind::kBadInput, "size"},
           {R"({"size": "big")" + rest, ErrorKind::kBadInput, "size"},
           {R"({"crop_size": [1, 2, 3])" + rest, ErrorKind::kBadInput, "crop_size"},
           {R"({"resample": 2)" + rest, ErrorKind::kUnsupported, "resample"},
           {R"({"do_normalize": false)" + rest, ErrorKind::kUnsupported, "do_normalize"},
           {R"({"rescale_factor": 0)" + rest, ErrorKind::kBadInput, "rescale_factor"},
           {R"({"image_mean": [0, 0, 0]})", ErrorKind::kBadInput, "image_std"},
           {R"({"image_mean": [0, 0, 0], "image_std": [1, 0, 1]})", ErrorKind::kBadInput, "image_std"},
           {R"({"tvf_resize_params": []})", ErrorKind::kBadInput, "tvf_normalize_params"},
           {R"({"tvf_resize_params": [1], "tvf_normalize_params": [1]})", ErrorKind::kBadInput, "objects"},
           {R"({"tvf_resize_params": [{"size": 8, "interpolation": 2}], "tvf_normalize_params": [{}]})", ErrorKind::kUnsupported,
            "interpolation"},
           {R"({"tvf_resize_params": [{"size": 8}], "tvf_normalize_params": [{"mean": [1e999, 0, 0]}]})", ErrorKind::kBadInput, ""},
           {R"({"tvf_resize_params": [{"size": 8}], "tvf_crop_params": [3], "tvf_normalize_params": [{}]})", ErrorKind::kBadInput,
            "output_size"}}) {
    const auto parsed = parse_json(text, "test");
    if (!parsed) continue;  // refused by the JSON reader
    const auto c = planes_config(parsed->get_object(), "p.json");
    ASSERT_FALSE(c) << text;
    EXPECT_EQ(c.error().kind, kind) << c.error().message;
    EXPECT_NE(c.error().message.find(named), std::string::npos) << c.error().message;
  }
}

}  // namespace
}  // namespace slip
