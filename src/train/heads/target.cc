// SPDX-License-Identifier: Apache-2.0
// See target.h.
#include "train/heads/target.h"

#include <algorithm>

#include "base/check.h"
#include "decode/types/usual_preset.h"
#include "train/objective/graph_objective.h"

namespace slip {
namespace {

size_t prompt_length(const Sample& s) {
  return static_cast<size_t>(std::find(s.response.begin(), s.response.end(), 1) - s.response.begin());
}

}  // namespace

Result<std::unique_ptr<Target>> Target::load(const std::string& folder, int threads) {
  ModelOptions options;
  options.type = WeightType::kF32;
  options.threads = threads;
  SLIP_TRY(auto model, load_model(folder, options));
  return std::unique_ptr<Target>(new Target(std::move(model)));
}

Result<Prompt> Target::prompt(const Sample& s) {
  if (s.graph)
    return unsupported("{}: expected a target of chain visibility to train a head for, got one of graph visibility",
                       model_->folder().string());
  const size_t n = prompt_length(s);
  SLIP_CHECK(n > 0 && n < s.tokens.size(), "check_sample");
  return rows_before(s, n, s.positions[n].t);
}

Result<Prompt> Target::rows_before(const Sample& s, size_t n, int32_t next_position) {
  if (!s.history.empty() || s.cell != 2)
    return unsupported("{}: expected a target with Qwen2.5-VL's tower or without cameras to train a head for, got dino_qwen",
                       model_->folder().string());
  Prompt p;
  int32_t feature = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!s.grids.empty() && s.tokens[i] == s.image_token)
      p.inputs.emplace_back(Feature{feature++});
    else
      p.inputs.emplace_back(s.tokens[i]);
  }
  p.positions.assign(s.positions.begin(), s.positions.begin() + static_cast<ptrdiff_t>(n));
  p.next_position = next_position;
  std::vector<PatchGrid> grids;
  size_t at = 0, patches = 0;
  for (const auto& g : s.grids) patches += static_cast<size_t>(g[0]) * static_cast<size_t>(g[1]) * static_cast<size_t>(g[2]);
  for (const auto& g : s.grids) {
    PatchGrid grid{.t = g[0], .h = g[1], .w = g[2]};
    grid.patch_dim = static_cast<int>(s.pixel_values.size() / patches);
    grid.merge_size = 2;
    const size_t numbers = static_cast<size_t>(grid.patches()) * static_cast<size_t>(grid.patch_dim);
    grid.values.assign(s.pixel_values.begin() + static_cast<ptrdiff_t>(at),
                       s.pixel_values.begin() + static_cast<ptrdiff_t>(at + numbers));
    at += numbers;
    grids.push_back(std::move(grid));
  }
  if (!grids.empty()) SLIP_TRY_(model_->image_features(grids, p.features));
  return p;
}

Result<Decoded> Target::decode(const Sample& s, const Prompt& prompt, Method method, const DecodeContext& context) {
  DecodeOptions options;
  options.limit = static_cast<int32_t>(s.tokens.size() - prompt_length(s)) + 16;  // a little more than the truth
  options.forced = s.form != nullptr;
  if (!s.always_masked.empty() && s.always_masked.back()) options.end_tokens = {s.tokens.back()};
  DecodeContext with = context;
  with.cancel = CancelToken::of_process();
  return Decoder(lm(), std::move(method)).decode(prompt, s.form.get(), options, with);
}

Result<std::vector<TokenId>> Target::answer(const Sample& s, const Prompt& prompt) {
  const DraftRule& rule = lm().info().rule;
  const bool drafts = rule.has_mask && !rule.block_causal_context;
  SLIP_TRY(Method method, method_of(usual_preset(s.form != nullptr, false, drafts)));
  SLIP_TRY(Decoded decoded, decode(s, prompt, std::move(method)));
  return std::move(decoded.tokens);
}

Result<Prompt> Target::graph_prompt(const Sample& s) { return rows_before(s, s.tokens.size(), s.next_position); }

Result<std::vector<std::vector<TokenId>>> Target::graph_contents(const Sample& s, const Prompt& prompt) {
  SLIP_TRY(Method method, method_of(usual_preset(true, true, lm().info().rule.has_mask)));
  DecodeOptions options;
  options.forced = true;
  options.visibility = Visibility::kGraph;
  DecodeContext context;
  context.cancel = CancelToken::of_process();
  SLIP_TRY(Decoded decoded, Decoder(lm(), std::move(method)).decode(prompt, &s.graph->form, options, context));
  return std::move(decoded.fields);
}

