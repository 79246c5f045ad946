// SPDX-License-Identifier: Apache-2.0
// What a model folder says of its tokens, without its weights: enough to compile a form for it.
#pragma once
#include <string>

#include "form/schema/schema.h"
#include "models/model.h"

namespace slip::api {

struct FolderTokens {
  Tokenizer tokenizer;
  DraftRule rule;
  int32_t vocab = 0, max_positions = 0;  // 0: not told
  bool graph = false;                    // what the folder was trained for

  /// kBadInput for a folder without a tokenizer; errors of its configuration.
  static Result<FolderTokens> load(const std::string& folder);
  /// Points into this object.
  FormTokens of_form() const;
};

}  // namespace slip::api
