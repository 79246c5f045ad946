// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include "cli/options.h"

#include <limits>

#include "slipstream/form.h"
#include "slipstream/request.h"

namespace slip::cli {

namespace {

std::string not_empty(const std::string& text) { return text.empty() ? "expected a text, got an empty one" : ""; }

CLI::Validator interval(double least, double most, bool open) {
  const std::string words = fmt::format("{} {} to {}", open ? "above" : "from", least, most);
  const auto check = [least, most, open, words](const std::string& text) -> std::string {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    // A NaN is on neither side of a bound.
    if (error == std::errc{} && stop == end && (value > least || (!open && value == least)) && value <= most) return "";
    return fmt::format("expected a number {}, got {}", words, text.empty() ? "nothing" : text);
  };
  return CLI::Validator(check, words);
}

}  // namespace

CLI::Validator seed_number() { return whole<uint64_t>(0, std::numeric_limits<uint64_t>::max(), ""); }
CLI::Validator number(double least, double most) { return interval(least, most, false); }
CLI::Validator number_above(double least, double most) { return interval(least, most, true); }

void add_json(CLI::App* c, bool& json) { c->add_flag("--json", json, "machine-readable result on stdout"); }
void add_model(CLI::App* c, std::string& model) {
  c->add_option("model,--model", model, "Hugging Face folder")->required()->type_name("MODEL");
}
void add_model_flag(CLI::App* c, std::string& model, bool required) {
  c->add_option("--model", model, "Hugging Face folder, as it is or packed by quantize")->required(required)->type_name("MODEL");
}
void add_dtype(CLI::App* c, std::string& dtype, bool automatic) {
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
  c->add_option("--threads", threads, "0: every core this process may use")->check(whole(0, 1024));
}

std::string forms_help() {
  return fmt::format("`model` (the one that the model folder was trained for), {}, or a JSON Schema file",
                     fmt::join(slipstream::builtin_forms(), ", "));
}

void add_method_options(CLI::App* c, slipstream::DecoderChoice& d) {
  c->add_option("--decoder", d.preset,
                fmt::format("preset: {}; over a form every exact one gives the same tokens (default: fields-spec under graph "
                            "visibility, otherwise scaffold-spec, or self-spec for free text)",
                            slipstream::decoder_words("preset")));
  const auto add = [&](const char* flag, std::string& value, std::string_view part, std::string_view more = "") {
    c->add_option(flag, value, fmt::format("{} (overrides the preset's{})", slipstream::decoder_words(part), more));
  };
  add("--schedule", d.schedule, "schedule");
  add("--drafter", d.drafter, "drafter");
  add("--verifier", d.verifier, "verifier", "; all but the first two are lossy");
  add("--width", d.width, "width");
}

void add_run_options(CLI::App* c, RunOptions& o, bool method) {
  slipstream::Request& r = o.request;
  slipstream::Sampling& s = r.sampling;
  add_model_flag(c, o.model, true);
  c->add_option("--form", r.form, forms_help() + ", or none: free text");
  auto* image = c->add_option("--image", o.images,
                              "camera images in the model's order (driving models here: front left, front, front right)");
  auto* video =
      c->add_option("--video", o.videos, "folder of a video's frames, one image each, in the order of their names; repeatable");
  c->add_option("--fps", o.fps, "frames per second of --video")->needs(video);
  auto* prompt =
      c->add_option("--prompt", r.prompt, "user text; <image> marks where the images go")->each([&o](const std::string&) {
        o.has_prompt = true;
      });
  auto* file = c->add_option("--prompt-file", o.prompt_file, "the same from a file")->excludes(prompt);
  auto* record = c->add_option("--record", o.record, "SHARD:I, record I of a record set")
                     ->excludes(prompt)
                     ->excludes(file)
                     ->excludes(image)
                     ->excludes(video);
  c->add_option("--ego", o.ego, "JSON with the route's intent and the ego history: the model's own prompt is made of it")
      ->excludes(prompt)
      ->excludes(file)
      ->excludes(record);
  if (method) add_method_options(c, r.decoder);
  c->add_option("--law", r.visibility, "chain or graph: who sees whom in the form (default: what the model was trained for)")
      ->check(CLI::IsMember({"chain", "graph"}));
  c->add_option("--unnorm-key", r.unnorm_key,
                "OpenVLA: the data set whose statistics put actions in physical units (default: the only one)");
  c->add_option("--max-rows", r.max_rows,
                "graph visibility: rows of a pass at most, fields with the longest way to go first; 0: no limit")
      ->check(whole(0, 1 << 16));
  c->add_flag_callback(
      "--no-activation", [&r] { r.activation = false; }, "graph visibility: children wait until their parents are verified");
  c->add_option("--temperature", s.temperature, "0: greedy")->check(number(0, 100));
  c->add_option("--top-k", s.top_k, "sample among the k likeliest; 0: all")->check(whole(0, 1 << 20));
  c->add_option("--top-p", s.top_p, "sample among the fewest that reach this probability")->check(number_above(0, 1));
  c->add_option("--min-p", s.min_p, "sample among those of at least this share of the likeliest")->check(number(0, 1));
  c->add_option("--repetition-penalty", s.repetition_penalty, "divides logits of recent tokens; 1: off")->check(number(0.1, 10));
  c->add_option("--repetition-last", s.repetition_last, "how many tokens are recent")->check(whole(0, 1 << 20));
  c->add_option("--section-temperature", o.section_temperatures, "SECTION=T, repeatable: that section alone");
  c->add_option("--seed", r.seed, "seed of the keyed uniforms")->check(seed_number());
  c->add_option("--rollouts", r.rollouts, "sampled trajectories to average")->check(whole(1, 64));
  c->add_option("--slots", o.engine.slots, "rows that the key/value cache holds; 0: enough for this request")
      ->check(whole(0, 1 << 24));
  c->add_option("--max-tokens", o.max_tokens, "free text: most tokens (default 256)")->check(whole(1, 1 << 20));
  c->add_option("--fit", r.fit, "waypoints to points: paper (as published), minjerk, linear")
      ->check(CLI::IsMember({"paper", "minjerk", "linear"}));
  c->add_flag("--blank-images", r.blank_images, "grey images in place of the real ones (an ablation)");
  add_dtype(c, o.engine.dtype, true);
  add_device(c, o.engine.device);
  add_kv(c, o.engine.kv_type);
  add_threads(c, o.engine.threads);
  add_json(c, o.json);
}

void refuse_empty_texts(CLI::App& app) {
  for (CLI::Option* o : app.get_options()) {
    const bool data = o->check_name("--prompt") || o->check_name("--text") || o->check_name("--ids");
    if (!data && o->get_items_expected_max() > 0) o->check(not_empty);
  }
  for (CLI::App* c : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_texts(*c);
}

}  // namespace slip::cli
