// SPDX-License-Identifier: Apache-2.0
// `bench serve`: the service under load, in one process without sockets, or (--url) a server over them. Closed loop: so many
// clients ask one question after another. Open loop: questions come at a rate whether or not others are answered (Poisson
// arrivals). Streams: cars that ask at a steady rate and give a frame up when the next one comes. The decoders take turns within every
// point, so that their ratios hold on a machine that is not alone: the concurrency figure of [Nemotron-Labs-Diffusion] in miniature (docs/PAPERS.md).
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/measure.h"
#include "base/standard_streams.h"
#include "cli/bars.h"
#include "cli/bench/askers.h"
#include "cli/bench/commands.h"
#include "cli/output.h"
#include "decode/types/words.h"
#include "slipstream/engine.h"

namespace slip::cli {
namespace {

struct AnswerSeen {
  double total_ms = 0, first_ms = 0, plan_ms = 0;
  bool answered = false;
  int64_t tokens = 0;
};

/// What one decoder did at one load, in all its turns.
struct LoadPoint {
  double seconds = 0;
  std::vector<AnswerSeen> samples;
  int64_t passes = 0, rows = 0, requests = 0;
};

double quantile_of(std::vector<double> v, double p) {
  const auto at = static_cast<size_t>(std::llround(p * static_cast<double>(v.size() - 1)));
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(at), v.end());
  return v[at];
}

json::value quantiles_json(const std::vector<double>& v) {
  if (v.empty()) return {{"p50", nullptr}, {"p95", nullptr}, {"p99", nullptr}};
  return {{"p50", quantile_of(v, .5)}, {"p95", quantile_of(v, .95)}, {"p99", quantile_of(v, .99)}};
}

json::object point_json(const std::string& decoder, std::string_view of, double load, const LoadPoint& p) {
  std::vector<double> total, first, plan;
  int64_t tokens = 0;
  for (const AnswerSeen& s : p.samples) {
    if (!s.answered) continue;
    tokens += s.tokens;
    total.push_back(s.total_ms);
    first.push_back(s.first_ms);
    if (s.plan_ms > 0) plan.push_back(s.plan_ms);
  }
  const double passes = static_cast<double>(std::max<int64_t>(1, p.passes));
  json::object out{{"decoder", decoder},
                   {of, load},
                   {"seconds", p.seconds},
                   {"asked", p.samples.size()},
                   {"answers", total.size()},
                   {"missed", p.samples.size() - total.size()},
                   {"answers_per_s", static_cast<double>(total.size()) / p.seconds},
                   {"tokens_per_s", static_cast<double>(tokens) / p.seconds},
                   {"first_field_ms", quantiles_json(first)},
                   {"plan_ms", quantiles_json(plan)},
                   {"answer_ms", quantiles_json(total)}};
  if (p.passes == 0) return out;  // of a server over sockets nothing is known of passes
  out["rows_per_pass"] = static_cast<double>(p.rows) / passes;
  out["requests_per_pass"] = static_cast<double>(p.requests) / passes;
  return out;
}

class ServiceUnderLoad {
 public:
  ServiceUnderLoad(Asker& asker, size_t scenes) : asker_(asker), scenes_(scenes) {
    asker_.on_pass([this](const slipstream::PassShared& pass) {
      const std::lock_guard lock(mutex_);
      if (!point_) return;
      ++point_->passes;
      point_->rows += pass.rows;
      point_->requests += pass.requests;
    });
  }

