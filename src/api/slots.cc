// SPDX-License-Identifier: Apache-2.0
// See slots.h. What a decoder takes behind the prompt is Capacity's to say (decode/types/capacity.h); here is what is known of the prompt
// and of the form beforehand.
#include "api/slots.h"

#include <algorithm>
#include <filesystem>

#include "api/choice.h"
#include "api/folder_tokens.h"
#include "api/pictures.h"
#include "api/request/earlier.h"
#include "api/request/requests.h"
#include "decode/types/capacity.h"
#include "forecast/automatic.h"
#include "form/schema/outline.h"
#include "models/vision/image_rules.h"
#include "slipstream/engine.h"
#include "task/wod.h"

namespace slip::api {

namespace {

// The longest built-in form, which a form is taken for at least: it is not compiled yet. drive-cot has 677 positions in 41 fields.
constexpr int64_t kLongestForm = 1280, kMostFields = 41;
// Free text may draft behind its limit, as far as an earlier answer goes or a measured draft length.
constexpr int64_t kDraftsOfText = 128;
// The chat template, and an ego history's text, which the engine makes.
constexpr int64_t kAroundPrompt = 2048;
constexpr size_t kAroundTurn = 64;  // role and marks of one more turn

// The document of the request, the schema of a file, or of the form that the model was trained for, by its name too; nothing for another
// built-in.
Result<json::value> schema_in_sight(const slipstream::Request& r, const std::string& folder) {
  if (!r.form_schema.empty()) return parse_json(r.form_schema, "schema");
  if (r.form != "model" && r.form != slipstream::own_form(folder)) {
    if (r.form.find('/') == std::string::npos && r.form.find('.') == std::string::npos) return json::value();
    return read_json(r.form, size_t{16} << 20);
  }
  const std::string where = (std::filesystem::path(folder) / "config.json").string();
  SLIP_TRY(const json::value config, read_json(where));
  if (!config.is_object()) return json::value();
  SLIP_TRY(const TaskOptions task, task_options(config.get_object(), where));
  return task_schema(task);
}

// As the schema alone tells it, a token a byte, where it can; what is wrong with it is said when it is compiled.
FormSize size_of(const slipstream::Request& r, const std::string& folder) {
  FormSize size{.positions = kLongestForm - kMostFields, .fields = kMostFields};
  const auto schema = schema_in_sight(r, folder);
  if (!schema || schema->is_null()) return size;
  const auto told = outline_json(*schema, r.form);
  if (!told) {  // its shape depends on values: how many tokens all ways take together, the tokenizer says
    const auto of = FolderTokens::load(folder);
    const auto form = of ? compile_schema(*schema, r.form, of->of_form()) : Result<CompiledForm>(of.error());
    if (form) size = {.positions = form->form.length(), .fields = static_cast<int64_t>(form->form.fields().size())};
    return size;
  }
  size.fields = static_cast<int64_t>(told->at("fields").as_array().size());
  size.positions = told->at("positions").to_number<int64_t>();
  return size;
}

// Rows of one answer, the same for each rollout: none shares its rows with another where all part at the first token.
Result<int64_t> answer_rows(const slipstream::Request& r, const std::string& folder) {
  SLIP_TRY(std::optional<Visibility> visibility, visibility_named(r.visibility));
  if (!visibility) visibility = visibility_of_folder(folder);
  const bool text = is_free_text(r);
  const int64_t usual = text ? 2 * int64_t{r.max_tokens} + kDraftsOfText : kLongestForm;
  SLIP_TRY(const slipstream::DecoderChoice decoder, decoder_of(r));
  auto method = method_from(decoder, visibility, nullptr, !text);
  if (!method) return usual;  // it will be refused
  if (may_draft_earlier(r))
    if (auto drafting = with_earlier(*method)) method = std::move(drafting);
  DecodeOptions options;
  options.visibility = visibility.value_or(Visibility::kChain);
  options.forced = !text;
  const FormSize size = text ? FormSize{} : size_of(r, folder);
  if (method->automatic) {  // whatever it will choose
    LmInfo able;
    able.rule.has_mask = able.has_draft_adapter = true;
    int64_t most = usual;
    const OwnHead head{.folder = "own", .block = kLongestDraft};
    for (const Candidate& c : exact_candidates(able, !text, options.visibility, true, &head))
      most = std::max(most, Capacity::of(c.method, options, !text).slots_of_answers(1, r.max_tokens, size));
    return most;
  }
  return std::max(usual, Capacity::of(*method, options, !text).slots_of_answers(1, r.max_tokens, size));
}

Result<int64_t> picture_rows(const slipstream::Request& r, const std::string& folder) {
  const auto file = std::filesystem::path(folder) / "preprocessor_config.json";
  std::error_code ec;
  // Without the file the model says what it lacks.
  if ((r.images.empty() && r.videos.empty()) || !std::filesystem::exists(file, ec)) return int64_t{0};
  SLIP_TRY(const ImageRules rules, ImageRules::need(folder));
  int64_t rows = 0;
  for (size_t i = 0; i < r.images.size(); ++i) {
    const slipstream::Image& image = r.images[i];
    SLIP_TRY_(check_size(fmt::format("image {}", i), image.width, image.height));
    SLIP_TRY(const int64_t n, rules.rows(image.height, image.width));
    rows += n;
  }
  for (const slipstream::Video& video : r.videos) {  // a group of frames has as many rows as a still
    if (video.frames.empty()) return bad_input("video: expected frames, got none");
    SLIP_TRY_(check_size("video", video.frames[0].width, video.frames[0].height));
    SLIP_TRY(const int64_t n, rules.rows(video.frames[0].height, video.frames[0].width));
    const int64_t group = rules.qwen() ? rules.qwen()->temporal_patch_size : 1;
    rows += n * ((static_cast<int64_t>(video.frames.size()) + group - 1) / group);
  }
  return rows;
}

int clamped(int64_t rows) { return static_cast<int>(std::clamp<int64_t>(rows, kDefaultSlots, kMostSlots)); }

}  // namespace

Result<int> slots_for(const slipstream::Request& r, const std::string& folder) {
  SLIP_TRY(const int64_t answer, answer_rows(r, folder));
  SLIP_TRY(const int64_t pictures, picture_rows(r, folder));
  const size_t words = text_bytes_of(r) + r.messages.size() * kAroundTurn;
  return clamped(static_cast<int64_t>(words) + kAroundPrompt + r.rollouts * answer + pictures);
}

int slots_for(const slipstream::DecoderChoice& decoder, const std::string& folder) {
  slipstream::Request r;
  r.decoder = decoder;
  const auto answer = answer_rows(r, folder);
  return clamped(kDefaultSlots - kLongestForm + (answer ? *answer : kLongestForm));
}

}  // namespace slip::api
