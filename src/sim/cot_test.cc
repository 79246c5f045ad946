// SPDX-License-Identifier: Apache-2.0
// Promises of the texts of drive-cot and of frames: every field of every family says something, unused instances say N/A, words are
// few, bytes are golden; a frame is the same world some tenths of a second on.
#include "sim/cot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "sim/builder.h"
#include "sim/expert.h"
#include "sim/math.h"
#include "sim/record/make.h"

namespace slip::sim {
namespace {

const std::vector<std::string> kFields = [] {
  std::vector<std::string> names{"lighting", "road_condition", "weather", "junction", "road_type",
                                 "lanes",    "lane_1",         "lane_2",  "lane_3",   "critical_objects"};
  for (int i = 1; i <= 4; ++i)
    for (const char* part : {"position", "type", "justification"}) names.push_back(fmt::format("object_{}.{}", i, part));
  for (const char* name : {"traffic_light", "traffic_sign", "additional_regulation", "traffic_regulation", "non_interactive",
                           "interactive", "ego_behavior"})
    names.emplace_back(name);
  return names;
}();

size_t instances(const std::string& enumeration) {
  return enumeration == kCotNone ? 0 : 1 + static_cast<size_t>(std::count(enumeration.begin(), enumeration.end(), ';'));
}

std::string first_clause(const std::string& text) { return text.substr(0, text.find(',')); }

TEST(Cot, EveryFieldOfEveryFamilySaysSomethingAndUnusedInstancesSayNothing) {
  for (uint32_t family = 0; family < family_names().size(); ++family)
    for (uint64_t seed = 0; seed < 25; ++seed)
      for (const double t : {0.0, 0.7, 1.5}) {
        const auto cot = cot_labels(seed, family, t);
        ASSERT_TRUE(cot) << cot.error().message;
        const auto r = make_frame(seed, family, t, false);
        ASSERT_TRUE(r);
        for (const std::string& name : kFields) {
          const std::string* text = cot->find(name);
          ASSERT_TRUE(text != nullptr) << name;
          ASSERT_FALSE(text->empty()) << name;
          ASSERT_EQ(text->find_first_of("\"\\\n"), std::string::npos) << *text;
          // A letter at the end: a line break behind it is a token of its own in any vocabulary of Qwen's kind.
          ASSERT_TRUE(std::isalpha(text->front()) || std::isdigit(text->front())) << *text;
          ASSERT_TRUE(std::isalpha(text->back())) << *text;
        }
        const size_t lanes = instances(cot->lanes), objects = instances(cot->critical_objects);
        ASSERT_GE(lanes, 1U);
        ASSERT_LE(lanes, kCotLanes);
        ASSERT_LE(objects, kCotObjects);
        for (size_t i = 0; i < kCotLanes; ++i) ASSERT_EQ(cot->lane[i] == kCotNone, i >= lanes);
        for (size_t i = 0; i < kCotObjects; ++i) {
          const CotObject& o = cot->object[i];
          ASSERT_EQ(o.position == kCotNone, i >= objects);
          ASSERT_EQ(o.type == kCotNone, i >= objects);
          ASSERT_EQ(o.justification == kCotNone, i >= objects);
        }
        const std::string behaviour = fmt::format("{} and {} because ", words(r->labels.longitudinal), words(r->labels.lateral));
        ASSERT_TRUE(cot->ego_behavior.starts_with(behaviour)) << cot->ego_behavior;
      }
}

// A class that Labels call critical and that stands on the road is named, and nothing else is.
TEST(Cot, ObjectsAreTheCriticalClassesCausalOnesFirst) {
  const std::pair<std::string, Class> kNamed[] = {{"vehicle", Class::kNearby},  {"pedestrian", Class::kPedestrian},
                                                  {"cyclist", Class::kCyclist}, {"road work", Class::kConstruction},
                                                  {"debris", Class::kHazard},   {"emergency vehicle", Class::kEmergency},
                                                  {"animal", Class::kAnimal},   {"special vehicle", Class::kSpecial},
                                                  {"open door", Class::kDoor},  {"conflicting vehicle", Class::kConflicting}};
  int named = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const auto cot = cot_labels(seed);
    const auto r = make_record(seed, {}, false);
    ASSERT_TRUE(cot && r);
    std::vector<std::string> list;
    std::istringstream in(cot->critical_objects == kCotNone ? "" : cot->critical_objects);
    for (std::string name; std::getline(in >> std::ws, name, ';');) list.push_back(name);
    for (const auto& [name, cls] : kNamed) {
      const bool says = std::find(list.begin(), list.end(), name) != list.end();
      const bool is = r->labels.critical[static_cast<size_t>(cls)];
      ASSERT_TRUE(!says || is) << seed << " " << name;
      if (list.size() < kCotObjects) ASSERT_EQ(says, is) << seed << " " << name;
      named += says;
    }
    bool causal = true;
    for (const std::string& name : list) {
      const auto at = std::find_if(std::begin(kNamed), std::end(kNamed), [&](const auto& n) { return n.first == name; });
      ASSERT_NE(at, std::end(kNamed)) << name;
      const bool now = r->labels.causal[static_cast<size_t>(at->second)];
      ASSERT_TRUE(causal || !now) << seed << ": " << cot->critical_objects;
      causal = now;
    }
    if (r->labels.causal[static_cast<size_t>(Class::kTraffic)] || list.empty() || !causal) continue;
    ASSERT_NE(cot->ego_behavior.find(fmt::format("because the {} {}", list[0], first_clause(cot->object[0].justification))),
              std::string::npos)
        << seed << ": " << cot->ego_behavior;
  }
  EXPECT_GT(named, 1000);
}

TEST(Cot, TheLightIsNamedWhenItIsSeen) {
  int red = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto d = draw_accepted(seed, {});
    const auto cot = cot_labels(seed);
    ASSERT_TRUE(d && cot);
    const bool says = cot->traffic_light.starts_with("red");
    ASSERT_TRUE(!says || d->scene.stop == StopKind::kRed) << seed;
    ASSERT_EQ(cot->traffic_light == "no traffic light ahead" || cot->traffic_light.find(" light, ") != std::string::npos, true);
    if (says) ASSERT_EQ(cot->traffic_regulation, "stop at the red light");
    red += says;
  }
  EXPECT_GT(red, 10);
}

