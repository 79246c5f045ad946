// SPDX-License-Identifier: Apache-2.0
// Record sets on disk. A shard is a 64-byte header, then records of one size, little endian:
//   header: magic "SLIPREC1", u32 version (kSimVersion), u32 records, u64 record bytes, u64 label bytes, u64 image bytes,
//           u64 FNV-1a of all label blocks, 16 bytes of zero
//   record: blocks of fixed size (label_blocks.h: the labels, and where records tell them the bodies around and the texts of drive-cot),
//           then kCameras * kImageBytes pixels, or none
// index.json lists the shards in order with their counts. A shard's size must match its header to the byte. Opening reads headers
// only (summing the labels of a 40 GB set took 21 s from a cold disk): a shard's sum is checked when its labels are first asked for.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/files/beside.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "sim/record.h"
#include "sim/record/label_blocks.h"
#include "sim/record/seen.h"
#include "sim/record/shards.h"

namespace slip::sim {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they lie");

constexpr std::array<char, 8> kMagic = {'S', 'L', 'I', 'P', 'R', 'E', 'C', '1'};
constexpr std::string_view kSetFormat = "slipstream record set";
constexpr int64_t kPerShard = 1000;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kSimVersion, records = 0;
  uint64_t record_bytes = 0, label_bytes = 0, image_bytes = 0, checksum = 0;
  std::array<uint8_t, 16> zero{};
};
static_assert(sizeof(Header) == 64);

constexpr size_t kLabelBytes = sizeof(LabelBlock), kWithBodies = kLabelBytes + sizeof(BodyBlock),
                 kWithCot = kWithBodies + sizeof(CotBlock);

struct Shard {
  MappedFile map;
  Header header;
  int64_t first = 0;
  struct Sum {
    std::once_flag once;
    Status status;
  };
  std::unique_ptr<Sum> sum = std::make_unique<Sum>();
  const std::byte* record(int64_t i) const {
    return map.bytes().data() + sizeof(Header) + static_cast<size_t>(i) * header.record_bytes;
  }
};

Result<Shard> open_shard(const std::filesystem::path& file) {
  SLIP_TRY(MappedFile map, MappedFile::open(file));
  const std::string name = file.string();
  const auto bytes = map.bytes();
  if (bytes.size() < sizeof(Header)) return bad_input("{}: expected at least {} bytes, got {}", name, sizeof(Header), bytes.size());
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != kMagic) return bad_input("{}: expected a record shard (magic SLIPREC1), got another file", name);
  if (h.version != kSimVersion) return bad_input("{}: expected simulator version {}, got {}", name, kSimVersion, h.version);
  if ((h.label_bytes != kLabelBytes && h.label_bytes != kWithBodies && h.label_bytes != kWithCot) ||
      (h.image_bytes != 0 && h.image_bytes != kCameras * kImageBytes) || h.record_bytes != h.label_bytes + h.image_bytes)
    return bad_input("{}: expected records of {}, {} or {} + {} bytes, got {} + {}", name, kLabelBytes, kWithBodies, kWithCot,
                     kCameras * kImageBytes, h.label_bytes, h.image_bytes);
  const uint64_t want = sizeof(Header) + uint64_t{h.records} * h.record_bytes;
  if (bytes.size() != want) return bad_input("{}: expected {} bytes for {} records, got {}", name, want, h.records, bytes.size());
  Shard s{std::move(map), h};
  // Labels lie half a megabyte apart: reading ahead of one would fetch pixels that nobody asked for.
  ::madvise(const_cast<std::byte*>(s.map.bytes().data()), s.map.bytes().size(), MADV_RANDOM);
  return s;
}

// The labels' sum against the header's, the first time; any thread may ask.
Status check_labels(const Shard& s) {
  std::call_once(s.sum->once, [&s] {
    uint64_t sum = kFnvStart;
    for (uint32_t i = 0; i < s.header.records; ++i)
      sum = fnv1a({reinterpret_cast<const std::byte*>(s.record(i)), s.header.label_bytes}, sum);
    if (sum != s.header.checksum)
      s.sum->status = bad_input("{}: expected label checksum {:016x}, got {:016x}", s.map.path().string(), s.header.checksum, sum);
  });
  return s.sum->status;
}

}  // namespace

struct RecordSetWriter::Impl {
  std::filesystem::path dir;
  std::vector<std::filesystem::path> made;
  Held held;  // against a second writer
  bool finished = false;
  uint64_t first_seed = 0;
  int64_t count = 0, added = 0;
  std::string source;  // not empty: imported, any number of records
  std::optional<uint32_t> family;
  std::optional<AtomicFile> open;
  std::vector<AtomicFile> full;  // complete, not yet renamed
  std::vector<std::pair<std::string, uint32_t>> shards;
  Header header;

