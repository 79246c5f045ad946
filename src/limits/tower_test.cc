// SPDX-License-Identifier: Apache-2.0
// Towers and draft heads against sums that are worked out by hand.
#include "limits/tower.h"

#include <gtest/gtest.h>

#include "limits/draft_head.h"

namespace slip {
namespace {

const Machine kMachine{.name = "m", .source = "", .gb_per_s = 1, .bf16_tflops = 1};

/// Two blocks of width 4, one of them within windows of 4 patches; cells of 2 x 2 patches become a row of 6 numbers.
TowerShape small() {
  return {.name = "",
          .depth = 2,
          .width = 4,
          .mlp_width = 8,
          .patch_numbers = 3,
          .full_blocks = 1,
          .window_patches = 4,
          .merge = 2,
          .projector = {16, 16, 6}};
}

TEST(Tower, CountsProductsAndAttentionOfItsBlocks) {
  const std::vector<TowerGrid> pictures = {{.rows = 2, .columns = 4}, {.rows = 2, .columns = 2}};
  const auto pass = tower_pass(small(), kMachine, pictures, "bf16");
  ASSERT_TRUE(pass) << pass.error().message;
  const TowerWork work = tower_work(*pass);
  // 12 patches: 2 * 12 (4 * 3 + 2 (4 * 16 + 3 * 4 * 8)); 3 cells: 2 * 3 (16 * 16 + 16 * 6).
  EXPECT_DOUBLE_EQ(work.products, 24 * (12 + 2 * (64 + 96)) + 6 * (256 + 96));
  // Frames of 8 and 4 patches, and 12 patches that see 4 each: 4 D (64 + 16 + 48).
  EXPECT_DOUBLE_EQ(work.attention, 16 * (64 + 16 + 48));
}

TEST(Tower, TakesTheLongerOfArithmeticAndBytes) {
  const std::vector<TowerGrid> pictures = {{.rows = 2, .columns = 4}};
  const auto pass = tower_pass(small(), kMachine, pictures, "bf16", 4);
  ASSERT_TRUE(pass) << pass.error().message;
  double total = 0;
  for (const Operation& o : pass->operations) {
    EXPECT_DOUBLE_EQ(o.ms, std::max(o.flops / 1e9, o.bytes / 1e6)) << o.name;
    total += o.ms * static_cast<double>(o.repeat);
    // Weights of 2 bytes once, activations of 4 bytes of 8 rows.
    if (o.name == "qkv") {
      EXPECT_DOUBLE_EQ(o.bytes, 2 * 4 * 12 + 4 * 8 * (4 + 12));
    }
  }
  EXPECT_DOUBLE_EQ(pass->total_ms, total);
  EXPECT_FALSE(tower_pass(small(), kMachine, pictures, "int3"));
}

TEST(Tower, APlainViTHasPrefixRowsAndNoGate) {
  const TowerShape vit{.name = "ViT 1: ",
                       .depth = 1,
                       .width = 4,
                       .mlp_width = 8,
                       .patch_numbers = 3,
                       .full_blocks = 1,
                       .prefix_rows = 1,
                       .gated = false,
                       .projector = {}};
  const std::vector<TowerGrid> pictures = {{.rows = 2, .columns = 2}};
  const auto pass = tower_pass(vit, kMachine, pictures, "bf16");
  ASSERT_TRUE(pass) << pass.error().message;
  const TowerWork work = tower_work(*pass);
  EXPECT_DOUBLE_EQ(work.products, 2 * 4 * 12 + 2 * 5 * (4 * 16 + 2 * 4 * 8));
  EXPECT_DOUBLE_EQ(work.attention, 16 * 25);
  EXPECT_EQ(pass->operations.front().name, "ViT 1: patch_embed");
}

TEST(DraftHeads, ARoundIsAPassOfItsLayersAndTheContextOfAsManyRows) {
  const DraftHeadShape head{.decoder = {4, 2, 2, 1, 2, 8, 10}, .taps = 12};
  const PassShape rows{.rows = 3, .keys = 5, .answers = 3};
  const auto context = draft_head_context(head, kMachine, rows), round = draft_head_round(head, kMachine, rows),
             pass = plain_pass(head.decoder, kMachine, rows);
  ASSERT_TRUE(context && round && pass);
  double flops = 0;
  for (const Operation& o : context->operations) flops += o.flops * static_cast<double>(o.repeat);
  EXPECT_DOUBLE_EQ(flops, 2 * 3 * (12 * 4 + 2 * 4 * 4));  // 2 layers of keys and values, 2 numbers each
  EXPECT_NEAR(round->total_ms, pass->total_ms + context->total_ms, 1e-12);
}

}  // namespace
}  // namespace slip
