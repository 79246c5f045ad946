// SPDX-License-Identifier: Apache-2.0
// What a request may say and what it is refused for, before a model is loaded and by one that is; and what its defaults mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "api/requests.h"
#include "base/folder_testing.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kScene = 900000017;
const std::string kModels = std::string(SLIP_SOURCE_DIR) + "/models/";
const std::string kDemo = kModels + "demo";

TEST(Ego, OfNoWordsIsACarAtRest) {
  const Ego none, standing = slip::api::ego_from(slip::standing_ego());
  EXPECT_EQ(none.intent, standing.intent);
  for (size_t i = 0; i < none.history_4hz.size(); ++i) {
    const EgoState &a = none.history_4hz[i], &b = standing.history_4hz[i];
    EXPECT_EQ((std::array{a.t_s, a.x, a.y, a.vx, a.vy, a.ax, a.ay}), (std::array{b.t_s, b.x, b.y, b.vx, b.vy, b.ax, b.ay})) << i;
  }
  Request request;
  request.ego = Ego();
  const auto taken = slip::api::engine_request(request);
  EXPECT_TRUE(taken) << taken.error().message;
}

}  // namespace
}  // namespace slipstream
