// SPDX-License-Identifier: Apache-2.0
#include "forecast/cost_store.h"

#include <cmath>
#include <cstdlib>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "slipstream-costs";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostDays = 31;
constexpr size_t kMostBytes = 1 << 16;

/// Everything but the checksum, as it stands in the file.
std::string body_of(const json::object& o) {
  json::object body = o;
  body.erase("checksum");
  return json::serialize(body);
}

std::optional<CostTable> table_of(const json::object& o, const std::string& where) {
  const auto rows = get_array(o, "rows", where), micros = get_array(o, "nanoseconds", where);
  if (!rows || !micros || (*rows)->size() != (*micros)->size()) return std::nullopt;
  std::vector<int32_t> n;
  std::vector<double> ms;
  for (size_t i = 0; i < (*rows)->size(); ++i) {
    const json::value &a = (**rows)[i], &b = (**micros)[i];
    if (!a.is_int64() || !b.is_int64() || a.get_int64() < 1 || a.get_int64() > 65536) return std::nullopt;
    n.push_back(static_cast<int32_t>(a.get_int64()));
    ms.push_back(static_cast<double>(b.get_int64()) * 1e-6);
  }
  auto table = CostTable::make(std::move(n), std::move(ms), where);
  return table ? std::optional(std::move(*table)) : std::nullopt;
}

}  // namespace

CostStore CostStore::of_user() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/') return CostStore(fs::path(cache) / "slipstream");
  if (home && *home == '/') return CostStore(fs::path(home) / ".cache" / "slipstream");
  return CostStore({});
}

fs::path CostStore::file_of(const std::string& key) const { return folder_ / fmt::format("costs-{:016x}.json", fnv1a(key)); }

std::optional<CostTable> CostStore::find(const std::string& key, Days today) const {
  if (folder_.empty()) return std::nullopt;
  const std::string where = file_of(key).string();
  std::error_code ec;
  if (!fs::is_regular_file(where, ec)) return std::nullopt;  // a pipe would wait for a writer
  const auto read = read_json(where, kMostBytes);
  if (!read || !read->is_object()) return std::nullopt;
  const json::object& o = read->get_object();
  const auto format = get_string(o, "format", where), of = get_string(o, "key", where), sum = get_string(o, "checksum", where);
  const auto version = get_int(o, "version", where), day = get_int(o, "day", where);
  if (!format || *format != kFormat || !version || *version != kVersion || !of || *of != key || !sum || !day) return std::nullopt;
  if (*sum != fmt::format("{:016x}", fnv1a(body_of(o)))) return std::nullopt;
  const int64_t age = today.time_since_epoch().count() - *day;
  if (age < 0 || age > kMostDays) return std::nullopt;
  return table_of(o, where);
}

void CostStore::keep(const std::string& key, const CostTable& table, Days today) const {
  if (folder_.empty()) return;
  json::array rows, nanoseconds;
  for (size_t i = 0; i < table.rows().size(); ++i) {
    rows.emplace_back(table.rows()[i]);
    nanoseconds.emplace_back(static_cast<int64_t>(std::lround(table.measured_ms()[i] * 1e6)));
  }
  json::object o{{"format", kFormat},
                 {"version", kVersion},
                 {"key", key},
                 {"day", static_cast<int64_t>(today.time_since_epoch().count())},
                 {"rows", std::move(rows)},
                 {"nanoseconds", std::move(nanoseconds)}};
  o["checksum"] = fmt::format("{:016x}", fnv1a(body_of(o)));
  std::error_code ec;
  fs::create_directories(folder_, ec);
  if (const Status written = write_file(file_of(key), json::serialize(o) + "\n"); !written)
    log(LogLevel::kInfo, "auto: costs are not kept: {}", written.error().message);
}

void CostStore::drop(const std::string& key) const {
  std::error_code ec;
  if (!folder_.empty()) fs::remove(file_of(key), ec);
}

}  // namespace slip
