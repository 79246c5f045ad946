/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The C interface: a model folder is loaded once and answers requests. C99, and C++. What a program built against version 0 calls stays as it
 * is while slip_abi_version() gives 0: functions, options and keys are added, not changed.
 *
 *   slip_engine *engine = NULL;
 *   if (slip_engine_load("models/demo", NULL, NULL, NULL, &engine) != SLIP_OK) return fail(slip_last_error());
 *   slip_request request = {.size = sizeof request, .json = "{\"ego\": ...}", .images = cameras, .image_count = 3};
 *   slip_answer *answer = NULL;
 *   if (slip_engine_answer(engine, &request, &answer) == SLIP_OK) puts(slip_answer_json(answer));
 *   slip_answer_free(answer);
 *   slip_engine_free(engine);
 *
 * Texts are UTF-8 and end with a zero byte; what a function gives out belongs to the handle it came from, until that is freed. A null
 * pointer, an unknown key or a number out of range is refused with SLIP_USAGE or SLIP_BAD_INPUT. No exception leaves the library. Handles of
 * the wrong kind are refused; those that were freed are not noticed. */
#ifndef SLIPSTREAM_H
#define SLIPSTREAM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SLIP_API __attribute__((visibility("default")))
#else
#define SLIP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What came of a call; the same numbers as the command line's exit codes. */
typedef int32_t slip_status;
enum {
  SLIP_OK = 0,
  SLIP_INTERNAL = 1,     /**< the library is wrong */
  SLIP_USAGE = 2,        /**< an option or argument */
  SLIP_BAD_INPUT = 3,    /**< a file or a request */
  SLIP_UNSUPPORTED = 4,  /**< valid, but not done here */
  SLIP_RESOURCE = 5,     /**< memory or device */
  SLIP_CHECK_FAILED = 6, /**< a check that was asked for */
  SLIP_CANCELLED = 130   /**< slip_cancel, a deadline, a callback */
};

typedef struct slip_engine slip_engine; /**< a loaded model */
typedef struct slip_answer slip_answer; /**< a finished answer; never changes */
typedef struct slip_cancel slip_cancel; /**< says that nobody waits any more */

/** The number of this interface: 0. It grows when something that a program may rely on goes away or changes. */
SLIP_API uint32_t slip_abi_version(void);
/** The library's version: "0.1.0". */
SLIP_API const char* slip_version(void);
/** Why the last call of this thread that gave a status other than SLIP_OK did so: one line, "<thing>: expected <x>, got <y>". Never null; ""
 * before the first one. Holds until the next such call of this thread. */
SLIP_API const char* slip_last_error(void);

/** Long work tells how far it is: `done` of `total` (0: not known) of a stage ("loading"). */
typedef void (*slip_on_progress)(const char* stage, int64_t done, int64_t total, void* user);

/** Loads a model folder. `options`: null, or a JSON object with any of "dtype" ("auto", "f32", "bf16", "int8", "int4"), "kv" ("auto", "f32",
 * "bf16", "int8"), "device" ("cpu", "cuda:0"), "threads" (0: every core), "slots" (rows of the key/value cache; 0: 4096) and "trajectory_head" (a
 * folder, loaded with the model). `on_progress` may be null; it is called on this thread. On failure *engine is null. */
SLIP_API slip_status slip_engine_load(const char* folder, const char* options, slip_on_progress on_progress, void* user,
                                      slip_engine** engine);
/** What was loaded, as a JSON object: folder, model_type, dtype, kv, device, vocab, hidden_size, slots, positions, vision, can_draft,
 * draft_adapter, form, visibility. Null for a null handle. */
SLIP_API const char* slip_engine_info(const slip_engine* engine);
/** Null is ignored. No call on the engine may be under way; answers live on. */
SLIP_API void slip_engine_free(slip_engine* engine);

/** 8-bit pixels, rows from top to bottom, channels interleaved. The memory stays the caller's, and is read until
 * slip_engine_answer returns. */
