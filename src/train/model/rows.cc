// SPDX-License-Identifier: Apache-2.0
// Rows of a training pass; contracts in rows.h.
#include "train/model/rows.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace slip {
namespace {

/// Marks every row that a marked row sees, until nothing changes. Ranges make one sweep cheap; the dual stream needs two.
std::vector<uint8_t> reached_from(std::vector<uint8_t> mark, std::span<const IndexRanges> sees) {
  std::vector<int32_t> todo;
  for (size_t i = 0; i < mark.size(); ++i)
    if (mark[i]) todo.push_back(static_cast<int32_t>(i));
  while (!todo.empty()) {
    const int32_t row = todo.back();
    todo.pop_back();
    for (const IndexRange r : sees[static_cast<size_t>(row)]) {
      for (int32_t k = r.begin; k < r.end; ++k) {
        if (mark[static_cast<size_t>(k)]) continue;
        mark[static_cast<size_t>(k)] = 1;
        todo.push_back(k);
      }
    }
  }
  return mark;
}

/// Appends one image (all its frames) in window order; `order` gets, per merged cell in patch order, its place.
void append_image(VisionRows& v, std::span<const float> pixels, std::array<int, 3> grid, const VisionShape& shape,
                  std::vector<int32_t>& place_of_cell) {
  const int32_t merge = shape.merge, unit = merge * merge, H = grid[1] / merge, W = grid[2] / merge, window = shape.window_merged;
  const auto width = static_cast<size_t>(shape.patch_numbers);
  const auto first_place = static_cast<int32_t>(v.cells.size()) / unit;
  int32_t place = first_place;
  std::vector<int32_t> cell_at;
  std::vector<IndexRange> windows, frames;
  for (int32_t t = 0; t < grid[0]; ++t) {
    const int32_t frame_begin = place * unit;
    for (int32_t y0 = 0; y0 < H; y0 += window) {
      for (int32_t x0 = 0; x0 < W; x0 += window) {
        const int32_t begin = place * unit;
        for (int32_t y = y0; y < std::min(H, y0 + window); ++y)
          for (int32_t x = x0; x < std::min(W, x0 + window); ++x, ++place) cell_at.push_back((t * H + y) * W + x);
        windows.push_back({begin, place * unit});
      }
    }
    frames.push_back({frame_begin, place * unit});
  }
  const auto cell_base = static_cast<int32_t>(place_of_cell.size());
  place_of_cell.resize(place_of_cell.size() + cell_at.size());
  for (size_t i = 0; i < cell_at.size(); ++i) {
    const int32_t cell = cell_at[i], y = cell / W % H, x = cell % W;
    place_of_cell[static_cast<size_t>(cell_base + cell)] = first_place + static_cast<int32_t>(i);
    for (int32_t k = 0; k < unit; ++k) v.cells.push_back({y * merge + k / merge, x * merge + k % merge});
    const auto from = static_cast<size_t>(cell) * static_cast<size_t>(unit) * width;
    v.pixels.insert(v.pixels.end(), pixels.begin() + static_cast<ptrdiff_t>(from),
                    pixels.begin() + static_cast<ptrdiff_t>(from + static_cast<size_t>(unit) * width));
  }
  const auto add = [&](AttentionPlan& plan, const std::vector<IndexRange>& runs) {
    std::vector<int32_t> rows;
    std::vector<IndexRanges> sees;
    for (const IndexRange r : runs) {
      for (int32_t i = r.begin; i < r.end; ++i) {
        rows.push_back(i);
        sees.push_back({r});
      }
    }
    append_part(plan, rows, sees);
    plan.rows = static_cast<int32_t>(v.cells.size());
  };
  add(v.windows, windows);
  add(v.full, frames);
}

/// Appends one image of plain ViTs, in raster order.
void append_plain_image(VisionRows& v, std::span<const float> pixels, std::array<int, 3> grid, const VisionShape& shape,
                        std::vector<int32_t>& place_of_cell) {
  const int32_t rows = grid[1], columns = grid[2], pool = shape.plain->pool, unit = pool * pool;
  const auto first = static_cast<int32_t>(v.pixels.size() / static_cast<size_t>(shape.patch_numbers));
  v.pixels.insert(v.pixels.end(), pixels.begin(), pixels.end());
  v.grids.push_back({rows, columns});
  for (int32_t cell = 0; cell < (rows / pool) * (columns / pool); ++cell) {
    const int32_t y = cell / (columns / pool) * pool, x = cell % (columns / pool) * pool;
    place_of_cell.push_back(static_cast<int32_t>(v.pooled.size()) / unit);
    for (int32_t k = 0; k < unit; ++k) v.pooled.push_back(first + (y + k / pool) * columns + x + k % pool);
  }
  v.plain.resize(shape.plain->front.size());
  for (size_t tower = 0; tower < v.plain.size(); ++tower) {
    AttentionPlan& plan = v.plain[tower];
    const IndexRange all{plan.rows, plan.rows + shape.plain->front[tower] + rows * columns};
    std::vector<int32_t> queries;
    for (int32_t r = all.begin; r < all.end; ++r) queries.push_back(r);
    append_part(plan, queries, std::vector<IndexRanges>(queries.size(), IndexRanges{all}));
    plan.rows = all.end;
  }
}

/// All pictures of a sample; by cell of its grids, in their order, the place of its feature among the batch's.
std::vector<int32_t> append_pictures(VisionRows& rows, const GridInput& images, const VisionShape& vision) {
  std::vector<int32_t> place_of_cell;
  const size_t unit = vision.plain ? 1 : static_cast<size_t>(vision.merge * vision.merge);
  size_t patch = 0;
  for (const auto& grid : images.grids) {
    const size_t patches = static_cast<size_t>(grid[0]) * static_cast<size_t>(grid[1]) * static_cast<size_t>(grid[2]);
    const auto width = static_cast<size_t>(vision.patch_numbers);
    SLIP_CHECK(patches % unit == 0 && (patch + patches) * width <= images.pixel_values.size(), "pixels match the grids");
    (vision.plain ? append_plain_image : append_image)(rows, images.pixel_values.subspan(patch * width, patches * width), grid,
                                                       vision, place_of_cell);
    patch += patches;
  }
  return place_of_cell;
}

}  // namespace

