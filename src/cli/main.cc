// SPDX-License-Identifier: Apache-2.0
// The binary `slipstream`: parses the command line (CLI11, in this translation unit only), calls one function of commands.h and
// turns its Status into an exit code and one line on stderr (with --json also {"error": ...} on stdout).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "cli/commands.h"
#include "form/builtin.h"
#include "models/synthesize.h"
#include "text/tokenizer.h"

namespace slip::cli {
namespace {

constexpr const char* kVersion = "0.1.0";
constexpr int64_t kMostRecords = 1'000'000'000;  // 1.7 PB of pictures: a slip of the hand, not a plan

// CLI11 reads "-1" into an unsigned number as 2^64 - 1.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "expected a seed of at least 0, got " + text : "";
}

// What the parsed command line asks for, and whether it wants JSON.
struct Chosen {
  std::function<Status()> go;
  bool* json = nullptr;
};

void add_json(CLI::App* c, bool& json) { c->add_flag("--json", json, "machine-readable result on stdout"); }
void add_model(CLI::App* c, std::string& model) {
  c->add_option("model,--model", model, "Hugging Face folder")->required()->type_name("MODEL");
}
void add_model_flag(CLI::App* c, std::string& model, bool required) {
  c->add_option("--model", model, "Hugging Face folder, as it is or packed by quantize")->required(required)->type_name("MODEL");
}
void add_dtype(CLI::App* c, std::string& dtype, bool automatic) {
  // Without `auto` (forward): f32, except for a packed folder, which has its own type.
  c->add_option("--dtype", dtype,
                automatic ? "weights: auto (as stored), f32, bf16, int8, int4"
                          : "weights: f32, bf16, int8, int4 (default: f32, or what a packed folder is)")
      ->check(automatic ? CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}) : CLI::IsMember({"f32", "bf16", "int8", "int4"}));
}
void add_device(CLI::App* c, std::string& device) {
  c->add_option("--device", device, "where the decoder runs: cpu, cuda:N (docs/decisions/0010-devices.md)")->type_name("DEVICE");
}
void add_kv(CLI::App* c, std::string& kv) {
  c->add_option("--kv", kv,
                "keys and values: auto (f32 beside f32 weights, else bf16), f32, bf16, int8 (docs/decisions/0011-int8-keys.md)")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}));
}
void add_threads(CLI::App* c, int& threads) {
  c->add_option("--threads", threads, "0: every core this process may use")->check(CLI::Range(0, 1024));
}

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
  e->callback([&chosen] { chosen = {[] { return detokenize(d); }, &d.json}; });
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
  static ForwardOptions o;
  auto* c = app.add_subcommand("forward", "logits of rows with explicit visibility");
  add_model_flag(c, o.model, true);
  c->add_option("--rows", o.rows, "rows file (JSON)")->required();
  c->add_option("--out", o.out, "safetensors file to write: logits_TV, f32")->required();
  add_dtype(c, o.dtype, false);
  add_device(c, o.device);
  add_threads(c, o.threads);
  c->add_option("--split", o.split, "passes of at most W rows through the cache; 0: one pass")->check(CLI::NonNegativeNumber);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return forward(o); }, &o.json}; });
}

std::string forms_help() {
  return fmt::format("`model` (the one that the model folder was trained for), {}, or a JSON Schema file",
                     fmt::join(builtin_forms(), ", "));
}

void form_command(CLI::App& app, Chosen& chosen) {
  static FormOptions o;
  auto* c = app.add_subcommand("form", "a form explained: fixed tokens, fields, budgets, blocks, graph");
  c->add_option("form", o.form, forms_help())->required()->type_name("FORM");
  add_model_flag(c, o.model, false);
  c->add_flag("--schema", o.schema, "print the form's JSON Schema document instead");
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return form(o); }, &o.json}; });
}

