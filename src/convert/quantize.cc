// SPDX-License-Identifier: Apache-2.0
// Packing a folder; see quantize.h.
#include "convert/quantize.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "convert/folder_writer.h"
#include "kernels/packed_layout.h"
#include "models/model.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kComparedRows = 512;  // of a matrix, evenly spread: the error of a mean over 10^6 numbers is 0.1 %

// Writes what the reader delivers. Blobs are multiples of 64 bytes, so all of them come first; vectors of any length follow.
class FileSink final : public WeightSink {
 public:
  FileSink(ThreadPool& pool, PackedFolder& packed, QuantizeReport& report, int64_t slice_bytes, const CancelToken& cancel)
      : pool_(pool), packed_(packed), report_(report), slice_bytes_(slice_bytes), cancel_(cancel) {}

  void plan_matrix(const Wish& w) override {
    const int64_t bytes = static_cast<int64_t>(PackedMatrix::packed_bytes(w.type, w.n, w.k));
    matrices_.push_back({w.name, DType::kU8, {bytes}});
    PackedEntry entry{w.type, w.n, w.k, {}};
    for (const WeightReader::Part& part : w.parts) {
      entry.parts.push_back(part.name);
      entry.padding += part.zeros;
    }
    packed_.matrices.emplace(w.name, std::move(entry));
  }
  void plan_vector(const WeightReader::Part& part) override { vectors_.push_back({part.name, DType::kF32, part.shape}); }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto* list : {&matrices_, &vectors_})
      for (const TensorPlan& t : *list) sum += t.bytes();
    return sum;
  }
  /// At most, of the header of the weights and of slipstream.json, which name each tensor, its parts and its error.
  int64_t bytes_of_names() const {
    constexpr int64_t kTensor = 1024;  // models/demo: 0.1 kB of the header each, 0.34 kB of slipstream.json
    return static_cast<int64_t>(matrices_.size() + vectors_.size()) * kTensor;
  }
  Status open(const fs::path& file) {
    std::vector<TensorPlan> all = matrices_;
    all.insert(all.end(), vectors_.begin(), vectors_.end());
    for (size_t i = 0; i < all.size(); ++i) number_[all[i].name] = i;
    SLIP_TRY(TensorFileWriter writer, TensorFileWriter::create(file, std::move(all), {{"format", kPackedFormat}}));
    writer_.emplace(std::move(writer));
    return {};
  }

  Status matrix(const Wish& w, const void* context, ReadRow read_row, const Done& done) override;
  Status vector(const WeightReader::Part& part, std::span<const float> values) override {
    return writer_->write(number_.at(part.name), 0, values.data(), values.size_bytes());
  }
  Status commit() { return writer_->commit(); }

 private:
  struct Sums {
    double error = 0, power = 0;
  };
  Sums compare(const PackedMatrix& slice, int64_t first, int64_t step, const void* context, ReadRow read_row) const;
  ThreadPool& pool_;
  PackedFolder& packed_;
  QuantizeReport& report_;
  int64_t slice_bytes_;
  const CancelToken& cancel_;
  std::vector<TensorPlan> matrices_, vectors_;
  std::map<std::string, size_t, std::less<>> number_;
  std::optional<TensorFileWriter> writer_;
};

// Rows of a slice as a matrix of their own: its rows are the whole matrix's from `first` on.
struct Slice {
  const void* context;
  ReadRow read_row;
  int64_t first;
  static void read(const void* p, int64_t n, float* out_K) {
    const Slice& s = *static_cast<const Slice*>(p);
    s.read_row(s.context, s.first + n, out_K);
  }
};

// Every step-th row of the slice, packed against stored. One order of addition, whatever the threads.
FileSink::Sums FileSink::compare(const PackedMatrix& slice, int64_t first, int64_t step, const void* context,
                                 ReadRow read_row) const {
  const int64_t begin = (first + step - 1) / step * step - first,
                count = begin < slice.n() ? (slice.n() - 1 - begin) / step + 1 : 0;
  std::vector<Sums> rows(static_cast<size_t>(count));
  pool_.run(count, [&](int64_t i) {
    const size_t k = static_cast<size_t>(slice.k());
    std::vector<float> stored(k), packed(k);
    const int64_t row = begin + i * step;
    read_row(context, first + row, stored.data());
    slice.row(row, packed);
    Sums& s = rows[static_cast<size_t>(i)];
    for (size_t j = 0; j < k; ++j) {
      const double d = static_cast<double>(packed[j]) - stored[j];
      s.error += d * d;
      s.power += static_cast<double>(stored[j]) * stored[j];
    }
  });
  Sums sum;
  for (const Sums& s : rows) sum = {sum.error + s.error, sum.power + s.power};
  return sum;
}

