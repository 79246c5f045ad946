// SPDX-License-Identifier: Apache-2.0
// What decoders are worth when many ask at once, without a clock: a closed loop of clients, every pass priced by its counted rows on a machine
// that is a table. The service goes by the same table, so that its choices, and with them the sums, are the same on any machine.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>

#include "base/content_hash.h"
#include "service/service.h"
#include "sim/record.h"
#include "sim/record/make.h"

namespace slip {
namespace {

/// All loads and presets, with the long suite.
const bool kEvery = std::getenv("SLIP_EVERY") != nullptr;

struct Machine {
  const char* name;
  CostTable costs;
  bool quick = false;  // one of the extremes: in the quick suite too
};

/// What a row costs beside the weights that are read once for all of them decides whether drafts pay under load.
std::vector<Machine> machines() {
  const auto table = [](std::vector<int32_t> rows, std::vector<double> ms) {
    return *CostTable::make(std::move(rows), std::move(ms), "test");
  };
  return {{"weights from memory", table({1, 64, 256, 1024}, {10, 11, 20, 70}), true},
          {"weights in the caches", table({1, 1024}, {0.05, 10.4})},
          {"every row its full price", table({1, 1024}, {0.01, 10.24}), true},
          {"stairs of 32 rows", table({1, 32, 33, 64, 65, 96, 97, 128, 1024}, {1, 1, 1.6, 1.6, 2.2, 2.2, 2.8, 2.8, 19.6})}};
}

/// Many clients who ask one question after another, on the service's own thread: the order of events is a function of counts alone.
class ClosedLoop {
 public:
  ClosedLoop(Service& service, const CostTable& costs, std::vector<Request> questions)
      : service_(service), costs_(costs), questions_(std::move(questions)) {
    service_.on_pass([this](const PassTold& told) {
      ms_ += costs_.ms(static_cast<int32_t>(told.rows));
      ++passes_;
      rows_ += told.rows;
      if (waiting_ > 0 && ++since_start_ % kPassesApart == 0) {
        --waiting_;
        ask();
      }
    });
  }
  /// Answers per second of the machine: `each` questions of every client are counted while all clients ask, two before and one behind them
  /// are not: what is under way when the first ones are asked is not the load yet.
  double run(const Method& method, int clients, int each) {
    method_ = method;
    left_ = clients * (each + 3);
    first_ = clients * 2;
    last_ = clients * (each + 2);
    answered_ = 0;
    next_ = 0;  // the same questions for all
    chosen_.clear();
    std::promise<void> done;
    done_ = &done;
    // Clients come some passes apart, from the service's thread. Those that began together would stay in step, each pass of as many rows as the one
    // before, which no load does and which on stairs is worth a tenth.
    since_start_ = 0;
    waiting_ = clients - 1;
    ask();
    done.get_future().wait();
    return 1000.0 * clients * each / (ms_at_last_ - ms_at_first_);
  }
  /// Of the counted answers the share that this preset, chosen by auto, gave.
  double share_of(std::string_view preset) const {
    const auto of = std::count(chosen_.begin(), chosen_.end(), preset);
    return chosen_.empty() ? 0 : static_cast<double>(of) / static_cast<double>(chosen_.size());
  }
  /// "fields 0.97, fields-spec 0.03": what auto chose for the counted answers.
  std::string chosen() const {
    std::map<std::string, int> counts;
    for (const std::string& name : chosen_) ++counts[name];
    std::string out;
    for (const auto& [name, n] : counts) out += fmt::format("{}{} {:.2f}", out.empty() ? "" : ", ", name, share_of(name));
    return out;
  }
  int64_t passes() const { return passes_; }
  int64_t rows() const { return rows_; }

 private:
  void ask() {
    if (left_ == 0) return;
    --left_;
    submit([this] {
      if (++answered_ == first_) {
        ms_at_first_ = ms_;
        passes_ = rows_ = 0;
      }
      if (answered_ == last_) ms_at_last_ = ms_;
      ask();
      if (--under_way_ == 0) done_->set_value();
    });
    ++under_way_;
  }
  void submit(std::function<void()> then) {
    Request r = questions_[next_ % questions_.size()];
    r.decode.seed = next_++;
    r.method = method_;
    service_.submit({std::move(r),
                     {},
                     [this, then = std::move(then)](Result<Answer> a, const Served&) {
                       EXPECT_TRUE(a) << a.error().message;
                       if (a && answered_ >= first_ && answered_ < last_) chosen_.push_back(a->chosen.name);
                       then();
                     },
                     {method_.preset}});
  }

