// SPDX-License-Identifier: Apache-2.0
// Against GenZ-LLM-Analyzer, run as it is, and the plain reading that was worked out beside it (tests/fixtures/limits).
#include "limits/roofline.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "limits/speculation_algebra.h"

namespace slip {
namespace {

json::object fixture(const char* name) {
  auto v = read_json(std::filesystem::path(SLIP_FIXTURES) / "limits" / name);
  EXPECT_TRUE(v) << v.error().message;
  return v ? v->as_object() : json::object{};
}
double number(const json::value& v) { return v.to_number<double>(); }

DecoderShape shape_of(const json::value& m) {
  const auto n = [&](const char* key) { return m.at(key).to_number<int64_t>(); };
  return {n("hidden"), n("layers"), n("heads"), n("kv_heads"), n("head_dim"), n("ffn"), n("vocab")};
}
Machine machine_of(std::string_view name, const json::value& s) {
  return {.name = std::string(name),
          .source = "fixture",
          .gb_per_s = number(s.at("gb_per_s")),
          .bf16_tflops = number(s.at("tflops")),
          .efficiency = number(s.at("efficiency"))};
}

void expect_near(double got, double expected, const std::string& what) {
  EXPECT_NEAR(got, expected, 1e-9 * std::abs(expected)) << what;
}

void compare(const PassTime& got, const json::value& operators, double total, const std::string& what, bool macs) {
  const json::array& all = operators.as_array();
  ASSERT_EQ(got.operations.size(), all.size()) << what;
  for (size_t i = 0; i < all.size(); ++i) {
    const Operation& o = got.operations[i];
    const std::string name = what + " " + o.name;
    EXPECT_EQ(o.name, all[i].at("name").as_string()) << what;
    EXPECT_EQ(o.repeat, all[i].at("repeat").as_int64()) << name;
    expect_near(o.flops, macs ? 2 * number(all[i].at("macs")) : number(all[i].at("flops")), name);
    expect_near(o.ms, number(all[i].at("ms")), name);
    if (macs) expect_near(o.compute_ms, number(all[i].at("compute_ms")), name);
    if (macs) expect_near(o.memory_ms, number(all[i].at("memory_ms")), name);
    if (!macs) expect_near(o.bytes, number(all[i].at("bytes")), name);
  }
  expect_near(got.total_ms, total, what);
}

TEST(Roofline, EveryOperatorTakesWhatGenZSays) {
  const json::object file = fixture("genz.json");
  int compared = 0;
  for (const json::value& c : file.at("cases").as_array()) {
    const std::string model(c.at("model").as_string()), system(c.at("system").as_string()), type(c.at("bits").as_string());
    const DecoderShape shape = shape_of(file.at("models").at(model));
    const Machine machine = machine_of(system, file.at("systems").at(system));
    const int64_t tokens = c.at("tokens").as_int64(), generated = c.at("generated").as_int64();
    const bool prefill = c.at("phase") == "prefill";
    const std::string what = fmt::format("{} {} {} {} {}", model, system, tokens, generated, type);
    const auto genz = prefill ? genz_prefill(shape, machine, tokens, type) : genz_decode(shape, machine, tokens, generated, type);
    ASSERT_TRUE(genz) << genz.error().message;
    compare(*genz, c.at("operators"), number(c.at("total_ms")), what, true);
    const PassShape pass{.rows = prefill ? tokens : 1, .keys = prefill ? 0 : tokens + generated - 1, .type = type};
    const auto plain = plain_pass(shape, machine, pass);
    ASSERT_TRUE(plain) << plain.error().message;
    compare(*plain, c.at("plain").at("operators"), number(c.at("plain").at("total_ms")), "plain " + what, false);
    ++compared;
  }
  EXPECT_EQ(compared, 108);
}

TEST(Roofline, GivesTheReportsTableOfAnH100) {
  const json::object file = fixture("genz.json"), tables = fixture("paper_tables.json");
  const Machine h100 = *machine_named("h100-nvl");
  const auto shape = [&](const char* name) { return shape_of(file.at("models").at(name)); };
  const DecoderShape target = shape("openvla-7b"), draft = shape("minivla-0.5b");
  const json::value& again = tables.at("table_5_again");
  expect_near(genz_prefill(target, h100, 281, "bf16")->total_ms, number(again.at("openvla_prefill_ms")), "prefill");
  expect_near(genz_prefill(draft, h100, 281, "bf16")->total_ms, number(again.at("minivla_prefill_ms")), "draft prefill");
  const auto rows = tables.at("table_5").at("rows").as_array();  // printed with two digits
  EXPECT_NEAR(genz_prefill(target, h100, 281, "bf16")->total_ms, number(rows[1].at(1)), 0.005);
  EXPECT_NEAR(genz_decode(target, h100, 288, 7, "bf16")->total_ms, number(rows[2].at(1)), 0.02);
  EXPECT_NEAR(genz_decode(draft, h100, 288, 7, "bf16")->total_ms, number(rows[4].at(1)), 0.005);
}

TEST(Roofline, BytesBoundFewRowsAndArithmeticBoundsMany) {
  const DecoderShape qwen{2048, 36, 16, 2, 128, 11008, 151936};
  const Machine h100 = *machine_named("h100");
  const auto ms = [&](int64_t rows) { return plain_pass(qwen, h100, {.rows = rows, .keys = 2000, .answers = 0})->total_ms; };
  // Read once: 6.2 GB at 3.35 TB/s is 1.84 ms.
  EXPECT_NEAR(ms(1), static_cast<double>(qwen.weights()) * 2 / 3350e6, 0.05);
  EXPECT_LT(ms(8), 1.1 * ms(1));
  EXPECT_GT(ms(2048), 5 * ms(1));
  EXPECT_FALSE(plain_pass(qwen, h100, {.type = "int3"}));
  EXPECT_FALSE(genz_prefill(qwen, h100, 8, "f32"));
}

TEST(Machines, AreReadFromFilesAndBadNumbersAreRefused) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / fmt::format("machine-{}.json", getpid());
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(write_file(file, text));
    return machine_named(file.string());
  };
  const auto own = read(R"({"name": "own", "gb_per_s": 50, "bf16_tflops": 1.05, "pass_us": 20})");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->flops_per_ms("int8"), 2.1e9);
  EXPECT_EQ(own->flops_per_ms("f32"), 0.525e9);
  for (const char* bad : {"{}", "[]", R"({"gb_per_s": 0, "bf16_tflops": 1})", R"({"gb_per_s": -1, "bf16_tflops": 1})",
                          R"({"gb_per_s": "1", "bf16_tflops": 1})", R"({"gb_per_s": 1, "bf16_tflops": 1, "efficiency": 2})"})
    EXPECT_FALSE(read(bad)) << bad;
  EXPECT_EQ(machine_named("warp").error().kind, ErrorKind::kUsage);
  std::filesystem::remove(file);
}

