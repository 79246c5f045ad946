// SPDX-License-Identifier: Apache-2.0
// Decoders against each other, images alone and in company; see verify.h. Rows: verify_rows.cc.
#include "eval/verify.h"

#include <bit>

#include "base/philox.h"

namespace slip {

namespace {

struct Trial {
  float temperature;
  uint64_t seed;
};
constexpr std::array<Trial, 4> kTrials = {{{0, 0}, {0.8F, 1}, {0.8F, 2}, {0.8F, 3}}};

Method with_drafter(Method m, DrafterSpec drafter, int32_t tokens) {
  m.drafter = std::move(drafter);
  m.draft_length = {DraftLengthSpec::Kind::kFixed, tokens, {}};
  return m;
}

// What this model can be asked beside `ar`, which comes first: self-drafting needs a mask, and a causal context to verify in.
std::vector<Method> exact_methods(const LmInfo& info, bool form, Visibility visibility, const PreviousAnswer& previous) {
  const bool drafts = info.rule.has_mask && !info.rule.block_causal_context;
  std::vector<Method> out{*method_of("ar")};
  if (form) out.push_back(*method_of("scaffold-ar"));
  std::vector<std::string_view> schedules{form ? "scaffold-ar" : "ar"};
  if (form && visibility == Visibility::kGraph) {
    out.push_back(*method_of("fields"));
    schedules.push_back("fields");
  }
  for (const std::string_view schedule : schedules) {
    const Method plain = *method_of(schedule);
    out.push_back(with_drafter(plain, LookupSpec{}, 6));
    if (!previous.tokens.empty()) out.push_back(with_drafter(plain, PreviousSpec{.name = "", .then = {}}, 24));
    if (!drafts) continue;
    out.push_back(with_drafter(plain, DiffusionSpec{}, 8));
    if (!previous.tokens.empty()) out.push_back(with_drafter(plain, PreviousSpec{.name = "", .then = DiffusionSpec{}}, 8));
    if (info.has_draft_adapter) out.push_back(with_drafter(plain, DiffusionSpec{.adapter = true}, 8));
    out.push_back(with_drafter(plain, QuadraticSpec{}, 3));
    if (plain.schedule != Schedule::kFields) continue;
    const DiffusionSpec ahead{.ahead = true};
    out.push_back(with_drafter(plain, ahead, 8));
    if (!previous.tokens.empty()) out.push_back(with_drafter(plain, PreviousSpec{.name = "", .then = ahead}, 8));
  }
  if (drafts && form) {
    out.push_back(*method_of("scaffold-spec"));
    if (visibility == Visibility::kGraph) out.push_back(*method_of("fields-spec"));
  }
  return out;
}

std::string name_of(const Method& m) {
  const MethodWords w = words_of(m);
  return fmt::format("{} x {} x {}", w.schedule, w.drafter, w.draft_length);
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

Result<Check> check_decoders(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& base, const DecodeContext& lent) {
  DecodeOptions options = base;
  options.forced = true;
  // The earlier answer is one of another seed: right in places.
  options.temperature = 0.8F;
  options.seed = 99;
  SLIP_TRY(const Decoded earlier, decode(lm, prompt, form, "ar", options, lent));
  const PreviousAnswer previous{form ? form->name() : "", earlier.fields, earlier.tokens};
  const std::vector<Method> methods = exact_methods(lm.info(), form != nullptr, base.visibility, previous);
  Check check{.name = form ? "decoders" : "free text",
              .compared = fmt::format("{} exact decoders, greedy and three seeds at temperature 0.8", methods.size())};
  DecodeContext context = lent;
  context.previous = &previous;
  for (const Trial& trial : kTrials) {
    options.temperature = trial.temperature;
    options.seed = trial.seed;
    std::vector<TokenId> expected;
    for (const Method& m : methods) {
      SLIP_TRY(Decoded decoded, Decoder(lm, m).decode(prompt, form, options, context));
      if (m.preset == "ar" && std::holds_alternative<NoDraftSpec>(m.drafter))
        expected = std::move(decoded.tokens);
      else if (check.passed)
        compare_tokens(expected, decoded.tokens,
                       fmt::format("{} against ar, temperature {}, seed {}", name_of(m), trial.temperature, trial.seed), check);
    }
  }
  return check;
}

Result<Check> check_images(Model& model, const CancelToken& cancel) {
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
    SLIP_TRY_(cancel.check("verify", static_cast<int64_t>(i), "images"));
    SLIP_TRY_(model.encode_images(std::span(&grids[i], 1), one));
    if (at + one.size() > together.size())
      return check_failed("verify: images: expected {} feature numbers together, got {}", at + one.size(), together.size());
    compare_features(one, std::span(together).subspan(at, one.size()), i, check);
    at += one.size();
  }
  return check;
}

}  // namespace slip
