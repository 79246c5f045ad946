// SPDX-License-Identifier: Apache-2.0
// The binary `slipstream`: parses the command line (CLI11, through options.h), calls one function of commands.h and turns its Status
// into an exit code and one line on stderr (with --json also {"error": ...} on stdout).
#include <fmt/ranges.h>
#include <cstdio>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/standard_streams.h"
#include "cli/options.h"
#include "cli/output.h"

namespace slip::cli {
namespace {

constexpr int64_t kMostRecords = 1'000'000'000;  // 1.7 PB of pictures: a slip of the hand, not a plan
constexpr int64_t kMostSteps = 1'000'000'000;    // a century at three a second
constexpr double kMostMinutes = 1e6;             // two years

void inspect_command(CLI::App& app, Chosen& chosen) {
  static InspectOptions o;
  auto* c = app.add_subcommand("inspect", "architecture, sizes, attributes, tokenizer and memory need of a model folder");
  add_model(c, o.model);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return inspect(o); }, &o.json}; });
}

void tokenize_commands(CLI::App& app, Chosen& chosen) {
  static TokenizeOptions t;
  auto* c = app.add_subcommand("tokenize", "text to ids and pieces");
  add_model_flag(c, t.model, true);
  auto* text = c->add_option("--text", t.text, "the text itself");
  c->add_option("--file", t.file, "a file, - for standard input")->excludes(text);
  c->add_flag("--lossy", t.lossy, "read invalid UTF-8 as U+FFFD instead of refusing it");
  add_json(c, t.json);
  c->callback([&chosen, text] {
    t.has_text = text->count() > 0;
    chosen = {[] { return tokenize(t); }, &t.json};
  });
  static DetokenizeOptions d;
  auto* e = app.add_subcommand("detokenize", "ids to text");
  add_model_flag(e, d.model, true);
  auto* ids = e->add_option("--ids", d.ids, "ids, separated by spaces or commas");
  e->add_option("--file", d.file, "a file with ids or a JSON array, - for standard input")->excludes(ids);
  e->add_flag("--skip-special", d.skip_special, "leave special tokens out");
  add_json(e, d.json);
  e->callback([&chosen, ids] {
    d.has_ids = ids->count() > 0;
    chosen = {[] { return detokenize(d); }, &d.json};
  });
}

void preprocess_command(CLI::App& app, Chosen& chosen) {
  static PreprocessOptions o;
  auto* c = app.add_subcommand("preprocess", "images as the vision tower gets them: pixel_values and grid_thw");
  add_model_flag(c, o.model, true);
  c->add_option("--image", o.images, "image files (JPEG, PNG, WebP, PPM)")->required();
  c->add_option("--out", o.out, "safetensors file to write")->required();
  c->add_option("--alpha", o.alpha, "transparency: drop (as transformers) or white (composited)")
      ->check(CLI::IsMember({"drop", "white"}));
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return preprocess(o); }, &o.json}; });
}

void forward_command(CLI::App& app, Chosen& chosen) {
  static ForwardCommand o;
  auto* c = app.add_subcommand("forward", "logits of rows with explicit visibility");
  add_model_flag(c, o.model, true);
  c->add_option("--rows", o.rows, "rows file (JSON), - for standard input")->required();
  c->add_option("--out", o.out, "safetensors file to write: logits_TV, f32")->required();
  add_dtype(c, o.options.dtype, false);
  add_device(c, o.options.device);
  add_threads(c, o.options.threads);
  c->add_option("--split", o.options.split, "passes of at most W rows through the cache; 0: one pass")
      ->check(whole<int64_t>(0, slipstream::kMostRows));
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return forward(o); }, &o.json}; });
}

void form_command(CLI::App& app, Chosen& chosen) {
  static FormOptions o;
  auto* c = app.add_subcommand("form", "a form explained: fixed tokens, fields, budgets, blocks, graph, critical path");
  c->add_option("form", o.form, forms_help() + "; - for a schema on standard input")->required()->type_name("FORM");
  c->add_option("-m,--model", o.model, "Hugging Face folder; without it counts of tokens are upper bounds")->type_name("MODEL");
  c->add_option("--unnorm-key", o.unnorm_key, "with a model of actions: whose statistics give the number of its numbers");
  c->add_flag("--schema", o.schema, "print the form's JSON Schema document instead; with --check nothing more");
  c->add_flag("--check", o.check, "say only whether the schema is supported, or all that is wrong with it, with JSON pointers")
      ->excludes("--unnorm-key");
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return form(o); }, &o.json}; });
}

