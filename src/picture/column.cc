// SPDX-License-Identifier: Apache-2.0
// The answer in words and numbers. The parts of a fixed height are placed first, from the top and from the bottom; the
// explanation gets the lines that remain, so that nothing overlaps.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "picture/parts.h"
#include "picture/text.h"

namespace slip::picture {

using sim::Vec2;

namespace {

constexpr Colour kYes{20, 108, 140};

/// Draws downwards from y_; every part says how high it is.
class Column {
 public:
  Column(Pen& pen, const PictureInput& in, Box area)
      : pen_(pen), in_(in), x_(area.x + kPad), w_(area.w - 2 * kPad), y_(area.y + kPad - 2), bottom_(area.y + area.h - kPad + 4) {}

  void draw() {
    if (!in_.objects.empty()) objects();
    if (!in_.reasoning.empty()) reasoning();
    if (!in_.longitudinal.empty() || !in_.lateral.empty()) behaviour();
    if (!in_.waypoints.empty()) trajectory();
    pairs_at_bottom("STATISTICS", in_.facts, 8);
    pairs_at_bottom("ANSWER", in_.fields, in_.objects.empty() && in_.reasoning.empty() ? 16 : 5);
    if (!in_.explanation.empty()) explanation();
    const bool unsaid = in_.longitudinal.empty() && in_.lateral.empty() && in_.explanation.empty();
    if (unsaid && in_.objects.empty() && in_.reasoning.empty() && in_.waypoints.empty() && in_.fields.empty())
      pen_.write(x_, y_, "no answer", kDim);
  }

 private:
  static constexpr int kTiles = 46;  // height of the behaviour's two

  void heading(std::string_view name, std::string_view note = {}, Colour note_colour = kDim) {
    draw_heading(pen_, x_, y_, w_, name, note, note_colour);
    y_ += kHeading;
  }

  /// Behind it come the parts of a fixed height, three lines of explanation, and facts two to a line.
  void reasoning() {
    int after = 0;
    if (!in_.longitudinal.empty() || !in_.lateral.empty()) after += kHeading + kTiles + kBetween;
    if (!in_.waypoints.empty()) after += kHeading + (1 + static_cast<int>(shown_waypoints())) * kLine + 1 + kBetween;
    if (!in_.explanation.empty()) after += kHeading + 3 * kLine + kBetween;
    if (!in_.facts.empty()) after += kHeading + std::min(8, (static_cast<int>(in_.facts.size()) + 1) / 2) * kLine + kBetween;
    y_ += draw_reasoning(pen_, in_.reasoning, {x_, y_, w_, bottom_ - y_ - after});
  }
  size_t shown_waypoints() const { return std::min<size_t>(in_.waypoints.size(), 6); }

  void objects() {
    constexpr int kHeight = 24, kRow = 29;
    const size_t shown = std::min<size_t>(in_.objects.size(), 14);
    const auto truth = [&](size_t i) { return i < in_.truth_objects.size() ? in_.truth_objects[i] : std::nullopt; };
    size_t known = 0, wrong = 0;
    for (size_t i = 0; i < in_.objects.size(); ++i) {
      known += truth(i).has_value();
      wrong += truth(i) && *truth(i) != in_.objects[i].second;
    }
    std::string note = known == 0 ? "" : std::to_string(known - wrong) + " of " + std::to_string(known) + " right";
    if (shown < in_.objects.size()) note = "first " + std::to_string(shown) + " of " + std::to_string(in_.objects.size());
    heading("CRITICAL OBJECTS", note, wrong > 0 ? kWrong : kDim);
    const int width = (w_ - 8) / 2;
    for (size_t i = 0; i < shown; ++i) {
      const bool yes = in_.objects[i].second, bad = truth(i) && *truth(i) != yes;
      const int x = x_ + (i % 2 == 0 ? 0 : width + 8), y = y_ + static_cast<int>(i / 2) * kRow;
      pen_.rectangle(x, y, width, kHeight, yes ? kYes : kRaised);
      if (yes) pen_.rectangle(x, y, 4, kHeight, kPlan);
      std::string name = plain(in_.objects[i].first);
      std::replace(name.begin(), name.end(), '_', ' ');
      pen_.write(x + 10, y + 5, cut(pen_, name, width - (bad ? 28 : 12)), yes ? kBright : kDim);
      if (!bad) continue;
      pen_.outline(x, y, width, kHeight, kWrong, 2);
      pen_.write_right(x + width - 7, y + 5, "!", kWrong);
    }
    y_ += static_cast<int>((shown + 1) / 2) * kRow - (kRow - kHeight) + kBetween;
  }