typedef struct slip_image {
  const uint8_t* pixels;
  size_t size;      /**< bytes that may be read: at least (height - 1) * stride + width * channels */
  int32_t width;    /**< pixels */
  int32_t height;   /**< rows */
  int32_t channels; /**< 1: grey, 3: RGB, 4: RGBA */
  int32_t reserved; /**< 0 */
  int64_t stride;   /**< bytes from row to row; 0: width * channels */
} slip_image;

enum { SLIP_EVENT_FIELD = 0, SLIP_EVENT_TEXT = 1, SLIP_EVENT_PASS = 2 };

/** Something was decided. Pointers hold during the call. Members may be added at the end. */
typedef struct slip_event {
  int32_t kind; /**< FIELD: a field is complete; TEXT: free text grew; PASS: a round is over, of one pass or several */
  int32_t reserved;
  const char* name;  /**< of the field; null otherwise */
  const char* json;  /**< its content as it stands in the result object; null otherwise */
  const char* text;  /**< the same without quotes, or the text that is new; null for a pass */
  size_t text_size;  /**< bytes of `text` */
  int64_t forwards;  /**< passes so far */
  int64_t tokens;    /**< tokens so far */
  double elapsed_ms; /**< since the answer began */
} slip_event;
/** Called while the answer is decoded, maybe on another thread than the caller's, for one answer never on two at once; cheap work only,
 * because passes wait for it. Other than 0 ends the answer (SLIP_CANCELLED); asking the same engine is refused (SLIP_USAGE), because it would wait for
 * itself. It must not leave by longjmp; what C++ code in it throws ends the answer with an error. Fields that were told stay true where
 * no answer comes. */
typedef int (*slip_on_event)(const slip_event* event, void* user);

/** What is asked. Set `size`, and everything else to 0 or what you need: a library that knows further members takes them as 0.
 *
 * `json`: null, or an object with any of these keys; others are refused. As in `slipstream run` (docs/guide/embedding.md has both names):
 *   "form": "model" (the default), a built-in's name, a JSON Schema file, "none" (free text); or "schema": the JSON Schema itself
 *   "ego": {"intent", "history"} as in the file of `run --ego`; or "prompt": text, "<image>" marking where the images go, behind "system":
 *   what is said before it; or "messages": a conversation, [{"role", "content"}, ...]
 *   "image_files": files, behind `images`; "record": "SET:INDEX" or "scene": a seed of the simulator give images and ego themselves
 *   "decoder": a preset; "schedule", "drafter", "verifier", "width": its parts
 *   "previous_answer": {...}, slip_answer_json() of an earlier answer in the same form, such as the frame before: it drafts
 *   "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "repetition_last", "section_temperatures": {"<section>": number}
 *   "trajectory_head": the folder of one, which plans in the answer's place; "fast_plan": it plans behind every section too
 *   "visibility", "unnorm_key", "fit", "seed", "rollouts", "max_tokens", "max_rows", "activation", "log_forced", "trace", "blank_images",
 *   "reuse_prompt", "log_probs", "top_log_probs", "stop": a text or several; "deadline_ms": from the call on
 * It may name files as a command line may: whoever writes it reads what this process can read. */
typedef struct slip_request {
  size_t size; /**< sizeof(slip_request) */
  const char* json;
  const slip_image* images;
  size_t image_count;
  slip_on_event on_event; /**< may be null */
  void* user;             /**< handed to on_event */
  slip_cancel* cancel;    /**< may be null */
} slip_request;

/** One answer. Calls from several threads are allowed; they take turns. On failure *answer is null: SLIP_USAGE and SLIP_BAD_INPUT for what
 * the request says, SLIP_UNSUPPORTED for what this model cannot do, SLIP_RESOURCE where memory or the cache's slots do not suffice,
 * SLIP_INTERNAL for what C++ code in on_event throws, SLIP_CANCELLED. */
SLIP_API slip_status slip_engine_answer(slip_engine* engine, const slip_request* request, slip_answer** answer);