void run_command(CLI::App& app, Chosen& chosen) {
  static RunOptions o;
  auto* c = app.add_subcommand("run", "one answer");
  add_run_options(c, o);
  c->get_option("--log-forced")->needs("--json");
  c->add_flag("--verbose", o.verbose, "say which decoder --decoder auto took, and what it expected of the others")->group("Output");
  c->add_option("--trace", o.trace, "Chrome trace JSON to write: every pass with its own time")->group("Output");
  c->add_option("--picture", o.picture, "PNG (or .svg) to write: cameras with the plan, the form, the plan from above")
      ->group("Output");
  c->add_flag("--stream", o.stream,
              "show the answer as it grows: free text as it comes, a form's fields as they are decided "
              "(free text on a terminal does so by itself)")
      ->excludes("--json")
      ->group("Output");
  auto* out = c->add_option(
      "--out", o.out, "JSON lines to write, one an answer; OUT.partial until all are there, from which a stopped run goes on");
  auto* records = c->add_option("--records", o.records, "a record set: an answer for each record")->needs(out);
  auto* batch =
      c->add_option(
           "--batch", o.batch,
           "a file of OpenAI's batch format: an answer for each line; requests with \"trajectory_head\": true are planned by "
           "--trajectory-head, the one option of an answer that stands beside it")
          ->needs(out)
          ->excludes(records);
  c->add_option("--name", o.name, "the model's name to the requests of --batch (default: its folder's)")->needs(batch);
  c->add_option("--first", o.first, "first record of --records")->check(whole(int64_t{0}, kMostRecords))->needs(out);
  c->add_option("--count", o.count, "records of --records; 0: all")->check(whole(int64_t{0}, kMostRecords))->needs(out);
  c->add_option("--at-once", o.at_once, "answers of --records or --batch under way together")->check(whole(1, 256))->needs(out);
  c->callback([&chosen, out, records, batch] {
    if (out->count() > 0 && records->count() + batch->count() == 0) throw CLI::RequiredError("--records or --batch");
    chosen = {[] { return run(o); }, &o.json};
  });
}

void demo_command(CLI::App& app, Chosen& chosen) {
  static DemoOptions o;
  auto* c = app.add_subcommand("demo", "a held-out simulated scene, answered by several decoders");
  add_model_flag(c, o.model, true);
  c->add_option("--seed", o.options.seed, "which scene; 0: a chosen one")->check(seed_number());
  auto* picture = c->add_option("--picture", o.options.png, "PNG (or .svg) to write; without it none is drawn");
  c->add_option(
       "--grow", o.grow,
       "over the model grown so many times (1, 4, 16, 64; 0: as it is): what passes and rows cost, predicted and measured speed-up")
      ->check(whole(0, 64))
      ->excludes(picture);
  add_dtype(c, o.options.dtype, true);
  add_device(c, o.options.device);
  add_threads(c, o.options.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return demo(o); }, &o.json}; });
}

void verify_command(CLI::App& app, Chosen& chosen) {
  static VerifyCommand o;
  auto* c = app.add_subcommand("verify", "proves here: all widths, threads, cache layouts and exact decoders give the same bytes");
  add_model_flag(c, o.model, true);
  add_dtype(c, o.options.dtype, true);
  add_device(c, o.options.device);
  add_kv(c, o.options.kv_type);
  c->add_option("--draft-model", o.options.draft_model, "folder of a smaller model: the preset draft-model is compared too");
  c->add_option("--dflash", o.options.dflash, "folder of a draft head: the preset dflash is compared too");
  c->add_option("--max-width", o.options.max_width, "widths 1..N")->check(whole(1, 1024));
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return verify(o); }, &o.json}; });
}

