// SPDX-License-Identifier: Apache-2.0
// Packed folders and fp8: what is packed once computes the same bits as what is packed at start; broken folders get one clear error.
#include "models/weights/packed_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "convert/quantize.h"
#include "convert/synthesize.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "models";

class PackedFolders : public ::testing::Test {
 protected:
  PackedFolders() : root(fs::temp_directory_path() / fmt::format("slip_packed_{}", ::getpid())) {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  ~PackedFolders() override { fs::remove_all(root); }

  // A small Qwen2.5-VL (tied head, tower) and a small Nemotron and OpenVLA: every kind of matrix.
  fs::path synthetic(const std::string& like, const std::string& dtype = "bf16") {
    const fs::path out = root / (like + "-" + dtype);
    ThreadPool pool(2);
    const auto made = synthesize({.like = like, .dtype = dtype, .tiny = true}, out, pool);
    EXPECT_TRUE(made) << made.error().message;
    return out;
  }
  fs::path pack(const fs::path& model, WeightType type) {
    const fs::path out = root / fmt::format("{}-packed-{}", model.filename().string(), word_of_type(type));
    auto folder = QuantizedFolder::make(model, out, {type, 2, false});
    EXPECT_TRUE(folder) << folder.error().message;
    EXPECT_TRUE(folder && folder->commit());
    return out;
  }
  fs::path root;
};

std::vector<float> logits_of(const fs::path& folder, WeightType type) {
  auto model = load_model(folder, {type, 2, 16});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (int32_t i = 0; i < 12; ++i) {
    rows.push_back({TokenId{i * 7 + 3}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kLogits});
    spans.push_back({0, i + 1});
  }
  PassOutput out;
  EXPECT_TRUE((*model)->lm().forward({.rows = rows, .spans = spans}, out));
  return out.logits_NV;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(PackedFolders, ComputeTheSameBitsAsPackingAtStart) {
  for (const char* like : {"qwen2.5-vl-3b", "qwen2.5-0.5b", "nemotron-3b", "openvla-7b"}) {
    const fs::path model = synthetic(like);
    for (const WeightType type : {WeightType::kI8, WeightType::kI4, WeightType::kBF16, WeightType::kF32}) {
      SCOPED_TRACE(fmt::format("{} {}", like, word_of_type(type)));
      EXPECT_TRUE(same_bits(logits_of(pack(model, type), type), logits_of(model, type)));
    }
  }
}

TEST_F(PackedFolders, HaveTheSameBytesWhateverTheSlices) {
  for (const char* like : {"qwen2.5-vl-3b", "openvla-7b"}) {
    const fs::path model = synthetic(like);
    for (const WeightType type : {WeightType::kI8, WeightType::kI4, WeightType::kBF16, WeightType::kF32}) {
      SCOPED_TRACE(fmt::format("{} {}", like, word_of_type(type)));
      const fs::path out = root / fmt::format("{}-slices-{}", like, word_of_type(type));
      auto folder = QuantizedFolder::make(model, out, {.type = type, .threads = 2, .compare = false, .slice_bytes = 1});
      ASSERT_TRUE(folder) << folder.error().message;
      ASSERT_TRUE(folder->commit());
      EXPECT_TRUE(*read_file(out / "model.safetensors") == *read_file(pack(model, type) / "model.safetensors"));
    }
  }
}

TEST_F(PackedFolders, HaveTheSameImageFeatures) {
  const fs::path model = synthetic("qwen2.5-vl-3b"), packed = pack(model, WeightType::kI8);
  std::vector<float> features[2];
  int i = 0;
  for (const fs::path& folder : {model, packed}) {
    auto loaded = load_model(folder, {WeightType::kI8, 1, 16});
    ASSERT_TRUE(loaded) << loaded.error().message;
    Image image{56, 84, std::vector<uint8_t>(56 * 84 * 3)};
    for (size_t p = 0; p < image.rgb.size(); ++p) image.rgb[p] = static_cast<uint8_t>(p * 31 % 251);
    const auto grid = (*loaded)->preprocess(image);
    ASSERT_TRUE(grid) << grid.error().message;
    ASSERT_TRUE((*loaded)->encode_images({&*grid, 1}, features[i++]));
  }
  EXPECT_TRUE(same_bits(features[0], features[1]));
}

TEST_F(PackedFolders, LieInTheFileAndCarryEverythingElseAlong) {
  const fs::path model = synthetic("qwen2.5-vl-3b"), packed = pack(model, WeightType::kI8);
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"})
    EXPECT_EQ(*read_file(packed / file), *read_file(model / file)) << file;
  auto loaded = load_model(packed, {WeightType::kI8, 1, 16});
  ASSERT_TRUE(loaded);
  const auto file = MappedFile::open(packed / "model.safetensors");
  const auto blob = (*loaded)->decoder()->layer(0).gate_up.blob();
  ASSERT_TRUE(file);
  // Not the same mapping, but the same bytes at a 64-byte boundary of the file.
  const auto at = std::search(file->bytes().begin(), file->bytes().end(), blob.begin(), blob.end());
  ASSERT_NE(at, file->bytes().end());
  EXPECT_EQ((at - file->bytes().begin()) % 64, 0);
}

TEST_F(PackedFolders, CarryPartsAlongAndNoOtherCopiesOfTheModel) {
  const fs::path model = synthetic("qwen2.5-vl-3b");
  const auto put = [&](const fs::path& file) {
    fs::create_directories((model / file).parent_path());
    ASSERT_TRUE(write_file(model / file, "x"));
  };
  constexpr std::array kParts = {"head/config.json",
                                 "head/model.safetensors",
                                 "head/width.json",
                                 "lora/adapter_config.json",
                                 "lora/adapter_model.safetensors",
                                 "dflash/config.json",
                                 "dflash/model-00001-of-00001.safetensors",
                                 "dflash/model.safetensors.index.json"};
  for (const char* part : kParts) put(part);
  for (const char* other : {"original/consolidated.00.pth", "original/model.safetensors", "original/model.safetensors.index.json",
                            "onnx/a/model.onnx", "dflash/pytorch_model.bin", "dflash/pytorch_model.bin.index.json"})
    put(other);
  const fs::path packed = pack(model, WeightType::kI8);
  for (const char* part : kParts) EXPECT_TRUE(fs::exists(packed / part)) << part;
  for (const char* other : {"original", "onnx", "dflash/pytorch_model.bin", "dflash/pytorch_model.bin.index.json"})
    EXPECT_FALSE(fs::exists(packed / other)) << other;
}

TEST_F(PackedFolders, ReportTheErrorsOfTheirMatrices) {
  const fs::path model = synthetic("qwen2.5-0.5b");
  double mean[2] = {};
  int i = 0;
  for (const WeightType type : {WeightType::kI8, WeightType::kI4}) {
    auto folder = QuantizedFolder::make(model, root / fmt::format("r{}", i), {type, 2, true});
    ASSERT_TRUE(folder) << folder.error().message;
    for (const MatrixError& e : folder->report().matrices) mean[i] += e.relative / 9;  // embedding and 2 layers of 4
    ASSERT_TRUE(folder->report().output);
    EXPECT_EQ(folder->report().output->layers.size(), 2U);
    EXPECT_GT(folder->report().output->logits, 0);
    EXPECT_LT(folder->report().output->logits, 0.5);
    ASSERT_TRUE(folder->commit());
    const auto stored = read_packed_folder(root / fmt::format("r{}", i));
    ASSERT_TRUE(stored && *stored);
    EXPECT_EQ((*stored)->errors.at("relative_error_of_matrices").as_object().size(), 9U);
    EXPECT_EQ((*stored)->source.at("hash").as_string().size(), 16U);
    ++i;
  }
  // A bell cut at 3.5 deviations, steps of absmax / 127: step / sqrt(12) is 0.6 to 0.8 % of a deviation over rows of this length;
  // int4's published error on normal numbers is 8.3 %.
  EXPECT_GT(mean[0], 0.004);
  EXPECT_LT(mean[0], 0.009);
  EXPECT_GT(mean[1], 0.05);
  EXPECT_LT(mean[1], 0.11);
}

TEST_F(PackedFolders, AskTheDiskForWhatTheyWrite) {
  const fs::path model = synthetic("qwen2.5-vl-3b"), out = root / "reserved";
  constexpr size_t kBeside = 3 << 20;  // bytes of a file that is copied
  ASSERT_TRUE(write_file(model / "README.md", std::string(kBeside, 'x')));
  auto folder = QuantizedFolder::make(model, out, {WeightType::kF32, 2, true});
  ASSERT_TRUE(folder) << folder.error().message;
  ASSERT_TRUE(folder->commit());
  int64_t written = 0;
  for (const auto& file : fs::recursive_directory_iterator(out))
    if (file.is_regular_file()) written += static_cast<int64_t>(file.file_size());
  EXPECT_GE(folder->report().reserved_bytes, written);
  EXPECT_LT(folder->report().reserved_bytes, written + (1 << 20));
}

TEST_F(PackedFolders, SourceHashKnowsEveryByte) {
  const fs::path model = synthetic("qwen2.5-0.5b");
  const auto hash = [&](const fs::path& folder) {
    auto made = QuantizedFolder::make(folder, root / "hashed", {WeightType::kBF16, 2, false});
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->commit());
    const auto stored = read_packed_folder(root / "hashed");
    fs::remove_all(root / "hashed");
    return std::string((*stored)->source.at("hash").as_string());
  };
  const std::string first = hash(model);
  EXPECT_EQ(hash(model), first);
  std::string bytes = *read_file(model / "model.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(write_file(model / "model.safetensors", bytes));
  EXPECT_NE(hash(model), first);
}

Error load_error(const fs::path& folder, WeightType type) {
  const auto model = load_model(folder, {type, 1, 16});
  EXPECT_FALSE(model);
  return model ? Error{} : model.error();
}

TEST_F(PackedFolders, AreRefusedAsAnotherType) {
  const fs::path packed = pack(synthetic("qwen2.5-0.5b"), WeightType::kI8);
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI4}) {
    const Error e = load_error(packed, type);
    EXPECT_EQ(e.kind, ErrorKind::kUnsupported) << e.message;
    EXPECT_NE(e.message.find("expected --dtype int8"), std::string::npos) << e.message;
  }
  const auto natural = natural_type(packed, "bfloat16");
  ASSERT_TRUE(natural);
  EXPECT_EQ(*natural, WeightType::kI8);
  const auto again = QuantizedFolder::make(packed, root / "again", {WeightType::kI8, 1, false});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::kBadInput);
  EXPECT_FALSE(fs::exists(root / "again"));
}

