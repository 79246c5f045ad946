// SPDX-License-Identifier: Apache-2.0
// See measure.h.
#include "api/tools/limits/measure.h"

#include <algorithm>

#include "api/engines.h"
#include "api/requests.h"
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

}  // namespace

Machine measured_machine(const LimitsCase& model, ThreadPool& pool) {
  const auto bytes = static_cast<double>(model.shape.weights()) * bytes_of(model.type).value_or(2);
  constexpr double kFarBeyondCaches = 256e6;
  Machine m{.name = "this machine", .source = fmt::format("measured now: {}, {} threads", isa_choice().reason, pool.threads())};
  m.gb_per_s = bytes > kFarBeyondCaches ? read_bandwidth_gbps(pool) : read_gbps(pool, static_cast<size_t>(bytes));
  m.bf16_tflops = dot_gops(WeightType::kBF16, pool) * 1e-3;
  m.f32_tflops = dot_gops(WeightType::kF32, pool) * 1e-3;
  m.int8_tops = dot_gops(WeightType::kI8, pool) * 1e-3;
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

Result<int32_t> measured_text_tokens(LimitsWork& w) {
  size_t tokens = 0;
  for (Request scene : w.scenes) {
    SLIP_TRY(scene.method, method_of("ar"));
    SLIP_TRY(const Answer a, w.engine->run(scene));
    tokens += a.decoded.tokens.size();
  }
  return std::max(1, static_cast<int32_t>((tokens + w.scenes.size() / 2) / w.scenes.size()));
}

Result<MeasuredDecoder> measure_decoder(LimitsWork& w, const Method& method, const DraftLengthModel& model) {
  MeasuredDecoder out;
  const double share = 1.0 / static_cast<double>(w.scenes.size());
  int64_t done = 0;
  for (const Request& scene : w.scenes) {
    SLIP_TRY_(w.cancel.check("limits", done++, "answers"));
    Request request = scene;
    request.method = method;
    request.context.draft_length_model = &model;
    SLIP_TRY(const Answer settles, w.engine->run(request));
    SLIP_TRY(const Answer a, w.engine->run(request));
    const Statistics &first = settles.decoded.statistics, &s = a.decoded.statistics;
    out.ms += share * std::min(first.ms.total - first.ms.prefill, s.ms.total - s.ms.prefill);
    out.forwards += share * static_cast<double>(s.forwards);
    out.rows += share * static_cast<double>(s.rows);
    out.tokens += share * static_cast<double>(s.tokens);
    const double prompt = std::min(first.ms.prefill, s.ms.prefill);
    out.prompt_ms = out.prompt_ms > 0 ? std::min(out.prompt_ms, prompt) : prompt;
  }
  return out;
}

Result<std::optional<double>> measure_tower(LimitsWork& w) {
  Model& model = w.engine->model();
  if (w.scenes.empty() || w.scenes.front().images.empty() || !model.vision()) return std::optional<double>();
  std::vector<PatchGrid> grids;
  for (const Image& image : w.scenes.front().images) {
    SLIP_TRY(PatchGrid grid, model.preprocess(image));
    grids.push_back(std::move(grid));
  }
  constexpr double kBudgetMs = 150;
  double best = 0;
  std::vector<float> features;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || ms_since(begin) < kBudgetMs; ++i) {  // the first one grows buffers
    const auto start = Clock::now();
    SLIP_TRY_(model.vision()->encode(grids, features, w.cancel));
    const double ms = ms_since(start);
    if (i > 0) best = best > 0 ? std::min(best, ms) : ms;
  }
  return std::optional(best);
}

Result<CostTable> measure_head(LimitsWork& w) {
  constexpr int32_t kBlockRows = 256;
  Model& model = w.engine->model();
  SLIP_TRY(const std::unique_ptr<DFlashHead> head, load_dflash(w.model.head->folder, model, kBlockRows));
  CostSettings s{.visible = w.keys(), .budget_ms = 300, .cancel = w.cancel};
  s.most_rows = std::max(1, std::min({s.most_rows, head->info().block_slots, head->info().context_slots - s.visible}));
  return measure_costs(*head, 0, s);
}

Result<CostTable> measure_draft_model(LimitsWork& w) {
  constexpr int32_t kMostRows = 8;  // a step is a row, and what was accepted before it
  SLIP_TRY(const std::unique_ptr<Engine> draft,
           Engine::load(w.options.draft_model,
                        {.dtype = w.options.dtype, .threads = w.options.threads, .slots = std::max(kDefaultSlots, w.keys() + 512)},
                        load_progress(w.progress, w.cancel)));
  const CostSettings s{.visible = w.keys(), .most_rows = kMostRows, .budget_ms = 200, .cancel = w.cancel};
  return measure_costs(draft->model().lm(), s);
}

}  // namespace slip::api
