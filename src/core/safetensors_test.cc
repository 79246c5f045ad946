// SPDX-License-Identifier: Apache-2.0
// safetensors: what is written is read, folders with an index, and hostile files, each with the error that it must give.
#include "core/safetensors.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("slip-safetensors-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string with_length(uint64_t length, std::string_view rest) {
    std::string out(8, '\0');
    for (int i = 0; i < 8; ++i) out[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
    return out.append(rest);
  }
  static std::string file_of(std::string_view header, size_t data_bytes) {
    return with_length(header.size(), std::string(header) + std::string(data_bytes, 'x'));
  }
  fs::path put(std::string_view name, std::string_view bytes) {
    EXPECT_TRUE(write_file(folder_ / name, bytes));
    return folder_ / name;
  }
  // The error of a file of these bytes; it must exist, be the file's fault and name the file.
  std::string refused(std::string_view bytes) {
    const fs::path file = put("bad.safetensors", bytes);
    const auto r = Checkpoint::open_file(file);
    if (r) return "accepted";
    EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(r.error().message, HasSubstr(file.string()));
    EXPECT_EQ(r.error().message.find('\n'), std::string::npos);
    return r.error().message;
  }
  std::string refused_header(std::string_view header, size_t data_bytes) { return refused(file_of(header, data_bytes)); }
  std::string refused_index(std::string_view index) {
    put("model.safetensors.index.json", index);
    const auto r = Checkpoint::open_folder(folder_);
    if (r) return "accepted";
    EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(r.error().message, HasSubstr(folder_.string()));
    return r.error().message;
  }

  fs::path folder_;
};

std::span<const std::byte> bytes_of(const auto& v) { return std::as_bytes(std::span(v)); }

TEST_F(Safetensors, ReadsBackWhatWasWritten) {
  const std::vector<float> a = {1, -2, 3.5F, 0, 5, 6};
  const std::vector<int64_t> b = {7, -8};
  const std::vector<uint8_t> c = {1, 0, 255};
  const std::vector<TensorToWrite> tensors = {{"z.weight", DType::kF32, {2, 3}, bytes_of(a)},
                                              {"odd \"name\"\n\u00e9", DType::kU8, {3}, bytes_of(c)},
                                              {"misaligned", DType::kI64, {2, 1}, bytes_of(b)},
                                              {"scalar", DType::kF32, {}, bytes_of(a).first(4)},
                                              {"empty", DType::kBF16, {0, 4}, {}}};
  const fs::path file = folder_ / "model.safetensors";
  ASSERT_TRUE(write_safetensors(file, tensors, {{"format", "pt"}, {"k", "v\t"}}));
  for (const auto& r : {Checkpoint::open_file(file), Checkpoint::open_folder(folder_)}) {
    ASSERT_TRUE(r) << r.error().message;
    ASSERT_EQ(r->tensors().size(), tensors.size());
    for (const TensorToWrite& t : tensors) {
      const TensorView* v = r->find(t.name);
      ASSERT_NE(v, nullptr) << t.name;
      EXPECT_EQ(v->name, t.name);
      EXPECT_EQ(v->dtype, t.dtype);
      EXPECT_EQ(v->shape, t.shape);
      ASSERT_EQ(v->bytes.size(), t.bytes.size());
      EXPECT_TRUE(std::equal(v->bytes.begin(), v->bytes.end(), t.bytes.begin()));
    }
    EXPECT_EQ(r->metadata().at("format"), "pt");
    EXPECT_EQ(r->metadata().at("k"), "v\t");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(r->find("z.weight")->bytes.data()) % 64, 0u);
    EXPECT_EQ(read_as_f32(*r->find("z.weight")), a);
    EXPECT_EQ(read_as_f32(*r->find("misaligned")), (std::vector<float>{7, -8}));
    EXPECT_EQ(read_as_f32(*r->find("scalar")), (std::vector<float>{1}));
    EXPECT_TRUE(read_as_f32(*r->find("empty")).empty());
    std::vector<float> middle(2);
    read_as_f32(*r->find("z.weight"), 1, middle);
    EXPECT_EQ(middle, (std::vector<float>{-2, 3.5F}));
  }
}

