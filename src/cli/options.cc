// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include "cli/options.h"

#include <fmt/ranges.h>
#include <algorithm>
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

void refuse_beside(const CLI::App& c, const char* option, const char* other) {
  if (c.count(option) > 0 && c.count(other) > 0) throw CLI::ExcludesError(option, other);
}

void add_json(CLI::App* c, bool& json) { c->add_flag("--json", json, "machine-readable result on stdout"); }
void add_model(CLI::App* c, std::string& model) {
  c->add_option("model,-m,--model", model, "Hugging Face folder")->required()->type_name("MODEL");
}
void add_model_flag(CLI::App* c, std::string& model, bool required) {
  c->add_option("-m,--model", model, "Hugging Face folder, as it is or packed by quantize")->required(required)->type_name("MODEL");
}
void add_dtype(CLI::App* c, std::string& dtype, bool automatic) {
  c->add_option("--dtype", dtype,
                automatic ? "weights: auto (as stored, or as config.json says), f32, bf16, int8, int4"
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

void add_engine(CLI::App* c, slipstream::EngineOptions& o) {
  add_dtype(c, o.dtype, true);
  add_device(c, o.device);
  add_kv(c, o.kv_type);
  add_threads(c, o.threads);
}

std::string forms_help() {
  return fmt::format("`model` (the one that the model folder was trained for), {}, or a JSON Schema file",
                     fmt::join(slipstream::builtin_forms(), ", "));
}

void add_method_options(CLI::App* c, slipstream::DecoderChoice& d) {
  c->add_option(
      "--decoder", d.preset,
      fmt::format("preset: {}; over a form every exact one gives the same tokens (default: auto, the quickest exact one here; "
                  "parts without a preset are those of fields-spec, scaffold-spec or self-spec)",
                  slipstream::decoder_words("preset")));
  const auto add = [&](const char* flag, std::string& value, std::string_view part, std::string_view more = "") {
    c->add_option(flag, value, fmt::format("{} (overrides the preset's{})", slipstream::decoder_words(part), more));
  };
  add("--schedule", d.schedule, "schedule");
  add("--drafter", d.drafter, "drafter");
  add("--verifier", d.verifier, "verifier", "; exact: the same tokens, rejection: the same law, all others are lossy");
  add("--width", d.width, "width");
}

namespace {

constexpr const char* kQuestion = "The question";
constexpr const char* kDecoder = "The decoder";
constexpr const char* kMachine = "The model and the machine";
constexpr const char* kOutput = "Output";

// What is asked about, and in which words.
void add_question_options(CLI::App* c, RunOptions& o) {
  slipstream::Request& r = o.request;
  auto* image = c->add_option(
      "--image", o.images,
      "camera images in the model's order (driving models here: front left, front, front right); - for standard input");
  auto* video =
      c->add_option("--video", o.videos, "folder of a video's frames, one image each, in the order of their names; repeatable");
  auto* fps = c->add_option("--fps", o.fps, "frames per second of --video")->needs(video);
  auto* prompt =
      c->add_option("-p,--prompt", r.prompt, "user text; <image> marks where the images go")->each([&o](const std::string&) {
        o.has_prompt = true;
      });
  auto* file = c->add_option("--prompt-file", o.prompt_file, "the same from a file; - for standard input")->excludes(prompt);
  auto* messages = c->add_option("--messages", o.messages,
                                 "a conversation (JSON): [{\"role\": \"user\", \"content\": \"...\"}, ...]; - for standard input")
                       ->excludes(prompt)
                       ->excludes(file);
  auto* record =
      c->add_option("--record", o.record, "SET:INDEX, a record of a record set: its folder, or a shard of it, and a number from 0")
          ->excludes(prompt)
          ->excludes(file)
          ->excludes(messages)
          ->excludes(image)
          ->excludes(video);
  auto* ego =
      c->add_option("--ego", o.ego,
                    "JSON with the route's intent and the ego history: the model's own prompt is made of it; - for standard input")
          ->excludes(prompt)
          ->excludes(file)
          ->excludes(messages)
          ->excludes(record);
  for (CLI::Option* option : {image, video, fps, prompt, file, messages, record, ego}) option->group(kQuestion);
}

// One of the request's own settings (slipstream/request.h), whose checks are the library's.
void add_request_option(CLI::App* c, const slipstream::RequestOption& option, slipstream::Request& request) {
  using Kind = slipstream::RequestOption::Kind;
  std::string flag = "--" + std::string(option.flag);
  if (option.flag == "visibility") flag += ",--law";  // its first name
  const auto put = [name = option.name, &request](const std::string& value) {
    if (const auto done = slipstream::set_option(request, name, value, ""); !done)
      throw CLI::ValidationError("", done.error().message);
  };
  CLI::Option* made = nullptr;
  if (option.kind == Kind::kFlag) {
    made = c->add_flag_callback(
        flag, [put, on = option.initial == "true" ? "false" : "true"] { put(on); }, option.help);
  } else {
    const std::string type = option.kind == Kind::kWhole ? "INT" : option.kind == Kind::kNumber ? "FLOAT" : "TEXT";
    const auto check = [name = option.name](const std::string& value) -> std::string {
      slipstream::Request probe;
      const auto done = slipstream::set_option(probe, name, value, "");
      return done ? "" : done.error().message;
    };
    const std::string words = option.words.empty() ? option.range : fmt::format("{{{}}}", fmt::join(option.words, ","));
    if (option.kind == Kind::kTexts)
      made = c->add_option_function<std::vector<std::string>>(
          flag,
          [put](const std::vector<std::string>& values) {
            for (const std::string& value : values) put(value);
          },
          option.help);
    else
      made = c->add_option_function<std::string>(flag, put, option.help);
    made->check(CLI::Validator(check, words))->type_name(type)->default_str(option.initial);
  }
  made->group(std::string(option.group));
}

void add_machine_options(CLI::App* c, RunOptions& o) {
  std::vector<CLI::Option*> before = c->get_options();
  c->add_option("--slots", o.engine.slots, "rows that the key/value cache holds; 0: enough for this request")
      ->check(whole(0, 1 << 24));
  add_engine(c, o.engine);
  for (CLI::Option* option : c->get_options())
    if (std::find(before.begin(), before.end(), option) == before.end()) option->group(kMachine);
}

}  // namespace

void add_run_options(CLI::App* c, RunOptions& o, bool method) {
  slipstream::Request& r = o.request;
  add_model_flag(c, o.model, true);
  c->get_option("--model")->group(kMachine);
  c->add_option("--form", r.form, forms_help() + ", or none: free text; - for a schema on standard input")->group("The answer");
  add_question_options(c, o);
  std::vector<CLI::Option*> before = c->get_options();
  if (method) add_method_options(c, r.decoder);
  for (CLI::Option* option : c->get_options())
    if (std::find(before.begin(), before.end(), option) == before.end()) option->group(kDecoder);
  for (const slipstream::RequestOption& option : slipstream::request_options())
    if (!option.flag.empty() && (method || option.group != kOutput)) add_request_option(c, option, r);
  add_machine_options(c, o);
  add_json(c, o.json);
  c->get_option("--json")->group(kOutput);
  c->parse_complete_callback([c, &o] { o.max_tokens_given = c->count("--max-tokens") > 0; });
}

void refuse_empty_texts(CLI::App& app) {
  for (CLI::Option* o : app.get_options()) {
    const bool data = o->check_name("--prompt") || o->check_name("--system") || o->check_name("--text") || o->check_name("--ids");
    if (!data && o->get_items_expected_max() > 0) o->check(not_empty);
  }
  for (CLI::App* c : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_texts(*c);
}

}  // namespace slip::cli
