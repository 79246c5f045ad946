// SPDX-License-Identifier: Apache-2.0
// Zip directory and tensors; see torch_zip.h. Layouts: PKWARE's APPNOTE 4.3 (sizes and offsets in bytes of the records read here).
#include "core/torch_zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/pickle.h"

namespace slip {
namespace {

using Bytes = std::span<const std::byte>;
using Entries = std::map<std::string, Bytes, std::less<>>;
using Kind = PickleNode::Kind;

constexpr uint32_t kEndRecord = 0x06054b50, kEnd64Locator = 0x07064b50, kEnd64Record = 0x06064b50, kCentral = 0x02014b50,
                   kLocal = 0x04034b50;
constexpr uint64_t kMaxEntries = 1 << 20;

// Little-endian reads that say when there is nothing to read.
struct Reader {
  Bytes bytes;
  bool has(uint64_t at, uint64_t n) const { return at <= bytes.size() && bytes.size() - at >= n; }
  uint64_t get(uint64_t at, size_t n) const {
    uint64_t v = 0;
    for (size_t i = 0; i < n; ++i) v |= uint64_t{std::to_integer<uint8_t>(bytes[at + i])} << (8 * i);
    return v;
  }
};

struct Directory {
  uint64_t entries, offset;
};

Result<Directory> find_directory(const Reader& r, std::string_view where) {
  constexpr uint64_t kEndSize = 22, kLongestComment = 65535;
  if (!r.has(0, kEndSize)) return bad_input("{}: expected a zip archive, got {} bytes", where, r.bytes.size());
  const uint64_t last = r.bytes.size() - kEndSize, first = last > kLongestComment ? last - kLongestComment : 0;
  uint64_t at = last + 1;
  bool found = false;
  while (at > first && !found) found = r.get(--at, 4) == kEndRecord;
  if (!found) return bad_input("{}: expected a zip archive's directory at the end, got none (a file cut short?)", where);
  Directory d{r.get(at + 10, 2), r.get(at + 16, 4)};
  if (at >= 20 && r.get(at - 20, 4) == kEnd64Locator) {
    const uint64_t end64 = r.get(at - 20 + 8, 8);
    if (!r.has(end64, 56) || r.get(end64, 4) != kEnd64Record)
      return bad_input("{}: expected a zip64 directory at byte {}, got something else", where, end64);
    d = {r.get(end64 + 32, 8), r.get(end64 + 48, 8)};
  }
  if (d.entries > kMaxEntries)
    return bad_input("{}: expected at most {} entries in the archive, got {}", where, kMaxEntries, d.entries);
  return d;
}

struct CentralEntry {
  uint64_t flags, method, packed, size, local;
  std::string name;
  uint64_t next;
};

// Sizes and offset that do not fit 32 bits stand in an extra field, in this order, each only where it is needed.
Status read_zip64(const Reader& r, uint64_t at, uint64_t end, CentralEntry& e, std::string_view where) {
  constexpr uint64_t kFull = 0xffffffff;
  if (e.size != kFull && e.packed != kFull && e.local != kFull) return {};
  while (at + 4 <= end) {
    const uint64_t id = r.get(at, 2), n = r.get(at + 2, 2);
    at += 4;
    if (at + n > end) break;
    if (id != 1) {
      at += n;
      continue;
    }
    const uint64_t stop = at + n;
    for (uint64_t* v : {&e.size, &e.packed, &e.local}) {
      if (*v != kFull) continue;
      if (at + 8 > stop) return bad_input("{}: entry {}: expected a zip64 field of 8 bytes, got fewer", where, e.name);
      *v = r.get(at, 8);
      at += 8;
    }
    return {};
  }
  return bad_input("{}: entry {}: expected its zip64 sizes, got none", where, e.name);
}

Result<CentralEntry> read_central(const Reader& r, uint64_t at, std::string_view where) {
  if (!r.has(at, 46) || r.get(at, 4) != kCentral)
    return bad_input("{}: expected a directory entry at byte {}, got none", where, at);
  CentralEntry e{r.get(at + 8, 2), r.get(at + 10, 2), r.get(at + 20, 4), r.get(at + 24, 4), r.get(at + 42, 4), {}, 0};
  const uint64_t name = r.get(at + 28, 2), extra = r.get(at + 30, 2), comment = r.get(at + 32, 2);
  if (!r.has(at + 46, name + extra + comment))
    return bad_input("{}: expected a directory entry at byte {}, got half of one", where, at);
  e.name.assign(reinterpret_cast<const char*>(r.bytes.data()) + at + 46, name);
  e.next = at + 46 + name + extra + comment;
  SLIP_TRY_(read_zip64(r, at + 46 + name, at + 46 + name + extra, e, where));
  return e;
}

Result<Bytes> data_of(const Reader& r, const CentralEntry& e, std::string_view where) {
  if ((e.flags & 1) != 0) return unsupported("{}: entry {}: expected plain data, got an encrypted entry", where, e.name);
  if (e.method != 0) return unsupported("{}: entry {}: expected stored data, got compression method {}", where, e.name, e.method);
  if (e.packed != e.size || !r.has(e.local, 30) || r.get(e.local, 4) != kLocal)
    return bad_input("{}: entry {}: expected its header at byte {}, got something else", where, e.name, e.local);
  const uint64_t begin = e.local + 30 + r.get(e.local + 26, 2) + r.get(e.local + 28, 2);
  if (!r.has(begin, e.size)) return bad_input("{}: entry {}: expected {} bytes at {}, got fewer", where, e.name, e.size, begin);
  return r.bytes.subspan(begin, e.size);
}

std::optional<DType> dtype_of(std::string_view storage) {
  static constexpr std::array<std::pair<std::string_view, DType>, 10> kTypes = {{{"torch.FloatStorage", DType::kF32},
                                                                                 {"torch.DoubleStorage", DType::kF64},
                                                                                 {"torch.HalfStorage", DType::kF16},
                                                                                 {"torch.BFloat16Storage", DType::kBF16},
                                                                                 {"torch.LongStorage", DType::kI64},
                                                                                 {"torch.IntStorage", DType::kI32},
                                                                                 {"torch.ShortStorage", DType::kI16},
                                                                                 {"torch.CharStorage", DType::kI8},
                                                                                 {"torch.ByteStorage", DType::kU8},
                                                                                 {"torch.BoolStorage", DType::kBool}}};
  for (const auto& [name, type] : kTypes)
    if (name == storage) return type;
  return std::nullopt;
}

}  // namespace

// From the pickle's nodes to the list of tensors.
class TorchWalk {
 public:
  TorchWalk(const PickleObjects& objects, const Entries& entries, std::string prefix, std::string where, TorchFile& out)
      : objects_(objects), entries_(entries), prefix_(std::move(prefix)), where_(std::move(where)), out_(out) {}

