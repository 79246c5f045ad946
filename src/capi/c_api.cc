// SPDX-License-Identifier: Apache-2.0
// The C interface over the C++ one: engines, requests and cancellation. What is read off an answer stands in c_answer.cc.
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "capi/handles.h"
#include "capi/request_json.h"

namespace slip::capi {

namespace {

constexpr uint32_t kAbiVersion = 0;
// Larger than any slip_request that there will be: a size beyond it was never set.
constexpr size_t kMostRequestBytes = 4096;

struct LastError {
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

/// Valid UTF-8 without an end of a line or a NUL in it, of a length that one reads.
std::string one_line(std::string_view message) {
  constexpr size_t kMost = 2000;
  std::string out;
  for (const char c : slipstream::to_valid_utf8(message.substr(0, kMost))) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return message.size() > kMost ? out + " ..." : out;
}

}  // namespace

slip_status fail(slipstream::ErrorKind kind, std::string_view message) noexcept {
  try {
    last_error.text = one_line(message);
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = "memory: expected enough of it, got an allocation that failed";
  }
  return static_cast<slip_status>(kind);
}

slip_status fail(const slipstream::Error& error) noexcept { return fail(error.kind, error.message); }

slip_status failed_by_exception() noexcept {
  using slipstream::ErrorKind;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kResource, "memory: expected enough of it, got an allocation that failed");
  } catch (const std::length_error&) {
    return fail(ErrorKind::kResource, "memory: expected enough of it, got a size beyond all memory");
  } catch (const std::exception& e) {
    return fail(ErrorKind::kInternal, e.what());
  } catch (...) {
    return fail(ErrorKind::kInternal, "expected no exception, got an unknown one");
  }
}

namespace {

constexpr bool same(slip_status status, slipstream::ErrorKind kind) { return status == static_cast<slip_status>(kind); }
using slipstream::ErrorKind;
static_assert(same(SLIP_INTERNAL, ErrorKind::kInternal) && same(SLIP_USAGE, ErrorKind::kUsage) &&
              same(SLIP_BAD_INPUT, ErrorKind::kBadInput) && same(SLIP_UNSUPPORTED, ErrorKind::kUnsupported) &&
              same(SLIP_RESOURCE, ErrorKind::kResource) && same(SLIP_CHECK_FAILED, ErrorKind::kCheckFailed) &&
              same(SLIP_CANCELLED, ErrorKind::kCancelled));
using Kind = slipstream::Event::Kind;
static_assert(SLIP_EVENT_FIELD == static_cast<int>(Kind::kField) && SLIP_EVENT_TEXT == static_cast<int>(Kind::kText) &&
              SLIP_EVENT_PASS == static_cast<int>(Kind::kPass));

}  // namespace

Error misuse(const char* function, const char* what, const char* got) {
  return usage_error("{}: expected {}, got {}", function, what, got);
}

