// SPDX-License-Identifier: Apache-2.0
// Contract W by trial; see verify.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/philox.h"
#include "eval/verify.h"

namespace slip {

namespace {

constexpr int kLayouts = 6;

// Where the rows of a sequence lie, and with which probability a visible run is cut in two.
struct Layout {
  std::vector<int32_t> slots;
  double cut = 0;
};

Layout straight(int32_t rows, int32_t offset = 0) {
  Layout l;
  l.slots.resize(static_cast<size_t>(rows));
  std::iota(l.slots.begin(), l.slots.end(), offset);
  return l;
}

// Layout 0 is an offset, 1 a permutation of the arena; the others are fragments of a few slots, cut at random places besides.
Layout scattered(int32_t rows, int32_t arena, int number, PhiloxStream& random) {
  if (number == 0) return straight(rows, arena - rows);
  const int32_t piece = number == 1 ? 1 : 1 + static_cast<int32_t>(random.below(9));
  std::vector<int32_t> starts;
  for (int32_t s = 0; s + piece <= arena; s += piece) starts.push_back(s);
  for (size_t i = starts.size(); i > 1; --i) std::swap(starts[i - 1], starts[random.below(static_cast<uint32_t>(i))]);
  Layout l;
  for (size_t i = 0; static_cast<int32_t>(l.slots.size()) < rows; ++i)
    for (int32_t k = 0; k < piece && static_cast<int32_t>(l.slots.size()) < rows; ++k) l.slots.push_back(starts[i] + k);
  l.cut = 0.2;
  return l;
}

class RowTrial {
 public:
  RowTrial(Lm& lm, const VerifySettings& settings)
      : lm_(lm),
        s_(settings),
        random_(settings.seed, 2),
        rows_(settings.prompt_rows + settings.max_width),
        own_(random_tokens(rows_, lm.info().vocab, settings.seed)),
        other_(random_tokens(rows_, lm.info().vocab, settings.seed + 1)) {}

  Result<RowAnswers> alone();
  Status widths(const RowAnswers& expected, std::span<const int32_t> widths, Check& check);
  Status company(const RowAnswers& expected, Check& check);
  Status drafts(Check& check);
  Status layouts(const RowAnswers& expected, Check& check);
  int32_t rows() const { return rows_; }

 private:
  void clear() { pass_rows_.clear(), spans_.clear(); }
  // Row i of a sequence, seeing rows [0, end) of it.
  void add(const Prompt& sequence, const Layout& layout, int32_t i, int32_t end, Want want);
  Status run() {
    SLIP_TRY_(s_.cancel.check("verify", passes_++, "passes"));
    return lm_.forward({pass_rows_, spans_, {}}, out_);
  }
  Status passes_of(int32_t width, const Layout& layout, const RowAnswers& expected, const std::string& where, Check& check);
  Status prompt(const Layout& layout);
  // Line `line` of the pass against row `row` of what is expected; keeps the first difference.
  void compare(const RowAnswers& expected, int32_t row, size_t line, const std::string& where, Check& check) const;

