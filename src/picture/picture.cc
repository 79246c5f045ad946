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

}  // namespace

Image draw_picture(const PictureInput& in) {
  Image out = blank_image(kWidth, kHeight, kBackground);
  Canvas canvas(out);
  const int width = in.reasoning.empty() ? kColumn : kWideColumn;
  const int left = kWidth - 2 * kMargin - kGap - width, top = kMargin + kHeader, bottom = kHeight - kMargin;
  const std::string title = plain(in.title.empty() ? "Slipstream" : in.title);
  write(canvas, kMargin, kMargin - 2, cut(title, kWidth - 2 * kMargin, kLarge), kBright, kLarge);
  const Box column{kWidth - kMargin - width, top, width, bottom - top};
  canvas.rectangle(column.x, column.y, column.w, column.h, kPanel);
  draw_column(canvas, in, column);
  const int taken = draw_cameras(canvas, in, {kMargin, top, left, kCamerasHeight});
  const int plan_top = taken > 0 ? top + taken + kGap : top;
  draw_plan(canvas, in, {kMargin, plan_top, left, bottom - plan_top});
  return out;
}

}  // namespace slip
