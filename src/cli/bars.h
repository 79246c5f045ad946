// SPDX-License-Identifier: Apache-2.0
// The library's progress as bars on stderr, one stage after the other.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "slipstream/error.h"

namespace slip::cli {

class Bars {
 public:
  /// For the library's functions; must not outlive this object.
  slipstream::Progress progress();
  void tell(std::string_view stage, int64_t done, int64_t total);
  void finish();

 private:
  std::string stage_;
  std::optional<Progress> bar_;
};

}  // namespace slip::cli