void simulate_command(CLI::App& app, Chosen& chosen) {
  static SimulateCommand o;
  auto* c = app.add_subcommand("simulate", "record sets of procedural scenes with ground truth");
  c->add_option("--seed", o.options.first_seed, "first seed")->check(seed_number());
  auto* count = c->add_option("--count", o.options.count, "records to make")->check(whole(int64_t{1}, kMostRecords));
  auto* out = c->add_option("--out", o.out, "folder of the record set");
  c->add_option("--family", o.options.family, "one scene family only");
  auto* perturbed =
      c->add_option("--perturbed", o.options.perturbed,
                    "share of records that start beside the lane's middle, turned, at another speed, with the expert's way back")
          ->check(number(0, 1));
  c->add_option(
       "--driven", o.options.driven,
       "about so many frames of each seed's drive of 12 s, which is led astray now and then, with what the expert does from there")
      ->check(whole(1, 20))
      ->excludes(perturbed);
  c->add_option("--driver", o.options.driver, "with --driven: a model whose own plans lead the drives astray (DAgger)")
      ->type_name("MODEL");
  c->add_option("--ensemble", o.options.ensemble_s,
                "with --driver: averages each plan with those of the last SECONDS, as drive does")
      ->check(number(0, 10));
  c->add_flag("--careful", o.options.careful,
              "with --ensemble: plans that would go further than both of the two newest ones count less");
  c->add_option("--picture", o.picture, "draw the record of --seed as a PNG instead of writing a set")->excludes(count);
  auto* list = c->add_flag("--list-families", o.list_families, "print the families and stop");
  add_threads(c, o.options.threads);
  add_json(c, o.json);
  c->callback([&chosen, c, count, out, list] {
    if (list->count() == 0 && o.picture.empty() && (count->count() == 0 || out->count() == 0))
      throw CLI::RequiredError("--count and --out (or --picture, or --list-families)");
    for (const char* other : {"--out", "--perturbed", "--driven", "--driver", "--ensemble", "--careful"})
      refuse_beside(*c, "--picture", other);
    for (const char* other :
         {"--out", "--count", "--picture", "--family", "--seed", "--perturbed", "--driven", "--driver", "--ensemble", "--careful"})
      refuse_beside(*c, "--list-families", other);
    chosen = {[] { return simulate(o); }, &o.json};
  });
}

void import_command(CLI::App& app, Chosen& chosen) {
  static ImportCommand o;
  auto* c = app.add_subcommand("import", "public data and recordings as record sets, for train, eval and run");
  c->add_option("format", o.options.format, "conversations, wod-e2e, nuscenes, comma2k19, mcap")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"conversations", "wod-e2e", "nuscenes", "comma2k19", "mcap"}));
  c->add_option("source", o.options.source,
                "JSON or JSON lines; a .tfrecord file or a folder of them; a folder with v1.0-*; a segment's folder; an .mcap file")
      ->required()
      ->type_name("SOURCE");
  c->add_option("--out", o.out, "folder of the set")->required();
  c->add_option("--pictures", o.options.pictures, "where relative paths of pictures start (default: the source's folder)");
  c->add_option("--version", o.options.version, "nuscenes: the tables' folder, as v1.0-mini");
  c->add_option("--every", o.options.every_s, "comma2k19, and mcap without a front camera: a record every so many seconds")
      ->check(number_above(0, 3600));
  c->add_option("--history", o.options.least_history_s,
                "recorded seconds that a record needs before it; the rest is continued straight back")
      ->check(number(0, 3.75));
  c->add_option("--limit", o.options.limit, "so many records")->check(whole(int64_t{1}, kMostRecords));
  c->add_flag_callback(
      "--no-pictures", [] { o.options.with_pictures = false; }, "records without pictures, for models that take none");
  add_json(c, o.json);
  c->callback([&chosen, c] {
    const auto only = [c](const char* option, std::initializer_list<std::string_view> formats) {
      if (c->count(option) == 0 || std::ranges::find(formats, o.options.format) != formats.end()) return;
      throw CLI::ValidationError(option,
                                 fmt::format("belongs to {}, and the format is {}", fmt::join(formats, " and "), o.options.format));
    };
    only("--version", {"nuscenes"});
    only("--every", {"comma2k19", "mcap"});
    only("--pictures", {"conversations", "nuscenes"});
    only("--no-pictures", {"wod-e2e", "nuscenes", "comma2k19", "mcap"});
    only("--history", {"nuscenes", "comma2k19", "mcap"});
    chosen = {[] { return import_set(o); }, &o.json};
  });
}

