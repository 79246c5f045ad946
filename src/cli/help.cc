// SPDX-License-Identifier: Apache-2.0
// What the command line says of itself beside its options: the command `help`, the project's words, and what was probably meant by a name
// that nothing has.
#include <fmt/ranges.h>
#include <algorithm>

#include "base/words/near_word.h"
#include "cli/options.h"
#include "cli/output.h"

namespace slip::cli {

namespace {

constexpr std::string_view kWords =
    "The words of Slipstream, as its options and results use them.\n"
    "\n"
    "  form           the structure of an answer: fixed tokens (the scaffold) and fields to fill; written as a JSON Schema\n"
    "  field          a blank of a form: a name, a budget of tokens, what it may contain, the fields that it depends on (parents)\n"
    "  section        a run of fields that the training treats alike; may have a temperature of its own\n"
    "  visibility     who sees whom in an answer. chain: every value sees all before it. graph: a value sees its parents' values\n"
    "  pass           one run of the model over a set of rows (forward pass); prefill: the pass over the prompt\n"
    "  draft          a guess at the next tokens; verify: one pass checks all of a draft; commit: what held is kept. Together a "
    "round\n"
    "  drafter        who guesses: the model itself (diffusion, quadratic), another model, a draft head, an earlier answer, the "
    "text\n"
    "  verifier       what may be kept. exact: what the model itself would have drawn, token for token. Others may answer "
    "otherwise (lossy)\n"
    "  draft length   how many tokens a draft has (--width)\n"
    "  preset         a choice of all these with a name: --decoder scaffold-spec. Every exact one gives the same answer\n"
    "  rollouts       several sampled answers to one request, whose trajectories are averaged\n"
    "  record         a scene with pictures, ego history and the truth, in a record set (`slipstream simulate`)\n"
    "  ego            the car itself; its frame: x forward, y to the left, metres, the origin at the car now\n"
    "  slots          rows that the key/value cache holds: prompt, answer and drafts\n"
    "  packed folder  a model folder whose weights `slipstream quantize` has laid out for this program\n";

// " (did you mean --prompt?)", or nothing where no name is near.
std::string meant(std::string_view given, const std::vector<std::string>& names) {
  const std::string word = near_word(given, names);
  return word.empty() ? "" : fmt::format(" (did you mean {}?)", word);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); }))
    out.push_back(c->get_name());
  return out;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) out.push_back("--" + name);
  return out;
}

Status help(const CLI::App& app, const std::vector<std::string>& command) {
  if (command == std::vector<std::string>{"words"}) {
    print_text(kWords);
    return {};
  }
  const CLI::App* c = &app;
  for (const std::string& name : command) {
    const auto all = c->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == name; });
    if (all.empty())
      return usage_error("help: expected a command of `slipstream --help`, or words, got {}{}", name,
                         meant(name, command_names(*c)));
    c = all.front();
  }
  // Not c->help(), which goes on to the command that was given: this one.
  const std::string name = fmt::format("slipstream{}{}", command.empty() ? "" : " ", fmt::join(command, " "));
  print_text(c->get_formatter()->make_help(c, name, CLI::AppFormatMode::Normal));
  return {};
}

void tidy_defaults(CLI::Option& o) {
  const std::string text = o.get_default_str();
  if (o.get_items_expected_max() == 0 || text == "[]" || text == "{}" || text == "\"\"" || text == "-1")
    o.default_str("");  // -1: nothing was asked for
}

}  // namespace

void add_common(CLI::App& app) {
  for (CLI::App* c : app.get_subcommands([](CLI::App*) { return true; })) {
    add_common(*c);
    if (c->get_require_subcommand_min() > 0 || c->get_group().empty()) continue;
    c->add_flag("-q,--quiet", is_quiet(), "results and errors alone: no progress, statistics, remarks or warnings");
  }
  for (CLI::Option* o : app.get_options()) tidy_defaults(*o);
}

void help_command(CLI::App& app, Chosen& chosen) {
  static std::vector<std::string> command;
  static bool no_json = false;
  auto* c = app.add_subcommand("help", "a command's options (help run), or the project's words explained (help words)");
  c->add_option("command", command, "the command, or words");
  c->callback([&app, &chosen] { chosen = {[&app] { return help(app, command); }, &no_json}; });
}

// CLI11 says of a mistyped command only that one is required, and lists what it did not expect from the last to the first.
Error usage_of(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* c = &app;
  std::string command;
  for (; !c->get_subcommands().empty(); command += c->get_name() + " ") c = c->get_subcommands().front();
  const std::vector<std::string> left = c->remaining();
  if (c->get_require_subcommand_min() > 0 && !left.empty() && !left.front().starts_with('-'))
    return usage_error("command line: expected a command of `slipstream {}--help`, got {}{}", command, left.front(),
                       meant(left.front(), command_names(*c)));
  const std::vector<std::string> others = app.remaining(true);
  const auto option = std::find_if(others.begin(), others.end(), [](const std::string& word) { return word.starts_with("--"); });
  const std::string hint = option == others.end() ? "" : meant(option->substr(0, option->find('=')), option_names(*c));
  if (dynamic_cast<const CLI::ExtrasError*>(&e))
    return usage_error("command line: expected arguments as in `slipstream {}--help`, got others: {}{}", command,
                       fmt::join(others, " "), hint);
  // What is missing may be what was mistyped.
  const std::string mistyped = hint.empty() ? "" : fmt::format("; and {}{}", *option, hint);
  return usage_error("command line: expected arguments as in `slipstream {}--help`, got: {}{}", command, e.what(), mistyped);
}

}  // namespace slip::cli