  ~Impl() {
    open.reset();
    full.clear();
    if (!finished) unmake(made);  // only where they are empty
    for (const auto& folder : made) forget_folder(folder);
  }
  Status close() {
    if (!open) return {};
    SLIP_TRY_(open->write_at(0, &header, sizeof header));
    shards.back().second = header.records;
    full.push_back(std::move(*open));
    open.reset();
    return {};
  }
  Status begin(size_t image_bytes, size_t label_bytes) {
    const std::string name = fmt::format("shard-{:05}.slip", shards.size());
    SLIP_TRY(AtomicFile file, AtomicFile::create(dir / name));
    header = Header{};
    header.label_bytes = label_bytes;
    header.image_bytes = image_bytes;
    header.record_bytes = header.label_bytes + image_bytes;
    header.checksum = kFnvStart;
    SLIP_TRY_(file.write(&header, sizeof header));
    open.emplace(std::move(file));
    shards.emplace_back(name, 0);
    return {};
  }
  /// A block, and its part of the sum.
  template <class Block>
  Status put(const Block& b) {
    header.checksum = fnv1a(std::as_bytes(std::span(&b, 1)), header.checksum);
    return open->write(&b, sizeof b);
  }
};

RecordSetWriter::RecordSetWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordSetWriter::RecordSetWriter(RecordSetWriter&&) noexcept = default;
RecordSetWriter::~RecordSetWriter() = default;

Result<RecordSetWriter> RecordSetWriter::create(const std::filesystem::path& dir, uint64_t first_seed, int64_t count,
                                                std::optional<uint32_t> family) {
  if (count < 0) return usage_error("record set: expected a count of at least 0, got {}", count);
  auto impl = std::make_unique<Impl>();
  impl->dir = dir;
  {
    const HoldOffEnd held;  // made and remembered before a signal can come in between
    SLIP_TRY(impl->made, make_parents(dir / "index.json"));
    for (const auto& folder : impl->made) remember_folder(folder);
  }
  SLIP_TRY(impl->held, hold_folder(dir));
  std::error_code ec;
  if (std::filesystem::exists(dir / "index.json", ec)) return bad_input("{}: expected no record set there, got one", dir.string());
  remove_leftovers(dir, "shard-");
  impl->first_seed = first_seed;
  impl->count = count;
  impl->family = family;
  return RecordSetWriter(std::move(impl));
}

Result<RecordSetWriter> RecordSetWriter::create(const std::filesystem::path& dir, std::string source) {
  SLIP_TRY(RecordSetWriter out, create(dir, 0, 0, {}));
  out.impl_->source = std::move(source);
  return out;
}

Status RecordSetWriter::add(const Record& r) {
  Impl& w = *impl_;
  if (!r.images.empty() && r.images.size() != kCameras * kImageBytes)
    return bad_input("record of seed {}: expected {} image bytes or none, got {}", r.labels.seed, kCameras * kImageBytes,
                     r.images.size());
  if (r.labels.frame_s != 0)
    return bad_input("record of seed {}: expected a scene's first frame, got that of {} s", r.labels.seed, r.labels.frame_s);
  if (r.labels.explanation.size() > kExplanationBytes)
    return bad_input("record of seed {}: expected an explanation of at most {} bytes, got {}", r.labels.seed, kExplanationBytes,
                     r.labels.explanation.size());
  const bool bodies = r.labels.bodies.has_value(), cot = bodies && r.labels.cot;
  if (bodies && r.labels.bodies->size() > kMostBodies)
    return bad_input("record of seed {}: expected at most {} bodies, got {}", r.labels.seed, kMostBodies, r.labels.bodies->size());
  CotBlock texts{};  // made before anything is written: what is refused leaves no part of a record
  if (cot) {
    SLIP_TRY(texts, cot_block(*r.labels.cot, r.labels.seed));
  }
  const size_t label_bytes = cot ? kWithCot : bodies ? kWithBodies : kLabelBytes;
  if (w.open && (w.header.records >= kPerShard || w.header.label_bytes != label_bytes)) SLIP_TRY_(w.close());
  if (!w.open) SLIP_TRY_(w.begin(r.images.size(), label_bytes));
  if (w.header.image_bytes != r.images.size())
    return bad_input("record of seed {}: expected {} image bytes like its shard, got {}", r.labels.seed, w.header.image_bytes,
                     r.images.size());
  SLIP_TRY_(w.put(label_block(r.labels)));
  if (bodies) SLIP_TRY_(w.put(body_block(*r.labels.bodies)));
  if (cot) SLIP_TRY_(w.put(texts));
  if (!r.images.empty()) SLIP_TRY_(w.open->write(r.images.data(), r.images.size()));
  ++w.header.records;
  ++w.added;
  return {};
}

Status RecordSetWriter::finish() {
  Impl& w = *impl_;
  if (w.source.empty() && w.added != w.count) return bad_input("{}: expected {} records, got {}", w.dir.string(), w.count, w.added);
  SLIP_TRY_(w.close());
  json::array shards;
  for (const auto& [name, n] : w.shards) shards.push_back(json::object{{"file", name}, {"records", n}});
  json::object index{{"format", kSetFormat}, {"version", kSimVersion}, {"records", w.added}};
  if (w.source.empty())
    index["first_seed"] = w.first_seed;
  else
    index["source"] = w.source;
  if (w.family) index["family"] = family_names()[*w.family];
  index["shards"] = std::move(shards);
  for (AtomicFile& f : w.full) SLIP_TRY_(f.commit());
  SLIP_TRY_(write_file(w.dir / "index.json", pretty(index)));
  w.finished = true;
  return {};
}

