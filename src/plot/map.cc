// SPDX-License-Identifier: Apache-2.0
// See map.h.
#include "plot/map.h"

#include <algorithm>
#include <cmath>

#include "plot/chart.h"
#include "plot/paper.h"

namespace slip {

#ifdef SLIP_CAIRO

namespace {

constexpr double kTop = 34, kBottom = 30, kSide = 12;
constexpr double kMostHeight = 1600;

class Sheet {
 public:
  Sheet(const MapView& view, double scale, double height, cairo_t* c) : view_(view), scale_(scale), height_(height), c_(c) {}

  void draw() {
    cairo_set_source_rgb(c_, 1, 1, 1);
    cairo_paint(c_);
    cairo_save(c_);
    cairo_rectangle(c_, kSide, kTop, view_.width - 2 * kSide, height_ - kTop - kBottom);
    cairo_clip(c_);
    cairo_set_source_rgb(c_, 0.93, 0.94, 0.92);
    cairo_paint(c_);
    for (const MapShape& s : view_.shapes) shape(s);
    cairo_restore(c_);
    cairo_select_font_face(c_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    words(view_.title, kSide, 22, 15);
    scale_bar();
  }

 private:
  double x(double v) const { return kSide + (v - view_.x_low) * scale_; }
  double y(double v) const { return height_ - kBottom - (v - view_.y_low) * scale_; }
  void ink(const MapColour& k, double opacity) { cairo_set_source_rgba(c_, k[0], k[1], k[2], opacity); }
  double words(const std::string& text, double px, double py, double size) {
    cairo_set_source_rgb(c_, 0.15, 0.15, 0.15);
    cairo_set_font_size(c_, size);
    cairo_move_to(c_, px, py);
    cairo_show_text(c_, text.c_str());
    cairo_text_extents_t e;
    cairo_text_extents(c_, text.c_str(), &e);
    return px + e.x_advance;
  }
  void shape(const MapShape& s) {
    if (s.points.empty()) return;
    for (size_t i = 0; i < s.points.size(); ++i) {
      const auto& [px, py] = s.points[i];
      i == 0 ? cairo_move_to(c_, x(px), y(py)) : cairo_line_to(c_, x(px), y(py));
    }
    if (s.closed) cairo_close_path(c_);
    if (s.fill) {
      ink(*s.fill, s.opacity);
      s.stroke ? cairo_fill_preserve(c_) : cairo_fill(c_);
    }
    if (!s.stroke) return;
    constexpr double kDash = 6;
    cairo_set_dash(c_, &kDash, s.dashed ? 1 : 0, 0);
    cairo_set_line_width(c_, s.stroke_px);
    cairo_set_line_join(c_, CAIRO_LINE_JOIN_ROUND);
    ink(*s.stroke, s.opacity);
    cairo_stroke(c_);
  }
  void scale_bar() {
    const double base = height_ - 10, span = view_.x_high - view_.x_low;
    const auto marks = ticks(0, 0.25 * span, 1);
    const double metres = marks.size() > 1 ? marks[1] : 1;
    cairo_set_source_rgb(c_, 0.15, 0.15, 0.15);
    cairo_set_dash(c_, nullptr, 0, 0);
    cairo_set_line_width(c_, 2);
    cairo_move_to(c_, kSide, base - 4);
    cairo_line_to(c_, kSide + metres * scale_, base - 4);
    cairo_stroke(c_);
    double at = words(fmt::format("{:g} m", metres), kSide + metres * scale_ + 8, base, 13) + 24;
    for (const MapKey& k : view_.legend) {
      ink(k.colour, 1);
      cairo_rectangle(c_, at, base - 10, 12, 12);
      cairo_fill(c_);
      at = words(k.words, at + 18, base, 13) + 20;
    }
  }

  const MapView& view_;
  double scale_, height_;
  cairo_t* c_;
};

}  // namespace

Status draw_map(const MapView& view, const std::filesystem::path& file) {
  const double across = view.x_high - view.x_low, up = view.y_high - view.y_low;
  if (!(across > 0 && up > 0)) return bad_input("{}: expected a window of some metres, got {} by {}", file.string(), across, up);
  const double scale = std::min((view.width - 2 * kSide) / across, (kMostHeight - kTop - kBottom) / up);
  const double height = std::ceil(up * scale + kTop + kBottom);
  return on_paper(file, view.width, static_cast<int>(height), [&](cairo_t* c) { Sheet(view, scale, height, c).draw(); });
}

#else

Status draw_map(const MapView&, const std::filesystem::path& file) {
  return unsupported("{}: expected a build with Cairo (libcairo2-dev), got one without", file.string());
}

#endif

}  // namespace slip
