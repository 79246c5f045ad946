// SPDX-License-Identifier: Apache-2.0
// Layout: a title; cameras above the plan from above at the left; the answer in a column at the right. The column measures its
// fixed parts first and gives the explanation the lines that remain, so that nothing overlaps. Cameras and plan are drawn into
// pictures of their own and copied, which clips them. A path on the ground is a strip of quadrilaterals whose coverage is
// summed before it is blended once: shared edges neither show nor count twice.
#include "cli/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>

#include "image/canvas.h"
#include "sim/render.h"
#include "sim/world.h"

namespace slip {
namespace {

using sim::Vec2;

constexpr int kWidth = 1600, kHeight = 900, kMargin = 20, kGap = 12, kHeader = 34, kColumn = 450, kPad = 16;
constexpr Colour kBackground{17, 20, 24}, kPanel{27, 31, 37}, kRaised{38, 43, 51}, kRule{55, 62, 72};
constexpr Colour kBright{236, 240, 244}, kNormal{196, 203, 211}, kDim{128, 138, 149}, kDark{12, 14, 17};
constexpr Colour kPlan{62, 214, 255}, kTruth{255, 184, 64}, kPast{150, 158, 170}, kYes{20, 108, 140}, kWrong{255, 92, 92};
constexpr double kFarthest = 1e4;  // metres; a position beyond is taken for a broken number

struct Box {
  int x = 0, y = 0, w = 0, h = 0;
};

bool usable(Vec2 p) { return std::abs(p.x) <= kFarthest && std::abs(p.y) <= kFarthest; }

// ---------------------------------------------------------------------------------------------------------------- text

/// Sizes of the 6 x 10 font in half pixels: 2 is plain, 3 is smoothed.
constexpr int kSmall = 2, kText = 3, kLarge = 4;
constexpr int kLine = 19;  // of kText
constexpr int width_of(std::string_view s, int size) { return static_cast<int>(s.size()) * Canvas::kGlyphWidth * size / 2; }

/// One character per code point: typographic quotes and dashes become ASCII, the rest "?"; control characters become spaces.
std::string plain(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x80) {
      out += c < 0x20 || c == 0x7F ? ' ' : s[i];
    } else if (s.substr(i, 2) == "\xE2\x80" && i + 2 < s.size()) {
      const auto last = static_cast<unsigned char>(s[i + 2]);
      out += last >= 0x90 && last <= 0x95 ? '-' : last == 0x98 || last == 0x99 ? '\'' : last == 0x9C || last == 0x9D ? '"' : '?';
    } else if (c >= 0xC0) {
      out += '?';
    }
  }
  return out;
}

std::string cut(std::string_view s, int width, int size) {
  const auto most = static_cast<size_t>(std::max(0, width / width_of("x", size)));
  if (s.size() <= most) return std::string(s);
  return most < 4 ? std::string(s.substr(0, most)) : std::string(s.substr(0, most - 3)) + "...";
}

void write(Canvas& canvas, int x, int y, std::string_view s, Colour c, int size = kText) {
  if (size % 2 == 0) {
    canvas.text(x, y, s, c, size / 2);
    return;
  }
  // Drawn twice as large, then averaged over 2 x 2.
  if (s.empty()) return;
  Image large = blank_image(Canvas::text_width(s, size) + 2, Canvas::kGlyphHeight * size + 2, {0, 0, 0});
  Canvas pen(large);
  pen.text(0, 0, s, {255, 255, 255}, size);
  for (int v = 0; v + 1 < large.height; v += 2) {
    for (int u = 0; u + 1 < large.width; u += 2) {
      const int sum = pen.at(u, v).r + pen.at(u + 1, v).r + pen.at(u, v + 1).r + pen.at(u + 1, v + 1).r;
      if (sum > 0) canvas.rectangle(x + u / 2, y + v / 2, 1, 1, c, sum / 1020.0);
    }
  }
}

void write_right(Canvas& canvas, int right, int y, std::string_view s, Colour c, int size = kText) {
  write(canvas, right - width_of(s, size), y, s, c, size);
}

