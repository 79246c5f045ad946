// SPDX-License-Identifier: Apache-2.0
// See paper.h.
#include "plot/paper.h"

#ifdef SLIP_CAIRO
#include <cairo-svg.h>

#include <memory>
#include <new>

#include "base/file.h"

namespace slip {

namespace {

cairo_status_t keep(void* bytes, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  } catch (const std::bad_alloc&) {  // Cairo is C
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Result<std::string> drawn(FigureFormat format, int width, int height, const std::function<void(cairo_t*)>& draw) {
  const bool svg = format == FigureFormat::kSvg;
  std::string bytes;
  const std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface(
      svg ? cairo_svg_surface_create_for_stream(keep, &bytes, width, height)
          : cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height),
      &cairo_surface_destroy);
  const std::unique_ptr<cairo_t, decltype(&cairo_destroy)> c(cairo_create(surface.get()), &cairo_destroy);
  draw(c.get());
  cairo_status_t status = cairo_status(c.get());
  if (status == CAIRO_STATUS_SUCCESS && !svg) status = cairo_surface_write_to_png_stream(surface.get(), keep, &bytes);
  cairo_surface_finish(surface.get());
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface.get());
  if (status != CAIRO_STATUS_SUCCESS)
    return resource_error("figure of {} x {} pixels: expected it drawn, got {}", width, height, cairo_status_to_string(status));
  return bytes;
}

Status on_paper(const std::filesystem::path& file, int width, int height, const std::function<void(cairo_t*)>& draw) {
  const bool svg = file.extension() == ".svg";
  if (!svg && file.extension() != ".png")
    return usage_error("{}: expected a name that ends in .png or .svg, got another", file.string());
  SLIP_TRY(const std::string bytes, drawn(svg ? FigureFormat::kSvg : FigureFormat::kPng, width, height, draw));
  return write_file(file, bytes);
}

}  // namespace slip
#endif
