/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface from C99, against the shared library: what it promises of null, garbage, images, events and cancellation.
 *
 *   c_api_test MODEL_FOLDER */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slipstream.h"

static int failures = 0;

static void check_that(int holds, const char* what, int line) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "c_api_test.c:%d: %s does not hold (last error: %s)\n", line, what, slip_last_error());
}
#define CHECK(cond) check_that((cond) != 0, #cond, __LINE__)

static const char kScene[] = "{\"scene\": 900000017, \"decoder\": \"scaffold-spec\"}";

static slip_status ask(slip_engine* engine, const char* json, slip_answer** answer) {
  const slip_request request = {.size = sizeof request, .json = json};
  return slip_engine_answer(engine, &request, answer);
}

static void refuses_null_everywhere(slip_engine* engine) {
  slip_engine* no_engine = engine;
  slip_answer* no_answer = (slip_answer*)engine;
  slip_field field;
  size_t count = 7;
  CHECK(slip_engine_load(NULL, NULL, NULL, NULL, &no_engine) == SLIP_USAGE && no_engine == NULL);
  CHECK(slip_engine_load("", NULL, NULL, NULL, &no_engine) == SLIP_USAGE);
  CHECK(slip_engine_load("x", NULL, NULL, NULL, NULL) == SLIP_USAGE);
  CHECK(slip_engine_info(NULL) == NULL);
  CHECK(ask(NULL, kScene, &no_answer) == SLIP_USAGE && no_answer == NULL);
  CHECK(slip_engine_answer(engine, NULL, &no_answer) == SLIP_USAGE);
  CHECK(ask(engine, kScene, NULL) == SLIP_USAGE);
  CHECK(slip_answer_text(NULL) == NULL && slip_answer_json(NULL) == NULL && slip_answer_trace(NULL) == NULL);
  CHECK(slip_answer_valid(NULL) == 0 && slip_answer_exact(NULL) == 0 && slip_answer_field_count(NULL) == 0);
  CHECK(slip_answer_field(NULL, 0, &field) == SLIP_USAGE && field.name == NULL);
  CHECK(slip_answer_field_named(NULL, "x", &field) == SLIP_USAGE);
  CHECK(slip_answer_waypoints(NULL, &count) == NULL && count == 0);
  CHECK(slip_answer_points(NULL, NULL) == NULL && slip_answer_action(NULL, NULL) == NULL);
  CHECK(slip_answer_statistics(NULL, NULL) == SLIP_USAGE);
  CHECK(slip_answer_png(NULL, NULL, NULL) == SLIP_USAGE);
  CHECK(slip_cancel_new(NULL) == SLIP_USAGE);
  slip_engine_free(NULL);
  slip_answer_free(NULL);
  slip_cancel_free(NULL);
  slip_cancel_now(NULL);
}

static void refuses_handles_of_another_kind(slip_engine* engine) {
  slip_answer* answer = NULL;
  slip_cancel* cancel = NULL;
  CHECK(slip_cancel_new(&cancel) == SLIP_OK && cancel != NULL);
  CHECK(ask((slip_engine*)cancel, kScene, &answer) == SLIP_USAGE);
  CHECK(slip_answer_text((slip_answer*)cancel) == NULL);
  CHECK(slip_engine_info((slip_engine*)cancel) == NULL);
  slip_request request = {.size = sizeof request, .json = kScene, .cancel = (slip_cancel*)engine};
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_USAGE);
  slip_engine_free((slip_engine*)cancel); /* left alone */
  slip_cancel_free(cancel);
}

/* One line of valid UTF-8, whatever the caller's words are. */
static void tells_in_one_line(slip_engine* engine) {
  slip_answer* answer = NULL;
  slip_engine* none = NULL;
  CHECK(ask(engine, "{\"scene\": 5, \"decoder\": \"a\\nb\\u0000c\"}", &answer) != SLIP_OK);
  CHECK(strchr(slip_last_error(), '\n') == NULL && strstr(slip_last_error(), "\\x0a") != NULL);
  CHECK(slip_engine_load("no\xff\n", NULL, NULL, NULL, &none) != SLIP_OK && none == NULL);
  CHECK(strchr(slip_last_error(), '\xff') == NULL && strchr(slip_last_error(), '\n') == NULL);
}