void append_sequence(RowBatch& batch, const SequenceRows& rows, const GridInput& images, const VisionShape& vision,
                     bool drop_unreached) {
  const size_t n = rows.tokens.size();
  SLIP_CHECK(rows.positions.size() == n && rows.sees.size() == n && rows.feature.size() == n, "one entry per row");
  std::vector<uint8_t> wanted(n, 0);
  for (const auto& t : rows.terms) wanted[static_cast<size_t>(t.row)] = 1;
  for (const int32_t w : rows.wanted) wanted[static_cast<size_t>(w)] = 1;
  const std::vector<uint8_t> kept = drop_unreached ? reached_from(wanted, rows.sees) : std::vector<uint8_t>(n, 1);

  const std::vector<int32_t> place_of_cell = append_pictures(batch.vision, images, vision);
  const auto earlier = images.history.empty() ? 0 : static_cast<int32_t>(batch.history.size() / images.history.size());
  batch.history.insert(batch.history.end(), images.history.begin(), images.history.end());

  // Row numbers in the batch; a range of kept rows stays a range because every row seen by a kept row is kept.
  const auto base = static_cast<int32_t>(batch.tokens.size());
  std::vector<int32_t> new_row(n + 1, base);
  for (size_t i = 0; i < n; ++i) new_row[i + 1] = new_row[i] + (kept[i] ? 1 : 0);
  std::vector<int32_t> all_rows, wanted_rows, wanted_index(n, -1);
  std::vector<IndexRanges> all_sees, wanted_sees;
  for (size_t i = 0; i < n; ++i) {
    if (!kept[i]) continue;
    IndexRanges sees;
    for (const IndexRange r : rows.sees[i])
      append_range(sees, new_row[static_cast<size_t>(r.begin)], new_row[static_cast<size_t>(r.end)]);
    if (rows.feature[i] >= 0) {
      SLIP_CHECK(static_cast<size_t>(rows.feature[i]) < place_of_cell.size(), "features exist");
      batch.feature_rows.push_back(new_row[i]);
      batch.feature_of.push_back(place_of_cell[static_cast<size_t>(rows.feature[i])]);
    }
    if (rows.feature[i] == kHistoryFeature) {
      SLIP_CHECK(!images.history.empty(), "a row of history has one");
      batch.feature_rows.push_back(new_row[i]);
      batch.feature_of.push_back(-1 - earlier);
    }
    batch.tokens.push_back(rows.feature[i] == -1 ? rows.tokens[i] : 0);
    batch.positions.push_back(rows.positions[i]);
    if (wanted[i]) {
      wanted_index[i] = static_cast<int32_t>(batch.wanted_rows.size());
      batch.wanted_rows.push_back(new_row[i]);
      wanted_rows.push_back(new_row[i]);
      wanted_sees.push_back(sees);
    }
    all_rows.push_back(new_row[i]);
    all_sees.push_back(std::move(sees));
  }
  append_part(batch.all, all_rows, all_sees);
  append_part(batch.last, wanted_rows, wanted_sees);
  batch.all.rows = batch.last.rows = static_cast<int32_t>(batch.tokens.size());
  for (const auto& t : rows.terms) batch.terms.push_back({wanted_index[static_cast<size_t>(t.row)], t.target, t.weight, t.noisy});
  batch.samples += 1;
  batch.full_rows += static_cast<int64_t>(n);
  batch.count += rows.count;
}

