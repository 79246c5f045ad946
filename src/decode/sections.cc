// SPDX-License-Identifier: Apache-2.0
// Block diffusion over the sections of a form [Fast-dDrive, section diffusion]. Lossy: what is committed depends on the threshold.
//
//   s, e  the block          x  the answer, masks where undecided
// Prompt causal; an answer row sees the prompt and all answer rows of its own and of earlier blocks. Per block, until no mask is
// left: the choice and its softmax probability for every masked place, from the row before it (shift) or its own; commit all above
// the threshold, else the single best (lowest place on ties). Then one pass over the finished block, whose keys stay.
// Test: SectionDiffusion.GivesAnswersThatTheFormAllows; pass for pass against the reference in tests/decode_fixtures_test.cc.
// Differs from the paper: choices obey the field's rules (Gates), and places committed in one pass must fit together; one that
// does not stays masked. Without rules this is the paper's algorithm pass for pass.
#include "decode/gates.h"
#include "decode/methods.h"

namespace slip {
namespace {

class Sections {
 public:
  Sections(Work& work, const LmInfo& info, const Form& form, float threshold, Decoded& answer)
      : work_(work),
        p_(work.passes),
        info_(info),
        form_(form),
        threshold_(threshold),
        answer_(answer),
        x_(static_cast<size_t>(form.length())) {
    for (int32_t u = 0; u < form.length(); ++u) x_[static_cast<size_t>(u)] = form.fixed_at(u);
  }

  Status run() {
    choices_.reserve(x_.size());
    answer_.tokens.reserve(x_.size());
    gates_.reserve(form_);
    SLIP_TRY_(p_.prefill(Want::kNothing));
    for (const Block& b : form_.blocks()) {
      if (p_.options().trace) answer_.rounds.push_back({.block = b});
      while (masks_in(b) > 0) {
        SLIP_TRY_(pass(b));
        commit(b);
      }
      if (b.end < form_.length()) SLIP_TRY_(settle(b));
      answer_.tokens.clear();
      for (int32_t u = 0; u < b.end; ++u) answer_.tokens.push_back(*x_[static_cast<size_t>(u)]);
      p_.progress(answer_.tokens);
    }
    for (size_t f = 0; f < form_.fields().size(); ++f)
      for (int32_t i = 0; i < form_.fields()[f].budget; ++i)
        answer_.fields[f].push_back(*x_[static_cast<size_t>(form_.fields()[f].start + i)]);
    answer_.statistics.forced_tokens = form_.fixed_tokens();
    return {};
  }

 private:
  struct Choice {
    int32_t place;
    TokenId token;
    double confidence;
  };

  bool masked(int32_t u) const { return !x_[static_cast<size_t>(u)]; }
  int32_t masks_in(const Block& b) const {
    int32_t n = 0;
    for (int32_t u = b.begin; u < b.end; ++u) n += masked(u);
    return n;
  }

  /// With a shift, the block's first place is predicted by the row before the block, final by then: its logits are kept.
  bool from_kept_row(const Block& b, int32_t u) const { return info_.rule.shift && u == b.begin; }

  Status pass(const Block& b) {
    p_.clear();
    const int32_t shift = info_.rule.shift ? 1 : 0;
    for (int32_t u = b.begin; u < b.end; ++u) {
      const bool asked = u + shift < b.end && masked(u + shift);
      p_.add(x_[static_cast<size_t>(u)].value_or(info_.rule.mask), u, b.end, asked ? Want::kLogits : Want::kNothing);
    }
    return p_.run(PassKind::kDraft);
  }

  std::span<const std::optional<TokenId>> content(const Field& f) const {
    return std::span(x_).subspan(static_cast<size_t>(f.start), static_cast<size_t>(f.budget));
  }

  Choice choose(const Block& b, int32_t u) {
    const int32_t f = form_.field_at(u), index = u - p_.field(f).start;
    const auto logits_V = from_kept_row(b, u) ? std::span<const float>(work_.kept_logits_V)
                                              : p_.logits_V(static_cast<size_t>(u - b.begin - (info_.rule.shift ? 1 : 0)));
    const Allowed allowed = gates_.at(index);
    const float t = p_.temperature_of(p_.field(f).section);
    const DrawKey key{p_.options().request, static_cast<uint32_t>(f), static_cast<uint32_t>(index), Purpose::kToken};
    const TokenId token =
        t == 0 ? greedy_choice(logits_V, allowed) : keyed_draw(logits_V, allowed, t, keyed_uniform(p_.options().seed, key));
    return {u, token, probability_of(logits_V, allowed, token)};
  }

  void commit(const Block& b) {
    choices_.clear();
    int32_t last_field = -1;
    for (int32_t u = b.begin; u < b.end; ++u) {
      if (!masked(u)) continue;
      const int32_t f = form_.field_at(u);
      if (f != last_field) gates_.update(p_.field(f), content(p_.field(f)));
      last_field = f;
      choices_.push_back(choose(b, u));
    }
    size_t best = 0;
    bool above = false;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (choices_[i].confidence > choices_[best].confidence) best = i;
      above |= choices_[i].confidence > threshold_;
    }
    trace_begin();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& c = choices_[i];
      if (above ? !(c.confidence > threshold_) : i != best) continue;
      const Field& f = p_.field(form_.field_at(c.place));
      if (!f.rules.unrestricted()) {
        gates_.update(f, content(f));
        if (!gates_.allows(c.place - f.start, c.token)) continue;
      }
      x_[static_cast<size_t>(c.place)] = c.token;
      if (p_.options().trace) answer_.rounds.back().committed.push_back(c.place);
    }
  }

  /// One round per pass; the round that `run` opened for the block takes the first.
  void trace_begin() {
    if (!p_.options().trace) return;
    if (!answer_.rounds.back().positions.empty()) answer_.rounds.push_back({.block = answer_.rounds.back().block});
    Round& r = answer_.rounds.back();
    for (const Choice& c : choices_) {
      r.positions.push_back(c.place);
      r.draft.push_back(c.token);
      r.confidence.push_back(c.confidence);
    }
  }

  Status settle(const Block& b) {
    p_.clear();
    const bool keep = info_.rule.shift && masked(b.end);
    for (int32_t u = b.begin; u < b.end; ++u)
      p_.add(*x_[static_cast<size_t>(u)], u, b.end, keep && u + 1 == b.end ? Want::kLogits : Want::kNothing);
    SLIP_TRY_(p_.run(PassKind::kVerify));
    if (keep) {
      const auto logits_V = p_.logits_V(p_.rows() - 1);
      work_.kept_logits_V.assign(logits_V.begin(), logits_V.end());
    }
    return {};
  }

  Work& work_;
  Passes& p_;
  const LmInfo& info_;
  const Form& form_;
  float threshold_;
  Decoded& answer_;
  std::vector<std::optional<TokenId>> x_;
  std::vector<Choice> choices_;
  Gates gates_;
};

}  // namespace

Status decode_sections(Work& work, const LmInfo& info, const Form& form, const ConfidenceVerifier& verifier, Decoded& answer) {
  for (const Field& f : form.fields())
    if (f.end) return unsupported("decode: expected fields of fixed size for section-diffusion, got '{}' with an end", f.name);
  SLIP_TRY_(work.passes.reserve(form.length()));
  return Sections(work, info, form, verifier.threshold, answer).run();
}

}  // namespace slip
