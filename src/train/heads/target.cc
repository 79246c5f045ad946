// SPDX-License-Identifier: Apache-2.0
// See target.h.
#include "train/heads/target.h"

#include <algorithm>

#include "base/check.h"

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
  if (!s.history.empty() || s.cell != 2)
    return unsupported("{}: expected a target with Qwen2.5-VL's tower or without cameras to train a head for, got dino_qwen",
                       model_->folder().string());
  Prompt p;
  const size_t n = prompt_length(s);
  SLIP_CHECK(n > 0 && n < s.tokens.size(), "check_sample");
  int32_t feature = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!s.grids.empty() && s.tokens[i] == s.image_token)
      p.inputs.emplace_back(Feature{feature++});
    else
      p.inputs.emplace_back(s.tokens[i]);
  }
  p.positions.assign(s.positions.begin(), s.positions.begin() + static_cast<ptrdiff_t>(n));
  p.next_position = s.positions[n].t;
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
  if (!grids.empty()) SLIP_TRY_(model_->encode_images(grids, p.features_ND));
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
  SLIP_TRY(Method method, method_of(s.form ? (drafts ? "scaffold-spec" : "scaffold-ar") : (drafts ? "self-spec" : "ar")));
  SLIP_TRY(Decoded decoded, decode(s, prompt, std::move(method)));
  return std::move(decoded.tokens);
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
  return lm().forward({.rows = pass, .spans = spans, .features_ND = prompt.features_ND, .taps = taps}, out_);
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
