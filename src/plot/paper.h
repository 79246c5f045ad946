// SPDX-License-Identifier: Apache-2.0
// What charts and maps are drawn on: a Cairo surface that becomes a PNG or an SVG by the file's name. For sources of this folder.
#pragma once
#ifdef SLIP_CAIRO
#include <cairo.h>

#include <filesystem>
#include <functional>

#include "base/result.h"

namespace slip {

/// kUsage for a name that ends in neither .png nor .svg; the file appears whole or not at all.
Status on_paper(const std::filesystem::path& file, int width, int height, const std::function<void(cairo_t*)>& draw);

}  // namespace slip
#endif