Status FileSink::matrix(const Wish& w, const void* context, ReadRow read_row, const Done& done) {
  const size_t tensor = number_.at(w.name);
  const PackedLayout whole(w.type, w.n, w.k);
  const int64_t slice_rows = std::max<int64_t>(1, slice_bytes_ / whole.block_bytes) * kBlockColumns;
  const int64_t step = std::max<int64_t>(1, w.n / kComparedRows);
  Sums sums;
  for (int64_t first = 0; first < w.n; first += slice_rows) {
    SLIP_TRY_(cancel_.check("packing", static_cast<int64_t>(report_.matrices.size()), "matrices"));
    const int64_t n = std::min(slice_rows, w.n - first);
    const Slice slice{context, read_row, first};
    const PackedMatrix packed = pack_matrix(w.type, n, w.k, &slice, Slice::read, pool_);
    const PackedLayout part(w.type, n, w.k);
    const std::byte* blob = packed.blob().data();
    // Blocks of columns follow each other; sums and scales, of int types, stand behind the last.
    const auto put = [&](int64_t to, int64_t begin, int64_t end) -> Status {
      return begin == end ? Status{} : writer_->write(tensor, to, blob + begin, static_cast<size_t>(end - begin));
    };
    SLIP_TRY_(put(first / kBlockColumns * whole.block_bytes, 0, part.sums_at));
    SLIP_TRY_(put(whole.sums_at + first * 4, part.sums_at, part.scales_at));
    SLIP_TRY_(put(whole.scales_at + first * 4, part.scales_at, part.bytes));
    const Sums s = compare(packed, first, step, context, read_row);
    sums = {sums.error + s.error, sums.power + s.power};
    done(first, n);
  }
  report_.matrices.push_back({w.name, w.type, w.n, w.k, sums.power > 0 ? std::sqrt(sums.error / sums.power) : 0});
  return {};
}

// Everything but the weights, which the new file replaces.
bool is_weights(const fs::path& file) {
  static constexpr std::string_view kEndings[] = {".safetensors", ".bin",     ".pt",   ".pth",      ".gguf",
                                                  ".h5",          ".msgpack", ".onnx", ".onnx_data"};
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors.index.json") || name.ends_with(".bin.index.json") ||
         std::any_of(std::begin(kEndings), std::end(kEndings), [&](std::string_view e) { return name.ends_with(e); });
}

/// Folders inside hold parts of their own that the engine reads: a draft adapter, a draft head. Their weights, and the index of those in shards, are
/// copied where what says how to read them lies beside; other formats of the whole model (original/*.pth, onnx/) are not.
bool is_of_part(const fs::path& file) {
  std::error_code ec;
  const fs::path folder = file.parent_path();
  const bool read = file.extension() == ".safetensors" || file.filename().string().ends_with(".safetensors.index.json");
  return read && (fs::exists(folder / "config.json", ec) || fs::exists(folder / "adapter_config.json", ec));
}

/// What is copied beside the packed weights: paths in `model`. `below`: the folder that is looked into, of which the outermost is empty.
Status find_rest(const fs::path& model, const fs::path& below, std::vector<fs::path>& found) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(model / below, ec)) {
    const std::string name = entry.path().filename().string();
    std::error_code failed;
    if (name.starts_with('.') || name == kPackedFile) continue;  // .git, .cache
    if (entry.is_directory(failed)) {
      SLIP_TRY_(find_rest(model, below / name, found));
    } else if (!is_weights(entry.path()) || (!below.empty() && is_of_part(entry.path()))) {
      found.push_back(below / name);
    }
    if (failed) return bad_input("{}: expected a file that can be copied, got: {}", entry.path().string(), failed.message());
  }
  if (ec) return bad_input("{}: expected a readable folder, got: {}", (model / below).string(), ec.message());
  return {};
}