/** A handle to stop with from another thread or a signal's watcher. It may serve several requests at once; an answer ends within a forward pass. */
SLIP_API slip_status slip_cancel_new(slip_cancel** cancel);
/** Null is ignored. */
SLIP_API void slip_cancel_now(slip_cancel* cancel);
/** Null is ignored. Requests under way go on with it. */
SLIP_API void slip_cancel_free(slip_cancel* cancel);

/** The answer as the form writes it, or free text. Null for a null handle; so below. */
SLIP_API const char* slip_answer_text(const slip_answer* answer);
/** The result object of `slipstream run --json`, one line. */
SLIP_API const char* slip_answer_json(const slip_answer* answer);
/** Chrome trace JSON of stages and rounds, where the request asked for a trace. */
SLIP_API const char* slip_answer_trace(const slip_answer* answer);
/** 1: the text is one of the form's; 0: it is not, or the handle is null. */
SLIP_API int32_t slip_answer_valid(const slip_answer* answer);
/** 1: its tokens are those that the model draws one at a time; 0: they may be others (a lossy verifier, or rejection, which keeps the
 * probabilities: "lossy" in slip_answer_json tells them apart), or the handle is null. */
SLIP_API int32_t slip_answer_exact(const slip_answer* answer);

/** A field of the form. */
typedef struct slip_field {
  const char* name;
  const char* json; /**< as it stands in the result object: "\"no\"", "1.25E1" or "17", "[1E0,2E0]" */
  const char* text; /**< without quotes */
} slip_field;
/** How many fields; 0 for free text and a null handle. */
SLIP_API size_t slip_answer_field_count(const slip_answer* answer);
/** Field `index`, in the form's order. */
SLIP_API slip_status slip_answer_field(const slip_answer* answer, size_t index, slip_field* field);
/** The field of that name. */
SLIP_API slip_status slip_answer_field_named(const slip_answer* answer, const char* name, slip_field* field);

/** The plan, metres in the ego frame of t = 0: x forward, y to the left, as x0, y0, x1, y1 ... `count` gets the number of points, not of
 * numbers, and may be null. Waypoints are the answer's own (1 Hz), points those after the fit (4 Hz). Null and 0 where there is no plan. */
SLIP_API const double* slip_answer_waypoints(const slip_answer* answer, size_t* count);
SLIP_API const double* slip_answer_points(const slip_answer* answer, size_t* count);
/** Waypoints of rollout `rollout`, likewise, where there are several: null and 0 beyond the last one. */
SLIP_API const double* slip_answer_rollout(const slip_answer* answer, size_t rollout, size_t* count);
/** A robot's action in physical units. Null and 0 where the model gives none. */
SLIP_API const double* slip_answer_action(const slip_answer* answer, size_t* count);

/** What the answer took; all of it and more is in slip_answer_json. Set `size` before the call: members behind it are left alone. */
typedef struct slip_statistics {
  size_t size;      /**< sizeof(slip_statistics) */
  int64_t forwards; /**< passes of the big model, prefill and drafts by itself included */
  int64_t rounds;   /**< of drafting and verifying */
  int64_t rows;     /**< of all passes */
  int64_t tokens;   /**< of the answer, the form's own included */
  int64_t forced_tokens;
  int64_t tested;   /**< drafts */
  int64_t accepted; /**< drafts */
  int64_t nan_rows; /**< > 0: the weights gave numbers that are none; do not trust the answer */
  double encode_ms, prefill_ms, draft_ms, verify_ms, plan_ms, total_ms;
} slip_statistics;
SLIP_API slip_status slip_answer_statistics(const slip_answer* answer, slip_statistics* statistics);

/** A PNG: the cameras with the plan, the form filled in, the plan from above. Drawn at the first call. */
SLIP_API slip_status slip_answer_png(slip_answer* answer, const uint8_t** bytes, size_t* size);
/** Null is ignored. */
SLIP_API void slip_answer_free(slip_answer* answer);

#ifdef __cplusplus
}
#endif

#endif /* SLIPSTREAM_H */
