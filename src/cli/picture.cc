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
    bool visible = true;
    for (size_t k = 0; k < 4 && visible; ++k) {
      const PathSample& s = path[k == 0 || k == 3 ? i - 1 : i];
      const double aside = k < 2 ? right_m : left_m;
      const std::optional<Point> p = place(Vec2{s.at.x + aside * s.left.x, s.at.y + aside * s.left.y});
      visible = p.has_value();
      if (p) quad[k] = *p;
    }
    if (visible) coverage.add(quad, std::clamp(1 - path[i].way_m / fade_m, 0.25, 1.0));
  }
}

/// A numbered dot per waypoint, nearer over farther. A label stands at the right or the left of its dot, or nowhere when both
/// places are taken; the last waypoint chooses first, then the others in order.
template <class Place>
void draw_waypoints(Canvas& canvas, std::span<const Vec2> waypoints, double radius_near, double radius_at_40_m, const Place& place) {
  struct Dot {
    Point at;
    double radius = 0;
    std::string label;
  };
  std::vector<Dot> dots;
  for (size_t i = 0; i < waypoints.size(); ++i) {
    if (!usable(waypoints[i])) continue;
    const std::optional<Point> p = place(waypoints[i]);
    if (!p || p->x < 0 || p->y < 0 || p->x >= canvas.width() || p->y >= canvas.height()) continue;
    const double share = std::min(1.0, std::hypot(waypoints[i].x, waypoints[i].y) / 40);
    dots.push_back({*p, radius_near + share * (radius_at_40_m - radius_near), std::to_string(i + 1) + " s"});
  }
  for (auto d = dots.rbegin(); d != dots.rend(); ++d) {
    canvas.disc(d->at, d->radius + 2, kDark);
    canvas.disc(d->at, d->radius, kBright);
    canvas.disc(d->at, d->radius - 2, kPlan);
  }
  if (dots.size() > 1) std::rotate(dots.begin(), dots.end() - 1, dots.end());
  std::vector<Box> taken;
  for (const Dot& d : dots) {
    const int w = width_of(d.label, kText) + 8, h = 18;
    const int y = std::clamp(static_cast<int>(d.at.y) - h - 3, 0, std::max(0, canvas.height() - h));
    for (const double x : {d.at.x + d.radius + 5, d.at.x - d.radius - 5 - w}) {
      const Box box{static_cast<int>(x), y, w, h};
      const bool free = x >= 0 && box.x + w <= canvas.width() && std::none_of(taken.begin(), taken.end(), [&](const Box& o) {
        return box.x < o.x + o.w + 2 && o.x < box.x + box.w + 2 && box.y < o.y + o.h + 2 && o.y < box.y + box.h + 2;
      });
      if (!free) continue;
      taken.push_back(box);
      canvas.rectangle(box.x, box.y, w, h, kDark, 0.78);
      write(canvas, box.x + 4, box.y + 2, d.label, kBright);
      break;
    }
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
  add_strip(coverage, path, -0.8, 0.8, 45, place);
  coverage.paint(canvas, kPlan, 0.46);
  for (const double side : {-0.8, 0.72}) add_strip(coverage, path, side, side + 0.08, 60, place);
  coverage.paint(canvas, kBright, 0.8);
  const auto truth = sample_path({}, in.truth_path);
  for (size_t i = 1; i < truth.size(); ++i) {
    const auto a = place(truth[i - 1].at), b = place(truth[i].at);
    if (a && b) canvas.line(*a, *b, 2.6, kTruth);
  }
  draw_waypoints(canvas, in.waypoints, 6.5, 3.8, place);
  const bool planned = !in.path.empty() || !in.waypoints.empty();
  if (planned && (path.empty() || path.back().way_m < 1) && camera.yaw_rad == 0) {
    const std::string_view note = "the plan stands still";
    const int w = width_of(note, kText) + 20, x = (canvas.width() - w) / 2, y = canvas.height() - 42;
    canvas.rectangle(x, y, w, 26, kDark, 0.8);
    write(canvas, x + 10, y + 6, note, kPlan);
  }
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
    const std::string name = images.size() == 3 ? std::string(kNames[i]) : images.size() == 1 ? "camera" : "camera " + std::to_string(i + 1);
    pen.rectangle(0, 0, width_of(name, kText) + 14, 22, kDark, 0.7);
    write(pen, 7, 4, name, kBright);
    canvas.blit(cell, x, y);
  }
  return static_cast<int>(g.rows * g.cell_h + 8.0 * (g.rows - 1));
}