void export_command(CLI::App& app, Chosen& chosen) {
  static ExportCommand o;
  auto* c = app.add_subcommand("export", "a record set as an MCAP file for Foxglove, or its answers as a WOD-E2E submission");
  c->add_option("format", o.options.format, "mcap, wod-submission")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"mcap", "wod-submission"}));
  c->add_option("--records", o.options.records, "the record set")->required();
  c->add_option("--out", o.out, "file to write")->required();
  c->add_option("--answers", o.options.answers, "wod-submission: what eval --out wrote over these records");
  c->add_option("--account", o.options.account, "wod-submission: the account's name");
  c->add_option("--method", o.options.method, "wod-submission: the method's name");
  c->add_option("--author", o.options.authors, "wod-submission: an author (may be repeated)");
  c->add_option("--pretraining", o.options.pretraining, "wod-submission: a public model that it started from (may be repeated)");
  c->add_option("--parameters", o.options.parameters, "wod-submission: the number of parameters, as 3B");
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return export_set(o); }, &o.json}; });
}

void eval_command(CLI::App& app, Chosen& chosen) {
  static EvalCommand o;
  auto* c = app.add_subcommand("eval", "metrics of a decoder over a record set or over held-out seeds");
  add_model_flag(c, o.model, false);
  auto* records = c->add_option("--records", o.options.records, "record set; without it, scenes are simulated from --seed");
  auto* seed =
      c->add_option(
           "--seed", o.seed,
           "first seed of simulated scenes (0: 900000000, from which on they are held out); with --temperature also of the draws")
          ->check(seed_number());
  c->add_option("--count", o.options.count, "records (default: the whole set, or 500 simulated ones)")
      ->check(whole(int64_t{1}, kMostRecords));
  add_method_options(c, o.options.decoder);
  c->add_option("--decoders", o.options.decoders, "several presets, separated by commas: the same records, one table")
      ->delimiter(',')
      ->excludes("--decoder");
  c->add_option("--rollouts", o.options.rollouts, "sampled plans a record, with their least error and their spread")
      ->check(whole(1, 64));
  c->add_option("--section-temperature", o.section_temperatures, "SECTION=T, repeatable: that section alone");
  c->add_option("--trajectory-head", o.options.trajectory_head, "folder of a trajectory head, whose plans are measured");
  c->add_option("--shard", o.shard, "I/N: records I, I + N, ... alone, as one task of an array; prompts run whole")
      ->type_name("I/N");
  c->add_flag("--resume", o.options.resume, "what --out has already is not answered again; prompts run whole");
  c->add_option("--csv", o.options.csv, "the table as CSV");
  auto* merge = c->add_option("--merge", o.merge, "files that --out wrote, of shards: their table, without answering anything");
  c->add_option("--calibrate", o.options.calibrate,
                "width.json to write: how often drafts held, how long fields were, what passes cost here (for --width measured)");
  auto* every =
      c->add_option(
           "--every", o.options.every_s,
           "frames of each simulated scene, so many seconds apart; --drafter previous then drafts from the frame before, and first "
           "frames do not count")
          ->check(number(0, 1.5));
  c->add_option("--frames", o.options.frames, "with --every: frames of a scene")->check(whole(2, 16))->needs(every);
  c->add_option("--temperature", o.options.temperature, "0: greedy")->check(number(0, 100));
  c->add_option("--require", o.options.require, "JSON file with limits, e.g. {\"macro_f1\": {\"min\": 0.7}}: exit 6 when missed");
  c->add_option("--out", o.options.out, "JSON lines, one per record");
  c->add_flag("--blank-images", o.options.blank_images, "grey images in place of the real ones (an ablation)");
  c->add_flag_callback(
      "--no-reuse", [] { o.options.reuse_prompt = false; },
      "run every prompt whole, though its first rows are those of the record before");
  add_engine(c, o.engine);
  add_json(c, o.json);
  c->callback([&chosen, merge, records, seed] {
    if (o.model.empty() && merge->count() == 0) throw CLI::RequiredError("--model");
    const bool draws = o.options.temperature > 0 || !o.section_temperatures.empty();
    if (records->count() > 0 && seed->count() > 0 && !draws)
      throw CLI::ValidationError(
          "--seed", "is of simulated scenes and of draws, and beside --records without a temperature there are neither");
    chosen = {[] { return eval(o); }, &o.json};
  });
}

