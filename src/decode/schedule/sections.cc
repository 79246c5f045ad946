// SPDX-License-Identifier: Apache-2.0
// Block diffusion over the sections of a form [Fast-dDrive, section diffusion]. Lossy: what is committed depends on the threshold.
//
//   s, e  the block          x  the answer, masks where undecided
// Prompt causal; an answer row sees the prompt and all answer rows of its own and of earlier blocks. Per block, until no mask is
// left: the choice and its softmax probability for every masked place, from the row before it (shift) or its own; commit all above
// the threshold, else the single best (lowest place on ties). Then one pass over the finished block, whose keys stay.
// Tests: SectionDiffusion.GivesAnswersThatTheFormAllows, CommitSampling.*; pass for pass against the reference in tests/decode/fixtures_test.cc.
// With a commit sampler [Nemotron-Labs-Diffusion, App. A] a small network that sees the whole block says how likely each place's likeliest
// token is the one that will stand there; that takes the confidence's place. A choice that is not the likeliest token (the rules or a
// temperature took another) was not looked at by it and counts 0.
// Differs from the paper: choices obey the field's rules (FieldMask), and places committed in one pass must fit together; one that
// does not stays masked. Without rules this is the paper's algorithm pass for pass.
#include <algorithm>

#include "decode/pass/field_mask.h"
#include "decode/schedule/commit_places.h"
#include "decode/schedule/known_keys.h"
#include "decode/schedule/schedule.h"
#include "lm/commit_sampler.h"

namespace slip {
namespace {

class Sections : BlockDiffusion {
 public:
  Sections(Scratch& scratch, const LmInfo& info, const Form& form, float threshold, CommitSampler* sampler, Decoded& answer)
      : BlockDiffusion(scratch.passes, info, threshold, sampler, answer), scratch_(scratch), form_(form) {
    x_.resize(static_cast<size_t>(form.length()));
    for (int32_t u = 0; u < form.length(); ++u) x_[static_cast<size_t>(u)] = form.fixed_at(u);
  }

  Status run() {
    choices_.reserve(x_.size());
    answer_.tokens.reserve(x_.size());
    field_mask_.reserve(form_);
    p_.prefill().defer(false);
    SLIP_TRY_(p_.run_prefill());
    KeysTeller keys(p_);
    SLIP_TRY_(keys.prompt(nullptr));
    for (const Block& b : form_.blocks()) {
      if (request_.options.trace) answer_.rounds.push_back({.block = b});
      if (request_.context.on_block && masks_in(b) > 0) SLIP_TRY_(look_into(b));
      while (masks_in(b) > 0) {
        SLIP_TRY_(pass(b));
        choose_all(b);
        if (sampler_) SLIP_TRY_(ask_sampler(b));
        commit();
        tell_fields(b);
      }
      if (b.end < form_.length()) SLIP_TRY_(settle(b));
      answer_.tokens.clear();
      for (int32_t u = 0; u < b.end; ++u) answer_.tokens.push_back(*x_[static_cast<size_t>(u)]);
      request_.progress(answer_.tokens);
    }
    for (size_t f = 0; f < form_.fields().size(); ++f)
      for (int32_t i = 0; i < form_.fields()[f].budget; ++i)
        answer_.fields[f].push_back(*x_[static_cast<size_t>(form_.fields()[f].start + i)]);
    answer_.statistics.forced_tokens = form_.fixed_tokens();
    return keys.whole(answer_.tokens, answer_.fields, request_.prompt_rows());
  }

 private:
  bool masked(int32_t u) const { return !x_[static_cast<size_t>(u)]; }
  int32_t masks_in(const Block& b) const {
    int32_t n = 0;
    for (int32_t u = b.begin; u < b.end; ++u) n += masked(u);
    return n;
  }

  /// With a shift, the block's first place is predicted by the row before the block, final by then: its logits are kept.
  bool from_kept_row(const Block& b, int32_t u) const { return info_.rule.shift && u == b.begin; }

  /// A pass over a block: what its rows see is the prompt and the answer to the block's end.
  PassBuilder::Sees begin_pass(const Block& b) {
    p_.begin();
    return p_.next().add_spans({}, {0, request_.prompt_rows() + b.end});
  }
  void add(TokenId token, int32_t u, PassBuilder::Sees sees, Want want) {
    p_.next().add_row(token, request_.prompt.next_position + u, request_.prompt_rows() + u, sees, want);
  }

  Status pass(const Block& b) {
    const auto sees = begin_pass(b);
    const int32_t shift = info_.rule.shift ? 1 : 0;
    for (int32_t u = b.begin; u < b.end; ++u) {
      const bool asked = u + shift < b.end && masked(u + shift);
      add(x_[static_cast<size_t>(u)].value_or(info_.rule.mask), u, sees, asked ? Want::kLogits : Want::kNothing);
    }
    return p_.run(PassKind::kDraft);
  }

  std::span<const std::optional<TokenId>> content(const Field& f) const {
    return std::span(x_).subspan(static_cast<size_t>(f.start), static_cast<size_t>(f.budget));
  }

  std::span<const float> logits_at(const Block& b, int32_t u) const {
    return from_kept_row(b, u) ? std::span<const float>(scratch_.kept_logits_V)
                               : p_.output().logits_V(static_cast<size_t>(u - b.begin - (info_.rule.shift ? 1 : 0)));
  }

  PlaceChoice choose(const Block& b, int32_t u) {
    const int32_t f = *form_.field_at(u), index = u - request_.field(f).start;
    const auto logits_V = logits_at(b, u);
    const Allowed allowed = field_mask_.at(index);
    const Place at{.field = f, .index = index};
    const Sampling s = chooser_.sampling_at(at);
    if (!s.plain()) {
      history_.clear();  // what is decided of the field before the place; masks are nothing
      for (const auto& x : content(request_.field(f)).first(static_cast<size_t>(index)))
        if (x) history_.push_back(*x);
    }
    return choose_at(u, logits_V, allowed, s, at);
  }