  /// Turns, each added to its point. In turn `turn` every decoder hears the same questions, at the same times where these do not hang on answers.
  void begin_turn(int turn) {
    random_.seed(static_cast<uint64_t>(turn + 8));
    next_ = static_cast<uint64_t>(turn + 1) << 20;
  }
  void closed(const std::string& decoder, int clients, double seconds, LoadPoint& point) {
    turn(decoder, seconds, point, [&](Clock::time_point start) {
      std::vector<std::thread> threads;
      threads.reserve(static_cast<size_t>(clients));
      for (int c = 0; c < clients; ++c)
        threads.emplace_back([&] {
          while (ms_since(start) < seconds * 1000 && !cancel_.cancelled()) wait_for(*submit());
        });
      for (std::thread& t : threads) t.join();
    });
  }
  /// Each question once, so that what is kept of them is there for all decoders alike.
  void warm() {
    LoadPoint none;
    turn("auto", 0, none, [&](Clock::time_point) {
      for (size_t i = 0; i < scenes_ && !cancel_.cancelled(); ++i) wait_for(*submit());
    });
  }
  void open(const std::string& decoder, double per_s, double seconds, LoadPoint& point) {
    turn(decoder, seconds, point, [&](Clock::time_point start) {
      std::exponential_distribution<double> gap(per_s);
      for (double at_s = gap(random_); at_s < seconds && !cancel_.cancelled(); at_s += gap(random_)) {
        std::this_thread::sleep_until(start + std::chrono::duration<double>(at_s));
        submit();
      }
    });
  }
  void streams(const std::string& decoder, int cars, double hz, double seconds, LoadPoint& point) {
    turn(decoder, seconds, point, [&](Clock::time_point start) {
      std::vector<std::shared_ptr<One>> running(static_cast<size_t>(cars));
      const auto frames = static_cast<int64_t>(seconds * hz) * cars;
      for (int64_t k = 0; k < frames && !cancel_.cancelled(); ++k) {
        std::this_thread::sleep_until(start + std::chrono::duration<double>(static_cast<double>(k) / (hz * cars)));
        auto& car = running[static_cast<size_t>(k % cars)];
        if (car) car->cancel.cancel();
        car = submit();
      }
    });
  }

 private:
  struct One {
    slipstream::CancelToken cancel;
    double first_ms = 0, plan_ms = 0;
    bool done = false;
  };
  template <class Work>
  void turn(const std::string& decoder, double seconds, LoadPoint& point, Work work) {
    decoder_ = decoder;
    {
      const std::lock_guard lock(mutex_);
      point_ = &point;
    }
    const auto start = Clock::now();
    work(start);
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return under_way_ == 0; });
    point.seconds += std::max(seconds, ms_since(start) / 1000);  // questions might have come until the end
    point_ = nullptr;
  }
  void wait_for(const One& one) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return one.done; });
  }
  std::shared_ptr<One> submit() {
    const auto one = std::make_shared<One>();
    one->cancel = slipstream::CancelToken::child_of(cancel_);
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
      number = next_++;
    }
    const auto begun = Clock::now();
    asker_.ask(decoder_, number, one->cancel,
               {.first =
                    [one, begun] {
                      if (one->first_ms == 0) one->first_ms = ms_since(begun);
                    },
                .plan = [one, begun] { one->plan_ms = ms_since(begun); },
                .done =
                    [this, one, begun](bool answered, int64_t tokens) {
                      const AnswerSeen s{.total_ms = ms_since(begun),
                                         .first_ms = one->first_ms,
                                         .plan_ms = one->plan_ms,
                                         .answered = answered,
                                         .tokens = tokens};
                      const std::lock_guard lock(mutex_);
                      if (point_) point_->samples.push_back(s);
                      one->done = true;
                      --under_way_;
                      ended_.notify_all();
                    }});
    return one;
  }

  Asker& asker_;
  const size_t scenes_;
  const slipstream::CancelToken cancel_ = slipstream::CancelToken::of_process();
  std::mt19937_64 random_;
  std::string decoder_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int under_way_ = 0;
  uint64_t next_ = 0;
  LoadPoint* point_ = nullptr;
};

void print_load_head(std::string_view of) {
  print_text(fmt::format("{:<14} {:>8} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8}\n", "decoder", of,
                         "answers/s", "tokens/s", "first p50", "plan p50", "p50 ms", "p95 ms", "p99 ms", "rows", "shared", "missed",
                         "of best"));
}

void print_point(const json::object& p, std::string_view of) {
  const auto number = [&](std::string_view key) { return p.contains(key) ? p.at(key).to_number<double>() : 0; };
  const auto known = [&](std::string_view key) { return p.contains(key) ? fmt::format("{:.1f}", number(key)) : "-"; };
  const auto inner = [&](const char* key, const char* q) {
    const json::value& v = p.at(key).at(q);
    return v.is_null() ? "-" : fmt::format("{:.1f}", v.to_number<double>());
  };
  print_text(fmt::format("{:<14} {:>8.3g} {:>10.1f} {:>10.0f} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7.0f} {:>8}\n",
                         std::string(p.at("decoder").as_string()), number(of), number("answers_per_s"), number("tokens_per_s"),
                         inner("first_field_ms", "p50"), inner("plan_ms", "p50"), inner("answer_ms", "p50"),
                         inner("answer_ms", "p95"), inner("answer_ms", "p99"), known("rows_per_pass"), known("requests_per_pass"),
                         number("missed"), p.contains("of_best") ? fmt::format("{:.2f}", number("of_best")) : ""));
}

