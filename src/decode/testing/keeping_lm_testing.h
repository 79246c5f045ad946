// SPDX-License-Identifier: Apache-2.0
// A model that keeps its logits itself, as one on a device does (PassOutput::kept_NV): whoever reads PassOutput::logits_NV finds nothing there.
#pragma once
#include <utility>
#include <vector>

#include "lm/lm.h"

namespace slip::test {

class KeepingLm final : public Lm {
 public:
  explicit KeepingLm(Lm& inner) : inner_(inner) {}
  const LmInfo& info() const override { return inner_.info(); }
  Status forward(const Pass& pass, PassOutput& out) override {
    SLIP_TRY_(inner_.forward(pass, out));
    kept_NV_ = std::exchange(out.logits_NV, {});
    out.kept_NV = kept_NV_.data();
    return {};
  }

 private:
  Lm& inner_;
  std::vector<float> kept_NV_;
};

}  // namespace slip::test
