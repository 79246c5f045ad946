// SPDX-License-Identifier: Apache-2.0
// Messages of MCAP files that Foxglove shows without help (docs.foxglove.dev, "Schemas"), as JSON: pictures, poses, boxes.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "image/image.h"

namespace slip {

inline constexpr std::string_view kImageSchema =
    R"({"type":"object","properties":{"timestamp":{"type":"object","properties":{"sec":{"type":"integer"},"nsec":{"type":"integer"}}},)"
    R"("frame_id":{"type":"string"},"data":{"type":"string","contentEncoding":"base64"},"format":{"type":"string"}}})";
inline constexpr std::string_view kPoseSchema =
    R"({"type":"object","properties":{"timestamp":{"type":"object","properties":{"sec":{"type":"integer"},"nsec":{"type":"integer"}}},)"
    R"("frame_id":{"type":"string"},"pose":{"type":"object","properties":{"position":{"type":"object"},"orientation":{"type":"object"}}}}})";
inline constexpr std::string_view kPosesSchema =
    R"({"type":"object","properties":{"timestamp":{"type":"object","properties":{"sec":{"type":"integer"},"nsec":{"type":"integer"}}},)"
    R"("frame_id":{"type":"string"},"poses":{"type":"array","items":{"type":"object"}}}})";
inline constexpr std::string_view kSceneSchema =
    R"({"type":"object","properties":{"deletions":{"type":"array","items":{"type":"object"}},"entities":{"type":"array","items":{"type":"object"}}}})";

json::object stamp(uint64_t ns);
/// Metres; yaw in radians about the upright axis.
json::object pose_json(double x, double y, double yaw);
/// foxglove.CompressedImage of a PNG.
Result<std::string> image_message(const Image& image, uint64_t ns, std::string_view frame);

}  // namespace slip
