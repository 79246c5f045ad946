// SPDX-License-Identifier: Apache-2.0
// See wod_e2e.h.
#include "import/wod_e2e.h"

#include <cmath>

#include "import/wire.h"

namespace slip {
namespace {

std::string text_of(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// Calls `take` with every field of a message.
template <class F>
Status each_field(Bytes message, std::string_view name, F take) {
  WireReader reader(message, name);
  for (;;) {
    SLIP_TRY(const std::optional<WireField> f, reader.next());
    if (!f) return {};
    SLIP_TRY_(take(*f));
  }
}

template <class F>
Status within(const WireField& field, std::string_view name, F take) {
  SLIP_TRY(const Bytes message, bytes_of(field, name));
  return each_field(message, name, take);
}

Status read_number(const WireField& f, int64_t& out, std::string_view name) {
  SLIP_TRY(out, varint_of(f, name));
  return {};
}

Status read_states(const WireField& field, WodStates& s, std::string_view name) {
  return within(field, name, [&](const WireField& f) -> Status {
    std::vector<float>* const rows[] = {&s.x, &s.y, &s.z, &s.vx, &s.vy, &s.ax, &s.ay};
    if (f.number >= 1 && f.number <= 7) return append_floats(f, *rows[f.number - 1], name);
    if (f.number == 8) {
      std::vector<float> score;
      SLIP_TRY_(append_floats(f, score, name));
      if (!score.empty()) s.preference_score = score.back();
    }
    return {};
  });
}

Status read_calibration(const WireField& field, WodCalibration& c, std::string_view name) {
  return within(field, name, [&](const WireField& f) -> Status {
    if (f.number == 1) return read_number(f, c.camera, name);
    if (f.number == 2) return append_doubles(f, c.intrinsic, name);
    if (f.number == 4) return read_number(f, c.width, name);
    if (f.number == 5) return read_number(f, c.height, name);
    if (f.number == 3)
      return within(f, name, [&](const WireField& g) { return g.number == 1 ? append_doubles(g, c.extrinsic, name) : Status(); });
    return {};
  });
}

Status read_frame(const WireField& field, WodFrame& out, std::string_view name) {
  return within(field, name, [&](const WireField& f) -> Status {
    if (f.number == 1)
      return within(f, name, [&](const WireField& g) -> Status {
        if (g.number == 1) {
          SLIP_TRY(const Bytes b, bytes_of(g, name));
          out.name = text_of(b);
        }
        if (g.number == 2) return read_calibration(g, out.calibrations.emplace_back(), name);
        return {};
      });
    if (f.number == 2) return read_number(f, out.timestamp_us, name);
    if (f.number != 4) return {};
    WodImage& image = out.images.emplace_back();
    return within(f, name, [&](const WireField& g) -> Status {
      if (g.number == 1) return read_number(g, image.camera, name);
      if (g.number != 2) return {};
      SLIP_TRY(image.jpeg, bytes_of(g, name));
      return {};
    });
  });
}

}  // namespace

Result<WodFrame> parse_wod_frame(Bytes record, std::string_view name) {
  WodFrame out;
  SLIP_TRY_(each_field(record, name, [&](const WireField& f) -> Status {
    if (f.number == 1) return read_frame(f, out, name);
    if (f.number == 5) return read_states(f, out.future, name);
    if (f.number == 6) return read_states(f, out.past, name);
    if (f.number == 7) return read_number(f, out.intent, name);
    if (f.number == 8) return read_states(f, out.preferences.emplace_back(), name);
    return {};
  }));
  return out;
}

namespace {

constexpr size_t kPast = 16, kFuture = 20;

Status check_finite(std::span<const float> values, std::string_view what, std::string_view name) {
  constexpr float kMost = 1e6F;  // metres from the car
  for (const float v : values)
    if (!(std::abs(v) < kMost)) return bad_input("{}: {}: expected numbers below {}, got {}", name, what, kMost, v);
  return {};
}

Status read_past(const WodStates& s, sim::Labels& l, std::string_view name) {
  for (const auto* row : {&s.x, &s.y, &s.vx, &s.vy, &s.ax, &s.ay}) {
    if (row->size() != kPast) return bad_input("{}: past states: expected {} of each number, got {}", name, kPast, row->size());
    SLIP_TRY_(check_finite(*row, "past states", name));
  }
  for (size_t i = 0; i < kPast; ++i)
    l.history[i] = {0.25F * (static_cast<float>(i) - 15), s.x[i], s.y[i], s.vx[i], s.vy[i], s.ax[i], s.ay[i]};
  l.v0_mps = std::hypot(s.vx.back(), s.vy.back());
  return {};
}

// 20 points at 4 Hz; from "now", at the origin. Fewer than 20 are unknown, as in the test set.
Status read_future(const WodStates& s, sim::Labels& l, std::string_view name) {
  if (s.x.size() != s.y.size())
    return bad_input("{}: future states: expected as many y as x, got {} and {}", name, s.y.size(), s.x.size());
  SLIP_TRY_(check_finite(s.x, "future states", name));
  SLIP_TRY_(check_finite(s.y, "future states", name));
  std::vector<TimedPose> poses{{-0.25, {l.history[14].x, l.history[14].y, 0}}, {0, {0, 0, 0}}};
  for (size_t i = 0; i < s.x.size() && i < kFuture; ++i) poses.push_back({0.25 * static_cast<double>(i + 1), {s.x[i], s.y[i], 0}});
  double heading = 0;
  for (size_t i = 2; i < poses.size(); ++i) {  // a car that stands keeps its heading
    const Pose &a = poses[i - 1].pose, &b = poses[i].pose;
    if (std::hypot(b.x - a.x, b.y - a.y) > 0.05) heading = std::atan2(b.y - a.y, b.x - a.x);
    poses[i].pose.yaw_rad = heading;
  }
  SLIP_TRY(const Track track, Track::of(std::move(poses), name));
  const sim::Labels made = labels_at(track, 0, l.intent);
  l.future = made.future;
  l.unknown = made.unknown;
  l.longitudinal = made.longitudinal;
  l.lateral = made.lateral;
  if ((l.unknown & sim::kUnknownBehaviour) == 0) label_behaviour(l);  // with the speed that the frame itself gives
  return {};
}

}  // namespace

Result<ImportedRecord> record_of(const WodFrame& f, std::string_view name) {
  ImportedRecord out{f.name, {}};
  sim::Labels& l = out.record.labels;
  if (f.intent < 0 || f.intent > 3) return bad_input("{}: intent: expected 0 to 3, got {}", name, f.intent);
  l.intent = f.intent == 2 ? sim::Intent::kGoLeft : f.intent == 3 ? sim::Intent::kGoRight : sim::Intent::kGoStraight;
  SLIP_TRY_(read_past(f.past, l, name));
  SLIP_TRY_(read_future(f.future, l, name));
  std::array<std::optional<Image>, sim::kCameras> cameras;
  for (const WodImage& image : f.images) {
    if (image.camera < 1 || image.camera > 3) continue;
    const size_t at = image.camera == 1 ? 1 : image.camera == 2 ? 0 : 2;
    SLIP_TRY(cameras[at], decode_image(image.jpeg, fmt::format("{}: camera {}", name, image.camera)));
  }
  out.record.images = record_pictures(cameras);
  return out;
}

std::string wod_submission(const WodSubmission& s) {
  WireWriter w;
  for (const WodPrediction& p : s.predictions) {
    WireWriter trajectory, prediction;
    trajectory.floats(1, p.x);
    trajectory.floats(2, p.y);
    prediction.bytes(1, p.frame);
    prediction.bytes(2, trajectory.text());
    w.bytes(1, prediction.text());
  }
  w.varint(2, 1);
  w.bytes(3, s.account_name);
  w.bytes(4, s.method_name);
  for (const std::string& a : s.authors) w.bytes(5, a);
  w.varint(11, s.pretraining.empty() ? 0 : 1);
  w.bytes(12, s.parameters);
  for (const std::string& m : s.pretraining) w.bytes(13, m);
  return w.text();
}

}  // namespace slip
