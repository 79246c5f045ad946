// SPDX-License-Identifier: Apache-2.0
// Promises of charts: round ticks, files of the kind that their name says, words for what cannot be drawn.
#include "plot/chart.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/folder_testing.h"
#include "plot/map.h"

namespace slip {
namespace {

TEST(Ticks, AreRoundAndWithinTheRange) {
  EXPECT_EQ(ticks(0, 1600, 8), (std::vector<double>{0, 200, 400, 600, 800, 1000, 1200, 1400, 1600}));
  EXPECT_EQ(ticks(0, 1, 5).size(), 6U);
  EXPECT_TRUE(ticks(1, 1, 5).empty());
}

#ifdef SLIP_CAIRO
TEST(Chart, IsWrittenAsItsNameSays) {
  const Chart chart{"a title", "latency", "score", {{"expert", {{0, 0.9, 0.8, 1.0}, {100, 0.7, {}, {}}}, true}}};
  const test::TemporaryFolder folder;
  const std::string at = folder.path.string() + "/", png = at + "chart.png", svg = at + "chart.svg";
  ASSERT_TRUE(draw_chart(chart, png));
  ASSERT_TRUE(draw_chart(chart, svg));
  EXPECT_EQ(read_file(png)->substr(1, 3), "PNG");
  EXPECT_NE(read_file(svg)->find("<svg"), std::string::npos);
  EXPECT_EQ(draw_chart(chart, at + "chart.gif").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(draw_chart({}, png).error().kind, ErrorKind::kBadInput);
  const MapView view{.title = "a map",
                     .shapes = {{.points = {{0, 0}, {10, 0}, {10, 5}}, .closed = true, .fill = MapColour{0.8, 0.8, 0.8}},
                                {.points = {{0, 1}, {9, 1}}, .stroke = MapColour{0, 0, 1}}},
                     .legend = {{{0, 0, 1}, "a line"}},
                     .x_low = -1,
                     .x_high = 11,
                     .y_low = -1,
                     .y_high = 6};
  ASSERT_TRUE(draw_map(view, png));
  EXPECT_EQ(read_file(png)->substr(1, 3), "PNG");
  EXPECT_EQ(draw_map({.x_high = 0}, png).error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(draw_map(view, at + "map.gif").error().kind, ErrorKind::kUsage);
  EXPECT_FALSE(draw_chart(chart, png + "/chart.png"));
}
#endif

}  // namespace
}  // namespace slip
