// SPDX-License-Identifier: Apache-2.0
// See output.h.
#include "cli/output.h"

#include <iostream>
#include <iterator>

#include "base/file.h"
#include "base/threads.h"

namespace slip::cli {

void print_json(const json::value& v) { print_text(json::serialize(v) + "\n"); }

void print_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Result<std::string> read_input(const std::string& file) {
  if (file != "-") return read_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

int thread_count(int asked) { return asked > 0 ? asked : usable_threads(); }

}  // namespace slip::cli
