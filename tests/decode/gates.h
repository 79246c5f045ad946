// SPDX-License-Identifier: Apache-2.0
// For the release gates (docs/gates.md): every way of decoding that is exact (path x drafter x width x activation x row cap) over the
// random models and forms of decode/testing/random_testing.h, beside its reference, one answer and one token at a time.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/testing/draft_model_testing.h"
#include "decode/testing/keeping_lm_testing.h"
#include "decode/testing/random_testing.h"
#include "lm/draft_head.h"

namespace slip::test {

/// Free text; a form read as text (forced), on its chain; along its graph, all ready fields or one after another.
enum class Path { kText, kForced, kChain, kFields, kOneByOne };
enum class Drafts { kNone, kDiffusion, kQuadratic, kLookup, kPrevious, kModel, kHead, kAhead, kPreviousAhead, kPreviousDiffusion };

/// Masks behind the verifying pass's rows: along a graph alone.
inline bool is_ahead(Drafts d) { return d == Drafts::kAhead || d == Drafts::kPreviousAhead; }

/// Starts from an earlier answer.
inline bool is_previous(Drafts d) {
  return d == Drafts::kPrevious || d == Drafts::kPreviousAhead || d == Drafts::kPreviousDiffusion;
}

inline bool of_graph(Path p) { return p == Path::kFields || p == Path::kOneByOne; }

struct Way {
  Path path = Path::kText;
  Drafts drafts = Drafts::kNone;
  DraftLengthSpec draft_length;
  bool activation = true;
  int32_t most_rows = 0;
  int32_t rollouts = 1;
  bool log_forced = false;
};

inline std::string name_of(const Way& w) {
  constexpr const char* paths[] = {"text", "forced", "chain", "fields", "one-by-one"};
  constexpr const char* drafts[] = {"none",
                                    "diffusion",
                                    "quadratic",
                                    "lookup",
                                    "previous",
                                    "model",
                                    "head",
                                    "ahead",
                                    "previous, then ahead",
                                    "previous, then diffusion"};
  return std::string(paths[static_cast<int>(w.path)]) + " x " + drafts[static_cast<int>(w.drafts)] + " x width " +
         std::to_string(static_cast<int>(w.draft_length.kind)) + ":" + std::to_string(w.draft_length.tokens) +
         (w.activation ? "" : ", no activation") + ", rows " + std::to_string(w.most_rows) + ", rollouts " +
         std::to_string(w.rollouts);
}

/// Path x drafter: all that is exact. Masks ahead need a graph.
inline std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const Path p : {Path::kText, Path::kForced, Path::kChain, Path::kFields, Path::kOneByOne})
    for (int d = 0; d <= static_cast<int>(Drafts::kPreviousDiffusion); ++d) {
      const auto drafts = static_cast<Drafts>(d);
      if (of_graph(p) || !is_ahead(drafts)) ways.push_back({.path = p, .drafts = drafts});
    }
  return ways;
}

inline void vary(Way& w, PhiloxStream& r) {
  w.draft_length = {DraftLengthSpec::Kind::kFixed, static_cast<int32_t>(1 + r.below(9)), {}};
  if (w.drafts == Drafts::kDiffusion || w.drafts == Drafts::kPreviousDiffusion || is_ahead(w.drafts)) w.draft_length.tokens += 1;
  if (w.drafts == Drafts::kQuadratic) w.draft_length.tokens = std::min(w.draft_length.tokens, 5);
  const bool measured = w.drafts != Drafts::kNone && w.drafts != Drafts::kQuadratic && r.chance(0.2);
  if (measured) w.draft_length.kind = DraftLengthSpec::Kind::kMeasured;
  if (w.path == Path::kChain && w.drafts == Drafts::kDiffusion && r.chance(0.4))
    w.draft_length.kind = DraftLengthSpec::Kind::kBlocks;
  w.activation = r.chance(0.7);
  w.most_rows = w.path == Path::kFields && r.chance(0.25) ? static_cast<int32_t>(1 + r.below(30)) : 0;
  w.rollouts = r.chance(0.25) ? static_cast<int32_t>(2 + r.below(4)) : 1;
  w.log_forced = r.chance(0.1);
}