void add_method_options(CLI::App* c, std::string& decoder, std::string& schedule, std::string& drafter, std::string& verifier,
                        std::string& width) {
  c->add_option(
      "--decoder", decoder,
      "preset: ar, scaffold-ar, section-diffusion, self-spec, self-spec-quadratic, scaffold-spec, fields, fields-spec, "
      "draft-model, dflash; over a form every exact one gives the same tokens (default: fields-spec under the graph law, otherwise "
      "scaffold-spec, or self-spec for free text)");
  c->add_option("--schedule", schedule, "text, chain, sections, fields (overrides the preset's)");
  c->add_option("--drafter", drafter,
                "none, diffusion, diffusion:lora, diffusion:ahead, quadratic, lookup[:N], previous:FILE, model:DIR, coupled:DIR "
                "(draws with the "
                "verifier's uniforms), dflash:DIR (overrides the preset's)");
  c->add_option("--verifier", verifier,
                "exact, rejection, relaxed:R (bins), relaxed:Xu (physical units), ensemble:L, confidence:T, sampler:DIR (overrides "
                "the preset's; all but the first two "
                "are lossy)");
  c->add_option("--width", width, "fixed:N, blocks, measured[:FILE], blockpilot:FILE (overrides the preset's)");
}

/// `method`: which decoder is the caller's choice too.
void add_run_options(CLI::App* c, RunOptions& o, bool method = true) {
  add_model_flag(c, o.model, true);
  c->add_option("--form", o.form, forms_help() + ", or none: free text");
  c->add_option("--image", o.images, "camera images in the model's order (driving models here: front left, front, front right)");
  c->add_option("--video", o.videos, "folder of a video's frames, one image each, in the order of their names; repeatable");
  c->add_option("--fps", o.fps, "frames per second of --video");
  auto* prompt =
      c->add_option("--prompt", o.prompt, "user text; <image> marks where the images go")->each([&o](const std::string&) {
        o.has_prompt = true;
      });
  auto* file = c->add_option("--prompt-file", o.prompt_file, "the same from a file")->excludes(prompt);
  auto* record = c->add_option("--record", o.record, "SHARD:I, record I of a record set")->excludes(prompt)->excludes(file);
  c->add_option("--ego", o.ego, "JSON with the route's intent and the ego history: the model's own prompt is made of it")
      ->excludes(prompt)
      ->excludes(file)
      ->excludes(record);
  if (method) add_method_options(c, o.decoder, o.schedule, o.drafter, o.verifier, o.width);
  c->add_option("--law", o.law, "chain or graph: who sees whom in the form (default: what the model was trained for)")
      ->check(CLI::IsMember({"chain", "graph"}));
  c->add_option("--unnorm-key", o.unnorm_key,
                "OpenVLA: the data set whose statistics put actions in physical units (default: the only one)");
  c->add_option("--max-rows", o.most_rows,
                "graph law: rows of a pass at most, fields with the longest way to go first; 0: no limit")
      ->check(CLI::Range(0, 1 << 16));
  c->add_flag("--no-activation", o.no_activation, "graph law: children wait until their parents are verified");
  c->add_flag("--log-forced", o.log_forced, "list tokens of the form's template that the model itself would not have drawn");
  c->add_option("--temperature", o.temperature, "0: greedy")->check(CLI::Range(0.0, 100.0));
  c->add_option("--top-k", o.top_k, "sample among the k likeliest; 0: all")->check(CLI::Range(0, 1 << 20));
  c->add_option("--top-p", o.top_p, "sample among the fewest that reach this probability")->check(CLI::Range(0.0, 1.0));
  c->add_option("--min-p", o.min_p, "sample among those of at least this share of the likeliest")->check(CLI::Range(0.0, 1.0));
  c->add_option("--repetition-penalty", o.repetition, "divides logits of recent tokens; 1: off")->check(CLI::Range(0.1, 10.0));
  c->add_option("--repetition-last", o.repetition_last, "how many tokens are recent")->check(CLI::Range(0, 1 << 20));
  c->add_option("--section-temperature", o.section_temperatures, "SECTION=T, repeatable: that section alone");
  c->add_option("--seed", o.seed, "seed of the keyed uniforms")->check(not_negative);
  c->add_option("--rollouts", o.rollouts, "sampled trajectories to average")->check(CLI::Range(1, 64));
  c->add_option("--slots", o.slots, "rows that the key/value cache holds; 0: enough for this request")
      ->check(CLI::Range(0, 1 << 24));
  c->add_option("--max-tokens", o.max_tokens, "free text: most tokens")->check(CLI::Range(1, 1 << 20));
  c->add_option("--fit", o.fit, "waypoints to points: paper (as published), minjerk, linear")
      ->check(CLI::IsMember({"paper", "minjerk", "linear"}));
  c->add_flag("--blank-images", o.blank_images, "grey images in place of the real ones (an ablation)");
  add_dtype(c, o.dtype, true);
  add_device(c, o.device);
  add_kv(c, o.kv);
  add_threads(c, o.threads);
  add_json(c, o.json);
}

