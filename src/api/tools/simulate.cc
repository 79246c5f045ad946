// SPDX-License-Identifier: Apache-2.0
// slipstream::simulate and draw_scene: record sets from seeds, made on all threads and written in the order of the seeds; or one record
// as a picture.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "api/boundary.h"
#include "api/engines.h"
#include "api/tools/asked.h"
#include "api/tools/reports.h"
#include "base/measure.h"
#include "base/threads/threads.h"
#include "decode/types/presets.h"
#include "drive/driven.h"
#include "drive/ensemble.h"
#include "drive/model_planner.h"
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

using Records = std::vector<sim::Record>;

// A seed's records come off in the order of the seeds although many threads make them: a window per thread waits for its turn.
class OrderedMaker {
 public:
  OrderedMaker(const slipstream::SimulateOptions& o, std::optional<uint32_t> family, int threads, Engine* driver,
               const CancelToken& cancel)
      : o_(o),
        driver_(driver),
        count_(o.driven > 0 ? std::numeric_limits<int64_t>::max() : o.count),
        family_(family),
        window_(threads * (o.driven > 0 ? 1 : 4)),
        cancel_(cancel) {
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
  Result<Records> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(taken_); });
    auto node = ready_.extract(taken_++);
    changed_.notify_all();
    return std::move(node.mapped());
  }

 private:
  Result<Records> make(uint64_t seed) const {
    Records out;
    if (o_.driven == 0) {
      SLIP_TRY(sim::Record r, sim::make_mixed(seed, o_.perturbed, family_));
      out.push_back(std::move(r));
      return out;
    }
    const auto take = [&](sim::Record&& r) -> Status {
      out.push_back(std::move(r));
      return {};
    };
    std::optional<drive::ModelPlanner> learner;
    if (driver_) {
      SLIP_TRY(Method method, method_of(kAutomatic));
      learner.emplace(*driver_, std::move(method));
    }
    std::optional<drive::EnsemblePlanner> averaged;
    if (learner && o_.ensemble_s > 0) averaged.emplace(*learner, o_.ensemble_s, o_.careful);
    drive::Planner* leads = averaged ? static_cast<drive::Planner*>(&*averaged) : learner ? &*learner : nullptr;
    SLIP_TRY_(drive::driven_records(seed, family_, o_.driven, true, leads, take, cancel_));
    return out;
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
      Result<Records> r = bounded([&] { return make(o_.first_seed + static_cast<uint64_t>(i)); });
      {
        const std::lock_guard lock(mutex_);
        ready_.emplace(i, std::move(r));
      }
      changed_.notify_all();
    }
  }

  const slipstream::SimulateOptions& o_;
  Engine* driver_;  // whose answers take turns
  const int64_t count_;
  const std::optional<uint32_t> family_;
  const int64_t window_;
  const CancelToken& cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Result<Records>> ready_;
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
  if (!png.ends_with(".png")) return usage_error("--picture: expected a .png file, got {}", png);
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

constexpr int32_t kMostDriven = 20;  // of the 120 decisions of a drive; more are nearly the same picture

/// What a set of driven records says of itself. The driver is known by its folder's name, wherever that lies.
std::string command_of(const slipstream::SimulateOptions& o) {
  std::string out = fmt::format("simulate --seed {} --driven {}", o.first_seed, o.driven);
  std::filesystem::path driver = std::filesystem::path(o.driver).lexically_normal();
  if (!driver.has_filename()) driver = driver.parent_path();
  if (!o.driver.empty()) out += " --driver " + driver.filename().string();
  if (o.ensemble_s > 0) out += fmt::format(" --ensemble {}{}", o.ensemble_s, o.careful ? " --careful" : "");
  if (!o.family.empty()) out += " --family " + o.family;
  return out;
}

/// Null: nobody.
Result<std::unique_ptr<Engine>> driver_of(const slipstream::SimulateOptions& o, const slipstream::Progress& progress,
                                          const slipstream::CancelToken& cancel) {
  if (o.driver.empty()) return std::unique_ptr<Engine>();
  SLIP_TRY(auto engine, Engine::load(o.driver, {.threads = o.threads}, load_progress(progress, cancel)));
  SLIP_TRY(const FormPtr form, engine->form("model"));
  if (plan_fields(form->form).empty())
    return unsupported("--driver: expected a model whose form has a trajectory, got {}", o.driver);
  return engine;
}

Result<slipstream::Report> simulate(const std::string& out, const slipstream::SimulateOptions& o,
                                    const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  SLIP_TRY(const std::optional<uint32_t> family, family_index(o.family));
  if (o.driven < 0 || o.driven > kMostDriven)
    return usage_error("--driven: expected 0 to {} frames of a drive, got {}", kMostDriven, o.driven);
  if (o.driven > 0 && o.perturbed > 0) return usage_error("expected --driven or --perturbed, got both");
  if (o.driven == 0 && !o.driver.empty()) return usage_error("--driver: expected --driven with it, got none");
  if (o.ensemble_s != 0 && o.driver.empty()) return usage_error("--ensemble: expected --driver with it, got none");
  if (!(o.ensemble_s >= 0 && o.ensemble_s <= 10)) return usage_error("--ensemble: expected 0 to 10 seconds, got {}", o.ensemble_s);
  if (o.careful && o.ensemble_s == 0) return usage_error("--careful: expected --ensemble beside it, got none");
  SLIP_TRY_(check_seeds(o.first_seed, o.count));
  SLIP_TRY(const std::unique_ptr<Engine> driver, driver_of(o, progress, cancel));
  SLIP_TRY(sim::RecordSetWriter writer, o.driven == 0 ? sim::RecordSetWriter::create(out, o.first_seed, o.count, family)
                                                      : sim::RecordSetWriter::create(out, command_of(o)));
  const auto start = Clock::now();
  {
    OrderedMaker maker(o, family, o.threads > 0 ? o.threads : usable_threads(), driver.get(), cancel);
    for (int64_t i = 0; i < o.count;) {
      SLIP_TRY_(cancel.check("simulate", i, "records"));
      SLIP_TRY(const Records records, maker.next());
      for (const sim::Record& record : records) {
        if (i == o.count) break;
        SLIP_TRY_(writer.add(record));
        ++i;
        if (progress) progress("simulating", i, o.count);
      }
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