inline Method method_of_way(const Way& w) {
  Method m{.preset = "test", .drafter = NoDraftSpec{}, .verifier = ExactSpec{}, .draft_length = w.draft_length};
  m.schedule = w.path == Path::kText || w.path == Path::kForced ? Schedule::kText
               : w.path == Path::kFields                        ? Schedule::kFields
                                                                : Schedule::kChain;
  const DiffusionSpec ahead{.ahead = true};
  const std::array<DrafterSpec, 10> all = {NoDraftSpec{},
                                           DiffusionSpec{},
                                           QuadraticSpec{},
                                           LookupSpec{2},
                                           PreviousSpec{"test"},
                                           ModelSpec{"test"},
                                           DFlashSpec{"test"},
                                           ahead,
                                           PreviousSpec{"test", ahead},
                                           PreviousSpec{"test", DiffusionSpec{}}};
  m.drafter = all[static_cast<size_t>(w.drafts)];
  return m;
}

/// A draft head that knows what the model of hashes does by position alone.
class HintHead : public DraftHead {
 public:
  HintHead(const HashLm& target, int32_t block) : target_(target) {
    info_ = {.name = "hint",
             .block = block,
             .tap_layers = {1, 4},
             .taps_width = 4,
             .vocab = target.info().vocab,
             .mask = TokenId{1},
             .context_slots = target.info().slots,
             .block_slots = 16 * block};
  }
  const DraftHeadInfo& info() const override { return info_; }
  std::function<void(const Pass&)> look = [](const Pass&) {};
  Status store(std::span<const int32_t>, std::span<const int32_t>, std::span<const float>) override { return {}; }
  Status forward(const Pass& pass, PassOutput& out) override {
    look(pass);
    out.vocab = info_.vocab;
    out.argmax.clear();
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      std::vector<float> logits;
      for (int32_t id = 0; id < info_.vocab; ++id) logits.push_back(target_.guess(pass.rows[i].position.t, id));
      out.argmax.push_back({static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())});
      if (!brings_logits(pass.rows[i].want)) continue;
      out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size()) / info_.vocab;
      out.logits_NV.insert(out.logits_NV.end(), logits.begin(), logits.end());
    }
    return {};
  }

 private:
  const HashLm& target_;
  DraftHeadInfo info_;
};

/// A trial, its references, and what its drafters need.
class Bench {
 public:
  explicit Bench(Trial trial) : t(std::move(trial)) {}
  Trial t;

  DecodeOptions options(const Way& w) const {
    DecodeOptions o = t.options;
    o.visibility = of_graph(w.path) ? Visibility::kGraph : Visibility::kChain;
    o.forced = w.path == Path::kForced;
    o.activation = w.activation;
    o.most_rows = w.most_rows;
    o.log_forced = w.log_forced;
    return o;
  }
  const Form* form(const Way& w) const { return w.path == Path::kText ? nullptr : &t.form; }

  /// The reference: answer r alone, a token a pass, fields one after another.
  const Decoded& slow(const Way& w, int32_t r) {
    return slow(w, r, t.lm, kept_[w.path == Path::kText ? 0 : of_graph(w.path) ? 2 : 1]);
  }

  /// With `lm` in place of the trial's own model; `previous` as it was, or spoilt by `r`.
  Result<std::vector<Decoded>> run(const Way& w, Lm& lm, HashLm& hashes, PhiloxStream& r) {
    const DecodeOptions o = options(w);
    DecodeContext context;
    PreviousAnswer previous{.form = t.form.name(), .fields = {}, .tokens = {}};
    HashLm::Options other = t.lm;
    if (r.chance(0.5)) other.seed += 1000;
    HashLm second(other);
    DraftModel draft = draft_model_of_same_ids(second, t.prompt);
    HintHead head(hashes, static_cast<int32_t>(2 + r.below(8)));
    head.look = look_at_head;
    DraftLengthModel model;
    if (is_previous(w.drafts)) {
      previous = spoilt(slow(w, 0), r);
      context.previous = &previous;
    }
    if (w.drafts == Drafts::kModel) {
      draft.to_draft.set({7}, std::nullopt);
      draft.to_target.set({7}, std::nullopt);
      context.draft_model = &draft;
    }
    if (w.drafts == Drafts::kHead) context.draft_head = &head;
    if (w.draft_length.kind == DraftLengthSpec::Kind::kMeasured) {
      model = DraftLengthModel::uninformed(*CostTable::make({1, 4, 16, 64}, {1.0, 1.0 + r.uniform(), 3.0, 9.0}, "test"), form(w));
      context.draft_length_model = &model;
    }
    std::vector<std::optional<std::vector<TokenId>>> told(form(w) ? t.form.fields().size() : 0);
    context.on_field = [&](int32_t field, std::span<const TokenId> content, int64_t) {
      auto& of = told.at(static_cast<size_t>(field));
      EXPECT_FALSE(of) << "field " << field << " was told before";
      of.emplace(content.begin(), content.end());
    };
    auto d = Decoder(lm, method_of_way(w)).rollouts(t.prompt, form(w), o, w.rollouts, context);
    for (size_t f = 0; d && f < told.size(); ++f) EXPECT_EQ(told[f], d->front().fields[f]) << "field " << f;
    return d;
  }
  std::function<void(const Pass&)> look_at_head = [](const Pass&) {};

