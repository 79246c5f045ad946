// SPDX-License-Identifier: Apache-2.0
// A camera loop without a robot's framework: every folder of FRAMES is a moment, with the cameras' pictures in the model's order (by name) and
// ego.json. Each answer is the next one's draft: what did not change is verified, not decoded again. make_frames writes such folders.
//
//   camera_loop MODEL FRAMES [DECODER]
#include <slipstream/engine.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

int fail(const slipstream::Error& error) {
  std::fprintf(stderr, "camera_loop: %s\n", error.message.c_str());
  return static_cast<int>(error.kind);
}

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

slipstream::Result<slipstream::Request> read_frame(const fs::path& folder) {
  slipstream::Request request;
  for (const fs::path& file : sorted(folder)) {
    if (file.extension() == ".json") {
      auto ego = slipstream::read_ego(file.string());
      if (!ego) return ego.error();
      request.ego = *ego;
    } else {
      auto image = slipstream::read_image(file.string());
      if (!image) return image.error();
      request.images.push_back(*image);
    }
  }
  return request;
}

void print(const std::string& frame, const slipstream::Answer& answer) {
  const slipstream::Statistics& s = answer.statistics;
  std::printf("%s  %6.1f ms  %3lld passes  %3lld/%3lld drafts held ", frame.c_str(), s.total_ms, static_cast<long long>(s.forwards),
              static_cast<long long>(s.accepted), static_cast<long long>(s.tested));
  for (const auto& [x, y] : answer.trajectory.waypoints) std::printf(" (%.1f, %.1f)", x, y);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || !fs::is_directory(argv[2])) {
    std::fprintf(stderr, "camera_loop: expected MODEL FRAMES, got no folder of frames\n");
    return 2;
  }
  auto engine = slipstream::Engine::load(argv[1]);
  if (!engine) return fail(engine.error());
  std::string previous;
  for (const fs::path& frame : sorted(argv[2])) {
    auto request = read_frame(frame);
    if (!request) return fail(request.error());
    request->decoder.preset = argc > 3 ? argv[3] : "scaffold-spec";
    request->previous_answer = previous;
    auto answer = engine->answer(*request);
    if (!answer) return fail(answer.error());
    print(frame.filename().string(), *answer);
    previous = answer->to_json();
  }
}