  void behaviour() {
    heading("BEHAVIOUR");
    const int width = (w_ - 8) / 2, height = kTiles;
    const std::array<std::pair<std::string_view, const std::string*>, 2> parts = {
        {{"along the road", &in_.longitudinal}, {"across the road", &in_.lateral}}};
    for (int i = 0; i < 2; ++i) {
      const auto& [name, value] = parts[static_cast<size_t>(i)];
      const int x = x_ + i * (width + 8);
      pen_.rectangle(x, y_, width, height, kRaised);
      pen_.write(x + 10, y_ + 6, name, kDim, kSmall);
      const std::string word = plain(*value);
      const int size = pen_.width_of(word, kLarge) <= width - 20 ? kLarge : kText;
      pen_.write(x + 10, y_ + (size == kLarge ? 20 : 23), cut(pen_, word.empty() ? "-" : word, width - 20, size), kBright, size);
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
    // Set for 418 pixels; what is wider spreads the columns.
    const auto end = [&](int at) { return at * (w_ - 8) / 410; };
    const std::array<int, 5> ends = {44, end(truth ? 148 : 170), end(truth ? 240 : 296), truth ? end(312) : w_ - 8, w_ - 8};
    const size_t columns = truth ? 5 : 4;
    for (size_t c = 0; c < columns; ++c) pen_.write_right(x_ + ends[c], y_, kNames[c], kDim);
    y_ += kLine + 1;
    Vec2 before{};
    for (size_t i = 0; i < shown_waypoints(); ++i) {
      const Vec2 p = in_.waypoints[i], t = 4 * i + 3 < in_.truth_path.size() ? in_.truth_path[4 * i + 3] : Vec2{NAN, NAN};
      const double speed = std::hypot(p.x - before.x, p.y - before.y), error = std::hypot(p.x - t.x, p.y - t.y);
      const std::array<std::string, 5> cells = {std::to_string(i + 1), number(p.x, 2, true), number(p.y, 2, true), number(speed, 1),
                                                number(error, 2)};
      if (i % 2 == 0) pen_.rectangle(x_, y_ - 2, w_, kLine, kRaised);
      for (size_t c = 0; c < columns; ++c) pen_.write_right(x_ + ends[c], y_, cells[c], c == 4 ? kTruth : kNormal);
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
      c.half = pen_.width_of(c.name) + 9 + pen_.width_of(c.value) <= half;
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
      const std::string key = cut(pen_, c.name, width / 2 - 10);
      pen_.write(x, y, c.half ? c.name : key, kDim);
      pen_.write_right(x + width, y, cut(pen_, c.value, width - pen_.width_of(c.half ? c.name : key) - 9), kBright);
    }
    bottom_ -= kBetween;
    y_ = after;
  }

  void explanation() {
    const int room = (bottom_ - y_ - kHeading) / kLine;
    if (room < 1) return;
    heading("EXPLANATION");
    std::vector<std::string> lines = wrap(pen_, plain(in_.explanation), w_);
    if (const auto most = static_cast<size_t>(room); lines.size() > most) {
      lines[most - 1] = cut(pen_, lines[most - 1] + " " + lines[most], w_, kText, " ...");
      lines.resize(most);
    }
    for (const std::string& l : lines) pen_.write(x_, y_, l, kBright), y_ += kLine;
  }

  Pen& pen_;
  const PictureInput& in_;
  int x_, w_, y_, bottom_;
};

}  // namespace

void draw_heading(Pen& pen, int x, int y, int width, std::string_view name, std::string_view note, Colour note_colour) {
  pen.write(x, y, name, kDim);
  pen.write_right(x + width, y, cut(pen, note, width - pen.width_of(name) - 18), note_colour);
  pen.rectangle(x, y + 18, width, 1, kRule);
}

void draw_column(Pen& pen, const PictureInput& in, Box area) { Column(pen, in, area).draw(); }

}  // namespace slip::picture