// ----------------------------------------------------------------------------------------------------- plan from above

/// Metres (ahead to the right, left upwards) to pixels.
struct PlanView {
  double scale = 10, x0 = 0, y0 = 0;  // pixels per metre; the metres at the upper left corner
  Point operator()(Vec2 p) const { return {(p.x - x0) * scale, (y0 - p.y) * scale}; }
};

/// Everything planned is seen, at least 10 m and at most 150 m ahead; with a moment at least 42 m and a quarter more than is
/// planned, where the reason of the plan stands.
PlanView fit_plan(const PictureInput& in, int width, int height) {
  double back = -5, ahead = in.moment ? 42 : 10, right = -3, left = 3;
  const auto include = [&](std::span<const Vec2> points, double farthest_back) {
    for (const Vec2& p : points) {
      if (!usable(p)) continue;
      back = std::min(back, std::max(p.x, farthest_back)), ahead = std::max(ahead, std::min(p.x, 150.0));
      right = std::min(right, std::max(p.y, -75.0)), left = std::max(left, std::min(p.y, 75.0));
    }
  };
  include(in.path, -60), include(in.truth_path, -60), include(in.waypoints, -60);
  std::vector<Vec2> recent;
  for (const Vec2& p : in.history)
    if (p.x > -15 && std::abs(p.y) < 10) recent.push_back(p);
  include(recent, -15);
  if (in.moment && ahead > 42) ahead = std::min(150.0, std::max(42.0, 1.25 * ahead));
  back -= 1.5, ahead += 0.03 * (ahead - back) + 1, right -= 1.5, left += 1.5;
  PlanView v;
  v.scale = std::min(width / (ahead - back), height / (left - right));
  v.x0 = (back + ahead - width / v.scale) / 2, v.y0 = (left + right + height / v.scale) / 2;
  return v;
}

Colour ground_colour(sim::Ground kind) {
  constexpr std::array<Colour, 11> kColours = {{{29, 38, 32}, {54, 58, 65}, {74, 75, 78}, {176, 180, 184}, {176, 146, 62}, {214, 216, 218},
                                                {132, 136, 141}, {45, 77, 66}, {26, 26, 28}, {50, 76, 104}, {63, 64, 76}}};
  const auto i = static_cast<size_t>(kind);
  return i < kColours.size() ? kColours[i] : kColours[1];
}

Colour agent_colour(sim::AgentType type) {
  switch (type) {
    case sim::AgentType::kPedestrian: case sim::AgentType::kAnimal: return {240, 128, 190};
    case sim::AgentType::kCyclist: case sim::AgentType::kMotorcycle: return {150, 210, 110};
    case sim::AgentType::kCone: case sim::AgentType::kBarrier: case sim::AgentType::kDebris: case sim::AgentType::kWorker: return {255, 140, 60};
    case sim::AgentType::kAmbulance: case sim::AgentType::kFireTruck: case sim::AgentType::kPolice: return {236, 84, 84};
    default: return {122, 140, 178};
  }
}

class PlanDrawing {
 public:
  PlanDrawing(Image& image, const PlanView& view) : pen_(image), view_(view), coverage_(image.width, image.height) {}

  void grid(double step_m, double opacity) {
    const double x1 = view_.x0 + pen_.width() / view_.scale, y1 = view_.y0 - pen_.height() / view_.scale;
    for (double x = std::ceil(view_.x0 / step_m) * step_m; x <= x1; x += step_m)
      pen_.rectangle(static_cast<int>(view_({x, 0}).x), 0, 1, pen_.height(), kNormal, opacity);
    for (double y = std::ceil(y1 / step_m) * step_m; y <= view_.y0; y += step_m)
      pen_.rectangle(0, static_cast<int>(view_({0, y}).y), pen_.width(), 1, kNormal, opacity);
  }

