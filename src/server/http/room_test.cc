// SPDX-License-Identifier: Apache-2.0
// How bodies take their room.
#include <gtest/gtest.h>

#include "server/http/connection.h"

namespace slip::server {
namespace {

TEST(Bodies, GrowByAQuarterAndLeaveRoomToSmallOnes) {
  const auto counts = std::make_shared<Counts>();
  const HttpOptions options;
  BodyRoom room(counts);
  const uint64_t come = uint64_t{16} << 20;
  ASSERT_TRUE(room.resize(come, limit_of_all(options, come)));
  EXPECT_EQ(next_room(room, come, options.body_bytes), come + come / 4);
  EXPECT_EQ(next_room(room, come - kFirstPiece, options.body_bytes), come);
  counts->bodies = options.all_bodies_bytes * 7 / 8;
  EXPECT_FALSE(room.resize(come + 1, limit_of_all(options, come + 1)));
  BodyRoom small(counts);
  EXPECT_TRUE(small.resize(kSmallBody, limit_of_all(options, kSmallBody)));
  EXPECT_EQ(limit_of_all({.body_bytes = 100, .all_bodies_bytes = 200}, uint64_t{2} << 20), 200u);
  counts->bodies = room.bytes() + small.bytes();
}

}  // namespace
}  // namespace slip::server
