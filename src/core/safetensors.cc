// SPDX-License-Identifier: Apache-2.0
// Reading: one mapped file, a folder with an index, and elements as f32. Nothing outside the map is ever looked at: every
// offset is checked before a view is made from it.
#include "core/safetensors.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/json.h"
#include "core/safetensors_header.h"

namespace slip {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// Entries, in the order of their data, must cover it exactly: each begins where the one before ended.
Status check_layout(const SafetensorsHeader& header, uint64_t data_bytes, std::string_view file) {
  std::vector<const HeaderEntry*> order;
  order.reserve(header.entries.size());
  for (const HeaderEntry& e : header.entries) {
    if (e.end > data_bytes) {
      return bad_input("{}: tensor \"{}\": data_offsets: expected at most {} bytes of data, got [{}, {})", file, e.name, data_bytes,
                       e.begin, e.end);
    }
    order.push_back(&e);
  }
  std::sort(order.begin(), order.end(),
            [](const HeaderEntry* a, const HeaderEntry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t at = 0;
  for (const HeaderEntry* e : order) {
    if (e->begin != at) {
      return bad_input("{}: tensor \"{}\": data_offsets: expected begin {} ({}), got {}", file, e->name, at,
                       e->begin < at ? "tensors must not overlap" : "no holes between tensors", e->begin);
    }
    at = e->end;
  }
  if (at != data_bytes) return bad_input("{}: expected {} bytes of data as the header says, got {}", file, at, data_bytes);
  return {};
}

struct OneFile {
  MappedFile map;
  std::vector<TensorView> tensors;
  std::map<std::string, std::string, std::less<>> metadata, unread;
};

Result<OneFile> open_one(const fs::path& path) {
  const std::string file = path.string();
  OneFile out;
  SLIP_TRY(out.map, MappedFile::open(path));
  const std::span<const std::byte> bytes = out.map.bytes();
  if (bytes.size() < 8) return bad_input("{}: expected at least 8 bytes, got {}", file, bytes.size());
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<uint64_t>(bytes[static_cast<size_t>(i)]);
  if (length > kMaxHeaderBytes) {
    return bad_input("{}: header length: expected at most {}, got {}", file, kMaxHeaderBytes, length);
  }
  if (length > bytes.size() - 8) {
    return bad_input("{}: header length: expected at most the {} bytes that follow, got {} (cut short?)", file, bytes.size() - 8,
                     length);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (text.empty() || text[0] != '{') return bad_input("{}: header: expected JSON that starts with '{{', got something else", file);
  SLIP_TRY(SafetensorsHeader header, parse_safetensors_header(text, file));
  const std::span<const std::byte> data = bytes.subspan(8 + length);
  SLIP_TRY_(check_layout(header, data.size(), file));
  out.tensors.reserve(header.entries.size());
  for (HeaderEntry& e : header.entries) {
    if (!e.unread.empty()) {
      out.unread.emplace(std::move(e.name), std::move(e.unread));
      continue;
    }
    out.tensors.push_back({std::move(e.name), e.dtype, std::move(e.shape), data.subspan(e.begin, e.end - e.begin)});
  }
  out.metadata = std::move(header.metadata);
  return out;
}

// A shard is a file of the same folder: the index may not point elsewhere.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

template <class Stored, class Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  const std::byte* p = bytes.data();
  for (size_t i = 0; i < out.size(); ++i) {
    Stored s;
    std::memcpy(&s, p + i * sizeof(Stored), sizeof(Stored));  // may be misaligned; compiles to a plain load
    out[i] = convert(s);
  }
}

// Weights in a form that is not read here: the first by name; empty without any.
std::string foreign_weights(const fs::path& folder) {
  std::error_code ec;
  std::string found;
  for (const auto& e : fs::directory_iterator(folder, ec)) {
    const std::string name = e.path().filename().string();
    const bool foreign = (name.starts_with("pytorch_model") && name.ends_with(".bin")) ||
                         (name.starts_with("consolidated") && name.ends_with(".safetensors")) || name.ends_with(".gguf");
    if (foreign && (found.empty() || name < found)) found = name;
  }
  return found;
}

using ShardNames = std::map<std::string, std::vector<std::string>>;

// Which tensors an index file says stand in which shard.
Result<ShardNames> read_index(const fs::path& index) {
  const std::string where = index.string();
  SLIP_TRY(const json::value root, read_json(index, kMaxHeaderBytes));
  if (!root.is_object()) return bad_input("{}: expected an object, got another kind of JSON", where);
  SLIP_TRY(const json::object* weight_map, get_object(root.get_object(), "weight_map", where));
  ShardNames names_of_shard;
  for (const auto& [key, value] : *weight_map) {
    const std::string name(key);
    if (!value.is_string()) return bad_input("{}: tensor \"{}\": expected a file name, got another kind of JSON", where, name);
    const std::string shard(value.get_string());
    if (!is_plain_name(shard)) {
      return bad_input("{}: tensor \"{}\": expected a file name without a path, got \"{}\"", where, name, shard);
    }
    names_of_shard[shard].push_back(name);
  }
  return names_of_shard;
}

// The file at `path` with the tensors of these names only; `where` is the index that says that it has them.
Result<OneFile> open_shard(const fs::path& path, const std::vector<std::string>& names, const std::string& where) {
  SLIP_TRY(OneFile one, open_one(path));
  std::map<std::string_view, TensorView*> stored;
  for (TensorView& t : one.tensors) stored.emplace(t.name, &t);
  std::vector<TensorView> tensors;
  decltype(one.unread) unread;
  for (const std::string& name : names) {
    if (const auto other = one.unread.find(name); other != one.unread.end()) {
      unread.insert(*other);
      continue;
    }
    const auto it = stored.find(name);
    if (it == stored.end())
      return bad_input("{}: tensor \"{}\": expected it in {}, got a file without it", where, name, path.string());
    tensors.push_back(*it->second);
  }
  one.tensors = std::move(tensors);
  one.unread = std::move(unread);
  return one;
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t TensorView::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Result<Checkpoint> Checkpoint::open_file(const fs::path& file) {
  SLIP_TRY(OneFile one, open_one(file));
  Checkpoint out;
  out.path_ = file;
  out.files_.push_back(std::move(one.map));
  for (TensorView& t : one.tensors) {
    std::string name = t.name;
    out.tensors_.emplace(std::move(name), std::move(t));
  }
  out.metadata_ = std::move(one.metadata);
  out.unread_ = std::move(one.unread);
  return out;
}

Result<Checkpoint> Checkpoint::open_folder(const fs::path& folder) {
  const fs::path index = folder / "model.safetensors.index.json", single = folder / "model.safetensors";
  std::error_code ec;
  if (fs::exists(single, ec)) {  // as transformers: an index beside it may be left of a larger model that was saved there before
    SLIP_TRY(Checkpoint out, open_file(single));
    out.path_ = folder;
    return out;
  }
  if (!fs::exists(index, ec)) {
    if (const std::string other = foreign_weights(folder); !other.empty())
      return unsupported("{}: expected model.safetensors or model.safetensors.index.json, got {}", folder.string(), other);
    return bad_input("{}: expected model.safetensors or model.safetensors.index.json, got neither", folder.string());
  }
  SLIP_TRY(const ShardNames names_of_shard, read_index(index));
  Checkpoint out;
  out.path_ = folder;
  for (const auto& [shard, names] : names_of_shard) {
    const fs::path path = folder / shard;
    if (!fs::exists(path, ec)) {
      return bad_input("{}: expected shard {} (of {} tensors, first \"{}\"), got no such file", index.string(), path.string(),
                       names.size(), names.front());
    }
    SLIP_TRY(OneFile one, open_shard(path, names, index.string()));
    for (TensorView& t : one.tensors) {
      std::string name = t.name;
      out.tensors_.emplace(std::move(name), std::move(t));
    }
    out.unread_.merge(one.unread);
    out.files_.push_back(std::move(one.map));
    out.metadata_.merge(one.metadata);
  }
  return out;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

const std::string* Checkpoint::unread(std::string_view name) const {
  const auto it = unread_.find(name);
  return it == unread_.end() ? nullptr : &it->second;
}

Result<const TensorView*> Checkpoint::get(std::string_view name, std::span<const int64_t> shape) const {
  const TensorView* t = find(name);
  if (const std::string* type = unread(name))
    return unsupported("{}: tensor {}: expected one of the types F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F8_E4M3 F8_E5M2, got {}",
                       path_.string(), name, *type);
  if (!t) return bad_input("{}: tensor {}: expected it, got no tensor of that name", path_.string(), name);
  if (shape.empty()) return t;
  const bool same = std::equal(shape.begin(), shape.end(), t->shape.begin(), t->shape.end(),
                               [](int64_t want, int64_t have) { return want == -1 || want == have; });
  if (!same) {
    return bad_input("{}: tensor {}: expected shape {}, got {}", path_.string(), name, shape_text(shape), shape_text(t->shape));
  }
  return t;
}

void read_as_f32(const TensorView& t, int64_t first, std::span<float> out) {
  const size_t size = size_of(t.dtype);
  const size_t have = t.bytes.size() / size;
  SLIP_CHECK(first >= 0 && static_cast<size_t>(first) <= have && out.size() <= have - static_cast<size_t>(first),
             "the caller asks for elements that the tensor has");
  if (out.empty()) return;
  const auto bytes = t.bytes.subspan(static_cast<size_t>(first) * size, out.size() * size);
  const auto plain = [](auto v) { return static_cast<float>(v); };
  switch (t.dtype) {
    case DType::kF64:
      return convert_all<double>(bytes, out, plain);
    case DType::kF32:
      return void(std::memcpy(out.data(), bytes.data(), bytes.size()));
    case DType::kF16:
      return convert_all<uint16_t>(bytes, out, [](uint16_t v) { return f16_to_float(v); });
    case DType::kBF16:
      return convert_all<uint16_t>(bytes, out, [](uint16_t v) { return to_float(BF16{v}); });
    case DType::kI64:
      return convert_all<int64_t>(bytes, out, plain);
    case DType::kI32:
      return convert_all<int32_t>(bytes, out, plain);
    case DType::kI16:
      return convert_all<int16_t>(bytes, out, plain);
    case DType::kI8:
      return convert_all<int8_t>(bytes, out, plain);
    case DType::kU8:
      return convert_all<uint8_t>(bytes, out, plain);
    case DType::kBool:
      return convert_all<uint8_t>(bytes, out, [](uint8_t v) { return v ? 1.0F : 0.0F; });
    case DType::kF8E4M3:
      return convert_all<uint8_t>(bytes, out, [](uint8_t v) { return f8_e4m3_to_float(v); });
    case DType::kF8E5M2:
      return convert_all<uint8_t>(bytes, out, [](uint8_t v) { return f8_e5m2_to_float(v); });
  }
}

std::vector<float> read_as_f32(const TensorView& t) {
  std::vector<float> out(static_cast<size_t>(t.elements()));
  read_as_f32(t, 0, out);
  return out;
}

bool all_finite(const TensorView& t) {
  if (t.dtype == DType::kF64) {  // rounding to f32 would make a large one infinite
    for (size_t i = 0; i + 8 <= t.bytes.size(); i += 8) {
      double d;
      std::memcpy(&d, t.bytes.data() + i, 8);
      if (!std::isfinite(d)) return false;
    }
    return true;
  }
  constexpr int64_t kChunk = 4096;
  std::vector<float> part(kChunk);
  const int64_t n = t.elements();
  for (int64_t first = 0; first < n; first += kChunk) {
    const std::span<float> out(part.data(), static_cast<size_t>(std::min(kChunk, n - first)));
    read_as_f32(t, first, out);
    if (!std::all_of(out.begin(), out.end(), [](float f) { return std::isfinite(f); })) return false;
  }
  return true;
}

}  // namespace slip