TEST_F(Safetensors, ReadsEveryTypeAsF32AtAnyAlignment) {
  // One byte in front makes everything behind it misaligned.
  const auto value = [](DType t, auto stored) {
    std::string bytes(sizeof(stored) + 1, '\0');
    std::memcpy(bytes.data() + 1, &stored, sizeof(stored));
    TensorView v{"t", t, {1}, std::as_bytes(std::span(bytes)).subspan(1)};
    return read_as_f32(v).at(0);
  };
  EXPECT_EQ(value(DType::kF64, -0.1), -0.1F);
  EXPECT_EQ(value(DType::kF32, 0.1F), 0.1F);
  EXPECT_EQ(value(DType::kF16, uint16_t{0xc100}), -2.5F);
  EXPECT_EQ(value(DType::kBF16, uint16_t{0xc020}), -2.5F);
  EXPECT_EQ(value(DType::kI64, int64_t{-16777217}), -16777216.0F);
  EXPECT_EQ(value(DType::kI32, int32_t{-3}), -3.0F);
  EXPECT_EQ(value(DType::kI16, int16_t{-300}), -300.0F);
  EXPECT_EQ(value(DType::kI8, int8_t{-128}), -128.0F);
  EXPECT_EQ(value(DType::kU8, uint8_t{200}), 200.0F);
  EXPECT_EQ(value(DType::kBool, uint8_t{1}), 1.0F);
  EXPECT_EQ(value(DType::kF8E4M3, uint8_t{0x7e}), 448.0F);
  EXPECT_EQ(value(DType::kF8E5M2, uint8_t{0x7b}), 57344.0F);
}

