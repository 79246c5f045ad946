// SPDX-License-Identifier: Apache-2.0
// The truth of the form drive-cot: what a driver would say of a scene, field by field, in FastDriveCoT's order
// (docs/notes/driving.md#fastdrivecot). One phrase per state and coarse bands, so that a small model learns them and a draft can
// guess them; whatever a phrase says of the world is shown by the cameras, and what it says of the ego follows from the expert's
// plan. A function of (kSimVersion, seed, family, frame) like a record, but no part of it: record sets hold no such text.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/record.h"

namespace slip::sim {

inline constexpr size_t kCotLanes = 3, kCotObjects = 4;
inline constexpr std::string_view kCotNone = "N/A";  // what an unused lane or object says

struct CotObject {
  std::string position, type, justification;
};
/// Texts without quotes, line breaks or spaces at either end. `lanes` and `critical_objects` name their instances, separated by "; ".
struct CotLabels {
  std::string lighting, road_condition, weather, junction, road_type;
  std::string lanes;
  std::array<std::string, kCotLanes> lane;
  std::string critical_objects;
  std::array<CotObject, kCotObjects> object;
  std::string traffic_light, traffic_sign, additional_regulation;
  std::string traffic_regulation, non_interactive, interactive, ego_behavior;

  /// By the form's field name: "lighting", "lane_1", "object_4.justification"; nothing for another name.
  const std::string* find(std::string_view field) const;
};

/// Of the scene that make_record labels (make_frame at t_s). kBadInput as those.
Result<CotLabels> cot_labels(uint64_t seed, std::optional<uint32_t> family = {}, double t_s = 0);

struct Scene;
/// Of a scene in the ego's frame and its labels.
CotLabels describe_scene(const Scene& sc, const Labels& l);

}  // namespace slip::sim
