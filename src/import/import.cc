// SPDX-License-Identifier: Apache-2.0
// See import.h: what every format's records go through on their way into a set.
#include "import/import.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "import/comma.h"
#include "import/conversation.h"
#include "import/mcap_drive.h"
#include "import/nuscenes.h"
#include "import/tfrecord.h"
#include "import/wod_e2e.h"
#include "sim/record/shards.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
constexpr std::array<std::string_view, 5> kFormats = {"conversations", "wod-e2e", "nuscenes", "comma2k19", "mcap"};

}  // namespace

std::string_view words(ImportFormat f) { return kFormats[static_cast<size_t>(f)]; }

Result<ImportFormat> import_format(std::string_view name) {
  const auto* at = std::find(kFormats.begin(), kFormats.end(), name);
  if (at == kFormats.end())
    return usage_error("import: expected a format of conversations, wod-e2e, nuscenes, comma2k19 or mcap, got {}", name);
  return static_cast<ImportFormat>(at - kFormats.begin());
}

json::object ImportCounts::to_json() const {
  return {{"records", records},
          {"without_history", without_history},
          {"without_future", without_future},
          {"holes", holes},
          {"in_holes", in_holes},
          {"pictures", pictures}};
}

namespace {

/// The set under construction, and what is counted on the way.
class Sink {
 public:
  Sink(const ImportOptions& o, const ImportProgress& progress, const CancelToken& cancel)
      : o_(o), progress_(progress), cancel_(cancel) {}
  Status open() {
    SLIP_TRY(sim::RecordSetWriter writer, sim::RecordSetWriter::create(o_.out, std::string(words(o_.format))));
    writer_.emplace(std::move(writer));
    return {};
  }
  bool full() const { return o_.limit > 0 && counts_.records >= o_.limit; }
  Status poll(int64_t done, int64_t total) const {
    if (progress_) progress_("importing", done, total);
    return cancel_.check("import", counts_.records, "records");
  }
  void begin(const TrackPieces& track) { counts_.holes += track.holes; }
  /// `details`: of the record's line in frames.jsonl, beside its name.
  Status add(ImportedRecord r, json::object details = {}) {
    sim::Labels& l = r.record.labels;
    l.seed = static_cast<uint64_t>(counts_.records);
    if (!o_.with_pictures) r.record.images.clear();
    counts_.without_future += (l.unknown & sim::kUnknownFuture) != 0;
    counts_.pictures += !r.record.images.empty();
    details["name"] = r.name;
    frames_ += json::serialize(details) + "\n";
    SLIP_TRY_(writer_->add(r.record));
    ++counts_.records;
    return {};
  }
  /// A moment of a track. In a hole of it, or fewer than least_history_s behind the track's begin or a hole: passed over.
  Status add_moment(const TrackPieces& track, double now_s, std::string name,
                    const std::function<Result<std::vector<uint8_t>>()>& pictures) {
    constexpr double kSlack = 0.05;
    const Track* piece = track.at(now_s);
    if (!piece || now_s - piece->first_s() < o_.least_history_s - kSlack) {
      ++(piece ? counts_.without_history : counts_.in_holes);
      return {};
    }
    ImportedRecord r{std::move(name), {labels_at(*piece, now_s, sim::Intent::kGoStraight), {}}};
    if (o_.with_pictures) {
      SLIP_TRY(r.record.images, pictures());
    }
    return add(std::move(r));
  }
  Result<ImportCounts> finish() {
    if (counts_.records == 0)
      return bad_input(
          "{}: expected records with {} s of history, got none ({} moments have less, {} lie in {} holes of the times)",
          o_.source.string(), o_.least_history_s, counts_.without_history, counts_.in_holes, counts_.holes);
    SLIP_TRY_(writer_->finish());
    SLIP_TRY_(write_file(o_.out / "frames.jsonl", frames_));
    return counts_;
  }

 private:
  const ImportOptions& o_;
  const ImportProgress& progress_;
  const CancelToken& cancel_;
  std::optional<sim::RecordSetWriter> writer_;
  ImportCounts counts_;
  std::string frames_;
};

/// A file, or a folder's files whose names hold `part`, in order of their names.
Result<std::vector<fs::path>> files_of(const fs::path& source, std::string_view part) {
  std::error_code ec;
  if (!fs::is_directory(source, ec)) return std::vector{source};
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(source, ec))
    if (entry.path().filename().string().find(part) != std::string::npos) out.push_back(entry.path());
  if (out.empty()) return bad_input("{}: expected files with {} in their names, got none", source.string(), part);
  std::sort(out.begin(), out.end());
  return out;
}

