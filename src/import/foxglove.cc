// SPDX-License-Identifier: Apache-2.0
// See foxglove.h.
#include "import/foxglove.h"

#include <cmath>

#include "import/mcap_drive.h"

namespace slip {

json::object stamp(uint64_t ns) { return {{"sec", ns / 1'000'000'000}, {"nsec", ns % 1'000'000'000}}; }
json::object pose_json(double x, double y, double yaw) {
  return {{"position", {{"x", x}, {"y", y}, {"z", 0.0}}},
          {"orientation", {{"x", 0.0}, {"y", 0.0}, {"z", std::sin(yaw / 2)}, {"w", std::cos(yaw / 2)}}}};
}

Result<std::string> image_message(const Image& image, uint64_t ns, std::string_view frame) {
  SLIP_TRY(const std::vector<std::byte> png, encode_png(image));
  const std::string data = to_base64({reinterpret_cast<const char*>(png.data()), png.size()});
  return json::serialize(json::object{{"timestamp", stamp(ns)}, {"frame_id", frame}, {"data", data}, {"format", "png"}});
}

}  // namespace slip
