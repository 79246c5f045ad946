// SPDX-License-Identifier: Apache-2.0
// Two models with vocabularies of their own, models/pair-target and models/pair-draft, whose answers meet in 256 action bins: the
// target's answers stay its own whoever drafts, greedy and drawn, and a draft model that does not fit is refused by its reason.
// With SLIP_PAIR_SCENES=N PairTable measures what docs/lab/0005 reports: run it alone on a quiet machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>

#include "engine/engine.h"
#include "limits/speculation_algebra.h"
#include "sim/record/make.h"
#include "task/action.h"
#include "tests/cli/process.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using test::Cli;
using testing::HasSubstr;

constexpr uint64_t kFirstScene = 900'000'000;  // held out: training scenes are 1,000,000 .. 10,999,999
constexpr int32_t kTokens = 7;

std::string folder(const char* name) { return (fs::path(SLIP_SOURCE_DIR) / "models" / name).string(); }

std::unique_ptr<Engine> loaded(const char* name, int threads) {
  auto e = Engine::load(folder(name), {.threads = threads, .slots = 512});
  if (!e) throw std::runtime_error(e.error().message);
  return std::move(*e);
}

/// Both models, their maps and prompts, for decoders that are called without the engine around them.
class Pair {
 public:
  explicit Pair(int threads = 0) : target_(loaded("pair-target", threads)), draft_(loaded("pair-draft", threads)) {
    form_ = *target_->form("model");
    draft_form_ = *draft_->form("model");
    auto maps = map_vocabularies(target_tokens(), target().info().vocab, draft_tokens(), draft().info().vocab, form_.get(),
                                 draft_form_.get());
    if (!maps) throw std::runtime_error(maps.error().message);
    maps_ = std::move(*maps);
    model_ = {.lm = &draft(), .prompt = {}, .to_draft = maps_.to_draft, .to_target = maps_.to_target};
  }
  Lm& target() { return target_->model().lm(); }
  Lm& draft() { return draft_->model().lm(); }
  const Tokenizer& target_tokens() { return *target_->model().tokenizer(); }
  const Tokenizer& draft_tokens() { return *draft_->model().tokenizer(); }
  const Form& form() const { return form_->form; }
  const Form& draft_form() const { return draft_form_->form; }
  const BinsMeaning& bins() const { return std::get<BinsMeaning>(form_->meanings[0]); }
  const BinsMeaning& draft_bins() const { return std::get<BinsMeaning>(draft_form_->meanings[0]); }
  const VocabularyMaps& maps() const { return maps_; }

  /// The next calls ask about this scene: n counts scenes, two frames of each.
  void ask(int n) {
    const auto r = sim::make_frame(kFirstScene + static_cast<uint64_t>(n / 2), {}, n % 2 ? 1.0 : 0.0, false);
    Request request;
    request.ego = ego_of(r->labels);
    truth_ = action_of(r->labels, kTokens);
    now_mps2_ = r->labels.history.back().ax;
    prompt_ = *target_->prompt(request);
    model_.prompt = *draft_->prompt(request);
  }
  /// Mean distance of an answer's accelerations, or of going on as now, from the expert's.
  double error(const Decoded& d, const BinsMeaning& bins) const {
    double sum = 0;
    for (size_t i = 0; i < truth_.size(); ++i) sum += std::abs(bins.value_of(bins.bin_of(d.fields[0][i])) - truth_[i]);
    return sum / kTokens;
  }
  double error_of_going_on() const {
    double sum = 0;
    for (const double a : truth_) sum += std::abs(now_mps2_ - a);
    return sum / kTokens;
  }
  const Prompt& prompt() const { return prompt_; }
  const Prompt& draft_prompt() const { return model_.prompt; }
  DecodeOptions options(float temperature = 0, uint64_t seed = 0) const {
    return {.temperature = temperature, .seed = seed, .forced = true};
  }
  DecodeContext context() const { return {.draft_model = &model_}; }
  Decoded decode(Method m, const DecodeOptions& o) {
    auto d = Decoder(target(), std::move(m)).decode(prompt_, &form(), o, context());
    if (!d) throw std::runtime_error(d.error().message);
    return std::move(*d);
  }