struct RecordSet::Impl {
  std::vector<Shard> shards;
  int64_t size = 0;
  const Shard& of(int64_t i) const {
    auto it = std::upper_bound(shards.begin(), shards.end(), i, [](int64_t v, const Shard& s) { return v < s.first; });
    return *(it - 1);
  }
};

Result<RecordSet> RecordSet::open(const std::filesystem::path& path) {
  auto impl = std::make_shared<Impl>();
  std::vector<std::pair<std::filesystem::path, int64_t>> files;  // expected count, or -1
  int64_t counted = -1;                                          // of all, as the index says
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) {
    const std::string where = (path / "index.json").string();
    SLIP_TRY(const json::value v, read_json(path / "index.json"));
    if (!v.is_object()) return bad_input("{}: expected an object, got another value", where);
    SLIP_TRY(const std::string format, string_or(v.get_object(), "format", kSetFormat, where));
    if (format != kSetFormat) return bad_input("{}: expected a {}, got a {}", where, kSetFormat, format);
    SLIP_TRY(const json::array* list, get_array(v.as_object(), "shards", where));
    SLIP_TRY(const int64_t version, int_or(v.get_object(), "version", int64_t{kSimVersion}, where));
    if (version != int64_t{kSimVersion}) return bad_input("{}: version: expected {}, got {}", where, kSimVersion, version);
    SLIP_TRY(counted, int_or(v.get_object(), "records", -1, where));
    for (const json::value& e : *list) {
      if (!e.is_object()) return bad_input("{}: shards: expected objects, got another value", where);
      SLIP_TRY(const std::string file, get_string(e.as_object(), "file", where));
      SLIP_TRY(const int64_t n, get_int(e.as_object(), "records", where));
      if (file.empty() || file.find('/') != std::string::npos)
        return bad_input("{}: file: expected a name in this folder, got {}", where, file);
      files.emplace_back(path / file, n);
    }
  } else {
    files.emplace_back(path, -1);
  }
  for (const auto& [file, want] : files) {
    SLIP_TRY(Shard s, open_shard(file));
    if (want >= 0 && want != s.header.records)
      return bad_input("{}: expected {} records by the index, got {}", file.string(), want, s.header.records);
    s.first = impl->size;
    impl->size += s.header.records;
    if (s.header.records > 0) impl->shards.push_back(std::move(s));
  }
  if (counted >= 0 && counted != impl->size)
    return bad_input("{}: expected the {} records of its index, got {} in its shards", path.string(), counted, impl->size);
  if (impl->size == 0) return bad_input("{}: expected a record, got a set without any", path.string());
  RecordSet set;
  set.impl_ = std::move(impl);
  return set;
}

int64_t RecordSet::size() const { return impl_ ? impl_->size : 0; }

Result<Labels> RecordSet::labels(int64_t i) const {
  if (i < 0 || i >= size()) return bad_input("record: expected an index below {}, got {}", size(), i);
  const Shard& s = impl_->of(i);
  SLIP_TRY_(check_labels(s));
  const std::byte* at = s.record(i - s.first);
  const auto block = [&at]<class Block>(Block b) {
    std::memcpy(&b, at, sizeof b);
    at += sizeof b;
    return b;
  };
  const std::string name = s.map.path().string();
  SLIP_TRY(Labels l, labels_in(block(LabelBlock{}), name));
  if (s.header.label_bytes >= kWithBodies) {
    SLIP_TRY(l.bodies, bodies_in(block(BodyBlock{}), name, l.seed));
  }
  if (s.header.label_bytes >= kWithCot) {
    SLIP_TRY(CotLabels cot, cot_in(block(CotBlock{}), name, l.seed));
    l.cot = std::make_shared<const CotLabels>(std::move(cot));
  }
  return l;
}

Result<std::span<const uint8_t>> RecordSet::pictures(int64_t i) const {
  if (i < 0 || i >= size()) return bad_input("record: expected an index below {}, got {}", size(), i);
  const std::span<const uint8_t> all = images(i);
  if (all.empty()) return bad_input("{}: expected records with pictures, got none", impl_->of(i).map.path().string());
  // The map is marked for random access: ask for this record's pages at once.
  const auto from = reinterpret_cast<uintptr_t>(all.data()) & ~static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE) - 1);
  ::madvise(reinterpret_cast<void*>(from), reinterpret_cast<uintptr_t>(all.data()) + all.size() - from, MADV_WILLNEED);
  return all;
}

std::span<const uint8_t> RecordSet::images(int64_t i) const {
  if (i < 0 || i >= size()) return {};
  const Shard& s = impl_->of(i);
  return {reinterpret_cast<const uint8_t*>(s.record(i - s.first)) + s.header.label_bytes, s.header.image_bytes};
}

}  // namespace slip::sim