json::object raters_of(const WodFrame& f) {
  json::array raters;
  for (const WodStates& p : f.preferences) {
    json::array points;
    for (size_t i = 0; i < std::min(p.x.size(), p.y.size()); ++i) points.push_back(json::array{p.x[i], p.y[i]});
    raters.push_back(json::object{{"score", p.preference_score}, {"points", std::move(points)}});
  }
  return raters.empty() ? json::object{} : json::object{{"raters", std::move(raters)}};
}

Status import_wod(const ImportOptions& o, Sink& sink) {
  SLIP_TRY(const std::vector<fs::path> files, files_of(o.source, ".tfrecord"));
  int64_t total = 0, before = 0;
  std::error_code ec;
  for (const fs::path& f : files) total += static_cast<int64_t>(fs::file_size(f, ec));
  for (const fs::path& f : files) {
    SLIP_TRY(const MappedFile map, MappedFile::open(f));
    TfRecordReader reader(map.bytes(), f.string());
    while (!sink.full()) {
      const std::string place = reader.place();
      SLIP_TRY_(sink.poll(before + static_cast<int64_t>(reader.offset()), total));
      SLIP_TRY(const std::optional<Bytes> data, reader.next());
      if (!data) break;
      SLIP_TRY(WodFrame frame, parse_wod_frame(*data, place));
      if (!o.with_pictures) frame.images.clear();
      SLIP_TRY(ImportedRecord record, record_of(frame, place));
      SLIP_TRY_(sink.add(std::move(record), raters_of(frame)));
    }
    before += static_cast<int64_t>(map.bytes().size());
  }
  return {};
}

Result<fs::path> tables_of(const ImportOptions& o) {
  if (!o.version.empty()) return o.source / o.version;
  if (fs::exists(o.source / "scene.json")) return o.source;
  std::vector<fs::path> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(o.source, ec))
    if (entry.path().filename().string().starts_with("v1.0-")) found.push_back(entry.path());
  if (found.size() != 1) return bad_input("{}: expected one folder v1.0-* (or --version), got {}", o.source.string(), found.size());
  return found[0];
}

Result<std::vector<uint8_t>> camera_files(const std::array<fs::path, sim::kCameras>& files) {
  std::array<std::optional<Image>, sim::kCameras> cameras;
  for (size_t c = 0; c < files.size(); ++c)
    if (!files[c].empty()) {
      SLIP_TRY(cameras[c], load_image(files[c]));
    }
  return record_pictures(cameras);
}

Status import_nuscenes(const ImportOptions& o, Sink& sink) {
  static constexpr std::array<const char*, 3> kChannels = {"CAM_FRONT_LEFT", "CAM_FRONT", "CAM_FRONT_RIGHT"};
  SLIP_TRY(const fs::path tables, tables_of(o));
  const fs::path root = !o.pictures.empty() ? o.pictures : tables == o.source ? o.source.parent_path() : o.source;
  SLIP_TRY(const std::vector<NuScenesScene> scenes, read_nuscenes(tables));
  int64_t done = 0;
  for (const NuScenesScene& scene : scenes) {
    SLIP_TRY(const TrackPieces track, TrackPieces::of(scene.track, fmt::format("{}: {}", tables.string(), scene.name)));
    sink.begin(track);
    for (size_t i = 0; i < scene.samples.size() && !sink.full(); ++i) {
      SLIP_TRY_(sink.poll(done, static_cast<int64_t>(scenes.size())));
      const NuScenesSample& s = scene.samples[i];
      SLIP_TRY_(sink.add_moment(track, scene.seconds[i], s.token, [&] {
        std::array<fs::path, sim::kCameras> files;
        for (size_t c = 0; c < files.size(); ++c)
          if (const auto f = s.files.find(kChannels[c]); f != s.files.end()) files[c] = root / f->second;
        return camera_files(files);
      }));
    }
    ++done;
  }
  return {};
}

Status import_comma(const ImportOptions& o, Sink& sink) {
  SLIP_TRY(const CommaSegment segment, read_comma(o.source));
  sink.begin(segment.track);
  double next = 0;
  for (size_t i = 0; i < segment.seconds.size() && !sink.full(); ++i) {
    if (segment.seconds[i] < next - 1e-6) continue;
    next = segment.seconds[i] + o.every_s;
    SLIP_TRY_(sink.poll(static_cast<int64_t>(i), static_cast<int64_t>(segment.seconds.size())));
    SLIP_TRY_(sink.add_moment(segment.track, segment.seconds[i], fmt::format("{}/{}", o.source.filename().string(), i),
                              [&]() -> Result<std::vector<uint8_t>> {
                                if (segment.pictures.empty()) return std::vector<uint8_t>{};
                                fs::path file = segment.pictures / fmt::format("{:06}.jpg", i);
                                if (!fs::exists(file)) file.replace_extension(".png");
                                return camera_files({fs::path{}, file, fs::path{}});
                              }));
  }
  return {};
}