std::vector<std::string> wrap(std::string_view text, int width, int size) {
  const auto most = static_cast<size_t>(std::max(1, width / width_of("x", size)));
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) lines.push_back(line);
    line.clear();
  };
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line.empty() && line.size() + 1 + word.size() > most) end_line();
    for (; word.size() > most; word.remove_prefix(most)) lines.emplace_back(word.substr(0, most));
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
  }
  end_line();
  return lines;
}

std::string number(double v, int digits, bool sign = false) {
  if (!(std::abs(v) <= 10 * kFarthest)) return "-";
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), sign ? "%+.*f" : "%.*f", digits, v);
  return out.data();
}

// -------------------------------------------------------------------------------------------------------------- shapes

/// How much of each pixel some polygons cover; the sum is painted in one go.
class Coverage {
 public:
  Coverage(int width, int height) : width_(width), height_(height), sum_(static_cast<size_t>(width) * static_cast<size_t>(height)) {}

  /// Even-odd; corners in pixels, all finite. Four scan lines per row, exact along a row.
  void add(std::span<const Point> corners, double strength = 1) {
    double low = 1e300, high = -1e300;
    for (const Point& p : corners) low = std::min(low, p.y), high = std::max(high, p.y);
    const int begin = static_cast<int>(std::clamp(std::floor(low), 0.0, double{1} * height_));
    const int end = static_cast<int>(std::clamp(std::ceil(high), 0.0, double{1} * height_));
    for (int y = begin; y < end; ++y) {
      for (int sub = 0; sub < kSubRows; ++sub) scan(corners, y, y + (sub + 0.5) / kSubRows, strength / kSubRows);
    }
    if (end > begin) first_ = std::min(first_, begin), last_ = std::max(last_, end);
  }

  void paint(Canvas& canvas, Colour c, double opacity = 1) {
    for (int y = first_; y < last_; ++y) {
      for (int x = 0; x < width_; ++x) {
        float& sum = sum_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
        if (sum > 0) canvas.rectangle(x, y, 1, 1, c, opacity * std::min(1.0F, sum));
        sum = 0;
      }
    }
    first_ = height_, last_ = 0;
  }

 private:
  static constexpr int kSubRows = 4;

  void scan(std::span<const Point> corners, int row, double y, double strength) {
    crossings_.clear();
    for (size_t i = 0; i < corners.size(); ++i) {
      const Point a = corners[i], b = corners[(i + 1) % corners.size()];
      if ((a.y <= y) != (b.y <= y)) crossings_.push_back(a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x));
    }
    std::sort(crossings_.begin(), crossings_.end());
    for (size_t i = 0; i + 1 < crossings_.size(); i += 2) {
      const double from = std::clamp(crossings_[i], 0.0, double{1} * width_), to = std::clamp(crossings_[i + 1], 0.0, double{1} * width_);
      float* sums = &sum_[static_cast<size_t>(row) * static_cast<size_t>(width_)];
      for (int x = static_cast<int>(from); x < to; ++x)
        sums[x] += static_cast<float>(strength * (std::min(to, x + 1.0) - std::max(from, double{1} * x)));
    }
  }

  int width_, height_, first_ = height_, last_ = 0;
  std::vector<float> sum_;
  std::vector<double> crossings_;
};

/// A point of a path, the unit vector to its left, and the way from the start.
struct PathSample {
  Vec2 at, left;
  double way_m = 0;
};

/// The path from `start` through the usable points, every 0.25 m (more when longer than 150 m).
std::vector<PathSample> sample_path(Vec2 start, std::span<const Vec2> points) {
  std::vector<Vec2> kept{start};
  double total = 0;
  for (const Vec2& p : points) {
    const double step = std::hypot(p.x - kept.back().x, p.y - kept.back().y);
    if (!usable(p) || step < 0.05) continue;
    kept.push_back(p), total += step;
  }
  std::vector<PathSample> out;
  const double spacing = std::max(0.25, total / 600);
  double way = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    const Vec2 a = kept[i - 1], b = kept[i];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const int n = std::max(1, static_cast<int>(length / spacing));
    for (int k = i == 1 ? 0 : 1; k <= n; ++k) {
      const double t = double{1} * k / n;
      out.push_back({{a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}, {}, way + t * length});
    }
    way += length;
  }
  for (size_t i = 0; i < out.size(); ++i) {  // over two neighbours each way, which rounds the corners of the strip
    const Vec2 a = out[i < 2 ? 0 : i - 2].at, b = out[std::min(i + 2, out.size() - 1)].at;
    const double length = std::max(1e-9, std::hypot(b.x - a.x, b.y - a.y));
    out[i].left = {(a.y - b.y) / length, (b.x - a.x) / length};
  }
  return out;
}

