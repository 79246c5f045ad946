// SPDX-License-Identifier: Apache-2.0
// The batch thread; contract in batcher.h.
#include "train/loop/batcher.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "base/interrupt.h"

namespace slip {
namespace {

Result<SequenceRows> objective_rows(const Sample& s, const TrainConfig& c, const std::vector<SectionRule>& sections,
                                    const NoiseKey& key) {
  switch (c.objective) {
    case ObjectiveKind::kSasd:
      return sasd_rows(s, sasd_masks(s, sasd_noise(s, sections, key), c.minimum_noise), sections, c.sasd_rule);
    case ObjectiveKind::kNld:
      return nld_rows(s, nld_noise(s, c.nld_rule, key), c.nld_rule, key.step <= c.nld_rule.ar_steps);
    case ObjectiveKind::kGraph:
      SLIP_TRY_(check_graph_sample(s));
      return graph_rows(s, draft_blocks(s, c.graph_rule, key), c.graph_rule).rows;
    default:
      break;  // the draft adapter's rows are the decoder's, a head's its own
  }
  return Error{ErrorKind::kInternal, "objective: expected one with rows of its own, got another"};
}

Status check_for_model(const Sample& s, const TrainConfig& c, int64_t index) {
  SLIP_TRY_(check_sample(s));
  if (s.graph && c.objective != ObjectiveKind::kGraph && c.objective != ObjectiveKind::kLora)
    return bad_input(
        "sample {}: expected an objective of kind \"graph\" or \"lora-drafter\" for a model with graph visibility, got another",
        index);
  if (!s.grids.empty() && !c.shape.vision && !c.shape.vit)
    return bad_input("sample {}: expected no images for a model without vision, got {}", index, s.grids.size());
  return {};
}

Status wanted(const std::function<bool()>& stop, int64_t step) {
  if (stop && stop()) return Error{ErrorKind::kCancelled, fmt::format("step {}: nobody waits for its batches any more", step)};
  return {};
}

Result<StepBatches> make_examples(SampleSource& source, const TrainConfig& c, int64_t step, const std::function<bool()>& stop) {
  StepBatches out;
  const int64_t samples = c.batch * c.accumulate;
  const ShardRange range = c.range();
  for (int64_t i = range.sample_begin(range.first, samples); i < range.sample_begin(range.last, samples); ++i) {
    const int64_t index = c.first_sample + (step - 1) * samples + i;
    SLIP_TRY_(wanted(stop, step));
    SLIP_TRY(const Sample s, source.get(index));
    SLIP_TRY_(check_for_model(s, c, index));
    SLIP_TRY(LoraTask task, lora_task(s));
    task.noise = c.seed ^ (static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15u);
    out.parts.push_back(prompt_batch(s, c.shape.vision_rows()));
    out.tasks.push_back(std::move(task));
    out.shard.push_back(range.shard_of(i, samples));
    ++out.samples;
  }
  return out;
}

}  // namespace

Status check_names(const SampleSource& source, const TrainConfig& c) {
  const Outline outline = source.outline();
  if (c.objective == ObjectiveKind::kSasd) {
    const auto rules = rules_of_sections(c.sections, outline.sections);
    return rules ? Status() : Status(rules.error());
  }
  const bool graph = c.objective == ObjectiveKind::kGraph && !outline.fields.empty();
  return graph ? check_graph_weights(c.graph_rule.weights, outline.sections, outline.fields) : Status();
}

Result<StepBatches> make_step(SampleSource& source, const TrainConfig& c, int64_t step, const std::function<bool()>& stop) {
  if (c.objective == ObjectiveKind::kLora) return make_examples(source, c, step, stop);
  StepBatches out;
  std::vector<SectionRule> sections;
  if (c.objective == ObjectiveKind::kSasd) {
    SLIP_TRY(sections, rules_of_sections(c.sections, source.outline().sections));
  }
  const VisionShape vision = c.shape.vision_rows();
  const int64_t per_step = c.batch * c.accumulate;
  const ShardRange range = c.range();
  const int64_t end = range.sample_begin(range.last, per_step);
  for (int64_t first = range.sample_begin(range.first, per_step); first < end;) {
    RowBatch batch;
    const int64_t shard = range.shard_of(first, per_step);
    const int64_t last = std::min(first + c.batch, range.sample_begin(shard + 1, per_step));
    for (int64_t in_step = first; in_step < last; ++in_step) {
      const int64_t index = c.first_sample + (step - 1) * per_step + in_step;
      SLIP_TRY_(wanted(stop, step));
      SLIP_TRY(const Sample s, source.get(index));
      SLIP_TRY_(check_for_model(s, c, index));
      const NoiseKey key{c.seed, c.rank, static_cast<uint32_t>(step), static_cast<uint32_t>(in_step)};
      SLIP_TRY(const SequenceRows rows, objective_rows(s, c, sections, key));
      for (const int32_t t : rows.tokens)
        if (t < 0 || t >= c.shape.vocab)
          return bad_input("sample {}: expected token ids below {}, got {}", index, c.shape.vocab, t);
      if (!rows.terms.empty()) append_sequence(batch, rows, inputs_of(s), vision, true);
    }
    out.count += batch.count;
    out.samples += last - first;
    out.shard.push_back(shard);
    out.parts.push_back(std::move(batch));
    first = last;
  }
  return out;
}

namespace {

Result<StepBatches> make_validation(SampleSource& source, const TrainConfig& config) {
  if (config.validation.every <= 0) return StepBatches{};
  TrainConfig c = config;
  c.first_sample = config.validation.first_sample;
  c.batch = 1;
  c.accumulate = config.validation.samples;
  c.seed = ~config.seed;
  c.shards = 1;
  c.processes = alone();
  c.nld_rule.ar_steps = 0;
  return make_step(source, c, 1, interrupted);
}

}  // namespace

struct Batcher::Impl {
  SampleSource& source;
  const TrainConfig& config;
  int64_t asked;  // the step that `next` gives
  int64_t begun;  // the step that the next free thread makes
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Result<StepBatches>> ready;
  std::atomic<bool> stop = false;  // set under the mutex
  std::vector<std::thread> threads;
  std::optional<Error> refused = {};  // a thread that could not be started

