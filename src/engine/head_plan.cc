// SPDX-License-Identifier: Apache-2.0
// Plans of a trajectory head [FastDriveCoT, sections 3 and 4.3]: read from the keys that the answer's own passes leave, as soon as what the head
// reads is decided; with Request::fast_plan behind the prompt and behind every section before. Whatever the sampling, a plan is the head's
// from the seed's noise: the same request has the same plan, and an early one differs from the last by what was read alone. The head's
// passes run on the thread of the model's, between two of them: whoever shares these waits so long.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock/operation_clock.h"
#include "engine/answering.h"
#include "models/draft/flow_head.h"
#include "plan/codebook.h"

namespace slip {

namespace {

constexpr double kRowS = 0.1;     // of a Trajectory's path (plan/codebook.h, resampled)
constexpr double kShortestS = 2;  // two waypoints, which a fit needs
constexpr std::string_view kPrompt = "prompt";

std::vector<Pose> path_of(std::span<const float> action, const FlowHeadInfo& info) {
  std::vector<Pose> out;
  Pose at;
  for (size_t i = 0; i + 2 < action.size(); i += static_cast<size_t>(info.action)) {
    at.x += static_cast<double>(action[i]);
    at.y += static_cast<double>(action[i + 1]);
    at.yaw_rad += static_cast<double>(action[i + 2]);
    out.push_back(at);
  }
  return out;
}

/// How many sections of the form the head reads.
Result<int32_t> sections_read(const FlowHeadInfo& head, const Form& form) {
  const auto sections = form.sections();
  if (!head.reads_answer) return 0;
  if (head.until.empty()) return static_cast<int32_t>(sections.size());
  const auto at = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == head.until; });
  if (at == sections.end())
    return bad_input("{}: until: expected a section of form {}, got {}", head.name, form.name(), head.until);
  return static_cast<int32_t>(at - sections.begin());
}

Status check_head(const FlowHeadInfo& head) {
  if (head.action == 3 && std::abs(head.row_s - kRowS) < 1e-9 && head.rows * kRowS >= kShortestS - 1e-9) return {};
  return unsupported("{}: expected a head with rows of {} s (dx, dy, dyaw) for at least {} s, got {} rows of {} numbers and {} s",
                     head.name, kRowS, kShortestS, head.rows, head.action, head.row_s);
}

}  // namespace

Status Answering::take_head() {
  if (request_.trajectory_head.empty()) {
    if (request_.fast_plan) return usage_error("--fast-plan: expected --trajectory-head beside it, got none");
    return {};
  }
  if (!form() || plan_fields(*form()).empty())
    return usage_error("--trajectory-head: expected a form with a plan (section trajectory), got {}",
                       form() ? "form " + form()->name() : "free text");
  if (request_.rollouts > 1) return usage_error("--trajectory-head: expected one rollout, got {}", request_.rollouts);
  SLIP_TRY(head_, engine_.resources_.trajectory_head(engine_, request_.trajectory_head));
  const FlowHeadInfo& head = head_->info();
  SLIP_TRY_(check_head(head));
  if (request_.fast_plan && !head.any_section)
    return unsupported("--fast-plan: expected a head that was trained with \"cut\", which reads any share of an answer, got {}",
                       head.name);
  SLIP_TRY(head_sections_, sections_read(head, *form()));
  return {};
}

Status Answering::ask_for_keys(DecodeContext& context, const DecodeOptions& options) {
  if (!head_) return {};
  const Visibility its = head_->info().visibility;
  if (its != options.visibility)
    return unsupported("{}: expected a trajectory head that was trained on keys under {} visibility, got one for {} visibility",
                       head_->info().name, words(options.visibility), words(its));
  if (its == Visibility::kGraph && form()->branches())
    return unsupported("--trajectory-head: expected a form of one shape along a graph, got {}, whose shape depends on values",
                       form()->name());
  if (request_.fast_plan) {
    context.keys_behind.resize(static_cast<size_t>(head_sections_) + 1);
    std::iota(context.keys_behind.begin(), context.keys_behind.end(), 0);
  } else {
    context.keys_behind.assign(1, head_sections_);
  }
  context.on_keys = [this](const KnownKeys& keys) { return read_plan(keys); };
  return {};
}

Status Answering::read_plan(const KnownKeys& keys) {
  const StageScope stage("trajectory head");
  const auto start = Clock::now();
  std::vector<SlotSpan> slots(keys.slots.begin(), keys.slots.end());
  if (seat_) {
    slots.clear();
    seat_->places(keys.slots, slots);
  }
  SLIP_TRY_(head_->read(slots, keys.position));
  std::vector<float> action;
  SLIP_TRY_(head_->sample(head_->noise_of(request_.decode.seed), action, request_.context.cancel));
  out_.head_forwards += head_->passes();
  SaidPlan said;
  said.path = path_of(action, head_->info());
  said.waypoints = resampled(said.path, 1).points;
  HeadPlan read{.plan = {},
                .after_section = std::string(kPrompt),
                .final = keys.sections == head_sections_,
                .ms = 0,
                .forwards = keys.forwards};
  if (keys.sections > 0) read.after_section = form()->sections()[static_cast<size_t>(keys.sections) - 1].name;
  read.plan.waypoints = said.waypoints;
  SLIP_TRY_(fit_plan({}, request_.ego, std::span(&said, 1), read.plan));
  out_.stages.head_ms += ms_since(start);
  read.ms = ms_since(begun_);
  if (request_.on_plan) request_.on_plan(read);
  if (read.final)
    head_plan_ = std::move(read.plan);
  else
    out_.early_plans.push_back(std::move(read));
  return {};
}

}  // namespace slip
