// SPDX-License-Identifier: Apache-2.0
// The training loop; contract in trainer.h.
#include "train/loop/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "base/threads.h"
#include "train/loop/checkpoint.h"
#include "train/loop/learner.h"
#include "train/loop/loss_log.h"
#include "train/model/model_torch.h"

namespace slip {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class Run {
 public:
  Run(const TrainConfig& c, SampleSource& source, const RunOptions& options)
      : c_(c),
        options_(options),
        learner_(make_learner(c, source)),
        adam_(learner_->table(), c.adamw),
        terminal_(isatty(STDERR_FILENO) != 0) {
    if (c.ema_decay > 0) average_.resize(static_cast<size_t>(learner_->table().size));
  }

  Status prepare() {
    std::error_code ec;
    std::filesystem::create_directories(c_.out, ec);
    if (ec) return resource_error("{}: expected to create the folder, got {}", c_.out.string(), ec.message());
    SLIP_TRY_(learner_->open());
    TrainState state = this->state();
    if (options_.resume) {
      SLIP_TRY_(load_checkpoint(*options_.resume, state));
      step_ = state.step;
      earlier_s_ = state.elapsed_s;
      SLIP_TRY(points_, read_loss_log(*options_.resume / "loss.jsonl"));
      for (const LossPoint& p : points_) lines_ += to_line(p);
      return {};
    }
    SLIP_TRY_(learner_->start(options_.quiet));
    const auto values = learner_->values();
    std::copy_n(values.begin(), average_.size(), average_.begin());
    return {};
  }

  Result<TrainReport> loop() {
    start_ = Clock::now();
    first_step_ = step_;
    while (step_ < c_.steps) {
      const Status done = one_step();
      const bool cut_short = !done && done.error().kind == ErrorKind::kCancelled && interrupted();  // in the middle of a step
      if (!done && !cut_short) return done.error();
      const bool stop = interrupted() || (options_.stop_after > 0 && step_ >= options_.stop_after) || out_of_time();
      if (stop && step_ < c_.steps) {
        report_.stopped_early = true;
        report_.interrupted = interrupted();
        break;
      }
      if (c_.save_every > 0 && step_ % c_.save_every == 0 && step_ < c_.steps) SLIP_TRY_(save());
    }
    if (terminal_ && !options_.quiet) say("\n");
    SLIP_TRY_(save());
    report_.steps = step_;
    return report_;
  }

 private:
  TrainState state() { return {step_, elapsed(), learner_->values(), adam_.first(), adam_.second(), average_}; }
  double elapsed() const { return earlier_s_ + (start_ == Clock::time_point{} ? 0 : seconds_since(start_)); }
  bool out_of_time() const { return c_.max_minutes > 0 && elapsed() > 60 * c_.max_minutes; }
  double progress() const {
    if (!c_.schedule.by_time || c_.max_minutes <= 0) return -1;
    const double by_step = static_cast<double>(step_) / static_cast<double>(c_.steps);
    return std::max(by_step, elapsed() / (60 * c_.max_minutes));
  }

  Status one_step() {
    SLIP_TRY(const LearnedStep step, learner_->learn(step_ + 1));
    const double norm = gradient_norm<float>(learner_->gradients());
    if (!std::isfinite(step.loss) || !std::isfinite(norm))
      return check_failed("step {}: expected a finite loss and gradient, got {} and {}", step_ + 1, step.loss, norm);
    ++step_;
    const double lr = c_.schedule.at(step_, progress());
    adam_.step(learner_->values(), learner_->gradients(), clip_factor(norm, c_.clip), lr, step_);
    if (!average_.empty())  // young averages forget their start: decay grows to its final value
      update_average(average_, learner_->values(),
                     std::min(c_.ema_decay, (1.0 + static_cast<double>(step_)) / (10.0 + static_cast<double>(step_))));
    samples_ += step.samples;
    report_.loss = step.loss;
    report_.samples_per_s = static_cast<double>(samples_) / seconds_since(start_);
    points_.push_back({step_, step.loss, step.noisy, step.ar, lr, norm, report_.samples_per_s, elapsed(), step.acceptance});
    lines_ += to_line(points_.back());
    return show();
  }

  /// The progress line, and the log and picture on disk every log_every steps.
  Status show() {
    const LossPoint& p = points_.back();
    const bool due = step_ % c_.log_every == 0 || step_ == c_.steps || step_ == first_step_ + 1;
    if (!options_.quiet && (terminal_ || due)) {
      const double pace = seconds_since(start_) / static_cast<double>(step_ - first_step_);
      double left = pace * static_cast<double>(c_.steps - step_);
      if (c_.max_minutes > 0) left = std::min(left, std::max(0.0, 60 * c_.max_minutes - elapsed()));
      const bool drafts = p.acceptance >= 0;
      say(fmt::format("{}step {}/{}  loss {:.4f}  {} {:.4f}  {} {:.4f}{}  |g| {:.2f}  lr {:.2e}  {:.2f} samples/s  {} left{}",
                      terminal_ ? "\r" : "", step_, c_.steps, p.loss, drafts ? "lk" : "masked", p.noisy, drafts ? "ce" : "next",
                      p.ar, drafts ? fmt::format("  accepted {:.3f}", p.acceptance) : "", p.gradient_norm, p.lr, p.samples_per_s,
                      human_duration(left), terminal_ ? "\x1b[K" : "\n"));
    }
    if (!due || seconds_since(written_) < 5) return {};
    written_ = Clock::now();
    return write_log();
  }

  Status write_log() const {
    SLIP_TRY_(write_file(c_.out / "loss.jsonl", lines_));
    return write_file(c_.out / "loss.svg", loss_svg(points_));
  }

  Status save() {
    SLIP_TRY_(write_log());
    SLIP_TRY_(save_checkpoint(c_, learner_->table(), state(), lines_));
    report_.checkpoint = c_.out / fmt::format("step-{}", step_);
    return {};
  }

  const TrainConfig& c_;
  const RunOptions& options_;
  std::unique_ptr<Learner> learner_;
  AdamW<float> adam_;
  std::vector<float> average_;
  bool terminal_;
  int64_t step_ = 0, first_step_ = 0, samples_ = 0;
  double earlier_s_ = 0;
  Clock::time_point start_{}, written_{};
  std::vector<LossPoint> points_;
  std::string lines_;
  TrainReport report_;
};

}  // namespace

Result<TrainReport> train(const TrainConfig& config, SampleSource& source, const RunOptions& options) {
  SLIP_TRY_(check_out(config.out, options.resume));
  TrainModel::set_threads(config.threads > 0 ? config.threads : usable_threads());
  Run run(config, source, options);
  SLIP_TRY_(run.prepare());
  return run.loop();
}

}  // namespace slip
