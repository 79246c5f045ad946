// SPDX-License-Identifier: Apache-2.0
// Frames for camera_loop, drawn by the simulator: FRAMES/000/{1,2,3}.ppm and ego.json, every half second.
//
//   make_frames FRAMES [COUNT] [SEED]      COUNT: 4 at most, because a scene goes on for 1.5 s
#include <slipstream/request.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

namespace {

void write_ppm(const fs::path& file, const slipstream::Image& image) {
  std::ofstream out(file, std::ios::binary);
  out << "P6\n" << image.width << " " << image.height << "\n255\n";
  const int64_t row_bytes = image.row_bytes > 0 ? image.row_bytes : int64_t{image.width} * image.channels;
  for (int y = 0; y < image.height; ++y)
    out.write(reinterpret_cast<const char*>(image.pixels + y * row_bytes), int64_t{image.width} * image.channels);
}

void write_ego(const fs::path& file, const slipstream::Ego& ego) {
  std::ofstream out(file);
  out.precision(9);
  out << "{\"intent\": \"" << ego.intent << "\", \"history\": [";
  for (size_t i = 0; i < ego.history_4hz.size(); ++i) {
    const slipstream::EgoState& s = ego.history_4hz[i];
    out << (i ? ", [" : "[") << s.t_s << ", " << s.x << ", " << s.y << ", " << s.vx << ", " << s.vy << ", " << s.ax << ", " << s.ay
        << "]";
  }
  out << "]}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "make_frames: expected a folder to write, got none\n");
    return 2;
  }
  const int count = argc > 2 ? std::atoi(argv[2]) : 4;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 900000017;
  for (int i = 0; i < count; ++i) {
    auto request = slipstream::request_of_scene(seed, 0.5 * i);
    if (!request) {
      std::fprintf(stderr, "make_frames: %s\n", request.error().message.c_str());
      return static_cast<int>(request.error().kind);
    }
    char name[16];
    std::snprintf(name, sizeof name, "%03d", i);
    const fs::path folder = fs::path(argv[1]) / name;
    fs::create_directories(folder);
    for (size_t k = 0; k < request->images.size(); ++k) write_ppm(folder / (std::to_string(k + 1) + ".ppm"), request->images[k]);
    if (request->ego) write_ego(folder / "ego.json", *request->ego);
  }
}