TEST_F(Safetensors, FindsNanAndInfinityAnywhere) {
  std::vector<float> a(10'000, 1.0F);
  const TensorView v{"a", DType::kF32, {10'000}, bytes_of(a)};
  EXPECT_TRUE(all_finite(v));
  a[9'999] = NAN;
  EXPECT_FALSE(all_finite(v));
  a[9'999] = 1;
  a[4096] = INFINITY;
  EXPECT_FALSE(all_finite(v));
  const std::vector<double> large = {1e300};
  EXPECT_TRUE(all_finite({"d", DType::kF64, {1}, bytes_of(large)}));
}

TEST_F(Safetensors, GetNamesWhatWasExpectedAndFound) {
  const std::vector<float> a(6);
  const std::vector<TensorToWrite> tensors = {{"a", DType::kF32, {2, 3}, bytes_of(a)}};
  ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", tensors));
  const auto r = Checkpoint::open_folder(folder_);
  ASSERT_TRUE(r);
  const std::vector<int64_t> good = {-1, 3}, bad = {2, 4}, longer = {2, 3, 1};
  EXPECT_TRUE(r->get("a", good));
  EXPECT_TRUE(r->get("a"));
  EXPECT_EQ(r->get("a", bad).error().message, folder_.string() + ": tensor a: expected shape [2, 4], got [2, 3]");
  EXPECT_EQ(r->get("a", longer).error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(r->get("b").error().message, HasSubstr("tensor b"));
}

TEST_F(Safetensors, ViewsOutliveTheFirstCopy) {
  const std::vector<float> a = {1, 2};
  const std::vector<TensorToWrite> tensors = {{"a", DType::kF32, {2}, bytes_of(a)}};
  ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", tensors));
  std::optional<Checkpoint> copy;
  {
    auto r = Checkpoint::open_folder(folder_);
    ASSERT_TRUE(r);
    copy = *r;
  }
  EXPECT_EQ(read_as_f32(*copy->find("a")), a);
}

TEST_F(Safetensors, RefusesFilesThatAreCutOrLieAboutTheHeader) {
  EXPECT_THAT(refused(""), HasSubstr("expected at least 8 bytes, got 0"));
  EXPECT_THAT(refused("1234567"), HasSubstr("got 7"));
  EXPECT_THAT(refused(with_length(2, "{")), HasSubstr("expected at most the 1 bytes"));
  EXPECT_THAT(refused(with_length(100'000'001, "{}")), HasSubstr("expected at most 100000000, got 100000001"));
  EXPECT_THAT(refused(with_length(~uint64_t{0}, "{}")), HasSubstr("got 18446744073709551615"));
  EXPECT_THAT(refused(with_length(0, "")), HasSubstr("expected JSON that starts with '{'"));
  EXPECT_THAT(refused_header("[]", 0), HasSubstr("starts with '{'"));
  EXPECT_THAT(refused_header("{\"a\":", 0), HasSubstr("expected JSON"));
  EXPECT_THAT(refused_header("{} x", 0), HasSubstr("expected JSON"));
  EXPECT_THAT(refused_header("{\"\xff\":1}", 0), HasSubstr("expected JSON"));
  EXPECT_THAT(refused_header("{}", 3), HasSubstr("expected 0 bytes of data as the header says, got 3"));
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refused_header(good, 8), "accepted");
  EXPECT_EQ(refused_header(good + "   \n", 8), "accepted");
  EXPECT_THAT(refused_header(good, 7), HasSubstr("tensor \"a\": data_offsets: expected at most 7 bytes of data, got [0, 8)"));
  EXPECT_THAT(refused_header(good, 9), HasSubstr("expected 8 bytes of data as the header says, got 9"));
  std::string deep = R"({"a":{"x":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}}";
  EXPECT_THAT(refused_header(deep, 0), HasSubstr("expected JSON"));
}

TEST_F(Safetensors, RefusesWrongEntries) {
  const auto entry = [&](std::string_view fields, size_t data) {
    return refused_header(fmt::format("{{\"t\":{{{}}}}}", fields), data);
  };
  EXPECT_EQ(entry(R"("dtype":"U8","shape":[],"data_offsets":[0,1])", 1), "accepted");
  EXPECT_EQ(entry(R"("dtype":"U8","note":{"x":[1,{"y":2}]},"shape":[1],"data_offsets":[0,1])", 1), "accepted");
  EXPECT_EQ(entry(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])", 1), "accepted");
  EXPECT_THAT(entry(R"("dtype":"F4","shape":[2],"data_offsets":[0,2])", 1), HasSubstr("expected at most 1 bytes"));
  EXPECT_THAT(entry(R"("dtype":"F4","shape":[2],"data_offsets":[1,0])", 1), HasSubstr("expected begin <= end, got [1, 0)"));
  for (const char* name : {"f32", "", "F 4", "4F", "ABCDEFGHIJKLMNOPQ"})
    EXPECT_THAT(entry(fmt::format(R"("dtype":"{}","shape":[2],"data_offsets":[0,1])", name), 1),
                HasSubstr(fmt::format("got \"{}\"", name)));
  EXPECT_THAT(entry(R"("dtype":3,"shape":[2],"data_offsets":[0,1])", 1), HasSubstr("dtype: expected a string, got 3"));
  EXPECT_THAT(entry(R"("shape":[1],"data_offsets":[0,1])", 1), HasSubstr("dtype: expected a string, got nothing"));
  EXPECT_THAT(entry(R"("dtype":"U8","data_offsets":[0,1])", 1), HasSubstr("shape: expected an array, got nothing"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1])", 1), HasSubstr("data_offsets: expected an array, got nothing"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", 1), HasSubstr("got -1"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])", 1), HasSubstr("got 1.5"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])", 1), HasSubstr("got an array"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":1,"data_offsets":[0,1])", 1), HasSubstr("shape: expected an array, got 1"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])", 1),
              HasSubstr("got 18446744073709551615"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[99999999999999999999999],"data_offsets":[0,1])", 1), HasSubstr("got 1e+23"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0), HasSubstr("fewer than 2^63"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0), HasSubstr("fewer than 2^63"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,20])", 20),
              HasSubstr("expected 24 bytes for F32 [2, 3], got 20"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", 1), HasSubstr("expected begin <= end, got [1, 0)"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1), HasSubstr("expected two numbers, got 1"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])", 1), HasSubstr("expected two numbers, got 3"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])", 1), HasSubstr("got -1"));
  EXPECT_THAT(entry(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])", 1),
              HasSubstr("dtype: expected one such key, got two"));
  EXPECT_THAT(entry(R"("dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807])", 1),
              HasSubstr("expected at most 1 bytes of data"));
  const std::vector<int> ones(33, 1);
  EXPECT_THAT(entry(fmt::format(R"("dtype":"U8","shape":[{}],"data_offsets":[0,1])", fmt::join(ones, ",")), 1),
              HasSubstr("at most 32 dimensions"));
  EXPECT_THAT(refused_header(R"({"t":7})", 0), HasSubstr("tensor \"t\": expected an object, got 7"));
  EXPECT_THAT(refused_header(R"({"t":[7]})", 0), HasSubstr("tensor \"t\": expected an object, got an array"));
  EXPECT_THAT(refused_header(R"({"__metadata__":{"a":1}})", 0), HasSubstr("a: expected a string, got 1"));
  EXPECT_THAT(refused_header(R"({"__metadata__":{"a":{}}})", 0), HasSubstr("a: expected a string, got an object"));
}

