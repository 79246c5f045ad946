// SPDX-License-Identifier: Apache-2.0
// What is made of a request's words before the model sees them, and of its own words before a person does: marks for pictures, stop texts,
// half characters, plans that no car could follow.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "engine/conversation.h"
#include "engine/plan_check.h"
#include "engine/text_end.h"

namespace slip {
namespace {

// "I" an image, "V" a video, text as it is, "|" between messages.
std::string shape(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& m : messages) {
    out += out.empty() ? "" : "|";
    for (const ContentItem& item : m.content)
      out += std::holds_alternative<ImageItem>(item)   ? "I"
             : std::holds_alternative<VideoItem>(item) ? "V"
                                                       : std::get<TextItem>(item).text;
  }
  return out;
}

std::string placed(const std::vector<ChatTurn>& turns, size_t images, size_t videos) {
  const auto messages = messages_of(turns, images, videos);
  return messages ? shape(*messages) : messages.error().message;
}

TEST(Marks, EachTakesItsOwnPicture) {
  EXPECT_EQ(placed({{"user", "a <image> b <image> c"}}, 2, 0), "a I b I c");
  EXPECT_EQ(placed({{"user", "a <image> b <video> c <image>"}}, 2, 1), "a I b V c I");
  EXPECT_EQ(placed({{"system", "s"}, {"user", "a <image>"}, {"assistant", "b"}, {"user", "<image> c"}}, 2, 0), "s|a I|b|I c");
}

TEST(Marks, OneTakesAllPictures) {
  EXPECT_EQ(placed({{"user", "a <image> b"}}, 3, 0), "a III b");
  EXPECT_EQ(placed({{"user", "a <image> b"}}, 1, 2), "a IVV b");
  EXPECT_EQ(placed({{"user", "a <image> b"}}, 0, 1), "a V b");
}

TEST(Marks, WithoutAnyPicturesStandInFrontOfTheFirstUsersText) {
  EXPECT_EQ(placed({{"system", "s"}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}}, 2, 1), "s|IIVa|b|c");
  EXPECT_EQ(placed({{"user", "a"}}, 0, 0), "a");
}

TEST(Marks, OtherNumbersAreRefused) {
  for (const auto& [text, images, videos] : {std::tuple{"a <image> <image>", 3, 0},
                                             {"<image> <image> <image>", 2, 0},
                                             {"<image>", 0, 0},
                                             {"<video>", 1, 0},
                                             {"<video> <video>", 0, 3},
                                             {"<image> <image>", 1, 1}}) {
    const auto messages =
        messages_of(std::vector<ChatTurn>{{"user", text}}, static_cast<size_t>(images), static_cast<size_t>(videos));
    ASSERT_FALSE(messages) << text;
    EXPECT_EQ(messages.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(messages.error().message.find("prompt: expected "), std::string::npos) << messages.error().message;
  }
}

TEST(HeldText, ShowsNothingOfAStopHoweverItComes) {
  const std::string text = "one two STOOP three STOP four";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    HeldText held({"STOP", "OPERA"});
    std::string shown;
    for (size_t at = 0; at < text.size(); at += piece) shown += held.push(text.substr(at, piece));
    EXPECT_EQ(shown + held.flush(), "one two STOOP three ") << piece;
  }
  HeldText none({"STOP"});
  EXPECT_EQ(none.push("abc ST"), "abc ");
  EXPECT_EQ(none.flush(), "ST");
}

TEST(WholeCharacters, LeaveHalfOnesOut) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x9A\x97";  // a, two bytes, three, four
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t n = 0; n <= text.size(); ++n) EXPECT_EQ(whole_characters(std::string_view(text).substr(0, n)).size(), ends[n]) << n;
  EXPECT_EQ(whole_characters("\x80\x80\x80").size(), 3U) << "what begins nothing is not half of something";
}

Trajectory straight(double speed_mps) {
  Trajectory out;
  for (int i = 1; i <= 20; ++i) out.points.push_back({speed_mps * i / 4, 0});
  return out;
}

TEST(PlanCheck, TellsWhatACarCannotDo) {
  EXPECT_TRUE(why_infeasible(straight(10), Waypoint{10, 0}).empty());
  EXPECT_TRUE(why_infeasible(straight(0), Waypoint{0, 0}).empty());
  EXPECT_TRUE(why_infeasible(straight(-31), {}).empty()) << "nothing is known of the speed";
  const auto backwards = why_infeasible(straight(-31), Waypoint{8, 0});
  ASSERT_EQ(backwards.size(), 1U);
  EXPECT_TRUE(backwards[0].starts_with("reach: expected a place within ")) << backwards[0];
  Trajectory jumps = straight(10);
  jumps.points[7].x += 20;
  EXPECT_TRUE(why_infeasible(jumps, Waypoint{10, 0}).front().starts_with("acceleration: expected at most 9.8 m/s^2, got "));
  Trajectory turns;
  for (int i = 1; i <= 20; ++i) turns.points.push_back({std::sin(i * 0.5), 1 - std::cos(i * 0.5)});  // a circle of 1 m
  bool curved = false;
  for (const std::string& why : why_infeasible(turns, {})) curved |= why.starts_with("curvature: expected at most 0.2 1/m, got ");
  EXPECT_TRUE(curved);
}

}  // namespace
}  // namespace slip
