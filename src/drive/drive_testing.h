// SPDX-License-Identifier: Apache-2.0
// Reading the drive fixtures: numbers, points and states out of JSON. Tests only.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "drive/score/score.h"

namespace slip::drive {

inline json::value fixture(const std::string& name) {
  auto v = read_json(std::filesystem::path(SLIP_FIXTURES) / "drive" / name);
  EXPECT_TRUE(v) << v.error().message;
  return v ? *v : json::value{};
}
/// By value: a loop over it outlives the fixture.
inline json::array cases_of(const json::value& v) { return v.as_object().at("cases").as_array(); }
inline double num(const json::value& v) { return v.to_number<double>(); }
inline int64_t whole_number(const json::value& v) { return v.to_number<int64_t>(); }
inline std::vector<double> nums(const json::value& v) {
  std::vector<double> out;
  for (const json::value& x : v.as_array()) out.push_back(num(x));
  return out;
}
inline sim::Vec2 point(const json::value& v) { return {num(v.as_array().at(0)), num(v.as_array().at(1))}; }
inline std::vector<sim::Vec2> points(const json::value& v) {
  std::vector<sim::Vec2> out;
  for (const json::value& p : v.as_array()) out.push_back(point(p));
  return out;
}
inline std::vector<State> states(const json::value& v) {
  std::vector<State> out;
  for (const json::value& row : v.as_array()) {
    const std::vector<double> s = nums(row);
    out.push_back({s.at(0), s.at(1), s.at(2), s.at(3), s.at(4), s.at(5), s.at(6)});
  }
  return out;
}

}  // namespace slip::drive
