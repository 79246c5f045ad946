// SPDX-License-Identifier: Apache-2.0
// Stands in for record_source.cc in a tree without it: refuses, and says so.
#include "train/source.h"

namespace slip {

Result<std::unique_ptr<SampleSource>> make_record_source(const json::object& data, const std::string&) {
  return unsupported("data: expected kind \"toy\", got {}", json::serialize(data));
}

}  // namespace slip
