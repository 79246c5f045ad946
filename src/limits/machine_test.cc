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

}  // namespace
}  // namespace slip
