// SPDX-License-Identifier: Apache-2.0
// What charts, maps and the pictures of answers are drawn on: a Cairo surface that becomes a PNG or an SVG.
#pragma once
#include "base/result.h"

namespace slip {

enum class FigureFormat { kPng, kSvg };

}  // namespace slip

#ifdef SLIP_CAIRO
#include <cairo.h>

#include <filesystem>
#include <functional>
#include <string>

namespace slip {

/// The file's bytes. The same drawing gives the same bytes, but for the names of surfaces in an SVG, which count on within a process. Errors
/// are kResource.
Result<std::string> drawn(FigureFormat format, int width, int height, const std::function<void(cairo_t*)>& draw);

/// kUsage for a name that ends in neither .png nor .svg; the file appears whole or not at all.
Status on_paper(const std::filesystem::path& file, int width, int height, const std::function<void(cairo_t*)>& draw);

}  // namespace slip
#endif
