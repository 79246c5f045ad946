/* SPDX-License-Identifier: Apache-2.0 */
/* One answer in C99: three grey pictures from memory, as a camera's driver would hand them over, and the car's history as JSON.
 *
 *   hello_c MODEL */
#include <slipstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWidth = 224, kHeight = 196, kStride = 704, kCameras = 3 };

static int on_event(const slip_event* event, void* user) {
  (void)user;
  if (event->kind == SLIP_EVENT_FIELD) printf("%7.1f ms  %s = %s\n", event->elapsed_ms, event->name, event->text);
  return 0; /* go on */
}

/* {"ego": ..., "decoder": "scaffold-spec"}: a car that has driven straight on at 8 m/s. */
static void write_request(char* out, size_t size) {
  size_t at = (size_t)snprintf(out, size, "{\"decoder\": \"scaffold-spec\", \"ego\": {\"intent\": \"GO_STRAIGHT\", \"history\": [");
  for (int i = 0; i < 16; ++i) {
    const double t = -3.75 + 0.25 * i;
    at += (size_t)snprintf(out + at, size - at, "%s[%.2f, %.2f, 0, 8, 0, 0, 0]", i ? ", " : "", t, 8 * t);
  }
  snprintf(out + at, size - at, "]}}");
}

static void print_answer(const slip_answer* answer) {
  size_t count = 0;
  const double* xy = slip_answer_waypoints(answer, &count);
  printf("plan, m:");
  for (size_t i = 0; i < count; ++i) printf(" (%.1f, %.1f)", xy[2 * i], xy[2 * i + 1]);
  slip_statistics statistics = {.size = sizeof statistics};
  if (slip_answer_statistics(answer, &statistics) == SLIP_OK)
    printf("\n%lld tokens in %lld forward passes, %.1f ms\n", (long long)statistics.tokens, (long long)statistics.forwards,
           statistics.total_ms);
}

int main(int argc, char** argv) {
  uint8_t* pixels = malloc((size_t)kStride * kHeight);
  if (!pixels) return SLIP_RESOURCE;
  memset(pixels, 128, (size_t)kStride * kHeight);
  slip_image cameras[kCameras];
  memset(cameras, 0, sizeof cameras);
  for (int i = 0; i < kCameras; ++i) {
    cameras[i].pixels = pixels;
    cameras[i].size = (size_t)kStride * kHeight;
    cameras[i].width = kWidth;
    cameras[i].height = kHeight;
    cameras[i].channels = 3;
    cameras[i].stride = kStride;
  }
  char json[2048];
  write_request(json, sizeof json);
  const slip_request request = {
      .size = sizeof request, .json = json, .images = cameras, .image_count = kCameras, .on_event = on_event};

  slip_engine* engine = NULL;
  slip_answer* answer = NULL;
  slip_status status = slip_engine_load(argc > 1 ? argv[1] : "models/demo", NULL, NULL, NULL, &engine);
  if (status == SLIP_OK) status = slip_engine_answer(engine, &request, &answer);
  if (status == SLIP_OK) {
    print_answer(answer);
  } else {
    fprintf(stderr, "hello_c: %s\n", slip_last_error());
  }
  slip_answer_free(answer);
  slip_engine_free(engine);
  free(pixels);
  return status;
}
