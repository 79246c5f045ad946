// SPDX-License-Identifier: Apache-2.0
// See inputs.h.
#include "api/tools/inputs.h"

#include <filesystem>

namespace slip::api {

FilesByOption files_of_choice(const slipstream::DecoderChoice& choice) {
  namespace fs = std::filesystem;
  FilesByOption out;
  for (const auto& [option, words] : {std::pair<std::string_view, const std::string*>{"--drafter", &choice.drafter},
                                      {"--verifier", &choice.verifier},
                                      {"--width", &choice.width}}) {
    const size_t colon = words->find(':');
    std::error_code ec;
    if (colon == std::string::npos || !fs::exists(words->substr(colon + 1), ec)) continue;
    out.emplace_back(option, words->substr(colon + 1));
  }
  return out;
}

}  // namespace slip::api
