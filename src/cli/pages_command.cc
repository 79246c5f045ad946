// SPDX-License-Identifier: Apache-2.0
// `pages FOLDER`, for who installs and packs: man pages and shell completions of the options as they are (pages/facts.h). Not in --help.
#include "cli/options.h"
#include "cli/pages/facts.h"
#include "slipstream/model.h"

namespace slip::cli {

void pages_command(CLI::App& app, Chosen& chosen) {
  static std::string folder;
  static bool no_json = false;
  auto* c = app.add_subcommand("pages", "man pages and shell completions, made of the options")->group("");
  c->add_option("folder", folder, "folder to write")->required();
  c->callback([&app, &chosen] { chosen = {[&app] { return write_pages(app, folder, slipstream::version()); }, &no_json}; });
}

}  // namespace slip::cli