  Lm& lm_;
  const VerifySettings& s_;
  PhiloxStream random_;
  int32_t rows_;
  Prompt own_, other_;
  std::vector<Row> pass_rows_;
  std::vector<SlotSpan> spans_;
  PassOutput out_;
  int64_t passes_ = 0;
};

void RowTrial::add(const Prompt& sequence, const Layout& layout, int32_t i, int32_t end, Want want) {
  const size_t first = spans_.size();
  for (int32_t k = 0; k < end; ++k) {
    const int32_t slot = layout.slots[static_cast<size_t>(k)];
    const bool joins = spans_.size() > first && spans_.back().end == slot && !(layout.cut > 0 && random_.chance(layout.cut));
    if (joins)
      ++spans_.back().end;
    else
      spans_.push_back({slot, slot + 1});
  }
  const auto n = static_cast<size_t>(i);
  pass_rows_.push_back({sequence.inputs[n], sequence.positions[n], layout.slots[n], static_cast<uint32_t>(first),
                        static_cast<uint32_t>(spans_.size() - first), want});
}

/// Are they the largest of all, the largest first, the lower id on ties?
bool are_likeliest(std::span<const KeptLogits::Likely> likely, std::span<const float> logits_V) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits_V.size(); ++i)
    if (!std::isnan(logits_V[i])) ids.push_back(static_cast<int32_t>(i));
  const auto logit = [&](int32_t id) { return logits_V[static_cast<size_t>(id)]; };
  const size_t n = likely.size();
  if (n > ids.size() || (n == 0) != ids.empty()) return false;
  std::ranges::partial_sort(ids, ids.begin() + static_cast<ptrdiff_t>(n),
                            [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  for (size_t k = 0; k < n; ++k)
    if (likely[k].id.value != ids[k] || likely[k].logit != logit(ids[k])) return false;
  return true;
}

void RowTrial::compare(const RowAnswers& expected, int32_t row, size_t line, const std::string& where, Check& check) const {
  if (!check.passed) return;
  const auto r = static_cast<size_t>(row), vocab = static_cast<size_t>(expected.vocab);
  check.bytes += static_cast<int64_t>(sizeof(TokenId));
  std::span<const float> got;
  if (const auto kept = out_.kept_line_of(line); kept && out_.logits_row[line] < 0) {
    const auto all = out_.kept->all(*kept);
    if (all) got = *all;
    if (!all || !are_likeliest(out_.kept->likeliest(*kept), got)) {
      check.passed = false;
      check.difference = fmt::format("{}, row {}, largest logits: {}", where, row,
                                     all ? "expected those of all, got others" : all.error().message);
      return;
    }
  } else if (out_.logits_row[line] >= 0) {
    got = out_.logits_V(line);
  }
  if (!got.empty()) {
    check.bytes += static_cast<int64_t>(got.size_bytes());
    for (size_t v = 0; v < vocab; ++v) {
      const auto want = std::bit_cast<uint32_t>(expected.logits_NV[r * vocab + v]), have = std::bit_cast<uint32_t>(got[v]);
      if (want == have) continue;
      check.passed = false;
      check.difference = fmt::format("{}, row {}, logit {}: expected 0x{:08x}, got 0x{:08x}", where, row, v, want, have);
      return;
    }
  }
  if (out_.argmax[line] == expected.argmax[r]) return;
  check.passed = false;
  check.difference = fmt::format("{}, row {}, argmax: expected 0x{:08x}, got 0x{:08x}", where, row, expected.argmax[r].value,
                                 out_.argmax[line].value);
}

Result<RowAnswers> RowTrial::alone() {
  RowAnswers answers{.vocab = lm_.info().vocab};
  const Layout layout = straight(rows_);
  for (int32_t i = 0; i < rows_; ++i) {
    clear();
    add(own_, layout, i, i + 1, Want::kLogits);
    SLIP_TRY_(run());
    answers.argmax.push_back(out_.argmax[0]);
    const auto logits = out_.logits_V(0);
    answers.logits_NV.insert(answers.logits_NV.end(), logits.begin(), logits.end());
    if (s_.progress) s_.progress(i + 1, rows_);
  }
  return answers;
}

// All rows, `width` at a time. A third of the rows asks for its logits, the last one of a pass too, a third for the largest, the others for the
// argmax alone.
Status RowTrial::passes_of(int32_t width, const Layout& layout, const RowAnswers& expected, const std::string& where,
                           Check& check) {
  for (int32_t first = 0; first < rows_ && check.passed; first += width) {
    const int32_t end = std::min(rows_, first + width);
    clear();
    for (int32_t i = first; i < end; ++i)
      add(own_, layout, i, i + 1,
          i + 1 == end || (i + width) % 3 == 0 ? Want::kLogits
          : (i + width) % 3 == 1               ? Want::kLikely
                                               : Want::kArgmax);
    SLIP_TRY_(run());
    for (int32_t i = first; i < end; ++i) compare(expected, i, static_cast<size_t>(i - first), where, check);
  }
  return {};
}

Status RowTrial::widths(const RowAnswers& expected, std::span<const int32_t> widths, Check& check) {
  const Layout layout = straight(rows_);
  for (size_t w = 0; w < widths.size() && check.passed; ++w) {
    SLIP_TRY_(passes_of(widths[w], layout, expected, fmt::format("passes of {} rows", widths[w]), check));
    if (s_.progress) s_.progress(static_cast<int64_t>(w) + 1, static_cast<int64_t>(widths.size()));
  }
  return {};
}

Status RowTrial::prompt(const Layout& layout) {
  clear();
  for (int32_t i = 0; i < s_.prompt_rows; ++i) add(own_, layout, i, i + 1, Want::kNothing);
  return run();
}

// The last row of the prompt between rows of another request: before it, after it, and both.
Status RowTrial::company(const RowAnswers& expected, Check& check) {
  const Layout own = straight(rows_), others = straight(rows_, rows_);
  SLIP_TRY_(prompt(own));
  const int32_t row = s_.prompt_rows;
  for (int32_t n = 1; n <= s_.max_width && check.passed; ++n) {
    const int32_t before = static_cast<int32_t>(random_.below(static_cast<uint32_t>(n + 1)));
    clear();
    for (int32_t i = 0; i < before; ++i) add(other_, others, i, i + 1, i % 2 ? Want::kNothing : Want::kArgmax);
    add(own_, own, row, row + 1, Want::kLogits);
    for (int32_t i = before; i < n; ++i) add(other_, others, i, i + 1, i % 2 ? Want::kNothing : Want::kArgmax);
    SLIP_TRY_(run());
    compare(expected, row, static_cast<size_t>(before), fmt::format("with {} rows of another request", n), check);
  }
  return {};
}

// Blocks that see each other both ways, as drafts do: the block by itself, then with the other request around it.
Status RowTrial::drafts(Check& check) {
  const Layout own = straight(rows_), others = straight(rows_, rows_);
  SLIP_TRY_(prompt(own));
  for (int32_t width = 2; width <= s_.max_width && check.passed; width *= 2) {
    const int32_t begin = s_.prompt_rows, end = begin + width;
    RowAnswers expected{.vocab = lm_.info().vocab};
    for (const int32_t n : {0, 1, 5, s_.max_width}) {
      clear();
      for (int32_t i = 0; i < n / 2; ++i) add(other_, others, i, i + 1, Want::kArgmax);
      for (int32_t i = begin; i < end; ++i) add(own_, own, i, end, Want::kLogits);
      for (int32_t i = n / 2; i < n; ++i) add(other_, others, i, i + 1, Want::kArgmax);
      SLIP_TRY_(run());
      if (n == 0) {
        expected.argmax = out_.argmax;
        for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
          const auto logits = out_.logits_V(i);
          expected.logits_NV.insert(expected.logits_NV.end(), logits.begin(), logits.end());
        }
        continue;
      }
      for (int32_t i = 0; i < width; ++i)
        compare(expected, i, static_cast<size_t>(n / 2 + i), fmt::format("a block of {} with {} rows of another request", width, n),
                check);
    }
  }
  return {};
}

Status RowTrial::layouts(const RowAnswers& expected, Check& check) {
  for (int number = 0; number < kLayouts && check.passed; ++number) {
    const Layout layout = scattered(rows_, lm_.info().slots, number, random_);
    const int32_t width = 1 + static_cast<int32_t>(random_.below(static_cast<uint32_t>(s_.max_width)));
    SLIP_TRY_(passes_of(width, layout, expected, fmt::format("cache layout {}, passes of {} rows", number, width), check));
  }
  return {};
}

// The answers of two thread counts, row by row.
Check same_answers(const RowAnswers& expected, const RowAnswers& got, int threads) {
  Check check{.name = "threads",
              .compared = fmt::format("{} rows with {} threads against the first count", got.argmax.size(), threads)};
  const auto vocab = static_cast<size_t>(expected.vocab);
  for (size_t i = 0; i < expected.logits_NV.size() && check.passed; ++i) {
    const auto want = std::bit_cast<uint32_t>(expected.logits_NV[i]), have = std::bit_cast<uint32_t>(got.logits_NV[i]);
    check.passed = want == have;
    if (!check.passed)
      check.difference = fmt::format("{} threads, row {}, width 1, logit {}: expected 0x{:08x}, got 0x{:08x}", threads, i / vocab,
                                     i % vocab, want, have);
  }
  check.bytes = static_cast<int64_t>(got.logits_NV.size() * sizeof(float));
  return check;
}

std::vector<int32_t> widths_up_to(int32_t max_width) {
  std::vector<int32_t> out(static_cast<size_t>(max_width));
  std::iota(out.begin(), out.end(), 1);
  return out;
}

}  // namespace

