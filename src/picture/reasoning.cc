// SPDX-License-Identifier: Apache-2.0
// A reasoning in lines: labels at the left, texts beside them, wrapped. What has no room is left out by weight, then at the end; the
// last heading says so.
#include <algorithm>
#include <string>
#include <vector>

#include "picture/parts.h"
#include "picture/text.h"

namespace slip::picture {

namespace {

constexpr int kRow = 18, kIndent = 12, kMostLabel = 144;  // pixels

struct Row {
  std::string label, text;
  Colour colour;
};
struct Group {
  std::string heading, note;
  std::vector<Row> rows;
};

std::string label_of(const Pen& pen, const PictureLine& l) { return cut(pen, plain(l.label), kMostLabel); }

/// The lines, wrapped.
std::vector<Group> laid_out(const Pen& pen, const std::vector<PictureGroup>& groups, int width) {
  std::vector<Group> out;
  for (const PictureGroup& g : groups) {
    Group group{plain(g.heading), plain(g.note), {}};
    int labels = 0;
    for (const PictureLine& l : g.lines) labels = std::max(labels, pen.width_of(label_of(pen, l)));
    const int room = width - labels - kIndent;
    for (const PictureLine& l : g.lines) {
      std::string label = label_of(pen, l);
      const auto add = [&](const std::string& text, Colour colour) {
        for (std::string& part : wrap(pen, plain(text), room)) {
          group.rows.push_back({label, std::move(part), colour});
          label.clear();
        }
      };
      add(l.text, kBright);
      add(l.more, kNormal);
      if (!label.empty()) group.rows.push_back({label, "", kBright});
    }
    if (!group.rows.empty()) out.push_back(std::move(group));
  }
  return out;
}

int height_of(const std::vector<Group>& groups) {
  int height = 0;
  for (const Group& g : groups) height += kHeading + static_cast<int>(g.rows.size()) * kRow + kBetween;
  return height;
}

/// Leaves out one line, the last of the largest weight; false where only lines of weight 0 are left.
bool drop_one(std::vector<PictureGroup>& groups) {
  PictureGroup* from = nullptr;
  size_t at = 0;
  int weight = 1;
  for (PictureGroup& g : groups) {
    for (size_t i = 0; i < g.lines.size(); ++i) {
      if (g.lines[i].weight < weight) continue;
      from = &g, at = i, weight = g.lines[i].weight;
    }
  }
  if (from) from->lines.erase(from->lines.begin() + static_cast<std::ptrdiff_t>(at));
  return from != nullptr;
}

/// Cuts rows from the end until all fits.
void shorten(std::vector<Group>& groups, int height) {
  while (!groups.empty() && height_of(groups) > height) {
    groups.back().rows.pop_back();
    if (groups.back().rows.empty()) groups.pop_back();
    if (!groups.empty()) groups.back().note = "not all shown";
  }
}

int draw_group(Pen& pen, const Group& g, Box area) {
  draw_heading(pen, area.x, area.y, area.w, g.heading, g.note, kTruth);
  int labels = 0, y = area.y + kHeading;
  for (const Row& r : g.rows) labels = std::max(labels, pen.width_of(r.label));
  for (const Row& r : g.rows) {
    pen.write(area.x, y, r.label, kDim);
    pen.write(area.x + labels + kIndent, y, r.text, r.colour);
    y += kRow;
  }
  return y + kBetween - area.y;
}

}  // namespace

int draw_reasoning(Pen& pen, const std::vector<PictureGroup>& groups, Box area) {
  std::vector<PictureGroup> kept = groups;
  std::vector<Group> shown = laid_out(pen, kept, area.w);
  while (height_of(shown) > area.h && drop_one(kept)) shown = laid_out(pen, kept, area.w);
  shorten(shown, area.h);
  int taken = 0;
  for (const Group& g : shown) taken += draw_group(pen, g, {area.x, area.y + taken, area.w, area.h - taken});
  return taken;
}

}  // namespace slip::picture
