// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/pages/facts.h"

namespace slip::cli {
namespace {

struct Program {
  CLI::App app{"A program: it does things."};
  std::string model, dtype, drafter, form, file;
  std::vector<std::string> images;
  int threads = 0;
  bool json = false;

  Program() {
    app.require_subcommand(1);
    CLI::App* run = app.add_subcommand("run", "one answer");
    run->add_option("model,--model", model, "Hugging Face folder")->required()->type_name("MODEL");
    run->add_option("--dtype", dtype, "weights")->check(CLI::IsMember({"auto", "f32"}));
    run->add_option("--drafter", drafter, "none, diffusion, lookup[:N], model:DIR (overrides the preset's)");
    run->add_option("--decoder", dtype, "preset: ar, scaffold-ar; over a form, every one is exact");
    run->add_option("--form", form, "`model` (the folder's own), wod-e2e, drive-cot, or a file");
    run->add_option("--image", images, "camera images, front first");
    run->add_option("--threads", threads, "0: all")->check(CLI::Range(0, 64));
    run->add_flag("--json", json, "machine-readable");
    CLI::App* bench = app.add_subcommand("bench", "measurements");
    bench->add_subcommand("forward", "a pass's cost: it's a time")->add_option("--out", file, "JSON lines");
    app.add_subcommand("secret", "hidden")->group("");
  }
};

const OptionFacts* option(const CommandFacts& command, const std::string& name) {
  for (const OptionFacts& o : command.options)
    for (const std::string& n : o.names)
      if (n == name) return &o;
  return nullptr;
}

TEST(Facts, ComeFromTheOptionsAndLeaveHiddenCommandsOut) {
  Program p;
  const CommandFacts facts = facts_of(p.app);
  std::string paths;
  for (const CommandFacts* c : every_command(facts)) paths += c->path + ";";
  EXPECT_EQ(paths, ";run;bench;bench forward;");
  const CommandFacts& run = facts.commands.front();
  ASSERT_EQ(run.positionals.size(), 1U);
  EXPECT_EQ(run.positionals.front().value, OptionFacts::Value::kFolder);
  EXPECT_TRUE(option(run, "--model")->required);
  EXPECT_TRUE(option(run, "--image")->repeatable);
  EXPECT_EQ(option(run, "--threads")->value, OptionFacts::Value::kNumber);
  EXPECT_EQ(option(run, "--json")->value, OptionFacts::Value::kNone);
  EXPECT_EQ(option(run, "--dtype")->choices, (std::vector<std::string>{"auto", "f32"}));
}

TEST(Facts, OfferTheWordsThatADescriptionBeginsWith) {
  Program p;
  const CommandFacts run = facts_of(p.app).commands.front();
  EXPECT_EQ(option(run, "--drafter")->choices, (std::vector<std::string>{"none", "diffusion", "lookup", "model:"}));
  EXPECT_EQ(option(run, "--decoder")->choices, (std::vector<std::string>{"ar", "scaffold-ar"}));
  EXPECT_EQ(option(run, "--form")->choices, (std::vector<std::string>{"model", "wod-e2e", "drive-cot"}));
  EXPECT_TRUE(option(run, "--image")->choices.empty());
  EXPECT_TRUE(option(run, "--threads")->choices.empty());
}

TEST(ManPage, NamesEveryOptionWithMinusSignsThatCanBeCopied) {
  Program p;
  const CommandFacts facts = facts_of(p.app);
  const std::string page = man_page(facts.commands.front(), facts, "1.2.3");
  for (const char* text : {".TH SLIPSTREAM\\-RUN 1 \"\" \"slipstream 1.2.3\"", "slipstream\\-run \\- one answer",
                           "\\fB\\-\\-dtype\\fR \\fITEXT\\fR", "One of auto, f32.", "\\fB\\-\\-json\\fR\n", ".BR slipstream (1)"})
    EXPECT_NE(page.find(text), std::string::npos) << text << "\n" << page;
  const std::string program = man_page(facts, facts, "1.2.3");
  EXPECT_NE(program.find("\\fBrun\\fR\nOne answer."), std::string::npos) << program;
  EXPECT_EQ(program.find("secret"), std::string::npos);
}

TEST(Completion, QuotesWhatShellsWouldRead) {
  Program p;
  const CommandFacts facts = facts_of(p.app);
  EXPECT_NE(zsh_completion(facts).find("forward:a pass'\\''s cost\\: it'\\''s a time"), std::string::npos) << zsh_completion(facts);
  EXPECT_NE(fish_completion(facts).find("'a pass\\'s cost: it\\'s a time'"), std::string::npos) << fish_completion(facts);
  EXPECT_NE(bash_completion(facts).find("'run/--dtype') offer=\"-W 'auto f32'\""), std::string::npos) << bash_completion(facts);
}

}  // namespace
}  // namespace slip::cli