  /// An earlier answer that is right here and there.
  PreviousAnswer spoilt(const Decoded& truth, PhiloxStream& r) const {
    PreviousAnswer p{.form = t.form.name(), .fields = truth.fields, .tokens = truth.tokens};
    const double wrong = r.chance(0.3) ? 0 : r.uniform(0, 0.6);
    for (auto& f : p.fields) {
      for (TokenId& id : f)
        if (r.chance(wrong)) id = random_id(r);
      if (r.chance(wrong / 2)) f.resize(f.size() / 2);
    }
    for (TokenId& id : p.tokens)
      if (r.chance(wrong)) id = random_id(r);
    return p;
  }

  Decoded alone(const Way& w, int32_t r, const HashLm::Options& lm) const {
    Way slow_way{.path = w.path == Path::kFields ? Path::kOneByOne : w.path == Path::kForced ? Path::kChain : w.path};
    DecodeOptions o = options(slow_way);
    o.request += static_cast<uint32_t>(r);
    HashLm model(lm);
    auto d = Decoder(model, method_of_way(slow_way)).decode(t.prompt, form(w), o);
    if (!d) throw std::runtime_error(d.error().message);
    return std::move(*d);
  }

 private:
  const Decoded& slow(const Way& w, int32_t r, const HashLm::Options& lm, std::vector<Decoded>& kept) {
    while (static_cast<int32_t>(kept.size()) <= r) kept.push_back(alone(w, static_cast<int32_t>(kept.size()), lm));
    return kept[static_cast<size_t>(r)];
  }
  std::array<std::vector<Decoded>, 3> kept_;
};

/// Settings beside the temperature, in a third of the trials.
inline Trial trial_with_settings(uint64_t n) {
  Trial t = random_trial(n);
  PhiloxStream r(n, 21);
  if (!r.chance(0.33)) return t;
  if (r.chance(0.5)) t.options.sampling.top_k = static_cast<int32_t>(1 + r.below(12));
  if (r.chance(0.5)) t.options.sampling.top_p = static_cast<float>(r.uniform(0.3, 1));
  if (r.chance(0.5)) t.options.sampling.min_p = static_cast<float>(r.uniform(0, 0.3));
  if (r.chance(0.5)) t.options.sampling.repetition = static_cast<float>(r.uniform(0.8, 1.6));
  return t;
}

/// Hands passes on, changed or looked at.
class WatchedLm : public Lm {
 public:
  explicit WatchedLm(Lm& lm) : lm_(lm) {}
  const LmInfo& info() const override { return lm_.info(); }
  Status set_taps(std::span<const int32_t> layers) override { return lm_.set_taps(layers); }
  std::function<void(const Pass&)> before = [](const Pass&) {};
  std::function<void(const Pass&, PassOutput&)> after = [](const Pass&, PassOutput&) {};
  Status forward(const Pass& pass, PassOutput& out) override {
    before(pass);
    SLIP_TRY_(lm_.forward(pass, out));
    after(pass, out);
    return {};
  }

 protected:
  Lm& lm_;
};

inline int64_t count_from(const char* variable, int64_t usual) {
  const char* asked = std::getenv(variable);
  return asked ? std::atoll(asked) : usual;
}

}  // namespace slip::test