// Edits slipstream.json, as a person with an editor would.
void edit(const fs::path& folder, const std::function<void(json::object&)>& f) {
  json::value v = *read_json(folder / kPackedFile);
  f(v.as_object().at("packed").as_object());
  ASSERT_TRUE(write_file(folder / kPackedFile, pretty(v)));
}

TEST_F(PackedFolders, HostileDescriptionsGiveErrors) {
  const fs::path packed = pack(synthetic("qwen2.5-0.5b"), WeightType::kI8);
  const std::string good = *read_file(packed / kPackedFile), name = "model.layers.1.mlp.down_proj.weight";
  const auto matrix = [&](json::object& p) -> json::object& { return p.at("matrices").as_object().at(name).as_object(); };
  const std::pair<const char*, std::function<void(json::object&)>> cases[] = {
      {"another version", [](json::object& p) { p["version"] = kPackedVersion + 1; }},
      {"a version that is a word", [](json::object& p) { p["version"] = "one"; }},
      {"an unknown type", [](json::object& p) { p["type"] = "int3"; }},
      {"another size", [&](json::object& p) { matrix(p)["rows"] = 57; }},
      {"a negative size", [&](json::object& p) { matrix(p)["columns"] = -152; }},
      {"a size that overflows", [&](json::object& p) { matrix(p)["rows"] = INT64_MAX; }},
      {"a wider type", [&](json::object& p) { matrix(p)["type"] = "bf16"; }},
      {"other parts", [&](json::object& p) { matrix(p)["parts"] = json::array(); }},
      {"no such matrix", [&](json::object& p) { p.at("matrices").as_object().erase(name); }},
      {"matrices that are none", [&](json::object& p) { p["matrices"] = 3; }},
  };
  for (const auto& [what, change] : cases) {
    SCOPED_TRACE(what);
    edit(packed, change);
    EXPECT_NE(load_error(packed, WeightType::kI8).message.find("expected"), std::string::npos);
    ASSERT_TRUE(write_file(packed / kPackedFile, good));
  }
  for (const char* text : {"", "[]", "{\"packed\": 1}", "{\"packed\": {}}", "{}"}) {
    SCOPED_TRACE(text);
    ASSERT_TRUE(write_file(packed / kPackedFile, text));
    EXPECT_EQ(load_error(packed, WeightType::kI8).kind, ErrorKind::kBadInput);
  }
  fs::remove(packed / kPackedFile);
  EXPECT_EQ(load_error(packed, WeightType::kI8).kind, ErrorKind::kBadInput);
}

