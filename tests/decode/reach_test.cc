// SPDX-License-Identifier: Apache-2.0
// Two policies in the world of sim/reach/reach.h, one drafting for the other through the decoders: what relaxing a verifier by some bins does to drafts, to
// passes and to success. The loop is that of the robot papers [Speculative decoding for VLAs, 3.3.2, 4.4]; the models are scripts, so that
// acceptance and success are measured and times are counted passes. SLIP_REACH_EPISODES=N prints the table of docs/lab/0017.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "base/philox.h"
#include "decode/decoder.h"
#include "decode/testing/draft_model_testing.h"
#include "limits/speculation_algebra.h"
#include "plan/action_bins.h"
#include "sim/reach/reach.h"

namespace slip::test {
namespace {

using sim::ArmStep, sim::Reach, sim::ReachEnd, sim::kArmNumbers;

constexpr int32_t kBins = ActionBins::kBins, kBreak = kBins, kVocab = kBins + 2, kPromptTokens = 3;
const ActionBins kCodes(kBins);  // ids 0 .. 255

/// How far off a policy sees: the reaches of a sum of three uniform numbers, which is near enough to a normal one here.
struct Blur {
  double place_m = 0, turn_rad = 0, tool_m = 0, tilt_rad = 0;
};
ArmStep policy(const Reach& world, const Blur& blur, uint64_t seed, uint64_t who) {
  PhiloxStream g(seed, 0x51D0 + 1000 * who + static_cast<uint64_t>(world.steps()));
  const auto noise = [&](double deviation) {
    const double a = g.uniform(-1, 1), b = g.uniform(-1, 1), c = g.uniform(-1, 1);
    return deviation * (a + b + c);
  };
  sim::ArmSight s = world.sight();
  s.ahead_m += noise(blur.place_m), s.left_m += noise(blur.place_m), s.turn_rad += noise(blur.turn_rad);
  s.height_m += noise(blur.tool_m), s.roll_rad += noise(blur.tilt_rad), s.pitch_rad += noise(blur.tilt_rad);
  return sim::arm_expert(s);
}

/// Behind the wait.
Reach at_rest(uint64_t seed) {
  Reach world(seed);
  while (world.waits()) world.step(sim::kArmStays);
  return world;
}

constexpr Blur kTarget{0.0005, 0.005, 0.0005, 0.0005}, kDraft{0.008, 0.06, 0.004, 0.004};
// OpenVLA's and MiniVLA's prefill and step on an H100 NVL by the report's table 5 (src/limits gives the same): c = 0.074.
constexpr ActionTimes kReport{
    .target_prefill_ms = 3.915, .target_step_ms = 3.145, .draft_prefill_ms = 0.413, .draft_step_ms = 0.233};
constexpr double kReportsCost = kReport.draft_step_ms / kReport.target_step_ms;

/// Says what its policy wants, whatever was said before: logits fall with the distance in bins.
class PolicyLm : public Lm {
 public:
  PolicyLm() {
    info_.name = "policy";
    info_.vocab = kVocab;
    info_.slots = 64;
    info_.hidden_size = 1;
  }
  const LmInfo& info() const override { return info_; }
  void want(const ArmStep& a) {
    for (size_t i = 0; i < a.size(); ++i) bins_[i] = kCodes.encode(a[i]).value;
  }
  Status forward(const Pass& pass, PassOutput& out) override {
    out.vocab = kVocab;
    out.argmax.assign(pass.rows.size(), TokenId{-1});
    out.logits_row.assign(pass.rows.size(), -1);
    out.logits_NV.clear();
    out.statistics.clear();
    out.taps_NE.clear();
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& r = pass.rows[i];
      if (r.want == Want::kNothing) continue;
      const auto number = std::clamp(r.position.t - kPromptTokens, 0, kArmNumbers - 1);
      std::vector<float> logits_V(kVocab, -100.0F);
      for (int32_t id = 0; id < kBins; ++id)
        logits_V[static_cast<size_t>(id)] = -0.1F * static_cast<float>(std::abs(id - bins_[static_cast<size_t>(number)]));
      answer_row(pass, i, logits_V, out);
      if (!brings_logits(r.want)) continue;
      out.logits_row[i] = static_cast<int32_t>(out.logits_NV.size()) / kVocab;
      out.logits_NV.insert(out.logits_NV.end(), logits_V.begin(), logits_V.end());
    }
    return {};
  }

