// SPDX-License-Identifier: Apache-2.0
// Teaching a model graph visibility (lm/graph_visibility.h) and its drafts, as rows of one pass. Sources: FastDriveCoT for the graph, Fast-dDrive's
// shift for the drafts (tests/fixtures/decode/README.md); the training recipe is ours, neither paper gives one.
//
//   clean rows   prompt and scaffold, causal; per field its hand-off row and token rows. Row (v, i) predicts token i, or END behind the
//                last token of a field that is not full. A field that may be absent has all tokens of its hand-off in place of the one (then
//                a block from cut 0 begins with them), and where it is absent no rows at all.
//   draft rows   per chosen field one block as the engine's drafter lays it out: [newest row, masks], from a random cut c. The block is
//                mutually visible and sees what the newest row sees; row k predicts item c + k (shift), END included, nothing
//                behind END, and nothing from the last mask, whose pick no decoder reads.
//   loss = [ sum_v w_v sum_i CE(clean (v, i)) + draft_weight sum_v w_v sum_k CE(draft (v, k)) + grounding ] / (terms of both kinds)
// Scaffold and placeholders that the form forces carry no loss; their rows exist because others see them. A field's ancestors are
// always the true ones (teacher forcing), also in draft blocks. Sums over samples divided by counts over samples, as in objective.h.
#pragma once
#include <string>
#include <vector>

#include "train/objective/objective.h"

namespace slip {

/// Weight of the fields whose section's name is `of`, or whose own name begins with it. The last rule that fits counts.
struct GraphWeight {
  std::string of;
  double weight = 1;
};

struct GraphRule {
  int32_t draft_length = 12;  // rows of a block, the newest included (decoders: width)
  double draft_share = 0.5;   // of the fields that get a block in a sample
  double draft_first = 0.5;   // of the blocks that begin with their field; other cuts are uniform
  double draft_narrow = 0.5;  // of the blocks that are narrower: uniform over 2 .. draft_length, so that no one width is learned
  double draft_weight = 1;
  std::vector<GraphWeight> weights;
};

/// A draft block of one field: tokens 0 .. cut-1 are known; width 0: no block.
struct DraftBlock {
  int32_t cut = 0, width = 0;
  bool operator==(const DraftBlock&) const = default;
};

/// What is wrong with a sample's contents, or nothing: one per field, within the budget (exactly it where the field has no END), and
/// the placeholder in instances that the enumeration does not name, or nothing where they are absent.
Status check_graph_sample(const Sample& s);

/// What the decoder draws of a field: its tokens, and END unless it is full or has none.
std::vector<TokenId> drawn_items(const Field& field, std::span<const TokenId> content);
/// kBadInput for a rule that is for none of these sections and fields; it lists the sections.
Status check_graph_weights(const std::vector<GraphWeight>& rules, std::span<const std::string> sections,
                           std::span<const std::string> fields);
/// The weight of a field by the rules.
double graph_weight(const Form& form, size_t field, const std::vector<GraphWeight>& rules);

/// One entry per field; every field's numbers depend on (key, field) alone. Forced fields and absent ones get no block.
std::vector<DraftBlock> draft_blocks(const Sample& s, const GraphRule& rule, const NoiseKey& key);

/// Where the rows of a sample lie: prompt rows 0 .. prompt-1, then the scaffold in form order, then clean rows, then draft rows.
struct GraphRows {
  SequenceRows rows;
  int32_t prompt = 0;
  std::vector<int32_t> scaffold;    // by form position: its row, -1 where a value goes, or a hand-off that is no scaffold
  std::vector<int32_t> field_row;   // by field: its first hand-off row; token i follows at + Field::hand_off + i
  std::vector<int32_t> field_rows;  // by field: how many
  std::vector<int32_t> draft_row;   // by field: the first row of its block, -1 without one
};
GraphRows graph_rows(const Sample& s, std::span<const DraftBlock> blocks, const GraphRule& rule);

}  // namespace slip
