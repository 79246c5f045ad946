// SPDX-License-Identifier: Apache-2.0
#include "forecast/cost_store.h"

#include <cmath>

namespace slip {
namespace {

constexpr std::string_view kKind = "costs";

std::optional<CostTable> table_of(const json::object& o) {
  const auto rows = get_array(o, "rows", kKind), nanoseconds = get_array(o, "nanoseconds", kKind);
  if (!rows || !nanoseconds || (*rows)->size() != (*nanoseconds)->size()) return std::nullopt;
  std::vector<int32_t> n;
  std::vector<double> ms;
  for (size_t i = 0; i < (*rows)->size(); ++i) {
    const json::value &a = (**rows)[i], &b = (**nanoseconds)[i];
    if (!a.is_int64() || !b.is_int64() || a.get_int64() < 1 || a.get_int64() > 65536) return std::nullopt;
    n.push_back(static_cast<int32_t>(a.get_int64()));
    ms.push_back(static_cast<double>(b.get_int64()) * 1e-6);
  }
  auto table = CostTable::make(std::move(n), std::move(ms), kKind);
  return table ? std::optional(std::move(*table)) : std::nullopt;
}

}  // namespace

std::optional<CostTable> CostStore::find(const std::string& key) const {
  const auto kept = cache_.find(kKind, key);
  return kept ? table_of(*kept) : std::nullopt;
}

void CostStore::keep(const std::string& key, const CostTable& table) const {
  json::array rows, nanoseconds;
  for (size_t i = 0; i < table.rows().size(); ++i) {
    rows.emplace_back(table.rows()[i]);
    nanoseconds.emplace_back(static_cast<int64_t>(std::lround(table.measured_ms()[i] * 1e6)));
  }
  cache_.keep(kKind, key, {{"rows", std::move(rows)}, {"nanoseconds", std::move(nanoseconds)}});
}

void CostStore::drop(const std::string& key) const { cache_.drop(kKind, key); }

}  // namespace slip
