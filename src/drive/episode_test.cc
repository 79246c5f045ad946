// SPDX-License-Identifier: Apache-2.0
// Promises of the closed loop: the expert drives the scenes it is the ceiling of, floors lie below it, latency costs, and the same
// settings give the same numbers.
#include "drive/episode.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "drive/study.h"
#include "sim/math.h"
#include "sim/record.h"

namespace slip::drive {
namespace {

uint32_t family(std::string_view name) {
  const auto names = sim::family_names();
  return static_cast<uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

constexpr uint64_t kSeed = 900'100'000;

Episode driven(std::string_view who, std::string_view where, int64_t delay_ms = 0, uint64_t seed = kSeed,
               Mode mode = Mode::kAsync) {
  const auto planner = baseline(who);
  const EpisodeSettings settings{.seed = seed, .family = family(where), .mode = mode, .delay = {{}, delay_ms}};
  auto e = drive_episode(settings, *planner, {});
  EXPECT_TRUE(e) << e.error().message;
  return e ? std::move(*e) : Episode{};
}

TEST(ClosedLoop, TheExpertDrivesTheCriticalScenes) {
  int n = 0, successes = 0;
  double sum = 0;
  for (const std::string_view name : critical_families())
    for (uint64_t seed = kSeed; seed < kSeed + 3; ++seed, ++n) {
      const Episode e = driven("expert", name, 0, seed);
      const EpisodeScore s = score_episode(e, e);
      sum += s.score;
      successes += s.success;
      EXPECT_TRUE(s.success) << name << " " << seed << ": NC " << s.nc << " DAC " << s.dac << " TLC " << s.tlc;
    }
  EXPECT_EQ(successes, n);
  EXPECT_GE(sum / n, 0.9);
}

TEST(ClosedLoop, TheExpertKeepsToTheRoadInEveryFamily) {
  for (const std::string_view name : sim::family_names())
    for (uint64_t seed = kSeed; seed < kSeed + 2; ++seed) {
      const Episode e = driven("expert", name, 0, seed);
      EXPECT_EQ(score_episode(e, e).dac, 1) << name << " " << seed;
    }
}

TEST(ClosedLoop, TheExpertStandsWhereHeMeansTo) {
  // Below 1 m/s no stop asks for much of the brake: who decides anew ten times a second must not creep over the line.
  for (const char* where : {"lead_stopped", "red_light", "night_debris"})
    for (uint64_t seed = kSeed; seed < kSeed + 3; ++seed) {
      const EpisodeScore s = [&] {
        const Episode e = driven("expert", where, 0, seed);
        return score_episode(e, e);
      }();
      EXPECT_EQ(s.nc * s.tlc * s.ttc, 1) << where << " " << seed;
    }
}

TEST(ClosedLoop, WhoKeepsHisSpeedHitsWhatStandsInTheWay) {
  const Episode expert = driven("expert", "lead_stopped"), keep = driven("constant-velocity", "lead_stopped");
  EXPECT_EQ(score_episode(keep, expert).score, 0);
  EXPECT_EQ(keep.track.nc, 0);
  EXPECT_LT(keep.ncap, 5);
  EXPECT_EQ(expert.track.nc, 1);
  EXPECT_EQ(expert.ncap, 5);
}

TEST(ClosedLoop, WhoStaysMakesNoWay) {
  const Episode expert = driven("expert", "cyclist_ahead"), stay = driven("stay", "cyclist_ahead");
  EXPECT_LT(stay.track.progress_m, 0.6 * expert.track.progress_m);
  EXPECT_FALSE(score_episode(stay, expert).success);
}

TEST(ClosedLoop, PlansAreFollowedFromWhenTheyAreThere) {
  const Episode at_once = driven("expert", "curve"), late = driven("expert", "curve", 400);
  EXPECT_EQ(at_once.calls, 120);
  EXPECT_EQ(late.calls, 30);
  EXPECT_EQ(late.mean_latency_ms(), 400);
  EXPECT_NEAR(at_once.mean_age_ms(), 25, 1e-9);
  EXPECT_GT(late.mean_age_ms(), 400);
}

TEST(ClosedLoop, ASecondAndAHalfOfLatencyCosts) {
  double fast = 0, slow = 0;
  for (const char* where : {"lead_stopped", "lead_brake", "pedestrian_midblock", "animal_crossing", "cross_traffic"}) {
    const Episode best = driven("expert", where);
    fast += score_episode(best, best).score;
    slow += score_episode(driven("expert", where, 1600), best).score;
  }
  EXPECT_LT(slow, fast - 0.5);
}

/// Somebody's plans, and where they were told to begin.
class Told : public Planner {
 public:
  Result<Planned> plan(const Situation& s, const CancelToken& cancel) override {
    origins.emplace_back(s.origin_ms, s.origin);
    return idm_->plan(s, cancel);
  }
  std::vector<std::pair<int64_t, Motion>> origins;

 private:
  std::unique_ptr<Planner> idm_ = baseline("idm");
};

TEST(ClosedLoop, AheadIsWhereTheEgoThenIs) {
  Told told;
  const EpisodeSettings settings{
      .seed = kSeed, .family = family("cut_in"), .mode = Mode::kAsyncAhead, .delay = {{}, 300}, .record = true};
  const auto e = drive_episode(settings, told, {});
  ASSERT_TRUE(e);
  ASSERT_EQ(told.origins.size(), 40U);
  for (size_t i = 1; i + 1 < told.origins.size(); ++i) {
    const auto& [t, origin] = told.origins[i];
    ASSERT_EQ(t, static_cast<int64_t>(300 * (i + 1)));
    const Motion& there = e->snapshots[static_cast<size_t>(t / 100)].ego;
    EXPECT_NEAR(origin.x, there.x, 1e-9) << t;
    EXPECT_NEAR(origin.y, there.y, 1e-9) << t;
    EXPECT_NEAR(origin.v, there.v, 1e-9) << t;
  }
}

TEST(ClosedLoop, WhoPlansAheadFollowsALeadThatGoesOnMeanwhile) {
  const auto world = World::make(kSeed, family("lead_brake"), true);
  ASSERT_TRUE(world);
  const sim::Scene& scene = world->scene();
  // The lead is the nearest actor ahead in the ego's lane. Ego and lead at one speed keep their gap, whenever the plan begins.
  double nearest = 1e9, speed = 0;
  for (const ActorNow& a : world->actors_at(0)) {
    const sim::Frenet f = scene.route.project({a.x, a.y});
    if (std::fabs(f.d) < 1 && f.s > 0 && f.s < nearest) nearest = f.s, speed = a.speed;
  }
  ASSERT_LT(nearest, 80);
  ASSERT_GT(speed, 3);
  const auto plan_of = [&](int64_t origin_ms) {
    const sim::Pose there = scene.route.at(speed * static_cast<double>(origin_ms) / 1000, 0);
    const Motion now{0, 0, 0, speed}, then{there.x, there.y, there.yaw, speed};
    const Situation s{*world, 0, origin_ms, now, then, 0, 0, {}, world->intent(now)};
    const auto planned = baseline("idm")->plan(s, {});
    EXPECT_TRUE(planned);
    std::vector<double> gone;
    for (const sim::Vec2& p : planned->points) gone.push_back(scene.route.project(p).s - scene.route.project({then.x, then.y}).s);
    return gone;
  };
  const std::vector<double> at_once = plan_of(0), ahead = plan_of(1000);
  ASSERT_EQ(at_once.size(), ahead.size());
  for (size_t i = 0; i < at_once.size(); ++i) EXPECT_NEAR(ahead[i], at_once[i], 0.3) << i;
}

TEST(ClosedLoop, TheSameSettingsGiveTheSameBits) {
  for (const Mode mode : {Mode::kAsync, Mode::kAsyncAhead}) {
    const Episode a = driven("idm", "cut_in", 170, kSeed, mode), b = driven("idm", "cut_in", 170, kSeed, mode);
    EXPECT_EQ(a.track.progress_m, b.track.progress_m);
    EXPECT_EQ(a.track.least_time_s, b.track.least_time_s);
    EXPECT_EQ(a.age_sum_ms, b.age_sum_ms);
  }
}

TEST(Actions, BecomeAWayAlongTheRoute) {
  auto world = World::make(kSeed, family("curve"), true);
  ASSERT_TRUE(world);
  const Motion ego{0, 0, 0, world->scene().v0};
  const Situation s{*world, 0, 0, ego, ego, 0, 0, {}, world->intent(ego)};
  const std::vector<double> keep(7), brake(7, -6.0);
  const auto way = along_route(s, keep, 0.25), stop = along_route(s, brake, 0.25);
  ASSERT_EQ(way.size(), 15U);
  for (size_t i = 1; i < way.size(); ++i) {
    EXPECT_NEAR(sim::det_hypot(way[i].x - way[i - 1].x, way[i].y - way[i - 1].y), ego.v * 0.25, 0.05);
    EXPECT_LT(std::fabs(world->scene().route.project(way[i]).d), 0.25);
  }
  EXPECT_EQ(stop.back().x, stop[stop.size() - 2].x);
  EXPECT_NEAR(world->scene().route.project(stop.back()).s, ego.v * ego.v / 12, 0.4);
}

TEST(World, ReactiveVehiclesStopBehindAnEgoInTheirWay) {
  auto world = World::make(kSeed, family("cross_traffic"), true);
  ASSERT_TRUE(world);
  // An ego parked across the junction's middle: whoever comes from the side must not drive through it.
  const sim::Pose p = world->scene().ref.at(world->scene().junction.s - 1.4);
  const Motion ego{p.x, p.y, p.yaw, 0};
  for (int k = 0; k < kDriveSteps; ++k) {
    world->decide(k, ego);
    const Corners box = corners_of(ahead_of({ego.x, ego.y, ego.heading}, kEgoBody.rear_to_centre), kEgoBody.length, kEgoBody.width);
    const auto actors = world->actors_at(0.1 * k);
    for (size_t i = 0; i < actors.size(); ++i) {
      const auto& agent = world->scene().actors[i].agent;
      if (agent.type == sim::AgentType::kPedestrian || agent.type == sim::AgentType::kCyclist) continue;
      EXPECT_FALSE(touch(box, corners_of({actors[i].x, actors[i].y, actors[i].heading}, agent.length, agent.width)))
          << i << " at " << k;
    }
  }
}

TEST(Study, ItsLinesAreReadBackAndOthersRefused) {
  const std::vector<Entrant> entrants{{"expert", "", Mode::kSync, {}}, {"stay", "", Mode::kSync, {}}};
  const StudySettings settings{.families = {family("curve")}, .first_seed = kSeed, .seeds = 2};
  Study study(settings, entrants);
  std::vector<json::object> lines;
  const auto stay = baseline("stay"), expert = baseline("expert");
  const auto planner_of = [&](const Entrant& e) -> Result<Planner*> { return e.driver == "stay" ? stay.get() : expert.get(); };
  ASSERT_TRUE(study.run(planner_of, [&](const Drove& d) { lines.push_back(to_json(d, entrants[d.entrant])); }, {}));
  ASSERT_EQ(lines.size(), 4U);
  Study again(settings, entrants);
  for (const json::object& line : lines) ASSERT_TRUE(again.take(line, "line"));
  int driven_again = 0;
  ASSERT_TRUE(again.run(planner_of, [&](const Drove&) { ++driven_again; }, {}));
  EXPECT_EQ(driven_again, 0);
  EXPECT_EQ(json::serialize(again.to_json()), json::serialize(study.to_json()));
  Study other(settings, {{"idm", "", Mode::kSync, {}}});
  const Status refused = other.take(lines.front(), "line 1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "line 1: expected an entrant of this study, got expert (sync)");
}

}  // namespace
}  // namespace slip::drive