static void refuses_requests_that_are_none(slip_engine* engine) {
  static const char* const kDocuments[] = {"{",
                                           "[]",
                                           "7",
                                           "\"text\"",
                                           "{\"no_such_key\": 1}",
                                           "{\"seed\": -1}",
                                           "{\"seed\": 1.5}",
                                           "{\"top_k\": 3000000000}",
                                           "{\"top_k\": \"many\"}",
                                           "{\"temperature\": 1e999}",
                                           "{\"ego\": {}}",
                                           "{\"ego\": 3}",
                                           "{\"record\": \"/no/such/set:0\"}",
                                           "{\"scene\": 1, \"record\": \"a:0\"}",
                                           "{\"image_files\": [\"/no/such/file.png\"]}",
                                           "{\"image_files\": [\"-\"]}",
                                           "{\"deadline_ms\": -1, \"scene\": 1}",
                                           "{\"schema\": \"no\"}",
                                           "{\"scene\": 1, \"schema\": {\"type\": \"object\", \"type\": \"array\"}}",
                                           "{\"section_temperatures\": {\"a\": \"b\"}}",
                                           "\xff\xfe{}",
                                           "{\"scene\": 1, \"decoder\": \"no-such-decoder\"}",
                                           "{\"scene\": 1, \"form\": \"no-such-form\"}",
                                           "{\"scene\": 1, \"previous_answer\": \"a text\"}",
                                           "{\"scene\": 1, \"previous_answer\": {}}",
                                           "{\"scene\": 1, \"previous_answer\": {\"tokens\": []}}",
                                           "{\"scene\": 1, \"previous_answer\": {}, \"drafter\": \"lookup\"}"};
  for (size_t i = 0; i < sizeof kDocuments / sizeof *kDocuments; ++i) {
    slip_answer* answer = (slip_answer*)engine;
    const slip_status status = ask(engine, kDocuments[i], &answer);
    if (status != SLIP_BAD_INPUT && status != SLIP_USAGE) fprintf(stderr, "%s gave %d\n", kDocuments[i], (int)status);
    CHECK(status == SLIP_BAD_INPUT || status == SLIP_USAGE);
    CHECK(answer == NULL && slip_last_error()[0] != '\0');
  }
}

static void takes_requests_of_other_sizes(slip_engine* engine) {
  struct {
    slip_request known;
    uint64_t later[4];
  } larger;
  slip_answer* answer = NULL;
  memset(&larger, 0, sizeof larger);
  larger.known.json = kScene;
  larger.known.size = sizeof larger;
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_OK);
  slip_answer_free(answer);
  larger.later[3] = 1;
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_USAGE);
  larger.known.size = 2 * sizeof(size_t);
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_OK);
  slip_answer_free(answer);
  larger.known.size = 12; /* within a member */
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_USAGE);
  CHECK(strstr(slip_last_error(), "got 12") != NULL);
  larger.known.size = 0;
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_USAGE);
  larger.known.size = (size_t)-1;
  CHECK(slip_engine_answer(engine, &larger.known, &answer) == SLIP_USAGE);
}

enum { kWidth = 224, kHeight = 196, kStride = 700, kCameras = 3 };

static uint8_t* noise(int stride, uint32_t seed) {
  uint8_t* out = calloc((size_t)stride, kHeight);
  uint32_t state = seed * 2654435761u + 1;
  if (!out) exit(SLIP_RESOURCE);
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < 3 * kWidth; ++x) {
      state = state * 1664525u + 1013904223u;
      out[y * stride + x] = (uint8_t)(state >> 24);
    }
  return out;
}

