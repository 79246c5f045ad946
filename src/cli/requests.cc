// SPDX-License-Identifier: Apache-2.0
// See requests.h.
#include "cli/requests.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "base/progress.h"
#include "cli/output.h"
#include "decode/types/method.h"
#include "sim/record/shards.h"

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

// The frames' files, in the order of their names.
Result<std::vector<std::string>> frame_files(const std::string& folder) {
  constexpr size_t kMostFrames = 768;  // Qwen2.5-VL's own limit
  std::vector<std::string> out;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::string extension = it->path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return std::tolower(c); });
    constexpr std::array<std::string_view, 5> kKnown{".jpg", ".jpeg", ".png", ".webp", ".ppm"};
    if (std::find(kKnown.begin(), kKnown.end(), extension) != kKnown.end()) out.push_back(it->path().string());
  }
  if (ec) return bad_input("{}: expected a folder of frames, got {}", folder, ec.message());
  if (out.empty()) return bad_input("{}: expected frames (JPEG, PNG, WebP, PPM), got none", folder);
  if (out.size() > kMostFrames) return bad_input("{}: expected at most {} frames, got {}", folder, kMostFrames, out.size());
  std::sort(out.begin(), out.end());
  return out;
}

Result<Image> picture_from(const std::string& file) {
  SLIP_TRY(Image image, load_image(file));
  SLIP_TRY_(check_size(file, image));
  return image;
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
  return std::array<std::string_view, 4>{"portable", "avx2", "avx512", "neon"}[static_cast<size_t>(isa)];
}
std::string_view word_of(WeightType type) {
  return std::array<std::string_view, kWeightTypeCount>{"f32", "bf16", "int8", "int4"}[static_cast<size_t>(type)];
}

namespace {

// Nothing where config.json cannot be read: loading says why.
std::optional<json::object> config_of(const std::string& model) {
  auto config = read_json(std::filesystem::path(model) / "config.json");
  if (!config || !config->is_object()) return std::nullopt;
  return std::move(config->get_object());
}

std::optional<Visibility> visibility_asked(const RunOptions& o) {
  if (o.visibility.empty()) return std::nullopt;
  return o.visibility == "graph" ? Visibility::kGraph : Visibility::kChain;
}

std::string_view default_preset(const Engine* engine, std::optional<Visibility> visibility, bool form) {
  const bool drafts = !engine || const_cast<Engine*>(engine)->model().lm().info().rule.has_mask;
  if (!form) return drafts ? "self-spec" : "ar";
  if (!visibility && engine) visibility = engine->visibility();
  if (visibility == Visibility::kGraph) return drafts ? "fields-spec" : "fields";
  return drafts ? "scaffold-spec" : "scaffold-ar";
}

}  // namespace

std::optional<Visibility> visibility_of_folder(const std::string& model) {
  const auto config = config_of(model);
  if (!config) return std::nullopt;
  const auto task = task_options(*config, "config.json");
  if (!task) return std::nullopt;
  return task->visibility == Visibility::kGraph ? Visibility::kGraph : Visibility::kChain;
}

Result<Method> method_from(const MethodFlags& f, const Engine* engine, bool form) {
  SLIP_TRY(Method m, method_of(f.decoder.empty() ? default_preset(engine, f.visibility, form) : f.decoder));
  return with_parts(std::move(m), f.schedule, f.drafter, f.verifier, f.width);
}

Status check_words(const MethodFlags& f) {
  auto m = method_from(f, nullptr, true);
  if (!m && m.error().kind == ErrorKind::kUsage) return m.error();
  return {};
}

Result<Method> method_from(const RunOptions& o, const Engine* engine, bool form) {
  MethodFlags flags{o.decoder, o.schedule, o.drafter, o.verifier, o.width};
  flags.visibility = visibility_asked(o);
  return method_from(flags, engine, form);
}