  /// Neighbouring patches of one kind are painted together, so that no seam shows between the pieces of a road.
  void ground(const sim::Moment& m) {
    for (size_t i = 0; i < m.ground.size(); ++i) {
      std::vector<Point> corners;
      for (const Vec2& c : m.ground[i].corners) corners.push_back(view_(to_ego(m.ego, c)));
      if (corners.size() >= 3 && finite(corners)) coverage_.add(corners);
      if (i + 1 == m.ground.size() || m.ground[i + 1].kind != m.ground[i].kind) coverage_.paint(pen_, ground_colour(m.ground[i].kind));
    }
  }

  void scenery(const sim::Moment& m) {
    for (const sim::Scenery& s : m.scenery) {
      if (s.kind == sim::SceneryKind::kTree) pen_.disc(view_(to_ego(m.ego, {s.pose.x, s.pose.y})), 0.5 * s.width * view_.scale, {44, 74, 52}, 0.8);
      else if (s.kind != sim::SceneryKind::kPole) box(in_ego(m.ego, s.pose), s.length, s.width, {47, 47, 54}, 1);
    }
  }

  void agents(const sim::Moment& m) {
    for (const sim::Agent& a : m.agents) {
      const sim::Pose p = in_ego(m.ego, a.pose);
      const Colour colour = agent_colour(a.type);
      if (std::max(a.length, a.width) * view_.scale < 9) {
        pen_.disc(view_({p.x, p.y}), 5.5, kDark);
        pen_.disc(view_({p.x, p.y}), 4, colour);
        continue;
      }
      box(p, a.length + 2 / view_.scale, a.width + 2 / view_.scale, kDark, 1);
      box(p, a.length, a.width, colour, 1);
      // The darker fifth is the front.
      box(ahead_of(p, 0.3 * a.length), 0.2 * a.length, 0.8 * a.width, kDark, 0.45);
      // Where it will be after one second at this speed.
      if (a.speed_mps > 0.3 && a.speed_mps < 80) {
        const sim::Pose nose = ahead_of(p, a.length / 2), there = ahead_of(p, a.length / 2 + a.speed_mps);
        pen_.line(view_({nose.x, nose.y}), view_({there.x, there.y}), 2, colour, 0.75);
      }
    }
    for (const sim::TrafficLight& l : m.lights) {
      constexpr std::array<Colour, 3> kLamps = {{{255, 70, 70}, {255, 205, 60}, {80, 220, 110}}};
      const Point p = view_(to_ego(m.ego, {l.pose.x, l.pose.y}));
      pen_.disc(p, 8, kDark);
      pen_.disc(p, 5.5, kLamps[std::min<size_t>(static_cast<size_t>(l.state), 2)]);
    }
    for (const sim::Sign& s : m.signs) {
      const Point p = view_(to_ego(m.ego, {s.pose.x, s.pose.y}));
      pen_.disc(p, 5, kDark);
      pen_.circle(p, 4, 2, s.kind == sim::SignKind::kStop ? Colour{255, 70, 70} : Colour{235, 235, 235});
    }
  }

  void ego() {
    const double length = sim::kEgoFront + sim::kEgoRear, middle = (sim::kEgoFront - sim::kEgoRear) / 2, width = 2 * sim::kEgoHalfWidth;
    box({middle, 0, 0}, length + 3 / view_.scale, width + 3 / view_.scale, kDark, 1);
    box({middle, 0, 0}, length, width, kBright, 1);
    box({middle + 0.12 * length, 0, 0}, 0.16 * length, 0.8 * width, {70, 84, 100}, 1);
    box({middle - 0.3 * length, 0, 0}, 0.1 * length, 0.74 * width, {70, 84, 100}, 1);
  }

  void path(std::span<const Vec2> points, Colour colour, bool ribbon) {
    const auto place = [&](Vec2 p) { return std::optional<Point>(view_(p)); };
    const auto samples = sample_path({}, points);
    if (ribbon) {
      add_strip(coverage_, samples, -0.8, 0.8, 1e6, place);
      coverage_.paint(pen_, colour, 0.28);
    }
    const double half = 1.5 / view_.scale;
    add_strip(coverage_, samples, -half, half, 1e6, place);
    coverage_.paint(pen_, colour);
    for (const Vec2& p : points)
      if (usable(p)) pen_.disc(view_(p), 3.2, colour);
  }