void drive_command(CLI::App& app, Chosen& chosen) {
  static DriveCommand o;
  slipstream::DriveOptions& d = o.options;
  auto* c = app.add_subcommand("drive", "the closed loop: scores of driving with plans that come as late as they are computed");
  add_model_flag(c, o.model, false);
  add_method_options(c, d.decoder);
  c->get_option("--decoder")
      ->description(
          fmt::format("preset: {} (default: scaffold-spec, fields-spec for a model with a graph; auto goes by the clock and is "
                      "refused with --latency and --measure-latency)",
                      slipstream::decoder_words("preset")));
  c->add_option("--decoders", d.decoders, "several presets, separated by commas: each drives the same scenes")
      ->delimiter(',')
      ->excludes("--decoder");
  c->add_option("--verifiers", d.verifiers, "several verifiers of --decoder, separated by commas: relaxed:0,relaxed:4")
      ->delimiter(',')
      ->excludes("--decoders");
  c->add_option("--widths", d.widths, "several widths of --decoder, separated by commas: fixed:1,fixed:4")
      ->delimiter(',')
      ->excludes("--decoders");
  c->add_option("--rollouts", d.rollouts, "answers that are drawn for every decision; the car follows the average of their plans")
      ->check(whole(1, 64));
  c->add_option("--section-temperature", o.section_temperatures, "SECTION=T, repeatable: what they are drawn at (trajectory=0.7)");
  c->add_option("--ensemble", d.ensemble_s, "averages each plan with those of the last SECONDS (0: each is followed alone)")
      ->check(number(0, 10));
  c->add_flag("--careful", d.careful, "with --ensemble: plans that would go further than both of the two newest ones count less");
  c->add_option("--trajectory-head", d.trajectory_head, "folder of a trajectory head, whose plans are driven");
  c->add_option("--baselines", d.baselines, fmt::format("{}", fmt::join(slipstream::drive_baselines(), ", ")))->delimiter(',');
  c->add_option("--family", d.families, "scene families, separated by commas (default: 12 critical ones and the 2 held out)")
      ->delimiter(',');
  c->add_option("--seed", d.first_seed, "first seed of every family")->check(seed_number());
  c->add_option("--count", d.count, "seeds of every family")->check(whole(int64_t{1}, int64_t{100000}));
  c->add_option("--mode", d.mode,
                "the world waits, goes on, goes on and the pose is moved ahead, or plans are followed before the answer ends")
      ->check(CLI::IsMember({"sync", "async", "async+ahead", "stream"}));
  auto* latency = c->add_option("--latency", d.latency, "latency.json: an answer takes what its own passes and rows cost");
  c->add_option("--delays", d.delays_ms, "milliseconds that everybody's answers take, separated by commas: one table row each")
      ->delimiter(',')
      ->check(whole(int64_t{0}, int64_t{60000}));
  c->add_option("--measure-latency", d.measure_latency, "write a latency.json for the decoders on this machine, and stop")
      ->excludes(latency);
  c->add_flag_callback(
      "--no-reactive", [&d] { d.reactive = false; }, "other vehicles follow their scripts whatever the ego does");
  c->add_option("--out", d.out, "JSON lines, one a drive; begun again, it goes on behind them");
  c->add_option("--csv", d.csv, "the table as CSV");
  c->add_option("--replay", d.replay, "one drive as JSON for a page: ego, actors and plan every tenth of a second");
  c->add_option("--video", d.video, "one drive as a folder of PNG frames of the cameras, ten a second; FILE.mcap: for Foxglove");
  c->add_option("--picture", d.picture, "one drive from above beside the expert's, a PNG or SVG to write");
  c->add_option("--figure", d.figure, "score over latency, a PNG or SVG to write");
  add_engine(c, o.engine);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return drive(o); }, &o.json}; });
}

void reach_command(CLI::App& app, Chosen& chosen) {
  static ReachCommand o;
  slipstream::ReachOptions& r = o.options;
  auto* c =
      app.add_subcommand("reach", "an arm reaches, grasps and lifts by a model's actions: success by decoder, radius and drafts");
  add_model_flag(c, o.model, true);
  c->add_option("--draft-model", r.draft_model, "a second model, which drafts (decoder draft-model)");
  c->add_option("--decoders", r.decoders,
                "presets, separated by commas; scaffold-ar, one number a pass, comes first in any case (default: draft-model with "
                "--draft-model, else scaffold-spec)")
      ->delimiter(',');
  c->add_option("--drafts", r.drafts, "drafts of a round, several separated by commas (default: 4)")
      ->delimiter(',')
      ->check(whole(int64_t{1}, int64_t{7}));
  c->add_option("--radius", r.radii, "bins by which a kept draft may be off, several separated by commas (default: 0, exact)")
      ->delimiter(',')
      ->check(whole(int64_t{0}, int64_t{255}));
  c->add_option("--episodes", r.episodes, "episodes of every decoder, the same ones")->check(whole(int64_t{1}, int64_t{1000000}));
  c->add_option("--seed", r.first_seed, "of the first episode")->check(seed_number());
  c->add_option("--csv", r.csv, "the table as CSV");
  c->add_option("--replay", r.replay, "one decoder's one episode (--episodes 1) as JSON: state, action and passes of every step");
  add_engine(c, o.engine);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return reach(o); }, &o.json}; });
}