TEST_F(PackedFolders, HostileWeightFilesGiveErrors) {
  const fs::path packed = pack(synthetic("qwen2.5-0.5b"), WeightType::kI8), file = packed / "model.safetensors";
  const std::string good = *read_file(file);
  ASSERT_TRUE(write_file(file, good.substr(0, good.size() - 100)));
  EXPECT_EQ(load_error(packed, WeightType::kI8).kind, ErrorKind::kBadInput);

  // A scale that is NaN, at the end of a blob: named, not computed with.
  const auto checkpoint = Checkpoint::open_file(file);
  ASSERT_FALSE(checkpoint);
  ASSERT_TRUE(write_file(file, good));
  const auto whole = Checkpoint::open_file(file);
  ASSERT_TRUE(whole);
  std::vector<TensorToWrite> tensors;
  std::vector<std::byte> changed;
  for (const auto& [name, t] : whole->tensors()) {
    tensors.push_back({name, t.dtype, t.shape, t.bytes});
    if (name != "model.layers.0.mlp.down_proj.weight") continue;
    changed.assign(t.bytes.begin(), t.bytes.end());
    const float nan = NAN;
    std::memcpy(changed.data() + changed.size() - 64 * sizeof(float), &nan, sizeof nan);  // 56 rows: one block of 64 scales
    tensors.back().bytes = changed;
  }
  // Blobs before vectors, as the aligned layout wants it.
  std::stable_partition(tensors.begin(), tensors.end(), [](const TensorToWrite& t) { return t.dtype == DType::kU8; });
  ASSERT_TRUE(write_safetensors(file, tensors, {{"format", kPackedFormat}}));
  const Error e = load_error(packed, WeightType::kI8);
  EXPECT_EQ(e.kind, ErrorKind::kBadInput);
  EXPECT_NE(e.message.find("model.layers.0.mlp.down_proj.weight"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("scale"), std::string::npos) << e.message;
}

TEST_F(PackedFolders, MemoryIsRefusedBeforeItIsTaken) {
  const Checkpoint checkpoint = *Checkpoint::open_folder(pack(synthetic("qwen2.5-0.5b"), WeightType::kI8));
  ThreadPool pool(1);
  const auto config = read_model_config(checkpoint.path());
  ASSERT_TRUE(config);
  const auto need = estimate_memory(checkpoint, *config, WeightType::kI8, 1 << 20, pool);
  ASSERT_TRUE(need) << need.error().message;
  EXPECT_GT(need->cache, need->weights);
  const Status refused = check_memory(*need, need->total() - 1, "here");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kResource);
  EXPECT_TRUE(check_memory(*need, need->total(), "here"));
}

