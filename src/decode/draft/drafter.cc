// SPDX-License-Identifier: Apache-2.0
#include "decode/draft/drafter.h"

#include "decode/draft/methods.h"

namespace slip {
namespace {

class NoDrafter : public Drafter {
 public:
  Status propose(std::span<Strand* const>) override { return {}; }
};

Result<std::unique_ptr<Drafter>> make_own_drafter(const DiffusionSpec& d, const Method& m, const LmInfo& info,
                                                  const Capacity& capacity, Passes& p) {
  if (!d.ahead) return make_diffusion_drafter(info.rule, d.adapter, p);
  if (capacity.route != Route::kGraph)
    return unsupported("--drafter diffusion:ahead: expected a form's graph, got the {} schedule", words_of(m).schedule);
  return make_ahead_drafter(info.rule, capacity.group, p);
}

}  // namespace

Result<std::unique_ptr<Drafter>> make_drafter(const Method& m, const LmInfo& info, const Capacity& capacity, Passes& p) {
  const DecodeContext& context = p.request().context;
  if (std::holds_alternative<NoDraftSpec>(m.drafter)) return std::unique_ptr<Drafter>(std::make_unique<NoDrafter>());
  const bool graph = capacity.route == Route::kGraph;
  if (const auto* d = std::get_if<DiffusionSpec>(&m.drafter)) return make_own_drafter(*d, m, info, capacity, p);
  if (const auto* d = std::get_if<PreviousSpec>(&m.drafter)) {
    if (!context.previous) return usage_error("--drafter previous: expected an earlier answer (previous:FILE), got none");
    std::unique_ptr<Drafter> then;
    if (d->then) {
      SLIP_TRY(then, make_own_drafter(*d->then, m, info, capacity, p));
    }
    return make_previous_drafter(*context.previous, std::move(then), p);
  }
  if (std::holds_alternative<QuadraticSpec>(m.drafter))
    return make_quadratic_drafter(info.rule, m.draft_length.tokens, capacity, p);
  if (const auto* d = std::get_if<LookupSpec>(&m.drafter)) return make_lookup_drafter(d->longest, graph, p);
  if (std::holds_alternative<DFlashSpec>(m.drafter)) return make_head_drafter(context.draft_head, info, p);
  const auto& model = std::get<ModelSpec>(m.drafter);
  if (!context.draft_model) return usage_error("--drafter model: expected a model (model:DIR), got none");
  const int32_t room = capacity.strand_rows(p.request().options.limit, p.request().form ? p.request().form->length() : 0);
  return make_model_drafter(*context.draft_model, model.coupled, room, graph, p);
}

}  // namespace slip
