// SPDX-License-Identifier: Apache-2.0
// The explanation's grammar: at most one clause on weather or light, the decisive object, then the action. Words are few so
// that a small model can learn them; phrasing is drawn from the seed.
#include "base/philox.h"
#include "sim/labels.h"

namespace slip::sim {
namespace {

using Choice = std::array<std::string_view, 3>;

const Actor* nearest(const Scene& sc, Class c) {
  const Actor* best = nullptr;
  for (const Actor& a : sc.actors) {
    if (a.cls != c || a.track[0].s < 0) continue;
    const double d = a.track[0].d < 0 ? -a.track[0].d : a.track[0].d;
    const double b = best == nullptr ? 0 : best->track[0].d < 0 ? -best->track[0].d : best->track[0].d;
    if (best == nullptr || d + 0.2 * a.track[0].s < b + 0.2 * best->track[0].s) best = &a;
  }
  return best;
}

Choice traffic_words(const Scene& sc) {
  switch (sc.stop) {
    case StopKind::kRed:
      return {"The light ahead is red.", "There is a red light ahead.", "A red light controls this lane."};
    case StopKind::kYellow:
      return {"The light ahead is yellow.", "There is a yellow light ahead.", "A yellow light controls this lane."};
    case StopKind::kGreen:
      return {"The light ahead is green.", "There is a green light ahead.", "A green light controls this lane."};
    default:
      return {"There is a stop sign ahead.", "A stop sign controls this lane.", "The road ahead has a stop sign."};
  }
}

Choice words_for(const Scene& sc, Class c) {
  const Actor* a = nearest(sc, c);
  const bool moving = a != nullptr && a->track[0].v > 0.3;
  switch (c) {
    case Class::kPedestrian:
      return {"A pedestrian is crossing ahead.", "A pedestrian steps into the road.", "Someone is crossing the road ahead."};
    case Class::kAnimal:
      return moving
                 ? Choice{"An animal is crossing the road.", "An animal runs into the road ahead.", "An animal is crossing ahead."}
                 : Choice{"An animal is standing in the lane.", "An animal blocks the road ahead.",
                          "There is an animal in the lane."};
    case Class::kCyclist:
      return {"A cyclist is riding ahead.", "There is a cyclist in the lane ahead.", "A cyclist is close to our path."};
    case Class::kConstruction:
      return {"Cones mark road work ahead.", "There is construction in the lane ahead.", "Road work narrows the lane ahead."};
    case Class::kHazard:
      return {"Debris is lying in the lane.", "There is debris on the road ahead.", "An object lies on the road ahead."};
    case Class::kEmergency:
      return moving ? Choice{"An emergency vehicle is passing ahead.", "An emergency vehicle needs the road.",
                             "An emergency vehicle is driving ahead."}
                    : Choice{"An emergency vehicle stands ahead.", "An emergency vehicle blocks the lane.",
                             "There is an emergency vehicle stopped ahead."};
    case Class::kSpecial:
      return moving ? Choice{"A slow vehicle is driving ahead.", "A special vehicle is ahead.",
                             "There is a slow special vehicle ahead."}
                    : Choice{"A special vehicle is stopped ahead.", "A large vehicle has stopped ahead.",
                             "There is a special vehicle standing ahead."};
    case Class::kConflicting:
      return {"Another vehicle is entering our path.", "A vehicle crosses our path.", "A vehicle moves into our way."};
    case Class::kDoor:
      return {"A parked car has an open door.", "A car door is open on the right.", "A door opens on a parked car."};
    case Class::kNearby:
      return moving ? Choice{"A vehicle is driving ahead.", "There is a lead vehicle in our lane.", "We follow a vehicle ahead."}
                    : Choice{"A vehicle has stopped ahead.", "There is a stopped vehicle in our lane.",
                             "The vehicle ahead is standing."};
    case Class::kWeather:
      if (sc.env.weather == Weather::kFog) return {"Fog limits the view.", "The road is in fog.", "There is fog ahead."};
      if (sc.env.weather == Weather::kSnow) return {"Snow covers the road.", "The road is in snow.", "It is snowing."};
      return {"Rain makes the road wet.", "The road is wet from rain.", "It is raining."};
    default:
      return traffic_words(sc);
  }
}

Class decisive(const Labels& l) {
  static constexpr Class kOrder[] = {Class::kPedestrian, Class::kAnimal,  Class::kConflicting, Class::kEmergency,
                                     Class::kSpecial,    Class::kDoor,    Class::kCyclist,     Class::kConstruction,
                                     Class::kHazard,     Class::kTraffic, Class::kNearby,      Class::kWeather};
  for (const bool need_cause : {true, false})
    for (const Class c : kOrder) {
      const auto i = static_cast<size_t>(c);
      if (l.critical[i] && (l.causal[i] || !need_cause)) return c;
    }
  return Class::kNone;
}

std::string_view action(Longitudinal lon, uint32_t pick) {
  static constexpr std::string_view kLon[4][2] = {{"Keep the speed", "Hold the speed"},
                                                  {"Speed up", "Drive faster"},
                                                  {"Slow down", "Reduce the speed"},
                                                  {"Slow down and stop", "Come to a stop"}};
  return kLon[static_cast<int>(lon)][pick];
}
std::string_view direction(Lateral lat) {
  static constexpr std::string_view kLat[] = {" and go straight.", " and follow the lane.",    " and turn left.",
                                              " and turn right.",  " and change to the left.", " and change to the right."};
  return kLat[static_cast<int>(lat)];
}

}  // namespace

std::string explain(const Scene& sc, const Labels& l) {
  PhiloxStream g(sc.seed, uint64_t{0xEE} << 32 | sc.family);
  const Class c = decisive(l);
  std::string text;
  if (adverse(sc.env) && c != Class::kWeather) text += std::string(words_for(sc, Class::kWeather)[g.below(3)]) + " ";
  if (sc.env.lighting == Lighting::kNight) text += "It is night. ";
  if (c == Class::kNone) {
    constexpr Choice kClear = {"The road ahead is clear.", "The way is free.", "Nothing blocks the road."};
    text += kClear[g.below(3)];
  } else {
    text += words_for(sc, c)[g.below(3)];
  }
  text += ' ';
  text += action(l.longitudinal, g.below(2));
  const bool plain = l.longitudinal == Longitudinal::kComeToStop && l.lateral == Lateral::kGoStraight;
  text += plain ? std::string_view(".") : direction(l.lateral);
  return text;
}

}  // namespace slip::sim