 private:
  LmInfo info_;
  std::array<int32_t, kArmNumbers> bins_{};
};

Form action_form() {
  Form::Parts p;
  p.name = "action";
  p.pieces = {FixedRun{{{kBreak}}, 0}, FieldRef{0}};
  std::vector<TokenId> ids;
  for (int32_t id = 0; id < kBins; ++id) ids.push_back({id});
  p.fields.push_back({.name = "action", .budget = kArmNumbers, .rules = TokenRules::only(std::move(ids))});
  p.section_names = {"action"};
  return *Form::make(std::move(p));
}

Prompt prompt() {
  Prompt p;
  for (int32_t i = 0; i < kPromptTokens; ++i) {
    p.inputs.emplace_back(TokenId{kBreak + 1});
    p.positions.push_back(Position::text(i));
  }
  p.next_position = kPromptTokens;
  return p;
}

struct Setting {
  int32_t drafts = 0;   // a round; 0: one token a pass
  int32_t radius = -1;  // bins; below 0: exact
};

struct Sum {
  int64_t episodes = 0, successes = 0, actions = 0, passes = 0, draft_steps = 0, tested = 0, accepted = 0;
  std::map<std::string_view, int> outcomes;
  double alpha() const { return static_cast<double>(accepted) / static_cast<double>(std::max<int64_t>(tested, 1)); }
  double success() const { return static_cast<double>(successes) / static_cast<double>(episodes); }
  /// One token a pass over what was paid, in the report's times. `passes_a_round`: behind the prompt's own; the report's code takes two.
  double speed(int passes_a_round) const {
    const auto each = [&](int64_t n) { return static_cast<double>(n) / static_cast<double>(actions); };
    const double ms = kReport.target_prefill_ms + kReport.draft_prefill_ms +
                      passes_a_round * (each(passes) - 1) * kReport.target_step_ms + each(draft_steps) * kReport.draft_step_ms;
    return plain_action_ms(kReport, kArmNumbers) / ms;
  }
};

class Loop {
 public:
  Sum run(const Setting& s, int episodes) {
    Sum sum;
    Method m = *method_of(s.drafts > 0 ? "draft-model" : "ar");
    m.schedule = Schedule::kChain;
    if (s.drafts > 0) m.draft_length = {.tokens = s.drafts, .name = {}};
    if (s.radius >= 0) m.verifier = RelaxedSpec{.radius = s.radius, .first = {0}, .end = {kBins}, .radius_of_field = {}};
    Decoder decoder(target_, m);
    for (int e = 0; e < episodes; ++e) {
      const ReachEnd end = episode(decoder, 5000 + static_cast<uint64_t>(e), sum);
      ++sum.episodes;
      sum.successes += end == ReachEnd::kSuccess;
      ++sum.outcomes[sim::words(end)];
    }
    return sum;
  }

 private:
  ReachEnd episode(Decoder& decoder, uint64_t seed, Sum& sum) {
    Reach world = at_rest(seed);
    for (;;) {
      target_.want(policy(world, kTarget, seed, 0));
      draft_.want(policy(world, kDraft, seed, 1));
      DecodeContext context;
      context.draft_model = &draft_model_;
      const auto d = decoder.decode(prompt_, &form_, {}, context);
      if (!d) throw std::runtime_error(d.error().message);
      const Statistics& n = d->statistics;
      ++sum.actions;
      sum.passes += n.forwards, sum.draft_steps += n.drafter_forwards;
      sum.tested += n.tested, sum.accepted += n.accepted;
      ArmStep a{};
      for (size_t i = 0; i < a.size(); ++i) a[i] = kCodes.decode(d->fields.at(0).at(i)).action;
      const ReachEnd o = world.step(a);
      if (o != ReachEnd::kGoesOn) return o;
    }
  }