  int64_t ahead() const { return std::max<int64_t>(3, 2 * config.data_threads); }

  /// What `work` gives, or the error of what it throws: these threads have nobody above them.
  template <class Work>
  static auto guarded(std::string_view what, Work&& work) -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return resource_error("{}: expected memory for its batches, got none", what);
    } catch (const std::exception& e) {  // CheckFailure, and whatever a library throws
      return Error{ErrorKind::kInternal, e.what()};
    }
  }

  void work(bool first) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 5);  // this thread only: the products must not wait for the renderer
    std::unique_ptr<SampleSource> own;
    Status opened;
    if (!first) {
      auto made = guarded("data", [&] { return make_source(config.data, config.tokenizer); });
      if (made)
        own = std::move(*made);
      else
        opened = made.error();
    }
    for (;;) {
      int64_t step = 0;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || begun < asked + ahead(); });
        if (stop) return;
        step = begun++;
      }
      Result<StepBatches> made =
          opened ? guarded(fmt::format("step {}", step),
                           [&] { return make_step(first ? source : *own, config, step, [this] { return stop.load(); }); })
                 : Result<StepBatches>(opened.error());
      const bool failed = !made;
      {
        const std::lock_guard lock(mutex);
        ready.emplace(step, std::move(made));
      }
      changed.notify_all();
      if (failed) return;
    }
  }

  void start() {
    for (int i = 0; i < config.data_threads; ++i) {
      try {
        threads.emplace_back([this, i] { work(i == 0); });
      } catch (const std::system_error& e) {
        const std::lock_guard lock(mutex);
        stop = true;
        refused =
            resource_error("data_threads: expected {} threads that make samples, got {}: {}", config.data_threads, i, e.what());
        break;
      }
    }
    if (refused) changed.notify_all();
  }
};

Batcher::Batcher(SampleSource& source, const TrainConfig& config, int64_t first_step)
    : impl_(new Impl{.source = source, .config = config, .asked = first_step, .begun = first_step}) {
  impl_->start();
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  for (std::thread& t : impl_->threads) t.join();
}

Result<StepBatches> Batcher::next() {
  std::unique_lock lock(impl_->mutex);
  if (impl_->refused) return *impl_->refused;
  impl_->changed.wait(lock, [&] { return impl_->ready.contains(impl_->asked); });
  const auto at = impl_->ready.find(impl_->asked);
  if (!at->second) return at->second.error();  // stays: whoever asks again is told again
  Result<StepBatches> out = std::move(at->second);
  impl_->ready.erase(at);
  ++impl_->asked;
  impl_->changed.notify_all();
  return out;
}

Status LearnerBatches::make_held_out() {
  if (has_held_out_) return {};
  SLIP_TRY(held_out_, make_validation(source_, config_));
  has_held_out_ = true;
  return {};
}

Result<StepBatches> LearnerBatches::next(int64_t step) {
  if (!ahead_) {
    SLIP_TRY_(make_held_out());
    ahead_.emplace(source_, config_, step);
  }
  return ahead_->next();
}

}  // namespace slip
