// SPDX-License-Identifier: Apache-2.0
// Writing a synthetic folder: numbers are made in pieces of a few megabytes by all threads and go straight to their place in the
// shard; see synthesize.h.
#include "convert/synthesize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/content_hash.h"
#include "base/file.h"
#include "base/files/atomic_folder.h"
#include "convert/folder_writer.h"

namespace slip {
namespace {

constexpr int64_t kShardBytes = int64_t{5'000'000'000};  // as released shards are cut
constexpr int64_t kPiece = int64_t{1} << 20;             // numbers made at a time by one thread
constexpr int64_t kFp8Block = 128;

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

uint64_t stream_of(uint64_t seed, std::string_view name) {
  uint64_t h = mix_bits(seed + kGolden);
  for (const char c : name) h = mix_bits(h + kGolden + static_cast<uint8_t>(c));
  return h;
}

// A sum of four 16-bit uniforms: bell-shaped, and exact in integers, so that a folder has the same bytes on every machine. Its
// standard deviation is sqrt((2^32 - 1) / 3).
constexpr float kSumDeviation = 37837.227F;
float bell(uint64_t bits) {
  const auto lane = [&](int i) { return static_cast<int32_t>(bits >> (16 * i) & 0xFFFF); };
  return static_cast<float>(lane(0) + lane(1) + lane(2) + lane(3) - 2 * 65535);
}

// One stored tensor: the numbers of `source`, or the block scales of an fp8 one.
struct Stored {
  const SyntheticTensor* source;
  DType dtype;
  bool scales = false;
};

struct Shard {
  std::vector<TensorPlan> plans;
  std::vector<Stored> stored;
  int64_t bytes = 0;
};

void put(std::vector<Shard>& shards, std::string name, std::vector<int64_t> shape, Stored stored) {
  TensorPlan plan{std::move(name), stored.dtype, std::move(shape)};
  if (shards.empty() || (shards.back().bytes > 0 && shards.back().bytes + plan.bytes() > kShardBytes)) shards.emplace_back();
  Shard& s = shards.back();
  s.bytes += plan.bytes();
  s.plans.push_back(std::move(plan));
  s.stored.push_back(stored);
}

std::vector<Shard> plan_shards(const SyntheticModel& model, const std::string& dtype) {
  std::vector<Shard> shards;
  const DType type = dtype == "f32" ? DType::kF32 : dtype == "f16" ? DType::kF16 : DType::kBF16;
  for (const SyntheticTensor& t : model.tensors) {
    if (dtype != "fp8" || !t.decoder_matrix) {
      put(shards, t.name, t.shape, {&t, type});
      continue;
    }
    put(shards, t.name, t.shape, {&t, DType::kF8E4M3});
    const auto blocks = [](int64_t n) { return (n + kFp8Block - 1) / kFp8Block; };
    put(shards, t.name + "_scale_inv", {blocks(t.shape[0]), blocks(t.shape[1])}, {&t, DType::kF32, true});
  }
  return shards;
}

// fp8 has 448 for its largest number; a bell reaches 3.47 deviations.
float fp8_scale(const SyntheticTensor& t) { return t.deviation * 3.5F / 448; }

// Pieces are whole lines of 64 bytes and more, so that no two threads share one.
struct Piece {
  size_t tensor;
  int64_t first, count;
};

std::vector<Piece> pieces_of(const Shard& shard) {
  std::vector<Piece> out;
  for (size_t i = 0; i < shard.plans.size(); ++i) {
    int64_t n = 1;
    for (const int64_t d : shard.plans[i].shape) n *= d;
    for (int64_t first = 0; first < n; first += kPiece) out.push_back({i, first, std::min(kPiece, n - first)});
  }
  return out;
}

Status write_piece(TensorFileWriter& writer, const Shard& shard, const Piece& piece, uint64_t seed) {
  const Stored& s = shard.stored[piece.tensor];
  std::vector<float> x(static_cast<size_t>(piece.count), fp8_scale(*s.source));
  if (!s.scales) synthetic_numbers(seed, *s.source, piece.first, x);
  const size_t size = size_of(s.dtype);
  std::vector<std::byte> bytes(x.size() * size);
  if (s.dtype == DType::kF32) {
    std::memcpy(bytes.data(), x.data(), bytes.size());
  } else if (s.dtype == DType::kF8E4M3) {
    const float scale = fp8_scale(*s.source);
    for (size_t i = 0; i < x.size(); ++i) bytes[i] = static_cast<std::byte>(float_to_f8_e4m3(x[i] / scale));
  } else {
    uint16_t* out = reinterpret_cast<uint16_t*>(bytes.data());
    if (s.dtype == DType::kBF16) {
      for (size_t i = 0; i < x.size(); ++i) out[i] = to_bf16(x[i]).bits;
    } else {
      for (size_t i = 0; i < x.size(); ++i) out[i] = float_to_f16(x[i]);
    }
  }
  return writer.write(piece.tensor, piece.first * static_cast<int64_t>(size), bytes.data(), bytes.size());
}

struct Report {
  const SynthesizeProgress& progress;
  const CancelToken& cancel;
  int64_t done, total;
  Status wanted() const { return cancel.check("synthesize", done >> 20, "MB"); }
  void add(int64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  }
};

Status write_shard(const std::filesystem::path& file, const Shard& shard, uint64_t seed, ThreadPool& pool, Report& report) {
  SLIP_TRY(TensorFileWriter writer, TensorFileWriter::create(file, shard.plans));
  const std::vector<Piece> pieces = pieces_of(shard);
  const size_t at_once = static_cast<size_t>(pool.threads()) * 4;  // a look at the token every few milliseconds
  std::mutex mutex;
  Status status;
  for (size_t first = 0; first < pieces.size(); first += at_once) {
    SLIP_TRY_(report.wanted());
    const size_t count = std::min(at_once, pieces.size() - first);
    pool.run(static_cast<int64_t>(count), [&](int64_t i) {
      Status s = write_piece(writer, shard, pieces[first + static_cast<size_t>(i)], seed);
      if (s) return;
      const std::lock_guard lock(mutex);
      if (status) status = std::move(s);
    });
    if (!status) return std::move(status).error();
    int64_t bytes = 0;
    for (size_t i = first; i < first + count; ++i)
      bytes += pieces[i].count * static_cast<int64_t>(size_of(shard.stored[pieces[i].tensor].dtype));
    report.add(bytes);
  }
  return writer.commit();
}

json::object index_of(const std::vector<Shard>& shards, const std::vector<std::string>& names, int64_t bytes) {
  json::object map;
  for (size_t i = 0; i < shards.size(); ++i)
    for (const TensorPlan& p : shards[i].plans) map[p.name] = names[i];
  return {{"metadata", json::object{{"total_size", bytes}}}, {"weight_map", std::move(map)}};
}

}  // namespace

void synthetic_numbers(uint64_t seed, const SyntheticTensor& t, int64_t first, std::span<float> out) {
  if (t.deviation == 0) return std::fill(out.begin(), out.end(), t.mean);
  const float scale = t.deviation / kSumDeviation;
  uint64_t state = stream_of(seed, t.name) + kGolden * static_cast<uint64_t>(first);
  for (float& x : out) x = t.mean + scale * bell(mix_bits(state += kGolden));
}

Result<Synthesized> synthesize(const SynthesizeOptions& options, const std::filesystem::path& out, ThreadPool& pool,
                               const SynthesizeProgress& progress) {
  SLIP_TRY(const SyntheticModel model, synthetic_model(options));
  const std::vector<Shard> shards = plan_shards(model, options.dtype);
  Synthesized result;
  for (const Shard& s : shards) {
    result.bytes += s.bytes;
    result.tensors += static_cast<int64_t>(s.plans.size());
  }
  for (const SyntheticTensor& t : model.tensors) {
    int64_t n = 1;
    for (const int64_t d : t.shape) n *= d;
    result.parameters += n;
  }
  constexpr int64_t kSmallFiles = int64_t{16} << 20;  // tokenizer, index, configuration
  SLIP_TRY(AtomicFolder folder, AtomicFolder::create(out, result.bytes + kSmallFiles));
  for (const auto& [name, content] : model.files) SLIP_TRY_(write_file(folder.path() / name, pretty(content)));
  SLIP_TRY_(write_synthetic_tokenizer(model, options, folder.path()));
  std::vector<std::string> names;
  for (size_t i = 0; i < shards.size(); ++i)
    names.push_back(shards.size() == 1 ? "model.safetensors"
                                       : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
  Report report{progress, options.cancel, 0, result.bytes};
  for (size_t i = 0; i < shards.size(); ++i)
    SLIP_TRY_(write_shard(folder.path() / names[i], shards[i], options.seed, pool, report));
  if (shards.size() > 1)
    SLIP_TRY_(write_file(folder.path() / "model.safetensors.index.json", pretty(index_of(shards, names, result.bytes))));
  SLIP_TRY_(report.wanted());
  SLIP_TRY_(folder.commit());
  return result;
}

}  // namespace slip
