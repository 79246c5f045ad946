// SPDX-License-Identifier: Apache-2.0
// Decoders against each other, images alone and in company; see verify.h. Rows: verify_rows.cc.
#include "eval/verify.h"

#include <bit>

#include "base/interrupt.h"
#include "base/philox.h"

namespace slip {

namespace {

struct Draw {
  float temperature;
  uint64_t seed;
};
constexpr std::array<Draw, 4> kDraws = {{{0, 0}, {0.8F, 1}, {0.8F, 2}, {0.8F, 3}}};

// What this model can be asked: drafting needs a mask, and a causal context to verify in.
std::vector<std::string_view> exact_presets(const DraftRule& rule, bool form) {
  const bool drafts = rule.has_mask && !rule.block_causal_context;
  std::vector<std::string_view> out{"ar"};
  if (form) out.push_back("scaffold-ar");
  if (drafts) out.push_back(form ? "scaffold-spec" : "self-spec");
  return out;
}

void compare_tokens(std::span<const TokenId> expected, std::span<const TokenId> got, const std::string& where, Check& check) {
  check.bytes += static_cast<int64_t>(got.size_bytes());
  for (size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    const int32_t want = i < expected.size() ? expected[i].value : -1, have = i < got.size() ? got[i].value : -1;
    if (want == have) continue;
    check.passed = false;
    check.difference = fmt::format("{}, token {}: expected 0x{:08x}, got 0x{:08x}", where, i, static_cast<uint32_t>(want),
                                   static_cast<uint32_t>(have));
    return;
  }
}

Image noise(int width, int height, uint64_t seed) {
  Image image{width, height, std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3)};
  PhiloxStream random(seed, 3);
  for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(random.below(256));
  return image;
}

void compare_features(std::span<const float> expected, std::span<const float> got, size_t image, Check& check) {
  if (!check.passed) return;
  check.bytes += static_cast<int64_t>(expected.size_bytes());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto want = std::bit_cast<uint32_t>(expected[i]), have = std::bit_cast<uint32_t>(got[i]);
    if (want == have) continue;
    check.passed = false;
    check.difference = fmt::format("image {}, number {}: expected 0x{:08x}, got 0x{:08x}", image, i, want, have);
    return;
  }
}

}  // namespace

Result<Form> plain_form(int32_t vocab) {
  const auto id = [&](int32_t i) { return TokenId{(vocab / 2 + i) % vocab}; };
  Form::Parts parts{.name = "plain", .section_names = {"first", "second"}, .block_size = 8};
  parts.pieces = {FixedRun{{id(0), id(1)}, 0}, FieldRef{0}, FixedRun{{id(2)}, 1}, FieldRef{1}, FixedRun{{id(3)}, 1}};
  parts.fields = {Field{.name = "a", .budget = 11}, Field{.name = "b", .budget = 5, .parents = {0}, .section = 1}};
  return Form::make(std::move(parts));
}

Result<Check> check_decoders(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& base) {
  const auto presets = exact_presets(lm.info().rule, form != nullptr);
  Check check{.name = form ? "decoders" : "free text",
              .compared = fmt::format("{}: greedy and three seeds at temperature 0.8", fmt::join(presets, ", "))};
  if (presets.size() < 2) {
    check.compared = "nothing: without a mask token there is only ar";
    return check;
  }
  for (const Draw& draw : kDraws) {
    DecodeOptions options = base;
    options.ar_forced = true;
    options.temperature = draw.temperature;
    options.seed = draw.seed;
    std::vector<TokenId> expected;
    for (const std::string_view preset : presets) {
      SLIP_TRY(Decoded decoded, decode(lm, prompt, form, preset, options));
      if (preset == "ar")
        expected = std::move(decoded.tokens);
      else if (check.passed)
        compare_tokens(expected, decoded.tokens,
                       fmt::format("{} against ar, temperature {}, seed {}", preset, draw.temperature, draw.seed), check);
    }
  }
  return check;
}

Result<Check> check_images(Model& model) {
  Check check{.name = "images", .compared = "nothing: no vision tower"};
  if (!model.vision() || !model.preprocessor()) return check;
  const int f = model.preprocessor()->factor();
  std::vector<PatchGrid> grids;
  for (const auto& [w, h] : {std::pair{8, 6}, {3, 5}, {6, 4}}) {
    SLIP_TRY(PatchGrid g, model.preprocess(noise(w * f, h * f, grids.size() + 1)));
    grids.push_back(std::move(g));
  }
  std::vector<float> together, one;
  SLIP_TRY_(model.encode_images(grids, together));
  check.compared = fmt::format("features of {} images, each alone and all together", grids.size());
  size_t at = 0;
  for (size_t i = 0; i < grids.size(); ++i) {
    SLIP_TRY_(check_interrupt());
    SLIP_TRY_(model.encode_images(std::span(&grids[i], 1), one));
    if (at + one.size() > together.size())
      return check_failed("verify: images: expected {} feature numbers together, got {}", at + one.size(), together.size());
    compare_features(one, std::span(together).subspan(at, one.size()), i, check);
    at += one.size();
  }
  return check;
}

}  // namespace slip
