// SPDX-License-Identifier: Apache-2.0
// The LK-hybrid loss of one draft position [Nemotron-Labs-Diffusion, App. B; docs/notes/speculation.md#draft-adapter].
//
//   U = top-`top` ids of the verifier's logits united with top-`top` of the drafter's; on U
//   p, q = softmax(verifier's / tau), softmax(drafter's / tau)     alpha = sum min(p, q)     lambda = scale exp(-eta alpha), a constant
//   lk = lambda KL(p || q) + (1 - lambda) sum |p - q| / 2            ce = -log softmax(drafter's on U)[y], y in U only
//
// y is the verifier's argmax, which is in U by definition, or a token that was drawn from it, which need not be: such a position has no
// cross-entropy and does not count in its mean. The KL part needs no truncation, only the memory
// does; its gradient is (q - p) / tau, a third of the CE's at tau 3, hence two weights; the gradient of sum |p - q| vanishes
// where q is far from p, hence the mix. Ours: where a form's field allows only some ids, U is among these, as both picks are.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace slip {

struct LkRule {
  double tau = 3, eta = 0.5;
  int32_t top = 200;
  double lk_weight = 1, ce_weight = 1;
  double scale = 1;  // 0: lambda is 0, the total variation alone
};

struct LkPosition {
  int32_t ids = 0;     // in U
  int32_t target = 0;  // y; the argmax is the lowest id on ties
  bool has_ce = true;  // y is in U
  int32_t draft = 0;   // the drafter's argmax in U, the lowest id on ties
  double alpha = 0, lambda = 0, kl = 0, tv = 0, lk = 0, ce = 0;
};

/// `allowed`: ascending ids, or empty for the whole vocabulary. Buffers are kept from call to call.
class LkLoss {
 public:
  explicit LkLoss(LkRule rule) : rule_(rule) {}
  /// Shares of a position in the two means.
  struct Shares {
    double lk = 1, ce = 1;
  };
  /// Adds (shares.lk lk_weight dlk + shares.ce ce_weight dce) / d draft_V to gradient_V, which may be empty. `target`: y, else the argmax.
  template <class T>
  LkPosition position(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed, Shares shares,
                      std::span<T> gradient_V, std::optional<int32_t> target);
  /// The same with one share for both and the verifier's argmax.
  template <class T>
  LkPosition position(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed, double scale,
                      std::span<T> gradient_V);
  const LkRule& rule() const { return rule_; }

 private:
  template <class T>
  void unite(std::span<const T> draft_V, std::span<const T> verify_V, std::span<const TokenId> allowed);
  template <class T>
  void add_top(std::span<const T> logits_V, std::span<const TokenId> allowed);

  LkRule rule_;
  std::vector<int32_t> order_, ids_;
  std::vector<double> p_, q_, q1_;
};

}  // namespace slip
