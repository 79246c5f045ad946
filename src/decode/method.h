// SPDX-License-Identifier: Apache-2.0
// The parts of a decoder as words of the command line:
//   --schedule text|chain|sections|fields
//   --drafter none|diffusion[:lora|:ahead]|quadratic|model:DIR|coupled:DIR|dflash:DIR|lookup[:N]|previous:FILE
//   --verifier exact|rejection|relaxed:R|ensemble:L|confidence:T|sampler:DIR      --width fixed:N|blocks|measured[:FILE]|blockpilot:FILE
#pragma once
#include <string>
#include <string_view>

#include "decode/decode.h"

namespace slip {

/// Replaces parts of a preset; an empty word leaves the preset's. kUsage for a word that is none, kUnsupported with the reason for a
/// combination that makes no sense (sections without diffusion and a lossy verifier, rejection without drafts, ...).
Result<Method> with_parts(Method method, std::string_view schedule, std::string_view drafter, std::string_view verifier,
                          std::string_view width);

}  // namespace slip
