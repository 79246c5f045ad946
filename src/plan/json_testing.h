// SPDX-License-Identifier: Apache-2.0
// Reading the plan fixtures: waypoints and numbers out of JSON. Tests only.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/trajectory.h"

namespace slip {

inline json::value plan_fixture(const std::string& name) {
  auto v = read_json(std::filesystem::path(SLIP_FIXTURES) / "plan" / name);
  EXPECT_TRUE(v) << v.error().message;
  return v ? *v : json::value{};
}
inline double number(const json::value& v) { return v.to_number<double>(); }
inline std::vector<double> numbers(const json::value& v) {
  std::vector<double> out;
  for (const json::value& x : v.as_array()) out.push_back(number(x));
  return out;
}
inline Waypoint waypoint(const json::value& v) { return {number(v.as_array().at(0)), number(v.as_array().at(1))}; }
inline std::vector<Waypoint> waypoints(const json::value& v) {
  std::vector<Waypoint> out;
  for (const json::value& w : v.as_array()) out.push_back(waypoint(w));
  return out;
}
inline std::vector<std::vector<Waypoint>> many_waypoints(const json::value& v) {
  std::vector<std::vector<Waypoint>> out;
  for (const json::value& w : v.as_array()) out.push_back(waypoints(w));
  return out;
}
inline void expect_near(const std::vector<Waypoint>& got, const std::vector<Waypoint>& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].x, want[i].x, tolerance) << what << " x" << i;
    EXPECT_NEAR(got[i].y, want[i].y, tolerance) << what << " y" << i;
  }
}

}  // namespace slip