TEST_F(Safetensors, RefusesOverlapHolesAndDuplicates) {
  const auto two = [&](std::string_view a, int b0, int b1, int c0, int c1, size_t data) {
    return refused_header(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                                      R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                      a, b1 - b0, b0, b1, c1 - c0, c0, c1),
                          data);
  };
  EXPECT_EQ(two("a", 0, 4, 4, 8, 8), "accepted");
  EXPECT_EQ(two("a", 4, 8, 0, 4, 8), "accepted");
  EXPECT_EQ(two("a", 0, 4, 4, 4, 4), "accepted");
  EXPECT_THAT(two("a", 0, 4, 3, 8, 8), HasSubstr("tensor \"b\": data_offsets: expected begin 4 (tensors must not overlap), got 3"));
  EXPECT_THAT(two("a", 0, 4, 0, 4, 4), HasSubstr("must not overlap"));
  EXPECT_THAT(two("a", 0, 4, 5, 8, 8), HasSubstr("expected begin 4 (no holes between tensors), got 5"));
  EXPECT_THAT(two("a", 1, 4, 4, 8, 8), HasSubstr("expected begin 0 (no holes between tensors), got 1"));
  EXPECT_THAT(two("b", 0, 4, 4, 8, 8), HasSubstr("tensor \"b\": expected one entry, got two"));
}

TEST_F(Safetensors, ReadsShardsThroughTheIndexAndRefusesBadOnes) {
  const std::vector<float> a = {1, 2}, b = {3};
  const std::vector<TensorToWrite> one = {{"a", DType::kF32, {2}, bytes_of(a)}, {"extra", DType::kF32, {1}, bytes_of(b)}};
  const std::vector<TensorToWrite> two = {{"b", DType::kF32, {1}, bytes_of(b)}};
  ASSERT_TRUE(write_safetensors(folder_ / "s1.safetensors", one));
  ASSERT_TRUE(write_safetensors(folder_ / "s2.safetensors", two));
  put("model.safetensors.index.json", R"({"metadata":{"total_size":12},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  {
    const auto r = Checkpoint::open_folder(folder_);
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(r->tensors().size(), 2u);
    EXPECT_EQ(read_as_f32(*r->find("a")), a);
    EXPECT_EQ(read_as_f32(*r->find("b")), b);
    EXPECT_EQ(r->path(), folder_);
  }
  {  // a smaller model was saved over a larger one: the index is left of that
    ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", two));
    const auto r = Checkpoint::open_folder(folder_);
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(r->tensors().size(), 1u);
    EXPECT_FALSE(r->has("a"));
    fs::remove(folder_ / "model.safetensors");
  }
  EXPECT_THAT(refused_index(R"({"weight_map":{"a":"s9.safetensors"}})"), HasSubstr("s9.safetensors (of 1 tensors, first \"a\")"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"c":"s1.safetensors"}})"), HasSubstr("tensor \"c\": expected it in"));
  for (const std::string_view path :
       {"../s1.safetensors", "/etc/passwd", "x/../s1.safetensors", "..", ".", "", "a\\\\b", "s1\\u0000"}) {
    EXPECT_THAT(refused_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", path)),
                HasSubstr("expected a file name without a path"));
  }
  EXPECT_THAT(refused_index(R"({"weight_map":{"a":7}})"), HasSubstr("tensor \"a\": expected a file name"));
  EXPECT_THAT(refused_index(R"({"weight_map":[]})"), HasSubstr("expected an object"));
  EXPECT_THAT(refused_index("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(refused_index("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refused_index("{"), HasSubstr("expected JSON"));
  EXPECT_EQ(Checkpoint::open_folder(folder_ / "none").error().kind, ErrorKind::kBadInput);
}