// A copy of a fixture whose matrices are stored as fp8 with scales of each published kind, beside one with the products in f32: both
// must give the same bits.
struct Fp8Case {
  const char* ending;
  std::vector<int64_t> (*shape)(int64_t n, int64_t k);
};

// Those of the layers, of a tower's blocks and of its projector.
bool is_fp8(const std::string& name, const TensorView& t) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return t.shape.size() == 2 && name.ends_with(".weight") && (has("proj") || has(".qkv.") || has(".fc"));
}

void write_fp8_pair(const Fp8Case& c, const fs::path& fp8, const fs::path& plain, const std::string& fixture = "llama") {
  const Checkpoint source = *Checkpoint::open_folder(kFixtures / fixture);
  std::vector<std::vector<std::byte>> memory;
  std::vector<TensorToWrite> stored, dense;
  const auto keep = [&](auto span) {
    const auto bytes = std::as_bytes(span);
    memory.emplace_back(bytes.begin(), bytes.end());
    return std::span<const std::byte>(memory.back());
  };
  memory.reserve(1000);
  for (const auto& [name, t] : source.tensors()) {
    if (!is_fp8(name, t)) {
      stored.push_back({name, t.dtype, t.shape, t.bytes});
      dense.push_back(stored.back());
      continue;
    }
    const int64_t n = t.shape[0], k = t.shape[1];
    const std::vector<int64_t> shape = c.shape(n, k);
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    std::vector<float> scales(static_cast<size_t>(count));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.002F * static_cast<float>(1 + i % 7);
    const std::vector<float> w = read_as_f32(t);
    std::vector<uint8_t> codes(w.size());
    std::vector<float> product(w.size());
    for (int64_t i = 0; i < n * k; ++i) {
      const int64_t row = i / k, column = i % k;
      const bool blocks = shape.size() == 2 && shape[0] != n;
      const int64_t at = count == 1 ? 0 : blocks ? row / 128 * shape[1] + column / 128 : row;
      const float s = scales[static_cast<size_t>(at)];
      codes[static_cast<size_t>(i)] = float_to_f8_e4m3(w[static_cast<size_t>(i)] / s);
      product[static_cast<size_t>(i)] = f8_e4m3_to_float(codes[static_cast<size_t>(i)]) * s;
    }
    stored.push_back({name, DType::kF8E4M3, t.shape, keep(std::span(codes))});
    stored.push_back({name + c.ending, DType::kF32, shape, keep(std::span(scales))});
    dense.push_back({name, DType::kF32, t.shape, keep(std::span(product))});
  }
  json::value config = *read_json(kFixtures / fixture / "config.json");
  for (const fs::path& out : {fp8, plain}) {
    fs::create_directories(out);
    if (const fs::path images = kFixtures / fixture / "preprocessor_config.json"; fs::exists(images))
      fs::copy_file(images, out / images.filename());
  }
  ASSERT_TRUE(write_safetensors(fp8 / "model.safetensors", stored));
  ASSERT_TRUE(write_safetensors(plain / "model.safetensors", dense));
  ASSERT_TRUE(write_file(plain / "config.json", pretty(config)));
  config.as_object()["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  ASSERT_TRUE(write_file(fp8 / "config.json", pretty(config)));
}

TEST_F(PackedFolders, Fp8WeightsAreStoredNumbersTimesTheirScales) {
  const Fp8Case cases[] = {
      {"_scale", [](int64_t, int64_t) { return std::vector<int64_t>{}; }},
      {"_scale", [](int64_t, int64_t) { return std::vector<int64_t>{1}; }},
      {"_scale",
       [](int64_t n, int64_t) {
         return std::vector<int64_t>{n, 1};
       }},
      {"_scale_inv", [](int64_t, int64_t) { return std::vector<int64_t>{}; }},
      {"_scale_inv",
       [](int64_t n, int64_t k) {
         return std::vector<int64_t>{(n + 127) / 128, (k + 127) / 128};
       }},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    const fs::path fp8 = root / fmt::format("fp8-{}", i), plain = root / fmt::format("plain-{}", i);
    write_fp8_pair(cases[i], fp8, plain);
    for (const WeightType type : {WeightType::kF32, WeightType::kI8})
      EXPECT_TRUE(same_bits(logits_of(fp8, type), logits_of(plain, type)));
  }
}

// OpenVLA: the towers' matrices, the projector's and the language model's.
TEST_F(PackedFolders, Fp8HoldsInTheTowersOfAnOpenVlaToo) {
  const auto features = [](const fs::path& folder, WeightType type) {
    std::vector<float> out;
    const auto model = load_model(folder, {type, 2, 16});
    EXPECT_TRUE(model) << model.error().message;
    const auto image = load_image(kFixtures / "openvla/image_0.png");
    EXPECT_TRUE(image) << image.error().message;
    if (!model || !image) return out;
    const auto patches = (*model)->preprocess(*image);
    EXPECT_TRUE(patches) << patches.error().message;
    EXPECT_TRUE(patches && (*model)->encode_images({&*patches, 1}, out));
    return out;
  };
  const fs::path fp8 = root / "vla-fp8", plain = root / "vla-plain";
  write_fp8_pair({"_scale_inv",
                  [](int64_t n, int64_t k) {
                    return std::vector<int64_t>{(n + 127) / 128, (k + 127) / 128};
                  }},
                 fp8, plain, "openvla");
  const Checkpoint stored = *Checkpoint::open_folder(fp8);
  for (const char* name : {"vision_backbone.featurizer.blocks.0.attn.qkv.weight", "projector.fc1.weight",
                           "language_model.model.layers.1.mlp.down_proj.weight"}) {
    ASSERT_NE(stored.find(name), nullptr) << name;
    EXPECT_EQ(stored.find(name)->dtype, DType::kF8E4M3) << name;
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kI8}) {
    SCOPED_TRACE(word_of_type(type));
    EXPECT_TRUE(same_bits(features(fp8, type), features(plain, type)));
    EXPECT_TRUE(same_bits(logits_of(fp8, type), logits_of(plain, type)));
  }
}