TEST(Cot, WordsAreFew) {
  std::set<std::string> words, texts;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const auto cot = cot_labels(seed);
    ASSERT_TRUE(cot);
    for (const std::string& name : kFields) {
      texts.insert(*cot->find(name));
      std::istringstream in(*cot->find(name));
      for (std::string word; in >> word;) {
        word.erase(word.find_last_not_of(",;") + 1);
        words.insert(word);
      }
    }
  }
  EXPECT_LT(words.size(), 190U);
  EXPECT_LT(texts.size(), 1100U);
}

// Texts of kSimVersion 1, as golden as the records they describe.
TEST(Cot, TextsHaveTheGoldenBytes) {
  uint64_t h = 0xCBF29CE484222325ULL;
  for (uint64_t seed = 0; seed < 300; ++seed)
    for (const double t : {0.0, 0.5}) {
      const auto cot = cot_labels(seed * 7919, {}, t);
      ASSERT_TRUE(cot);
      for (const std::string& name : kFields)
        for (const char c : *cot->find(name) + "\n") h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
    }
  EXPECT_EQ(h, 0xF9B58B9E971BAA74ULL) << fmt::format("0x{:016X}ULL", h);
}

TEST(Frames, TheFirstIsTheRecordByteForByte) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto a = make_record(seed), b = make_frame(seed, {}, 0);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->images, b->images);
    EXPECT_EQ(0, std::memcmp(a->labels.history.data(), b->labels.history.data(), sizeof a->labels.history));
    EXPECT_EQ(0, std::memcmp(a->labels.future.data(), b->labels.future.data(), sizeof a->labels.future));
    EXPECT_EQ(a->labels.critical, b->labels.critical);
    EXPECT_EQ(a->labels.explanation, b->labels.explanation);
    EXPECT_EQ(b->labels.frame_s, 0);
  }
}