uint64_t RowAnswers::hash(int32_t rows) const {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < static_cast<size_t>(rows) * static_cast<size_t>(vocab); ++i) {
    const auto bits = std::bit_cast<uint32_t>(logits_NV[i]);
    for (int b = 0; b < 32; b += 8) h = (h ^ ((bits >> b) & 0xFF)) * 0x100000001b3u;
  }
  return h;
}

Prompt random_tokens(int32_t rows, int32_t vocab, uint64_t seed) {
  Prompt p;
  PhiloxStream random(seed, 1);
  for (int32_t i = 0; i < rows; ++i) {
    p.inputs.emplace_back(TokenId{static_cast<int32_t>(random.below(static_cast<uint32_t>(vocab)))});
    p.positions.push_back(Position::text(i));
  }
  p.next_position = rows;
  return p;
}

Result<RowProof> prove_rows(const LmFactory& make, std::span<const int> thread_counts, const VerifySettings& settings) {
  RowProof proof;
  for (size_t n = 0; n < thread_counts.size(); ++n) {
    const int threads = thread_counts[n];
    SLIP_TRY(const std::shared_ptr<Lm> lm, make(threads));
    RowTrial trial(*lm, settings);
    if (lm->info().slots < 3 * trial.rows())
      return resource_error("verify: expected a cache of at least {} slots, got {}", 3 * trial.rows(), lm->info().slots);
    SLIP_TRY(RowAnswers alone, trial.alone());
    if (n == 0)
      proof.alone = std::move(alone);
    else
      proof.checks.push_back(same_answers(proof.alone, alone, threads));
    const auto widths = widths_up_to(settings.max_width);
    const std::string with = fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
    Check check{"widths", fmt::format("{} rows in passes of {} widths up to {}, each row against the row alone{}", trial.rows(),
                                      widths.size(), settings.max_width, with)};
    SLIP_TRY_(trial.widths(proof.alone, widths, check));
    proof.checks.push_back(check);
    check = {"company", fmt::format("a row with 1 to {} rows of another request{}", settings.max_width, with)};
    SLIP_TRY_(trial.company(proof.alone, check));
    proof.checks.push_back(check);
    check = {"drafts", fmt::format("blocks of 2 to {} rows that see each other, with and without another request{}",
                                   settings.max_width, with)};
    SLIP_TRY_(trial.drafts(check));
    proof.checks.push_back(check);
    check = {"layouts", fmt::format("{} rows in {} cache layouts: offset, permuted, in fragments{}", trial.rows(), kLayouts, with)};
    SLIP_TRY_(trial.layouts(proof.alone, check));
    proof.checks.push_back(check);
  }
  return proof;
}

}  // namespace slip
