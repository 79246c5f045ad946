// SPDX-License-Identifier: Apache-2.0
// See paper.h.
#include "plot/paper.h"

#ifdef SLIP_CAIRO
#include <cairo-svg.h>

#include "base/file.h"

namespace slip {

namespace {

cairo_status_t keep(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Status on_paper(const std::filesystem::path& file, int width, int height, const std::function<void(cairo_t*)>& draw) {
  const bool svg = file.extension() == ".svg";
  if (!svg && file.extension() != ".png")
    return usage_error("{}: expected a name that ends in .png or .svg, got another", file.string());
  std::string bytes;
  cairo_surface_t* surface = svg ? cairo_svg_surface_create_for_stream(keep, &bytes, width, height)
                                 : cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  cairo_t* c = cairo_create(surface);
  draw(c);
  cairo_status_t status = cairo_status(c);
  cairo_destroy(c);
  if (status == CAIRO_STATUS_SUCCESS && !svg) status = cairo_surface_write_to_png_stream(surface, keep, &bytes);
  cairo_surface_finish(surface);
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    return resource_error("{}: expected a figure, got {}", file.string(), cairo_status_to_string(status));
  return write_file(file, bytes);
}

}  // namespace slip
#endif