void run_command(CLI::App& app, Chosen& chosen) {
  static RunOptions o;
  auto* c = app.add_subcommand("run", "one answer");
  add_run_options(c, o);
  c->add_option("--trace", o.trace, "Chrome trace JSON to write");
  c->add_option("--picture", o.picture, "PNG to write: cameras with the plan, the form, the plan from above");
  c->callback([&chosen] { chosen = {[] { return run(o); }, &o.json}; });
}

void demo_command(CLI::App& app, Chosen& chosen) {
  static DemoOptions o;
  auto* c = app.add_subcommand("demo", "a held-out simulated scene, answered by four decoders");
  add_model_flag(c, o.model, true);
  c->add_option("--seed", o.seed, "which scene; 0: a chosen one")->check(not_negative);
  c->add_option("--picture", o.picture, "PNG to write");
  add_threads(c, o.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return demo(o); }, &o.json}; });
}

void verify_command(CLI::App& app, Chosen& chosen) {
  static VerifyOptions o;
  auto* c = app.add_subcommand("verify", "proves here: all widths, threads, cache layouts and exact decoders give the same bytes");
  add_model_flag(c, o.model, true);
  add_dtype(c, o.dtype, true);
  add_device(c, o.device);
  add_kv(c, o.kv);
  c->add_option("--draft-model", o.draft_model, "folder of a smaller model: the preset draft-model is compared too");
  c->add_option("--dflash", o.dflash, "folder of a draft head: the preset dflash is compared too");
  c->add_option("--max-width", o.max_width, "widths 1..N")->check(CLI::Range(1, 1024));
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return verify(o); }, &o.json}; });
}

void simulate_command(CLI::App& app, Chosen& chosen) {
  static SimulateOptions o;
  auto* c = app.add_subcommand("simulate", "record sets of procedural scenes with ground truth");
  c->add_option("--seed", o.seed, "first seed")->check(not_negative);
  auto* count = c->add_option("--count", o.count, "records to make")->check(CLI::Range(int64_t{1}, kMostRecords));
  auto* out = c->add_option("--out", o.out, "folder of the record set");
  c->add_option("--family", o.family, "one scene family only");
  c->add_option("--picture", o.picture, "draw the record of --seed as a PNG instead of writing a set")->excludes(count);
  auto* list = c->add_flag("--list-families", o.list_families, "print the families and stop");
  add_threads(c, o.threads);
  add_json(c, o.json);
  c->callback([&chosen, count, out, list] {
    if (list->count() == 0 && o.picture.empty() && (count->count() == 0 || out->count() == 0))
      throw CLI::RequiredError("--count and --out (or --picture, or --list-families)");
    chosen = {[] { return simulate(o); }, &o.json};
  });
}

