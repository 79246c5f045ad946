// SPDX-License-Identifier: Apache-2.0
// Public data as the record sets that simulate writes, so that train, eval and run need not know where records come from; and records as
// files of other tools.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"

namespace slip {

enum class ImportFormat : uint8_t { kConversations, kWodE2e, kNuScenes, kComma2k19, kMcap };
Result<ImportFormat> import_format(std::string_view name);
std::string_view words(ImportFormat f);  // "conversations", "wod-e2e", "nuscenes", "comma2k19", "mcap"

struct ImportOptions {
  ImportFormat format{};
  std::filesystem::path source, out;
  std::filesystem::path pictures;  // where relative paths of pictures start; empty: the source's own folder
  std::string version;             // nuScenes: the tables' folder; empty: the only v1.0-* in the source
  double every_s = 1;              // comma2k19, mcap without cameras: a record so often
  /// Of recorded history before a record, behind a begin or a hole; what is missing to 3.75 s is continued straight back.
  double least_history_s = 3.75;
  int64_t limit = 0;  // so many records; 0: all
  bool with_pictures = true;
};
struct ImportCounts {
  int64_t records = 0;
  int64_t without_history = 0;      // moments passed over
  int64_t holes = 0, in_holes = 0;  // in the times of poses (TrackPieces); moments in them, which are passed over
  int64_t without_future = 0;       // records that know less than 5 s of it: good to be asked about, not to be learned
  int64_t pictures = 0;
  json::object to_json() const;
};
using ImportProgress = std::function<void(std::string_view stage, int64_t done, int64_t total)>;

/// Writes the set at `out`: record shards, index.json and frames.jsonl (what each record is called where it comes from, with raters'
/// trajectories where there are some), or a conversation set. kBadInput names file, place, expected, got; nothing is left then.
Result<ImportCounts> import_records(const ImportOptions& o, const ImportProgress& progress, const CancelToken& cancel);

/// A record set as an MCAP file for Foxglove: /camera/* (foxglove.CompressedImage), /ego/pose and /ego/future (foxglove.PoseInFrame,
/// PosesInFrame), /labels; ten seconds a record, each with a frame of its own. The import of format mcap reads it again.
Result<int64_t> export_mcap(const std::filesystem::path& records, const std::filesystem::path& out, const ImportProgress& progress,
                            const CancelToken& cancel);

struct SubmissionOptions {
  std::filesystem::path records, answers, out;  // answers: what `eval --out` wrote over these records
  std::string account_name, method_name, parameters;
  std::vector<std::string> authors, pretraining;
};
/// The WOD-E2E challenge's file of one plan a record. kBadInput for an answer without a plan of 20 points at 4 Hz, and for a record without
/// one.
Result<int64_t> export_wod_submission(const SubmissionOptions& o);

}  // namespace slip
