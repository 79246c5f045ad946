// SPDX-License-Identifier: Apache-2.0
// How many rows the key/value cache must hold for a request, told before the model is loaded (requests.h). What a decoder takes behind
// the prompt is Capacity's to say (decode/types/capacity.h); here is what is known of the prompt and of the form beforehand.
#include <algorithm>
#include <filesystem>

#include "cli/requests.h"
#include "decode/types/capacity.h"
#include "form/schema/outline.h"
#include "models/vision/image_rules.h"
#include "task/wod.h"

namespace slip::cli {

namespace {

// The longest built-in form, which a form is taken for at least: it is not compiled yet. drive-cot has 677 positions in 41 fields.
constexpr int64_t kLongestForm = 1280, kMostFields = 41;
// Free text may draft behind its limit, as far as an earlier answer goes or a pass of measured width.
constexpr int64_t kDraftsOfText = 128;
// The chat template, and an ego history's text, which the engine makes.
constexpr int64_t kAroundPrompt = 2048;

// The schema of a file, or of the form that the model was trained for; nothing for a built-in.
Result<json::value> schema_in_sight(const std::string& form, const std::string& model) {
  if (form != "model") {
    if (form.find('/') == std::string::npos && form.find('.') == std::string::npos) return json::value();
    return read_json(form, size_t{16} << 20);
  }
  const std::string where = (std::filesystem::path(model) / "config.json").string();
  SLIP_TRY(const json::value config, read_json(where));
  if (!config.is_object()) return json::value();
  SLIP_TRY(const TaskOptions task, task_options(config.get_object(), where));
  return task_schema(task);
}

// As the schema alone tells it, a token a byte; what is wrong with it is said when it is compiled.
FormSize size_of(const std::string& form, const std::string& model) {
  FormSize size{.positions = kLongestForm - kMostFields, .fields = kMostFields};
  const auto schema = schema_in_sight(form, model);
  if (!schema || schema->is_null()) return size;
  const auto told = outline_json(*schema, form);
  if (!told) return size;
  size.fields = static_cast<int64_t>(told->at("fields").as_array().size());
  size.positions = told->at("positions").to_number<int64_t>();
  return size;
}

// Rows of one answer, the same for each rollout: none shares its rows with another where all part at the first token.
int64_t answer_rows(MethodFlags flags, const std::string& model, const std::string& form, int64_t most_tokens) {
  if (!flags.visibility) flags.visibility = visibility_of_folder(model);
  const bool text = form.empty();
  const int64_t usual = text ? 2 * most_tokens + kDraftsOfText : kLongestForm;
  const auto method = method_from(flags, nullptr, !text);
  if (!method) return usual;  // it will be refused
  DecodeOptions options;
  options.visibility = flags.visibility.value_or(Visibility::kChain);
  options.forced = !text;
  const FormSize size = text ? FormSize{} : size_of(form, model);
  return std::max(usual, Capacity::of(*method, options, !text).slots_of_answers(1, most_tokens, size));
}

int clamped(int64_t rows) { return static_cast<int>(std::clamp<int64_t>(rows, kDefaultSlots, kMostSlots)); }

}  // namespace

Result<int> slots_for(const RunOptions& o, const Request& request) {
  if (o.slots > 0) return o.slots;
  MethodFlags flags{o.decoder, o.schedule, o.drafter, o.verifier, o.width};
  flags.visibility = request.visibility;
  int64_t rows = static_cast<int64_t>(request.prompt.size()) + kAroundPrompt +
                 o.rollouts * answer_rows(flags, o.model, request.form, o.max_tokens.value_or(kDefaultTokens));
  const auto file = std::filesystem::path(o.model) / "preprocessor_config.json";
  std::error_code ec;
  if ((!request.images.empty() || !request.videos.empty()) &&
      std::filesystem::exists(file, ec)) {  // without it the model says what it lacks
    SLIP_TRY(const ImageRules rules, ImageRules::need(o.model));
    for (const Image& image : request.images) {
      SLIP_TRY(const int64_t n, rules.rows(image.height, image.width));
      rows += n;
    }
    for (const VideoClip& clip : request.videos) {  // a group of frames has as many rows as a still
      SLIP_TRY(const int64_t n, rules.rows(clip.frames[0].height, clip.frames[0].width));
      const int64_t group = rules.qwen() ? rules.qwen()->temporal_patch_size : 1;
      rows += n * ((static_cast<int64_t>(clip.frames.size()) + group - 1) / group);
    }
  }
  return clamped(rows);
}

int slots_for(const MethodFlags& flags, const std::string& model) {
  return clamped(kDefaultSlots - kLongestForm + answer_rows(flags, model, "model", 0));
}

}  // namespace slip::cli
