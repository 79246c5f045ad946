// SPDX-License-Identifier: Apache-2.0
// See requests.h.
#include "cli/requests.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/progress.h"
#include "cli/output.h"
#include "decode/method.h"
#include "sim/world.h"

namespace slip::cli {

namespace {

Fit fit_from(const std::string& word) {
  if (word == "minjerk") return Fit::kMinJerkV0;
  if (word == "linear") return Fit::kLinear;
  return Fit::kJmtPaperCompat;
}

Result<std::pair<std::string, float>> section_temperature(const std::string& text) {
  const size_t equals = text.find('=');
  float value = 0;
  const char* end = text.data() + text.size();
  if (equals != std::string::npos) {
    const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, value);
    if (error == std::errc{} && stop == end && value >= 0 && value <= 100) return std::pair{text.substr(0, equals), value};
  }
  return usage_error("--section-temperature: expected SECTION=T with T from 0 to 100, got {}", text);
}

// A camera picture below one merged cell of the tower shows nothing (Qwen2-VL's first processor refused it, the later ones blow it
// up); above an aspect of 200 the resize refuses it too, but only here is the file's name known.
Status check_size(const std::string& file, const Image& image) {
  // One merged cell of Qwen2.5-VL; its aspect limit; and a width that no camera has (WebP's own limit, rounded up): larger
  // pictures are panoramas or mistakes.
  constexpr int kLeastSide = 28, kMostAspect = 200, kMostSide = 16384;
  const auto [small, large] = std::minmax(image.width, image.height);
  if (small < kLeastSide)
    return bad_input("{}: expected an image of at least {} x {} pixels, got {} x {}", file, kLeastSide, kLeastSide, image.width,
                     image.height);
  if (large > kMostSide)
    return bad_input("{}: expected an image of at most {} pixels a side, got {} x {}", file, kMostSide, image.width, image.height);
  if (large / kMostAspect > small || (large / kMostAspect == small && large % kMostAspect != 0))
    return bad_input("{}: expected an aspect ratio of at most {}, got {} x {}", file, kMostAspect, image.width, image.height);
  return {};
}

// SHARD:I or SET:I.
Result<Prepared> from_record(const std::string& text) {
  const size_t colon = text.rfind(':');
  int64_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + (colon == std::string::npos ? text.size() : colon + 1), end, index);
  if (error != std::errc{} || stop != end) return usage_error("--record: expected SHARD:I, got {}", text);
  SLIP_TRY(const sim::RecordSet set, sim::RecordSet::open(text.substr(0, colon)));
  if (index < 0 || index >= set.size())
    return bad_input("{}: expected a record from 0 to {}, got {}", text.substr(0, colon), set.size() - 1, index);
  Prepared out;
  SLIP_TRY(out.truth, set.labels(index));
  out.request.ego = ego_of(*out.truth);
  SLIP_TRY(const auto images, set.pictures(index));
  out.request.images = camera_images(images);
  out.simulated_cameras = true;
  return out;
}

}  // namespace

std::string_view word_of(Isa isa) {
  return std::array<std::string_view, 3>{"portable", "avx2", "avx512"}[static_cast<size_t>(isa)];
}
std::string_view word_of(WeightType type) {
  return std::array<std::string_view, 3>{"f32", "bf16", "int8"}[static_cast<size_t>(type)];
}

namespace {

std::string_view default_preset(const Engine* engine, bool form) {
  const bool drafts = !engine || const_cast<Engine*>(engine)->model().lm().info().rule.has_mask;
  if (!form) return drafts ? "self-spec" : "ar";
  if (engine && engine->law() == Law::kGraph) return drafts ? "fields-spec" : "fields";
  return drafts ? "scaffold-spec" : "scaffold-ar";
}

}  // namespace

Result<Method> method_from(const MethodFlags& f, const Engine* engine, bool form) {
  SLIP_TRY(Method m, method_of(f.decoder.empty() ? default_preset(engine, form) : f.decoder));
  return with_parts(std::move(m), f.schedule, f.drafter, f.verifier, f.width);
}