  void past(std::span<const Vec2> points) {
    for (const Vec2& p : points)
      if (usable(p)) pen_.disc(view_(p), 2.6, kPast);
  }

  void waypoints(std::span<const Vec2> points) {
    draw_waypoints(pen_, points, 6, 6, [&](Vec2 p) { return std::optional<Point>(view_(p)); });
  }

 private:
  static Vec2 to_ego(const sim::Pose& ego, Vec2 p) {
    const double dx = p.x - ego.x, dy = p.y - ego.y, c = std::cos(ego.yaw), s = std::sin(ego.yaw);
    return {dx * c + dy * s, dy * c - dx * s};
  }
  static sim::Pose in_ego(const sim::Pose& ego, const sim::Pose& p) {
    const Vec2 at = to_ego(ego, {p.x, p.y});
    return {at.x, at.y, p.yaw - ego.yaw};
  }
  static sim::Pose ahead_of(const sim::Pose& p, double m) { return {p.x + m * std::cos(p.yaw), p.y + m * std::sin(p.yaw), p.yaw}; }
  static bool finite(std::span<const Point> points) {
    return std::all_of(points.begin(), points.end(), [](const Point& p) { return std::abs(p.x) < 1e9 && std::abs(p.y) < 1e9; });
  }
  void box(const sim::Pose& pose, double length, double width, Colour colour, double opacity) {
    const double c = std::cos(pose.yaw), s = std::sin(pose.yaw), l = length / 2, w = width / 2;
    std::array<Point, 4> corners;
    for (size_t i = 0; i < 4; ++i) {
      const double u = i == 0 || i == 3 ? -l : l, v = i < 2 ? -w : w;
      corners[i] = view_({pose.x + u * c - v * s, pose.y + u * s + v * c});
    }
    if (!finite(corners)) return;
    coverage_.add(corners);
    coverage_.paint(pen_, colour, opacity);
  }

  Canvas pen_;
  PlanView view_;
  Coverage coverage_;
};

void draw_plan_header(Canvas& canvas, const PictureInput& in, Box area) {
  write(canvas, area.x + kPad, area.y + 9, "FROM ABOVE", kDim);
  if (in.moment) {
    constexpr std::array<std::string_view, 3> kLighting = {"day", "dusk", "night"};
    constexpr std::array<std::string_view, 4> kWeather = {"clear", "rain", "fog", "snow"};
    const std::string now = number(in.moment->ego_speed_mps, 1) + " m/s, " + std::string(kLighting[std::min<size_t>(static_cast<size_t>(in.moment->env.lighting), 2)]) +
                            ", " + std::string(kWeather[std::min<size_t>(static_cast<size_t>(in.moment->env.weather), 3)]);
    write(canvas, area.x + kPad + 108, area.y + 9, now, kNormal);
  }
  struct Entry {
    std::string_view name;
    Colour colour;
    bool shown;
  };
  const auto agents = [&](std::string_view name, sim::AgentType like) {
    const Colour colour = agent_colour(like);
    return Entry{name, colour, in.moment && std::any_of(in.moment->agents.begin(), in.moment->agents.end(), [&](const sim::Agent& a) {
                                 return agent_colour(a.type) == colour;
                               })};
  };
  const std::array<Entry, 8> entries = {Entry{"plan", kPlan, !in.path.empty() || !in.waypoints.empty()}, Entry{"truth", kTruth, !in.truth_path.empty()},
                                        Entry{"driven", kPast, !in.history.empty()}, agents("vehicle", sim::AgentType::kCar),
                                        agents("emergency", sim::AgentType::kPolice), agents("person", sim::AgentType::kPedestrian),
                                        agents("cyclist", sim::AgentType::kCyclist), agents("obstacle", sim::AgentType::kCone)};
  int x = area.x + area.w - kPad;
  for (auto e = entries.rbegin(); e != entries.rend(); ++e) {
    if (!e->shown) continue;
    x -= width_of(e->name, kText);
    write(canvas, x, area.y + 9, e->name, kNormal);
    x -= 20;
    canvas.disc({x + 7.0, area.y + 16.0}, 5, e->colour);
    x -= 14;
  }
}

