// SPDX-License-Identifier: Apache-2.0
// One answer in C++.
//
//   hello MODEL                                  a simulated scene
//   hello MODEL EGO.json LEFT FRONT RIGHT        the cameras' pictures, in the model's order, and the car's history
#include <slipstream/engine.h>

#include <cstdio>

namespace {

slipstream::Result<slipstream::Request> request_of(int argc, char** argv) {
  if (argc < 4) return slipstream::request_of_scene(900000017);
  slipstream::Request request;
  auto ego = slipstream::read_ego(argv[2]);
  if (!ego) return ego.error();
  request.ego = *ego;
  for (int i = 3; i < argc; ++i) {
    auto image = slipstream::read_image(argv[i]);
    if (!image) return image.error();
    request.images.push_back(*image);
  }
  return request;
}

int fail(const slipstream::Error& error) {
  std::fprintf(stderr, "hello: %s\n", error.message.c_str());
  return static_cast<int>(error.kind);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    std::fprintf(stderr, "hello: expected the cameras' pictures behind EGO.json, got none\n");
    return 2;
  }
  auto engine = slipstream::Engine::load(argc > 1 ? argv[1] : "models/demo");
  if (!engine) return fail(engine.error());
  auto request = request_of(argc, argv);
  if (!request) return fail(request.error());
  request->decoder.preset = "scaffold-spec";

  // Fields are told as they are decided; the answer has them all again.
  auto answer = engine->answer(*request, [](const slipstream::Event& event) {
    if (event.kind == slipstream::Event::Kind::kField)
      std::printf("%7.1f ms  %s = %s\n", event.elapsed_ms, event.field->name.c_str(), event.field->text.c_str());
  });
  if (!answer) return fail(answer.error());

  std::printf("plan, m:");
  for (const auto& [x, y] : answer->trajectory.waypoints) std::printf(" (%.1f, %.1f)", x, y);
  const slipstream::Statistics& s = answer->statistics;
  std::printf("\n%lld tokens in %lld forward passes, %.1f ms\n", static_cast<long long>(s.tokens),
              static_cast<long long>(s.forwards), s.total_ms);
}
