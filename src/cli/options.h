// SPDX-License-Identifier: Apache-2.0
// Options that several commands share, and the checks of values: each reads the whole text, so that nothing is wrapped, cut or read in
// another base on its way to a number. CLI11 is a heavy header: it comes in here and nowhere else.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace slip::cli {

/// What the parsed command line asks for, and whether it wants JSON.
struct Chosen {
  std::function<Status()> go;
  bool* json = nullptr;
};

/// A whole number from `least` to `most` in plain digits: no other base, no plus, no leading zeros or blanks. `words` stand in --help.
template <class T>
CLI::Validator whole(T least, T most, std::string words) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool padded = text.starts_with("-0") || (text.starts_with('0') && text.size() > 1);
    if (error == std::errc{} && stop == end && !padded && value >= least && value <= most) return "";
    return fmt::format("expected a whole number from {} to {} in plain digits, got {}", least, most,
                       text.empty() ? "nothing" : text);
  };
  return CLI::Validator(check, std::move(words));
}
template <class T>
CLI::Validator whole(T least, T most) {
  return whole(least, most, fmt::format("{} to {}", least, most));
}
/// Any 64 bits.
CLI::Validator seed_number();
/// A finite number from `least` to `most`; above `least` alone with `number_above`.
CLI::Validator number(double least, double most);
CLI::Validator number_above(double least, double most);

/// Words of an option's list, each of which may stand there once.
template <class T>
void refuse_twice(const char* option, const std::vector<T>& list) {
  for (auto at = list.begin(); at != list.end(); ++at)
    if (std::find(list.begin(), at, *at) != at)
      throw CLI::ValidationError(option, fmt::format("expected each once, got {} twice", *at));
}
/// An option that was given says nothing beside another one.
void refuse_beside(const CLI::App& c, const char* option, const char* other);

void add_json(CLI::App* c, bool& json);
void add_model(CLI::App* c, std::string& model);
void add_model_flag(CLI::App* c, std::string& model, bool required);
/// Without `automatic` (forward): f32, except for a packed folder, which has its own type.
void add_dtype(CLI::App* c, std::string& dtype, bool automatic);
void add_device(CLI::App* c, std::string& device);
void add_kv(CLI::App* c, std::string& kv);
/// The four of how a model is loaded: dtype, device, kv, threads.
void add_engine(CLI::App* c, slipstream::EngineOptions& o);
void add_threads(CLI::App* c, int& threads);
std::string forms_help();
void add_method_options(CLI::App* c, slipstream::DecoderChoice& decoder);
/// A request; `method`: which decoder is the caller's choice too.
void add_run_options(CLI::App* c, RunOptions& o, bool method = true);
/// No option takes an empty text (a script's unset variable), but for those whose text is data: --prompt, --text, --ids.
void refuse_empty_texts(CLI::App& app);

/// What holds for every command: -q/--quiet, defaults in help texts (help.cc).
void add_common(CLI::App& app);
/// The command `help [COMMAND]`, and `help words`: the project's words explained.
void help_command(CLI::App& app, Chosen& chosen);
/// What CLI11 says of wrong usage in the project's words, with the name that was probably meant.
Error usage_of(const CLI::App& app, const CLI::ParseError& e);

/// The subcommands of `bench` (bench/options.cc).
void bench_commands(CLI::App& app, Chosen& chosen);
/// quantize, codebook, synthesize, grow, convert (folder_options.cc).
void quantize_command(CLI::App& app, Chosen& chosen);
void codebook_command(CLI::App& app, Chosen& chosen);
void synthesize_command(CLI::App& app, Chosen& chosen);
void grow_command(CLI::App& app, Chosen& chosen);
void convert_command(CLI::App& app, Chosen& chosen);
/// The server (serve_command.cc).
void serve_command(CLI::App& app, Chosen& chosen);
/// The hidden command that writes man pages and completions (pages_command.cc).
void pages_command(CLI::App& app, Chosen& chosen);

}  // namespace slip::cli
