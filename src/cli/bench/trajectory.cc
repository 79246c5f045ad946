// SPDX-License-Identifier: Apache-2.0
// `bench trajectory`: a plan before the reasoning is done. FastDriveCoT names as future work a fast response that is refined when the
// reasoning ends [section 4.3]: here a trajectory head (models/draft/flow_head.h) that was taught with `cut` plans from the prompt alone,
// then from every further section of the answer, and last of all stands the plan that the answer itself says. Each is told with its error
// and with the passes of the model after which it could be read. Under chain visibility a row's keys do not depend on what follows, so
// one pass over the finished answer holds the keys of all stages.
#include <algorithm>
#include <cmath>

#include "api/choice.h"
#include "api/request/requests.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/bench/commands.h"
#include "cli/bench/measure.h"
#include "cli/output.h"
#include "models/draft/flow_head.h"
#include "sim/record/make.h"

namespace slip::cli {

namespace {

constexpr int kPerS = 2;  // plans are compared at steps of 0.5 s, which rows of 0.1 s and points at 4 Hz share
constexpr std::array kHorizonsS = {3.0, 5.0, 6.4};

struct Stage {
  std::string name;
  double passes = 0, share = 0;       // after which it can be read; of all passes of the answer
  std::array<double, 3> error{};      // sums of mean distances
  std::array<int64_t, 3> measured{};  // a plan of 5 s says nothing at 6.4 s
};

struct Point {
  double t_s = 0, x = 0, y = 0;
};

void add_error(const std::vector<Point>& plan, const sim::Labels& truth, Stage& stage) {
  for (size_t h = 0; h < kHorizonsS.size(); ++h) {
    double sum = 0;
    int64_t n = 0;
    for (const Point& p : plan) {
      if (p.t_s > kHorizonsS[h] + 1e-6) continue;
      const sim::Vec2 at = sim::future_at(truth, p.t_s);
      sum += std::hypot(p.x - at.x, p.y - at.y);
      ++n;
    }
    if (n < std::floor(kHorizonsS[h] * kPerS)) continue;
    stage.error[h] += sum / static_cast<double>(n);
    ++stage.measured[h];
  }
}

std::vector<Point> points_of(std::span<const float> action, const FlowHeadInfo& info) {
  std::vector<Point> out;
  const int every = std::max(1, static_cast<int>(std::lround(1 / (kPerS * info.row_s))));
  double x = 0, y = 0;
  for (int32_t r = 0; r < info.rows; ++r) {
    x += static_cast<double>(action[static_cast<size_t>(r * info.action)]);
    y += static_cast<double>(action[static_cast<size_t>(r * info.action) + 1]);
    if ((r + 1) % every == 0) out.push_back({(r + 1) * info.row_s, x, y});
  }
  return out;
}

std::vector<Point> points_of(const Trajectory& plan) {
  std::vector<Point> out;
  const auto every = static_cast<size_t>(std::max(1.0, plan.rate_hz / kPerS));
  for (size_t i = every - 1; i < plan.points.size(); i += every)
    out.push_back({plan.time_s(i), plan.points[i].x, plan.points[i].y});
  return out;
}

class Asking {
 public:
  Asking(Engine& engine, FlowHead& head, std::string decoder) : engine_(engine), head_(head), decoder_(std::move(decoder)) {}

  Status ask(uint64_t seed) {
    SLIP_TRY(const sim::Record record, sim::make_record(seed));
    SLIP_TRY(const slipstream::Request asked, slipstream::request_of_scene(seed, 0));
    SLIP_TRY(Request request, api::engine_request(asked));
    SLIP_TRY(request.method, api::method_from({.preset = decoder_}, {}, &engine_, true));
    SLIP_TRY(const FormPtr form, engine_.form_of(request));
    SLIP_TRY_(name_stages(form->form));
    std::vector<int64_t> ready(stages_.size(), 1);  // the prompt's own pass is the first
    const uint64_t before = engine_.model().lm().passes();
    request.context.on_field = [&](int32_t field, std::span<const TokenId>, int64_t) {
      const auto at = stage_of(form->form, form->form.fields()[static_cast<size_t>(field)].start);
      ready[at] = std::max(ready[at], static_cast<int64_t>(engine_.model().lm().passes() - before));
    };
    SLIP_TRY(const Answer answer, engine_.run(request));
    for (size_t k = 1; k < ready.size(); ++k) ready[k] = std::max(ready[k], ready[k - 1]);
    const auto all = static_cast<double>(engine_.model().lm().passes() - before);
    for (size_t k = 0; k + 1 < stages_.size(); ++k) count(stages_[k], static_cast<double>(ready[k]), all);
    count(stages_.back(), all, all);
    SLIP_TRY_(plan_all(request, form->form, answer, record.labels));
    if (answer.plan.fitted) add_error(points_of(*answer.plan.fitted), record.labels, stages_.back());
    ++scenes_;
    return {};
  }

  const std::vector<Stage>& stages() const { return stages_; }
  int64_t scenes() const { return scenes_; }

 private:
  static void count(Stage& s, double passes, double all) {
    s.passes += passes;
    s.share += passes / all;
  }

