// SPDX-License-Identifier: Apache-2.0
// slipstream.json of a packed folder; see packed_folder.h.
#include "models/weights/packed_folder.h"

#include <array>
#include <fstream>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/json/shown.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, kWeightTypeCount> kWords = {"f32", "bf16", "int8", "int4"};

Result<WeightType> read_type(const json::object& o, const std::string& where) {
  SLIP_TRY(const std::string word, get_string(o, "type", where));
  const auto type = weight_type_named(word);
  if (!type) return bad_input("{}: type: expected f32, bf16, int8 or int4, got {}", where, shown(word));
  return *type;
}

Result<PackedEntry> read_entry(const json::object& o, const std::string& where) {
  PackedEntry e;
  SLIP_TRY(e.type, read_type(o, where));
  for (const auto& [key, to] : {std::pair{"rows", &e.rows}, std::pair{"columns", &e.columns}}) {
    SLIP_TRY(*to, get_int(o, key, where));
    if (*to < 1 || *to > INT32_MAX) return bad_input("{}: {}: expected 1 to {}, got {}", where, key, INT32_MAX, *to);
  }
  if (o.contains("padding")) {
    SLIP_TRY(e.padding, get_int(o, "padding", where));
    if (e.padding < 0 || e.padding >= e.rows)
      return bad_input("{}: padding: expected 0 to {}, got {}", where, e.rows - 1, e.padding);
  }
  SLIP_TRY(const json::array* parts, get_array(o, "parts", where));
  for (const json::value& p : *parts) {
    if (!p.is_string()) return bad_input("{}: parts: expected tensor names, got {}", where, json::serialize(p).substr(0, 40));
    e.parts.emplace_back(p.get_string());
  }
  return e;
}

}  // namespace

std::string_view word_of_type(WeightType type) { return kWords.at(static_cast<size_t>(type)); }

std::optional<WeightType> weight_type_named(std::string_view word) {
  for (size_t i = 0; i < kWords.size(); ++i)
    if (kWords[i] == word) return static_cast<WeightType>(i);
  return std::nullopt;
}

Result<std::optional<PackedFolder>> read_packed_folder(const std::filesystem::path& folder) {
  const auto file = folder / kPackedFile;
  const std::string where = file.string();
  std::error_code ec;
  if (!std::filesystem::exists(file, ec)) return std::optional<PackedFolder>{};
  SLIP_TRY(const json::value value, read_json(file, size_t{64} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got another kind", where);
  if (!value.get_object().contains("packed")) return std::optional<PackedFolder>{};
  SLIP_TRY(const json::object* packed, get_object(value.get_object(), "packed", where));
  SLIP_TRY(const int64_t version, get_int(*packed, "version", where));
  if (version != kPackedVersion)
    return unsupported("{}: version: expected {}, got {} (run `slipstream quantize` again)", where, kPackedVersion, version);
  PackedFolder out;
  SLIP_TRY(out.type, read_type(*packed, where));
  SLIP_TRY(const json::object* matrices, get_object(*packed, "matrices", where));
  for (const auto& [key, entry] : *matrices) {
    const std::string name(key);
    if (!entry.is_object()) return bad_input("{}: matrix {}: expected an object, got another kind of JSON", where, name);
    SLIP_TRY(PackedEntry e, read_entry(entry.get_object(), where + ": matrix " + name));
    out.matrices.emplace(name, std::move(e));
  }
  if (const json::value* source = packed->if_contains("source"); source && source->is_object()) out.source = source->get_object();
  if (const json::value* errors = packed->if_contains("errors"); errors && errors->is_object()) out.errors = errors->get_object();
  if (packed->contains("hash")) {
    SLIP_TRY(out.hash, get_string(*packed, "hash", where));
  }
  return std::optional<PackedFolder>{std::move(out)};
}

Result<std::string> hash_of_weights(const std::filesystem::path& folder, const CancelToken& cancel) {
  constexpr size_t kPiece = size_t{1} << 22;
  const std::filesystem::path file = folder / "model.safetensors";
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(kPiece);
  uint64_t h = kFnvStart;
  for (int64_t done = 0; in; ++done) {
    SLIP_TRY_(cancel.check("reading weights", done * static_cast<int64_t>(kPiece >> 20), "MB"));
    in.read(piece.data(), static_cast<std::streamsize>(kPiece));
    h = checksum(std::as_bytes(std::span(piece.data(), static_cast<size_t>(in.gcount()))), h);
  }
  if (!in.eof()) return bad_input("{}: expected a readable file, got one that is not", file.string());
  return fmt::format("{:016x}", h);
}

json::value packed_folder_json(const PackedFolder& folder) {
  json::object matrices;
  for (const auto& [name, e] : folder.matrices) {
    json::array parts;
    for (const std::string& p : e.parts) parts.emplace_back(p);
    matrices[name] = json::object{{"type", word_of_type(e.type)},
                                  {"rows", e.rows},
                                  {"columns", e.columns},
                                  {"padding", e.padding},
                                  {"parts", std::move(parts)}};
  }
  return json::object{{"packed", json::object{{"version", kPackedVersion},
                                              {"type", word_of_type(folder.type)},
                                              {"source", folder.source},
                                              {"errors", folder.errors},
                                              {"hash", folder.hash},
                                              {"matrices", std::move(matrices)}}}};
}

Result<WeightType> natural_type(const std::filesystem::path& folder, std::string_view stored_dtype,
                                std::optional<WeightType> meant) {
  SLIP_TRY(const std::optional<PackedFolder> packed, read_packed_folder(folder));
  if (packed) return packed->type;
  if (meant) return *meant;
  return stored_dtype == "float32" ? WeightType::kF32 : WeightType::kBF16;
}

}  // namespace slip