void eval_command(CLI::App& app, Chosen& chosen) {
  static EvalOptions o;
  auto* c = app.add_subcommand("eval", "metrics of a decoder over a record set or over held-out seeds");
  add_model_flag(c, o.model, true);
  c->add_option("--records", o.records, "record set; without it, scenes are simulated from --seed");
  c->add_option("--seed", o.seed, "first held-out seed (0: 900000000); with --temperature also the seed of the draws")
      ->check(not_negative);
  c->add_option("--count", o.count, "records (default: the whole set, or 500 simulated ones)")
      ->check(CLI::Range(int64_t{1}, kMostRecords));
  add_method_options(c, o.decoder, o.schedule, o.drafter, o.verifier, o.width);
  c->add_option("--calibrate", o.calibrate,
                "width.json to write: how often drafts held, how long fields were, what passes cost here (for --width measured)");
  c->add_option("--every", o.every_s,
                "frames of each simulated scene, so many seconds apart; --drafter previous then drafts from the frame before")
      ->check(CLI::Range(0.0, 1.5));
  c->add_option("--frames", o.frames, "with --every: frames of a scene")->check(CLI::Range(2, 16));
  c->add_option("--temperature", o.temperature, "0: greedy")->check(CLI::Range(0.0, 100.0));
  c->add_option("--require", o.require, "JSON file with limits, e.g. {\"macro_f1\": {\"min\": 0.7}}: exit 6 when missed");
  c->add_option("--out", o.out, "JSON lines, one per record");
  c->add_flag("--blank-images", o.blank_images, "grey images in place of the real ones (an ablation)");
  c->add_flag("--no-reuse", o.no_reuse, "run every prompt whole, though its first rows are those of the record before");
  add_dtype(c, o.dtype, true);
  add_device(c, o.device);
  add_kv(c, o.kv);
  add_threads(c, o.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return eval(o); }, &o.json}; });
}

void train_command(CLI::App& app, Chosen& chosen, const char* self) {
  static TrainOptions o;
  static bool no_json = false;
  auto* c = app.add_subcommand("train", "the trainer (starts slipstream-train, where it is built)");
  auto* config = c->add_option("--config", o.config, "training configuration (JSON)");
  auto* resume = c->add_option("--resume", o.resume, "a training folder to go on from")->excludes(config);
  c->add_option("--out", o.out, "overrides the configuration's output folder");
  c->add_option("--max-minutes", o.max_minutes, "stop, with a checkpoint, after so long")->check(CLI::PositiveNumber);
  c->add_option("--steps", o.steps, "overrides the configuration's number of steps")->check(CLI::PositiveNumber);
  c->callback([&chosen, config, resume, self] {
    if (config->count() + resume->count() == 0) throw CLI::RequiredError("--config or --resume");
    chosen = {[self] { return train(o, self); }, &no_json};
  });
}

void bench_forward_commands(CLI::App* bench, Chosen& chosen) {
  const auto options = [](CLI::App* c, BenchForwardOptions& o, const char* widths) {
    add_model_flag(c, o.model, true);
    c->add_option("--dtype", o.dtypes, "weights, several one after the other: bf16,int8,int4 (auto: as stored; f32)")
        ->delimiter(',')
        ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
    c->add_option("--widths", o.widths, widths)->delimiter(',')->check(CLI::Range(1, 4096));
    c->add_option("--seconds", o.seconds, "measuring time per width; at least three rounds over all widths")
        ->check(CLI::Range(0.01, 600.0));
    add_device(c, o.device);
    add_kv(c, o.kv);
    add_threads(c, o.threads);
    add_json(c, o.json);
  };
  static BenchForwardOptions f;
  auto* c = bench->add_subcommand("forward", "cost of a pass and of its matrix products, by width and type");
  options(c, f, "rows per pass (default 1 2 4 8 16 24 32 48 64)");
  c->add_option("--keys", f.keys, "cached keys that every row sees")->check(CLI::Range(0, 1 << 20));
  c->callback([&chosen] { chosen = {[] { return bench_forward(f); }, &f.json}; });
  static BenchForwardOptions p;
  p.keys = 0;
  auto* e = bench->add_subcommand("prefill", "cost of a prompt's pass by its length");
  options(e, p, "rows of the prompt (default 128 512 1440 3000)");
  e->callback([&chosen] { chosen = {[] { return bench_prefill(p); }, &p.json}; });
}

