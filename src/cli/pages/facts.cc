// SPDX-License-Identifier: Apache-2.0
// See facts.h: what CLI11 knows of the options.
#include "cli/pages/facts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

namespace slip::cli {

namespace {

using slipstream::Error;
using slipstream::ErrorKind;
using slipstream::Status;

bool is_word(std::string_view text) {
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-:") == std::string_view::npos;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return out;
}

// "none, diffusion, lookup[:N], previous:FILE, model:DIR" at a description's beginning, maybe behind "preset: ": the words that are offered.
// What follows a word's optional or variable part is the user's.
std::vector<std::string> listed_words(std::string_view description) {
  const size_t colon = description.find(": ");
  if (colon != std::string_view::npos && description.find_first_of(",;(") > colon) description.remove_prefix(colon + 2);
  std::vector<std::string> out;
  for (const std::string& part : split(description, ", ")) {
    const size_t end = std::min(part.find_first_of(" ;("), part.size());
    const std::string_view rest = std::string_view(part).substr(end);
    std::string word = part.substr(0, end);
    word = word.substr(0, word.find_first_of("[ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    if (word.size() > 1 && word.starts_with('`') && word.ends_with('`')) word = word.substr(1, word.size() - 2);
    if (!is_word(word) || !(rest.empty() || rest.starts_with(';') || rest.starts_with(" ("))) break;
    out.push_back(std::move(word));
    if (rest.starts_with(';')) break;
  }
  return out.size() > 1 ? out : std::vector<std::string>{};
}

// "TEXT:{auto,f32}" or "INT:0 to 1024", as CLI11 puts it.
void read_type(const std::string& type, OptionFacts& out) {
  const size_t colon = type.find(':');
  out.placeholder = type.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : type.substr(colon + 1);
  if (rest.starts_with('{') && rest.ends_with('}'))
    out.choices = split(std::string_view(rest).substr(1, rest.size() - 2), ",");
  else if (rest.find(" to ") != std::string::npos)
    out.range = rest;
}

OptionFacts::Value value_of(const OptionFacts& o, std::string_view name) {
  static constexpr std::string_view kFolders[] = {"--model",     "--video",       "--records", "--resume",
                                                  "--tokenizer", "--draft-model", "--dflash"};
  static constexpr std::string_view kFiles[] = {"--image",   "--ego",    "--file",    "--rows",        "--out",    "--trace",
                                                "--picture", "--config", "--require", "--prompt-file", "--record", "--calibrate"};
  const auto among = [&](const auto& names) { return std::find(std::begin(names), std::end(names), name) != std::end(names); };
  if (o.placeholder == "MODEL" || among(kFolders)) return OptionFacts::Value::kFolder;
  if (among(kFiles) || name == "--form" || o.placeholder == "FORM" || o.placeholder.find("FILE") != std::string::npos)
    return OptionFacts::Value::kFile;
  if (o.placeholder == "INT" || o.placeholder == "UINT" || o.placeholder == "FLOAT") return OptionFacts::Value::kNumber;
  return OptionFacts::Value::kText;
}

OptionFacts facts_of(const CLI::Option& o) {
  OptionFacts out;
  for (const std::string& name : o.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : o.get_lnames()) out.names.push_back("--" + name);
  out.description = o.get_description();
  out.required = o.get_required();
  if (o.get_items_expected_max() == 0) return out;
  read_type(o.get_type_name(), out);
  out.repeatable = o.get_items_expected_max() > 1;
  out.value = value_of(out, out.names.empty() ? "" : out.names.back());
  if (out.choices.empty() && out.value != OptionFacts::Value::kNumber) {
    out.choices = listed_words(out.description);
    out.open = true;
  }
  return out;
}

CommandFacts facts_of(CLI::App& app, const std::string& path) {
  CommandFacts out{.path = path,
                   .description = app.get_description(),
                   .footer = app.get_footer(),
                   .options = {},
                   .positionals = {},
                   .commands = {}};
  for (CLI::Option* o : app.get_options()) {
    if (o->get_group().empty()) continue;
    OptionFacts facts = facts_of(*o);
    if (!facts.names.empty()) out.options.push_back(facts);
    if (!o->get_positional()) continue;
    facts.names.clear();
    if (o->get_type_name().empty() || facts.placeholder == "TEXT") facts.placeholder = o->get_name(true);
    out.positionals.push_back(std::move(facts));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App* c) { return !c->get_group().empty(); }))
    out.commands.push_back(facts_of(*command, path.empty() ? command->get_name() : path + " " + command->get_name()));
  return out;
}

void collect(const CommandFacts& command, std::vector<const CommandFacts*>& out) {
  out.push_back(&command);
  for (const CommandFacts& c : command.commands) collect(c, out);
}

Status write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) return Error{ErrorKind::kResource, file.string() + ": expected to write it, got an error of the file system"};
  return {};
}

}  // namespace

CommandFacts facts_of(CLI::App& app) { return facts_of(app, ""); }

std::vector<const CommandFacts*> every_command(const CommandFacts& program) {
  std::vector<const CommandFacts*> out;
  collect(program, out);
  return out;
}

std::string page_name(const CommandFacts& command) {
  std::string name = command.path.empty() ? "slipstream" : "slipstream-" + command.path;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

Status write_pages(CLI::App& app, const std::string& folder, std::string_view version) {
  const CommandFacts program = facts_of(app);
  const std::filesystem::path root(folder);
  std::error_code ec;
  std::filesystem::create_directories(root / "man1", ec);
  if (ec) return Error{ErrorKind::kResource, folder + ": expected to make the folder, got: " + ec.message()};
  for (const CommandFacts* command : every_command(program))
    if (Status s = write(root / "man1" / (page_name(*command) + ".1"), man_page(*command, program, version)); !s) return s;
  if (Status s = write(root / "slipstream.bash", bash_completion(program)); !s) return s;
  if (Status s = write(root / "_slipstream", zsh_completion(program)); !s) return s;
  return write(root / "slipstream.fish", fish_completion(program));
}

}  // namespace slip::cli
