// SPDX-License-Identifier: Apache-2.0
// Man pages in roff (man(7)), one a command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/pages/facts.h"

namespace slip::cli {

namespace {

// Text that roff takes as it stands: no command at a line's beginning, minus signs that can be copied into a shell.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string call_of(const CommandFacts& c) { return c.path.empty() ? "slipstream" : "slipstream " + c.path; }

std::string synopsis(const CommandFacts& c) {
  std::string out = ".B " + roff(call_of(c)) + "\n";
  if (!c.commands.empty()) return out + ".I command\n.RI [ argument ...]\n";
  for (const OptionFacts& o : c.positionals)
    out += fmt::format("{}{}{}\n", o.required ? "" : "[", italic(o.placeholder), o.required ? "" : "]");
  const auto positional_too = [&](const OptionFacts& o) {
    return std::any_of(c.positionals.begin(), c.positionals.end(),
                       [&](const OptionFacts& p) { return p.description == o.description && p.placeholder == o.placeholder; });
  };
  for (const OptionFacts& o : c.options)
    if (o.required && !positional_too(o)) out += fmt::format("{} {}\n", bold(o.names.back()), italic(o.placeholder));
  return out + ".RI [ option ...]\n";
}

std::string option_head(const OptionFacts& o) {
  std::string out;
  for (const std::string& name : o.names) out += (out.empty() ? "" : ", ") + bold(name);
  if (o.value != OptionFacts::Value::kNone) out += (out.empty() ? "" : " ") + italic(o.placeholder);
  if (o.repeatable) out += " ...";
  return out;
}

std::string option_text(const OptionFacts& o) {
  std::string out = sentence(o.description);
  if (!o.open && !o.choices.empty()) out += fmt::format(" One of {}.", fmt::join(o.choices, ", "));
  if (!o.range.empty()) out += fmt::format(" {}.", sentence(o.range).substr(0, o.range.size()));
  return roff(out);
}

std::string option_list(const std::vector<OptionFacts>& options) {
  std::string out;
  for (const OptionFacts& o : options) out += ".TP\n" + option_head(o) + "\n" + option_text(o) + "\n";
  return out;
}

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nDone.\n"
    ".TP\n.B 1\nThe program is wrong.\n"
    ".TP\n.B 2\nAn option or argument is wrong.\n"
    ".TP\n.B 3\nA file or a request is wrong.\n"
    ".TP\n.B 4\nValid, but not done here.\n"
    ".TP\n.B 5\nMemory or a device is missing.\n"
    ".TP\n.B 6\nA check that was asked for failed.\n"
    ".TP\n.B 130\nInterrupted.\n";

constexpr std::string_view kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\n.B SLIPSTREAM_PLUGINS\nThe folder in which plug\\-ins of devices are looked for, in place of the library\\(aqs and the "
    "program\\(aqs own.\n";

std::string see_also(const CommandFacts& c, const CommandFacts& program) {
  std::vector<std::string> pages;
  if (!c.path.empty()) pages.push_back(page_name(program));
  const auto& others = c.commands.empty() ? program.commands : c.commands;
  for (const CommandFacts& other : others)
    if (other.path != c.path) pages.push_back(page_name(other));
  std::string out = ".SH SEE ALSO\n";
  for (size_t i = 0; i < pages.size(); ++i) out += fmt::format(".BR {} (1){}\n", roff(pages[i]), i + 1 < pages.size() ? "," : "");
  return out;
}

}  // namespace

std::string man_page(const CommandFacts& c, const CommandFacts& program, std::string_view version) {
  std::string out = fmt::format(".TH {} 1 \"\" \"slipstream {}\" \"User Commands\"\n", roff(upper(page_name(c))), version);
  std::string brief = c.description;
  if (c.path.empty()) brief = "exact, fast decoding of structured answers of driving models";
  out += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", roff(page_name(c)), roff(brief), synopsis(c));
  out += fmt::format(".SH DESCRIPTION\n{}\n", roff(sentence(c.description)));
  if (!c.footer.empty()) out += ".PP\n" + roff(c.footer) + "\n";
  if (!c.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandFacts& command : c.commands)
      out += fmt::format(".TP\n{}\n{}\n", bold(command.path), roff(sentence(command.description)));
  }
  if (!c.positionals.empty()) out += ".SH ARGUMENTS\n" + option_list(c.positionals);
  if (!c.options.empty()) out += ".SH OPTIONS\n" + option_list(c.options);
  out += kExitStatus;
  out += kEnvironment;
  return out + see_also(c, program);
}

}  // namespace slip::cli