 private:
  std::unique_ptr<Engine> target_, draft_;
  FormPtr form_, draft_form_;
  VocabularyMaps maps_;
  DraftModel model_;
  Prompt prompt_;
  std::vector<double> truth_;
  double now_mps2_ = 0;
};

Method drafted(int32_t gamma, VerifierSpec verifier = ExactSpec{}, bool coupled = false) {
  Method m = *method_of("draft-model");
  m.drafter = ModelSpec{.name = "pair-draft", .coupled = coupled};
  m.verifier = std::move(verifier);
  m.draft_length = {.kind = DraftLengthSpec::Kind::kFixed, .tokens = gamma, .name = {}};
  return m;
}

double rate(const Statistics& s) { return static_cast<double>(s.accepted) / static_cast<double>(s.tested); }

TEST(Pair, MeetsInTheBins) {
  Pair pair;
  const BinsMeaning &t = pair.bins(), &d = pair.draft_bins();
  ASSERT_EQ(t.size(), 256);
  ASSERT_EQ(d.size(), 256);
  EXPECT_TRUE(t.descending);
  EXPECT_FALSE(d.descending);
  EXPECT_EQ(t.last.value, pair.target_tokens().size() - 1) << "the last ids of the vocabulary, as OpenVLA's";
  EXPECT_NE(t.first, d.first);
  for (int32_t b = 0; b < t.size(); ++b) {
    EXPECT_EQ(pair.maps().to_draft[t.id_of(b)], d.id_of(b));
    EXPECT_EQ(pair.maps().to_target[d.id_of(b)], t.id_of(b));
    EXPECT_EQ(t.value_of(b), d.value_of(b));
  }
  // What the other vocabulary lacks has no counterpart, and what it has is the same text: nothing is put to a neighbouring id.
  int32_t without = 0;
  for (int32_t id = 0; id < pair.target().info().vocab; ++id) {
    const auto other = pair.maps().to_draft[{id}];
    without += !other;
    if (!other || (id >= t.first.value && id <= t.last.value)) continue;
    EXPECT_EQ(pair.target_tokens().token_text({id}), pair.draft_tokens().token_text(*other));
  }
  EXPECT_GT(without, 0) << "the pair has one vocabulary";
}

TEST(Pair, DraftsChangeNoToken) {
  Pair pair;
  Statistics plain, spec;
  for (int n = 0; n < 40; ++n) {
    pair.ask(n);
    const DecodeOptions o = pair.options(n % 3 == 2 ? 0.8F : 0.0F, static_cast<uint64_t>(n));
    const Decoded ar = pair.decode(*method_of("ar"), o);
    ASSERT_EQ(ar.fields[0].size(), static_cast<size_t>(kTokens));
    plain.add(ar.statistics);
    for (const int32_t gamma : {1, 3, 6})
      for (const bool coupled : {false, true}) {
        const Decoded d = pair.decode(drafted(gamma, ExactSpec{}, coupled), o);
        ASSERT_EQ(d.tokens, ar.tokens) << "scene " << n << ", " << gamma << " drafts";
        ASSERT_FALSE(d.lossy);
        if (gamma == 3 && !coupled) spec.add(d.statistics);
      }
  }
  EXPECT_LT(spec.forwards, plain.forwards);
  EXPECT_LE(spec.accepted, spec.tested);
  EXPECT_LE(spec.tested, spec.proposed);
  RecordProperty("accepted", static_cast<int>(spec.accepted));
  RecordProperty("tested", static_cast<int>(spec.tested));
  EXPECT_GT(static_cast<double>(spec.accepted) / static_cast<double>(spec.tested), 0.3);
}

// Drawn drafts hold with the probability that two laws share, the likeliest one only with its own.
TEST(Pair, DrawnDraftsHoldMoreOftenThanTheLikeliest) {
  Pair pair;
  Statistics likeliest, drawn;
  for (int n = 0; n < 40; ++n) {
    pair.ask(n);
    const DecodeOptions o = pair.options(0.8F, static_cast<uint64_t>(n));
    likeliest.add(pair.decode(drafted(3), o).statistics);
    drawn.add(pair.decode(drafted(3, RejectionSpec{}), o).statistics);
  }
  EXPECT_GT(rate(drawn), rate(likeliest));
}