static void write_ego(char* out, size_t size) {
  size_t at = (size_t)snprintf(out, size, "{\"ego\": {\"intent\": \"GO_STRAIGHT\", \"history\": [");
  for (int i = 0; i < 16; ++i)
    at += (size_t)snprintf(out + at, size - at, "%s[%.2f, %d, 0, 8, 0, 0, 0]", i ? ", " : "", -3.75 + 0.25 * i, 2 * i - 30);
  snprintf(out + at, size - at, "]}}");
}

static slip_answer* answer_of_pictures(slip_engine* engine, int stride) {
  slip_image images[kCameras];
  uint8_t* pixels[kCameras];
  char json[2048];
  slip_answer* answer = NULL;
  memset(images, 0, sizeof images);
  for (int i = 0; i < kCameras; ++i) {
    pixels[i] = noise(stride, (uint32_t)i);
    images[i].pixels = pixels[i];
    images[i].size = (size_t)stride * (kHeight - 1) + 3 * kWidth;
    images[i].width = kWidth;
    images[i].height = kHeight;
    images[i].channels = 3;
    images[i].stride = stride == 3 * kWidth ? 0 : stride;
  }
  write_ego(json, sizeof json);
  const slip_request request = {.size = sizeof request, .json = json, .images = images, .image_count = kCameras};
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_OK);
  for (int i = 0; i < kCameras; ++i) free(pixels[i]);
  return answer;
}

static void reads_rows_by_their_stride(slip_engine* engine) {
  slip_answer* dense = answer_of_pictures(engine, 3 * kWidth);
  slip_answer* padded = answer_of_pictures(engine, kStride);
  CHECK(dense && padded && strcmp(slip_answer_text(dense), slip_answer_text(padded)) == 0);
  slip_answer_free(dense);
  slip_answer_free(padded);
}

static void refuses_images_that_are_none(slip_engine* engine) {
  static uint8_t pixels[64 * 64 * 3];
  const slip_image good = {.pixels = pixels, .size = sizeof pixels, .width = 64, .height = 64, .channels = 3};
  slip_image bad[10];
  char json[2048];
  write_ego(json, sizeof json);
  for (size_t i = 0; i < 10; ++i) bad[i] = good;
  bad[0].pixels = NULL;
  bad[1].size = sizeof pixels - 1;
  bad[2].width = 0;
  bad[3].height = -1;
  bad[4].channels = 2;
  bad[5].stride = 191;
  bad[6].stride = INT64_MAX;
  bad[7].width = INT32_MAX;
  bad[8].reserved = 1;
  bad[9].stride = INT64_MIN;
  for (size_t i = 0; i < 10; ++i) {
    slip_answer* answer = NULL;
    const slip_request request = {.size = sizeof request, .json = json, .images = &bad[i], .image_count = 1};
    CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_BAD_INPUT && answer == NULL);
  }
  slip_answer* answer = NULL;
  const slip_request nowhere = {.size = sizeof nowhere, .json = json, .image_count = 3};
  CHECK(slip_engine_answer(engine, &nowhere, &answer) == SLIP_USAGE);
}

typedef struct {
  int fields, passes, stop_after;
  char names[4096];
} seen_events;

static int see(const slip_event* event, void* user) {
  seen_events* seen = user;
  if (event->kind == SLIP_EVENT_PASS) ++seen->passes;
  if (event->kind == SLIP_EVENT_FIELD) {
    ++seen->fields;
    strncat(seen->names, event->name, sizeof seen->names - strlen(seen->names) - 1);
    strncat(seen->names, ";", sizeof seen->names - strlen(seen->names) - 1);
  }
  return seen->stop_after > 0 && seen->passes >= seen->stop_after;
}