void limits_command(CLI::App& app, Chosen& chosen) {
  static LimitsCommand o;
  slipstream::LimitsOptions& l = o.options;
  auto* c = app.add_subcommand("limits",
                               "what a machine could do at best: operations, stages, decoders, break-even; beside measurements");
  c->add_option("-m,--model", o.model, "Hugging Face folder, or a config.json alone: only what is run needs weights")
      ->type_name("MODEL");
  c->add_option("--machine", l.machine,
                "h100, h100-nvl, h200, a100, thor, orin (published figures) or a JSON file (default: this machine, measured now)");
  auto* measure =
      c->add_flag("--measure", l.measure, "run what this machine can run, and print it beside the prediction (needs weights)");
  c->add_option("--scenes", l.scenes, "with --measure: held-out scenes that each decoder answers in every round")
      ->check(whole(1, 1000))
      ->needs(measure);
  c->add_option("--speed-of-light", l.light,
                "answers whose blocks are searched for the fewest passes that diffusion could take (needs weights)")
      ->check(whole(1, 1000));
  c->add_option("--records", l.records,
                "with --speed-of-light: the set whose first records are answered (default: held-out scenes)");
  c->add_option("--acceptance", l.acceptance, "share of tested drafts that hold (default: the folder's width.json)")
      ->check(number(0, 1));
  c->add_option("--keys", l.keys, "keys in the cache before a pass; 0: the prompt's and 128 of the answer, of free text half of it")
      ->check(whole(0, 1 << 20));
  c->add_option("--prompt-rows", l.prompt_rows, "rows of the prompt (default: the task's, or 512 and those of the pictures)")
      ->check(whole(1, 1 << 20));
  c->add_option("--images", l.images, "pictures that the vision tower reads (default: the task's)")->check(whole(0, 1000));
  c->add_option("--image-width", l.image_width, "of each, pixels (default: the task's pictures)")->check(whole(1, 1 << 16));
  c->add_option("--image-height", l.image_height, "likewise")->check(whole(1, 1 << 16));
  c->add_option("--answer-tokens", l.answer_tokens, "of an answer in free text")->check(whole(2, 1 << 16));
  c->add_option("--draft-model", l.draft_model, "folder or config.json of a second model, for decoder draft-model");
  c->add_option("--out", l.out,
                "folder to write: the tables as CSV, limits.json, and machine.json where this machine was measured");
  c->add_option("--figure", l.figure, "passes by their rows, .png or .svg");
  c->add_option("--decoder-figure", l.decoder_figure, "milliseconds of every decoder, .png or .svg");
  add_dtype(c, l.dtype, true);
  add_threads(c, l.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return limits(o); }, &o.json}; });
}

void train_command(CLI::App& app, Chosen& chosen, const char* self) {
  static TrainOptions o;
  static bool no_json = false;
  auto* c = app.add_subcommand("train", "the trainer (starts slipstream-train, where it is built)");
  auto* config = c->add_option("--config", o.config, "training configuration (JSON)");
  auto* resume = c->add_option("--resume", o.resume, "a training folder to go on from; with --config by another configuration");
  c->add_option("--out", o.out, "overrides the configuration's output folder");
  c->add_option("--max-minutes", o.max_minutes, "stop, with a checkpoint, after so long; 0: no limit")
      ->check(number(0, kMostMinutes));
  c->add_option("--steps", o.steps, "overrides the configuration's number of steps")->check(whole(int64_t{1}, kMostSteps));
  c->callback([&chosen, config, resume, self] {
    if (config->count() + resume->count() == 0) throw CLI::RequiredError("--config or --resume");
    chosen = {[self] { return train(o, self); }, &no_json};
  });
}

