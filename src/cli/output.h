// SPDX-License-Identifier: Apache-2.0
// Small things that several commands share: printing, dtype names, thread counts.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace slip::cli {

/// One JSON document on one line of stdout.
void print_json(const json::value& v);
/// Text to stdout as it is.
void print_text(std::string_view text);
/// A file's bytes; "-" is standard input.
Result<std::string> read_input(const std::string& file);
/// --threads: 0 means every core that this process may use.
int thread_count(int asked);

}  // namespace slip::cli
