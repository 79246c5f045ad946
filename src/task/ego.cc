// SPDX-License-Identifier: Apache-2.0
// The ego history as a file: checked, and brought to 4 Hz where it was logged at another rate. Between two states positions follow the
// cubic with both states' positions and velocities (Hermite), velocities and accelerations the straight line; a log of 10 Hz so meets the
// truth within centimetres (task_test: EgoFile).
//
// What is implausible is refused, because a plan made of it would look like any other: times in milliseconds or since 1970, states out of
// order, another frame, positions that their velocities do not lead to.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "base/json/flaws.h"
#include "base/json/shown.h"
#include "task/prompt.h"

namespace slip {

namespace {

// A road car: 100 m/s is 360 km/h, 25 m/s^2 two and a half g. Logged accelerations are noisy.
constexpr double kMostSpeed = 100, kMostBackwards = 15, kMostSideways = 3, kMostAcceleration = 25, kMostDistance = 500;
constexpr double kOldest = -3.75, kStep = 0.25;  // s
constexpr double kTimeSlack = 0.02;              // s: a twelfth of a step, a third of a camera's frame time
constexpr double kOriginSlack = 0.5;             // m
constexpr double kMostGap = 1;                   // s between states: what a cubic may bridge
constexpr size_t kMostStates = 4096;

struct State {
  double t = 0, x = 0, y = 0, vx = 0, vy = 0, ax = 0, ay = 0;
};

Result<State> read_state(const json::value& v, std::string_view where, size_t i) {
  const json::array* a = v.if_array();
  if (!a || a->size() != 7)
    return bad_input("{}: history[{}]: expected 7 numbers [t, x, y, vx, vy, ax, ay], got another shape", where, i);
  std::array<double, 7> n{};
  for (size_t k = 0; k < 7; ++k) {
    if (!(*a)[k].is_number()) return bad_input("{}: history[{}][{}]: expected a number, got {}", where, i, k, shown_json((*a)[k]));
    n[k] = (*a)[k].to_number<double>();
    if (!std::isfinite(n[k])) return bad_input("{}: history[{}][{}]: expected a finite number, got {}", where, i, k, n[k]);
  }
  return State{n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
}

Status check_state(const State& s, std::string_view where, size_t i) {
  if (const double far = std::hypot(s.x, s.y); far > kMostDistance)
    return bad_input("{}: history[{}]: expected a place within {} m of the car, got {:.6g} m away", where, i, kMostDistance, far);
  if (const double speed = std::hypot(s.vx, s.vy); speed > kMostSpeed)
    return bad_input("{}: history[{}]: expected at most {} m/s, got {:.6g}", where, i, kMostSpeed, speed);
  if (s.t == 0 && s.vx < -kMostBackwards)  // where the axes are the car's own
    return bad_input("{}: history[{}]: expected at most {} m/s backwards, got {:.6g}", where, i, kMostBackwards, -s.vx);
  if (s.t == 0 && std::abs(s.vy) > kMostSideways + std::abs(s.vx) / 2)
    return bad_input(
        "{}: history[{}]: expected a car that goes where it points (x is forward), got {:.6g} m/s to the side at {:.6g} m/s "
        "forward",
        where, i, s.vy, s.vx);
  if (const double a = std::hypot(s.ax, s.ay); a > kMostAcceleration)
    return bad_input("{}: history[{}]: expected at most {} m/s^2, got {:.6g}", where, i, kMostAcceleration, a);
  return {};
}

// Do the velocities lead from one place to the next? A quarter as far again and 1 m are noise.
Status check_step(const State& from, const State& to, std::string_view where, size_t i) {
  const double dt = to.t - from.t;
  const double dx = to.x - from.x - (from.vx + to.vx) / 2 * dt, dy = to.y - from.y - (from.vy + to.vy) / 2 * dt;
  const double way = std::hypot(from.vx + to.vx, from.vy + to.vy) / 2 * dt;
  if (std::hypot(dx, dy) <= 1 + way / 4) return {};
  return bad_input("{}: history[{}]: expected a place that the velocities lead to, got one {:.3g} m away from there", where, i,
                   std::hypot(dx, dy));
}

Status check_times(std::span<const State> states, std::string_view where) {
  for (size_t i = 1; i < states.size(); ++i) {
    if (states[i].t <= states[i - 1].t)
      return bad_input("{}: history[{}]: expected times that ascend, got {} s behind {} s", where, i, states[i].t, states[i - 1].t);
  }
  for (size_t i = 1; i < states.size(); ++i)
    if (states[i].t - states[i - 1].t > kMostGap + kTimeSlack)
      return bad_input("{}: history[{}]: expected states at most {} s apart, got {} s behind {} s", where, i, kMostGap, states[i].t,
                       states[i - 1].t);
  if (std::abs(states.back().t) > kTimeSlack)
    return bad_input("{}: history: expected times in seconds that end at 0, which is now, got {} as the last", where,
                     states.back().t);
  if (states.front().t > kOldest + kTimeSlack)
    return bad_input("{}: history: expected states from {} s on, got {} s as the first", where, kOldest, states.front().t);
  return {};
}

// The driving models' history is 3.75 s long: what lies before plays no part.
Status check_states(std::span<const State> states, std::string_view where) {
  SLIP_TRY_(check_times(states, where));
  for (size_t i = 0; i < states.size(); ++i) {
    SLIP_TRY_(check_state(states[i], where, i));
    if (i > 0) SLIP_TRY_(check_step(states[i - 1], states[i], where, i));
  }
  if (const double off = std::hypot(states.back().x, states.back().y); off > kOriginSlack)
    return bad_input("{}: history: expected the last state at the origin (places are in its frame), got ({}, {})", where,
                     states.back().x, states.back().y);
  return {};
}

State between(const State& a, const State& b, double t) {
  const double dt = b.t - a.t, u = std::clamp((t - a.t) / dt, 0.0, 1.0), v = 1 - u;
  const auto cubic = [&](double p, double dp, double q, double dq) {
    return v * v * (1 + 2 * u) * p + u * v * v * dt * dp + u * u * (3 - 2 * u) * q - u * u * v * dt * dq;
  };
  const auto line = [&](double p, double q) { return v * p + u * q; };
  return {t,
          cubic(a.x, a.vx, b.x, b.vx),
          cubic(a.y, a.vy, b.y, b.vy),
          line(a.vx, b.vx),
          line(a.vy, b.vy),
          line(a.ax, b.ax),
          line(a.ay, b.ay)};
}

sim::EgoState as_floats(const State& s) {
  const auto f = [](double v) { return static_cast<float>(v); };
  return {f(s.t), f(s.x), f(s.y), f(s.vx), f(s.vy), f(s.ax), f(s.ay)};
}

// The states themselves where they are those of 4 Hz.
void take_states(std::span<const State> states, EgoInput& out) {
  const size_t n = out.history.size();
  const auto wanted = [](size_t i) { return kOldest + kStep * static_cast<double>(i); };
  bool at_rate = states.size() == n;
  for (size_t i = 0; at_rate && i < n; ++i) at_rate = std::abs(states[i].t - wanted(i)) <= kTimeSlack;
  size_t next = 1;
  for (size_t i = 0; i < n; ++i) {
    while (next + 1 < states.size() && states[next].t < wanted(i)) ++next;
    out.history[i] = as_floats(at_rate ? states[i] : between(states[next - 1], states[next], wanted(i)));
    out.history[i].t_s = static_cast<float>(wanted(i));
  }
}

}  // namespace

Result<EgoInput> read_ego(const std::filesystem::path& file) {
  SLIP_TRY(const std::string text, read_file(file, size_t{1} << 20));
  return parse_ego_text(text, file.string());
}

Result<EgoInput> parse_ego_text(std::string_view text, std::string_view where) {
  SLIP_TRY(const json::value v, parse_json(text, where));
  SLIP_TRY_(check_json(text, where));
  return parse_ego(v, where);
}

Result<EgoInput> parse_ego(const json::value& v, std::string_view where) {
  if (!v.is_object()) return bad_input("{}: expected an object with intent and history, got another type", where);
  const json::object& o = v.get_object();
  for (const auto& member : o)
    if (member.key() != "intent" && member.key() != "history")
      return bad_input("{}: expected the keys intent and history, got {}", where, shown(member.key()));
  SLIP_TRY(const std::string intent, get_string(o, "intent", where));
  EgoInput out;
  SLIP_TRY(out.intent, intent_named(intent, where));
  SLIP_TRY(const json::array* history, get_array(o, "history", where));
  if (history->size() < 2 || history->size() > kMostStates)
    return bad_input("{}: history: expected 2 to {} states, oldest first, got {}", where, kMostStates, history->size());
  std::vector<State> states;
  for (size_t i = 0; i < history->size(); ++i) {
    SLIP_TRY(states.emplace_back(), read_state((*history)[i], where, i));
  }
  SLIP_TRY_(check_states(states, where));
  take_states(states, out);
  // What one tenth of a second hides a quarter shows.
  SLIP_TRY_(check_ego(out, fmt::format("{} (at 4 Hz)", where)));
  return out;
}

Status check_ego(const EgoInput& ego, std::string_view where) {
  std::vector<State> states;
  for (const sim::EgoState& s : ego.history) states.push_back({s.t_s, s.x, s.y, s.vx, s.vy, s.ax, s.ay});
  for (size_t i = 0; i < states.size(); ++i) {
    const State& s = states[i];
    if (!std::isfinite(s.t + s.x + s.y + s.vx + s.vy + s.ax + s.ay))
      return bad_input("{}: history[{}]: expected finite numbers, got others", where, i);
    const double wanted = kOldest + kStep * static_cast<double>(i);
    if (std::abs(s.t - wanted) > kTimeSlack)
      return bad_input("{}: history[{}]: expected the state at {} s, got {} s", where, i, wanted, s.t);
  }
  return check_states(states, where);
}

}  // namespace slip
