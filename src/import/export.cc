// SPDX-License-Identifier: Apache-2.0
// Records as files of other tools: MCAP for Foxglove, the WOD-E2E challenge's submission. Contracts in import.h.
#include <cmath>

#include "base/file.h"
#include "image/image.h"
#include "import/foxglove.h"
#include "import/import.h"
#include "import/mcap_drive.h"
#include "import/wod_e2e.h"
#include "sim/record/shards.h"

namespace slip {
namespace {

constexpr uint64_t kRecordNs = 11'000'000'000;  // 3.75 s of history, 6.4 s of future, and a pause

constexpr std::string_view kLabelsSchema = R"({"type":"object"})";

struct Channels {
  std::array<uint16_t, sim::kCameras> cameras{};
  uint16_t pose = 0, future = 0, labels = 0;
};

Channels add_channels(McapWriter& w) {
  Channels c;
  const auto channel = [&](const char* topic, const char* schema, std::string_view text) {
    return w.add_channel({.topic = topic, .encoding = "json", .schema = schema, .schema_encoding = "jsonschema", .metadata = {}},
                         text);
  };
  c.cameras = {channel("/camera/front_left", "foxglove.CompressedImage", kImageSchema),
               channel("/camera/front", "foxglove.CompressedImage", kImageSchema),
               channel("/camera/front_right", "foxglove.CompressedImage", kImageSchema)};
  c.pose = channel("/ego/pose", "foxglove.PoseInFrame", kPoseSchema);
  c.future = channel("/ego/future", "foxglove.PosesInFrame", kPosesSchema);
  c.labels = channel("/labels", "slipstream.Labels", kLabelsSchema);
  return c;
}

void add_pose(McapWriter& w, const Channels& c, uint64_t ns, const std::string& frame, double x, double y, double yaw) {
  w.add(c.pose, ns, json::serialize(json::object{{"timestamp", stamp(ns)}, {"frame_id", frame}, {"pose", pose_json(x, y, yaw)}}));
}

void add_states(McapWriter& w, const Channels& c, const sim::Labels& l, uint64_t now, const std::string& frame) {
  const auto at = [&](double t_s) { return static_cast<uint64_t>(static_cast<int64_t>(now) + std::llround(t_s * 1e9)); };
  double yaw = 0;
  for (const sim::EgoState& e : l.history) {
    if (std::hypot(e.vx, e.vy) > 0.5F) yaw = std::atan2(e.vy, e.vx);
    const bool last = &e == &l.history.back();
    add_pose(w, c, at(static_cast<double>(e.t_s)), frame, static_cast<double>(e.x), static_cast<double>(e.y), last ? 0 : yaw);
  }
  if ((l.unknown & sim::kUnknownFuture) != 0) return;
  json::array poses;
  for (size_t i = 0; i < l.future.size(); ++i) {
    const sim::FutureState& f = l.future[i];
    add_pose(w, c, at(0.1 * static_cast<double>(i + 1)), frame, static_cast<double>(f.x), static_cast<double>(f.y),
             static_cast<double>(f.yaw));
    poses.push_back(pose_json(static_cast<double>(f.x), static_cast<double>(f.y), static_cast<double>(f.yaw)));
  }
  w.add(c.future, now, json::serialize(json::object{{"timestamp", stamp(now)}, {"frame_id", frame}, {"poses", std::move(poses)}}));
}

Status add_pictures(McapWriter& w, const Channels& c, std::span<const uint8_t> pictures, uint64_t now) {
  for (size_t k = 0; k < c.cameras.size() && !pictures.empty(); ++k) {
    const auto part = pictures.subspan(k * sim::kImageBytes, sim::kImageBytes);
    static constexpr std::array<std::string_view, sim::kCameras> kFrames = {"camera_front_left", "camera_front",
                                                                            "camera_front_right"};
    SLIP_TRY(const std::string message,
             image_message({sim::kImageWidth, sim::kImageHeight, {part.begin(), part.end()}}, now, kFrames[k]));
    w.add(c.cameras[k], now, message);
  }
  return {};
}

json::object labels_json(const sim::Labels& l) {
  json::object out{{"seed", l.seed}};
  if ((l.unknown & sim::kUnknownObjects) == 0) {
    json::array critical;
    for (size_t i = 0; i < l.critical.size(); ++i)
      if (l.critical[i]) critical.emplace_back(sim::kObjectClasses[i]);
    out["critical_objects"] = std::move(critical);
  }
  if ((l.unknown & sim::kUnknownExplanation) == 0) out["explanation"] = l.explanation;
  if ((l.unknown & sim::kUnknownBehaviour) == 0)
    out["behaviour"] = {{"longitudinal", words(l.longitudinal)}, {"lateral", words(l.lateral)}};
  return out;
}

}  // namespace

Result<int64_t> export_mcap(const std::filesystem::path& records, const std::filesystem::path& out, const ImportProgress& progress,
                            const CancelToken& cancel) {
  SLIP_TRY(const sim::RecordSet set, sim::RecordSet::open(records));
  SLIP_TRY(AtomicFile file, AtomicFile::create(out));
  McapWriter w("slipstream");
  const Channels channels = add_channels(w);
  const auto write = [&](const std::string& bytes) { return bytes.empty() ? Status() : file.write(bytes.data(), bytes.size()); };
  for (int64_t i = 0; i < set.size(); ++i) {
    SLIP_TRY_(cancel.check("export", i, "records"));
    SLIP_TRY(const sim::Labels labels, set.labels(i));
    const uint64_t now = 1'000'000'000 * uint64_t{1'000'000'000} + static_cast<uint64_t>(i) * kRecordNs;
    add_states(w, channels, labels, now, fmt::format("record-{}", i));
    SLIP_TRY_(add_pictures(w, channels, set.images(i), now));
    w.add(channels.labels, now, json::serialize(labels_json(labels)));
    SLIP_TRY_(write(w.take()));
    if (progress) progress("exporting", i + 1, set.size());
  }
  SLIP_TRY_(write(w.finish()));
  SLIP_TRY_(file.commit());
  return set.size();
}

