// SPDX-License-Identifier: Apache-2.0
// Layout: a title; cameras above the plan from above at the left; the answer in a column at the right. What the cameras leave of
// the height is the plan's.
#include "picture/picture.h"

#include "picture/parts.h"
#include "picture/text.h"

namespace slip {

using namespace picture;

namespace {

constexpr int kWidth = 1600, kHeight = 900, kMargin = 20, kGap = 12, kHeader = 34, kColumn = 450, kWideColumn = 580,
              kCamerasHeight = 400;
constexpr Colour kBackground{17, 20, 24};

void draw_all(Pen& pen, const PictureInput& in) {
  pen.rectangle(0, 0, kWidth, kHeight, kBackground);
  const int width = in.reasoning.empty() ? kColumn : kWideColumn;
  const int left = kWidth - 2 * kMargin - kGap - width, top = kMargin + kHeader, bottom = kHeight - kMargin;
  const std::string title = plain(in.title.empty() ? "Slipstream" : in.title);
  pen.write(kMargin, kMargin - 2, cut(pen, title, kWidth - 2 * kMargin, kLarge), kBright, kLarge);
  const Box column{kWidth - kMargin - width, top, width, bottom - top};
  pen.rectangle(column.x, column.y, column.w, column.h, kPanel);
  draw_column(pen, in, column);
  const int taken = draw_cameras(pen, in, {kMargin, top, left, kCamerasHeight});
  const int plan_top = taken > 0 ? top + taken + kGap : top;
  draw_plan(pen, in, {kMargin, plan_top, left, bottom - plan_top});
}

}  // namespace

Result<std::string> draw_picture(const PictureInput& in, FigureFormat format) {
  return drawn(format, kWidth, kHeight, [&](cairo_t* c) {
    Pen pen(c, kWidth, kHeight);
    draw_all(pen, in);
  });
}

}  // namespace slip
