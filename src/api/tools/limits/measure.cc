// SPDX-License-Identifier: Apache-2.0
// See measure.h.
#include "api/tools/limits/measure.h"

#include <algorithm>
#include <cmath>

#include "api/engines.h"
#include "api/request/requests.h"
#include "api/tools/limits/acceptance.h"
#include "api/tools/limits/kernel_rates.h"
#include "base/measure.h"
#include "decode/types/presets.h"
#include "kernels/probe.h"
#include "models/draft/dflash.h"
#include "models/weights/packed_folder.h"

namespace slip::api {

namespace {

/// GB/s of reading so many bytes again and again, from whichever cache or memory holds them.
double read_gbps(ThreadPool& pool, size_t bytes) {
  const size_t words = std::max<size_t>(bytes / sizeof(uint64_t), 4096);
  std::vector<uint64_t> memory(words, 1);
  std::vector<uint64_t> sums(static_cast<size_t>(pool.threads()), 0);
  double best = 0;
  const auto start = Clock::now();
  while (ms_since(start) < 60) {
    const auto before = Clock::now();
    pool.run(pool.threads(), [&](int64_t t) {
      const size_t part = words / static_cast<size_t>(pool.threads()), first = static_cast<size_t>(t) * part;
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = first; i + 4 <= first + part; i += 4) {
        a += memory[i];
        b ^= memory[i + 1];
        c += memory[i + 2];
        d ^= memory[i + 3];
      }
      sums[static_cast<size_t>(t)] += a + b + c + d;
    });
    best = std::max(best, static_cast<double>(words * sizeof(uint64_t)) / (ms_since(before) * 1e6));
  }
  return sums.front() == 0 ? 0 : best;  // the sums keep the loop from being left out
}

Result<Request> text_request(const LimitsWork& w, int64_t number) {
  slipstream::Request asked;
  asked.form = "none";
  asked.prompt = fmt::format("Tell what stands on road number {} and how to drive there.", number + 1);
  asked.max_tokens = w.options.answer_tokens;
  asked.cancel = w.cancel;
  return engine_request(asked);
}

Result<Request> scene_request(const LimitsWork& w, int64_t number, const std::string& records) {
  SLIP_TRY(slipstream::Request scene, records.empty()
                                          ? slipstream::request_of_scene(kFirstHeldOutScene + static_cast<uint64_t>(number))
                                          : slipstream::request_of_record(fmt::format("{}:{}", records, number)));
  if (!w.engine->task().cameras) scene.images.clear();
  scene.cancel = w.cancel;
  return engine_request(scene);
}

/// Outside of --measure, which tells of its rounds itself.
void tell_measuring(const LimitsWork& w, int64_t done = 0) {
  if (!w.options.measure) w.tell("measuring", done, 0);
}

}  // namespace

Result<Machine> measured_machine(const LimitsWork& w, ThreadPool& pool) {
  const LimitsCase& model = w.model;
  const auto bytes = static_cast<double>(model.shape.weights()) * bytes_of(model.type).value_or(2);
  constexpr double kFarBeyondCaches = 256e6;
  Machine m{.name = "this machine", .source = fmt::format("measured now: {}, {} threads", isa_choice().reason, pool.threads())};
  m.gb_per_s = bytes > kFarBeyondCaches ? read_bandwidth_gbps(pool) : read_gbps(pool, static_cast<size_t>(bytes));
  for (const auto& [type, to] :
       {std::pair{WeightType::kBF16, &m.bf16_tflops}, {WeightType::kF32, &m.f32_tflops}, {WeightType::kI8, &m.int8_tops}}) {
    SLIP_TRY_(w.cancel.check("limits", 0, "ceilings"));
    tell_measuring(w);
    *to = dot_gops(type, pool) * 1e-3;
  }
  m.measured = true;
  return m;
}

