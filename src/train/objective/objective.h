// SPDX-License-Identifier: Apache-2.0
// The two dual-stream objectives, as masks and weights; rows.h turns them into a pass. (The third objective: graph_objective.h.)
//
// SASD [Fast-dDrive; docs/notes/block-diffusion.md#sasd] per sample: masked = draw < (1 - e) t_block + e on response tokens that
// are not scaffold; the closing token always; the second row is the complement.
//   loss = [ sum over both rows, masked i: w_i CE(noisy i-1, token i) + sum response i: CE(clean i-1, token i) ] / (2 response tokens)
//   and, where a sample brings grounding targets (grounding.h), + sum g_i CE(clean i, target i) inside the brackets.
// NLD [Nemotron-Labs-Diffusion; 2.2] no shift, blocks on a fixed grid, weight alpha / p on masked tokens of one noisy row:
//   loss = [ alpha sum masked i: CE(noisy i, token i) / p + ar_weight sum labels i >= 1: CE(clean i-1, token i) ] / (masked + labels)
// Rows of images and the row of the ego history are never masked and never labels. Stage 1 of the paper's two is the clean half alone (NldRule::ar_steps).
// All are sums over samples divided by counts over samples, whatever the batch is split into (NldRule::by_sequence: means of each
// sample's own quotient).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/result.h"
#include "train/model/rows.h"

namespace slip {

struct SectionRule {
  std::string name;
  double weight = 1;
  double beta_a = 1, beta_b = 1;  // t ~ Beta(a, b)
};

/// Fast-dDrive's table [docs/notes/block-diffusion.md#sasd].
std::vector<SectionRule> fast_ddrive_sections();
/// The rules in the order of `sections`, the names that Sample::section counts (SampleSource::outline). Rules that were asked for name each
/// section once: kBadInput lists the sections. Where none were asked for (nullopt), Fast-dDrive's hold if all of its four sections are among
/// them; every other section has weight 1 and t ~ Beta(1, 1).
Result<std::vector<SectionRule>> rules_of_sections(const std::optional<std::vector<SectionRule>>& asked,
                                                   std::span<const std::string> sections);

struct NoiseKey {
  uint64_t seed = 0;
  uint32_t rank = 0, step = 0, sample = 0;  // sample: index within the step's batch
};

/// A stream of its own for (rank, step, sample, block).
PhiloxStream noise_stream(const NoiseKey& key, uint32_t block);

/// Noise level of a block and one uniform per token.
struct Noise {
  std::vector<double> t_of_block;  // by block id
  std::vector<double> draw;        // n
};
/// t by the section of the block's first token that is not scaffold; every number depends on (key, block) alone.
Noise sasd_noise(const Sample& s, const std::vector<SectionRule>& sections, const NoiseKey& key);
/// Quantile of Beta(a, b) at u in (0, 1).
double beta_quantile(double a, double b, double u);

/// Masked and complement.
std::array<std::vector<uint8_t>, 2> sasd_masks(const Sample& s, const Noise& noise, double minimum_noise);
/// What an ablation changes; as it stands: the paper's.
struct SasdRule {
  bool complement = true;    // false: the masked row alone, over the same divisor: half of the tokens are learned
  double ar_weight = 1;      // of the clean half's next-token loss
  bool by_sequence = false;  // average each sample by its own count, then over samples; else over the whole batch
};
SequenceRows sasd_rows(const Sample& s, const std::array<std::vector<uint8_t>, 2>& masks, const std::vector<SectionRule>& sections,
                       const SasdRule& rule = {});

struct NldRule {
  int32_t block_size = 32;  // the grid counts from the sequence's first row, images included
  double alpha = 0.3, minimum_noise = 1e-3;
  double ar_weight = 1;            // 0: no next-token loss, and none of its labels in the count
  bool answers_masked = false;     // only answers' tokens are masked (END included); else any token
  bool answers_predicted = false;  // only answers' tokens are labels; else any but the first
  bool by_sequence = false;        // average each sample by its own count, then over samples; else over the whole batch
  bool noise_of_step =
      false;             // all samples of a step share t and draws, as ranks with one seed do [NLD 2.3]; else each has its own
  int64_t ar_steps = 0;  // so many first steps are stage 1
};
struct NldNoise {
  double t = 0;
  std::vector<double> draw;
};
NldNoise nld_noise(const Sample& s, const NldRule& rule, const NoiseKey& key);
/// `ar_only`: stage 1, the clean half alone; masked tokens do not count. count is 0 where there is nothing to learn.
SequenceRows nld_rows(const Sample& s, const NldNoise& noise, const NldRule& rule, bool ar_only = false);

/// Terms of a sample's grounding targets: the clean row of such a token predicts the target itself (an image cell has no next
/// token to speak of). Clean row i must be row i of `rows`.
void add_grounding(const Sample& s, SequenceRows& rows);

/// The whole dual stream with nothing shared or dropped: what the savings of rows.h are tested against. Two sequences, one per
/// noisy row, the next-token loss in the first.
std::vector<SequenceRows> sasd_rows_unshared(const Sample& s, const std::array<std::vector<uint8_t>, 2>& masks,
                                             const std::vector<SectionRule>& sections);

}  // namespace slip