/// Adds the strip between `right_m` and `left_m` beside the path. `place` turns metres into an optional pixel.
template <class Place>
void add_strip(Coverage& coverage, std::span<const PathSample> path, double right_m, double left_m, double fade_m, const Place& place) {
  for (size_t i = 1; i < path.size(); ++i) {
    std::array<Point, 4> quad;
    bool whole = true;
    for (size_t k = 0; k < 4 && whole; ++k) {
      const PathSample& s = path[k == 0 || k == 3 ? i - 1 : i];
      const double aside = k < 2 ? right_m : left_m;
      const std::optional<Point> p = place(Vec2{s.at.x + aside * s.left.x, s.at.y + aside * s.left.y});
      whole = p.has_value();
      if (p) quad[k] = *p;
    }
    if (whole) coverage.add(quad, std::clamp(1 - path[i].way_m / fade_m, 0.25, 1.0));
  }
}

/// A numbered dot per waypoint; a label that would touch an earlier one is left out.
template <class Place>
void draw_waypoints(Canvas& canvas, std::span<const Vec2> waypoints, double radius, const Place& place) {
  struct Dot {
    Point at;
    std::string label;
  };
  std::vector<Dot> dots;
  for (size_t i = 0; i < waypoints.size(); ++i) {
    if (!usable(waypoints[i])) continue;
    const std::optional<Point> p = place(waypoints[i]);
    if (p && p->x >= 0 && p->y >= 0 && p->x < canvas.width() && p->y < canvas.height()) dots.push_back({*p, std::to_string(i + 1) + " s"});
  }
  for (const Dot& d : dots) {
    canvas.disc(d.at, radius + 2, kDark);
    canvas.disc(d.at, radius, kBright);
    canvas.disc(d.at, radius - 2, kPlan);
  }
  std::vector<Box> taken;
  for (const Dot& d : dots) {
    const int w = width_of(d.label, kText) + 8, h = 18;
    const int right = static_cast<int>(d.at.x + radius) + 5, left = static_cast<int>(d.at.x - radius) - 5 - w;
    const Box box{right + w <= canvas.width() ? right : left, std::clamp(static_cast<int>(d.at.y) - h - 3, 0, std::max(0, canvas.height() - h)), w, h};
    const bool free = std::none_of(taken.begin(), taken.end(), [&](const Box& o) {
      return box.x < o.x + o.w + 2 && o.x < box.x + box.w + 2 && box.y < o.y + o.h + 2 && o.y < box.y + box.h + 2;
    });
    if (!free) continue;
    taken.push_back(box);
    canvas.rectangle(box.x, box.y, box.w, box.h, kDark, 0.78);
    write(canvas, box.x + 4, box.y + 2, d.label, kBright);
  }
}

// ------------------------------------------------------------------------------------------------------------- cameras

bool whole(const Image& i) {
  return i.width > 0 && i.height > 0 && i.rgb.size() == size_t{3} * static_cast<size_t>(i.width) * static_cast<size_t>(i.height);
}

