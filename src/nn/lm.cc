// SPDX-License-Identifier: Apache-2.0
#include "nn/lm.h"

namespace slip {

Status Lm::set_taps(std::span<const int32_t>) {
  return unsupported("{}: expected a model whose layers can be tapped for a draft head, got one that cannot", info().name);
}

}  // namespace slip
