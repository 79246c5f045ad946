// SPDX-License-Identifier: Apache-2.0
#include "forecast/user_cache.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/log.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 1;
constexpr int64_t kMostDays = 31;
constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostFiles = 512;  // of a kind: of those beyond the oldest go

/// Everything but the checksum, as it stands in the file.
std::string body_of(const json::object& o) {
  json::object body = o;
  body.erase("checksum");
  return json::serialize(body);
}

std::string checksum_of(const json::object& o) { return fmt::format("{:016x}", fnv1a(body_of(o))); }

}  // namespace

UserCache UserCache::of_user() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/') return UserCache(fs::path(cache) / "slipstream");
  if (home && *home == '/') return UserCache(fs::path(home) / ".cache" / "slipstream");
  return UserCache({});
}

fs::path UserCache::file_of(std::string_view kind, const std::string& key) const {
  return folder_ / fmt::format("{}-{:016x}.json", kind, fnv1a(key));
}

std::optional<json::object> UserCache::find(std::string_view kind, const std::string& key, Days today) const {
  if (folder_.empty()) return std::nullopt;
  const std::string where = file_of(kind, key).string();
  std::error_code ec;
  if (!fs::is_regular_file(where, ec)) return std::nullopt;  // a pipe would wait for a writer
  auto read = read_json(where, kMostBytes);
  if (!read || !read->is_object()) return std::nullopt;
  json::object& o = read->get_object();
  const auto format = get_string(o, "format", where), of = get_string(o, "key", where), sum = get_string(o, "checksum", where);
  const auto version = get_int(o, "version", where), day = get_int(o, "day", where);
  if (!format || *format != fmt::format("slipstream-{}", kind) || !version || *version != kVersion) return std::nullopt;
  if (!of || *of != key || !sum || !day || *sum != checksum_of(o)) return std::nullopt;
  const int64_t age = today.time_since_epoch().count() - *day;
  if (age < 0 || age > kMostDays) return std::nullopt;
  return std::move(o);
}

void UserCache::keep(std::string_view kind, const std::string& key, json::object body, Days today) const {
  if (folder_.empty()) return;
  json::object o{{"format", fmt::format("slipstream-{}", kind)},
                 {"version", kVersion},
                 {"key", key},
                 {"day", static_cast<int64_t>(today.time_since_epoch().count())}};
  for (auto& [name, value] : body) o[name] = std::move(value);
  o["checksum"] = checksum_of(o);
  std::error_code ec;
  fs::create_directories(folder_, ec);
  const fs::file_status there = fs::status(file_of(kind, key), ec);
  if (fs::exists(there) && !fs::is_regular_file(there)) return;  // a pipe would wait for a reader
  if (const Status written = write_file(file_of(kind, key), json::serialize(o) + "\n"); !written)
    log(LogLevel::kInfo, "auto: {} are not kept: {}", kind, written.error().message);
  remove_old(kind);
}

void UserCache::drop(std::string_view kind, const std::string& key) const {
  std::error_code ec;
  if (!folder_.empty()) fs::remove(file_of(kind, key), ec);
}

/// Every build, every change of a model and every renewal of prices has keys of its own, which nobody asks for again.
void UserCache::remove_old(std::string_view kind) const {
  std::error_code ec, of_one;
  const std::string prefix = fmt::format("{}-", kind);
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder_, ec), end; !ec && at != end; at.increment(ec)) {
    if (!at->path().filename().string().starts_with(prefix) || !at->is_regular_file(of_one)) continue;
    const auto written = at->last_write_time(of_one);
    if (!of_one) files.emplace_back(written, at->path());
  }
  std::sort(files.rbegin(), files.rend());  // the newest first
  const auto oldest = fs::file_time_type::clock::now() - std::chrono::days(kMostDays + 1);
  for (size_t i = 0; i < files.size(); ++i)
    if (i >= kMostFiles || files[i].first < oldest) fs::remove(files[i].second, of_one);
}

}  // namespace slip