Status check_words(const MethodFlags& f) {
  auto m = method_from(f, nullptr, true);
  if (!m && m.error().kind == ErrorKind::kUsage) return m.error();
  return {};
}

Result<Method> method_from(const RunOptions& o, const Engine* engine, bool form) {
  return method_from(MethodFlags{o.decoder, o.schedule, o.drafter, o.verifier, o.width}, engine, form);
}

Result<Prepared> prepare(const RunOptions& o) {
  Prepared out;
  if (!o.record.empty()) {
    SLIP_TRY(out, from_record(o.record));
  }
  Request& r = out.request;
  for (const std::string& file : o.images) {
    SLIP_TRY(Image image, load_image(file));
    SLIP_TRY_(check_size(file, image));
    r.images.push_back(std::move(image));
  }
  if (!o.ego.empty()) {
    SLIP_TRY(r.ego, read_ego(o.ego));
  }
  r.prompt = o.prompt;
  if (!o.prompt_file.empty()) {
    SLIP_TRY(r.prompt, read_input(o.prompt_file));
    if (!is_valid_utf8(r.prompt)) return bad_input("{}: expected valid UTF-8, got other bytes", o.prompt_file);
    if (r.prompt.empty()) return bad_input("{}: expected text, got an empty file", o.prompt_file);
  }
  if (o.has_prompt && r.prompt.empty()) return bad_input("--prompt: expected text, got nothing");
  if (!r.ego && r.prompt.empty() && r.images.empty())
    return usage_error("run: expected --record, --ego, --prompt, --prompt-file or --image, got none of them");
  if (!r.ego && r.prompt.empty()) r.ego = standing_ego();  // images alone: a car at rest that goes straight on
  if (o.blank_images) {
    for (Image& image : r.images) std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{128});
  }
  r.form = o.form == "none" ? "" : o.form;
  SLIP_TRY_(check_words({o.decoder, o.schedule, o.drafter, o.verifier, o.width}));
  if (!o.law.empty()) r.law = o.law == "graph" ? Law::kGraph : Law::kChain;
  r.decode.sampling = {.top_k = o.top_k,
                       .top_p = static_cast<float>(o.top_p),
                       .min_p = static_cast<float>(o.min_p),
                       .repetition = static_cast<float>(o.repetition),
                       .repetition_last = o.repetition_last};
  r.decode.most_rows = o.most_rows;
  r.decode.activation = !o.no_activation;
  r.fit = fit_from(o.fit);
  r.decode.temperature = static_cast<float>(o.temperature);
  r.decode.seed = o.seed;
  r.decode.limit = o.max_tokens;
  r.decode.trace = !o.trace.empty();
  r.rollouts = o.rollouts;
  for (const std::string& text : o.section_temperatures) {
    SLIP_TRY(auto pair, section_temperature(text));
    r.section_temperatures.push_back(std::move(pair));
  }
  return out;
}

Result<std::unique_ptr<Engine>> load_engine(const std::string& model, const std::string& dtype, int threads, int slots) {
  Progress progress("loading", 0);
  return Engine::load(model, {dtype, threads, slots},
                      [&](int64_t done, int64_t total) { progress.update(total > 0 ? done * 100 / total : done, "%"); });
}

Result<int> slots_for(const RunOptions& o, const Request& request) {
  if (o.slots > 0) return o.slots;
  int64_t rows = static_cast<int64_t>(request.prompt.size()) + 2 * int64_t{o.max_tokens} + 2048;
  const auto file = std::filesystem::path(o.model) / "preprocessor_config.json";
  std::error_code ec;
  if (!request.images.empty() && std::filesystem::exists(file, ec)) {  // without it the model says what it lacks
    SLIP_TRY(const PreprocessorConfig config, read_preprocessor_config(file));
    for (const Image& image : request.images) {
      SLIP_TRY(const Size size, smart_resize(image.height, image.width, config.factor(), config.min_pixels, config.max_pixels));
      rows += int64_t{size.height} * size.width / (int64_t{config.factor()} * config.factor());
    }
  }
  return static_cast<int>(std::clamp<int64_t>(rows, kDefaultSlots, int64_t{1} << 24));
}