  PolicyLm target_, draft_;
  Prompt prompt_ = prompt();
  Form form_ = action_form();
  DraftModel draft_model_ = draft_model_of_same_ids(draft_, prompt_);
};

TEST(Reach, ThePolicyGraspsAndTheDraftersOwnDoesNot) {
  int good = 0, coarse = 0;
  for (uint64_t seed = 5000; seed < 5040; ++seed) {
    for (const auto& [sight, count] : {std::pair{kTarget, &good}, {kDraft, &coarse}}) {
      Reach world = at_rest(seed);
      ReachEnd o = ReachEnd::kGoesOn;
      while (o == ReachEnd::kGoesOn) o = world.step(policy(world, sight, seed, 0));
      *count += o == ReachEnd::kSuccess;
    }
  }
  EXPECT_GE(good, 38);
  EXPECT_LT(coarse, good);
}

TEST(Reach, ExactDraftsChangeNothingAndRelaxingBuysPassesWithSuccess) {
  Loop loop;
  constexpr int kEpisodes = 40;
  const Sum plain = loop.run({}, kEpisodes), exact = loop.run({.drafts = 4}, kEpisodes),
            near = loop.run({.drafts = 4, .radius = 4}, kEpisodes), far = loop.run({.drafts = 4, .radius = 64}, kEpisodes);
  EXPECT_EQ(plain.outcomes, exact.outcomes);
  EXPECT_EQ(plain.actions, exact.actions);
  EXPECT_EQ(plain.passes, kArmNumbers * plain.actions);
  EXPECT_LT(exact.passes, plain.passes);
  EXPECT_GT(near.alpha(), exact.alpha());
  EXPECT_GT(far.alpha(), near.alpha());
  EXPECT_LT(static_cast<double>(near.passes) / static_cast<double>(near.actions),
            static_cast<double>(exact.passes) / static_cast<double>(exact.actions));
  EXPECT_LT(far.success(), plain.success());
}

TEST(ReachTable, OfRadiusAndDrafts) {
  const char* wanted = std::getenv("SLIP_REACH_EPISODES");
  if (!wanted) GTEST_SKIP() << "SLIP_REACH_EPISODES=N prints it";
  Loop loop;
  const int episodes = std::max(1, std::atoi(wanted));
  fmt::print("drafts,radius_bins,success,actions,passes,draft_steps,alpha,formula,speed,speed_two_passes,why_not\n");
  for (const int32_t drafts : {0, 1, 2, 4, 6})
    for (const int32_t radius : {-1, 1, 2, 4, 8, 16, 32, 64}) {
      if (drafts == 0 && radius >= 0) continue;
      const Sum s = loop.run({drafts, radius}, episodes);
      std::string why;
      for (const auto& [word, n] : s.outcomes)
        if (word != "success") why += fmt::format("{}{} {}", why.empty() ? "" : "; ", n, word);
      const double actions = static_cast<double>(s.actions);
      fmt::print("{},{},{:.3f},{:.1f},{:.3f},{:.3f},{:.3f},{:.2f},{:.2f},{:.2f},{}\n", drafts,
                 radius < 0 ? "exact" : std::to_string(radius), s.success(), actions / episodes,
                 static_cast<double>(s.passes) / actions, static_cast<double>(s.draft_steps) / actions, s.alpha(),
                 drafts ? speculative_speedup(s.alpha(), drafts, kReportsCost) : 1.0, drafts ? s.speed(1) : 1.0,
                 drafts ? s.speed(2) : 1.0, why);
    }
}

}  // namespace
}  // namespace slip::test