std::vector<int32_t> features_of(const Sample& s) {
  std::vector<int32_t> feature(s.tokens.size(), -1);
  for (int32_t next = 0, i = 0; static_cast<size_t>(i) < feature.size(); ++i)
    if (!s.grids.empty() && s.tokens[static_cast<size_t>(i)] == s.image_token)
      feature[static_cast<size_t>(i)] = next++;
    else if (!s.history.empty() && s.tokens[static_cast<size_t>(i)] == s.history_token)
      feature[static_cast<size_t>(i)] = kHistoryFeature;
  return feature;
}

SequenceRows dual_rows(const Sample& s, std::span<const int32_t> turn, std::span<const NoisyRow> noisy, std::span<const uint8_t> ar,
                       bool shift) {
  const auto n = static_cast<int32_t>(s.tokens.size());
  const auto un = static_cast<size_t>(n);
  const std::vector<IndexRanges> dual = dual_stream(turn);
  const std::vector<int32_t> feature = features_of(s);
  SequenceRows out;
  // Clean rows first: 0 .. n-1; noisy row k: (k + 1) n .. (k + 2) n - 1.
  for (int32_t i = 0; i < n; ++i) {
    out.tokens.push_back(s.tokens[static_cast<size_t>(i)].value);
    out.sees.push_back(causal_row(i));
  }
  out.feature = feature;
  out.positions = s.positions;
  for (size_t k = 0; k < noisy.size(); ++k) {
    const int32_t base = static_cast<int32_t>(k + 1) * n;
    for (size_t i = 0; i < un; ++i) {
      const bool masked = noisy[k].masked[i] != 0;
      out.tokens.push_back(masked ? s.mask_token.value : s.tokens[i].value);
      out.feature.push_back(masked ? -1 : feature[i]);
      IndexRanges sees;  // dual_stream numbers [noisy | clean]; ours are [clean | noisy 0 | noisy 1 ...]
      for (const IndexRange r : dual[i]) {
        const int32_t moved = r.begin >= n ? -n : base;
        append_range(sees, r.begin + moved, r.end + moved);
      }
      out.sees.push_back(std::move(sees));
      if (masked && (!shift || i > 0))
        out.terms.push_back({base + static_cast<int32_t>(i) - (shift ? 1 : 0), s.tokens[i].value, noisy[k].weight[i], true});
    }
    out.positions.insert(out.positions.end(), s.positions.begin(), s.positions.end());
  }
  for (int32_t i = 1; i < n; ++i)
    if (ar[static_cast<size_t>(i)]) out.terms.push_back({i - 1, s.tokens[static_cast<size_t>(i)].value, 1.0, false});
  return out;
}

}  // namespace slip
