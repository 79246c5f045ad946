// SPDX-License-Identifier: Apache-2.0
// Texts about a simulated scene that its record decides: the record as a few lines, one of six requests, and the only right answer. What
// the small tri-mode model (models/tri) learns and is asked: free text whose answers can be compared exactly, without a judge.
//
//   speed 8.2 m/s                       Describe the scene.       two to four sentences
//   intent left                         What is next?             "It will slow down and turn left."
//   seen pedestrian, cyclist            Is a cyclist critical?    yes or no with the reason
//   critical pedestrian                 How many are seen?        a number and a list
//   plan slow down, turn left           As JSON.                  one line
//                                       As code.                  three to eight lines
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "sim/record.h"

namespace slip {

enum class SceneRequest : uint8_t { kDescribe, kPlan, kCritical, kCount, kJson, kCode };
inline constexpr uint32_t kSceneRequests = 6;

struct SceneText {
  SceneRequest request{};
  std::string prompt, answer;
};

/// `object`: the class that kCritical asks about, an index of sim::kObjectClasses; others do not read it.
SceneText scene_text(const sim::Labels& labels, SceneRequest request, uint32_t object);

/// Text number `index` over the scenes from `first_seed` on: scene, request and object follow from the two numbers. kBadInput where the
/// scene cannot be made.
Result<SceneText> scene_text_at(uint64_t first_seed, int64_t index);

}  // namespace slip
