// SPDX-License-Identifier: Apache-2.0
// The command lines of what makes model folders and files that belong in them: quantize, synthesize, grow, convert, codebook.
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/options.h"

namespace slip::cli {

void quantize_command(CLI::App& app, Chosen& chosen) {
  static QuantizeCommand o;
  auto* c = app.add_subcommand("quantize", "a packed copy of a model folder, mapped at start, with a report of its errors");
  add_model(c, o.model);
  c->add_option("--type", o.options.type, "int8, int4, bf16, f32")
      ->required()
      ->check(CLI::IsMember({"int8", "int4", "bf16", "f32"}));
  c->add_option("--out", o.out, "folder to write")->required();
  c->add_option("--records", o.options.records, "simulated records whose greedy answers are compared, for driving models; 0: none")
      ->check(whole(0, 10000));
  c->add_flag_callback(
      "--no-compare", [] { o.options.compare = false; }, "leave out what needs both models to run");
  add_threads(c, o.options.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return quantize(o); }, &o.json}; });
}

void synthesize_command(CLI::App& app, Chosen& chosen) {
  static SynthesizeCommand o;
  auto* c = app.add_subcommand("synthesize", "a random-weight model folder of a real shape, for benchmarks");
  c->add_option("--like", o.options.like, "the shape: " + fmt::format("{}", fmt::join(slipstream::synthetic_shapes(), ", ")))
      ->required();
  c->add_option("--dtype", o.options.dtype, "numbers as stored: bf16, f32, f16, fp8 (128 x 128 scales)");
  c->add_option("--out", o.out, "folder to write")->required();
  c->add_option("--seed", o.options.seed, "seed of the numbers")->check(seed_number());
  c->add_option("--layers", o.options.layers, "a thinner one: decoder layers, towers in proportion; 0: all")->check(whole(0, 1024));
  c->add_flag("--tiny", o.options.tiny, "the same family at the widths of a unit test");
  c->add_option("--tokenizer", o.options.tokenizer,
                "the released tokenizer's files (tokenizer.json, or vocab.json and merges.txt); none: bytes and made-up words");
  add_threads(c, o.options.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return synthesize(o); }, &o.json}; });
}

void grow_command(CLI::App& app, Chosen& chosen) {
  static GrowCommand o;
  auto* c = app.add_subcommand("grow", "a larger model with the same answers, for measuring time: it knows nothing more");
  add_model(c, o.model);
  c->add_option("--times", o.times, "hidden size and heads, times 1, 4, 16 or 64")->check(whole(1, 64));
  c->add_option("--mlp", o.mlp, "the MLP's width, times this beyond --times")->check(whole(1, 64));
  c->add_option("--layers", o.layers, "layers, times this")->check(whole(1, 64));
  c->add_option("--out", o.out, "folder to write")->required();
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return grow(o); }, &o.json}; });
}

void convert_command(CLI::App& app, Chosen& chosen) {
  static ConvertCommand o;
  auto* c = app.add_subcommand("convert", "a native Prismatic checkpoint (MiniVLA's .pt) as a Hugging Face folder");
  c->add_option("source", o.source, "the .pt file, or the run's folder")->required()->type_name("FILE.pt|DIR");
  c->add_option("--out", o.out, "folder to write")->required();
  c->add_option("--tokenizer", o.tokenizer, "folder with the text model's tokenizer; MiniVLA's extra tokens are added to it");
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return convert(o); }, &o.json}; });
}

void codebook_command(CLI::App& app, Chosen& chosen) {
  constexpr int64_t kMostScenes = 10'000'000;  // minutes of them are enough
  static CodebookCommand o;
  auto* c = app.add_subcommand("codebook", "the codes that a model may answer its trajectory in, out of how cars drive in records");
  c->add_option("--out", o.out, "JSON file to write");
  c->add_option("--measure", o.measure, "tell the error of this codebook instead of making one")->excludes("--out");
  c->add_option("--records", o.options.records, "record set; without it, scenes are simulated from --seed");
  c->add_option("--seed", o.options.first_seed, "first seed of simulated scenes")->check(seed_number());
  c->add_option("--count", o.options.count, "records (0: the whole set, or 10,000 simulated ones)")
      ->check(whole(int64_t{0}, kMostScenes));
  c->add_option("--codes", o.options.codes, "how many codes there are")->check(whole(2, 65536))->excludes("--measure");
  c->add_option("--steps", o.options.steps, "tenths of a second in a code")->check(whole(1, 64))->excludes("--measure");
  c->add_option("--tokenizer", o.options.tokenizer,
                "folder whose tokenizer is written beside --out with <|code_0|>, <|code_1|>, .. behind its tokens")
      ->excludes("--measure");
  c->add_option("--length", o.options.length, "codes in a trajectory of 6.4 s; 0: as many as it takes")->check(whole(0, 64));
  c->add_option("--iterations", o.options.iterations, "rounds of k-means")->check(whole(0, 1000))->excludes("--measure");
  c->add_option("--draw", o.options.seed, "which pieces the rounds begin with")->check(seed_number())->excludes("--measure");
  add_json(c, o.json);
  c->callback([&chosen] {
    if (o.out.empty() && o.measure.empty()) throw CLI::RequiredError("--out or --measure");
    chosen = {[] { return codebook(o); }, &o.json};
  });
}

}  // namespace slip::cli