  Status visit(int32_t i) {
    constexpr int kMaxDepth = 32;
    constexpr size_t kMaxKey = 4096;
    constexpr int64_t kMaxVisits = 1 << 22;  // shared containers may be reached again and again
    if (++visits_ > kMaxVisits) return bad_input("{}: expected at most {} objects in all places, got more", where_, kMaxVisits);
    if (path_.size() > kMaxDepth)
      return bad_input("{}: expected dicts nested at most {} deep, got more (a cycle?)", where_, kMaxDepth);
    const PickleNode& node = objects_.at(i);
    if (node.kind == Kind::kTensor) return tensor(node);
    if (node.kind == Kind::kDict) {
      for (size_t k = 0; k + 1 < node.items.size(); k += 2) {
        const PickleNode& key = objects_.at(node.items[k]);
        if (key.kind != Kind::kText && key.kind != Kind::kInteger)
          return bad_input("{}: expected texts and integers as keys, got another in {}", where_, name());
        if (key.text.size() > kMaxKey)  // every tensor below carries it
          return bad_input("{}: expected keys of at most {} bytes, got {}", where_, kMaxKey, key.text.size());
        path_.push_back(key.kind == Kind::kText ? key.text : std::to_string(key.integer));
        SLIP_TRY_(visit(node.items[k + 1]));
        path_.pop_back();
      }
    } else if (node.kind == Kind::kList || node.kind == Kind::kTuple) {
      for (size_t k = 0; k < node.items.size(); ++k) {
        path_.push_back(std::to_string(k));
        SLIP_TRY_(visit(node.items[k]));
        path_.pop_back();
      }
    }
    return {};
  }

 private:
  std::string name() const {
    std::string s;
    for (const std::string& part : path_) s += (s.empty() ? "" : "/") + part;
    return s.substr(0, 200);
  }
  template <class... A>
  Error wrong(fmt::format_string<A...> f, A&&... a) const {
    return bad_input("{}: tensor {}: {}", where_, name(), fmt::format(f, std::forward<A>(a)...));
  }