TEST_F(Safetensors, TensorsOfTypesThatAreNotReadSpoilOnlyThemselves) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F8_E8M0","shape":[3],
    "data_offsets":[2,5]}})";
  const fs::path file = put("model.safetensors", file_of(header, 5));
  put("shard.safetensors", file_of(header, 5));
  const auto check = [](const Result<Checkpoint>& c) {
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_TRUE(c->get("a"));
    EXPECT_EQ(c->tensors().size(), 1u);
    EXPECT_FALSE(c->has("b"));
    ASSERT_NE(c->unread("b"), nullptr);
    EXPECT_EQ(*c->unread("b"), "F8_E8M0");
    EXPECT_EQ(c->unread("a"), nullptr);
    const auto b = c->get("b");
    ASSERT_FALSE(b);
    EXPECT_EQ(b.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(b.error().message, HasSubstr("tensor b: expected one of the types"));
    EXPECT_THAT(b.error().message, HasSubstr("got F8_E8M0"));
  };
  check(Checkpoint::open_file(file));
  check(Checkpoint::open_folder(folder_));
  put("model.safetensors.index.json", R"({"weight_map":{"a":"shard.safetensors","b":"shard.safetensors"}})");
  check(Checkpoint::open_folder(folder_));
}

TEST_F(Safetensors, WeightsInOtherFormsAreRefusedByTheFilesName) {
  put("notes.txt", "");
  EXPECT_EQ(Checkpoint::open_folder(folder_).error().kind, ErrorKind::kBadInput);
  for (const char* name : {"pytorch_model-00001-of-00002.bin", "model-q4.gguf", "consolidated.safetensors"}) {
    put(name, "");
    const auto r = Checkpoint::open_folder(folder_);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(r.error().message, HasSubstr(std::string("index.json, got ") + name));
    std::filesystem::remove(folder_ / name);
  }
  EXPECT_EQ(Checkpoint::open_file(folder_).error().kind, ErrorKind::kBadInput);
}

void mutate(std::string& bytes, PhiloxStream& random) {
  const size_t at = random.below(static_cast<uint32_t>(bytes.size()));
  switch (random.below(5)) {
    case 0:
      bytes[at] = static_cast<char>(random.bits());
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
      break;
    case 2:
      bytes.erase(at, 1 + random.below(4));
      break;
    case 3:
      bytes.insert(at, 1, "0123456789,:[]{}\"- "[random.below(19)]);
      break;
    default:
      bytes.insert(at, bytes.substr(random.below(static_cast<uint32_t>(bytes.size())), 1 + random.below(20)));
      break;
  }
  if (bytes.empty()) bytes = "x";
}

TEST_F(Safetensors, MutatedFilesGiveAnErrorOrTheRightTensors) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"first":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("second":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
  std::string original = with_length(header.size(), header);
  for (int i = 0; i < 22; ++i) original += static_cast<char>(i);
  PhiloxStream random(2024, 0);
  constexpr size_t kTensors = 2;
  int accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = original;
    for (uint32_t k = 0, n = 1 + random.below(3); k < n; ++k) mutate(bytes, random);
    const fs::path file = put("mutant.safetensors", bytes);
    const auto r = Checkpoint::open_file(file);
    if (!r) {
      EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
      EXPECT_THAT(r.error().message, HasSubstr(file.string()));
      continue;
    }
    ++accepted;
    // Whatever was accepted covers the data exactly, and every byte of it can be read.
    uint64_t length = 0, total = 0;
    std::memcpy(&length, bytes.data(), 8);
    for (const auto& [name, t] : r->tensors()) {
      EXPECT_EQ(t.bytes.size(), static_cast<size_t>(t.elements()) * size_of(t.dtype));
      EXPECT_EQ(read_as_f32(t).size(), static_cast<size_t>(t.elements()));
      all_finite(t);
      total += t.bytes.size();
    }
    // A changed letter of a type makes a tensor that is kept and not read.
    if (r->tensors().size() < kTensors)
      EXPECT_LT(total, bytes.size() - 8 - length);
    else
      EXPECT_EQ(total, bytes.size() - 8 - length);
  }
  EXPECT_GT(accepted, 20);  // changed names and data bytes are no errors
  EXPECT_LT(accepted, 500);
}

}  // namespace
}  // namespace slip
