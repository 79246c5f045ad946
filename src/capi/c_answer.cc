// SPDX-License-Identifier: Apache-2.0
// The C interface: what is read off an answer.
#include <algorithm>
#include <cstring>

#include "base/result.h"
#include "capi/handles.h"

namespace {

using slip::capi::guarded;
using slip::capi::is;
using slip::capi::misuse;
using slipstream::Status;

// Larger than any slip_statistics that there will be.
constexpr size_t kMostStatisticsBytes = 4096;

const double* numbers(const std::vector<slipstream::Point>& points, size_t* count) {
  static_assert(sizeof(slipstream::Point) == 2 * sizeof(double));
  if (count) *count = points.size();
  return points.empty() ? nullptr : points.front().data();
}

const double* none(size_t* count) {
  if (count) *count = 0;
  return nullptr;
}

void put_field(const slipstream::FieldValue& value, slip_field& out) {
  out.name = value.name.c_str();
  out.json = value.json.c_str();
  out.text = value.text.c_str();
}

slip_statistics statistics_of(const slipstream::Statistics& s) {
  slip_statistics out{};
  out.forwards = s.forwards;
  out.rounds = s.rounds;
  out.rows = s.rows;
  out.tokens = s.tokens;
  out.forced_tokens = s.forced_tokens;
  out.tested = s.tested;
  out.accepted = s.accepted;
  out.nan_rows = s.nan_rows;
  out.encode_ms = s.encode_ms;
  out.prefill_ms = s.prefill_ms;
  out.draft_ms = s.draft_ms;
  out.verify_ms = s.verify_ms;
  out.plan_ms = s.plan_ms;
  out.total_ms = s.total_ms;
  return out;
}

Status check_answer(const char* function, const slip_answer* answer) {
  if (!is(answer)) return misuse(function, "an answer", answer ? "another handle" : "a null pointer");
  return {};
}

}  // namespace

extern "C" {

const char* slip_answer_text(const slip_answer* answer) { return is(answer) ? answer->answer.text.c_str() : nullptr; }
const char* slip_answer_json(const slip_answer* answer) { return is(answer) ? answer->json.c_str() : nullptr; }
const char* slip_answer_trace(const slip_answer* answer) {
  return is(answer) && !answer->trace.empty() ? answer->trace.c_str() : nullptr;
}
int32_t slip_answer_valid(const slip_answer* answer) { return is(answer) && answer->answer.valid ? 1 : 0; }
int32_t slip_answer_exact(const slip_answer* answer) { return is(answer) && answer->answer.decoder.exact ? 1 : 0; }

size_t slip_answer_field_count(const slip_answer* answer) { return is(answer) ? answer->answer.fields.size() : 0; }

slip_status slip_answer_field(const slip_answer* answer, size_t index, slip_field* field) {
  return guarded([&]() -> Status {
    if (!field) return misuse("slip_answer_field", "a place for the field", "a null pointer");
    *field = {};
    SLIP_TRY_(check_answer("slip_answer_field", answer));
    const auto& fields = answer->answer.fields;
    if (index >= fields.size())
      return slip::usage_error("slip_answer_field: expected an index below {}, got {}", fields.size(), index);
    put_field(fields[index], *field);
    return {};
  });
}

slip_status slip_answer_field_named(const slip_answer* answer, const char* name, slip_field* field) {
  return guarded([&]() -> Status {
    if (!field) return misuse("slip_answer_field_named", "a place for the field", "a null pointer");
    *field = {};
    SLIP_TRY_(check_answer("slip_answer_field_named", answer));
    if (!name) return misuse("slip_answer_field_named", "a name", "a null pointer");
    const slipstream::FieldValue* value = answer->answer.field(name);
    if (!value)
      return slip::usage_error("slip_answer_field_named: expected the name of a field, got {}", slipstream::to_valid_utf8(name));
    put_field(*value, *field);
    return {};
  });
}

const double* slip_answer_waypoints(const slip_answer* answer, size_t* count) {
  return is(answer) ? numbers(answer->answer.trajectory.waypoints, count) : none(count);
}
const double* slip_answer_points(const slip_answer* answer, size_t* count) {
  return is(answer) ? numbers(answer->answer.trajectory.points_4hz, count) : none(count);
}
const double* slip_answer_rollout(const slip_answer* answer, size_t rollout, size_t* count) {
  const bool there = is(answer) && rollout < answer->answer.trajectory.rollouts.size();
  return there ? numbers(answer->answer.trajectory.rollouts[rollout], count) : none(count);
}
const double* slip_answer_action(const slip_answer* answer, size_t* count) {
  if (!is(answer) || !answer->answer.action || answer->answer.action->values.empty()) return none(count);
  const std::vector<double>& values = answer->answer.action->values;
  if (count) *count = values.size();
  return values.data();
}

slip_status slip_answer_statistics(const slip_answer* answer, slip_statistics* statistics) {
  return guarded([&]() -> Status {
    constexpr const char* kCall = "slip_answer_statistics";
    if (!statistics) return misuse(kCall, "a place for the statistics", "a null pointer");
    const size_t size = statistics->size;
    if (size < sizeof(size) || size > kMostStatisticsBytes)
      return misuse(kCall, "size set to sizeof(slip_statistics)", "another number");
    SLIP_TRY_(check_answer(kCall, answer));
    slip_statistics out = statistics_of(answer->answer.statistics);
    out.size = size;
    std::memcpy(statistics, &out, std::min(size, sizeof(out)));
    return {};
  });
}

slip_status slip_answer_png(slip_answer* answer, const uint8_t** bytes, size_t* size) {
  return guarded([&]() -> Status {
    if (!bytes || !size) return misuse("slip_answer_png", "places for bytes and size", "a null pointer");
    *bytes = nullptr;
    *size = 0;
    SLIP_TRY_(check_answer("slip_answer_png", answer));
    const std::lock_guard lock(answer->drawing);
    if (answer->png.empty()) {
      SLIP_TRY(answer->png, answer->answer.to_png());
    }
    *bytes = reinterpret_cast<const uint8_t*>(answer->png.data());
    *size = answer->png.size();
    return {};
  });
}

void slip_answer_free(slip_answer* answer) {
  if (is(answer)) delete answer;
}

}  // extern "C"
