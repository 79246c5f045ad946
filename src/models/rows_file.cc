// SPDX-License-Identifier: Apache-2.0
// Rows file: parsing, splitting into passes, running; format in rows_file.h.
#include "models/rows_file.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "core/safetensors.h"
#include "lm/spans.h"

namespace slip {
namespace {

constexpr int64_t kMaxPosition = 1 << 30;  // far beyond any context, and kMostFileRows more still fit in int32

// A misspelt `sees` would be another row's sight.
Status only_keys(const json::object& o, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : o)
    if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
      return bad_input("{}: expected the keys {}, got {}", where, fmt::join(known, ", "), std::string_view(key).substr(0, 60));
  return {};
}

Result<int32_t> bounded(const json::value& v, int64_t limit, const std::string& where, std::string_view what) {
  if (!v.is_int64() || v.get_int64() < 0 || v.get_int64() >= limit)
    return bad_input("{}: {}: expected an integer from 0 to {}, got {}", where, what, limit - 1, json::serialize(v).substr(0, 60));
  return static_cast<int32_t>(v.get_int64());
}

Result<Position> parse_position(const json::object& row, const std::string& where) {
  const json::value* v = row.if_contains("position");
  if (!v) return bad_input("{}: expected a position, got none", where);
  if (!v->is_array()) {
    SLIP_TRY(const int32_t p, bounded(*v, kMaxPosition, where, "position"));
    return Position::text(p);
  }
  const json::array& a = v->get_array();
  if (a.size() != 3) return bad_input("{}: position: expected a number or [t, h, w], got {} numbers", where, a.size());
  SLIP_TRY(const int32_t t, bounded(a[0], kMaxPosition, where, "position"));
  SLIP_TRY(const int32_t h, bounded(a[1], kMaxPosition, where, "position"));
  SLIP_TRY(const int32_t w, bounded(a[2], kMaxPosition, where, "position"));
  return Position{t, h, w};
}

Result<std::variant<TokenId, ImagePatch>> parse_input(const json::object& row, size_t images, const std::string& where) {
  using Input = std::variant<TokenId, ImagePatch>;
  const json::value* token = row.if_contains("token");
  const json::value* image = row.if_contains("image");
  const json::value* patch = row.if_contains("patch");
  if (token && !image && !patch) {
    SLIP_TRY(const int32_t id, bounded(*token, int64_t{1} << 31, where, "token"));
    return Input{TokenId{id}};
  }
  if (token || !image || !patch)
    return bad_input("{}: expected `token`, or `image` and `patch`, got {}", where, json::serialize(row).substr(0, 80));
  if (images == 0) return bad_input("{}: image: expected a file with images, got none", where);
  SLIP_TRY(const int32_t k, bounded(*image, static_cast<int64_t>(images), where, "image"));
  SLIP_TRY(const int32_t j, bounded(*patch, int64_t{1} << 31, where, "patch"));
  return Input{ImagePatch{k, j}};
}

Result<IndexRanges> parse_sees(const json::object& row, int32_t index, int32_t rows, const std::string& where) {
  const json::value* v = row.if_contains("sees");
  if (!v) return causal_row(index);
  if (!v->is_array() || v->get_array().empty())
    return bad_input("{}: sees: expected a list of [begin, end), got {}", where, json::serialize(*v).substr(0, 60));
  IndexRanges ranges;
  for (const json::value& r : v->get_array()) {
    if (!r.is_array() || r.get_array().size() != 2)
      return bad_input("{}: sees: expected [begin, end), got {}", where, json::serialize(r).substr(0, 60));
    SLIP_TRY(const int32_t begin, bounded(r.get_array()[0], int64_t{rows} + 1, where, "sees"));
    SLIP_TRY(const int32_t end, bounded(r.get_array()[1], int64_t{rows} + 1, where, "sees"));
    if (begin >= end) return bad_input("{}: sees: expected begin below end, got [{}, {})", where, begin, end);
    ranges.push_back({begin, end});
  }
  return ranges;
}

}  // namespace

Result<RowsFile> parse_rows(const json::value& value, std::string_view where, const std::filesystem::path& folder) {
  if (!value.is_object())
    return bad_input("{}: expected a JSON object with `rows`, got {}", where, json::serialize(value).substr(0, 40));
  const json::object& o = value.get_object();
  SLIP_TRY_(only_keys(o, {"rows", "images"}, std::string(where)));
  SLIP_TRY(const json::array* list, get_array(o, "rows", where));
  if (list->empty() || static_cast<int64_t>(list->size()) > kMostFileRows)
    return bad_input("{}: rows: expected 1 to {} rows, got {}", where, kMostFileRows, list->size());
  RowsFile file;
  file.where = where;
  if (o.contains("images")) {
    SLIP_TRY(const json::array* images, get_array(o, "images", where));
    for (const json::value& image : *images) {
      if (!image.is_string())
        return bad_input("{}: images: expected file names, got {}", where, json::serialize(image).substr(0, 60));
      file.images.push_back(folder / std::string(image.get_string()));
    }
  }
  const auto rows = static_cast<int32_t>(list->size());
  for (int32_t i = 0; i < rows; ++i) {
    const std::string place = fmt::format("{}: row {}", where, i);
    const json::value& v = (*list)[static_cast<size_t>(i)];
    if (!v.is_object()) return bad_input("{}: expected an object, got {}", place, json::serialize(v).substr(0, 40));
    SLIP_TRY_(only_keys(v.get_object(), {"token", "image", "patch", "position", "sees"}, place));
    RowsFileRow row;
    SLIP_TRY(row.input, parse_input(v.get_object(), file.images.size(), place));
    SLIP_TRY(row.position, parse_position(v.get_object(), place));
    SLIP_TRY(row.sees, parse_sees(v.get_object(), i, rows, place));
    file.rows.push_back(std::move(row));
  }
  return file;
}

