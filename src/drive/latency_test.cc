// SPDX-License-Identifier: Apache-2.0
// Promises of the latency model: which plan is followed when, and what an answer costs, against the drive fixtures.
#include "drive/latency.h"

#include "base/file.h"
#include "base/folder_testing.h"
#include "drive/drive_testing.h"
#include "drive/model_planner.h"

namespace slip::drive {
namespace {

TEST(Latency, OfAnAnswerIsTheFixtures) {
  const json::value f = fixture("latency/cost.json");
  for (const json::value& c : f.at("rounding").as_array())
    EXPECT_EQ(rounded_latency(num(c.at("raw_ms"))), whole_number(c.at("latency_ms")));
  for (const json::value& c : cases_of(f)) {
    const json::value &p = c.at("costs_ms"), &n = c.at("counts");
    const Costs costs{num(p.at("encode")), num(p.at("row")), num(p.at("pass")), num(p.at("decode_row")), num(p.at("plan"))};
    const double raw = costs.raw_ms({whole_number(n.at("prompt_rows")), whole_number(n.at("passes")), whole_number(n.at("rows"))});
    EXPECT_NEAR(raw, num(c.at("raw_ms")), 1e-9);
    EXPECT_EQ(rounded_latency(raw), whole_number(c.at("latency_ms")));
  }
}

TEST(Latency, OfADrafterIsItsPasses) {
  const Costs costs{.encode = 1, .row = 0.5, .pass = 4, .decode_row = 0.25, .plan = 2, .drafter_pass = 8};
  EXPECT_EQ(costs.raw_ms({10, 3, 8, 5}), costs.raw_ms({10, 3, 8}) + 40);
}

TEST(Latency, CostsAreFittedToWhatAnswersTook) {
  const Costs costs{.encode = 7, .row = 0.5, .pass = 4, .decode_row = 0.25, .plan = 2, .drafter_pass = 3};
  std::vector<Measured> answers;
  for (const Counts n : {Counts{100, 10, 40, 9}, Counts{120, 8, 90, 7}, Counts{90, 20, 20, 19}}) {
    const auto of = [](int64_t count, double ms) { return static_cast<double>(count) * ms; };
    answers.push_back({n, costs.encode, of(n.prompt_rows, costs.row), of(n.passes, costs.pass) + of(n.rows, costs.decode_row),
                       costs.plan, of(n.drafter_passes, costs.drafter_pass)});
  }
  const CostTable passes = *CostTable::make({1, 8, 64}, {4.25, 6, 20}, "test");
  EXPECT_NEAR(row_in_passes(passes), 0.0625, 1e-12);
  const Costs fitted = fitted_costs(answers, row_in_passes(passes));
  for (const Measured& m : answers) EXPECT_NEAR(fitted.raw_ms(m.counts), costs.raw_ms(m.counts), 1e-9);
  EXPECT_NEAR(fitted.pass, 4, 1e-9);
  EXPECT_NEAR(fitted.decode_row, 0.25, 1e-9);
  // One shape of answer tells them apart as well.
  EXPECT_NEAR(fitted_costs(std::span(answers).first(1), 0.0625).decode_row, 0.25, 1e-9);
  EXPECT_EQ(row_in_passes(*CostTable::make({1, 8}, {4, 4}, "test")), 0);
  EXPECT_NEAR(fitted.drafter_pass, 3, 1e-9);
}

/// The schedule of a case whose pictures are made when a call starts.
void expect_schedule(const json::value& c) {
  const Mode mode = *mode_named(c.at("mode").as_string());
  Schedule s(mode, whole_number(c.at("period_ms")), whole_number(c.at("horizon_ms")), whole_number(c.at("first_guess_ms")));
  const auto latency = nums(c.at("latency_raw_ms"));
  const json::array& calls = c.at("calls").as_array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const json::value& want = calls[i];
    const int64_t at = s.next_start(), took = rounded_latency(latency[i]);
    ASSERT_EQ(at, whole_number(want.at("start")));
    const json::value* ready = c.as_object().if_contains("ready_raw_ms");
    const Call& got = s.add(at, at, took, ready ? rounded_latency(num(ready->as_array().at(i))) : took);
    EXPECT_EQ(got.frame_time, whole_number(want.at("frame_time")));
    EXPECT_EQ(got.origin, whole_number(want.at("origin")));
    EXPECT_EQ(got.followed_from, whole_number(want.at("followed_from")));
    EXPECT_EQ(got.free, whole_number(want.at("free")));
  }
  for (const json::value& step : c.at("steps").as_array()) {
    const json::array& want = step.as_array();
    const auto got = s.at(whole_number(want.at(0)));
    ASSERT_EQ(got.has_value(), !want.at(1).is_null());
    if (!got) continue;
    EXPECT_EQ(static_cast<int64_t>(got->call), whole_number(want.at(1)));
    EXPECT_EQ(got->offset, whole_number(want.at(2)));
    EXPECT_EQ(got->age, whole_number(want.at(3)));
  }
}

TEST(Schedule, FollowsThePlansThatTheFixtureFollows) {
  int n = 0;
  for (const json::value& c : cases_of(fixture("latency/schedule.json"))) {
    if (c.at("frames") != "on_demand") continue;
    SCOPED_TRACE(fmt::format("{} {}", std::string_view(c.at("mode").as_string()), std::string_view(c.at("pattern").as_string())));
    expect_schedule(c);
    ++n;
  }
  EXPECT_EQ(n, 20);
}

TEST(LatencyFile, IsReadAsItWasWrittenAndRefusedInWords) {
  const test::TemporaryFolder folder;
  const std::string file = (folder.path / "latency.json").string();
  ASSERT_TRUE(write_latency({"demo", "a machine", "", {{"ar", {1, 0.5, 2, 0.25, 0.125, 3}}, {"*", {4, 0, 0, 0, 0, 0}}}}, file));
  const auto read = read_latency(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->machine, "a machine");
  EXPECT_EQ(read->of("ar", file)->decode_row, 0.25);
  EXPECT_EQ(read->of("ar", file)->drafter_pass, 3);
  EXPECT_EQ(read->of("fields", file)->encode, 4);
  const auto refused = [&](std::string_view text) {
    EXPECT_TRUE(write_file(file, text));
    const auto r = read_latency(file);
    return r ? std::string("read") : r.error().message;
  };
  EXPECT_EQ(
      refused(
          R"({"version": 1, "decoders": {"*": {"encode_ms": 1, "row_ms": 1, "pass_ms": 1, "decode_row_ms": 1, "plan_ms": 1}}})"),
      "read")
      << "files of before say nothing of a drafter";
  EXPECT_EQ(refused("[]"), file + ": expected an object with \"version\": 1, got another document");
  EXPECT_EQ(refused(R"({"version": 1})"), file + ": decoders: expected an object of decoders, got none");
  EXPECT_EQ(refused(R"({"version": 1, "decoders": {"ar": {"encode_ms": -1}}})"),
            file + ": decoders: ar: encode_ms: expected 0 to 10000000 ms, got -1");
}

}  // namespace
}  // namespace slip::drive
