// SPDX-License-Identifier: Apache-2.0
// width.json. Times are whole microseconds and counts are counts, so that what is read is what was written.
#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "decode/draft_length/model_file.h"

namespace slip {
namespace {

constexpr std::string_view kFormat = "slipstream-width";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostCount = int64_t{1} << 40;  // sums of as many as a file holds stay in 64 bits

json::value to_json(const CostTable& t) {
  json::array rows, us;
  for (const int32_t n : t.rows()) rows.emplace_back(n);
  for (const double ms : t.measured_ms()) us.emplace_back(std::max<int64_t>(1, std::llround(ms * 1000)));
  return json::object{{"rows", std::move(rows)}, {"microseconds", std::move(us)}};
}

Result<std::vector<int64_t>> integers(const json::value& v, std::string_view where) {
  const json::array* a = v.if_array();
  if (!a) return bad_input("{}: expected an array of whole numbers, got {}", where, json::serialize(v).substr(0, 40));
  std::vector<int64_t> out;
  for (const json::value& x : *a) {
    const int64_t* n = x.if_int64();
    if (!n || *n < 0 || *n > kMostCount)
      return bad_input("{}: expected whole numbers from 0 to {}, got {}", where, kMostCount, json::serialize(x).substr(0, 40));
    out.push_back(*n);
  }
  return out;
}

Result<CostTable> costs_of(const json::object& o, std::string_view key, const std::string& file) {
  const std::string where = fmt::format("{}: {}", file, key);
  SLIP_TRY(const json::object* t, get_object(o, key, file));
  SLIP_TRY(const json::array* rows, get_array(*t, "rows", where));
  SLIP_TRY(const json::array* us, get_array(*t, "microseconds", where));
  SLIP_TRY(const auto n, integers(*rows, where + ".rows"));
  SLIP_TRY(const auto times, integers(*us, where + ".microseconds"));
  std::vector<int32_t> n32;
  for (const int64_t x : n) n32.push_back(static_cast<int32_t>(std::min<int64_t>(x, 1 << 30)));
  std::vector<double> ms;
  for (const int64_t x : times) ms.push_back(static_cast<double>(x) / 1000);
  return CostTable::make(std::move(n32), std::move(ms), where);
}

Status read_cells(const json::array& cells, std::optional<int32_t> field, const std::string& where, Survival& to) {
  for (const json::value& v : cells) {
    SLIP_TRY(const auto x, integers(v, where));
    if (x.size() != 5 || x[0] >= Survival::kAhead || x[1] >= Survival::kIndex || x[2] >= Survival::kTop || x[3] > x[4] ||
        x[4] > (int64_t{1} << 40))
      return bad_input("{}: expected [ahead < {}, index < {}, top < {}, kept, tested], got {}", where, Survival::kAhead,
                       Survival::kIndex, Survival::kTop, json::serialize(v).substr(0, 60));
    to.add({field, static_cast<int32_t>(x[0]), static_cast<int32_t>(x[1]), static_cast<int32_t>(x[2])}, {x[3], x[4]});
  }
  return {};
}

Status read_fields(const json::array& fields, const std::string& file, DraftLengthModel& m) {
  std::vector<std::vector<int64_t>> lengths;
  std::vector<int32_t> budgets;
  for (size_t f = 0; f < fields.size(); ++f) {
    const std::string where = fmt::format("{}: fields[{}]", file, f);
    const json::object* o = fields[f].if_object();
    if (!o) return bad_input("{}: expected an object, got {}", where, json::serialize(fields[f]).substr(0, 40));
    SLIP_TRY(std::string name, get_string(*o, "name", where));
    m.fields.push_back(std::move(name));
    SLIP_TRY(const json::array* a, get_array(*o, "lengths", where));
    SLIP_TRY(auto counts, integers(*a, where + ".lengths"));
    if (counts.empty() || counts.size() > 65536)
      return bad_input("{}.lengths: expected budget + 1 counts, got {}", where, counts.size());
    budgets.push_back(static_cast<int32_t>(counts.size()) - 1);
    lengths.push_back(std::move(counts));
  }
  m.lengths = Lengths(budgets);
  m.survival = Survival(static_cast<int32_t>(fields.size()));
  for (size_t f = 0; f < lengths.size(); ++f) {
    for (size_t n = 0; n < lengths[f].size(); ++n) m.lengths.add(static_cast<int32_t>(f), static_cast<int32_t>(n), lengths[f][n]);
    const std::string where = fmt::format("{}: fields[{}]", file, f);
    SLIP_TRY(const json::array* cells, get_array(fields[f].get_object(), "survival", where));
    SLIP_TRY_(read_cells(*cells, static_cast<int32_t>(f), where + ".survival", m.survival));
  }
  return {};
}

}  // namespace

Status write_draft_length_model(const DraftLengthModel& m, const std::filesystem::path& file) {
  std::vector<json::array> cells(m.fields.size() + 1);
  m.survival.for_each([&](const Survival::Cell& c, Survival::Count n) {
    cells[static_cast<size_t>(row_of_field(c.field))].emplace_back(json::array{c.ahead, c.index, c.top, n.kept, n.tested});
  });
  json::array fields;
  for (size_t f = 0; f < m.fields.size(); ++f) {
    json::array lengths;
    for (const int64_t n : m.lengths.counts(static_cast<int32_t>(f))) lengths.emplace_back(n);
    fields.emplace_back(
        json::object{{"name", m.fields[f]}, {"lengths", std::move(lengths)}, {"survival", std::move(cells[f + 1])}});
  }
  json::object o{{"format", kFormat},
                 {"version", kVersion},
                 {"model", m.model},
                 {"form", m.form},
                 {"drafter", m.drafter},
                 {"machine", m.machine},
                 {"visible", m.visible},
                 {"most_draws", m.most_drafts},
                 {"static_width", m.static_draft_length},
                 {"ece_per_million", std::llround(m.ece * 1e6)},
                 {"pass", to_json(m.pass)}};
  if (!m.draft.empty()) o["draft"] = to_json(m.draft);
  o["survival"] = std::move(cells[0]);
  o["fields"] = std::move(fields);
  return write_file(file, pretty(o));
}

Result<DraftLengthModel> read_draft_length_model(const std::filesystem::path& path) {
  const std::string file = path.string();
  SLIP_TRY(const json::value v, read_json(path, size_t{16} << 20));
  const json::object* o = v.if_object();
  if (!o) return bad_input("{}: expected an object, got {}", file, json::serialize(v).substr(0, 40));
  SLIP_TRY(const std::string format, get_string(*o, "format", file));
  SLIP_TRY(const int64_t version, get_int(*o, "version", file));
  if (format != kFormat || version != kVersion)
    return bad_input("{}: expected format {} version {}, got {} version {}", file, kFormat, kVersion, format, version);
  DraftLengthModel m;
  SLIP_TRY(m.model, get_string(*o, "model", file));
  SLIP_TRY(m.form, get_string(*o, "form", file));
  SLIP_TRY(m.drafter, get_string(*o, "drafter", file));
  SLIP_TRY(m.machine, string_or(*o, "machine", "", file));
  const auto number = [&](std::string_view key, int64_t least, int64_t most) -> Result<int32_t> {
    SLIP_TRY(const int64_t n, get_int(*o, key, file));
    if (n < least || n > most) return bad_input("{}: {}: expected a number from {} to {}, got {}", file, key, least, most, n);
    return static_cast<int32_t>(n);
  };
  SLIP_TRY(m.visible, number("visible", 0, 1 << 30));
  SLIP_TRY(m.most_drafts, number("most_draws", 1, kMostDraftsKept));
  SLIP_TRY(m.static_draft_length, number("static_width", 1, 64));
  SLIP_TRY(const int32_t ece, number("ece_per_million", 0, 1000000));
  m.ece = ece / 1e6;
  SLIP_TRY(m.pass, costs_of(*o, "pass", file));
  if (o->contains("draft")) {
    SLIP_TRY(m.draft, costs_of(*o, "draft", file));
  }
  SLIP_TRY(const json::array* fields, get_array(*o, "fields", file));
  SLIP_TRY_(read_fields(*fields, file, m));
  SLIP_TRY(const json::array* cells, get_array(*o, "survival", file));
  SLIP_TRY_(read_cells(*cells, -1, file + ": survival", m.survival));
  m.survival.fit();
  return m;
}

}  // namespace slip