namespace {

constexpr size_t kPoints = 20;

Result<std::vector<std::string>> frame_names(const std::filesystem::path& records) {
  const std::filesystem::path file = records / "frames.jsonl";
  SLIP_TRY(const std::string text, read_file(file));
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = fmt::format("{}: line {}", file.string(), out.size() + 1);
    SLIP_TRY(const json::value v, parse_json(std::string_view(text).substr(at, end - at), where));
    if (!v.is_object()) return bad_input("{}: expected an object, got another value", where);
    SLIP_TRY(std::string name, get_string(v.get_object(), "name", where));
    out.push_back(std::move(name));
    at = end + 1;
  }
  return out;
}

Result<WodPrediction> prediction_of(const json::object& answer, std::string frame, const std::string& where) {
  WodPrediction out{std::move(frame), {}, {}};
  SLIP_TRY(const json::object* plan, get_object(answer, "plan", where));
  SLIP_TRY(const double rate, get_number(*plan, "rate_hz", where));
  SLIP_TRY(const json::array* points, get_array(*plan, "points", where));
  if (rate != 4 || points->size() != kPoints)
    return bad_input("{}: plan: expected {} points at 4 Hz, got {} at {}", where, kPoints, points->size(), rate);
  for (const json::value& p : *points) {
    if (!p.is_array() || p.get_array().size() != 2 || !p.get_array()[0].is_number() || !p.get_array()[1].is_number())
      return bad_input("{}: plan: expected points of two numbers, got {}", where, json::serialize(p).substr(0, 60));
    out.x.push_back(static_cast<float>(p.get_array()[0].to_number<double>()));
    out.y.push_back(static_cast<float>(p.get_array()[1].to_number<double>()));
  }
  return out;
}

}  // namespace

Result<int64_t> export_wod_submission(const SubmissionOptions& o) {
  SLIP_TRY(const std::vector<std::string> names, frame_names(o.records));
  SLIP_TRY(const std::string text, read_file(o.answers));
  WodSubmission s{.predictions = {},
                  .account_name = o.account_name,
                  .method_name = o.method_name,
                  .parameters = o.parameters,
                  .authors = o.authors,
                  .pretraining = o.pretraining};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = fmt::format("{}: line {}", o.answers.string(), s.predictions.size() + 1);
    if (s.predictions.size() == names.size()) return bad_input("{}: expected {} answers, got more", where, names.size());
    SLIP_TRY(const json::value v, parse_json(std::string_view(text).substr(at, end - at), where));
    if (!v.is_object()) return bad_input("{}: expected an object, got another value", where);
    SLIP_TRY(WodPrediction p, prediction_of(v.get_object(), names[s.predictions.size()], where));
    s.predictions.push_back(std::move(p));
    at = end + 1;
  }
  if (s.predictions.size() != names.size())
    return bad_input("{}: expected an answer for each of {} records, got {}", o.answers.string(), names.size(),
                     s.predictions.size());
  SLIP_TRY_(write_file(o.out, wod_submission(s)));
  return static_cast<int64_t>(s.predictions.size());
}

}  // namespace slip