  static constexpr int64_t kPassesApart = 3;
  Service& service_;
  const CostTable& costs_;
  const std::vector<Request> questions_;
  Method method_;
  std::promise<void>* done_ = nullptr;
  int left_ = 0, under_way_ = 0, answered_ = 0, first_ = 0, last_ = 0;
  uint64_t next_ = 0;
  std::vector<std::string> chosen_;
  double ms_ = 0, ms_at_first_ = 0, ms_at_last_ = 0;
  int64_t passes_ = 0, rows_ = 0, since_start_ = 0;
  int waiting_ = 0;  // clients that have not come yet
};

/// Questions whose pictures are prepared and whose prompts are kept after the first time: what is priced is decoding.
std::vector<Request> questions(Engine& engine, int count) {
  std::vector<Request> out;
  for (int i = 0; i < count; ++i) {
    const sim::Record record = *sim::make_record(900000001 + static_cast<uint64_t>(i));
    Request r;
    r.ego = ego_of(record.labels);
    for (const Image& image : camera_images(record.images)) {
      auto grid = engine.model().preprocess(image);
      EXPECT_TRUE(grid);
      grid->content = content_hash(grid->values);
      r.grids.push_back(std::move(*grid));
    }
    r.images = camera_images(record.images);
    out.push_back(std::move(r));
  }
  return out;
}

struct LoadCase {
  const char* folder;
  std::vector<const char*> others;
  std::vector<int> clients;
};

void expect_near_the_best(const LoadCase& of) {
  for (const Machine& machine : machines()) {
    if (!kEvery && !machine.quick) continue;
    auto engine = Engine::load(std::string(SLIP_SOURCE_DIR) + of.folder, {.threads = 2, .slots = 1 << 16});
    ASSERT_TRUE(engine) << engine.error().message;
    auto service = Service::start(**engine, {.most_running = 64, .most_waiting = 256, .costs = machine.costs});
    ASSERT_TRUE(service) << service.error().message;
    ClosedLoop loop(**service, machine.costs, questions(**engine, 4));
    loop.run(*method_of("scaffold-ar"), 4, 1);  // features and prompts are kept from now on
    for (const int clients : of.clients) {
      // The first wave is chosen for by what was under way before it, and ends within the counted ones: of four it weighs little.
      const int each = std::max(kEvery ? 4 : 2, (kEvery ? 12 : 6) / clients);
      double best = 0;
      std::string told, winner;
      for (const char* preset : of.others) {
        const double got = loop.run(*method_of(preset), clients, each);
        told += fmt::format("  {} {:.1f}", preset, got);
        if (got > best) winner = preset;
        best = std::max(best, got);
      }
      double own = loop.run(*method_of("auto"), clients, each);
      std::printf("%-26s %2d clients: auto %.1f (%.2f of the best; %.1f rows a pass)%s | %s\n", machine.name, clients, own,
                  own / best, static_cast<double>(loop.rows()) / static_cast<double>(loop.passes()), told.c_str(),
                  loop.chosen().c_str());
      std::fflush(stdout);
      if (own < 0.95 * best && loop.share_of(winner) > 0.95) {
        // Auto made the best preset's choice, so the difference is how the clients fell into step: on stairs that decides how many passes lie just
        // above one. Longer loops of both fall into step in other ways; their sum is what is compared.
        best = own = 0;
        for (const int longer : {2 * each, 2 * each + 1, 3 * each}) {
          best += loop.run(*method_of(winner), clients, longer);
          own += loop.run(*method_of("auto"), clients, longer);
        }
        std::printf("%-26s %2d clients, three longer loops: auto %.2f of %s\n", machine.name, clients, own / best, winner.c_str());
      }
      EXPECT_GE(own, 0.95 * best) << machine.name << ", " << clients << " clients:" << told;
    }
  }
}

TEST(ServiceUnderLoad, AutoIsNeverFarBelowTheBestOfArAndDraftsAlongAChain) {
  if (kEvery)
    return expect_near_the_best({"/models/demo", {"ar", "scaffold-ar", "scaffold-spec", "self-spec"}, {1, 2, 4, 8, 16, 32, 64}});
  expect_near_the_best({"/models/demo", {"scaffold-ar", "scaffold-spec"}, {4}});  // one client: automatic_test
}

TEST(ServiceUnderLoad, AutoIsNeverFarBelowTheBestOfArAndDraftsAlongAGraph) {
  if (kEvery) return expect_near_the_best({"/models/demo-cot", {"ar", "fields", "fields-spec"}, {1, 2, 4, 8, 16, 32, 64}});
  expect_near_the_best({"/models/demo-cot", {"fields", "fields-spec"}, {3}});
}

}  // namespace
}  // namespace slip
