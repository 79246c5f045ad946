// SPDX-License-Identifier: Apache-2.0
// Files that a command reads stay as they are: none of them is one that it writes.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slip {

/// Files and folders by the options, or keys, that name them. Those that are empty are not asked for.
using FilesByOption = std::vector<std::pair<std::string_view, std::string>>;

/// kUsage where an output is an input, under whatever name. Devices and pipes may be both.
Status check_inputs_kept(const FilesByOption& inputs, const FilesByOption& outputs);

}  // namespace slip
