// SPDX-License-Identifier: Apache-2.0
// The training loop; contract in trainer.h.
#include "train/loop/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "base/files/beside.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "base/threads/threads.h"
#include "train/loop/batcher.h"
#include "train/loop/checkpoint.h"
#include "train/loop/held_out.h"
#include "train/loop/inputs.h"
#include "train/loop/learners/learner.h"
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
        writes_(c.processes->rank() == 0),
        quiet_(options.quiet || !writes_),
        terminal_(isatty(STDERR_FILENO) != 0) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  /// A run that was refused before it wrote anything, at its first sample say, leaves no folder behind.
  ~Run() { unmake(made_); }

  /// What one process cannot begin, none begins.
  Status prepare() {
    const Status own = prepare_alone();
    SLIP_TRY(const bool begun, done_by_all(own));
    if (begun || !own) return own;
    return Error{ErrorKind::kCancelled, "interrupted before the first step"};
  }

  /// A folder that is there is held before anything in it is read. One that is not is made when all else is in order.
  Status prepare_alone() {
    std::error_code ec;
    const bool there = std::filesystem::exists(c_.out, ec);
    if (there) SLIP_TRY_(take_folder());
    SLIP_TRY_(prepare_state());
    return there ? Status() : take_folder();
  }

  Result<TrainReport> loop() {
    start_ = Clock::now();
    first_step_ = step_;
    SLIP_TRY_(before_the_steps());
    const bool over = is_over();
    report_.stopped_early = over && step_ < c_.steps;
    while (!over && !interrupted_ && step_ < c_.steps) {
      const Status done = one_step();
      const bool told = c_.processes->size() > 1;  // that another process was interrupted first
      const bool cut_short =
          !done && (done.error().kind == ErrorKind::kCancelled || told) && interrupted();  // in the middle of a step
      if (!done && !cut_short) return done.error();
      if (done) SLIP_TRY_(validate());
      if (out_of_patience() && step_ < c_.steps) {
        report_.stopped_early = true;
        break;
      }
      SLIP_TRY_(agree());
      const bool stop = interrupted_ || (options_.stop_after > 0 && step_ >= options_.stop_after) || out_of_time();
      if (stop && step_ < c_.steps) {
        report_.stopped_early = true;
        break;
      }
      if (c_.save_every > 0 && step_ % c_.save_every == 0 && step_ < c_.steps) SLIP_TRY_(save());
    }
    report_.interrupted = interrupted_ && (step_ < c_.steps || score_due_);
    report_.stopped_early = report_.stopped_early || report_.interrupted;
    if (terminal_ && !quiet_) say("\n");
    SLIP_TRY_(save());
    report_.steps = step_;
    return report_;
  }

 private:
  /// Of work that every process does whole: has each of them done it? False where one was interrupted before it had.
  Result<bool> done_by_all(const Status& own) {
    constexpr double kDone = 0, kCut = 1, kFailed = 2;
    const bool cut = !own && own.error().kind == ErrorKind::kCancelled && interrupted();
    interrupted_ = interrupted_ || cut;
    if (c_.processes->size() == 1) return own || cut ? Result<bool>(!cut) : Result<bool>(own.error());
    const double mine = own ? kDone : cut ? kCut : kFailed;
    const Result<std::vector<double>> all = c_.processes->gather({&mine, 1});
    if (!own && !cut) return own.error();
    if (!all && !interrupted()) return all.error();
    if (!all) interrupted_ = true;
    bool done = static_cast<bool>(all);
    for (size_t r = 0; all && r < all->size(); ++r) {
      if ((*all)[r] == kFailed)
        return resource_error("process {}: expected it to go on, got an error there; its own message says which", r);
      if ((*all)[r] == kCut) interrupted_ = true, done = false;
    }
    return done;
  }

  Status take_folder() {
    SLIP_TRY(made_, make_parents(c_.out / "step-N"));
    if (!writes_) return {};
    SLIP_TRY(held_, hold_folder(c_.out));
    remove_partial_checkpoints(c_.out);
    return {};
  }

  Status prepare_state() {
    inputs_ = marks_of_inputs(c_);
    if (options_.resume) SLIP_TRY_(check_inputs(inputs_, *options_.resume));
    SLIP_TRY_(learner_->open());
    adam_.emplace(learner_->table(), c_.adamw);
    if (c_.ema_decay > 0) average_.resize(static_cast<size_t>(learner_->table().size));
    if (!quiet_) say(fmt::format("slipstream-train: {} numbers of kind {}\n", learner_->table().size, word_of(c_.objective)));
    TrainState state = this->state();
    if (options_.resume) {
      SLIP_TRY_(load_checkpoint(*options_.resume, state));
      step_ = state.step;
      if (is_stored(c_, *options_.resume, step_)) saved_ = step_;
      best_ = std::move(state.best);
      best_score_ = state.best_score;
      worse_ = state.worse;
      if (step_ > c_.steps && !quiet_)
        say(fmt::format(
            "slipstream-train: nothing is left to train: the run is at step {}, and {} is asked for (--steps N goes on to N)\n",
            step_, c_.steps));
      else if (step_ == c_.steps && !state.score_due && !quiet_)
        say(fmt::format("slipstream-train: nothing is left to train: {} of {} steps are done (--steps N goes on to N)\n", step_,
                        c_.steps));
      earlier_s_ = state.elapsed_s;
      if (const std::string why = why_over(); step_ < c_.steps && !why.empty() && !quiet_)
        say(fmt::format("slipstream-train: nothing is left to train: {}\n", why));
      SLIP_TRY(points_, read_loss_log(*options_.resume / "loss.jsonl"));
      if (const int64_t logged = points_.empty() ? 0 : points_.back().step; logged != step_)
        return bad_input("{}: step: expected {}, the last one in loss.jsonl, got {}", (*options_.resume / "trainer.json").string(),
                         logged, step_);
      for (const LossPoint& p : points_) lines_ += to_line(p);
      score_due_ = state.score_due && c_.validation.every > 0 && !points_.empty();
      return {};
    }
    SLIP_TRY_(learner_->start(quiet_));
    const auto values = learner_->values();
    std::copy_n(values.begin(), average_.size(), average_.begin());
    return {};
  }

  TrainState state() {
    return {step_,       elapsed(), learner_->values(), adam_->first(), adam_->second(), average_, best_,
            best_score_, worse_,    score_due_,         inputs_};
  }
  double own_elapsed() const { return earlier_s_ + (start_ == Clock::time_point{} ? 0 : seconds_since(start_)); }
  /// Of the first process, as of the last step, where there are several: what follows from time must be the same for all.
  double elapsed() const { return c_.processes->size() == 1 ? own_elapsed() : std::max(earlier_s_, agreed_s_); }
  /// After each step: has anybody been interrupted, and how late is it?
  Status agree() {
    interrupted_ = interrupted();
    if (c_.processes->size() == 1) return {};
    const std::array<double, 2> mine{interrupted_ ? 1.0 : 0.0, own_elapsed()};
    const Result<std::vector<double>> all = c_.processes->gather(mine);
    if (!all && interrupted_) return {};  // the others are gone, or hang: what is done is saved without them
    if (!all) return all.error();
    for (size_t r = 0; r < all->size(); r += 2) interrupted_ = interrupted_ || (*all)[r] != 0;
    agreed_s_ = (*all)[1];
    return {};
  }
  bool out_of_time() const { return c_.max_minutes > 0 && elapsed() > 60 * c_.max_minutes; }
  bool out_of_patience() const { return c_.validation.patience > 0 && worse_ >= c_.validation.patience; }
  /// What ended a run before its steps did; empty where nothing has.
  std::string why_over() const {
    if (out_of_patience())
      return fmt::format(
          "{} scores in a row were not better than the best (slipstream-train --resume DIR --config F goes on with another "
          "\"patience\")",
          worse_);
    if (out_of_time())
      return fmt::format("{:.4g} of {} minutes are over (--max-minutes N goes on to N)", elapsed() / 60, c_.max_minutes);
    return {};
  }
  double progress() const {
    if (!c_.schedule.by_time || c_.max_minutes <= 0) return -1;
    const double by_step = static_cast<double>(step_) / static_cast<double>(c_.steps);
    return std::max(by_step, elapsed() / (60 * c_.max_minutes));
  }

  /// A run that goes on from where its time or patience ended.
  bool is_over() const { return options_.resume && !why_over().empty(); }
  /// Of the steps alone.
  double learning_s() const { return seconds_since(start_) - apart_s_; }

  /// What is timed apart from the steps: the held-out samples, and the score that a run was not given before it was interrupted.
  Status before_the_steps() {
    if (c_.validation.every <= 0 || (!score_due_ && (step_ >= c_.steps || is_over()))) return {};
    SLIP_TRY(const bool made, done_by_all(learner_->make_held_out()));
    if (made && score_due_) SLIP_TRY_(score());
    apart_s_ = seconds_since(start_);
    return {};
  }

  Status one_step() {
    SLIP_TRY(const LearnedStep step, learner_->learn(step_ + 1));
    const double norm = gradient_norm<float>(learner_->gradients());
    if (!std::isfinite(step.loss) || !std::isfinite(norm))
      return check_failed("step {}: expected a finite loss and gradient, got {} and {}", step_ + 1, step.loss, norm);
    ++step_;
    const double lr = c_.schedule.at(step_, progress());
    adam_->step(learner_->values(), learner_->gradients(), clip_factor(norm, c_.clip), lr, step_);
    if (!average_.empty())  // young averages forget their start: decay grows to its final value
      update_average(average_, learner_->values(),
                     std::min(c_.ema_decay, (1.0 + static_cast<double>(step_)) / (10.0 + static_cast<double>(step_))));
    samples_ += step.samples;
    report_.loss = step.loss;
    report_.samples_per_s = static_cast<double>(samples_) / learning_s();
    points_.push_back({step_, step.loss, step.noisy, step.ar, lr, norm, report_.samples_per_s, elapsed(), step.acceptance});
    lines_ += to_line(points_.back());
    return show();
  }

  /// After a step that is to be scored.
  Status validate() {
    const ValidationRule& rule = c_.validation;
    if (rule.every <= 0 || (step_ % rule.every != 0 && step_ != c_.steps)) return {};
    score_due_ = true;
    return score();
  }

  /// The values that would be published, on the held-out samples; the best are kept. Where a process is interrupted meanwhile none has a
  /// score: it stays due, and the run that goes on begins with it.
  Status score() {
    const auto values = learner_->values();
    std::vector<float> raw;
    if (!average_.empty()) {
      raw.assign(values.begin(), values.end());
      std::copy(average_.begin(), average_.end(), values.begin());
    }
    const Result<double> score = learner_->validate();
    std::copy(raw.begin(), raw.end(), values.begin());
    SLIP_TRY(const bool scored, done_by_all(score ? Status() : Status(score.error())));
    if (!scored) return {};
    score_due_ = false;
    saved_.reset();
    if (best_.empty() || *score > best_score_) {
      const std::span<const float> published = average_.empty() ? std::span<const float>(values) : average_;
      best_.assign(published.begin(), published.end());
      best_score_ = *score;
      worse_ = 0;
    } else {
      ++worse_;
    }
    points_.back().validation = *score;
    lines_.erase(lines_.rfind('\n', lines_.size() - 2) + 1);  // the step's line, once more with its score
    lines_ += to_line(points_.back());
    if (!quiet_)
      say(fmt::format("{}step {}  validation {:.5g}, best {:.5g}\n", terminal_ ? "\r\x1b[K" : "", step_, *score, best_score_));
    return {};
  }

  /// The progress line, and the log and picture on disk every log_every steps.
  Status show() {
    const LossPoint& p = points_.back();
    const bool due = step_ % c_.log_every == 0 || step_ == c_.steps || step_ == first_step_ + 1;
    if (!quiet_ && (terminal_ || due)) {
      const double pace = learning_s() / static_cast<double>(step_ - first_step_);
      double left = pace * static_cast<double>(c_.steps - step_);
      if (c_.max_minutes > 0) left = std::min(left, std::max(0.0, 60 * c_.max_minutes - elapsed()));
      const bool drafts = p.acceptance >= 0;
      say(fmt::format("{}step {}/{}  loss {:.4f}  {} {:.4f}  {} {:.4f}{}  |g| {:.2f}  lr {:.2e}  {:.2f} samples/s  {} left{}",
                      terminal_ ? "\r" : "", step_, c_.steps, p.loss, drafts ? "lk" : "masked", p.noisy, drafts ? "ce" : "next",
                      p.ar, drafts ? fmt::format("  accepted {:.3f}", p.acceptance) : "", p.gradient_norm, p.lr, p.samples_per_s,
                      human_duration(left), terminal_ ? "\x1b[K" : "\n"));
    }
    if (!due || !writes_ || seconds_since(written_) < 5) return {};
    written_ = Clock::now();
    return write_log();
  }

  Status write_log() const {
    SLIP_TRY_(write_file(c_.out / "loss.jsonl", lines_));
    return write_file(c_.out / "loss.svg", loss_svg(points_));
  }

  /// Writes nothing where nothing has been trained since the last time.
  Status save() {
    if (saved_ != step_) SLIP_TRY_(check_finite(learner_->table(), state()));  // in every process, which have the same numbers
    if (writes_ && saved_ != step_) {
      SLIP_TRY_(write_log());
      SLIP_TRY_(save_checkpoint(c_, *learner_, state(), lines_));
    }
    saved_ = step_;
    report_.checkpoint = step_folder(c_.out, step_);
    return {};
  }

  const TrainConfig& c_;
  const RunOptions& options_;
  std::unique_ptr<Learner> learner_;
  std::optional<AdamW<float>> adam_;
  std::vector<float> average_, best_;
  double best_score_ = 0;
  int64_t worse_ = 0;
  json::object inputs_;             // their marks
  bool score_due_ = false;          // this step is to be scored and was not
  bool writes_, quiet_, terminal_;  // the first process writes and speaks
  bool interrupted_ = false;
  double agreed_s_ = 0, apart_s_ = 0;
  int64_t step_ = 0, first_step_ = 0, samples_ = 0;
  std::optional<int64_t> saved_;  // the step that a checkpoint was written of, or read from
  double earlier_s_ = 0;
  Clock::time_point start_{}, written_{};
  std::vector<std::filesystem::path> made_;  // folders
  Held held_;                                // against a second run in the same folder
  std::vector<LossPoint> points_;
  std::string lines_;
  TrainReport report_;
};

}  // namespace

Result<TrainReport> train(const TrainConfig& config, SampleSource& source, const RunOptions& options) {
  SLIP_TRY_(check_out(config.out, options.resume));
  SLIP_TRY(const std::string not_held_out, check_held_out(source, config));
  if (!not_held_out.empty() && !options.quiet && config.processes->rank() == 0) log(LogLevel::kWarn, "{}", not_held_out);
  TrainModel::set_threads(config.threads > 0 ? config.threads : usable_threads());
  Run run(config, source, options);
  SLIP_TRY_(run.prepare());
  return run.loop();
}

}  // namespace slip