  Result<std::vector<int64_t>> numbers(int32_t i) const {
    const PickleNode& node = objects_.at(i);
    constexpr size_t kMaxRank = 16;
    if (node.kind != Kind::kTuple || node.items.size() > kMaxRank) return wrong("expected at most {} sizes, got others", kMaxRank);
    std::vector<int64_t> out;
    for (const int32_t k : node.items) {
      const PickleNode& n = objects_.at(k);
      if (n.kind != Kind::kInteger || n.integer < 0 || n.integer > kMaxElements)
        return wrong("expected sizes of 0 to {}, got others", kMaxElements);
      out.push_back(n.integer);
    }
    return out;
  }

  struct Strided {
    DType dtype{};
    Bytes storage;
    int64_t offset = 0, elements = 1;
    std::vector<int64_t> sizes, strides;
    bool contiguous() const {
      int64_t expected = 1;
      for (size_t k = sizes.size(); k > 0; --k) {
        if (sizes[k - 1] != 1 && strides[k - 1] != expected) return false;
        expected *= sizes[k - 1];
      }
      return true;
    }
  };

  Status read_storage(const PickleNode& node, Strided& t) const {
    if (node.kind != Kind::kStorage) return wrong("expected a storage, got another object");
    const std::string& type = objects_.at(node.items[0]).text;
    const auto dtype = dtype_of(type);
    if (!dtype) return wrong("expected a storage of numbers, got {}", type);
    t.dtype = *dtype;
    const auto at = entries_.find(prefix_ + "data/" + node.text);
    if (at == entries_.end()) return wrong("expected the storage data/{} in the archive, got none", node.text.substr(0, 60));
    if (node.integer > kMaxElements || at->second.size() / size_of(t.dtype) < static_cast<uint64_t>(node.integer))
      return wrong("expected {} elements in data/{}, got {} bytes", node.integer, node.text.substr(0, 60), at->second.size());
    t.storage = at->second.subspan(0, static_cast<size_t>(node.integer) * size_of(t.dtype));
    return {};
  }

  Result<Strided> strided(const PickleNode& node) const {
    Strided t;
    SLIP_TRY_(read_storage(objects_.at(node.items[0]), t));
    const PickleNode& offset = objects_.at(node.items[1]);
    if (offset.kind != Kind::kInteger || offset.integer < 0 || offset.integer > kMaxElements)
      return wrong("expected an offset, got another object");
    t.offset = offset.integer;
    SLIP_TRY(t.sizes, numbers(node.items[2]));
    SLIP_TRY(t.strides, numbers(node.items[3]));
    if (t.sizes.size() != t.strides.size())
      return wrong("expected as many strides as sizes, got {} and {}", t.strides.size(), t.sizes.size());
    __int128 last = t.offset;
    for (size_t k = 0; k < t.sizes.size(); ++k) {
      if (t.sizes[k] > 0 && t.elements > kMaxElements / t.sizes[k])
        return wrong("expected at most {} elements, got more", kMaxElements);
      t.elements *= t.sizes[k];
      last += static_cast<__int128>(t.sizes[k] - 1) * t.strides[k];
    }
    const auto stored = static_cast<int64_t>(t.storage.size() / size_of(t.dtype));
    if (t.elements > 0 && last >= stored) return wrong("expected elements inside a storage of {}, got some beyond", stored);
    return t;
  }

  // Elements of a transposed, sliced or expanded tensor, in order.
  Result<Bytes> copied(const Strided& t) {
    constexpr int64_t kMaxCopied = int64_t{512} << 20;
    const size_t each = size_of(t.dtype);
    const int64_t bytes = t.elements * static_cast<int64_t>(each);
    if ((copied_bytes_ += bytes) > kMaxCopied)
      return wrong("expected tensors in order of storage, got more than {} bytes of others", kMaxCopied);
    auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    std::vector<int64_t> index(t.sizes.size(), 0);
    for (int64_t i = 0; i < t.elements; ++i) {
      int64_t from = t.offset;
      for (size_t k = 0; k < index.size(); ++k) from += index[k] * t.strides[k];
      std::memcpy(copy->data() + static_cast<size_t>(i) * each, t.storage.data() + static_cast<size_t>(from) * each, each);
      for (size_t k = index.size(); k > 0 && ++index[k - 1] == t.sizes[k - 1]; --k) index[k - 1] = 0;
    }
    out_.copies_.push_back(copy);
    return Bytes(*copy);
  }