TEST(Landscape, IsTheOracles) {
  const json::object file = fixture("landscape.json");
  const json::array &table = file.at("table").as_array(), &gammas = file.at("gamma").as_array(), &cs = file.at("c").as_array(),
                    &alphas = file.at("alpha").as_array();
  for (size_t g = 0; g < gammas.size(); ++g)
    for (size_t c = 0; c < cs.size(); ++c)
      for (size_t a = 0; a < alphas.size(); ++a) {
        const double expected = number(table[g].at(c).at(a));
        EXPECT_NEAR(speculative_speedup(number(alphas[a]), static_cast<int>(gammas[g].as_int64()), number(cs[c])), expected,
                    1e-12 * expected);
      }
  const json::object break_even = fixture("break_even.json");
  for (const json::value& x : break_even.at("cases").as_array()) {
    const auto alpha = break_even_alpha(static_cast<int>(x.at("gamma").as_int64()), number(x.at("c")), number(x.at("speedup")));
    ASSERT_EQ(alpha.has_value(), !x.at("alpha").is_null()) << json::serialize(x);
    if (alpha) {
      EXPECT_NEAR(*alpha, number(x.at("alpha")), 1e-6) << json::serialize(x);
    }
  }
}

TEST(Landscape, FiniteAnswersAndWholeActionsAreTheOracles) {
  const json::object finite = fixture("finite.json");
  for (const json::value& x : finite.at("cases").as_array()) {
    const FiniteRun run =
        finite_run(static_cast<int>(x.at("tokens").as_int64()), number(x.at("alpha")), static_cast<int>(x.at("gamma").as_int64()));
    EXPECT_NEAR(run.rounds, number(x.at("rounds")), 1e-9);
    EXPECT_NEAR(run.draft_steps, number(x.at("draft_steps")), 1e-9);
  }
  for (const json::value& x : finite.at("adaptive").as_array()) {
    const AdaptiveRun run = adaptive_run(static_cast<int>(x.at("tokens").as_int64()), number(x.at("alpha")), number(x.at("c")),
                                         static_cast<int>(x.at("most").as_int64()));
    EXPECT_NEAR(run.cost, number(x.at("cost")), 1e-9) << json::serialize(x);
  }
  const json::object whole = fixture("whole_action.json");
  const auto t = [&](const char* key) { return number(whole.at("times_ms").at(key)); };
  const ActionTimes times{t("vision"), t("target_prefill"), t("target_step"), t("draft_prefill"), t("draft_step")};
  const auto tokens = static_cast<int>(whole.at("tokens").as_int64());
  EXPECT_NEAR(plain_action_ms(times, tokens), number(whole.at("ar_ms")), 1e-9);
  for (const json::value& x : whole.at("cases").as_array())
    EXPECT_NEAR(speculative_action_ms(times, tokens, number(x.at("alpha")), static_cast<int>(x.at("gamma").as_int64())),
                number(x.at("ms")), 1e-9);
}

