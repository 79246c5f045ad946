// SPDX-License-Identifier: Apache-2.0
// Completion of commands, options and values for bash, zsh and fish.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/pages/facts.h"

namespace slip::cli {

namespace {

using Value = OptionFacts::Value;

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

std::string names_of(const std::vector<CommandFacts>& commands) {
  std::string out;
  for (const CommandFacts& c : commands) out += (out.empty() ? "" : " ") + c.path.substr(c.path.rfind(' ') + 1);
  return out;
}

std::string options_of(const CommandFacts& command) {
  std::string out;
  for (const OptionFacts& o : command.options)
    for (const std::string& name : o.names) out += (out.empty() ? "" : " ") + name;
  return out;
}

bool offers_files(const OptionFacts& o) { return o.value == Value::kFile || o.value == Value::kText; }

// What bash's compgen shall offer for a value: "-W 'a b' -f", "-d"; empty for numbers.
std::string compgen(const OptionFacts& o) {
  std::string out;
  if (!o.choices.empty()) out = fmt::format("-W '{}'", fmt::join(o.choices, " "));
  if (o.choices.empty() && offers_files(o)) out = "-f";
  if (o.open && o.value == Value::kFile && !o.choices.empty()) out += " -f";
  if (o.value == Value::kFolder) out = "-d";
  return out;
}

}  // namespace

std::string bash_completion(const CommandFacts& program) {
  std::string steps, values, words;
  for (const CommandFacts* c : every_command(program)) {
    const size_t space = c->path.rfind(' ');
    if (!c->path.empty())
      steps += fmt::format("      '{}/{}') command='{}' ;;\n", space == std::string::npos ? "" : c->path.substr(0, space),
                           c->path.substr(space + 1), c->path);
    for (const OptionFacts& o : c->options)
      if (o.value != Value::kNone)
        for (const std::string& name : o.names) values += fmt::format("    '{}/{}') offer=\"{}\" ;;\n", c->path, name, compgen(o));
    const std::string first = c->positionals.empty() ? "" : compgen(c->positionals.front());
    words += fmt::format("      '{}') options='{}' offer=\"{}\" ;;\n", c->path, options_of(*c),
                         c->commands.empty() ? first : fmt::format("-W '{}'", names_of(c->commands)));
  }
  return fmt::format(
      "# bash completion for slipstream; made from its options\n"
      "_slipstream() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= options= offer= i\n"
      "  if [[ $current == '=' ]]; then current=; fi\n"
      "  if [[ $previous == '=' ]]; then previous=${{COMP_WORDS[COMP_CWORD - 2]}}; fi\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$command/${{COMP_WORDS[i]}}\" in\n{}      *) break ;;\n    esac\n  done\n"
      "  case \"$command/$previous\" in\n{}    *) previous= ;;\n  esac\n"
      "  if [[ -z $previous ]]; then\n"
      "    case $command in\n{}    esac\n"
      "    if [[ $current == -* ]]; then offer=\"-W '$options'\"; fi\n"
      "  fi\n"
      "  if [[ $offer == *-[df] ]]; then compopt -o filenames 2>/dev/null; fi\n"
      "  COMPREPLY=()\n"
      "  if [[ -n $offer ]]; then mapfile -t COMPREPLY < <(eval \"compgen $offer -- \\\"\\$current\\\"\"); fi\n"
      "}}\n"
      "complete -F _slipstream slipstream\n",
      steps, values, words);
}

namespace {

std::string zsh_text(std::string text) {
  for (const char* c : {"\\", "[", "]", ":"}) text = replaced(text, c, std::string("\\") + c);
  return replaced(text, "'", "'\\''");
}

std::string zsh_action(const OptionFacts& o) {
  std::vector<std::string> choices;
  for (const std::string& c : o.choices) choices.push_back(zsh_text(c));
  if (o.value == Value::kFolder) return "_files -/";
  if (!choices.empty() && o.open && o.value == Value::kFile)
    return fmt::format("{{compadd -- {}; _files}}", fmt::join(o.choices, " "));
  if (!choices.empty()) return fmt::format("({})", fmt::join(choices, " "));
  return offers_files(o) ? "_files" : " ";
}

std::string zsh_spec(const OptionFacts& o) {
  const std::string value = o.value == Value::kNone ? "" : fmt::format(":{}:{}", zsh_text(o.placeholder), zsh_action(o));
  const std::string repeat = o.repeatable ? "*" : "";
  if (o.names.empty()) return fmt::format("      '{}{}'", o.repeatable ? "*" : "", value);
  std::string out;
  for (const std::string& name : o.names)
    out += fmt::format("{}      '{}{}[{}]{}'", out.empty() ? "" : " \\\n", repeat, name, zsh_text(o.description), value);
  return out;
}

std::string zsh_arguments(const CommandFacts& c) {
  std::string out = "    _arguments";
  for (const OptionFacts& o : c.options) out += " \\\n" + zsh_spec(o);
  for (const OptionFacts& o : c.positionals) out += " \\\n" + zsh_spec(o);
  return out;
}

std::string zsh_name(const CommandFacts& c) { return c.path.empty() ? "_slipstream" : "_slipstream_" + replaced(c.path, " ", "_"); }

// The functions of the commands below, and one of the command's own, that knows its options or hands on to theirs.
std::string zsh_function(const CommandFacts& c) {
  if (c.commands.empty()) return fmt::format("{}() {{\n{}\n}}\n\n", zsh_name(c), zsh_arguments(c));
  std::string described, cases, functions;
  for (const CommandFacts& command : c.commands) {
    const std::string word = command.path.substr(command.path.rfind(' ') + 1);
    described += fmt::format("    '{}:{}'\n", word, zsh_text(command.description));
    cases += fmt::format("        {}) {} ;;\n", word, zsh_name(command));
    functions += zsh_function(command);
  }
  return functions + fmt::format(
                         "{}() {{\n  local curcontext=$curcontext state line\n  local -a commands=(\n{}  )\n{}"
                         " \\\n      '1: :->command' '*:: :->argument'\n"
                         "  case $state in\n    command) _describe command commands ;;\n    argument)\n"
                         "      case $words[1] in\n{}      esac ;;\n  esac\n}}\n\n",
                         zsh_name(c), described, replaced(zsh_arguments(c), "_arguments", "_arguments -C"), cases);
}

}  // namespace

std::string zsh_completion(const CommandFacts& program) {
  return "#compdef slipstream\n# zsh completion for slipstream; made from its options\n\n" + zsh_function(program) +
         "_slipstream \"$@\"\n";
}

namespace {

std::string fish_text(std::string text) { return "'" + replaced(replaced(std::move(text), "\\", "\\\\"), "'", "\\'") + "'"; }

std::string fish_option(const std::string& condition, const OptionFacts& o) {
  std::string out = fmt::format("complete -c slipstream -n '{}'", condition);
  for (const std::string& name : o.names) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (o.value != Value::kNone) out += offers_files(o) && (o.choices.empty() || o.open) ? " -r -F" : " -x";
  if (o.value == Value::kFolder)
    out += " -a '(__fish_complete_directories)'";
  else if (!o.choices.empty())
    out += fmt::format(" -a '{}'", fmt::join(o.choices, " "));
  return out + " -d " + fish_text(o.description) + "\n";
}

}  // namespace

std::string fish_completion(const CommandFacts& program) {
  std::string out =
      "# fish completion for slipstream; made from its options\n"
      "function __slipstream_at\n"
      "    set -l words (commandline -opc)\n"
      "    set -e words[1]\n"
      "    test (count $words) -ge (count $argv); or return 1\n"
      "    for i in (seq (count $argv))\n"
      "        test \"$words[$i]\" = \"$argv[$i]\"; or return 1\n"
      "    end\n"
      "end\n"
      "function __slipstream_before\n"
      "    set -l words (commandline -opc)\n"
      "    test (count $words) -eq (math (count $argv) + 1); and __slipstream_at $argv\n"
      "end\n"
      "complete -c slipstream -f\n";
  for (const CommandFacts* c : every_command(program)) {
    for (const CommandFacts& command : c->commands)
      out += fmt::format("complete -c slipstream -n '__slipstream_before {}' -a {} -d {}\n", c->path,
                         command.path.substr(command.path.rfind(' ') + 1), fish_text(command.description));
    const std::string condition = c->commands.empty() ? "__slipstream_at " + c->path : "__slipstream_before " + c->path;
    for (const OptionFacts& o : c->options) out += fish_option(condition, o);
    for (const OptionFacts& o : c->positionals) out += fish_option(condition, o);
  }
  return out;
}

}  // namespace slip::cli
