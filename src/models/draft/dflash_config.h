// SPDX-License-Identifier: Apache-2.0
// config.json of a DFlash folder, read and held against its target; keys in dflash.h.
#pragma once
#include <filesystem>
#include <vector>

#include "models/model.h"

namespace slip {

struct DFlashConfig {
  DecoderOptions decoder;
  int32_t block = 16;
  TokenId mask;
  std::vector<int32_t> tap_layers;
  bool image_context = true;
  std::vector<TokenId> draft_vocab;  // empty: all
};

/// kBadInput where the two do not belong together: depth, width, vocabulary, tapped layers.
Result<DFlashConfig> read_dflash_config(const std::filesystem::path& folder, Model& target);

}  // namespace slip