void bench_request_commands(CLI::App* bench, Chosen& chosen) {
  static BenchVisionOptions v;
  auto* c = bench->add_subcommand("vision", "a driving request's pictures to feature rows, stage by stage");
  add_model_flag(c, v.model, true);
  add_dtype(c, v.dtype, true);
  c->add_option("--image", v.images, "image files (default: made ones)");
  c->add_option("--cameras", v.cameras, "made pictures")->check(CLI::Range(1, 64));
  c->add_option("--width", v.width, "of a made picture")->check(CLI::Range(28, 16384));
  c->add_option("--height", v.height, "of a made picture")->check(CLI::Range(28, 16384));
  c->add_option("--max-pixels", v.max_pixels, "of a picture after resizing")->check(CLI::Range(int64_t{784}, int64_t{1} << 28));
  c->add_option("--repeats", v.repeats, "the median is shown")->check(CLI::Range(1, 1000));
  add_threads(c, v.threads);
  add_json(c, v.json);
  c->callback([&chosen] { chosen = {[] { return bench_vision(v); }, &v.json}; });
  static BenchAnswerOptions a;
  auto* e = bench->add_subcommand("answer", "a three-camera request with a recorded answer: milliseconds per stage");
  add_model_flag(e, a.model, true);
  add_dtype(e, a.dtype, true);
  e->add_option("--decoders", a.presets, "presets (default ar scaffold-ar scaffold-spec fields-spec)")
      ->delimiter(',')
      ->check(CLI::IsMember({"ar", "scaffold-ar", "scaffold-spec", "self-spec", "fields", "fields-spec"}));
  e->add_option("--rows", a.rows, "rows of the prompt, the pictures' included")->check(CLI::Range(1, 100000));
  e->add_option("--tokens-per-pass", a.per_pass, "what scaffold-spec shall reach: sets the odds that a draft holds")
      ->check(CLI::Range(1.0, 16.0));
  e->add_option("--every", a.every, "of passes of one row each n-th runs and stands for its neighbours; 1: all run")
      ->check(CLI::Range(1, 1000));
  e->add_flag("--reuse", a.reuse, "the frame before was asked too: its unchanged first rows are not run again");
  e->add_flag("--no-images", a.no_images, "text rows in place of the pictures'");
  add_threads(e, a.threads);
  add_json(e, a.json);
  e->callback([&chosen] { chosen = {[] { return bench_answer(a); }, &a.json}; });
}

void bench_commands(CLI::App& app, Chosen& chosen) {
  auto* bench = app.add_subcommand("bench", "measurements against ceilings measured in the same run");
  bench->require_subcommand(1);
  bench_forward_commands(bench, chosen);
  bench_request_commands(bench, chosen);
  static BenchDecodersOptions d;
  auto* e = bench->add_subcommand("decoders", "all decoders on one request");
  add_run_options(e, d.run, false);
  e->add_option("--repeats", d.repeats, "runs per decoder; the median is shown")->check(CLI::Range(1, 1000));
  e->add_flag("--reuse", d.reuse, "leave out what the prompt shares with the one before, which here is all of it");
  e->add_option("--draft-model", d.draft_model, "folder of a smaller model: the preset draft-model takes part");
  e->add_option("--dflash", d.dflash, "folder of a draft head: the preset dflash takes part");
  e->callback([&chosen] { chosen = {[] { return bench_decoders(d); }, &d.run.json}; });
}

void quantize_command(CLI::App& app, Chosen& chosen) {
  static QuantizeCommand o;
  auto* c = app.add_subcommand("quantize", "a packed copy of a model folder, mapped at start, with a report of its errors");
  add_model(c, o.model);
  c->add_option("--type", o.type, "int8, int4, bf16, f32")->required()->check(CLI::IsMember({"int8", "int4", "bf16", "f32"}));
  c->add_option("--out", o.out, "folder to write")->required();
  c->add_option("--records", o.records, "simulated records whose greedy answers are compared, for driving models; 0: none")
      ->check(CLI::Range(0, 10000));
  c->add_flag("--no-compare", o.no_compare, "leave out what needs both models to run");
  add_threads(c, o.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return quantize(o); }, &o.json}; });
}

