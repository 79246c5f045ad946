// SPDX-License-Identifier: Apache-2.0
// See answer.h.
#include "tests/cli/answer.h"

#include <algorithm>

#include "sim/record.h"

namespace slip::test {

namespace {

// "[[ +014.70, -000.04], ...]" with five points.
void expect_points(std::string_view text) {
  std::string shape;
  for (const char c : text) shape += c >= '0' && c <= '9' ? '0' : c == '-' ? '+' : c;
  const std::string point = "[ +000.00, +000.00]";
  EXPECT_EQ(shape, "[" + point + ", " + point + ", " + point + ", " + point + ", " + point + "]");
}

}  // namespace

void expect_result_keys(const json::value& v, bool with_form) {
  ASSERT_EQ(missing_keys(v, {"answer", "fields", "tokens", "decoder", "statistics", "model", "seed"}), "");
  ASSERT_EQ(missing_keys(v.at("decoder"), {"preset", "schedule", "drafter", "verifier", "width", "lossy"}), "");
  EXPECT_TRUE(v.at("decoder").at("lossy").is_bool());
  const json::value& s = v.at("statistics");
  ASSERT_EQ(missing_keys(s, {"forwards", "draft_forwards", "drafter_forwards", "rounds", "rows", "tokens", "forced_tokens",
                             "proposed", "tested", "accepted", "relaxed_accepts", "discarded", "critical_path", "nan_rows", "ms"}),
            "");
  ASSERT_EQ(missing_keys(s.at("ms"), {"encode", "prefill", "draft", "verify", "total"}), "");
  EXPECT_EQ(s.at("tokens").to_number<size_t>(), v.at("tokens").as_array().size());
  EXPECT_LE(s.at("accepted").as_int64(), s.at("tested").as_int64());
  EXPECT_LE(s.at("tested").as_int64(), s.at("proposed").as_int64());
  EXPECT_LE(s.at("relaxed_accepts").as_int64(), s.at("accepted").as_int64());
  EXPECT_LE(s.at("discarded").as_int64(), s.at("proposed").as_int64());
  EXPECT_EQ(s.at("nan_rows").as_int64(), 0);
  EXPECT_LE(s.at("draft_forwards").as_int64(), s.at("forwards").as_int64());
  double parts = 0;
  for (const char* part : {"encode", "prefill", "draft", "verify"}) parts += s.at("ms").at(part).to_number<double>();
  EXPECT_GT(s.at("ms").at("total").to_number<double>(), 0);
  EXPECT_LE(parts, s.at("ms").at("total").to_number<double>() * 1.001);
  if (!with_form) return;
  ASSERT_EQ(missing_keys(v, {"trajectory", "form"}), "");
  ASSERT_EQ(missing_keys(v.at("trajectory"), {"waypoints", "rate_hz", "spread_m"}), "");
}

bool one_of(const json::value& v, std::initializer_list<std::string_view> words) {
  return v.is_string() && std::find(words.begin(), words.end(), std::string_view(v.get_string())) != words.end();
}

void expect_driving_answer(const json::value& v) {
  expect_result_keys(v, true);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(v.at("fields").as_object().size(), 25u);
  const std::string text(v.at("answer").as_string());
  const auto answer = parse_json(text, "answer");
  ASSERT_TRUE(answer) << text;
  ASSERT_EQ(missing_keys(*answer, {"critical_objects", "explanation", "future_meta_behavior", "trajectory"}), "");
  const json::object& objects = answer->at("critical_objects").as_object();
  ASSERT_EQ(objects.size(), sim::kObjectClasses.size());
  size_t at = 0;
  for (const auto& [key, value] : objects) {
    EXPECT_EQ(std::string_view(key), sim::kObjectClasses[at++]);
    EXPECT_TRUE(one_of(value, {"yes", "no"})) << json::serialize(value);
  }
  const json::value& behaviour = answer->at("future_meta_behavior");
  EXPECT_TRUE(one_of(behaviour.at("longitudinal"), {"keep speed", "speed up", "slow down", "come to stop"})) << text;
  EXPECT_TRUE(
      one_of(behaviour.at("lateral"), {"go straight", "lane follow", "turn left", "turn right", "change left", "change right"}))
      << text;
  expect_points(answer->at("trajectory").as_string());
  const json::value& trajectory = v.at("trajectory");
  EXPECT_EQ(trajectory.at("waypoints").as_array().size(), 5u);
  EXPECT_EQ(trajectory.at("rate_hz").to_number<int>(), 1);
  ASSERT_EQ(missing_keys(trajectory.at("fit"), {"rate_hz", "points"}), "");
  EXPECT_EQ(trajectory.at("fit").at("rate_hz").to_number<int>(), 4);
  EXPECT_EQ(trajectory.at("fit").at("points").as_array().size(), 20u);
}

std::vector<json::value> lines_of(const Ran& ran) {
  std::vector<json::value> out;
  size_t at = 0;
  for (size_t end = ran.out.find('\n'); end != std::string::npos; at = end + 1, end = ran.out.find('\n', at)) {
    auto v = parse_json(std::string_view(ran.out).substr(at, end - at), "stdout");
    EXPECT_TRUE(v) << ran.out.substr(at, end - at);
    if (v) out.push_back(*v);
  }
  EXPECT_EQ(at, ran.out.size()) << "the last line has no end";
  return out;
}

void expect_bench_line(const json::value& v) {
  ASSERT_EQ(missing_keys(v, {"decoder", "statistics", "equal"}), "");
  ASSERT_EQ(missing_keys(v.at("decoder"), {"preset", "schedule", "drafter", "verifier", "width", "lossy"}), "");
  const bool lossy = v.at("decoder").at("lossy").as_bool();
  EXPECT_TRUE(lossy ? one_of(v.at("equal"), {"lossy"}) : v.at("equal").is_bool() && v.at("equal").as_bool()) << json::serialize(v);
}

Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace slip::test