void draw_plan(Canvas& canvas, const PictureInput& in, Box area) {
  canvas.rectangle(area.x, area.y, area.w, area.h, kPanel);
  draw_plan_header(canvas, in, area);
  const Box inner{area.x + 52, area.y + 32, area.w - 52 - kPad, area.h - 32 - 30};
  Image picture = blank_image(inner.w, inner.h, in.moment ? ground_colour(sim::Ground::kGrass) : Colour{20, 23, 28});
  const PlanView view = fit_plan(in, inner.w, inner.h);
  PlanDrawing plan(picture, view);
  if (in.moment) plan.ground(*in.moment), plan.scenery(*in.moment);
  double step = 1;
  for (const double s : {2.0, 5.0, 10.0, 20.0, 50.0})
    if (step * view.scale < 55) step = s;
  plan.grid(step, 0.16);
  if (in.moment) plan.agents(*in.moment);
  plan.past(in.history);
  plan.path(in.path.empty() ? in.waypoints : in.path, kPlan, true);
  plan.path(in.truth_path, kTruth, false);
  plan.ego();
  plan.waypoints(in.waypoints);
  canvas.blit(picture, inner.x, inner.y);
  canvas.outline(inner.x - 1, inner.y - 1, inner.w + 2, inner.h + 2, kRule);

  const int base = inner.y + inner.h + 8;
  const std::string unit = "m ahead";
  write_right(canvas, inner.x + inner.w, base, unit, kDim);
  const double x1 = view.x0 + inner.w / view.scale, y1 = view.y0 - inner.h / view.scale;
  for (double x = std::ceil(view.x0 / step) * step; x <= x1; x += step) {
    const std::string label = number(x + 0.0, 0);
    const int at = inner.x + static_cast<int>(view({x, 0}).x) - width_of(label, kText) / 2;
    if (at >= inner.x && at + width_of(label, kText) < inner.x + inner.w - width_of(unit, kText) - 12) write(canvas, at, base, label, kDim);
  }
  for (double y = std::ceil(y1 / step) * step; y <= view.y0; y += step) {
    const int at = inner.y + static_cast<int>(view({0, y}).y) - 7;
    if (at >= inner.y + 20 && at + 15 <= inner.y + inner.h) write_right(canvas, inner.x - 6, at, number(y + 0.0, 0), kDim);
  }
  write_right(canvas, inner.x - 6, inner.y + 2, "left", kDim);
}

// ----------------------------------------------------------------------------------------------------- the answer's column

/// Draws downwards from y_; every part says how high it is.
class Column {
 public:
  Column(Canvas& canvas, const PictureInput& in, Box area)
      : canvas_(canvas), in_(in), x_(area.x + kPad), w_(area.w - 2 * kPad), y_(area.y + kPad - 2), bottom_(area.y + area.h - kPad + 4) {}

  void draw() {
    if (!in_.objects.empty()) objects();
    if (!in_.longitudinal.empty() || !in_.lateral.empty()) behaviour();
    if (!in_.waypoints.empty()) trajectory();
    pairs_at_bottom("STATISTICS", in_.facts, 8);
    pairs_at_bottom("ANSWER", in_.fields, in_.objects.empty() ? 16 : 5);
    if (!in_.explanation.empty()) explanation();
    const bool nothing = in_.objects.empty() && in_.longitudinal.empty() && in_.lateral.empty() && in_.waypoints.empty() && in_.fields.empty();
    if (nothing && in_.explanation.empty()) write(canvas_, x_, y_, "no answer", kDim);
  }

 private:
  static constexpr int kHeading = 25, kBetween = 15;

  void heading(std::string_view name, std::string_view note = {}, Colour note_colour = kDim) {
    write(canvas_, x_, y_, name, kDim);
    const int room = w_ - width_of(name, kText) - 18;
    write_right(canvas_, x_ + w_, y_, cut(note, room, kText), note_colour);
    canvas_.rectangle(x_, y_ + 18, w_, 1, kRule);
    y_ += kHeading;
  }