TEST(Roofline, AHeadMayHaveATypeOfItsOwn) {
  const DecoderShape shape{.hidden = 64, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 128, .vocab = 100};
  const Machine m{.name = "m", .source = "", .gb_per_s = 1, .bf16_tflops = 1};
  const PassShape int4{.rows = 1, .keys = 10, .answers = 1, .type = "int4", .activation_bytes = 4, .key_bytes = 2};
  PassShape mixed = int4;
  mixed.head_type = "int8";
  const auto all = plain_pass(shape, m, int4), wide = plain_pass(shape, m, mixed);
  ASSERT_TRUE(all && wide);
  for (size_t i = 0; i < all->operations.size(); ++i) {
    const Operation &a = all->operations[i], &b = wide->operations[i];
    EXPECT_NEAR(b.bytes - a.bytes, b.name == "head" ? (1 - 4.125 / 8) * 64 * 100 : 0, 1e-9) << b.name;
  }
  mixed.head_type = "int3";
  EXPECT_FALSE(plain_pass(shape, m, mixed));
}

TEST(Roofline, WhatKernelsReachStandsForThePeaks) {
  const DecoderShape shape{.hidden = 64, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 128, .vocab = 100};
  Machine m{.name = "m", .source = "", .gb_per_s = 1e6, .bf16_tflops = 1, .measured = true};
  const PassShape pass{.rows = 8, .keys = 10, .answers = 8};
  const auto at_peak = plain_pass(shape, m, pass);
  m.kernels = {{1, 8}, {1e9, 0.25e9}, {1e9, 0.5e9}};
  const auto reached = plain_pass(shape, m, pass);
  ASSERT_TRUE(at_peak && reached);
  for (size_t i = 0; i < reached->operations.size(); ++i) {
    const Operation &a = at_peak->operations[i], &b = reached->operations[i];
    // Eight rows behind ten keys see 14.5 in the mean; at their peaks machines are charged for all 18.
    if (b.name == "attention") {
      EXPECT_DOUBLE_EQ(b.compute_ms, a.compute_ms * 14.5 / 18 / 0.5);
    } else {
      EXPECT_DOUBLE_EQ(b.compute_ms, a.compute_ms / 0.25) << b.name;
    }
  }
}

}  // namespace
}  // namespace slip