namespace {

// The caller's struct as this library knows it: members that it lacks are 0, and those that we lack have to be.
Result<slip_request> read_request(const slip_request* given) {
  constexpr const char* kCall = "slip_engine_answer";
  if (!given) return misuse(kCall, "a request", "a null pointer");
  size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  // Members are as large as a pointer each: a size in between would cut one.
  if (size < sizeof(size) || size > kMostRequestBytes || size % sizeof(void*) != 0)
    return usage_error("{}: expected size set to sizeof(slip_request), got {}", kCall, size);
  slip_request out{};
  std::memcpy(&out, given, std::min(size, sizeof(out)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(out); i < size; ++i)
    if (bytes[i] != 0) return misuse(kCall, "members that this version of the library knows", "a later one set");
  if (out.image_count > 0 && !out.images) return misuse(kCall, "images", "a null pointer");
  return out;
}

Result<slipstream::Image> read_span(const slip_image& image, size_t index) {
  // A camera picture is far below; with it, no product below comes near 2^63.
  constexpr int32_t kMostSide = 1 << 16;
  const auto refuse = [&](std::string_view what, int64_t got) {
    return bad_input("image {}: expected {}, got {}", index, what, got);
  };
  if (!image.pixels) return bad_input("image {}: expected pixels, got a null pointer", index);
  if (image.width < 1 || image.width > kMostSide) return refuse("a width from 1 to 65536", image.width);
  if (image.height < 1 || image.height > kMostSide) return refuse("a height from 1 to 65536", image.height);
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) return refuse("1, 3 or 4 channels", image.channels);
  if (image.reserved != 0) return refuse("reserved to be 0", image.reserved);
  const int64_t row = int64_t{image.width} * image.channels;
  const int64_t stride = image.stride == 0 ? row : image.stride;
  if (stride < row || stride > int64_t{1} << 40) return refuse(fmt::format("a stride from {} bytes to 2^40", row), stride);
  const int64_t need = (image.height - 1) * stride + row;
  if (image.size < static_cast<uint64_t>(need))
    return bad_input("image {}: expected {} bytes for its rows, got {}", index, need, image.size);
  return slipstream::Image{.pixels = image.pixels,
                           .width = image.width,
                           .height = image.height,
                           .channels = image.channels,
                           .row_bytes = stride,
                           .owner = {}};
}

/// `refused`, which outlives the answer, is set when on_event ends it: after the last event no pass looks at the token any more.
slipstream::OnEvent relay(slip_on_event on_event, void* user, slipstream::CancelToken cancel, std::atomic<bool>& refused) {
  return [on_event, user, cancel = std::move(cancel), &refused](const slipstream::Event& e) mutable {
    if (e.kind == slipstream::Event::Kind::kPrefill || e.kind == slipstream::Event::Kind::kPlan)
      return;  // SLIP_EVENT_* has no names for them
    slip_event out{};
    out.kind = static_cast<int32_t>(e.kind);
    std::string text;  // with an end, which a view need not have
    if (e.field) {
      out.name = e.field->name.c_str();
      out.json = e.field->json.c_str();
      out.text = e.field->text.c_str();
      out.text_size = e.field->text.size();
    } else if (e.kind == slipstream::Event::Kind::kText) {
      text = e.text;
      out.text = text.c_str();
      out.text_size = text.size();
    }
    out.forwards = e.forwards;
    out.tokens = e.tokens;
    out.elapsed_ms = e.elapsed_ms;
    if (on_event(&out, user) == 0) return;
    refused = true;
    cancel.cancel();
  };
}

Result<std::unique_ptr<slip_answer>> answer_of(slip_engine& engine, const slip_request& asked) {
  if (asked.cancel && !is(asked.cancel)) return misuse("slip_engine_answer", "a handle of slip_cancel_new", "another");
  // A child: the document's deadline and a callback's refusal end this answer and none of the handle's others.
  const auto cancel = asked.cancel ? slipstream::CancelToken::child_of(asked.cancel->token) : slipstream::CancelToken();
  SLIP_TRY(slipstream::Request request, request_from_json(asked.json ? asked.json : "", "request", cancel));
  std::vector<slipstream::Image> images;
  for (size_t i = 0; i < asked.image_count; ++i) {
    SLIP_TRY(slipstream::Image image, read_span(asked.images[i], i));
    images.push_back(std::move(image));
  }
  if (!images.empty() && request.truth) return bad_input("request: expected a record, a scene or images, got two of them");
  request.images.insert(request.images.begin(), images.begin(), images.end());
  std::atomic<bool> refused = false;
  const slipstream::OnEvent on_event = asked.on_event ? relay(asked.on_event, asked.user, cancel, refused) : nullptr;
  SLIP_TRY(slipstream::Answer answer, engine.engine.answer(request, on_event));
  if (refused)
    return Error{slipstream::ErrorKind::kCancelled, "slip_engine_answer: expected on_event to give 0, got another number"};
  auto out = std::make_unique<slip_answer>();
  out->json = answer.to_json();
  if (request.trace) out->trace = answer.trace_json();
  out->answer = std::move(answer);
  return out;
}

}  // namespace
}  // namespace slip::capi

using namespace slip::capi;  // NOLINT: the functions below are the interface

extern "C" {

uint32_t slip_abi_version(void) { return kAbiVersion; }

const char* slip_version(void) { return slipstream::version().data(); }

const char* slip_last_error(void) { return last_error.shown; }

slip_status slip_engine_load(const char* folder, const char* options, slip_on_progress on_progress, void* user,
                             slip_engine** engine) {
  return guarded([&]() -> slipstream::Status {
    if (!engine) return misuse("slip_engine_load", "a place for the engine", "a null pointer");
    *engine = nullptr;
    if (!folder || !*folder) return misuse("slip_engine_load", "a folder", folder ? "an empty text" : "a null pointer");
    SLIP_TRY(const slipstream::EngineOptions parsed, slip::engine_options_from_json(options ? options : "", "options"));
    slipstream::Progress progress;
    if (on_progress)
      progress = [&](std::string_view stage, int64_t done, int64_t total) {
        on_progress(std::string(stage).c_str(), done, total, user);
      };
    SLIP_TRY(slipstream::Engine loaded, slipstream::Engine::load(folder, parsed, progress));
    std::string info = slip::info_json(loaded.info());
    *engine = new slip_engine{.engine = std::move(loaded), .info = std::move(info)};
    return {};
  });
}

const char* slip_engine_info(const slip_engine* engine) { return is(engine) ? engine->info.c_str() : nullptr; }

void slip_engine_free(slip_engine* engine) {
  if (is(engine)) delete engine;
}

slip_status slip_engine_answer(slip_engine* engine, const slip_request* request, slip_answer** answer) {
  return guarded([&]() -> slipstream::Status {
    if (!answer) return misuse("slip_engine_answer", "a place for the answer", "a null pointer");
    *answer = nullptr;
    if (!is(engine)) return misuse("slip_engine_answer", "an engine", engine ? "another handle" : "a null pointer");
    SLIP_TRY(const slip_request asked, read_request(request));
    SLIP_TRY(std::unique_ptr<slip_answer> made, answer_of(*engine, asked));
    *answer = made.release();
    return {};
  });
}

slip_status slip_cancel_new(slip_cancel** cancel) {
  return guarded([&]() -> slipstream::Status {
    if (!cancel) return misuse("slip_cancel_new", "a place for the handle", "a null pointer");
    *cancel = nullptr;
    *cancel = new slip_cancel;
    return {};
  });
}

void slip_cancel_now(slip_cancel* cancel) {
  if (is(cancel)) cancel->token.cancel();
}

void slip_cancel_free(slip_cancel* cancel) {
  if (is(cancel)) delete cancel;
}

}  // extern "C"