TEST_F(PackedFolders, Fp8WithoutScalesOrWithStrangeOnesIsRefused) {
  const fs::path fp8 = root / "fp8", plain = root / "plain";
  write_fp8_pair({"_zero_point", [](int64_t, int64_t) { return std::vector<int64_t>{1}; }}, fp8, plain);
  const Error missing = load_error(fp8, WeightType::kBF16);
  EXPECT_EQ(missing.kind, ErrorKind::kBadInput);
  EXPECT_NE(missing.message.find("q_proj.weight_scale_inv"), std::string::npos) << missing.message;
  write_fp8_pair({"_scale", [](int64_t, int64_t) { return std::vector<int64_t>{3}; }}, fp8, plain);
  const Error strange = load_error(fp8, WeightType::kBF16);
  EXPECT_EQ(strange.kind, ErrorKind::kUnsupported);
  EXPECT_NE(strange.message.find("128 x 128"), std::string::npos) << strange.message;
}

TEST_F(PackedFolders, SyntheticFp8LoadsAndPacks) {
  const fs::path model = synthetic("qwen2.5-0.5b", "fp8");
  EXPECT_TRUE(same_bits(logits_of(pack(model, WeightType::kI8), WeightType::kI8), logits_of(model, WeightType::kI8)));
}

}  // namespace
}  // namespace slip
