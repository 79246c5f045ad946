// SPDX-License-Identifier: Apache-2.0
// Small things that several commands share: printing, and reading what an option names.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "slipstream/form.h"

namespace slip::cli {

/// An error is one line, whatever a file's name or a library's words contain.
std::string one_line(std::string text);
/// {"kind", "exit_code", "message"}: what stands under "error" on stdout.
json::object error_json(const Error& e);
/// One JSON document on one line of stdout, in valid UTF-8: other bytes, as of a folder's name, become U+FFFD.
void print_json(const json::value& v);
/// What the library has to report, in JSON with what failed at its end under "error": still one document. Returns the outcome.
Status print_report(const slipstream::Report& report, bool json);
/// Has print_report told what failed?
bool failure_is_printed();
/// The result stands on stdout: what fails from now on is told on stderr alone.
void result_is_printed();
/// -q: results and errors alone; no progress, statistics, remarks or warnings.
bool& is_quiet();
/// Text to stdout as it is.
void print_text(std::string_view text);
/// A file's bytes; "-" is standard input: once (kUsage). kBadInput where that is closed, and beyond `most_bytes`. Messages name what was read
/// as name_of_input.
Result<std::string> read_input(const std::string& file, size_t most_bytes = size_t{1} << 30);
/// The same, and a pipe, as of `<(command)`, to its end.
Result<std::string> read_piped(const std::string& file, size_t most_bytes = size_t{1} << 30);
/// Of a schema, as of one in a file.
inline constexpr size_t kMostSchemaBytes = size_t{16} << 20, kMostTextBytes = size_t{64} << 20;
std::string name_of_input(const std::string& file);
bool is_stream(const std::string& file);

}  // namespace slip::cli