// Two samples of answers at one scene, told apart by chi-square over cells of the joint law of two neighbouring numbers.
class TwoSamples {
 public:
  void add(int which, int32_t cell) { counts_[static_cast<size_t>(which)][cell] += 1; }
  /// (statistic - degrees) / sqrt(2 degrees): near normal for the 10 and more cells there are; rare cells are put together.
  double excess() const {
    std::map<int32_t, std::array<double, 2>> cells;
    std::array<double, 2> total{}, rare{};
    for (size_t w = 0; w < 2; ++w)
      for (const auto& [cell, n] : counts_[w]) cells[cell][w] += n, total[w] += n;
    double statistic = 0;
    int degrees = -1;
    const auto add = [&](const std::array<double, 2>& n) {
      const double both = n[0] + n[1];
      if (both == 0) return;
      const double d = n[0] * std::sqrt(total[1] / total[0]) - n[1] * std::sqrt(total[0] / total[1]);
      statistic += d * d / both;
      ++degrees;
    };
    for (const auto& [cell, n] : cells) {
      if (n[0] + n[1] >= 16)
        add(n);
      else
        rare[0] += n[0], rare[1] += n[1];
    }
    add(rare);
    EXPECT_GE(degrees, 10) << "too few cells to tell anything apart";
    return (statistic - degrees) / std::sqrt(2.0 * degrees);
  }

 private:
  std::array<std::map<int32_t, double>, 2> counts_;
};

TEST(Pair, RejectionKeepsTheTargetsLaw) {
  Pair pair;
  pair.ask(3);
  constexpr int kAnswers = 1000;
  // Cells of four bins, 0.19 m/s^2: places 1 and 2 (drafted), and 3 and 4.
  const auto cells = [&](const Decoded& d, const BinsMeaning& bins, int which, TwoSamples& early, TwoSamples& late) {
    const auto bin = [&](size_t i) { return bins.bin_of(d.fields[0][i]) / 4; };
    early.add(which, bin(1) * 100 + bin(2));
    late.add(which, bin(3) * 100 + bin(4));
  };
  TwoSamples early, late, early_mutant, late_mutant;
  Statistics statistics;
  // One decoder after another, so that each finds its prompt's keys where it left them.
  const auto sample = [&](Lm& lm, Method m, const Prompt& prompt, const Form& form, uint64_t first_seed, const auto& take) {
    Decoder decoder(lm, std::move(m));
    for (int n = 0; n < kAnswers; ++n) {
      DecodeOptions o = pair.options(0.8F, first_seed + static_cast<uint64_t>(n));
      o.reuse_prompt = n > 0;
      const auto d = decoder.decode(prompt, &form, o, pair.context());
      ASSERT_TRUE(d) << d.error().message;
      ASSERT_FALSE(d->lossy);
      statistics.add(d->statistics);
      take(*d);
    }
  };
  sample(pair.target(), *method_of("scaffold-ar"), pair.prompt(), pair.form(), 0, [&](const Decoded& d) {
    cells(d, pair.bins(), 0, early, late);
    cells(d, pair.bins(), 0, early_mutant, late_mutant);
  });
  sample(pair.draft(), *method_of("scaffold-ar"), pair.draft_prompt(), pair.draft_form(), 1'000'000,
         [&](const Decoded& d) { cells(d, pair.draft_bins(), 1, early_mutant, late_mutant); });
  statistics = {};
  sample(pair.target(), drafted(4, RejectionSpec{}), pair.prompt(), pair.form(), 2'000'000,
         [&](const Decoded& d) { cells(d, pair.bins(), 1, early, late); });
  EXPECT_GT(statistics.accepted, 0);
  EXPECT_LT(statistics.accepted, statistics.tested);
  EXPECT_LT(early.excess(), 5);
  EXPECT_LT(late.excess(), 5);
  EXPECT_GT(early_mutant.excess() + late_mutant.excess(), 20) << "the draft model's own law would pass for the target's";
}