Result<std::vector<Request>> limits_scenes(LimitsWork& w, int64_t count, const std::string& records) {
  const bool text = !w.model.form;
  if (text && !records.empty()) return unsupported("--records: expected a model that was trained for a form, got one of text");
  std::vector<Request> out;
  for (int64_t i = 0; i < count; ++i) {
    SLIP_TRY(Request request, text ? text_request(w, i) : scene_request(w, i, records));
    request.reuse_prompt = false;
    out.push_back(std::move(request));
  }
  return out;
}

Status measure_kernels(LimitsWork& w, const LimitsCase& c, ThreadPool& pool, Machine& to) {
  SLIP_TRY(to.kernels, measured_kernels(c, w.keys(), pool, w.cancel, [&](int64_t widths) { tell_measuring(w, widths); }));
  to.tower_kernels.clear();
  if (c.pictures.count == 0) return {};
  for (const TowerShape& tower : c.towers) {
    tell_measuring(w, static_cast<int64_t>(to.kernels.rows.size() + to.tower_kernels.size()));
    SLIP_TRY(KernelRates rates, measured_kernels(tower, c.tower_type, c.pictures.grid, pool, w.cancel));
    to.tower_kernels.push_back(std::move(rates));
  }
  return {};
}

void MeasuredDecoder::saw(size_t scene, const Statistics& s) {
  if (scene >= scenes_.size()) scenes_.resize(scene + 1);
  Scene& to = scenes_[scene];
  const Scene now{s.ms.total - s.ms.prefill, s.ms.prefill, static_cast<double>(s.forwards), static_cast<double>(s.rows),
                  static_cast<double>(s.tokens)};
  const double ms = to.forwards > 0 ? std::min(to.ms, now.ms) : now.ms;
  const double prompt = to.forwards > 0 ? std::min(to.prompt_ms, now.prompt_ms) : now.prompt_ms;
  to = now;
  to.ms = ms, to.prompt_ms = prompt;
}

double MeasuredDecoder::mean(double Scene::*of) const {
  double sum = 0;
  for (const Scene& s : scenes_) sum += s.*of;
  return scenes_.empty() ? 0 : sum / static_cast<double>(scenes_.size());
}

double MeasuredDecoder::prompt_ms() const {
  double least = scenes_.empty() ? 0 : scenes_.front().prompt_ms;
  for (const Scene& s : scenes_) least = std::min(least, s.prompt_ms);
  return least;
}

namespace {

Result<int32_t> measured_text_tokens(LimitsWork& w) {
  size_t tokens = 0;
  for (Request scene : w.scenes) {
    SLIP_TRY(scene.method, method_of("ar"));
    SLIP_TRY(const Answer a, w.engine->run(scene));
    tokens += a.decoded.tokens.size();
  }
  return std::max(1, static_cast<int32_t>((tokens + w.scenes.size() / 2) / w.scenes.size()));
}

void take_better(double& best, double now) { best = std::max(best, now); }

void take_better(KernelRates& best, const KernelRates& now) {
  if (best.rows != now.rows) {
    best = now;
    return;
  }
  for (size_t i = 0; i < now.rows.size(); ++i) {
    take_better(best.product[i], now.product[i]);
    take_better(best.attention[i], now.attention[i]);
  }
}

void take_better(Machine& best, const Machine& now) {
  take_better(best.gb_per_s, now.gb_per_s);
  take_better(best.bf16_tflops, now.bf16_tflops);
  take_better(best.f32_tflops, now.f32_tflops);
  take_better(best.int8_tops, now.int8_tops);
  take_better(best.kernels, now.kernels);
  best.tower_kernels.resize(now.tower_kernels.size());
  for (size_t i = 0; i < now.tower_kernels.size(); ++i) take_better(best.tower_kernels[i], now.tower_kernels[i]);
}

/// A table of costs, measured anew in every round at the same points.
class LeastCosts {
 public:
  /// `measure(settings)`: measure_costs of something.
  template <class F>
  Result<CostTable> next(CostSettings s, const F& measure) {
    for (std::vector<double>& ms : times_.ms) ms.clear();
    times_.spent_ms = 0;
    s.times = &times_;
    SLIP_TRY(const CostTable now, measure(s));
    std::vector<double> least(now.measured_ms().begin(), now.measured_ms().end());
    for (size_t i = 0; i < least_.size(); ++i) least[i] = std::min(least[i], least_[i]);
    least_ = std::move(least);
    return CostTable::make({now.rows().begin(), now.rows().end()}, least_, "limits");
  }

