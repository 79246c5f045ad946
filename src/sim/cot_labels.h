// SPDX-License-Identifier: Apache-2.0
// The truth of the form drive-cot as texts; who makes them is cot.h.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace slip::sim {

inline constexpr size_t kCotLanes = 3, kCotObjects = 4;
inline constexpr std::string_view kCotNone = "N/A";  // what an unused lane or object says

struct CotObject {
  std::string position, type, justification;
  bool operator==(const CotObject&) const = default;
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
  bool operator==(const CotLabels&) const = default;

  /// By the form's field name: "lighting", "lane_1", "object_4.justification"; nothing for another name.
  const std::string* find(std::string_view field) const;
};

}  // namespace slip::sim