  /// The prompt, sections up to the one that the head stops at, the answer.
  Status name_stages(const Form& form) {
    if (!stages_.empty()) return {};
    stages_.push_back({.name = "prompt"});
    ends_.push_back(0);
    for (int32_t u = 0; u < form.length(); ++u) {
      const std::string& name = form.sections()[static_cast<size_t>(form.section_at(u))].name;
      if (name == head_.info().until) break;
      if (u == 0 || form.section_at(u) != form.section_at(u - 1)) {
        stages_.push_back({.name = name});
        ends_.push_back(u);
      }
      ends_.back() = u + 1;
    }
    stages_.push_back({.name = "the answer's own"});
    return {};
  }

  size_t stage_of(const Form&, int32_t u) const {
    size_t k = 0;
    while (k < ends_.size() && u >= ends_[k]) ++k;
    return k;
  }

  Status plan_all(const Request& request, const Form&, const Answer& answer, const sim::Labels& truth) {
    SLIP_TRY(const Prompt prompt, engine_.prompt(request));
    const auto n = static_cast<int32_t>(prompt.inputs.size()), rows = n + ends_.back();
    if (static_cast<int32_t>(answer.decoded.tokens.size()) < ends_.back())
      return Error{ErrorKind::kInternal, "bench trajectory: expected an answer of the form's length, got a shorter one"};
    std::vector<Row> pass;
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i < rows; ++i) {
      const auto at = static_cast<size_t>(i);
      pass.push_back({.input = i < n ? prompt.inputs[at] : RowInput(answer.decoded.tokens[static_cast<size_t>(i - n)]),
                      .position = i < n ? prompt.positions[at] : Position::text(prompt.next_position + i - n),
                      .slot = i,
                      .sees_first = static_cast<uint32_t>(i),
                      .sees_count = 1,
                      .want = i + 1 == rows ? Want::kArgmax : Want::kNothing});
      spans.push_back({0, i + 1});
    }
    PassOutput out;
    SLIP_TRY_(engine_.model().lm().forward({.rows = pass, .spans = spans, .features = prompt.features}, out));
    const std::vector<float> noise = head_.noise_of(truth.seed);
    std::vector<float> action;
    for (size_t k = 0; k < ends_.size(); ++k) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY_(head_.read(n + ends_[k], prompt.next_position + ends_[k]));
      SLIP_TRY_(head_.sample(noise, action));
      add_error(points_of(action, head_.info()), truth, stages_[k]);
    }
    return {};
  }

  Engine& engine_;
  FlowHead& head_;
  std::string decoder_;
  std::vector<Stage> stages_;
  std::vector<int32_t> ends_;  // rows of the answer that a stage reads; none for the last
  int64_t scenes_ = 0;
};

}  // namespace

Status bench_trajectory(const BenchTrajectoryOptions& o) {
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, "auto", o.threads, kDefaultSlots, "cpu", "f32"));
  if (engine->visibility() != Visibility::kChain)
    return unsupported("bench trajectory: expected a model of chain visibility, got {} of graph visibility", o.model);
  const std::string folder = o.head.empty() ? o.model + "/trajectory" : o.head;
  SLIP_TRY(const std::unique_ptr<FlowHead> head, load_flow_head(folder, engine->model()));
  if (!head->info().any_section)
    return unsupported("{}: expected a head that was trained with \"cut\", which reads any share of an answer, got another",
                       folder);
  Asking asking(*engine, *head, o.decoder);
  {
    Progress progress("planning", static_cast<int>(o.count));
    for (int64_t i = 0; i < o.count; ++i) {
      SLIP_TRY_(check_interrupt());
      SLIP_TRY_(asking.ask(static_cast<uint64_t>(o.first_seed + i)));
      progress.update(static_cast<int>(i) + 1);
    }
  }
  const auto n = static_cast<double>(asking.scenes());
  if (!o.json)
    print_text(fmt::format(
        "{} scenes, {}; a plan of the head takes {} passes of its own, over {} rows\n\n{:<24} {:>14} {:>9} {:>9} {:>9} {:>9}\n",
        asking.scenes(), o.decoder, head->info().steps, head->info().rows, "plan behind", "after passes", "of all", "ADE 3 s",
        "ADE 5 s", "ADE 6.4 s"));
  for (const Stage& s : asking.stages()) {
    std::array<std::optional<double>, 3> error;
    for (size_t h = 0; h < error.size(); ++h)
      if (s.measured[h] > 0) error[h] = s.error[h] / static_cast<double>(s.measured[h]);
    if (o.json) {
      const auto value = [](const std::optional<double>& e) { return e ? json::value(*e) : json::value(nullptr); };
      print_json({{"stage", s.name},
                  {"scenes", asking.scenes()},
                  {"decoder", o.decoder},
                  {"passes", s.passes / n},
                  {"share", s.share / n},
                  {"ade_3s", value(error[0])},
                  {"ade_5s", value(error[1])},
                  {"ade_6_4s", value(error[2])}});
      continue;
    }
    const auto word = [](const std::optional<double>& e) { return e ? fmt::format("{:.2f} m", *e) : std::string("-"); };
    print_text(fmt::format("{:<24} {:>14.1f} {:>8.0f}% {:>9} {:>9} {:>9}\n", s.name, s.passes / n, 100 * s.share / n,
                           word(error[0]), word(error[1]), word(error[2])));
  }
  return {};
}

}  // namespace slip::cli