namespace {

Status read_pictures(const RunOptions& o, Request& r) {
  for (const std::string& file : o.images) {
    SLIP_TRY(Image image, picture_from(file));
    r.images.push_back(std::move(image));
  }
  for (const std::string& folder : o.videos) {
    SLIP_TRY(const std::vector<std::string> files, frame_files(folder));
    VideoClip& clip = r.videos.emplace_back();
    clip.fps = o.fps;
    for (const std::string& file : files) {
      SLIP_TRY(Image frame, picture_from(file));
      clip.frames.push_back(std::move(frame));
    }
  }
  return {};
}

// What is asked: an ego history, a text, or pictures alone.
Status read_question(const RunOptions& o, Request& r) {
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
  if (o.has_prompt && !is_valid_utf8(r.prompt)) return bad_input("--prompt: expected valid UTF-8, got other bytes");
  if (!r.ego && r.prompt.empty() && r.images.empty() && r.videos.empty())
    return usage_error("run: expected --record, --ego, --prompt, --prompt-file, --image or --video, got none of them");
  if (!r.ego && r.prompt.empty()) r.ego = standing_ego();  // images alone: a car at rest that goes straight on
  return {};
}

void blank(Request& r) {
  const auto grey = [](Image& image) { std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{128}); };
  std::for_each(r.images.begin(), r.images.end(), grey);
  for (VideoClip& clip : r.videos) std::for_each(clip.frames.begin(), clip.frames.end(), grey);
}

Status take_options(const RunOptions& o, Request& r) {
  r.form = o.form == "none" ? "" : o.form;
  r.unnorm_key = o.unnorm_key;
  SLIP_TRY_(check_words({o.decoder, o.schedule, o.drafter, o.verifier, o.width}));
  r.visibility = visibility_asked(o);
  r.decode.sampling = {.top_k = o.top_k,
                       .top_p = static_cast<float>(o.top_p),
                       .min_p = static_cast<float>(o.min_p),
                       .repetition = static_cast<float>(o.repetition),
                       .repetition_last = o.repetition_last};
  r.decode.most_rows = o.most_rows;
  r.decode.activation = !o.no_activation;
  r.decode.log_forced = o.log_forced;
  r.fit = fit_from(o.fit);
  r.decode.temperature = static_cast<float>(o.temperature);
  r.decode.seed = o.seed;
  r.decode.limit = o.max_tokens.value_or(kDefaultTokens);
  r.decode.trace = !o.trace.empty();
  r.rollouts = o.rollouts;
  for (const std::string& text : o.section_temperatures) {
    SLIP_TRY(auto pair, section_temperature(text));
    r.section_temperatures.push_back(std::move(pair));
  }
  const bool samples = o.temperature > 0 || std::any_of(r.section_temperatures.begin(), r.section_temperatures.end(),
                                                        [](const auto& section) { return section.second > 0; });
  if (o.rollouts > 1 && !samples)
    return usage_error("--rollouts: expected a temperature above 0 (--temperature, --section-temperature) for {} of them, got 0",
                       o.rollouts);
  return {};
}

// What could not act is refused: an answer under an option is taken for what the option says.
Status check_use(const RunOptions& o) {
  const bool text = o.form == "none";
  if (o.max_tokens && !text) return usage_error("--max-tokens: expected free text (--form none), got form {}", o.form);
  if (o.log_forced && text) return usage_error("--log-forced: expected a form, got free text");
  if (o.most_rows > 0 || o.no_activation) {
    const std::string_view flag = o.no_activation ? "--no-activation" : "--max-rows";
    if (text) return usage_error("{}: expected a form under graph visibility, got free text", flag);
    if ((o.visibility.empty() ? visibility_of_folder(o.model) : visibility_asked(o)) == Visibility::kChain)
      return usage_error("{}: expected graph visibility, got chain visibility", flag);
  }
  if (o.unnorm_key.empty()) return {};
  const auto config = config_of(o.model);
  if (config && !is_openvla_config(*config))
    return usage_error("--unnorm-key: expected a model of actions with statistics, got {}", o.model);
  return {};
}

}  // namespace

Result<Prepared> prepare(const RunOptions& o) {
  SLIP_TRY_(check_use(o));
  Prepared out;
  if (!o.record.empty()) {
    SLIP_TRY(out, from_record(o.record));
  }
  SLIP_TRY_(read_pictures(o, out.request));
  SLIP_TRY_(read_question(o, out.request));
  if (o.blank_images) blank(out.request);
  SLIP_TRY_(take_options(o, out.request));
  out.request.context.cancel = CancelToken::of_process();
  return out;
}

Result<std::unique_ptr<Engine>> load_engine(const std::string& model, const std::string& dtype, int threads, int slots,
                                            const std::string& device, const std::string& keys) {
  Progress progress("loading", 0);
  return Engine::load(model, {dtype, threads, slots, device, keys},
                      [&](int64_t done, int64_t total) { progress.update(total > 0 ? done * 100 / total : done, "%"); });
}

}  // namespace slip::cli
