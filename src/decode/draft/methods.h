// SPDX-License-Identifier: Apache-2.0
// The drafters that exist, each in the file of its name.
#pragma once
#include "decode/draft/drafter.h"
#include "lm/draft_head.h"

namespace slip {

std::unique_ptr<Drafter> make_previous_drafter(const PreviousAnswer& previous, std::unique_ptr<Drafter> then, Passes& passes);
std::unique_ptr<Drafter> make_diffusion_drafter(const DraftRule& rule, bool adapter, Passes& passes);
/// Lays masks behind the last row of every verifying pass, at most `most` per field; strands are fields of a graph.
std::unique_ptr<Drafter> make_ahead_drafter(const DraftRule& rule, int32_t most, Passes& passes);
/// Verifies with k heads (the newest row and k - 1 drafts) and lays a group of k masks behind each.
std::unique_ptr<Drafter> make_quadratic_drafter(const DraftRule& rule, int32_t k, const Capacity& capacity, Passes& passes);
std::unique_ptr<Drafter> make_lookup_drafter(int32_t longest, bool graph, Passes& passes);
/// `room`: most rows of one strand; `graph`: strands are fields. Errors: kUsage (no model), kBadInput (maps or prompt that do not fit),
/// kResource (its arena).
Result<std::unique_ptr<Drafter>> make_model_drafter(const DraftModel& model, bool coupled, int32_t room, bool graph,
                                                    Passes& passes);
/// Errors: kUsage (no head), kBadInput (a head for another target), kResource (its arena).
Result<std::unique_ptr<Drafter>> make_head_drafter(DraftHead* head, const LmInfo& target, Passes& passes);

}  // namespace slip
