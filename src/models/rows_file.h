// SPDX-License-Identifier: Apache-2.0
// The rows file: rows with explicit visibility, as JSON, and the logits of all of them. It is how anything outside asks for a
// pass: {"rows": [{"token": 12, "position": 7, "sees": [[0, 8]]}, ...], "images": ["a.png"]}.
// `position`: a number or [t, h, w]. `sees`: half-open ranges of row indices in the order in which they are added; without it a
// row sees all rows up to itself. `"image": k, "patch": j` in place of `token` takes feature row j of image k. No other keys.
#pragma once
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "lm/lm.h"
#include "lm/visibility.h"

namespace slip {

inline constexpr int64_t kMostFileRows = 1 << 20;  // a million, the longest contexts in use; more is a broken file

struct ImagePatch {
  int32_t image = 0, patch = 0;
  bool operator==(const ImagePatch&) const = default;
};

struct RowsFileRow {
  std::variant<TokenId, ImagePatch> input;
  Position position;
  IndexRanges sees;
};

struct RowsFile {
  std::vector<RowsFileRow> rows;
  std::string where = "rows";                 // opens messages: the file
  std::vector<std::filesystem::path> images;  // relative ones are taken from the file's folder
};

/// kBadInput names the row and the key. `where` opens messages; `folder` is where relative image paths start.
Result<RowsFile> parse_rows(const json::value& value, std::string_view where, const std::filesystem::path& folder);
Result<RowsFile> read_rows_file(const std::filesystem::path& file);

/// Feature rows of the file's images, one image behind the other; ends[k]: where image k's rows end.
struct RowFeatures {
  Features features;
  std::vector<int32_t> ends;
};

struct RowsRun {
  int64_t split = 0;           // at most this many rows a pass; 0: one pass
  std::vector<int32_t> slots;  // slot of each row; empty: row i in slot i
  bool draft_adapter = false;  // run with the model's draft adapter
};

/// First rows of the passes, and the number of rows as last element: at most `split` rows each, but rows that see later rows
/// stay in one pass with them.
std::vector<int32_t> plan_passes(const RowsFile& file, int64_t split);

/// Logits of all rows, T x V, through the cache. kResource when the arena has fewer slots than there are rows, kBadInput for
/// a token or patch that this model does not have; messages name file and row.
Result<std::vector<float>> forward_rows(Lm& lm, const RowsFile& file, const RowFeatures& features, const RowsRun& run = {});

/// One safetensors file with `logits_TV`, f32.
Status write_logits(const std::filesystem::path& file, std::span<const float> logits_TV, int64_t vocab);

}  // namespace slip