  void objects() {
    constexpr int kHeight = 24, kRow = 29;
    const size_t shown = std::min<size_t>(in_.objects.size(), 14);
    const auto truth = [&](size_t i) { return i < in_.truth_objects.size() ? in_.truth_objects[i] : std::nullopt; };
    size_t known = 0, wrong = 0;
    for (size_t i = 0; i < in_.objects.size(); ++i) known += truth(i).has_value(), wrong += truth(i) && *truth(i) != in_.objects[i].second;
    std::string note = known == 0 ? "" : std::to_string(known - wrong) + " of " + std::to_string(known) + " right";
    if (shown < in_.objects.size()) note = "first " + std::to_string(shown) + " of " + std::to_string(in_.objects.size());
    heading("CRITICAL OBJECTS", note, wrong > 0 ? kWrong : kDim);
    const int width = (w_ - 8) / 2;
    for (size_t i = 0; i < shown; ++i) {
      const bool yes = in_.objects[i].second, bad = truth(i) && *truth(i) != yes;
      const int x = x_ + (i % 2 == 0 ? 0 : width + 8), y = y_ + static_cast<int>(i / 2) * kRow;
      canvas_.rectangle(x, y, width, kHeight, yes ? kYes : kRaised);
      if (yes) canvas_.rectangle(x, y, 4, kHeight, kPlan);
      std::string name = plain(in_.objects[i].first);
      std::replace(name.begin(), name.end(), '_', ' ');
      write(canvas_, x + 10, y + 5, cut(name, width - (bad ? 28 : 12), kText), yes ? kBright : kDim);
      if (!bad) continue;
      canvas_.outline(x, y, width, kHeight, kWrong, 2);
      write_right(canvas_, x + width - 7, y + 5, "!", kWrong);
    }
    y_ += static_cast<int>((shown + 1) / 2) * kRow - (kRow - kHeight) + kBetween;
  }

  void behaviour() {
    heading("BEHAVIOUR");
    const int width = (w_ - 8) / 2, height = 46;
    const std::array<std::pair<std::string_view, const std::string*>, 2> parts = {{{"along the road", &in_.longitudinal}, {"across the road", &in_.lateral}}};
    for (int i = 0; i < 2; ++i) {
      const auto& [name, value] = parts[static_cast<size_t>(i)];
      const int x = x_ + i * (width + 8);
      canvas_.rectangle(x, y_, width, height, kRaised);
      write(canvas_, x + 10, y_ + 6, name, kDim, kSmall);
      const std::string word = plain(*value);
      const int size = width_of(word, kLarge) <= width - 20 ? kLarge : kText;
      write(canvas_, x + 10, y_ + (size == kLarge ? 20 : 23), cut(word.empty() ? "-" : word, width - 20, size), kBright, size);
    }
    y_ += height + kBetween;
  }

  void trajectory() {
    const bool truth = !in_.truth_path.empty();
    double sum = 0;
    int n = 0;
    for (size_t i = 0; i < std::min(in_.path.size(), in_.truth_path.size()); ++i) {
      if (!usable(in_.path[i]) || !usable(in_.truth_path[i])) continue;
      sum += std::hypot(in_.path[i].x - in_.truth_path[i].x, in_.path[i].y - in_.truth_path[i].y), ++n;
    }
    heading("TRAJECTORY", n > 0 ? "mean error " + number(sum / n, 2) + " m" : "", kTruth);
    const std::array<std::string_view, 5> kNames = {"t, s", "ahead, m", "left, m", "m/s", "error, m"};
    const std::array<int, 5> ends = {44, truth ? 148 : 170, truth ? 240 : 296, truth ? 312 : w_ - 8, w_ - 8};
    const size_t columns = truth ? 5 : 4;
    for (size_t c = 0; c < columns; ++c) write_right(canvas_, x_ + ends[c], y_, kNames[c], kDim);
    y_ += kLine + 1;
    Vec2 before{};
    for (size_t i = 0; i < std::min<size_t>(in_.waypoints.size(), 6); ++i) {
      const Vec2 p = in_.waypoints[i], t = 4 * i + 3 < in_.truth_path.size() ? in_.truth_path[4 * i + 3] : Vec2{NAN, NAN};
      const std::array<std::string, 5> cells = {std::to_string(i + 1), number(p.x, 2, true), number(p.y, 2, true),
                                                number(std::hypot(p.x - before.x, p.y - before.y), 1), number(std::hypot(p.x - t.x, p.y - t.y), 2)};
      if (i % 2 == 0) canvas_.rectangle(x_, y_ - 2, w_, kLine, kRaised);
      for (size_t c = 0; c < columns; ++c) write_right(canvas_, x_ + ends[c], y_, cells[c], c == 4 ? kTruth : kNormal);
      y_ += kLine;
      before = p;
    }
    y_ += kBetween;
  }