 private:
  CostTimes times_;
  std::vector<double> least_;
};

class Measuring {
 public:
  explicit Measuring(LimitsWork& w) : w_(w) {}

  Result<Measured> run() {
    SLIP_TRY_(prepare());
    const auto begin = Clock::now();
    for (; out_.rounds < kRounds && (out_.rounds < kLeastRounds || ms_since(begin) < kBudgetMs); ++out_.rounds) {
      SLIP_TRY_(measure_machine());
      SLIP_TRY_(measure_costs_of_all());
      SLIP_TRY_(measure_tower());
      SLIP_TRY_(measure_decoders());
    }
    SLIP_TRY(const PassTime one, plain_pass(w_.model.shape, w_.machine, w_.pass_of(w_.model, 1, w_.keys(), 1)));
    w_.machine.pass_us = std::max(0.0, std::round((out_.passes.ms(1) - one.total_ms) * 1e6) / 1e3);  // whole nanoseconds
    return std::move(out_);
  }

 private:
  static constexpr int kRounds = 4, kLeastRounds = 2;
  static constexpr double kBudgetMs = 20'000;

  Status prepare() {
    w_.tell("measuring", 0, 0);
    SLIP_TRY(w_.scenes, limits_scenes(w_, w_.options.scenes, {}));
    SLIP_TRY(const Prompt prompt, w_.engine->prompt(w_.scenes.front()));
    if (w_.scenes.front().images.empty()) w_.model.pictures.count = 0;  // questions in text alone use no tower
    w_.model.prompt_rows = static_cast<int32_t>(prompt.inputs.size());
    w_.model.prompt_words = "of the first scene";
    if (!w_.model.form) {
      SLIP_TRY(w_.measured_tokens, measured_text_tokens(w_));
    }
    if (w_.model.head) {
      constexpr int32_t kBlockRows = 256;
      SLIP_TRY(head_, load_dflash(w_.model.head->folder, w_.engine->model(), kBlockRows));
    }
    for (const Image& image : w_.scenes.front().images) {
      if (!w_.engine->model().vision()) break;
      SLIP_TRY(PatchGrid grid, w_.engine->model().preprocess(image));
      grids_.push_back(std::move(grid));
    }
    if (w_.options.draft_model.empty()) return {};
    SLIP_TRY(
        draft_,
        Engine::load(w_.options.draft_model,
                     {.dtype = w_.options.dtype, .threads = w_.options.threads, .slots = std::max(kDefaultSlots, w_.keys() + 512)},
                     load_progress(w_.progress, w_.cancel)));
    return {};
  }

  Status measure_machine() {
    ThreadPool& pool = *w_.pool();
    Machine now = w_.machine;
    if (out_.rounds > 0) {
      SLIP_TRY(now, measured_machine(w_, pool));
    }
    SLIP_TRY_(measure_kernels(w_, w_.model, pool, now));
    if (out_.rounds == 0)
      w_.machine = std::move(now);
    else
      take_better(w_.machine, now);
    return {};
  }

