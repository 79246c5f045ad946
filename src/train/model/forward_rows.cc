// SPDX-License-Identifier: Apache-2.0
// Rows from a file through the trainer's model; contracts in forward_rows.h.
#include "train/model/forward_rows.h"

#include <algorithm>
#include <cstring>

#include "core/safetensors.h"
#include "train/model/weights.h"

namespace slip {
namespace {

constexpr int64_t kMostPosition = int64_t{1} << 30;

bool is_position(const json::value& v) { return v.is_int64() && v.get_int64() >= -kMostPosition && v.get_int64() <= kMostPosition; }
bool all_positions(const json::array& a) { return std::all_of(a.begin(), a.end(), is_position); }

Result<Position> position_of(const json::object& row, int32_t other, const std::string& where) {
  const json::value* p = row.if_contains("position");
  if (p == nullptr) return Position::text(other);
  if (is_position(*p)) return Position::text(static_cast<int32_t>(p->get_int64()));
  if (!p->is_array() || p->get_array().size() != 3 || !all_positions(p->get_array()))
    return bad_input("{}: position: expected a number or [t, h, w], got {}", where, json::serialize(*p));
  const auto at = [&](size_t i) { return static_cast<int32_t>(p->get_array()[i].get_int64()); };
  return Position{at(0), at(1), at(2)};
}

Result<IndexRanges> sees_of(const json::object& row, int32_t index, int32_t rows, const std::string& where) {
  const json::value* s = row.if_contains("sees");
  if (s == nullptr) return causal_row(index);
  if (!s->is_array()) return bad_input("{}: sees: expected a list of ranges, got {}", where, json::serialize(*s));
  IndexRanges out;
  for (const json::value& v : s->get_array()) {
    if (!v.is_array() || v.get_array().size() != 2 || !all_positions(v.get_array()))
      return bad_input("{}: sees: expected [begin, end], got {}", where, json::serialize(v));
    const int64_t begin = v.get_array()[0].get_int64(), end = v.get_array()[1].get_int64();
    if (begin < 0 || end > rows || begin > end)
      return bad_input("{}: sees: expected a range within 0 .. {}, got [{}, {}]", where, rows, begin, end);
    for (const IndexRange r : out)
      if (begin < r.end && r.begin < end)
        return bad_input("{}: sees: expected every row once, got [{}, {}] again", where, begin, end);
    append_range(out, static_cast<int32_t>(begin), static_cast<int32_t>(end));
  }
  if (out.empty()) return bad_input("{}: sees: expected at least one row, got none", where);
  return out;
}

struct Pixels {
  std::vector<float> values;
  std::vector<std::array<int, 3>> grids;
};

Result<Pixels> read_pixels(const std::filesystem::path& file) {
  Pixels p;
  if (file.empty()) return p;
  SLIP_TRY(const Checkpoint stored, Checkpoint::open_file(file));
  const std::array<int64_t, 2> any{-1, -1}, triple{-1, 3};
  SLIP_TRY(const TensorView* values, stored.get("pixel_values", any));
  SLIP_TRY(const TensorView* grids, stored.get("grid_thw", triple));
  p.values = read_as_f32(*values);
  const std::vector<float> g = read_as_f32(*grids);
  constexpr float kMostSide = 1000;  // in patches; three of them multiply within 31 bits
  for (const float side : g)
    if (!(side >= 1 && side <= kMostSide))
      return bad_input("{}: grid_thw: expected numbers from 1 to {}, got {}", file.string(), kMostSide, side);
  int64_t patches = 0;
  for (size_t i = 0; i + 2 < g.size(); i += 3) {
    p.grids.push_back({static_cast<int>(g[i]), static_cast<int>(g[i + 1]), static_cast<int>(g[i + 2])});
    patches += int64_t{p.grids.back()[0]} * p.grids.back()[1] * p.grids.back()[2];
  }
  if (patches != values->shape[0])
    return bad_input("{}: expected pixel_values of {} patches by grid_thw, got {}", file.string(), patches, values->shape[0]);
  return p;
}

}  // namespace

Result<RowBatch> rows_from_json(const json::object& o, const ModelShape& shape, const std::filesystem::path& pixels,
                                const std::string& where) {
  SLIP_TRY(const json::array* rows, get_array(o, "rows", where));
  SLIP_TRY(const Pixels images, read_pixels(pixels));
  std::vector<int32_t> first_feature{0};
  const int32_t unit = shape.vision ? shape.vision->merge * shape.vision->merge : 4;
  for (const auto& g : images.grids) first_feature.push_back(first_feature.back() + g[0] * g[1] * g[2] / unit);
  SequenceRows s;
  const auto n = static_cast<int32_t>(rows->size());
  for (int32_t i = 0; i < n; ++i) {
    const std::string at = fmt::format("{}: row {}", where, i);
    if (!(*rows)[static_cast<size_t>(i)].is_object()) return bad_input("{}: expected an object", at);
    const json::object& row = (*rows)[static_cast<size_t>(i)].get_object();
    int64_t token = 0, feature = -1;
    if (row.contains("token")) {
      SLIP_TRY(token, get_int(row, "token", at));
      if (token < 0 || token >= shape.vocab) return bad_input("{}: token: expected an id below {}, got {}", at, shape.vocab, token);
    } else {
      SLIP_TRY(const int64_t image, get_int(row, "image", at));
      SLIP_TRY(const int64_t patch, get_int(row, "patch", at));
      if (image < 0 || static_cast<size_t>(image) + 1 >= first_feature.size())
        return bad_input("{}: image: expected one of {} images, got {}", at, images.grids.size(), image);
      feature = first_feature[static_cast<size_t>(image)] + patch;
      if (patch < 0 || feature >= first_feature[static_cast<size_t>(image) + 1])
        return bad_input("{}: patch: expected a merged feature of image {}, got {}", at, image, patch);
    }
    SLIP_TRY(const Position position, position_of(row, i, at));
    SLIP_TRY(IndexRanges sees, sees_of(row, i, n, at));
    s.tokens.push_back(static_cast<int32_t>(token));
    s.feature.push_back(static_cast<int32_t>(feature));
    s.positions.push_back(position);
    s.sees.push_back(std::move(sees));
    s.wanted.push_back(i);
  }
  RowBatch batch;
  append_sequence(batch, s, {images.values, images.grids}, shape.vision_rows(), false);
  return batch;
}

Result<TrainModel> load_model(const std::filesystem::path& folder, Precision precision) {
  SLIP_TRY(const json::value config, read_json(folder / "config.json"));
  if (!config.is_object()) return bad_input("{}: expected an object", (folder / "config.json").string());
  SLIP_TRY(const ModelShape shape, ModelShape::from_config(config.get_object(), (folder / "config.json").string()));
  SLIP_TRY(const Checkpoint stored, Checkpoint::open_folder(folder));
  TrainModel model(shape, precision);
  if (precision == Precision::kF64)
    SLIP_TRY_(load_weights(stored, model.table(), model.values<double>()));
  else
    SLIP_TRY_(load_weights(stored, model.table(), model.values<float>()));
  return model;
}

Status forward_rows(const std::filesystem::path& model_folder, const std::filesystem::path& rows_file,
                    const std::filesystem::path& pixels, const std::filesystem::path& out, Precision precision) {
  SLIP_TRY(TrainModel model, load_model(model_folder, precision));
  SLIP_TRY(const json::value rows, read_json(rows_file));
  if (!rows.is_object()) return bad_input("{}: expected an object", rows_file.string());
  SLIP_TRY(const RowBatch batch, rows_from_json(rows.get_object(), model.shape(), pixels, rows_file.string()));
  const std::vector<float> logits = model.logits(batch);
  const TensorToWrite t{"logits",
                        DType::kF32,
                        {static_cast<int64_t>(batch.wanted_rows.size()), model.shape().vocab},
                        std::as_bytes(std::span(logits))};
  return write_safetensors(out, {&t, 1});
}

}  // namespace slip