  /// Two to a line where they fit; takes its space from the bottom.
  void pairs_at_bottom(std::string_view name, const std::vector<std::pair<std::string, std::string>>& pairs, int most_lines) {
    if (pairs.empty()) return;
    struct Cell {
      std::string name, value;
      int line = 0;
      bool half = false, right = false;
    };
    const int half = (w_ - 16) / 2;
    std::vector<Cell> cells;
    int line = 0;
    bool open = false;  // the left half of `line` is taken
    for (const auto& [key, value] : pairs) {
      Cell c{plain(key), plain(value)};
      c.half = width_of(c.name, kText) + 9 + width_of(c.value, kText) <= half;
      if (open && !c.half) ++line, open = false;
      c.line = line, c.right = open;
      if (!c.half || open) ++line;
      open = c.half && !open;
      cells.push_back(std::move(c));
    }
    line += open;
    const int room = (bottom_ - y_ - kHeading) / kLine - (in_.explanation.empty() ? 0 : 5);
    const int lines = std::min({line, most_lines, room});
    if (lines < 1) return;
    const int after = y_;
    bottom_ -= kHeading + lines * kLine;
    y_ = bottom_;
    heading(name, lines < line ? "not all shown" : "");
    for (const Cell& c : cells) {
      if (c.line >= lines) continue;
      const int width = c.half ? half : w_, x = x_ + (c.right ? half + 16 : 0), y = y_ + c.line * kLine;
      const std::string key = cut(c.name, width / 2 - 10, kText);
      write(canvas_, x, y, c.half ? c.name : key, kDim);
      write_right(canvas_, x + width, y, cut(c.value, width - width_of(c.half ? c.name : key, kText) - 9, kText), kBright);
    }
    bottom_ -= kBetween;
    y_ = after;
  }

  void explanation() {
    const int room = (bottom_ - y_ - kHeading) / kLine;
    if (room < 1) return;
    heading("EXPLANATION");
    std::vector<std::string> lines = wrap(plain(in_.explanation), w_, kText);
    if (static_cast<int>(lines.size()) > room) {
      lines.resize(static_cast<size_t>(room));
      std::string& last = lines.back();
      last.resize(std::min(last.size(), static_cast<size_t>(w_ / width_of("x", kText) - 4)));
      last += " ...";
    }
    for (const std::string& l : lines) write(canvas_, x_, y_, l, kBright), y_ += kLine;
  }

  Canvas& canvas_;
  const PictureInput& in_;
  int x_, w_, y_, bottom_;
};

}  // namespace

Image draw_picture(const PictureInput& in) {
  Image out = blank_image(kWidth, kHeight, kBackground);
  Canvas canvas(out);
  const int left = kWidth - 2 * kMargin - kGap - kColumn, top = kMargin + kHeader, bottom = kHeight - kMargin;
  write(canvas, kMargin, kMargin - 2, cut(plain(in.title.empty() ? "Slipstream" : in.title), kWidth - 2 * kMargin, kLarge), kBright, kLarge);
  const Box column{kWidth - kMargin - kColumn, top, kColumn, bottom - top};
  canvas.rectangle(column.x, column.y, column.w, column.h, kPanel);
  Column(canvas, in, column).draw();
  const int taken = draw_cameras(canvas, in, {kMargin, top, left, 400});
  const int plan_top = taken > 0 ? top + taken + kGap : top;
  draw_plan(canvas, in, {kMargin, plan_top, left, bottom - plan_top});
  return out;
}

}  // namespace slip
