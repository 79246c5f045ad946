// SPDX-License-Identifier: Apache-2.0
// Tests: DraftHeads.*
#include "limits/draft_head.h"

namespace slip {

Result<PassTime> draft_head_context(const DraftHeadShape& s, const Machine& machine, const PassShape& p) {
  SLIP_TRY(const double weight, bytes_of(p.type));
  const double act = p.activation_bytes > 0 ? p.activation_bytes : weight, n = static_cast<double>(p.rows);
  const auto D = static_cast<double>(s.decoder.hidden), taps = static_cast<double>(s.taps),
             kv = static_cast<double>(2 * s.decoder.kv_heads * s.decoder.head_dim);
  const double rate = machine.product_flops_per_ms(p.type, n);
  PassTime out;
  out.add("context", 1, 2 * n * taps * D, weight * taps * D + act * n * (taps + D), machine, rate);
  out.add("context kv", s.decoder.layers, 2 * n * D * kv, weight * D * kv + act * n * (D + kv), machine, rate);
  return out;
}

Result<PassTime> draft_head_round(const DraftHeadShape& s, const Machine& machine, const PassShape& p) {
  SLIP_TRY(PassTime out, plain_pass(s.decoder, machine, p));
  SLIP_TRY(PassTime context, draft_head_context(s, machine, p));
  for (Operation& o : context.operations) out.add(std::move(o));
  return out;
}

}  // namespace slip