namespace {

/// The order of KeysTeller::graph (decode/schedule/known_keys.cc) in rows of the trainer.
GraphKeys keys_of(const GraphRows& g, const Form& form) {
  GraphKeys out;
  for (int32_t i = 0; i < g.prompt; ++i) out.slots.push_back(i);
  int32_t u = 0;
  const auto scaffold_to = [&](int32_t end) {
    for (; u < std::min(end, form.fields().back().start); ++u)
      if (g.scaffold[static_cast<size_t>(u)] >= 0) out.slots.push_back(g.scaffold[static_cast<size_t>(u)]);
  };
  for (size_t k = 0; k < form.sections().size(); ++k) {
    for (size_t f = 0; f < form.fields().size(); ++f) {
      const Field& field = form.fields()[f];
      if (field.section != static_cast<int32_t>(k)) continue;
      scaffold_to(field.start - field.hand_off);  // a field's first rows stand for the fixed tokens before it that go with it
      for (int32_t i = 0; i < g.field_rows[f]; ++i) out.slots.push_back(g.field_row[f] + i);
      u = field.start + field.budget;
    }
    scaffold_to(form.sections()[k].end);
    out.ends.push_back(static_cast<int32_t>(out.slots.size()));
  }
  return out;
}

}  // namespace

Result<GraphKeys> Target::run_graph(const Sample& sample, const Prompt& prompt, const std::vector<std::vector<TokenId>>& contents) {
  const Form& form = sample.graph->form;
  if (form.branches())
    return unsupported("form {}: expected one shape along a graph, got a form whose shape depends on values", form.name());
  for (const Section& s : form.sections())
    if (!form.fixed_at(s.begin))
      return unsupported("form {}: section {}: expected a fixed token at its beginning, got a field", form.name(), s.name);
  Sample said = sample;
  said.contents = contents;
  const GraphRows g = graph_rows(said, std::vector<DraftBlock>(form.fields().size()), {});
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  for (size_t i = 0; i < g.rows.tokens.size(); ++i) {
    const IndexRanges& sees = g.rows.sees[i];
    rows.push_back({.input = i < prompt.inputs.size() ? prompt.inputs[i] : RowInput(TokenId{g.rows.tokens[i]}),
                    .position = g.rows.positions[i],
                    .slot = static_cast<int32_t>(i),
                    .sees_first = static_cast<uint32_t>(spans.size()),
                    .sees_count = static_cast<uint32_t>(sees.size()),
                    .want = i + 1 == g.rows.tokens.size() ? Want::kArgmax : Want::kNothing});
    for (const IndexRange& r : sees) spans.push_back({r.begin, r.end});
  }
  SLIP_TRY_(lm().set_taps({}));
  SLIP_TRY_(lm().forward({.rows = rows, .spans = spans, .features = prompt.features}, out_));
  return keys_of(g, form);
}

Status Target::forward(const Prompt& prompt, std::span<const TokenId> answer, bool taps, Want last) {
  const size_t n = prompt.inputs.size(), rows = n + answer.size();
  std::vector<Row> pass;
  std::vector<SlotSpan> spans;
  for (size_t i = 0; i < rows; ++i) {
    const auto slot = static_cast<int32_t>(i);
    const Position at = i < n ? prompt.positions[i] : Position::text(prompt.next_position + static_cast<int32_t>(i - n));
    pass.push_back({.input = i < n ? prompt.inputs[i] : RowInput(answer[i - n]),
                    .position = at,
                    .slot = slot,
                    .sees_first = static_cast<uint32_t>(i),
                    .sees_count = 1,
                    .want = i + 1 == rows ? last : Want::kNothing});
    spans.push_back({0, slot + 1});
  }
  return lm().forward({.rows = pass, .spans = spans, .features = prompt.features, .taps = taps}, out_);
}

Result<std::vector<float>> Target::run(const Prompt& prompt, std::span<const TokenId> answer, std::span<const int32_t> layers) {
  SLIP_TRY_(lm().set_taps(layers));
  SLIP_TRY_(forward(prompt, answer, !layers.empty(), layers.empty() ? Want::kArgmax : Want::kNothing));
  return std::move(out_.taps_NE);
}

Result<std::vector<float>> Target::last_logits(const Prompt& prompt) {
  SLIP_TRY_(forward(prompt, {}, false, Want::kLogits));
  const auto z = out_.logits_V(prompt.inputs.size() - 1);
  return std::vector<float>(z.begin(), z.end());
}

}  // namespace slip
