// SPDX-License-Identifier: Apache-2.0
// See output.h.
#include "cli/output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/standard_streams.h"
#include "slipstream/model.h"

namespace slip::cli {

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return slipstream::to_valid_utf8(text);
}

json::object error_json(const Error& e) {
  static constexpr const char* kNames[] = {"ok", "internal", "usage", "bad_input", "unsupported", "resource", "check_failed"};
  const int kind = static_cast<int>(e.kind);
  return {{"kind", kind < 7 ? kNames[kind] : "cancelled"}, {"exit_code", kind}, {"message", one_line(e.message)}};
}

void print_json(const json::value& v) { print_text(slipstream::to_valid_utf8(json::serialize(v)) + "\n"); }

namespace {
bool told = false;
}

Status print_report(const slipstream::Report& report, bool json) {
  if (!json) print_text(report.text);
  if (!is_quiet()) say(report.remarks);
  if (!json || report.json.empty()) return report.outcome;
  std::string line = report.json;
  if (!report.outcome) {
    line.pop_back();  // the object's end
    line += fmt::format(",\"error\":{}}}", slipstream::to_valid_utf8(json::serialize(error_json(report.outcome.error()))));
    told = true;
  }
  print_text(line + "\n");
  return report.outcome;
}

bool failure_is_printed() { return told; }
void result_is_printed() { told = true; }

bool& is_quiet() {
  static bool quiet = false;
  return quiet;
}

Result<std::string> read_piped(const std::string& file, size_t most_bytes) {
  return file == "-" ? read_input(file, most_bytes) : read_stream(file, most_bytes);
}

std::string name_of_input(const std::string& file) { return file == "-" ? "standard input" : file; }

bool is_stream(const std::string& file) {
  std::error_code ec;
  return file == "-" || std::filesystem::is_fifo(file, ec);
}

void print_text(std::string_view text) {
  // What could not be printed is asked of the stream when the command ends.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
  static_cast<void>(std::fflush(stdout));
}

Result<std::string> read_input(const std::string& file, size_t most_bytes) {
  if (file != "-") return read_file(file, most_bytes);
  static bool read_before = false;
  if (std::exchange(read_before, true)) return usage_error("standard input: expected one option that reads it (-), got several");
  std::string text;
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, part.data(), part.size());
    if (n == 0) return text;
    SLIP_TRY_(check_interrupt());  // while it waited
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad_input("standard input: expected bytes to read, got: {}", std::strerror(errno));
    text.append(part.data(), static_cast<size_t>(n));
    if (text.size() > most_bytes) return bad_input("standard input: expected at most {} bytes, got more", most_bytes);
  }
}

}  // namespace slip::cli