TEST(Pair, RelaxedGoesByBinsAndSaysSo) {
  Pair pair;
  constexpr int32_t kRadius = 4;  // 0.19 m/s^2
  Method m = drafted(6, RelaxedSpec{.radius = kRadius, .first = {}, .end = {}, .radius_of_field = {}});
  Method none = drafted(6, RelaxedSpec{.radius = 0, .first = {}, .end = {}, .radius_of_field = {}});
  for (Method* method : {&m, &none}) {
    auto& relaxed = std::get<RelaxedSpec>(method->verifier);
    relaxed.first = pair.bins().first;
    relaxed.end = {pair.bins().last.value + 1};
  }
  EXPECT_TRUE(m.lossy());
  Statistics exact, loose;
  for (int n = 0; n < 40; ++n) {
    pair.ask(n);
    DecodeOptions o = pair.options();
    const Decoded ar = pair.decode(*method_of("ar"), o);
    EXPECT_EQ(pair.decode(none, o).tokens, ar.tokens) << "a radius of no bins is exact";
    exact.add(pair.decode(drafted(6), o).statistics);
    o.trace = true;
    const Decoded d = pair.decode(m, o);
    EXPECT_TRUE(d.lossy);
    loose.add(d.statistics);
    for (const TokenId id : d.fields[0]) EXPECT_TRUE(id >= pair.bins().first && id <= pair.bins().last);
  }
  EXPECT_EQ(exact.relaxed_accepts, 0);
  EXPECT_GT(loose.relaxed_accepts, 0);
  EXPECT_LT(loose.forwards, exact.forwards);
  EXPECT_GT(loose.accepted * exact.tested, exact.accepted * loose.tested);
}

class PairCli : public Cli {
 protected:
  std::string ego() const { return write("ego.json", R"({"intent": "GO_STRAIGHT", "history": [)" + states() + "]}"); }
  static std::string states() {
    std::string s;
    for (int i = 0; i < 16; ++i) {
      const double t = (i - 15) / 4.0;
      s += fmt::format("{}[{}, {}, 0, 8, 0, 0, 0]", i ? ", " : "", t, 8 * t);
    }
    return s;
  }
  /// A copy of the draft model with `from` in its config.json replaced.
  std::string changed_draft(const std::string& name, const std::string& from, const std::string& to) const {
    const fs::path out = path(name);
    fs::copy(folder("pair-draft"), out, fs::copy_options::recursive);
    std::string config = test::read_bytes(out / "config.json");
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    fs::permissions(out / "config.json", fs::perms::owner_write, fs::perm_options::add);
    test::write_bytes(out / "config.json", config);
    return out.string();
  }
  std::vector<std::string> ask(const std::string& draft, const std::string& target = folder("pair-target")) const {
    return {"run", "--model", target, "--form", "model", "--decoder", "draft-model", "--drafter", "model:" + draft, "--ego", ego()};
  }
};

TEST_F(PairCli, AnswersAndCounts) {
  auto arguments = ask(folder("pair-draft"));
  const json::value spec = run_json(arguments);
  const json::value plain = run_json({"run", "--model", folder("pair-target"), "--decoder", "ar", "--ego", ego()});
  EXPECT_EQ(spec.at("tokens"), plain.at("tokens"));
  EXPECT_EQ(spec.at("fields").at("action").as_array().size(), static_cast<size_t>(kTokens));
  const json::value& s = spec.at("statistics");
  EXPECT_GT(s.at("tested").as_int64(), 0);
  EXPECT_LE(s.at("accepted").as_int64(), s.at("tested").as_int64());
  arguments.insert(arguments.end(), {"--verifier", "relaxed:4"});
  EXPECT_TRUE(run_json(arguments).at("decoder").at("lossy").as_bool());
}

