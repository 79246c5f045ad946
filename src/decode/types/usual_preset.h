// SPDX-License-Identifier: Apache-2.0
// Which preset stands for a kind of request where none is named.
#pragma once
#include <string_view>

#include "decode/types/presets.h"

namespace slip {

/// The exact preset of presets.h for free text, for a form along a chain or for one along a graph; with the model's own drafts, or without.
constexpr std::string_view usual_preset(bool form, bool graph, bool drafts) {
  if (!form) return drafts ? preset("self-spec") : preset("ar");
  if (graph) return drafts ? preset("fields-spec") : preset("fields");
  return drafts ? preset("scaffold-spec") : preset("scaffold-ar");
}

}  // namespace slip
