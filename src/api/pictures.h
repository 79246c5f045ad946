// SPDX-License-Identifier: Apache-2.0
// Pictures of requests: the caller's pixels as the engine's images, and back.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "image/image.h"
#include "slipstream/request.h"

namespace slip::api {

/// A copy in RGB. `name` opens messages. kBadInput: no pixels, channels or rows that cannot be, a size that no tower takes.
Result<Image> rgb_of(const slipstream::Image& in, std::string_view name);
/// The image as a caller holds it: its pixels live as long as any copy.
slipstream::Image shared(Image image);
/// Is this a camera's picture? kBadInput names the file.
Status check_size(std::string_view name, int64_t width, int64_t height);

}  // namespace slip::api