Status import_mcap(const ImportOptions& o, Sink& sink) {
  SLIP_TRY(const MappedFile map, MappedFile::open(o.source));
  SLIP_TRY(const std::vector<McapDrive> drives, read_mcap_drives(map.bytes(), o.source.string()));
  for (size_t d = 0; d < drives.size(); ++d) {
    const McapDrive& drive = drives[d];
    SLIP_TRY(const TrackPieces track, TrackPieces::of(drive.poses, fmt::format("{}: {}", o.source.string(), drive.frame)));
    sink.begin(track);
    for (const double now : drive.moments(o.every_s)) {
      if (sink.full()) return {};
      SLIP_TRY_(sink.poll(static_cast<int64_t>(d), static_cast<int64_t>(drives.size())));
      SLIP_TRY_(sink.add_moment(track, now, fmt::format("{}@{:.3f}", drive.frame, now), [&] { return drive.pictures_at(now); }));
    }
  }
  return {};
}

Result<ImportCounts> write_conversations(const ImportOptions& o, const ImportProgress& progress, const CancelToken& cancel) {
  SLIP_TRY(ConversationSetWriter writer, ConversationSetWriter::create(o.out));
  const fs::path pictures = o.pictures.empty() ? o.source.parent_path() : o.pictures;
  std::error_code ec;
  const auto total = static_cast<int64_t>(fs::file_size(o.source, ec));
  ImportCounts counts;
  constexpr std::string_view kEnough = "import: limit";
  const Status read = each_conversation(o.source, [&](const Conversation& c, std::string_view where, int64_t done) -> Status {
    if (o.limit > 0 && counts.records >= o.limit) return Error{ErrorKind::kCancelled, std::string(kEnough)};
    SLIP_TRY_(cancel.check("import", counts.records, "records"));
    if (progress) progress("importing", done, total);
    SLIP_TRY_(writer.add(c, pictures, where));
    ++counts.records;
    for (const ConversationTurn& t : c.turns)
      for (const auto& item : t.content) counts.pictures += std::holds_alternative<ConversationImage>(item);
    return {};
  });
  if (!read && read.error().message != kEnough) return read.error();
  if (counts.records == 0) return bad_input("{}: expected conversations, got none", o.source.string());
  SLIP_TRY_(writer.finish());
  return counts;
}

/// What fails leaves no folder that was not there.
Result<ImportCounts> import_conversations(const ImportOptions& o, const ImportProgress& progress, const CancelToken& cancel) {
  std::error_code ec;
  const bool was_there = fs::exists(o.out, ec);
  Result<ImportCounts> counts = write_conversations(o, progress, cancel);
  if (!counts && !was_there) fs::remove(o.out, ec);  // of a folder: an empty one alone
  return counts;
}

Status check_options(const ImportOptions& o) {
  std::error_code ec;
  if (!fs::exists(o.source, ec)) return bad_input("{}: expected a file or folder to read, got nothing there", o.source.string());
  if (!(o.every_s > 0 && o.every_s <= 3600)) return usage_error("import: every: expected up to 3600 s, got {}", o.every_s);
  if (!(o.least_history_s >= 0 && o.least_history_s <= kHistoryS))
    return usage_error("import: history: expected 0 to {} s, got {}", kHistoryS, o.least_history_s);
  return {};
}

}  // namespace

Result<ImportCounts> import_records(const ImportOptions& o, const ImportProgress& progress, const CancelToken& cancel) {
  SLIP_TRY_(check_options(o));
  if (o.format == ImportFormat::kConversations) return import_conversations(o, progress, cancel);
  Sink sink(o, progress, cancel);
  SLIP_TRY_(sink.open());
  switch (o.format) {
    case ImportFormat::kWodE2e:
      SLIP_TRY_(import_wod(o, sink));
      break;
    case ImportFormat::kNuScenes:
      SLIP_TRY_(import_nuscenes(o, sink));
      break;
    case ImportFormat::kComma2k19:
      SLIP_TRY_(import_comma(o, sink));
      break;
    default:
      SLIP_TRY_(import_mcap(o, sink));
  }
  return sink.finish();
}

}  // namespace slip