Status copy_rest(const fs::path& from, const fs::path& to, const std::vector<fs::path>& files, const CancelToken& cancel) {
  int64_t copied = 0;
  for (const fs::path& file : files) {
    SLIP_TRY_(cancel.check("packing", copied++, "files"));
    std::error_code failed;
    fs::create_directories((to / file).parent_path(), failed);
    if (!failed) fs::copy_file(from / file, to / file, failed);
    if (failed) return bad_input("{}: expected a file that can be copied, got: {}", (from / file).string(), failed.message());
  }
  return {};
}

int64_t bytes_of(const fs::path& folder, const std::vector<fs::path>& files) {
  int64_t sum = 0;
  for (const fs::path& file : files) {
    std::error_code ec;
    const uintmax_t bytes = fs::file_size(folder / file, ec);
    if (!ec) sum += static_cast<int64_t>(bytes);
  }
  return sum;
}

}  // namespace

Result<QuantizedFolder> QuantizedFolder::make(const fs::path& model, const fs::path& out, const QuantizeOptions& options,
                                              const LoadProgress& progress,
                                              const std::function<void(int64_t done, int64_t total)>& loading) {
  SLIP_TRY_(check_isa_wish());
  SLIP_TRY_(check_outside(model, out, "quantize"));
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(model));
  SLIP_TRY(const ModelConfig config, load_config(model, tokenizer ? &*tokenizer : nullptr));
  SLIP_TRY(const std::optional<PackedFolder> already, read_packed_folder(model));
  if (already) return bad_input("{}: expected a folder with weights as released, got one that is packed already", model.string());
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(model));
  ThreadPool pool(options.threads > 0 ? options.threads : usable_threads());
  const auto start = std::chrono::steady_clock::now();

  PackedFolder packed;
  packed.type = options.type;
  QuantizeReport report;
  FileSink sink(pool, packed, report, options.slice_bytes, progress.cancel);
  std::optional<QuantizedFolder> made;
  std::vector<fs::path> rest;
  SLIP_TRY_(find_rest(model, {}, rest));
  const auto planned = [&](int64_t bytes_read) -> Status {
    report.source_bytes = bytes_read;
    report.packed_bytes = sink.bytes();
    report.reserved_bytes = sink.bytes() + sink.bytes_of_names() + bytes_of(model, rest);
    SLIP_TRY(AtomicFolder folder, AtomicFolder::create(out, report.reserved_bytes));
    made.emplace(QuantizedFolder(std::move(folder), progress.cancel));
    return sink.open(made->path() / "model.safetensors");
  };
  uint64_t hash = 0;
  SLIP_TRY_(stream_weights(checkpoint, config, options.type, pool, progress, sink, planned, &hash));
  SLIP_TRY_(sink.commit());
  cache_in_large_pages(made->path() / "model.safetensors");
  SLIP_TRY_(copy_rest(model, made->path(), rest, progress.cancel));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code ec;
  packed.source = {{"folder", fs::weakly_canonical(model, ec).filename().string()},
                   {"bytes", report.source_bytes},
                   {"hash", fmt::format("{:016x}", hash)}};
  SLIP_TRY(packed.hash, hash_of_weights(made->path(), progress.cancel));
  made->packed_ = std::move(packed);
  made->report_ = std::move(report);
  SLIP_TRY_(write_file(made->path() / kPackedFile, pretty(packed_folder_json(made->packed_))));
  if (options.compare) {
    SLIP_TRY(made->report_.output, compare_outputs(model, WeightType::kBF16, made->path(), options.type, options.threads,
                                                   {.tell = loading, .cancel = progress.cancel}));
  }
  return std::move(*made);
}

Status QuantizedFolder::commit() {
  packed_.errors = report_.json();
  SLIP_TRY_(write_file(folder_.path() / kPackedFile, pretty(packed_folder_json(packed_))));
  SLIP_TRY_(cancel_.check("packing", static_cast<int64_t>(packed_.matrices.size()), "matrices"));
  return folder_.commit();
}

}  // namespace slip