void synthesize_command(CLI::App& app, Chosen& chosen) {
  static SynthesizeCommand o;
  auto* c = app.add_subcommand("synthesize", "a random-weight model folder of a real shape, for benchmarks");
  c->add_option("--like", o.like, "the shape: " + synthetic_shapes())->required();
  c->add_option("--dtype", o.dtype, "numbers as stored: bf16, f32, f16, fp8 (128 x 128 scales)");
  c->add_option("--out", o.out, "folder to write")->required();
  c->add_option("--seed", o.seed, "seed of the numbers")->check(not_negative);
  c->add_option("--layers", o.layers, "a thinner one: decoder layers, towers in proportion; 0: all")->check(CLI::Range(0, 1024));
  c->add_flag("--tiny", o.tiny, "the same family at the widths of a unit test");
  c->add_option("--tokenizer", o.tokenizer,
                "the released tokenizer's files (tokenizer.json, or vocab.json and merges.txt); none: bytes and made-up words");
  add_threads(c, o.threads);
  add_json(c, o.json);
  c->callback([&chosen] { chosen = {[] { return synthesize(o); }, &o.json}; });
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

// An error is one line, whatever a file's name or a library's words contain.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return to_valid_utf8(text);
}

int report(Error e, bool json) {
  e.message = one_line(std::move(e.message));
  fmt::print(stderr, "slipstream: {}\n", e.message);
  if (json) {
    static constexpr const char* kNames[] = {"ok", "internal", "usage", "bad_input", "unsupported", "resource", "check_failed"};
    const int kind = static_cast<int>(e.kind);
    fmt::print("{}\n",
               json::serialize(json::value{
                   {"error", {{"kind", kind < 7 ? kNames[kind] : "cancelled"}, {"exit_code", kind}, {"message", e.message}}}}));
  }
  return static_cast<int>(e.kind);
}

// CLI11 says of a mistyped command only that one is required.
Error usage_of(const CLI::App& app, int argc, char** argv, const CLI::ParseError& e) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  const auto named = [first](const CLI::App* c) { return c->get_name() == first; };
  if (!first.empty() && first.front() != '-' && app.get_subcommands(named).empty())
    return usage_error("command line: expected a command of `slipstream --help`, got {}", first);
  return usage_error("command line: expected arguments as in `slipstream {}--help`, got: {}",
                     first.empty() || first.front() == '-' ? "" : std::string(first) + " ", e.what());
}

int main_checked(int argc, char** argv) {
  CLI::App app{"Slipstream: exact, fast decoding of structured answers of driving models."};
  app.set_version_flag("--version", std::string("slipstream ") + kVersion);
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
  verify_command(app, chosen);
  simulate_command(app, chosen);
  quantize_command(app, chosen);
  convert_command(app, chosen);
  synthesize_command(app, chosen);
  eval_command(app, chosen);
  train_command(app, chosen, argv[0]);
  bench_commands(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    bool json = false;
    for (int i = 1; i < argc; ++i) json |= std::string_view(argv[i]) == "--json";
    return report(usage_of(app, argc, argv, e), json);
  }
  install_interrupt_handler();
  const Status s = chosen.go();
  if (!s) return report(s.error(), *chosen.json);
  if (std::ferror(stdout) != 0)
    return report(resource_error("standard output: expected a place for the whole result, got one that took a part"), false);
  return 0;
}

}  // namespace
}  // namespace slip::cli

int main(int argc, char** argv) {
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
  } catch (const std::exception& e) {
    return slip::cli::report({ErrorKind::kInternal, fmt::format("internal error: {}", e.what())}, json);
  }
}
