// SPDX-License-Identifier: Apache-2.0
// The stages admit and encode of a request: images into patches and features, text around them, rows.
#include <atomic>

#include "base/clock/operation_clock.h"
#include "engine/answering.h"
#include "task/prompt.h"

namespace slip {

namespace {

constexpr std::string_view kImageMark = "<image>";

/// A text that cannot fit is refused before it is split into tokens, which takes seconds for one of megabytes and is others' time too.
Status check_length(Model& model, std::string_view text) {
  const Tokenizer* const tokenizer = model.tokenizer();
  const int32_t most = model.config().max_positions;
  if (!tokenizer || most <= 0) return {};
  const size_t least = tokenizer->least_tokens(text);
  if (least <= static_cast<size_t>(most)) return {};
  return bad_input(
      "context: expected at most {} positions, which the model was made for (max_position_embeddings), got {} of the prompt at "
      "least",
      most, least);
}

// Text without a chat template, between what the tokenizer's own template puts around a text (a Llama's BOS), unless it is spelled out.
Result<Prompt> plain_prompt(Model& model, std::string_view text) {
  SLIP_TRY_(check_length(model, text));
  SLIP_TRY(std::vector<TokenId> tokens, model.prompt_tokens(text));
  const TemplateIds& around = model.tokenizer()->template_ids();
  if (!std::ranges::equal(std::span(tokens).first(std::min(tokens.size(), around.front.size())), around.front))
    tokens.insert(tokens.begin(), around.front.begin(), around.front.end());
  tokens.insert(tokens.end(), around.back.begin(), around.back.end());
  return model.build_prompt(tokens);
}

}  // namespace

Status Answering::wanted(int64_t done, std::string_view what) const { return request_.context.cancel.check("encode", done, what); }

Result<std::string> Answering::user_text() const {
  const PromptText text = prompt_text(engine_.task(), *request_.ego);
  std::string history;  // the row of a model that takes the ego history as one
  if (const auto& h = model_.config().history) {
    SLIP_TRY(const Tokenizer* tokenizer, model_.need_tokenizer());
    history = tokenizer->token_text(h->token);
  }
  return text.before_images + std::string(kImageMark) + history + text.after_images;
}

// Cameras side by side: each is one thread's work of some ten milliseconds, and the tower, which follows, keeps all threads busy.
Status Answering::preprocess(std::span<const Image> images, std::vector<PatchGrid>& grids) {
  const OperationScope resizing("resizing into patches");
  std::vector<std::optional<Result<PatchGrid>>> made(images.size());
  std::atomic<int64_t> done{0};
  model_.pool().run(static_cast<int64_t>(images.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    if (const Status still = wanted(done, "images"); !still) {
      made[at] = still.error();
      return;
    }
    try {
      made[at] =
          model_.preprocess(std::shared_ptr<const Image>(std::shared_ptr<void>(), &images[at]));  // the request outlives its grids
      if (PatchGrid* g = *made[at] ? &**made[at] : nullptr; g && g->content.empty() && model_.kept_features().enabled())
        g->content = content_hash(std::span<const float>(g->values));
    } catch (const std::bad_alloc&) {
      made[at] = resource_error("image {}: expected memory for its patches, got none", i);
    }
    ++done;
  });
  for (auto& grid : made) {
    if (!*grid) return grid->error();
    grids.push_back(std::move(**grid));
  }
  return {};
}

Result<std::vector<VideoPatches>> Answering::preprocess(std::span<const VideoClip> clips) const {
  std::vector<VideoPatches> out;
  if (clips.empty()) return out;
  if (!model_.preprocessor() || !model_.config().video_token)
    return unsupported("{}: videos: expected a model with Qwen2.5-VL's tower and a token for videos, got {}",
                       model_.folder().string(), model_.config().architecture);
  for (const VideoClip& clip : clips) {
    SLIP_TRY_(wanted(static_cast<int64_t>(out.size()), "videos"));
    SLIP_TRY(VideoPatches made, video_patches(clip.frames, clip.fps, *model_.preprocessor()));
    out.push_back(std::move(made));
  }
  return out;
}

Result<Prompt> Answering::encode() {
  const OperationScope making("prompt text and rows");
  if (request_.ego && engine_.task().body == Body::kArm)
    return unsupported("{}: expected a model of a car, got one of an arm: slipstream reach moves it, and --prompt tells it a state",
                       model_.folder().string());
  std::vector<PatchGrid> made;
  std::span<const PatchGrid> grids = request_.grids;
  const bool blind = request_.ego && !engine_.task().cameras;  // records bring pictures that this model was not trained to see
  if (blind || grids.empty()) {
    SLIP_TRY_(preprocess(blind ? std::span<const Image>() : request_.images, made));
    grids = made;
  }
  SLIP_TRY(const std::vector<VideoPatches> videos, preprocess(request_.videos));
  SLIP_TRY_(wanted(static_cast<int64_t>(grids.size() + videos.size()), "images"));
  if (model_.config().action) return action_prompt(grids);
  std::vector<ChatTurn> turns = request_.turns;
  if (request_.ego) {
    SLIP_TRY(std::string text, user_text());
    turns.assign(1, {"user", std::move(text)});
  } else if (turns.empty()) {
    turns.push_back({"user", request_.prompt});
  }
  // Before a template runs into its own limits.
  for (const ChatTurn& turn : turns) SLIP_TRY_(check_length(model_, turn.text));
  for (const ChatMessage& m : request_.messages)
    for (const ContentItem& item : m.content)
      if (const auto* text = std::get_if<TextItem>(&item)) SLIP_TRY_(check_length(model_, text->text));
  SLIP_TRY(const ChatTemplate* chat, engine_.chat_template());
  if (request_.raw_prompt || (!chat && !request_.messages.empty())) {
    if (!request_.raw_prompt)
      return unsupported("{}: messages: expected a model with a chat template, got one without", model_.folder().string());
    if (!grids.empty() || !videos.empty()) return unsupported("prompt: expected messages around images, got a bare text");
    return plain_prompt(model_, turns.front().text);
  }
  if (!chat) {
    const std::string& text = turns.front().text;
    if (turns.size() != 1)
      return unsupported("{}: a conversation: expected a chat template that says how turns are told apart, got none",
                         model_.folder().string());
    if (!grids.empty() || !videos.empty())
      return unsupported("{}: images: expected a chat template that says where they go, got none", model_.folder().string());
    if (text.empty()) return bad_input("--prompt: expected text, got nothing");
    return plain_prompt(model_, text);
  }
  std::vector<ChatMessage> messages;
  if (request_.ego) {
    messages = own_message(turns.front().text, grids.size(), videos.size());
  } else if (!request_.messages.empty()) {
    messages = request_.messages;
  } else {
    SLIP_TRY(messages, messages_of(turns, grids.size(), videos.size()));
  }
  SLIP_TRY(const std::string rendered, chat->render(messages));
  SLIP_TRY_(check_length(model_, rendered));
  if (!videos.empty()) {
    SLIP_TRY(const std::vector<TokenId> tokens, model_.prompt_tokens(rendered));
    return build_video_prompt(model_, tokens, grids, videos, VideoPositions::k4, request_.context.cancel);
  }
  return model_.build_prompt(std::string_view(rendered), grids, history_of_prompt(), request_.context.cancel);
}

}  // namespace slip
