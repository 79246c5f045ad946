// SPDX-License-Identifier: Apache-2.0
// The command line of `bench` and its subcommands.
#include "cli/options.h"
#include "cli/bench/commands.h"
#include "decode/types/words.h"

namespace slip::cli {

namespace {

void bench_forward_commands(CLI::App* bench, Chosen& chosen) {
  const auto options = [](CLI::App* c, BenchForwardOptions& o, const char* widths) {
    add_model_flag(c, o.model, true);
    c->add_option("--dtype", o.dtypes,
                  "weights, several one after the other: bf16,int8,int4 (auto: as stored or as config.json says; f32)")
        ->delimiter(',')
        ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
    c->add_option("--widths", o.widths, widths)->delimiter(',')->check(whole(1, 4096));
    c->add_option("--seconds", o.seconds, "measuring time per width; at least three rounds over all widths")
        ->check(number(0.01, 600));
    add_device(c, o.device);
    add_kv(c, o.kv);
    add_threads(c, o.threads);
    add_json(c, o.json);
    c->footer("JSON: a line per width and type. null: fork_join_ns on a device, over_first where too few samples were steady.");
  };
  static BenchForwardOptions f;
  auto* c = bench->add_subcommand("forward", "cost of a pass and of its matrix products, by width and type");
  options(c, f, "rows per pass (default 1 2 4 8 16 24 32 48 64)");
  c->add_option("--keys", f.keys, "cached keys that every row sees")->check(whole(0, 1 << 20));
  const auto once = [](const BenchForwardOptions& o) {
    refuse_twice("--dtype", o.dtypes);
    refuse_twice("--widths", o.widths);
  };
  c->callback([&chosen, once] {
    once(f);
    chosen = {[] { return bench_forward(f); }, &f.json};
  });
  static BenchForwardOptions p;
  p.keys = 0;
  auto* e = bench->add_subcommand("prefill", "cost of a prompt's pass by its length");
  options(e, p, "rows of the prompt (default 128 512 1440 3000)");
  e->callback([&chosen, once] {
    once(p);
    chosen = {[] { return bench_prefill(p); }, &p.json};
  });
}

void bench_vision_command(CLI::App* bench, Chosen& chosen) {
  static BenchVisionOptions v;
  auto* c = bench->add_subcommand("vision", "a driving request's pictures to feature rows, stage by stage");
  add_model_flag(c, v.model, true);
  add_dtype(c, v.dtype, true);
  auto* image = c->add_option("--image", v.images, "image files (default: made ones)");
  c->add_option("--cameras", v.cameras, "made pictures")->excludes(image)->check(whole(1, 64));
  c->add_option("--width", v.width, "of a made picture")->excludes(image)->check(whole(28, 16384));
  c->add_option("--height", v.height, "of a made picture")->excludes(image)->check(whole(28, 16384));
  c->add_option("--max-pixels", v.max_pixels, "of a picture after resizing")->check(whole(int64_t{784}, int64_t{1} << 28));
  c->add_option("--repeats", v.repeats, "the median is shown")->check(whole(1, 1000));
  add_device(c, v.device);
  add_threads(c, v.threads);
  add_json(c, v.json);
  c->footer("JSON: on a device ms has hash, by which features of a picture are known, in place of resize, which its tower does.");
  c->callback([&chosen] { chosen = {[] { return bench_vision(v); }, &v.json}; });
}

void bench_answer_command(CLI::App* bench, Chosen& chosen) {
  static BenchAnswerOptions a;
  auto* e = bench->add_subcommand("answer", "one answer by stage and operation: a scene's, or a recorded one at a published size");
  add_model_flag(e, a.model, true);
  add_dtype(e, a.dtype, true);
  e->add_option(
       "--decoders", a.presets,
       "presets (default: auto, ar and those of the model's visibility; recorded: ar scaffold-ar scaffold-spec fields-spec; with "
       "--acceptance: auto, ar and those of its answer)")
      ->delimiter(',')
      ->check(CLI::IsMember(presets_of_model_alone()));
  e->add_option("--scene", a.scene, "of the answer in the model's own form; 0: a held-out one")
      ->check(whole(int64_t{0}, int64_t{1} << 62));
  e->add_option("--repeats", a.repeats, "answers in the model's own form, decoders in turns; the median one is shown")
      ->check(whole(1, 1000));
  e->add_flag("--recorded", a.recorded,
              "a recorded three-camera answer, as of models without a form of their own, and with its options below");
  e->add_option("--rows", a.rows, "rows of the prompt, the pictures' included")->check(whole(1, 100000));
  auto* per_pass =
      e->add_option("--tokens-per-pass", a.per_pass, "what scaffold-spec shall reach: sets the odds that a draft holds")
          ->check(number(1, 16));
  e->add_option(
       "--acceptance", a.acceptance,
       "folder with a width.json, or the file: drafts hold as often as it saw in each field (models/demo-cot: a graph's answer, "
       "models/demo: a chain's); --reuse has an earlier answer to draft from then")
      ->excludes(per_pass);
  e->add_option("--every", a.every, "of passes of one row each n-th runs and stands for its neighbours; 1: all run")
      ->check(whole(1, 1000));
  e->add_flag("--reuse", a.reuse, "the frame before was asked too: its unchanged first rows are not run again");
  auto* without = e->add_flag("--no-images", a.no_images, "text rows in place of the pictures'");
  e->add_option("--image", a.images, "image files (default: three made ones)")->excludes(without);
  add_device(e, a.device);
  add_threads(e, a.threads);
  add_json(e, a.json);
  e->footer(
      "On a device each decoder answers three times and the third is shown: passes of the first two may be captured meanwhile. "
      "JSON: first_ms is the "
      "first one's total.");
  e->callback([&chosen, e] {
    for (const char* of_recorded : {"--rows", "--tokens-per-pass", "--acceptance", "--every", "--image"})
      a.recorded |= e->count(of_recorded) > 0;
    // A recorded answer has no scene, and what it repeats are passes.
    for (const char* of_recorded :
         {"--recorded", "--rows", "--tokens-per-pass", "--acceptance", "--every", "--image", "--no-images"})
      for (const char* of_own : {"--scene", "--repeats"}) refuse_beside(*e, of_own, of_recorded);
    for (const char* of_own : {"--scene", "--repeats"})
      if (e->count(of_own) > 0) a.of_own = of_own;
    refuse_twice("--decoders", a.presets);
    chosen = {[] { return bench_answer(a); }, &a.json};
  });
}

void bench_serve_command(CLI::App* bench, Chosen& chosen) {
  static BenchServeOptions s;
  auto* e = bench->add_subcommand("serve", "many requests under way: throughput and times by load, the decoders in turns");
  add_model_flag(e, s.model, false);
  auto* url = e->add_option("--url", s.url, "http://HOST:PORT of a server that runs, asked over sockets, in place of --model");
  e->add_option("--key", s.key, "with --url: the server's key")->needs(url);
  add_dtype(e, s.dtype, true);
  e->add_option("--decoders", s.decoders, "presets (default auto, ar and those of the model's visibility)")->delimiter(',');
  e->add_option("--clients", s.clients, "who ask one question after another (default 1 2 4 8 16 32 64)")
      ->delimiter(',')
      ->check(whole(1, 1024));
  e->add_option(
       "--rates", s.rates,
       "questions a second that come whether or not others are answered (Poisson), the same for every decoder, in place of clients")
      ->delimiter(',')
      ->check(number(0.01, 1e5));
  e->add_option("--hz", s.hz, "clients are cars that ask so often; a newer frame takes the place of one that is not answered")
      ->check(number(0, 1000));
  e->add_option("--seconds", s.seconds, "of each decoder at each load")->check(number(0.1, 3600));
  e->add_option("--turns", s.turns, "that a decoder's time at a load is cut into")->check(whole(1, 100));
  e->add_option("--deadline", s.deadline_ms, "milliseconds; 0: none")->check(number(0, 1e9));
  e->add_option("--temperature", s.temperature, "0: greedy")->check(number(0, 100));
  e->add_option("--scenes", s.scenes, "that are asked about in turns")->check(whole(1, 10000));
  e->add_flag("--reuse", s.reuse, "keep pictures' features and prompts' rows: decoding alone is compared");
  add_threads(e, s.threads);
  add_json(e, s.json);
  e->callback([&chosen, e] {
    for (const char* other : {"--model", "--dtype", "--threads", "--reuse"}) refuse_beside(*e, "--url", other);
    for (const char* other : {"--clients", "--hz"}) refuse_beside(*e, "--rates", other);
    if (s.model.empty() && s.url.empty()) throw CLI::RequiredError("--model or --url");
    refuse_twice("--decoders", s.decoders);
    refuse_twice("--clients", s.clients);
    refuse_twice("--rates", s.rates);
    chosen = {[] { return bench_serve(s); }, &s.json};
  });
}

}  // namespace

void bench_commands(CLI::App& app, Chosen& chosen) {
  auto* bench = app.add_subcommand("bench", "measurements against ceilings measured in the same run");
  bench->require_subcommand(1);
  bench_forward_commands(bench, chosen);
  bench_vision_command(bench, chosen);
  bench_answer_command(bench, chosen);
  static BenchTextOptions t;
  auto* x = bench->add_subcommand(
      "text", "free text by several decoders: questions about simulated scenes with known answers, or any prompts");
  add_model_flag(x, t.model, true);
  x->add_option("--prompts", t.prompts,
                "questions (whose answers are known), scenes (what a driving model is told, without its form), or a file with a "
                "line {\"prompt\": TEXT} each");
  x->add_option(
      "--calibrate", t.calibrate,
      "write how often the drafts of --decoders, one that drafts, held; `auto` finds it as text.width.json in MODEL's folder");
  x->add_option("--decoders", t.decoders,
                "PRESET[/VERIFIER[/WIDTH]], greedy; what `auto` takes to choose is not in its milliseconds (default ar self-spec "
                "self-spec-quadratic text-diffusion text-diffusion/confidence:0.99)")
      ->delimiter(',');
  x->add_option("--first-seed", t.first_seed, "of the scenes; from 900000000 on held out")
      ->check(whole(int64_t{0}, int64_t{1} << 62));
  x->add_option("--count", t.count, "texts (0: 100, or every line of a file)")->check(whole(0, 1 << 20));
  x->add_option("--max-tokens", t.max_tokens, "of an answer")->check(whole(1, 1 << 16));
  add_threads(x, t.threads);
  add_json(x, t.json);
  x->callback([&chosen] {
    refuse_twice("--decoders", t.decoders);
    chosen = {[] { return bench_text(t); }, &t.json};
  });
  static BenchTrajectoryOptions p;
  auto* y = bench->add_subcommand("trajectory",
                                  "a trajectory head's plans before the reasoning is done: when they are there, how far off");
  add_model_flag(y, p.model, true);
  y->add_option("--head", p.head, "folder of a trajectory head (default: MODEL/trajectory)");
  y->add_option("--decoder", p.decoder, "preset that writes the reasoning");
  y->add_option("--first-seed", p.first_seed, "of the scenes; from 900000000 on held out")
      ->check(whole(int64_t{0}, int64_t{1} << 62));
  y->add_option("--count", p.count, "scenes")->check(whole(1, 1 << 20));
  add_threads(y, p.threads);
  add_json(y, p.json);
  y->callback([&chosen] { chosen = {[] { return bench_trajectory(p); }, &p.json}; });
  static BenchDecodersOptions d;
  auto* e = bench->add_subcommand("decoders", "all decoders on one request");
  add_run_options(e, d.run, false);
  e->add_option("--repeats", d.repeats, "runs per decoder; the median is shown")->check(whole(1, 1000));
  e->add_flag("--reuse", d.reuse, "leave out what the prompt shares with the one before, which here is all of it");
  e->add_option("--draft-model", d.draft_model, "folder of a smaller model: the preset draft-model takes part");
  e->add_option("--dflash", d.dflash, "folder of a draft head (default: MODEL/dflash; none: without)");
  e->add_option("--sampler", d.sampler, "folder of a commit sampler (default: MODEL/commit_sampler; none: without)");
  e->add_option("--blockpilot", d.blockpilot, "file or folder of a block pilot (default: MODEL/blockpilot.bin; none: without)");
  e->callback([&chosen] { chosen = {[] { return bench_decoders(d); }, &d.run.json}; });
  bench_serve_command(bench, chosen);
}

}  // namespace slip::cli