PictureInput picture_of(const Prepared& prepared, const Answer& answer) {
  PictureInput p;
  p.title = "Slipstream";
  p.images = prepared.request.images;
  p.simulated_cameras = prepared.simulated_cameras;
  for (const Waypoint& w : answer.plan.waypoints) p.waypoints.push_back({w.x, w.y});
  if (answer.plan.fitted)
    for (const Waypoint& w : answer.plan.fitted->points) p.path.push_back({w.x, w.y});
  if (prepared.request.ego)
    for (const sim::EgoState& s : prepared.request.ego->history) p.history.push_back({s.x, s.y});
  if (prepared.truth) {
    for (int i = 1; i <= 20; ++i) p.truth_path.push_back(sim::future_at(*prepared.truth, i / 4.0));
    if (auto moment = sim::moment_at(prepared.truth->seed, prepared.truth->family)) p.moment = std::move(*moment);
    p.title = fmt::format("Slipstream   scene {} ({})   {}", prepared.truth->seed, sim::family_names()[prepared.truth->family],
                          words(prepared.truth->intent));
  }
  if (answer.form) {
    const auto objects = objects_of(answer.form->form, answer.values);
    for (size_t c = 0; c < objects.size(); ++c) {
      if (!objects[c]) continue;
      p.objects.emplace_back(std::string(sim::kObjectClasses[c]), *objects[c]);
      p.truth_objects.push_back(prepared.truth ? std::optional<bool>(prepared.truth->critical[c]) : std::nullopt);
    }
    for (size_t f = 0; f < answer.values.size(); ++f) {
      const std::string& name = answer.form->form.fields()[f].name;
      const std::string* text = std::get_if<std::string>(&answer.values[f]);
      if (!text) continue;
      if (name == "explanation")
        p.explanation = *text;
      else if (name == "future_meta_behavior.longitudinal")
        p.longitudinal = *text;
      else if (name == "future_meta_behavior.lateral")
        p.lateral = *text;
      else if (!name.starts_with("critical_objects."))
        p.fields.emplace_back(name, *text);
    }
  }
  const Statistics& s = answer.decoded.statistics;
  p.facts = {{"decoder", answer.method.preset},
             {"answer", answer.method.lossy() ? "lossy" : "exact"},
             {"forward passes", fmt::format("{}", s.forwards)},
             {"tokens", fmt::format("{} ({} forced)", s.tokens, s.forced_tokens)},
             {"accepted / tested", s.tested ? fmt::format("{} / {}", s.accepted, s.tested) : "no drafts"},
             {"time", fmt::format("{:.1f} ms", answer.stages.total_ms)}};
  return p;
}

json::value trace_of(const Answer& answer) {
  json::array events;
  double at_us = 0;
  const auto event = [&](std::string_view name, double ms, json::object args = {}) {
    events.push_back(json::object{
        {"name", name}, {"ph", "X"}, {"ts", at_us}, {"dur", ms * 1000}, {"pid", 1}, {"tid", 1}, {"args", std::move(args)}});
    at_us += ms * 1000;
  };
  const Statistics& s = answer.decoded.statistics;
  event("form", answer.stages.form_ms);
  event("encode", answer.stages.encode_ms);
  event("prefill", s.ms.prefill);
  // The decoder times drafts and verifies as sums: rounds share them equally, which the name says.
  const auto rounds = static_cast<double>(answer.decoded.rounds.size());
  for (size_t i = 0; i < answer.decoded.rounds.size(); ++i) {
    const Round& r = answer.decoded.rounds[i];
    json::object args{{"round", i},
                      {"rows", {r.rows.begin, r.rows.end}},
                      {"proposed", r.positions.size()},
                      {"accepted", r.accepted},
                      {"duration", "mean over the rounds"}};
    if (s.ms.draft > 0) event("draft", s.ms.draft / rounds, args);
    event("verify", s.ms.verify / rounds, std::move(args));
  }
  if (answer.decoded.rounds.empty()) {
    event("draft", s.ms.draft);
    event("verify", s.ms.verify);
  }
  event("plan", answer.stages.plan_ms);
  return json::object{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace slip::cli
