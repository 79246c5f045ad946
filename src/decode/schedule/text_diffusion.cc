// SPDX-License-Identifier: Apache-2.0
// Block diffusion over free text [Nemotron-Labs-Diffusion, section 3; docs/notes/block-diffusion.md]. Lossy: what is committed depends on the
// threshold, and a token is drawn before its neighbours are known.
//
//   B     rows of a block (width fixed:B)     x     the block, masks where undecided     theta   the threshold
// Prompt causal. The first token of a block is the model's next token, from the row before it. A pass over the block, whose rows see the
// text before it and the whole block both ways, gives every mask's choice and probability; all above theta are committed, else the single
// best (lowest place on ties). When no mask is left one causal pass over the block writes the keys that stay and gives the next block's first
// token (causal refresh). The text ends with the first end token that has no mask before it, whatever is masked behind it.
// Differs from the released loop: it counts the end only between blocks; a commit sampler may stand in the confidence's place (sections.cc).
// Tests: TextDiffusion.*
#include <algorithm>
#include <cmath>
#include <optional>

#include "decode/schedule/commit_places.h"
#include "decode/schedule/schedule.h"
#include "lm/commit_sampler.h"

namespace slip {
namespace {

class TextBlocks : BlockDiffusion {
 public:
  TextBlocks(Scratch& scratch, const LmInfo& info, int32_t width, float threshold, CommitSampler* sampler, Decoded& answer)
      : BlockDiffusion(scratch.passes, info, threshold, sampler, answer), width_(width) {}

  Status run() {
    p_.prefill().defer(true);
    p_.begin();
    p_.next().want(p_.prefill().last_row(), Want::kLogits);
    SLIP_TRY_(p_.run(PassKind::kPrefill));
    TokenId next = choose(p_.output().logits_V(p_.prefill().last_row()), 0, 0).token;
    while (true) {
      const auto begin = static_cast<int32_t>(answer_.tokens.size());
      x_.assign(static_cast<size_t>(std::min(width_, request_.options.limit - begin)), std::nullopt);
      x_[0] = next;
      if (request_.options.trace) answer_.rounds.push_back({.block = {begin, begin + size()}});
      while (!ended() && masks() > 0) {
        SLIP_TRY_(pass(begin));
        choose_all(begin);
        if (sampler_) SLIP_TRY_(ask_sampler());
        commit(begin);
      }
      const bool last = take();
      request_.progress(answer_.tokens);
      if (last) return {};
      SLIP_TRY_(refresh(begin));
      next = choose(p_.output().logits_V(p_.next().rows() - 1), 0, begin + size()).token;
    }
  }

 private:
  int32_t size() const { return static_cast<int32_t>(x_.size()); }
  int64_t masks() const { return std::count(x_.begin(), x_.end(), std::nullopt); }
  bool ends(TokenId id) const {
    const auto& e = request_.options.end_tokens;
    return std::find(e.begin(), e.end(), id) != e.end();
  }
  /// An end token with no mask before it.
  bool ended() const {
    for (const auto& token : x_) {
      if (!token) return false;
      if (ends(*token)) return true;
    }
    return false;
  }

  /// The row that predicts place u: its own, or with a shift the one before it; place 0 is never masked.
  size_t row_of(int32_t u) const { return static_cast<size_t>(u - (info_.rule.shift ? 1 : 0)); }

  void add(TokenId token, int32_t i, PassBuilder::Sees sees, Want want) {
    p_.next().add_row(token, request_.prompt.next_position + i, request_.prompt_rows() + i, sees, want);
  }

  Status pass(int32_t begin) {
    p_.begin();
    const auto sees = p_.next().add_spans({}, {0, request_.prompt_rows() + begin + size()});
    const int32_t shift = info_.rule.shift ? 1 : 0;
    for (int32_t u = 0; u < size(); ++u) {
      const bool asked = u + shift < size() && !x_[static_cast<size_t>(u + shift)];
      add(x_[static_cast<size_t>(u)].value_or(info_.rule.mask), begin + u, sees, asked ? Want::kLogits : Want::kNothing);
    }
    return p_.run(PassKind::kDraft);
  }

  Status refresh(int32_t begin) {
    p_.begin();
    for (int32_t u = 0; u < size(); ++u)
      add(*x_[static_cast<size_t>(u)], begin + u, p_.next().add_spans({}, {0, request_.prompt_rows() + begin + u + 1}),
          u + 1 == size() ? Want::kLogits : Want::kNothing);
    return p_.run(PassKind::kVerify);
  }

  /// `u`: the place in the block; `index`: number of the token in the text.
  PlaceChoice choose(std::span<const float> logits_V, int32_t u, int32_t index) {
    const Place place{.index = index};
    const Allowed allowed = chooser_.allowed_at(place);
    const Sampling s = chooser_.sampling_at(place);
    if (!s.plain()) {
      history_ = answer_.tokens;  // what stands before the place without a mask between
      for (const auto& x : x_)
        if (x && static_cast<int32_t>(history_.size()) < index)
          history_.push_back(*x);
        else
          break;
    }
    return choose_at(u, logits_V, allowed, s, place);
  }

  void choose_all(int32_t begin) {
    choices_.clear();
    for (int32_t u = 0; u < size(); ++u) {
      if (x_[static_cast<size_t>(u)]) continue;
      choices_.push_back(choose(p_.output().logits_V(row_of(u)), u, begin + u));
    }
  }

  Status ask_sampler() {
    block_.assign(x_.size(), {});
    for (int32_t u = 0; u < size(); ++u) {
      const auto i = static_cast<size_t>(u);
      block_[i].masked = !x_[i];
      if (x_[i])
        block_[i].top[0] = *x_[i];
      else
        describe_place(p_.output().logits_V(row_of(u)), chooser_.buffers(), block_[i]);
    }
    return ask_sampler_for(0);
  }

  /// Everything above the threshold, else the single best.
  void commit(int32_t begin) {
    if (request_.options.trace) trace_choices(answer_.rounds, choices_, begin, request_.last_pass());
    keep_confident(choices_, threshold_);
    for (const PlaceChoice& c : choices_) {
      x_[static_cast<size_t>(c.place)] = c.token;
      if (request_.options.trace) answer_.rounds.back().committed.push_back(begin + c.place);
    }
  }

  /// Moves the block into the answer, up to the first end token; true when the text is complete.
  bool take() {
    for (const auto& token : x_) {
      answer_.tokens.push_back(*token);
      if (ends(*token)) return true;
    }
    return static_cast<int32_t>(answer_.tokens.size()) >= request_.options.limit;
  }

  int32_t width_;
};

}  // namespace

Status decode_text_blocks(Scratch& scratch, const LmInfo& info, const Method& method, Decoded& answer) {
  const int32_t width = method.draft_length.tokens;
  SLIP_TRY_(scratch.passes.reserve(int64_t{scratch.passes.request().options.limit} + width));
  const auto* sampler = std::get_if<SamplerSpec>(&method.verifier);
  if (!sampler) return TextBlocks(scratch, info, width, std::get<ConfidenceSpec>(method.verifier).threshold, nullptr, answer).run();
  CommitSampler* network = scratch.passes.request().context.commit_sampler;
  SLIP_TRY_(check_commit_sampler(network, info, width, "free text"));
  return TextBlocks(scratch, info, width, sampler->threshold.value_or(network->info().threshold), network, answer).run();
}

}  // namespace slip
