// SPDX-License-Identifier: Apache-2.0
// Files that are not what they say: every one gives an image or a one-line error, never a crash, and never a large allocation.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/philox.h"
#include "image/decoders.h"
#include "image/image.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFiles = fs::path(SLIP_FIXTURES) / "images" / "files";

std::vector<std::byte> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string s((std::istreambuf_iterator<char>(in)), {});
  const auto b = std::as_bytes(std::span(s));
  return {b.begin(), b.end()};
}

std::vector<fs::path> all_files() {
  std::vector<fs::path> files;
  for (const fs::path& folder : {kFiles, kFiles.parent_path() / "formats"}) {
    for (const auto& e : fs::directory_iterator(folder)) {
      const std::string extension = e.path().extension();
      if (extension != ".json" && extension != ".py") files.push_back(e.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_one_line(const std::string& s) { return !s.empty() && s.find('\n') == std::string::npos; }

/// 1 to 8 changes: a byte replaced, bits flipped, a run cut out, a run doubled, the tail cut off.
void mutate(std::vector<std::byte>& b, PhiloxStream& random) {
  for (uint32_t changes = 1 + random.below(8); changes > 0 && b.size() > 4; --changes) {
    const auto n = static_cast<uint32_t>(b.size());
    const uint32_t at = random.below(n), run = 1 + random.below(std::min(n - at, 64u));
    switch (random.below(6)) {
      case 0:
        b[at] = static_cast<std::byte>(random.bits());
        break;
      case 1:
        b[at] ^= static_cast<std::byte>(1u << random.below(8));
        break;
      case 2:
        b.erase(b.begin() + at, b.begin() + at + run);
        break;
      case 3: {
        const std::vector<std::byte> copy(b.begin() + at, b.begin() + at + run);
        b.insert(b.begin() + at, copy.begin(), copy.end());
        break;
      }
      case 4:
        b.resize(1 + random.below(n));
        break;
      default:
        b[random.below(std::min(n, 64u))] = static_cast<std::byte>(random.bits());
        break;  // headers deserve more
    }
  }
}

TEST(DecodeImage, SurvivesAThousandMutatedFiles) {
  const auto files = all_files();
  ASSERT_GE(files.size(), 75u);
  PhiloxStream random(20, 1);
  int images = 0, errors = 0;
  for (int k = 0; k < 1000; ++k) {
    auto b = bytes_of(files[static_cast<size_t>(k) % files.size()]);
    mutate(b, random);
    const auto image = decode_image(b, "mutated", {.alpha = k % 2 ? AlphaMode::kWhite : AlphaMode::kDrop, .max_pixels = 1 << 24});
    if (image) {
      ++images;
      EXPECT_EQ(image->rgb.size(), size_t{3} * image->width * image->height);
    } else {
      ++errors;
      EXPECT_TRUE(image.error().kind == ErrorKind::kBadInput || image.error().kind == ErrorKind::kUnsupported)
          << image.error().message;
      EXPECT_TRUE(is_one_line(image.error().message)) << image.error().message;
    }
  }
  EXPECT_GT(images, 30);  // both ways out were walked
  EXPECT_GT(errors, 300);
}

TEST(DecodeImage, RefusesEveryTruncationOfEveryFile) {
  for (const fs::path& file : all_files()) {
    const auto whole = bytes_of(file);
    for (size_t n = 0; n < whole.size(); n += 1 + n / 16) {
      const auto image = decode_image(std::span(whole).first(n), "cut");
      ASSERT_FALSE(image) << file << " cut to " << n << " of " << whole.size();
      const bool refused_whole = file.filename() == "webp-animated.webp";
      EXPECT_EQ(image.error().kind,
                refused_whole && image.error().message.ends_with("animation") ? ErrorKind::kUnsupported : ErrorKind::kBadInput)
          << image.error().message;
    }
    const auto one_less = decode_image(std::span(whole).first(whole.size() - 1), "cut");
    EXPECT_FALSE(one_less) << file << " without its last byte";
  }
}

TEST(DecodeImage, SaysWhatItGotInOneLine) {
  const auto message = [](std::string_view s) { return decode_image(std::as_bytes(std::span(s)), "a.jpg").error().message; };
  EXPECT_EQ(message(""), "a.jpg: expected a JPEG, PNG, WebP or PPM image, got an empty file");
  EXPECT_EQ(message("GIF89a\x01\n"),
            "a.jpg: expected a JPEG, PNG, WebP or PPM image, got a file that starts with 'GIF89a\\x01\\x0a'");
}

TEST(DecodeImage, RefusesTooManyPixelsBeforeDecoding) {
  const auto png = bytes_of(kFiles / "gradient.png");  // 64 x 48
  const auto image = decode_image(png, "g.png", {.max_pixels = 3071});
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().message, "g.png: expected at most 3071 pixels, got 64 x 48");
  EXPECT_TRUE(decode_image(png, "g.png", {.max_pixels = 3072}));
}

TEST(DecodeImage, RefusesASmallFileThatClaimsAHugePicture) {
  auto jpeg = bytes_of(kFiles / "progressive.jpg");
  static constexpr std::array kFrame = {std::byte{0xff}, std::byte{0xc2}};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), kFrame.begin(), kFrame.end());
  ASSERT_NE(frame, jpeg.end());
  for (int i = 5; i < 9; ++i) frame[i] = std::byte{0x3f};  // 16191 x 16191
  const auto image = decode_image(jpeg, "bomb.jpg");
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().message, "bomb.jpg: expected at least 512008 bytes for 16191 x 16191 pixels, got 971");
  // WebP says its size in 14 bits a side: 800 MB as RGB.
  const std::pair<const char*, std::array<uint8_t, 4>> claims[] = {{"webp-lossy.webp", {0xff, 0x3f, 0xff, 0x3f}},
                                                                   {"webp-lossless.webp", {0xff, 0xff, 0xff, 0x0f}}};
  for (const auto& [name, sides] : claims) {
    auto webp = bytes_of(kFiles.parent_path() / "formats" / name);
    std::memcpy(webp.data() + (sides[3] == 0x3f ? 26 : 21), sides.data(), 4);
    const auto big = decode_image(webp, name);
    ASSERT_FALSE(big);
    EXPECT_NE(big.error().message.find("expected at least 26"), std::string::npos) << big.error().message;
  }
  auto png = bytes_of(kFiles.parent_path() / "formats" / "png-exif.png");
  constexpr std::string_view kExif = "eXIf";
  const auto exif =
      std::search(png.begin(), png.end(), std::as_bytes(std::span(kExif)).begin(), std::as_bytes(std::span(kExif)).end());
  ASSERT_NE(exif, png.end());
  exif[-4] = std::byte{0x40};  // a chunk of a gigabyte
  EXPECT_NE(decode_image(png, "bomb.png").error().message.find("expected PNG chunks inside the file, got one of 10737"),
            std::string::npos);
  const std::string_view ppm = "P6 10000 10000 255\nabc";
  EXPECT_FALSE(decode_image(std::as_bytes(std::span(ppm)), "bomb.ppm"));
}

