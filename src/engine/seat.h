// SPDX-License-Identifier: Apache-2.0
// Where a request runs when it is not alone. The seat's owner gives it its own view of the model, and lets it use one at a time what only one
// can use. Without a seat a request takes its turn and has the whole model (turns.h).
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "decode/types/context.h"
#include "decode/types/method.h"

namespace slip {

class Seat {
 public:
  virtual ~Seat() = default;
  /// Around the stage encode: a tower has one set of buffers. kCancelled where nobody waits for the request any more.
  virtual Status begin_encode() = 0;
  virtual void end_encode() = 0;
  /// Room for the request's worst case before its first pass; waits for it. Points `context` at what the view knows of the prompt, which
  /// stays where it is while the view is used. kResource where it could never fit.
  virtual Result<Lm*> take(const Prompt& prompt, int64_t slots, const Method& method, DecodeContext& context) = 0;
  /// Where slots of the view lie in the model's arena; appended to `arena`. Of a view that was taken.
  virtual void places(std::span<const SlotSpan> slots, std::vector<SlotSpan>& arena) const = 0;
};

}  // namespace slip
