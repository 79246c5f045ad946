// SPDX-License-Identifier: Apache-2.0
// Promises of machine files and of what follows from a machine's two ceilings.
#include "limits/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace slip {
namespace {

TEST(MachineFiles, AMisspeltKeyIsAnErrorThatNamesIt) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / fmt::format("machine-keys-{}.json", getpid());
  ASSERT_TRUE(write_file(file, R"({"gb_per_s": 50, "bf16_tflops": 1, "eficiency": 0.5})"));
  const auto machine = machine_named(file.string());
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(machine.error().message.find("got eficiency"), std::string::npos) << machine.error().message;
  std::filesystem::remove(file);
}

TEST(Machines, TurnFromBytesToArithmeticWhereTheCeilingsMeet) {
  const Machine m{.name = "m", .source = "", .gb_per_s = 100, .bf16_tflops = 2};
  // 2 rows / 2e12 = 2 bytes / 100e9
  EXPECT_DOUBLE_EQ(turning_rows(m, "bf16"), 20);
  EXPECT_DOUBLE_EQ(turning_rows(m, "int8"), 20);  // half of the bytes at twice the peak
  EXPECT_EQ(turning_rows(m, "int3"), 0);
}

TEST(Machines, TheRateOfARowLiesOnALineOfTimes) {
  const KernelRates k{{1, 4}, {10, 20}, {1, 1}};  // a row takes 0.1, four take 0.2
  EXPECT_DOUBLE_EQ(k.product_at(1), 10);
  EXPECT_DOUBLE_EQ(2 / k.product_at(2), 0.1 + 0.1 / 3);
  EXPECT_DOUBLE_EQ(k.product_at(4), 20);
  EXPECT_DOUBLE_EQ(k.product_at(400), 20) << "behind the last the rate stays";
  EXPECT_DOUBLE_EQ(k.attention_at(3), 1);
}

TEST(MachineFiles, WhatWasMeasuredIsReadAsItWasWritten) {
  Machine m{.name = "here", .source = "measured", .gb_per_s = 50, .bf16_tflops = 0.5, .measured = true};
  m.kernels = {{1, 8, 64}, {1e8, 3e8, 4e8}, {1e7, 2e7, 2.5e7}, "bf16", 224, 608};
  m.tower_kernels = {{}, {{1}, {5e8}, {1e8}, "bf16", 128, 352}};
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / fmt::format("machine-kernels-{}.json", getpid());
  ASSERT_TRUE(write_file(file, pretty(machine_json(m))));
  const auto read = machine_named(file.string());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->measured);
  EXPECT_EQ(read->kernels.rows, m.kernels.rows);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(read->kernels.product[i], m.kernels.product[i], 1);
    EXPECT_NEAR(read->kernels.attention[i], m.kernels.attention[i], 1);
  }
  EXPECT_EQ(read->kernels.type, "bf16");
  EXPECT_EQ(read->kernels.ffn, 608);
  ASSERT_EQ(read->tower_kernels.size(), 2U);
  EXPECT_TRUE(read->tower_kernels[0].empty()) << "nothing was measured of the first";
  EXPECT_NEAR(read->tower_kernels[1].product[0], 5e8, 1);
  EXPECT_EQ(read->tower_kernels[1].width, 128);
  for (const auto& [bad, says] :
       {std::pair{R"({"rows": [1, 1], "product_tops": [1, 1], "attention_tops": [1, 1]})", "ascending"},
        {R"({"rows": [1, 2], "product_tops": [1], "attention_tops": [1, 1]})", "expected 2 numbers, got 1"},
        {R"({"rows": [1], "product_tops": [0], "attention_tops": [1]})", "expected a number from"},
        {R"({"rows": [1], "product_tops": [1e300], "attention_tops": [1]})", "expected a number from"},
        {R"({"rows": [1], "product_tops": [1], "attention_tops": [1], "typ": "bf16"})", "got typ"},
        {R"({"rows": [1], "product_tops": [1], "attention_tops": [1], "type": "fp3"})", "got fp3"},
        {R"({"rows": [1], "product_tops": [1]})", "attention_tops"}}) {
    ASSERT_TRUE(write_file(file, fmt::format(R"({{"gb_per_s": 50, "bf16_tflops": 1, "kernels": {}}})", bad)));
    const auto refused = machine_named(file.string());
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput) << bad;
    EXPECT_NE(refused.error().message.find(says), std::string::npos) << refused.error().message;
  }
  std::filesystem::remove(file);
}

TEST(MachineFiles, FiguresThatNoMachineHasAreRefusedByTheirName) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / fmt::format("machine-figures-{}.json", getpid());
  for (const auto& [figures, says] : {std::pair{R"("gb_per_s": 1e300, "bf16_tflops": 1)", "gb_per_s"},
                                      {R"("gb_per_s": 1e-300, "bf16_tflops": 1)", "gb_per_s"},
                                      {R"("gb_per_s": 1, "bf16_tflops": 1e200)", "bf16_tflops"},
                                      {R"("gb_per_s": 1, "bf16_tflops": 1, "pass_us": 1e200)", "pass_us"},
                                      {R"("gb_per_s": 1, "bf16_tflops": 1, "efficiency": 1e-300)", "efficiency"},
                                      {R"("gb_per_s": 1, "bf16_tflops": 1, "name": "")", "name: expected a text"},
                                      {R"("gb_per_s": 1, "bf16_tflops": 1, "name": "a\nb")", "name: expected one line"}}) {
    ASSERT_TRUE(write_file(file, fmt::format("{{{}}}", figures)));
    const auto refused = machine_named(file.string());
    ASSERT_FALSE(refused) << figures;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(refused.error().message.find(says), std::string::npos) << refused.error().message;
  }
  std::filesystem::remove(file);
}

TEST(Machines, RatesOfKernelsAreThoseOfTheirTypeAlone) {
  Machine m{.name = "m", .source = "", .gb_per_s = 100, .bf16_tflops = 2};
  m.kernels = {{1}, {1e9}, {0.5e9}, "bf16"};
  EXPECT_DOUBLE_EQ(m.product_flops_per_ms("bf16", 4), 1e9);
  EXPECT_DOUBLE_EQ(m.product_flops_per_ms("f32", 4), m.flops_per_ms("f32"));
  EXPECT_DOUBLE_EQ(m.attention_flops_per_ms("int8", 4), m.flops_per_ms("int8"));
}

}  // namespace
}  // namespace slip