/// A PNG chunk: length, type, body, sum.
std::vector<std::byte> chunk_of(std::string_view type, std::string_view body) {
  const auto* text = reinterpret_cast<const Bytef*>(body.data());
  uLong sum = crc32(0, reinterpret_cast<const Bytef*>(type.data()), static_cast<uInt>(type.size()));
  sum = crc32(sum, text, static_cast<uInt>(body.size()));
  std::vector<std::byte> out;
  const auto number = [&](uLong n) {
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::byte>(n >> shift & 0xff));
  };
  const auto append = [&](std::string_view s) {
    const auto b = std::as_bytes(std::span(s));
    out.insert(out.end(), b.begin(), b.end());
  };
  number(body.size());
  append(type);
  append(body);
  number(sum);
  return out;
}

/// Eight kilobytes of a compressed text stand for eight megabytes: nobody asks for them, so nothing is inflated.
TEST(DecodeImage, DoesNotInflateTheTextsOfAPng) {
  const std::string text(7'900'000, 'a');
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(), 9),
            Z_OK);
  packed.resize(size);
  using namespace std::string_literals;
  const auto ztxt = chunk_of("zTXt", "Comment\0\0"s + packed), itxt = chunk_of("iTXt", "Comment\0\1\0\0\0"s + packed);
  auto png = bytes_of(kFiles.parent_path() / "formats" / "png-exif.png");
  const auto plain = decode_image(png, "plain.png");
  ASSERT_TRUE(plain) << plain.error().message;
  std::vector<std::byte> many;
  for (int i = 0; i < 40; ++i) {
    many.insert(many.end(), ztxt.begin(), ztxt.end());
    many.insert(many.end(), itxt.begin(), itxt.end());
  }
  png.insert(png.begin() + 33, many.begin(), many.end());  // behind the signature and IHDR
  const auto most_kb = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
  };
  const auto before = most_kb();
  const auto image = decode_image(png, "texts.png");
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_LT(most_kb() - before, 100'000) << "80 texts would be 632 MB";
  EXPECT_EQ(image->rgb, plain->rgb) << "upright too: the EXIF chunk is still read";
}

TEST(ExifOrientation, ReadsBothByteOrdersAndStaysInsideTheBlock) {
  using namespace std::string_view_literals;
  const auto read = [](std::string_view s) { return image_detail::exif_orientation(std::as_bytes(std::span(s))); };
  EXPECT_EQ(read("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"sv), 6);
  EXPECT_EQ(read("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0"sv), 8);
  EXPECT_EQ(read("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0"sv), 1);  // 9 is no orientation
  EXPECT_EQ(read("II*\0\xff\xff\xff\xff\x01\0"sv), 1);
  EXPECT_EQ(read("II*\0\x08\0\0\0\xff\xff\x12"sv), 1);
  EXPECT_EQ(read(""sv), 1);
}

}  // namespace
}  // namespace slip