void study_command(CLI::App& app, Chosen& chosen, const char* self) {
  static StudyOptions o;
  auto* c = app.add_subcommand("study",
                               "arms trained on the same samples with several seeds, evaluated and compared; goes on where it was");
  c->add_option("file", o.file, "the study (JSON; src/cli/study.h lists its keys)")->required()->type_name("FILE.json");
  c->add_option("--out", o.out, "overrides the study's output folder");
  add_json(c, o.json);
  c->callback([&chosen, self] { chosen = {[self] { return study(o, self); }, &o.json}; });
}

int report(Error e, bool json) {
  e.message = one_line(std::move(e.message));
  say(fmt::format("slipstream: {}\n", e.message));
  if (json && !failure_is_printed()) print_json(json::object{{"error", error_json(e)}});
  return static_cast<int>(e.kind);
}

Error truncated() { return resource_error("standard output: expected a place for the whole result, got one that took a part"); }

int main_checked(int argc, char** argv) {
  CLI::App app{"Slipstream: exact, fast decoding of structured answers of driving models.", "slipstream"};
  app.set_version_flag("--version", fmt::format("slipstream {} ({}; {})", slipstream::version(), slipstream::commit(),
                                                slipstream::instruction_set()));
  app.footer(
      "`slipstream help COMMAND` tells a command's options, `slipstream help words` what form, field, draft and the other words "
      "mean.");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Chosen chosen;
  inspect_command(app, chosen);
  tokenize_commands(app, chosen);
  preprocess_command(app, chosen);
  forward_command(app, chosen);
  form_command(app, chosen);
  run_command(app, chosen);
  demo_command(app, chosen);
  serve_command(app, chosen);
  verify_command(app, chosen);
  simulate_command(app, chosen);
  codebook_command(app, chosen);
  import_command(app, chosen);
  export_command(app, chosen);
  quantize_command(app, chosen);
  convert_command(app, chosen);
  synthesize_command(app, chosen);
  grow_command(app, chosen);
  eval_command(app, chosen);
  drive_command(app, chosen);
  reach_command(app, chosen);
  limits_command(app, chosen);
  train_command(app, chosen, argv[0]);
  study_command(app, chosen, argv[0]);
  bench_commands(app, chosen);
  pages_command(app, chosen);
  help_command(app, chosen);
  refuse_empty_texts(app);
  add_common(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    const int code = app.exit(e, text, text);  // --help, --version
    print_text(text.str());
    return std::ferror(stdout) != 0 ? report(truncated(), false) : code;
  } catch (const CLI::ParseError& e) {
    bool json = false;
    for (int i = 1; i < argc; ++i) json |= std::string_view(argv[i]) == "--json";
    return report(usage_of(app, e), json);
  }
  if (is_quiet()) set_log_level(LogLevel::kError);
  install_interrupt_handler();
  const Status s = chosen.go();
  if (!s) return report(s.error(), *chosen.json);
  return std::ferror(stdout) != 0 ? report(truncated(), false) : 0;
}

}  // namespace
}  // namespace slip::cli

namespace {

int run_checked(int argc, char** argv) {
  using slip::Error;
  using slip::ErrorKind;
  bool json = false;
  for (int i = 1; i < argc; ++i) json |= std::string_view(argv[i]) == "--json";
  try {
    return slip::cli::main_checked(argc, argv);
  } catch (const slip::CheckFailure& e) {
    return slip::cli::report({ErrorKind::kInternal, fmt::format("internal error: {}", e.what())}, json);
  } catch (const std::bad_alloc&) {
    return slip::cli::report({ErrorKind::kResource, "memory: expected enough of it, got an allocation that failed"}, json);
  } catch (const std::length_error&) {
    return slip::cli::report({ErrorKind::kResource, "memory: expected enough of it, got a size beyond all memory"}, json);
  } catch (const std::system_error& e) {
    return slip::cli::report({ErrorKind::kResource, fmt::format("system: expected threads and files, got: {}", e.what())}, json);
  } catch (const std::exception& e) {
    return slip::cli::report({ErrorKind::kInternal, fmt::format("internal error: {}", e.what())}, json);
  }
}

}  // namespace

int main(int argc, char** argv) {
  slip::open_closed_streams();
  int code = 0;
  slip::with_stack([&] { code = run_checked(argc, argv); });
  slip::remove_remembered();
  return code;
}