static void tells_each_field_once(slip_engine* engine) {
  seen_events seen = {.stop_after = 0};
  slip_answer* answer = NULL;
  const slip_request request = {.size = sizeof request, .json = kScene, .on_event = see, .user = &seen};
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_OK);
  CHECK((size_t)seen.fields == slip_answer_field_count(answer) && seen.passes > 1);
  for (size_t i = 0; i < slip_answer_field_count(answer); ++i) {
    slip_field field, same;
    CHECK(slip_answer_field(answer, i, &field) == SLIP_OK && strstr(seen.names, field.name) != NULL);
    CHECK(slip_answer_field_named(answer, field.name, &same) == SLIP_OK && same.json == field.json);
  }
  slip_answer_free(answer);
}

typedef struct {
  int events, refuse_at; /* refuse_at 0: none is refused */
} counted_events;

static int count_events(const slip_event* event, void* user) {
  counted_events* counted = user;
  (void)event;
  return ++counted->events == counted->refuse_at;
}

/* Behind the last event nothing is left to stop: the refusal counts all the same. */
static void a_refusal_counts_up_to_the_last_event(slip_engine* engine) {
  counted_events all = {.events = 0};
  slip_answer* answer = NULL;
  slip_request request = {.size = sizeof request, .json = kScene, .on_event = count_events, .user = &all};
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_OK && all.events > 1);
  slip_answer_free(answer);
  for (int back = 0; back < 3; ++back) {
    counted_events seen = {.refuse_at = all.events - back};
    request.user = &seen;
    CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_CANCELLED && answer == NULL);
  }
}

static void gives_what_the_answer_holds(slip_engine* engine) {
  slip_answer* answer = NULL;
  slip_field field;
  size_t count = 0;
  CHECK(ask(engine, "{\"scene\": 900000017, \"trace\": true}", &answer) == SLIP_OK);
  CHECK(slip_answer_valid(answer) == 1 && slip_answer_text(answer)[0] == '{');
  CHECK(strstr(slip_answer_json(answer), "\"answer\"") != NULL && strchr(slip_answer_json(answer), '\n') == NULL);
  CHECK(slip_answer_trace(answer) != NULL);
  CHECK(slip_answer_field(answer, slip_answer_field_count(answer), &field) == SLIP_USAGE && field.name == NULL);
  CHECK(slip_answer_field_named(answer, "no such field", &field) == SLIP_USAGE);
  CHECK(slip_answer_field_named(answer, NULL, &field) == SLIP_USAGE);
  CHECK(slip_answer_waypoints(answer, &count) != NULL && count == 5);
  CHECK(slip_answer_points(answer, &count) != NULL && count == 20);
  CHECK(slip_answer_action(answer, &count) == NULL && count == 0);
  CHECK(slip_answer_rollout(answer, 0, &count) == NULL && count == 0);
  slip_statistics all = {.size = sizeof all}, few = {.size = 2 * sizeof(size_t), .rounds = -7}, none = {.size = 0};
  CHECK(slip_answer_statistics(answer, &all) == SLIP_OK && all.forwards > 0 && all.tokens > 0 && all.total_ms > 0);
  CHECK(slip_answer_statistics(answer, &few) == SLIP_OK && few.forwards == all.forwards && few.rounds == -7);
  CHECK(slip_answer_statistics(answer, &none) == SLIP_USAGE);
  const uint8_t* png = NULL;
  CHECK(slip_answer_png(answer, &png, &count) == SLIP_OK && count > 8 && memcmp(png, "\x89PNG", 4) == 0);
  slip_answer_free(answer);
}

