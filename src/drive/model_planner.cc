// SPDX-License-Identifier: Apache-2.0
// See model_planner.h.
#include "drive/model_planner.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "sim/render/render.h"

namespace slip::drive {

namespace {

/// Positions, speeds and accelerations in another order, the same one for the same moment of the same scene.
void shuffle_history(EgoInput& ego, uint64_t seed, int64_t time_ms) {
  PhiloxStream g(seed, 0x5F0000 + static_cast<uint64_t>(time_ms));
  for (size_t i = ego.history.size() - 1; i > 0; --i) {
    const size_t j = g.below(static_cast<uint32_t>(i + 1));
    std::swap(ego.history[i], ego.history[j]);
    std::swap(ego.history[i].t_s, ego.history[j].t_s);  // times stay in order
  }
}

bool is_of_the_plan(const Form& form, int32_t field) {
  const Field& f = form.fields()[static_cast<size_t>(field)];
  return form.sections()[static_cast<size_t>(f.section)].name == "trajectory";
}

}  // namespace

Result<Planned> ModelPlanner::plan(const Situation& s, const CancelToken& cancel) {
  std::vector<uint8_t> pictures(sim::kCameras * sim::kImageBytes);
  const bool grey = ablation_ == Ablation::kGreyImages;
  if (!grey && engine_.task().cameras) sim::render_all(s.world.moment(static_cast<double>(s.time_ms) / 1000, s.ego), pictures);
  Request request;
  request.ego = EgoInput{s.intent, s.history};
  if (ablation_ == Ablation::kShuffledHistory) shuffle_history(*request.ego, s.world.seed(), s.time_ms);
  if (ablation_ == Ablation::kSteadyHistory) request.ego = steady(*request.ego);
  request.images = camera_images(pictures, grey);
  request.method = method_;
  if (engine_.plan_fit(request).fit != Fit::kRounded) request.fit = Fit::kMinJerkV0;
  request.rollouts = drawn_.rollouts;
  request.section_temperatures = drawn_.section_temperatures;
  request.trajectory_head = drawn_.trajectory_head;
  request.decode.seed = s.world.seed() * 1'000'003 + static_cast<uint64_t>(s.time_ms);
  request.reuse_prompt = false;  // what an answer costs does not depend on the one before
  request.context.cancel = cancel;
  SLIP_TRY(const FormPtr form, engine_.form_of(request));
  int64_t forwards = 0, ready = 0;
  request.context.on_progress = [&](const DecodeProgress& p) { forwards = p.forwards; };
  request.context.on_field = [&](int32_t field, std::span<const TokenId>, int64_t) {
    if (is_of_the_plan(form->form, field)) ready = forwards;
  };
  if (!drawn_.trajectory_head.empty()) {
    request.context.on_field = {};
    request.on_plan = [&](const HeadPlan& p) { ready = p.forwards; };
  }
  SLIP_TRY(answer_, engine_.run(request));
  const Statistics& n = answer_.decoded.statistics;
  counts_ = {answer_.prompt_rows, std::max<int64_t>(0, n.forwards - 1), std::max<int64_t>(0, n.rows - answer_.prompt_rows),
             n.drafter_forwards + answer_.head_forwards};
  Planned out;
  out.counts = out.ready = counts_;
  if (ready > 0 && counts_.passes > 0) {
    // Rows and a drafter's passes are counted for the answer as a whole: passes have their share of them.
    out.ready.passes = std::min(counts_.passes, ready - 1);
    out.ready.rows = counts_.rows * out.ready.passes / counts_.passes;
    out.ready.drafter_passes = counts_.drafter_passes * out.ready.passes / counts_.passes;
  }
  out.tested = n.tested, out.accepted = n.accepted;
  if (engine_.task().form == TaskForm::kAction) {
    const auto* said = answer_.values.empty() ? nullptr : std::get_if<std::vector<double>>(&answer_.values.front());
    out.valid = said && !said->empty();
    const std::vector<double> none(1);
    out.points = along_route(s, out.valid ? *said : none, out.dt);
    return out;
  }
  std::vector<sim::Vec2> local;
  out.valid = answer_.plan.fitted.has_value();
  if (out.valid) {
    for (const Waypoint& p : answer_.plan.fitted->points) local.push_back({p.x, p.y});
    out.dt = 1 / answer_.plan.fitted->rate_hz;
  } else {
    local.assign(20, {0, 0});
  }
  out.points = to_world(local, s.origin);
  return out;
}

Costs fitted_costs(std::span<const Measured> answers, double row_in_passes) {
  Costs out;
  if (answers.empty()) return out;
  double prompt_rows = 0, prefill = 0, drafter = 0, drafter_passes = 0, decode = 0, passes = 0;
  for (const Measured& m : answers) {
    out.encode += m.encode_ms, out.plan += m.plan_ms, prefill += m.prefill_ms, decode += m.decode_ms;
    drafter += m.drafter_ms, drafter_passes += static_cast<double>(m.counts.drafter_passes);
    prompt_rows += static_cast<double>(m.counts.prompt_rows);
    passes += static_cast<double>(m.counts.passes) + row_in_passes * static_cast<double>(m.counts.rows);
  }
  const auto n = static_cast<double>(answers.size());
  out.encode /= n, out.plan /= n;
  out.row = prompt_rows > 0 ? prefill / prompt_rows : 0;
  out.drafter_pass = drafter_passes > 0 ? drafter / drafter_passes : 0;
  out.pass = passes > 0 ? decode / passes : 0;
  out.decode_row = out.pass * row_in_passes;
  return out;
}

double row_in_passes(const CostTable& costs) {
  // Of sum over i of ((pass + row n - t) / t)^2.
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;
  for (size_t i = 0; i < costs.rows().size(); ++i) {
    const double n = costs.rows()[i], t = costs.measured_ms()[i], weight = 1 / (t * t);
    w += weight, wn += weight * n, wnn += weight * n * n, wt += weight * t, wnt += weight * n * t;
  }
  const double det = w * wnn - wn * wn;
  if (!(det > 0)) return 0;
  const double pass = (wt * wnn - wnt * wn) / det, row = (wnt * w - wt * wn) / det;
  // A pass of one row is at least a row: where nothing but rows counts, it is that one.
  return row > 0 ? row / std::max(pass, 1e-3 * row) : 0;
}

}  // namespace slip::drive