  Status ask_sampler(const Block& b) {
    block_.assign(static_cast<size_t>(b.end - b.begin), {});
    for (int32_t u = b.begin; u < b.end; ++u) {
      CommitPlace& place = block_[static_cast<size_t>(u - b.begin)];
      place.masked = masked(u);
      if (place.masked)
        describe_place(logits_at(b, u), chooser_.buffers(), place);
      else
        place.top[0] = *x_[static_cast<size_t>(u)];
    }
    return ask_sampler_for(b.begin);
  }

  void choose_all(const Block& b) {
    choices_.clear();
    std::optional<int32_t> last_field;
    for (int32_t u = b.begin; u < b.end; ++u) {
      if (!masked(u)) continue;
      const std::optional<int32_t> f = form_.field_at(u);
      if (f != last_field) field_mask_.update(request_.field(*f), content(request_.field(*f)));
      last_field = f;
      choices_.push_back(choose(b, u));
    }
  }

  /// DecodeContext::on_block asks what the model would say of this block; afterwards the block is as before.
  Status look_into(const Block& b) {
    const auto block = std::span(x_).subspan(static_cast<size_t>(b.begin), static_cast<size_t>(b.end - b.begin));
    const std::vector<std::optional<TokenId>> start(block.begin(), block.end());
    const auto ask = [&](std::span<const std::optional<TokenId>> asked, std::span<PlaceGuess> guesses) -> Status {
      std::copy(asked.begin(), asked.end(), block.begin());
      SLIP_TRY_(pass(b));
      choose_all(b);
      for (const PlaceChoice& c : choices_) guesses[static_cast<size_t>(c.place - b.begin)] = {c.token, c.confidence};
      return {};
    };
    const Status looked = request_.context.on_block(start, ask);
    std::copy(start.begin(), start.end(), block.begin());
    return looked;
  }

  /// Everything above the threshold, else the single best. A token that the field's rules refuse behind those decided just now waits.
  void commit() {
    if (request_.options.trace) trace_choices(answer_.rounds, choices_, 0, request_.last_pass());
    keep_confident(choices_, threshold_);
    for (const PlaceChoice& c : choices_) {
      const Field& f = request_.field(*form_.field_at(c.place));
      if (!f.rules.unrestricted()) {
        field_mask_.update(f, content(f));
        if (!field_mask_.allows(c.place - f.start, c.token)) continue;
      }
      x_[static_cast<size_t>(c.place)] = c.token;
      if (request_.options.trace) answer_.rounds.back().committed.push_back(c.place);
    }
  }

  /// Fields that begin or end in the block and whose places are all decided. A field without a mask in it was complete before.
  void tell_fields(const Block& b) {
    if (!request_.context.on_field) return;
    told_.resize(form_.fields().size());
    for (size_t f = 0; f < told_.size(); ++f) {
      const Field& x = form_.fields()[f];
      if (told_[f] || x.start >= b.end || x.start + x.budget <= b.begin) continue;
      const auto decided = content(x);
      if (!std::all_of(decided.begin(), decided.end(), [](const auto& place) { return place.has_value(); })) continue;
      told_[f] = 1;
      field_.clear();
      for (const auto& place : decided) field_.push_back(*place);
      request_.field_done(static_cast<int32_t>(f), field_);
    }
  }

  Status settle(const Block& b) {
    const auto sees = begin_pass(b);
    const bool keep = info_.rule.shift && masked(b.end);
    for (int32_t u = b.begin; u < b.end; ++u)
      add(*x_[static_cast<size_t>(u)], u, sees, keep && u + 1 == b.end ? Want::kLogits : Want::kNothing);
    SLIP_TRY_(p_.run(PassKind::kVerify));
    if (keep) {
      const auto logits_V = p_.output().logits_V(p_.next().rows() - 1);
      scratch_.kept_logits_V.assign(logits_V.begin(), logits_V.end());
    }
    return {};
  }

  Scratch& scratch_;
  const Form& form_;
  std::vector<TokenId> field_;
  std::vector<uint8_t> told_;  // by field: DecodeContext::on_field has heard of it
  FieldMask field_mask_;
};

}  // namespace

Status decode_sections(Scratch& scratch, const LmInfo& info, const Form& form, const Method& method, Decoded& answer) {
  for (const Field& f : form.fields())
    if (f.end) return unsupported("decode: expected fields of fixed size for section-diffusion, got '{}' with an end", f.name);
  SLIP_TRY_(scratch.passes.reserve(form.length()));
  const auto* confidence = std::get_if<ConfidenceSpec>(&method.verifier);
  const auto* sampler = std::get_if<SamplerSpec>(&method.verifier);
  if (!(confidence || sampler) || !std::holds_alternative<DiffusionSpec>(method.drafter))
    return unsupported("decode: expected drafter diffusion and verifier confidence or sampler for schedule sections, got {} and {}",
                       words_of(method).drafter, words_of(method).verifier);
  if (!sampler) return Sections(scratch, info, form, confidence->threshold, nullptr, answer).run();
  CommitSampler* network = scratch.passes.request().context.commit_sampler;
  int32_t widest = 0;
  for (const Block& b : form.blocks()) widest = std::max(widest, b.end - b.begin);
  SLIP_TRY_(check_commit_sampler(network, info, widest, "form " + form.name()));
  return Sections(scratch, info, form, sampler->threshold.value_or(network->info().threshold), network, answer).run();
}

}  // namespace slip