/* Each rollout's own waypoints; the first are the answer's. */
static void rollouts_have_waypoints_of_their_own(slip_engine* engine) {
  slip_answer* answer = NULL;
  size_t count = 0, of = 0;
  CHECK(ask(engine, "{\"scene\": 900000017, \"rollouts\": 3, \"temperature\": 1.0, \"log_probs\": true, \"top_log_probs\": 2}", &answer) == SLIP_OK);
  const double* own = slip_answer_waypoints(answer, &count);
  for (size_t r = 0; r < 3; ++r) {
    const double* waypoints = slip_answer_rollout(answer, r, &of);
    CHECK(waypoints != NULL && of == count);
    CHECK(r > 0 || memcmp(waypoints, own, 2 * count * sizeof(double)) == 0);
  }
  CHECK(slip_answer_rollout(answer, 3, &of) == NULL && of == 0);
  CHECK(slip_answer_rollout(NULL, 0, &of) == NULL && of == 0);
  CHECK(strstr(slip_answer_json(answer), "\"top\":[[{\"id\":") != NULL);
  slip_answer_free(answer);
}

/* The same answer again, drafted by itself: the same text in fewer passes. */
static void drafts_from_an_earlier_answer(slip_engine* engine) {
  slip_answer *first = NULL, *again = NULL, *drawn = NULL;
  slip_statistics slow = {.size = sizeof slow}, quick = {.size = sizeof quick};
  CHECK(ask(engine, kScene, &first) == SLIP_OK && slip_answer_exact(first) == 1);
  const char* document = slip_answer_json(first);
  const size_t size = (document ? strlen(document) : 0) + 128;
  char* json = malloc(size);
  if (!json || !document) exit(SLIP_RESOURCE);
  snprintf(json, size, "{\"scene\": 900000017, \"decoder\": \"scaffold-spec\", \"previous_answer\": %s}", document);
  CHECK(ask(engine, json, &again) == SLIP_OK && slip_answer_exact(again) == 1);
  CHECK(strcmp(slip_answer_text(first), slip_answer_text(again)) == 0);
  CHECK(slip_answer_statistics(first, &slow) == SLIP_OK && slip_answer_statistics(again, &quick) == SLIP_OK);
  CHECK(2 * quick.forwards < slow.forwards);
  CHECK(ask(engine, "{\"scene\": 900000017, \"verifier\": \"rejection\", \"temperature\": 0.8}", &drawn) == SLIP_OK);
  CHECK(slip_answer_exact(drawn) == 0 && strstr(slip_answer_json(drawn), "\"lossy\":false,\"exact\":false") != NULL);
  free(json);
  slip_answer_free(first);
  slip_answer_free(again);
  slip_answer_free(drawn);
}

static void* cancel_soon(void* cancel) {
  const struct timespec wait = {0, 20000000};
  nanosleep(&wait, NULL);
  slip_cancel_now(cancel);
  return NULL;
}

static void stops(slip_engine* engine) {
  static const char kLong[] = "{\"scene\": 1, \"decoder\": \"ar\", \"rollouts\": 8, \"temperature\": 1}";
  slip_answer* answer = NULL;
  slip_cancel* cancel = NULL;
  pthread_t thread;
  CHECK(slip_cancel_new(&cancel) == SLIP_OK);
  slip_request request = {.size = sizeof request, .json = kLong, .cancel = cancel};
  CHECK(pthread_create(&thread, NULL, cancel_soon, cancel) == 0);
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_CANCELLED && answer == NULL);
  pthread_join(thread, NULL);
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_CANCELLED); /* for good */
  slip_cancel_free(cancel);
  CHECK(ask(engine, "{\"scene\": 1, \"deadline_ms\": 0}", &answer) == SLIP_CANCELLED);
  seen_events seen = {.stop_after = 3};
  request = (slip_request){.size = sizeof request, .json = kLong, .on_event = see, .user = &seen};
  CHECK(slip_engine_answer(engine, &request, &answer) == SLIP_CANCELLED && seen.passes < 100);
  CHECK(ask(engine, kScene, &answer) == SLIP_OK);
  slip_answer_free(answer);
}

