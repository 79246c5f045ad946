// SPDX-License-Identifier: Apache-2.0
// slipstream::simulate and draw_scene: record sets from seeds, made on all threads and written in the order of the seeds; or one record
// as a picture.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "api/boundary.h"
#include "api/tools/reports.h"
#include "base/measure.h"
#include "base/philox.h"
#include "base/threads.h"
#include "image/image.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slip::api {

namespace {

Result<std::optional<uint32_t>> family_index(const std::string& name) {
  if (name.empty()) return std::optional<uint32_t>{};
  const auto names = sim::family_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return bad_input("--family: expected one of `slipstream simulate --list-families`, got {}", name);
  return std::optional<uint32_t>(static_cast<uint32_t>(at - names.begin()));
}

// Records come off in the order of their seeds although many threads make them: a window of 4 per thread waits for its turn.
class OrderedMaker {
 public:
  OrderedMaker(uint64_t first, int64_t count, std::optional<uint32_t> family, double perturbed, int threads)
      : first_(first), count_(count), family_(family), perturbed_(perturbed), window_(threads * 4) {
    workers_.reserve(static_cast<size_t>(threads));
    try {
      for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system gives no more threads: go on with those there are
      if (workers_.empty()) throw;
    }
  }
  ~OrderedMaker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
  Result<sim::Record> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(taken_); });
    auto node = ready_.extract(taken_++);
    changed_.notify_all();
    return std::move(node.mapped());
  }

 private:
  /// Which seeds are perturbed does not depend on the set that they are in.
  Result<sim::Record> make(uint64_t seed) const {
    PhiloxStream g(seed, 0x9E28);
    return g.uniform() < perturbed_ ? sim::make_perturbed(seed, family_) : sim::make_record(seed, family_);
  }
  void work() {
    for (;;) {
      int64_t i = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || given_ >= count_ || given_ < taken_ + window_; });
        if (stop_ || given_ >= count_) return;
        i = given_++;
      }
      Result<sim::Record> r = bounded([&] { return make(first_ + static_cast<uint64_t>(i)); });
      {
        const std::lock_guard lock(mutex_);
        ready_.emplace(i, std::move(r));
      }
      changed_.notify_all();
    }
  }

  const uint64_t first_;
  const int64_t count_;
  const std::optional<uint32_t> family_;
  const double perturbed_;
  const int64_t window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Result<sim::Record>> ready_;
  int64_t given_ = 0, taken_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

json::object labels_json(const sim::Labels& l) {
  json::array critical, future;
  for (size_t i = 0; i < l.critical.size(); ++i)
    if (l.critical[i]) critical.emplace_back(sim::kObjectClasses[i]);
  for (int t = 1; t <= 5; ++t) {
    const sim::Vec2 p = sim::future_at(l, t);
    future.push_back(json::array{p.x, p.y});
  }
  return {{"seed", l.seed},
          {"family", sim::family_names()[l.family]},
          {"intent", words(l.intent)},
          {"critical_objects", critical},
          {"longitudinal", sim::words(l.longitudinal)},
          {"lateral", sim::words(l.lateral)},
          {"explanation", l.explanation},
          {"v0_mps", l.v0_mps},
          {"pre_onset", l.pre_onset},
          {"waypoints", future}};
}

Result<slipstream::Report> draw_scene(const std::string& png, uint64_t seed, const std::string& family_name) {
  SLIP_TRY(const std::optional<uint32_t> family, family_index(family_name));
  SLIP_TRY(const sim::Record r, sim::make_record(seed, family));
  Image wide{sim::kCameras * sim::kImageWidth, sim::kImageHeight, {}};
  wide.rgb.resize(sim::kCameras * sim::kImageBytes);
  const size_t line = size_t{sim::kImageWidth} * 3;
  for (size_t c = 0; c < sim::kCameras; ++c)
    for (size_t y = 0; y < sim::kImageHeight; ++y)
      std::copy_n(r.images.data() + c * sim::kImageBytes + y * line, line, wide.rgb.data() + (y * sim::kCameras + c) * line);
  SLIP_TRY_(save_png(png, wide));
  const json::object labels = labels_json(r.labels);
  return report_of(labels, pretty(labels));
}

Result<slipstream::Report> simulate(const std::string& out, const slipstream::SimulateOptions& o,
                                    const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY(const std::optional<uint32_t> family, family_index(o.family));
  SLIP_TRY(sim::RecordSetWriter writer, sim::RecordSetWriter::create(out, o.first_seed, o.count, family));
  const auto start = Clock::now();
  {
    OrderedMaker maker(o.first_seed, o.count, family, o.perturbed, o.threads > 0 ? o.threads : usable_threads());
    for (int64_t i = 0; i < o.count; ++i) {
      SLIP_TRY_(cancel.check("simulate", i, "records"));
      SLIP_TRY(const sim::Record record, maker.next());
      SLIP_TRY_(writer.add(record));
      if (progress) progress("simulating", i + 1, o.count);
    }
  }
  SLIP_TRY_(writer.finish());
  const double seconds = ms_since(start) / 1000, per_s = static_cast<double>(o.count) / seconds;
  return report_of(json::object{{"records", o.count}, {"out", out}, {"seconds", seconds}, {"frames_per_s", per_s}},
                   fmt::format("{} records in {}: {:.1f} three-camera frames per second\n", o.count, out, per_s));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

std::vector<std::string> scene_families() {
  const auto names = slip::sim::family_names();
  return {names.begin(), names.end()};
}

Result<Report> simulate(const std::string& out, const SimulateOptions& options, const Progress& progress,
                        const CancelToken& cancel) {
  return api::bounded([&] { return api::simulate(out, options, progress, cancel); });
}

Result<Report> draw_scene(const std::string& png, uint64_t seed, const std::string& family) {
  return api::bounded([&] { return api::draw_scene(png, seed, family); });
}

}  // namespace slipstream
