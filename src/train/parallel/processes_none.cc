// SPDX-License-Identifier: Apache-2.0
// Where Gloo's headers are missing: a refusal. See processes.h.
#include "train/parallel/processes.h"

namespace slip {

Result<std::unique_ptr<Processes>> join(const Launch& launch) {
  if (launch.size == 1) return alone();
  return unsupported("processes: expected a build with libgloo-dev for {} of them, got one without", launch.size);
}

}  // namespace slip
