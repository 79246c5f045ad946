// SPDX-License-Identifier: Apache-2.0
// The fuzz targets over their seeds and a fixed number of mutations of them: what a fuzzer would start with, in every test run.
// SLIP_MUTATIONS: how many per target.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fuzz/mutate.h"
#include "fuzz/targets.h"

namespace slip::fuzz {
namespace {

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, SeedsAndTheirMutationsKeepThePromises) {
  const Target& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  target.run({});
  for (const std::string& seed : seeds) target.run(std::as_bytes(std::span(seed)));
  const char* const wanted = std::getenv("SLIP_MUTATIONS");
  const int mutations = wanted ? std::atoi(wanted) : 150;
  PhiloxStream random(5, 0);
  for (int i = 0; i < mutations; ++i) {
    std::string input = seeds[random.below(static_cast<uint32_t>(seeds.size()))];
    mutate(input, target.shape, random);
    SCOPED_TRACE(i);
    target.run(std::as_bytes(std::span(input)));
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(kTargets), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace slip::fuzz
