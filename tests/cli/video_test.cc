// SPDX-License-Identifier: Apache-2.0
// `run --video`: folders of frames through the binary. What the rows, features and positions must be: models/video_prompt_test.cc.
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Film : public Demo {
 protected:
  std::string frames(const std::string& name, int count, int width = 84, int height = 56) {
    fs::create_directory(path(name));
    for (int i = 0; i < count; ++i) {
      std::string picture = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
      for (int at = 0; at < width * height * 3; ++at) picture += static_cast<char>((at * 7 + i * 90) % 251);
      write(name + "/" + std::to_string(100 + i) + ".ppm", picture);
    }
    return path(name);
  }
  std::vector<std::string> text(std::initializer_list<std::string> more) {
    // A mark needs a picture: without one the words are the same, and the mark is not there.
    std::vector<std::string> out =
        ask({"--form", "none", "--prompt", more.size() == 0 ? "Before  after." : "Before <image> after."});
    out.insert(out.end(), more);
    return out;
  }
};

TEST_F(Film, OneFrameIsThePictureOfIt) {
  const std::string folder = frames("one", 1);
  const json::value film = run_json(text({"--video", folder})), still = run_json(text({"--image", folder + "/100.ppm"}));
  EXPECT_EQ(film.at("tokens"), still.at("tokens"));
  EXPECT_NE(film.at("tokens"), run_json(text({})).at("tokens"));
}

TEST_F(Film, MoreFramesAreMoreRowsAndStandBehindTheImages) {
  const std::string folder = frames("five", 5);
  const auto rows = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> asked = text(more);
    asked.insert(asked.end(), {"--decoder", "ar", "--max-tokens", "1"});
    return run_json(asked).at("statistics").at("rows").as_int64();
  };
  const std::string still = folder + "/100.ppm";
  const int64_t none = rows({}), one = rows({"--image", still}) - none, five = rows({"--video", folder, "--fps", "4"}) - none;
  EXPECT_EQ(five, 3 * (one - 2) + 2);  // the marks of beginning and end once; frames in pairs
  EXPECT_EQ(rows({"--video", folder, folder, "--image", still}) - none, 2 * five + one);
  expect_driving_answer(run_json(ask({"--video", folder, "--blank-images"})));
}

TEST_F(Film, WhatIsNoFilmIsRefused) {
  refused(text({"--video", path("absent")}), 3, "absent");
  fs::create_directory(path("empty"));
  write("empty/notes.txt", "no frame");
  refused(text({"--video", path("empty")}), 3, "expected frames");
  const std::string folder = frames("two", 2);
  refused(text({"--video", folder, "--fps", "0"}), 3, "frames per second");
  write_ppm("two/300.ppm", 56, 56);
  refused(text({"--video", folder}), 3, "84 x 56");
  write("two/300.ppm", "P6\n84 56\n255\n");
  refused(text({"--video", folder}), 3, "300.ppm");
  refused({"run", "--model", fixture("decode/models/small"), "--form", "none", "--prompt", "go on", "--video", frames("good", 2)},
          4, "videos");
}

}  // namespace
}  // namespace slip::test