  Status measure_costs_of_all() {
    const CostSettings s{.visible = w_.keys(), .most_rows = kMostMeasuredRows, .budget_ms = 300, .cancel = w_.cancel};
    SLIP_TRY(out_.passes, passes_.next(s, [&](const CostSettings& x) { return measure_costs(w_.engine->model().lm(), x); }));
    if (head_) {
      CostSettings of_head = s;
      of_head.budget_ms = 150;
      of_head.most_rows = std::max(1, std::min({s.most_rows, head_->info().block_slots, head_->info().context_slots - s.visible}));
      SLIP_TRY(out_.head_rounds, rounds_.next(of_head, [&](const CostSettings& x) { return measure_costs(*head_, 0, x); }));
    }
    if (!draft_) return {};
    CostSettings of_steps = s;
    of_steps.budget_ms = 100;
    of_steps.most_rows = 8;  // a step is a row, and what was accepted before it
    SLIP_TRY(out_.draft_steps,
             steps_.next(of_steps, [&](const CostSettings& x) { return measure_costs(draft_->model().lm(), x); }));
    return {};
  }

  Status measure_tower() {
    if (grids_.empty()) return {};
    constexpr double kMs = 100;
    std::vector<float> features;
    const auto begin = Clock::now();
    for (int i = 0; i < 3 || ms_since(begin) < kMs; ++i) {  // the first one grows buffers
      const auto start = Clock::now();
      SLIP_TRY_(w_.engine->model().vision()->encode(grids_, features, w_.cancel));
      const double ms = ms_since(start);
      if (i > 0) out_.tower_ms = out_.tower_ms ? std::min(*out_.tower_ms, ms) : ms;
    }
    return {};
  }

  /// With the prices of the first round, so that measured draft lengths are those in every one.
  Status measure_decoders() {
    if (out_.rounds == 0) {
      SLIP_TRY_(fill_prices(w_, out_.passes, out_.head_rounds ? &*out_.head_rounds : nullptr, 0, w_.text_tokens(), prices_));
      const OwnHead* const head = prices_.settings.head ? &*prices_.settings.head : nullptr;
      candidates_ = candidates_of(w_, head);
      std::erase_if(candidates_, [&](const Candidate& c) {
        return !refusal_of(c, w_, head != nullptr).empty() || (std::holds_alternative<ModelSpec>(c.method.drafter) && !draft_);
      });
    }
    const auto total = static_cast<int64_t>(candidates_.size()) * kRounds;
    for (size_t i = 0; i < candidates_.size();) {
      w_.tell("measuring", static_cast<int64_t>(candidates_.size()) * out_.rounds + static_cast<int64_t>(i), total);
      const Status s = measure_decoder(candidates_[i]);
      const bool second = std::holds_alternative<ModelSpec>(candidates_[i].method.drafter);
      const bool cannot = !s && (s.error().kind == ErrorKind::kUnsupported || s.error().kind == ErrorKind::kUsage ||
                                 (second && s.error().kind == ErrorKind::kBadInput));
      if (cannot && second) out_.draft_model_refused = s.error().message;
      if (!s && !cannot) return s;
      if (cannot)
        candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(i));
      else
        ++i;
    }
    return {};
  }

  Status measure_decoder(const Candidate& c) {
    Method method = c.method;
    if (auto* d = std::get_if<DFlashSpec>(&method.drafter)) d->name = w_.model.head->folder;
    if (auto* d = std::get_if<ModelSpec>(&method.drafter)) d->name = w_.options.draft_model;
    const bool by_head = std::holds_alternative<DFlashSpec>(method.drafter);
    for (size_t i = 0; i < w_.scenes.size(); ++i) {
      SLIP_TRY_(w_.cancel.check("limits", static_cast<int64_t>(i), "answers"));
      Request request = w_.scenes[i];
      request.method = method;
      request.context.draft_length_model = by_head ? &*prices_.profile.head : &prices_.profile.own;
      SLIP_TRY(const Answer a, w_.engine->run(request));
      out_.decoders[c.name].saw(i, a.decoded.statistics);
    }
    return {};
  }

  LimitsWork& w_;
  Measured out_;
  LeastCosts passes_, rounds_, steps_;
  std::unique_ptr<DFlashHead> head_;
  std::unique_ptr<Engine> draft_;
  std::vector<PatchGrid> grids_;
  Prices prices_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Measured> measure_here(LimitsWork& w) { return Measuring(w).run(); }

}  // namespace slip::api
