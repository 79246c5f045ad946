// SPDX-License-Identifier: Apache-2.0
// What the library says of itself.
#include "decode/types/words.h"
#include "kernels/kernels.h"
#include "slipstream/model.h"
#include "slipstream/request.h"

#include "slip_commit.h"  // made by the build

namespace slipstream {

std::string_view version() { return SLIPSTREAM_VERSION; }
std::string_view commit() { return SLIPSTREAM_COMMIT; }
std::string instruction_set() { return slip::isa_choice().reason; }

std::string decoder_words(std::string_view part) {
  if (part == "preset") return slip::preset_usage();
  if (part == "schedule") return slip::part_usage(slip::Part::kSchedule);
  if (part == "drafter") return slip::part_usage(slip::Part::kDrafter);
  if (part == "verifier") return slip::part_usage(slip::Part::kVerifier);
  if (part == "width") return slip::part_usage(slip::Part::kDraftLength);
  return {};
}

}  // namespace slipstream
