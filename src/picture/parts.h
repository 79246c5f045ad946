// SPDX-License-Identifier: Apache-2.0
// What the parts of the picture share: colours, boxes, which positions can be drawn; and the three parts themselves. They draw
// only inside the box they are given.
#pragma once
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "picture/pen.h"
#include "picture/picture.h"
#include "sim/scene.h"

namespace slip::picture {

inline constexpr int kPad = 16;  // between the border of a panel and what stands in it
inline constexpr Colour kPanel{27, 31, 37}, kRaised{38, 43, 51}, kRule{55, 62, 72};
inline constexpr Colour kBright{236, 240, 244}, kNormal{196, 203, 211}, kDim{128, 138, 149}, kDark{12, 14, 17};
inline constexpr Colour kPlan{62, 214, 255}, kTruth{255, 184, 64}, kPast{150, 158, 170}, kWrong{255, 92, 92};
inline constexpr double kFarthest = 1e4;  // metres; a position beyond is taken for a broken number

inline constexpr int kHeading = 25, kBetween = 15;  // a heading with its rule; the space after a part

/// A heading over a rule, `note` flush right.
void draw_heading(Pen& pen, int x, int y, int width, std::string_view name, std::string_view note, Colour note_colour);

/// False for NaN and infinity too.
inline bool usable(sim::Vec2 p) { return std::abs(p.x) <= kFarthest && std::abs(p.y) <= kFarthest; }

/// Metres in the ego frame to a pixel, which may lie outside; nothing where none belongs to it.
using Place = std::function<std::optional<Point>(sim::Vec2)>;

/// A numbered dot per waypoint, nearer over farther. A label stands at the right or the left of its dot, or nowhere when both
/// places are taken; the last waypoint chooses first, then the others in order.
void draw_waypoints(Pen& pen, std::span<const sim::Vec2> waypoints, double radius_near, double radius_at_40_m, const Place& place);

/// The cameras, with the planned path where the camera is known. Returns the height that they took, 0 without any.
int draw_cameras(Pen& pen, const PictureInput& in, Box area);

/// The plan from above, with axes in metres and a legend of what is seen.
void draw_plan(Pen& pen, const PictureInput& in, Box area);

/// Groups of lines under headings, at most as high as the area. Returns the height that they took.
int draw_reasoning(Pen& pen, const std::vector<PictureGroup>& groups, Box area);

/// The answer in words and numbers, on a panel that is drawn already.
void draw_column(Pen& pen, const PictureInput& in, Box area);

}  // namespace slip::picture
