// SPDX-License-Identifier: Apache-2.0
// Proof by trial, on this machine and with these weights: contract W (a row's bits depend on the row and the ordered keys that
// it sees, not on the pass's width, its company, threads or slots) and that all exact decoders give equal tokens.
//
// Every row of a pseudo-random sequence goes through alone first; those answers are what all other ways must reproduce.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "decode/decoder.h"
#include "form/form.h"
#include "lm/lm.h"
#include "models/model.h"

namespace slip {

struct VerifySettings {
  int32_t prompt_rows = 48;
  int32_t max_width = 64;  // passes of 1 .. max_width rows; as many rows follow the prompt
  uint64_t seed = 1;
  std::function<void(int64_t done, int64_t total)> progress = {};
  CancelToken cancel = {};
};

/// One line of the report. A check that could not be made says why in `compared` and has passed with 0 bytes.
struct Check {
  std::string name, compared;
  int64_t bytes = 0;
  bool passed = true;
  std::string difference;  // the first one: where, and both values in hex
};

/// What each row of the sequence answered.
struct RowAnswers {
  int32_t vocab = 0;
  std::vector<TokenId> argmax;
  std::vector<float> logits_NV;
  /// FNV-1a of the first `rows` rows' logits: the golden value of a model on an instruction set.
  uint64_t hash(int32_t rows) const;
};

/// Makes the model anew for a number of threads; the last one made must stay usable while its pointer lives.
using LmFactory = std::function<Result<std::shared_ptr<Lm>>(int threads)>;

struct RowProof {
  std::vector<Check> checks;  // widths, company, drafts, layouts per thread count; threads
  RowAnswers alone;           // of the first thread count
};
/// kResource when the cache holds fewer than 3 * (prompt_rows + max_width) slots. A difference is a failed check, no error.
Result<RowProof> prove_rows(const LmFactory& make, std::span<const int> thread_counts, const VerifySettings& settings);

/// The exact presets that this model can run over a form (free text when null), greedy and at temperature 0.8 with three seeds.
Result<Check> check_decoders(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& base,
                             const DecodeContext& context = {});

/// Image features alone and together with other images; nothing to compare without a vision tower.
Result<Check> check_images(Model& model, const CancelToken& cancel = {});

/// A prompt of `rows` pseudo-random tokens below `vocab`.
Prompt random_tokens(int32_t rows, int32_t vocab, uint64_t seed);
/// A form of two fields with fixed tokens around them, for models that know no other.
Result<Form> plain_form(int32_t vocab);

}  // namespace slip