TEST_F(PairCli, RefusesWhatDoesNotFit) {
  refused(ask(changed_draft("fewer", "\"bins\": 256", "\"bins\": 128")), 3,
          "draft model: expected 256 action bins as the target has, got 128");
  refused(ask(changed_draft("text", "\"form\": \"action\"", "\"form\": \"wod-e2e\"")), 3, "action bins as the target has");
  const std::string mute = changed_draft("mute", "\"note\"", "\"note\"");
  fs::remove(fs::path(mute) / "tokenizer.json");
  refused(ask(mute), 3, "tokenizer");
  refused(ask(path("nowhere")), 3, "nowhere");
}

/// Not a number for none: few answers may all be done after their first pass, and no step is left to time.
double median(std::vector<double> v) {
  if (v.empty()) return std::nan("");
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

constexpr int kRounds = 5;

// What an answer costs on average, each the median of its rounds: the prediction is one of means.
double mean_of_medians(const std::vector<double>& v) {
  double sum = 0;
  for (size_t i = 0; i + kRounds <= v.size(); i += kRounds)
    sum += median({v.begin() + static_cast<long>(i), v.begin() + static_cast<long>(i) + kRounds});
  return sum / (static_cast<double>(v.size()) / kRounds);
}

// Of this process: one thread's, so that a machine shared with others says the same as a quiet one.
double cpu_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

struct Times {
  std::vector<double> total, prefill, step;  // milliseconds; step: a pass of one row behind the prompt
  Statistics add(Decoder& decoder, const Prompt& prompt, const Form& form, const DecodeOptions& o, bool counts,
                 const DecodeContext& context = {}) {
    const double begin = cpu_ms();
    const auto d = decoder.decode(prompt, &form, o, context);
    const double ms = cpu_ms() - begin;
    EXPECT_TRUE(d) << d.error().message;
    if (!d || !counts) return {};
    const Statistics& s = d->statistics;
    total.push_back(ms);
    prefill.push_back(s.ms.prefill);
    if (s.forwards > 1) step.push_back(s.ms.verify / static_cast<double>(s.forwards - 1));
    return s;
  }
};

void print_table(Pair& pair, float temperature, int count) {
  Decoder plain(pair.target(), *method_of("scaffold-ar")), alone(pair.draft(), *method_of("scaffold-ar"));
  std::vector<Decoder> spec;
  for (int gamma = 1; gamma <= 6; ++gamma) spec.emplace_back(pair.target(), drafted(gamma));
  std::array<Statistics, 6> sums{};
  std::array<Times, 6> times;
  Times target, draft;
  for (int n = 0; n < count; ++n) {
    pair.ask(n);
    const DecodeOptions o = pair.options(temperature, static_cast<uint64_t>(n));
    for (int round = 0; round <= kRounds; ++round) {  // round 0 settles buffers and caches
      target.add(plain, pair.prompt(), pair.form(), o, round > 0);
      draft.add(alone, pair.draft_prompt(), pair.draft_form(), o, round > 0);
      for (size_t g = 0; g < 6; ++g) {
        const Statistics s = times[g].add(spec[g], pair.prompt(), pair.form(), o, round > 0, pair.context());
        if (round == 1) sums[g].add(s);
      }
    }
  }
  const double step = median(target.step), c = median(draft.step) / step, passes = kTokens - 1;
  const double prefill = median(target.prefill) / step, draft_prefill = median(draft.prefill) / step;
  fmt::print("temperature {:.1f}: plain {:.3f} ms, step {:.4f} ms, draft step {:.4f} ms, c {:.3f}, P {:.2f}, D {:.2f}\n",
             temperature, mean_of_medians(target.total), step, median(draft.step), c, prefill, draft_prefill);
  for (int gamma = 1; gamma <= 6; ++gamma) {
    const auto g = static_cast<size_t>(gamma - 1);
    const double a = rate(sums[g]);
    const FiniteRun run = finite_run(kTokens, a, gamma);
    const auto per = [&](int64_t x) { return static_cast<double>(x) / count; };
    EXPECT_GT(sums[g].accepted, 0) << gamma;
    EXPECT_LT(per(sums[g].forwards), kTokens) << gamma << ": drafts that hold save passes";
    if (count >= 100) {  // a mean of few answers says nothing of the formula
      EXPECT_NEAR(per(sums[g].forwards), run.rounds, 0.1 * run.rounds) << gamma;
    }
    const double few = passes / (run.rounds - 1 + c * (run.draft_steps - 1));
    const double whole = (prefill + passes) / (prefill + draft_prefill + run.rounds - 1 + c * (run.draft_steps - 1));
    const double v = median(times[g].step) / step, rows = v - 1;  // what the rows of the drafts cost, in the prefill's pass too
    const double wide = (prefill + passes) / (prefill + draft_prefill + rows + (run.rounds - 1) * v + c * (run.draft_steps - 1));
    fmt::print(
        "gamma {}: accepted/tested {}/{} = {:.3f}; passes {:.2f} (predicted {:.2f}), drafter's {:.2f} ({:.2f}); a pass {:.2f} "
        "steps; "
        "speed-up by the formula {:.2f}, of 7 tokens {:.2f}, with the prefills {:.3f}, with the rows {:.3f}; measured {:.3f}\n",
        gamma, sums[g].accepted, sums[g].tested, a, per(sums[g].forwards), run.rounds, per(sums[g].drafter_forwards),
        run.draft_steps, v, speculative_speedup(a, gamma, c), few, whole, wide,
        mean_of_medians(target.total) / mean_of_medians(times[g].total));
  }
}

// How often drafts hold under other verifiers and drawings, four a round.
void print_rates(Pair& pair, int count) {
  const RelaxedSpec relaxed{.radius = 4, .first = pair.bins().first, .end = {pair.bins().last.value + 1}, .radius_of_field = {}};
  const std::tuple<const char*, Method, float> ways[] = {
      {"exact, greedy", drafted(4), 0.0F},
      {"relaxed:4, greedy", drafted(4, relaxed), 0.0F},
      {"exact, 0.8, the draft model's likeliest", drafted(4), 0.8F},
      {"exact, 0.8, the verifier's uniforms", drafted(4, ExactSpec{}, true), 0.8F},
      {"rejection, 0.8", drafted(4, RejectionSpec{}), 0.8F}};
  for (const auto& [name, method, temperature] : ways) {
    Statistics sum;
    for (int n = 0; n < count; ++n) {
      pair.ask(n);
      sum.add(pair.decode(method, pair.options(temperature, static_cast<uint64_t>(n))).statistics);
    }
    fmt::print("{}: {}/{} = {:.3f}, {:.2f} passes\n", name, sum.accepted, sum.tested, rate(sum),
               static_cast<double>(sum.forwards) / count);
  }
}

void print_errors(Pair& pair, int count) {
  double target = 0, draft = 0, going_on = 0;
  for (int n = 0; n < count; ++n) {
    pair.ask(n);
    target += pair.error(pair.decode(*method_of("scaffold-ar"), pair.options()), pair.bins());
    const auto d = Decoder(pair.draft(), *method_of("scaffold-ar")).decode(pair.draft_prompt(), &pair.draft_form(), pair.options());
    draft += pair.error(*d, pair.draft_bins());
    going_on += pair.error_of_going_on();
  }
  fmt::print("mean error of an acceleration, greedy: target {:.3f}, draft {:.3f}, going on as now {:.3f} m/s^2\n", target / count,
             draft / count, going_on / count);
}

// Drafts are there when the prefill runs and are tested by its rows: the first round costs no pass of its own, and the drafter's
// first step is its own prefill. So of 7 tokens 6 passes are to be saved, and an answer costs, in steps of the target,
//   plain P + 6, drafted P + D + (rounds - 1) + c (draft steps - 1).
TEST(PairTable, OfTheLab) {
  const char* asked = std::getenv("SLIP_PAIR_SCENES");  // the lab's: 120, which takes minutes
  const int scenes = asked ? std::max(1, std::atoi(asked)) : 8;
  Pair pair(1);
  for (const float temperature : {0.0F, 0.8F}) print_table(pair, temperature, scenes);
  print_rates(pair, scenes);
  print_errors(pair, scenes);
}

}  // namespace
}  // namespace slip