Result<RowsFile> read_rows_file(const std::filesystem::path& file) {
  SLIP_TRY(const json::value value, read_json(file));
  return parse_rows(value, file.string(), file.parent_path());
}

std::vector<int32_t> plan_passes(const RowsFile& file, int64_t split) {
  const auto rows = static_cast<int32_t>(file.rows.size());
  if (split <= 0) return {0, rows};
  std::vector<int32_t> starts = {0};
  int32_t group = 0;        // first row of the rows that must stay together
  int32_t needs_until = 0;  // they need the rows below this one
  for (int32_t i = 0; i < rows; ++i) {
    needs_until = std::max(needs_until, i + 1);
    for (const IndexRange r : file.rows[static_cast<size_t>(i)].sees) needs_until = std::max(needs_until, r.end);
    if (needs_until > i + 1) continue;
    if (i + 1 - starts.back() > split && group > starts.back()) starts.push_back(group);
    group = i + 1;
  }
  starts.push_back(rows);
  return starts;
}

namespace {

// The rows of a file as an Lm's pass wants them: slots chosen, ranges of rows turned into spans of slots.
struct SlottedRows {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
};

Result<RowInput> to_input(const RowsFile& file, size_t row, const RowFeatures& features, int32_t vocab) {
  const auto& input = file.rows[row].input;
  if (const auto* token = std::get_if<TokenId>(&input)) {
    if (token->value < 0 || token->value >= vocab)
      return bad_input("{}: row {}: token: expected an id below the model's {}, got {}", file.where, row, vocab, token->value);
    return RowInput{*token};
  }
  const auto [image, patch] = std::get<ImagePatch>(input);
  const auto k = static_cast<size_t>(image);
  if (k >= features.ends.size())
    return bad_input("{}: row {}: image: expected one of {}, got {}", file.where, row, features.ends.size(), image);
  const int32_t first = k == 0 ? 0 : features.ends[k - 1], n = features.ends[k] - first;
  if (patch >= n)
    return bad_input("{}: row {}: patch: expected one of the {} of image {}, got {}", file.where, row, n, image, patch);
  return RowInput{Feature{first + patch}};
}

Result<SlottedRows> place_rows(const RowsFile& file, const RowFeatures& features, const std::vector<int32_t>& slots,
                               int32_t vocab) {
  SlottedRows out;
  for (size_t i = 0; i < file.rows.size(); ++i) {
    const RowsFileRow& from = file.rows[i];
    Row row;
    SLIP_TRY(row.input, to_input(file, i, features, vocab));
    row.position = from.position;
    row.slot = slots.empty() ? static_cast<int32_t>(i) : slots[i];
    row.sees_first = static_cast<uint32_t>(out.spans.size());
    row.want = Want::kLogits;
    for (const IndexRange r : from.sees) {
      if (slots.empty()) {
        append_span(out.spans, {r.begin, r.end}, row.sees_first);
      } else {
        for (int32_t j = r.begin; j < r.end; ++j)
          append_span(out.spans, {slots[static_cast<size_t>(j)], slots[static_cast<size_t>(j)] + 1}, row.sees_first);
      }
    }
    row.sees_count = static_cast<uint32_t>(out.spans.size()) - row.sees_first;
    out.rows.push_back(row);
  }
  return out;
}

}  // namespace

Result<std::vector<float>> forward_rows(Lm& lm, const RowsFile& file, const RowFeatures& features, const RowsRun& run) {
  if (run.slots.empty() && static_cast<int64_t>(file.rows.size()) > lm.info().slots)
    return resource_error("{}: rows: expected at most {}, the slots of the cache, got {}", file.where, lm.info().slots,
                          file.rows.size());
  if (!run.slots.empty() && run.slots.size() != file.rows.size())
    return usage_error("slots: expected one for each of {} rows, got {}", file.rows.size(), run.slots.size());
  SLIP_TRY(const SlottedRows slotted, place_rows(file, features, run.slots, lm.info().vocab));
  const std::vector<int32_t> starts = plan_passes(file, run.split);
  const auto vocab = static_cast<size_t>(lm.info().vocab);
  std::vector<float> logits_TV;
  logits_TV.reserve(file.rows.size() * vocab);
  PassOutput out;
  for (size_t p = 0; p + 1 < starts.size(); ++p) {
    const auto first = static_cast<size_t>(starts[p]), n = static_cast<size_t>(starts[p + 1]) - first;
    if (const Status done =
            lm.forward({std::span(slotted.rows).subspan(first, n), slotted.spans, features.features, run.draft_adapter}, out);
        !done)
      return Error{done.error().kind, fmt::format("{}: rows from {}: {}", file.where, first, done.error().message)};
    for (size_t i = 0; i < n; ++i) {
      const auto line = out.logits_V(i);
      logits_TV.insert(logits_TV.end(), line.begin(), line.end());
    }
  }
  return logits_TV;
}

Status write_logits(const std::filesystem::path& file, std::span<const float> logits_TV, int64_t vocab) {
  TensorToWrite tensor;
  tensor.name = "logits_TV";
  tensor.dtype = DType::kF32;
  tensor.shape = {static_cast<int64_t>(logits_TV.size()) / vocab, vocab};
  tensor.bytes = std::as_bytes(logits_TV);
  return write_safetensors(file, {&tensor, 1});
}

}  // namespace slip
