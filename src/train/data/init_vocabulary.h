// SPDX-License-Identifier: Apache-2.0
// Starting from a model that was trained with another tokenizer: tokens that both vocabularies spell alike keep their embedding.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace slip {

/// By id of the tokenizer in `to`: the id of the token with the same bytes in `from` (added tokens match added tokens), or -1.
Result<std::vector<int32_t>> rows_of_vocabulary(const std::string& from, const std::string& to);

}  // namespace slip