/* Documents of pieces put together at random: a status and a message each, and no answer, as the handle is cancelled from the first. */
static void survives_garbage(slip_engine* engine) {
  static const char* const kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"seed\"",
                                        "\"ego\"",
                                        "\"history\"",
                                        "\"scene\"",
                                        "\"form\"",
                                        "null",
                                        "true",
                                        "-1",
                                        "0",
                                        "1e308",
                                        "18446744073709551616",
                                        "\"\"",
                                        "\"model\"",
                                        "\"schema\"",
                                        "\x80",
                                        " "};
  slip_cancel* cancel = NULL;
  uint32_t state = 1;
  CHECK(slip_cancel_new(&cancel) == SLIP_OK);
  slip_cancel_now(cancel);
  for (int round = 0; round < 20000; ++round) {
    char json[512] = "{";
    for (int i = 0; i < 1 + round % 24; ++i) {
      state = state * 1664525u + 1013904223u;
      strncat(json, kPieces[(state >> 16) % (sizeof kPieces / sizeof *kPieces)], sizeof json - strlen(json) - 1);
    }
    if (round % 3 == 0) strncat(json, "}", sizeof json - strlen(json) - 1);
    slip_answer* answer = NULL;
    const slip_request request = {.size = sizeof request, .json = json, .cancel = cancel};
    CHECK(slip_engine_answer(engine, &request, &answer) != SLIP_OK && answer == NULL);
    slip_engine* none = NULL;
    CHECK(slip_engine_load("/no/such/folder", json, NULL, NULL, &none) != SLIP_OK && none == NULL);
  }
  slip_cancel_free(cancel);
}

static void note_progress(const char* stage, int64_t done, int64_t total, void* user) {
  (void)total;
  if (strcmp(stage, "loading") == 0 && done >= 0) ++*(int*)user;
}

int main(int argc, char** argv) {
  slip_engine *engine = NULL, *other = NULL;
  int told = 0;
  CHECK(slip_abi_version() == 0);
  CHECK(strchr(slip_version(), '.') != NULL);
  CHECK(strcmp(slip_last_error(), "") == 0);
  CHECK(slip_engine_load("/no/such/folder", NULL, NULL, NULL, &engine) == SLIP_BAD_INPUT && engine == NULL);
  CHECK(strstr(slip_last_error(), "/no/such/folder") != NULL);
  CHECK(slip_engine_load(argv[argc - 1], "{\"dtype\": \"f64\"}", NULL, NULL, &engine) != SLIP_OK);
  CHECK(slip_engine_load(argv[argc - 1], "{\"threads\": \"all\"}", NULL, NULL, &engine) == SLIP_BAD_INPUT);
  if (slip_engine_load(argv[argc - 1], "{\"threads\": 2}", note_progress, &told, &engine) != SLIP_OK) {
    fprintf(stderr, "c_api_test: %s\n", slip_last_error());
    return 1;
  }
  CHECK(told > 0 && strstr(slip_engine_info(engine), "\"visibility\":\"chain\"") != NULL);
  refuses_null_everywhere(engine);
  refuses_handles_of_another_kind(engine);
  tells_in_one_line(engine);
  refuses_requests_that_are_none(engine);
  takes_requests_of_other_sizes(engine);
  reads_rows_by_their_stride(engine);
  refuses_images_that_are_none(engine);
  tells_each_field_once(engine);
  a_refusal_counts_up_to_the_last_event(engine);
  gives_what_the_answer_holds(engine);
  rollouts_have_waypoints_of_their_own(engine);
  drafts_from_an_earlier_answer(engine);
  stops(engine);
  survives_garbage(engine);
  slip_answer* answer = NULL;
  CHECK(slip_engine_load(argv[argc - 1], NULL, NULL, NULL, &other) == SLIP_OK);
  CHECK(ask(other, kScene, &answer) == SLIP_OK);
  slip_engine_free(other);
  slip_engine_free(engine);
  CHECK(slip_answer_text(answer)[0] == '{'); /* answers live on */
  slip_answer_free(answer);
  if (failures == 0) printf("c_api_test: all promises hold\n");
  return failures == 0 ? 0 : 1;
}
