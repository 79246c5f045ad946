// SPDX-License-Identifier: Apache-2.0
// One picture that explains one answer: the cameras with the planned path on the ground, the filled form, statistics, and the
// plan from above in metres. Everything is optional: what is missing, not finite or too long is left out or cut with "...".
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "image/image.h"
#include "plot/paper.h"
#include "sim/scene.h"

namespace slip {

/// One line of a reasoning: `text` beside its label, `more` below it in a dimmer colour.
struct PictureLine {
  std::string label, text, more;
  int weight = 0;  // where there is no room the lines of the largest weight are left out first
};
struct PictureGroup {
  std::string heading, note;  // the note: what differs from the truth
  std::vector<PictureLine> lines;
};

/// Positions are metres in the ego frame: x forward, y to the left, origin at the rear axle.
struct PictureInput {
  std::string title;
  std::vector<Image> images;                // the first six are shown; three are front-left, front, front-right
  bool simulated_cameras = false;           // three 420 x 448 images of sim::front_cameras(): the path is drawn over them
  std::vector<sim::Vec2> waypoints;         // 1, 2, ... s
  std::vector<sim::Vec2> path, truth_path;  // 4 Hz, first at 0.25 s
  std::vector<sim::Vec2> history;           // oldest first
  std::vector<std::pair<std::string, bool>> objects;
  std::vector<std::optional<bool>> truth_objects;  // beside objects; may be shorter
  std::vector<PictureGroup> reasoning;             // with it the answer's column is wider
  std::string explanation, longitudinal, lateral;
  std::vector<std::pair<std::string, std::string>> fields;  // of a form that has other parts than the above
  std::vector<std::pair<std::string, std::string>> facts;   // decoder, forwards, milliseconds, ...
  std::optional<sim::Moment> moment;                        // roads and agents for the view from above, seen from moment->ego
};

/// The bytes of a file, 1600 x 900. The same input gives the same bytes (plot/paper.h) where the same fonts are installed. No input is
/// refused; kUnsupported without Cairo.
Result<std::string> draw_picture(const PictureInput& input, FigureFormat format);

}  // namespace slip