TEST(Frames, TheWorldIsTheSameFromWhereTheEgoHasCome) {
  for (uint32_t family = 0; family < family_names().size(); ++family)
    for (uint64_t seed = 0; seed < 12; ++seed)
      for (const int step : {1, 8, 15}) {
        const auto d = draw_frame(seed, family, 0.1 * step);
        const auto first = draw_accepted(seed, family);
        ASSERT_TRUE(d && first);
        const Labels& l = d->labels;
        EXPECT_FLOAT_EQ(l.frame_s, static_cast<float>(0.1 * step));
        // The ego stands where the first frame's plan says, and goes on along it.
        const FutureState& here = first->labels.future[static_cast<size_t>(step - 1)];
        ASSERT_NEAR(d->ego.x, here.x, 1e-4);
        ASSERT_NEAR(d->ego.y, here.y, 1e-4);
        ASSERT_NEAR(l.v0_mps, here.v, 1e-4);
        for (size_t k = 0; k + static_cast<size_t>(step) < 64; ++k) {
          const FutureState& f = first->labels.future[k + static_cast<size_t>(step)];
          const Pose p = seen_from(d->ego, {f.x, f.y, f.yaw});
          ASSERT_NEAR(l.future[k].x, p.x, 1e-3) << family << " " << seed << " " << k;
          ASSERT_NEAR(l.future[k].y, p.y, 1e-3);
          ASSERT_NEAR(l.future[k].yaw, p.yaw, 1e-4);
          ASSERT_NEAR(l.future[k].v, f.v, 1e-4);
        }
        // The history ends here and is where the first frame's history and plan went.
        ASSERT_NEAR(l.history[15].x, 0, 1e-4);
        ASSERT_NEAR(l.history[15].y, 0, 1e-4);
        ASSERT_NEAR(det_hypot(l.history[15].vx, l.history[15].vy), l.v0_mps, 1e-3);
        for (size_t i = 1; i < 16; ++i)
          ASSERT_NEAR(l.history[i].x - l.history[i - 1].x, 0.125 * (l.history[i].vx + l.history[i - 1].vx), 0.15);
        // Actors: the scene that labels come from and the moment that cameras see are one world.
        const Moment m = moment_of(d->whole, d->t_s, d->ego, d->ego_speed_mps);
        ASSERT_EQ(m.agents.size(), d->scene.actors.size());
        for (size_t i = 0; i < m.agents.size(); ++i) {
          const Pose p = seen_from(d->ego, m.agents[i].pose);
          ASSERT_NEAR(p.x, d->scene.actors[i].agent.pose.x, 1e-6);
          ASSERT_NEAR(p.y, d->scene.actors[i].agent.pose.y, 1e-6);
          const TrackPoint& at = d->scene.actors[i].track[0];
          const TrackPoint& then = d->whole.actors[i].track[static_cast<size_t>(step)];
          const Pose beside = d->scene.route.at(at.s, at.d), same = seen_from(d->ego, d->whole.route.at(then.s, then.d));
          ASSERT_NEAR(beside.x, same.x, 1e-6);
          ASSERT_NEAR(beside.y, same.y, 1e-6);
        }
      }
}

TEST(Frames, LabelsOfNeighboursMostlyAgree) {
  int same = 0, all = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto a = cot_labels(seed), b = cot_labels(seed, {}, 0.1);
    ASSERT_TRUE(a && b);
    for (const std::string& name : kFields) same += *a->find(name) == *b->find(name), ++all;
  }
  EXPECT_GT(same, all * 0.97);  // what a draft from the previous frame's answer lives on
  EXPECT_LT(same, all);
}

TEST(Frames, TimesOutsideTheScenesStartAreBadInput) {
  for (const double t : {-0.1, 1.6, std::nan("")}) {
    const auto r = make_frame(1, {}, t, false);
    ASSERT_FALSE(r) << t;
    EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(r.error().message.find("frame: expected 0 to 1.5 s"), std::string::npos);
  }
}

}  // namespace
}  // namespace slip::sim
