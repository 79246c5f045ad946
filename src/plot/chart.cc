// SPDX-License-Identifier: Apache-2.0
// See chart.h.
#include "plot/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plot/paper.h"

namespace slip {

std::vector<double> ticks(double low, double high, int count) {
  std::vector<double> out;
  if (!(high > low) || count < 1) return out;
  const double rough = (high - low) / count, magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double f : {1.0, 2.0, 5.0})
    if (f * magnitude >= rough * (1 - 1e-9)) {
      step = f * magnitude;
      break;
    }
  for (auto k = static_cast<int64_t>(std::ceil(low / step - 1e-9)); static_cast<double>(k) * step <= high + 1e-9 * step; ++k)
    out.push_back(static_cast<double>(k) * step);
  return out;
}

#ifdef SLIP_CAIRO

namespace {

struct Colour {
  double r, g, b;
};
// Told apart by colour-blind readers as well [Okabe and Ito 2008].
constexpr std::array<Colour, 7> kColours = {{{0, 0.447, 0.698},
                                             {0.835, 0.369, 0},
                                             {0, 0.62, 0.451},
                                             {0.8, 0.475, 0.655},
                                             {0.902, 0.624, 0},
                                             {0.337, 0.706, 0.914},
                                             {0.2, 0.2, 0.2}}};

class Drawing {
 public:
  Drawing(const Chart& chart, cairo_t* c) : chart_(chart), c_(c) {
    for (const ChartSeries& s : chart_.series)
      for (const ChartPoint& p : s.points) x_low_ = std::min(x_low_, p.x), x_high_ = std::max(x_high_, p.x);
    if (x_high_ <= x_low_) x_high_ = x_low_ + 1;
    right_ = chart_.width - 200.0;
    bottom_ = chart_.height - 60.0;
  }
  void draw() {
    cairo_set_source_rgb(c_, 1, 1, 1);
    cairo_paint(c_);
    cairo_select_font_face(c_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    axes();
    for (size_t i = 0; i < chart_.series.size(); ++i) series(i);
  }

 private:
  double x(double v) const { return kLeft + (v - x_low_) / (x_high_ - x_low_) * (right_ - kLeft); }
  double y(double v) const { return bottom_ - (v - chart_.y_low) / (chart_.y_high - chart_.y_low) * (bottom_ - kTop); }
  void ink(size_t i) {
    const Colour& k = kColours[i % kColours.size()];
    cairo_set_source_rgb(c_, k.r, k.g, k.b);
  }
  void line(double x0, double y0, double x1, double y1, double width) {
    cairo_set_line_width(c_, width);
    cairo_move_to(c_, x0, y0);
    cairo_line_to(c_, x1, y1);
    cairo_stroke(c_);
  }
  /// `across` and `down`: which part of the text stands at the point, 0 its beginning, 1 its end.
  void text(const std::string& words, double px, double py, double size, double across, bool turned = false) {
    cairo_set_font_size(c_, size);
    cairo_text_extents_t e;
    cairo_text_extents(c_, words.c_str(), &e);
    cairo_save(c_);
    cairo_translate(c_, px, py);
    if (turned) cairo_rotate(c_, -1.5707963267948966);
    cairo_move_to(c_, -across * e.width - e.x_bearing, 0.36 * size);
    cairo_show_text(c_, words.c_str());
    cairo_restore(c_);
  }
  void axes() {
    for (const double v : ticks(chart_.y_low, chart_.y_high, 6)) {
      cairo_set_source_rgb(c_, 0.88, 0.88, 0.88);
      line(kLeft, y(v), right_, y(v), 1);
      cairo_set_source_rgb(c_, 0.2, 0.2, 0.2);
      text(fmt::format("{:.4g}", v), kLeft - 8, y(v), 13, 1);
    }
    cairo_set_source_rgb(c_, 0.2, 0.2, 0.2);
    for (const double v : ticks(x_low_, x_high_, 8)) {
      line(x(v), bottom_, x(v), bottom_ + 4, 1);
      text(fmt::format("{:.4g}", v), x(v), bottom_ + 16, 13, 0.5);
    }
    line(kLeft, bottom_, right_, bottom_, 1);
    text(chart_.title, kLeft, 20, 15, 0);
    text(chart_.x_label, 0.5 * (kLeft + right_), bottom_ + 42, 14, 0.5);
    text(chart_.y_label, 18, 0.5 * (kTop + bottom_), 14, 0.5, true);
  }
  void series(size_t i) {
    const ChartSeries& s = chart_.series[i];
    ink(i);
    for (const ChartPoint& p : s.points)
      if (p.low && p.high) line(x(p.x), y(*p.low), x(p.x), y(*p.high), 1.2);
    cairo_set_line_width(c_, 2);
    for (size_t k = 0; s.line && k < s.points.size(); ++k) {
      const ChartPoint& p = s.points[k];
      k == 0 ? cairo_move_to(c_, x(p.x), y(p.y)) : cairo_line_to(c_, x(p.x), y(p.y));
    }
    cairo_stroke(c_);
    for (const ChartPoint& p : s.points) {
      cairo_arc(c_, x(p.x), y(p.y), s.line ? 3.5 : 5, 0, 6.283185307179586);
      cairo_fill(c_);
    }
    const double row = kTop + 10 + 20.0 * static_cast<double>(i);
    cairo_arc(c_, right_ + 20, row, 4, 0, 6.283185307179586);
    cairo_fill(c_);
    cairo_set_source_rgb(c_, 0.2, 0.2, 0.2);
    text(s.name, right_ + 32, row, 13, 0);
  }

  static constexpr double kLeft = 70, kTop = 44;
  const Chart& chart_;
  cairo_t* c_;
  double x_low_ = 1e300, x_high_ = -1e300, right_ = 0, bottom_ = 0;
};

}  // namespace

Status draw_chart(const Chart& chart, const std::filesystem::path& file) {
  size_t points = 0;
  for (const ChartSeries& s : chart.series) points += s.points.size();
  if (points == 0) return bad_input("{}: expected something to draw, got no points", file.string());
  return on_paper(file, chart.width, chart.height, [&](cairo_t* c) { Drawing(chart, c).draw(); });
}

#else

Status draw_chart(const Chart&, const std::filesystem::path& file) {
  return unsupported("{}: expected a build with Cairo (libcairo2-dev), got one without", file.string());
}

#endif

}  // namespace slip
