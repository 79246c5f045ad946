// SPDX-License-Identifier: Apache-2.0
// Images of a request: data URLs, and files below a folder that the operator names. Nothing is ever fetched from a network.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "slipstream/request.h"

namespace slip::server {

/// RFC 4648, with or without padding; white space is none of it. kBadInput for another character or a length that cannot be.
Result<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

/// RFC 3986: "a%20b" is "a b". kBadInput for a % without two hexadecimal digits behind it and for a zero byte.
Result<std::string> from_percent(std::string_view text);

struct ImageLimits {
  int64_t most_pixels = int64_t{64} << 20;
  std::string media_path;  // file:// below it; empty: none
};
/// Width and height as the file's head says, without decoding: JPEG, PNG, WebP, PPM. kBadInput for another kind.
Result<std::pair<int64_t, int64_t>> size_in_header(std::string_view bytes);
/// The bytes of an image's URL. kBadInput for http(s) and anything else than data: and file:.
Result<std::string> bytes_of_url(std::string_view url, const ImageLimits& limits);
/// What the pictures of a request hold, decoded and copied once, as their heads say; of damaged ones nothing.
int64_t decoded_bytes(std::span<const std::string> images);
/// Header first, pixels then.
Result<slipstream::Image> image_of_bytes(std::string_view bytes, std::string_view name, const ImageLimits& limits);

}  // namespace slip::server