void draw_path_in_camera(Canvas& canvas, const PictureInput& in, const sim::Camera& camera) {
  // project() refuses what lies outside the picture; a strip needs those corners too, so the same camera with a sensor five
  // times as large is asked.
  constexpr int kWider = 5;
  sim::Camera wide = camera;
  wide.width *= kWider, wide.height *= kWider;
  wide.fov_rad = 2 * std::atan(kWider * std::tan(camera.fov_rad / 2));
  const double scale = double{1} * canvas.width() / camera.width;
  const auto place = [&](Vec2 p) -> std::optional<Point> {
    const auto pixel = sim::project(wide, sim::Pose{}, p.x, p.y, 0);
    if (!pixel) return std::nullopt;
    return Point{(pixel->x - kWider / 2 * camera.width) * scale, (pixel->y - kWider / 2 * camera.height) * scale};
  };
  Coverage coverage(canvas.width(), canvas.height());
  const auto path = sample_path({}, in.path.empty() ? in.waypoints : in.path);
  add_strip(coverage, path, -0.8, 0.8, 60, place);
  coverage.paint(canvas, kPlan, 0.42);
  for (const double side : {-0.8, 0.72}) add_strip(coverage, path, side, side + 0.08, 60, place);
  coverage.paint(canvas, kBright, 0.8);
  add_strip(coverage, sample_path({}, in.truth_path), -0.09, 0.09, 1e6, place);
  coverage.paint(canvas, kTruth, 0.95);
  draw_waypoints(canvas, in.waypoints, 5, place);
}

struct CameraGrid {
  int columns = 1, rows = 1;
  double cell_w = 0, cell_h = 0;
};

/// The grid in which the pictures come out largest; cells as wide as the space allows.
CameraGrid camera_grid(std::span<const Image* const> images, int width, int height) {
  CameraGrid best;
  double best_area = -1;
  const int n = static_cast<int>(images.size());
  for (int columns = 1; columns <= n; ++columns) {
    CameraGrid g{columns, (n + columns - 1) / columns};
    g.cell_w = (width - 8.0 * (g.columns - 1)) / g.columns, g.cell_h = (height - 8.0 * (g.rows - 1)) / g.rows;
    double area = 0, tallest = 0;
    for (const Image* i : images) {
      const double s = std::min(g.cell_w / i->width, g.cell_h / i->height);
      area += s * i->width * s * i->height, tallest = std::max(tallest, s * i->height);
    }
    g.cell_h = std::max(60.0, std::ceil(tallest));
    if (area > best_area) best = g, best_area = area;
  }
  return best;
}

/// Returns the height that the cameras took.
int draw_cameras(Canvas& canvas, const PictureInput& in, Box area) {
  std::vector<const Image*> images;
  for (const Image& i : in.images)
    if (whole(i) && images.size() < 6) images.push_back(&i);
  if (images.empty()) return 0;
  const bool simulated = in.simulated_cameras && images.size() == 3 && std::all_of(images.begin(), images.end(), [](const Image* i) {
    return i->width == sim::Camera{}.width && i->height == sim::Camera{}.height;
  });
  const CameraGrid g = camera_grid(images, area.w, area.h);
  for (size_t i = 0; i < images.size(); ++i) {
    const Image& image = *images[i];
    const double s = std::min(g.cell_w / image.width, g.cell_h / image.height);
    const int w = std::max(1, static_cast<int>(s * image.width)), h = std::max(1, static_cast<int>(s * image.height));
    const int column = static_cast<int>(i) % g.columns, row = static_cast<int>(i) / g.columns;
    const int x = area.x + static_cast<int>(column * (g.cell_w + 8) + (g.cell_w - w) / 2);
    const int y = area.y + static_cast<int>(row * (g.cell_h + 8) + (g.cell_h - h) / 2);
    Image cell = resize_bicubic(image, w, h);
    Canvas pen(cell);
    if (simulated) draw_path_in_camera(pen, in, sim::front_cameras()[i]);
    constexpr std::array<std::string_view, 3> kNames = {"front left", "front", "front right"};
    const std::string name = images.size() == 3 ? std::string(kNames[i]) : "camera " + std::to_string(i + 1);
    pen.rectangle(0, 0, width_of(name, kText) + 14, 22, kDark, 0.7);
    write(pen, 7, 4, name, kBright);
    canvas.blit(cell, x, y);
  }
  return static_cast<int>(g.rows * g.cell_h + 8.0 * (g.rows - 1));
}