  Status tensor(const PickleNode& node) {
    constexpr uint64_t kMaxPaths = uint64_t{64} << 20;  // a 7B checkpoint's 1,000 tensors take 200 KB
    for (const std::string& part : path_) path_bytes_ += sizeof(part) + part.size();
    if (path_bytes_ > kMaxPaths) return bad_input("{}: expected at most {} bytes of tensors' names, got more", where_, kMaxPaths);
    SLIP_TRY(const Strided t, strided(node));
    const size_t each = size_of(t.dtype);
    Bytes bytes;
    if (t.elements > 0 && t.contiguous()) {
      bytes = t.storage.subspan(static_cast<size_t>(t.offset) * each, static_cast<size_t>(t.elements) * each);
    } else if (t.elements > 0) {
      SLIP_TRY(bytes, copied(t));
    }
    out_.tensors_.push_back({path_, {name(), t.dtype, t.sizes, bytes}});
    return {};
  }

  static constexpr int64_t kMaxElements = int64_t{1} << 40;
  const PickleObjects& objects_;
  const Entries& entries_;
  std::string prefix_, where_;
  TorchFile& out_;
  std::vector<std::string> path_;
  int64_t visits_ = 0, copied_bytes_ = 0;
  uint64_t path_bytes_ = 0;  // of all tensors so far
};

Result<Entries> read_zip(Bytes bytes, std::string_view where) {
  const Reader r{bytes};
  SLIP_TRY(const Directory directory, find_directory(r, where));
  Entries out;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    SLIP_TRY(const CentralEntry e, read_central(r, at, where));
    SLIP_TRY(const Bytes data, data_of(r, e, where));
    if (!out.emplace(e.name, data).second) return bad_input("{}: entry {}: expected one of that name, got two", where, e.name);
    at = e.next;
  }
  return out;
}

namespace {

// "archive/" of archive/data.pkl.
Result<std::string> archive_prefix(const Entries& entries, const std::string& where) {
  constexpr std::string_view kPickle = "data.pkl";
  std::string prefix;
  bool found = false;
  for (const auto& [name, data] : entries) {
    if (!name.ends_with(kPickle) || std::count(name.begin(), name.end(), '/') > 1) continue;
    if (found) return bad_input("{}: expected one data.pkl in the archive, got two", where);
    prefix = name.substr(0, name.size() - kPickle.size());
    found = true;
  }
  if (!found) return bad_input("{}: expected data.pkl in the archive, got none", where);
  if (entries.contains(prefix + "constants.pkl"))
    return unsupported("{}: expected a file of torch.save, got a TorchScript archive", where);
  const auto order = entries.find(prefix + "byteorder");
  if (order != entries.end()) {
    const std::string_view text(reinterpret_cast<const char*>(order->second.data()), order->second.size());
    if (text != "little") return unsupported("{}: expected little-endian numbers, got byte order {}", where, text.substr(0, 20));
  }
  return prefix;
}

Status check_format(Bytes bytes, const std::string& where) {
  const auto starts = [&](std::string_view s) {
    return bytes.size() >= s.size() && std::memcmp(bytes.data(), s.data(), s.size()) == 0;
  };
  if (starts("PK\x03\x04")) return {};
  // A pickled magic number, or the tar files of torch 0.1.
  if (starts(std::string_view("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14)))
    return unsupported(
        "{}: expected a file that torch 1.6 or newer saved (a zip archive), got the older format: load it in a torch that you "
        "trust and "
        "save it again",
        where);
  return bad_input("{}: expected a file of torch.save (a zip archive), got something else", where);
}

}  // namespace

Result<TorchFile> TorchFile::open(const std::filesystem::path& file) {
  TorchFile out;
  const std::string where = file.string();
  SLIP_TRY(out.file_, MappedFile::open(file));
  SLIP_TRY_(check_format(out.file_.bytes(), where));
  SLIP_TRY(const Entries entries, read_zip(out.file_.bytes(), where));
  SLIP_TRY(const std::string prefix, archive_prefix(entries, where));
  SLIP_TRY(const PickleObjects objects, read_pickle(entries.find(prefix + "data.pkl")->second, where + ": data.pkl"));
  SLIP_TRY_(TorchWalk(objects, entries, prefix, where, out).visit(objects.root));
  return out;
}

}  // namespace slip
