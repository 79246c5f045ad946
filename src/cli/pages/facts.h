// SPDX-License-Identifier: Apache-2.0
// What the command line says of itself, and the pages made of it: man pages and shell completions. They come from the options that are
// parsed, so that none is missing and none is left over.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/error.h"

namespace CLI {
class App;
}

namespace slip::cli {

struct OptionFacts {
  enum class Value { kNone, kText, kNumber, kFile, kFolder };
  std::vector<std::string> names;    // "-h", "--help"; empty for a positional one
  std::string placeholder;           // "MODEL", "INT"; of a positional one its name
  std::string range;                 // "0 to 1024"; empty without
  std::vector<std::string> choices;  // that are known; a value may be another one where `open`
  bool open = false;
  Value value = Value::kNone;
  bool required = false, repeatable = false;
  std::string description;
};

struct CommandFacts {
  std::string path;  // "run", "bench forward"; empty: the program
  std::string description, footer;
  std::vector<OptionFacts> options, positionals;
  std::vector<CommandFacts> commands;
};

/// Hidden commands and options are left out.
CommandFacts facts_of(CLI::App& app);
/// The program's facts, its commands', and theirs, depth first.
std::vector<const CommandFacts*> every_command(const CommandFacts& program);

/// A page of roff for man(1), section 1.
std::string man_page(const CommandFacts& command, const CommandFacts& program, std::string_view version);
/// "slipstream-bench-forward".
std::string page_name(const CommandFacts& command);

std::string bash_completion(const CommandFacts& program);
std::string zsh_completion(const CommandFacts& program);
std::string fish_completion(const CommandFacts& program);

/// Writes `<folder>/man1/*.1`, `<folder>/slipstream.bash`, `<folder>/_slipstream` and `<folder>/slipstream.fish`.
slipstream::Status write_pages(CLI::App& app, const std::string& folder, std::string_view version);

}  // namespace slip::cli