int64_t asked_in(const std::vector<json::object>& lines) {
  int64_t asked = 0;
  for (const json::object& line : lines) asked += line.at("asked").to_number<int64_t>();
  return asked;
}

/// `auto` beside the best of the decoders that were named.
void compare_with_best(std::vector<json::object>& lines) {
  double best = 0;
  for (const json::object& line : lines)
    if (line.at("decoder") != "auto") best = std::max(best, line.at("answers_per_s").to_number<double>());
  for (json::object& line : lines)
    if (best > 0 && line.at("decoder") == "auto") line["of_best"] = line.at("answers_per_s").to_number<double>() / best;
}

}  // namespace

Status bench_serve(const BenchServeOptions& o) {
  const slipstream::CancelToken cancel = slipstream::CancelToken::of_process();
  Bars bars;
  SLIP_TRY(const std::unique_ptr<Asker> asker, o.url.empty() ? ask_here(o, bars.progress(), cancel) : ask_server(o, cancel));
  bars.finish();
  std::vector<std::string> decoders = o.decoders;
  if (decoders.empty()) decoders = presets_of_model_alone(asker->visibility() == "graph" ? Visibility::kGraph : Visibility::kChain);
  for (const std::string& decoder : decoders) SLIP_TRY_(asker->check(decoder));
  const std::string_view of = o.rates.empty() ? "clients" : "per_s";
  std::vector<double> loads(o.rates.begin(), o.rates.end());
  if (loads.empty()) loads.assign(o.clients.begin(), o.clients.end());
  ServiceUnderLoad load(*asker, static_cast<size_t>(o.scenes));
  if (o.reuse || !o.url.empty()) load.warm();
  if (!o.json) print_load_head(of);
  for (const double at : loads) {
    std::map<std::string, LoadPoint> points;
    for (int turn = -1; turn < o.turns; ++turn)  // the first is a rehearsal, for what is known of costs
      for (size_t k = 0; k < decoders.size(); ++k) {
        SLIP_TRY_(cancel.check("bench", turn, "turns"));
        // Each turn begins with another one.
        const std::string& decoder = decoders[(k + static_cast<size_t>(turn + 1)) % decoders.size()];
        LoadPoint rehearsal, &point = turn < 0 ? rehearsal : points[decoder];
        const double seconds = (turn < 0 ? 0.5 : 1) * o.seconds / o.turns;
        load.begin_turn(turn);
        if (!o.rates.empty())
          load.open(decoder, at, seconds, point);
        else if (o.hz > 0)
          load.streams(decoder, static_cast<int>(at), o.hz, seconds, point);
        else
          load.closed(decoder, static_cast<int>(at), seconds, point);
      }
    std::vector<json::object> lines;
    lines.reserve(decoders.size());
    for (const std::string& decoder : decoders) lines.push_back(point_json(decoder, of, at, points[decoder]));
    SLIP_TRY_(cancel.check("bench", o.turns, "turns"));
    // Clients who wait for their answers get some from any model that can be asked so.
    int64_t answered = 0;
    for (const json::object& line : lines) answered += line.at("answers").to_number<int64_t>();
    if (o.rates.empty() && o.hz <= 0 && answered == 0)
      return unsupported(
          "bench serve: expected answers of a model of the driving task, got refusals alone (slipstream eval says why)");
    if (o.rates.empty() && o.hz <= 0) compare_with_best(lines);
    for (json::object& line : lines) {
      if (o.hz > 0) line["hz"] = o.hz;
      if (!o.url.empty()) line["sockets"] = true;
      if (o.json)
        print_json(line);
      else
        print_point(line, of);
    }
    if (asked_in(lines) == 0)
      say(fmt::format("bench serve: {:g} {}: nobody asked within {:g} s (--seconds)\n", at,
                      of == "clients" ? "clients" : "questions a second", o.seconds));
  }
  return {};
}

}  // namespace slip::cli
