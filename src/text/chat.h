// SPDX-License-Identifier: Apache-2.0
// Chat messages to ids and positions: the ChatML templates of Qwen2-VL / Qwen2.5-VL and of text-only Qwen, in code; image
// and video placeholders repeated to one per merged patch; three-row positions for multimodal RoPE (the rule of
// transformers 4.49 to 4.57, reference/models 1.6). Message text that spells a special token becomes that token, as it
// does in the library: whoever passes on foreign text must look for "<|" first.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace slip {

struct TextItem {
  std::string text;
};
struct ImageItem {};  // the request's next image
struct VideoItem {};  // the request's next video
using ContentItem = std::variant<TextItem, ImageItem, VideoItem>;

struct ChatMessage {
  std::string role;
  std::vector<ContentItem> content;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  bool add_vision_id = false;  // "Picture 1: ", "Video 1: " in front of placeholders
};

enum class ChatKind { kQwenVl, kQwenText };

class ChatTemplate {
 public:
  explicit ChatTemplate(ChatKind kind, std::string default_system = "You are a helpful assistant.")
      : kind_(kind), default_system_(std::move(default_system)) {}
  /// Recognises the template that a folder carries (tokenizer_config.json, chat_template.json, chat_template.jinja).
  /// kUnsupported, with the reason, for none or for another kind: a template is never guessed.
  static Result<ChatTemplate> load(const std::filesystem::path& folder);
  /// The same from the template's own text.
  static Result<ChatTemplate> recognise(std::string_view jinja, std::string_view where);

  /// kBadInput for an image or video in a text-only template, and for a role that is not one word.
  Result<std::string> render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  ChatKind kind() const { return kind_; }
  /// The system message of a conversation that brings none; empty: none is put in.
  const std::string& default_system() const { return default_system_; }

 private:
  ChatKind kind_;
  std::string default_system_;
};

/// The Jinja text for a tokenizer_config.json that other tools read; recognise() knows it.
std::string_view qwen_vl_template_text();

/// Size of one image or video in patches (before merging): frames / temporal patch, rows, columns.
struct VisionGrid {
  int32_t t = 1, h = 0, w = 0;
};
struct Video {
  VisionGrid grid;
  double seconds_per_grid = 1.0;  // temporal patch size / frames per second
};
struct VisionRules {
  TokenId image_pad, video_pad;
  int32_t merge = 2;              // patches per token, each way
  int32_t tokens_per_second = 2;  // of the temporal position
};
/// The placeholder ids of a tokenizer; kUnsupported if it has none.
Result<VisionRules> vision_rules(const Tokenizer& tokenizer);

/// Each placeholder becomes t * h * w / merge^2 of itself, in order. kBadInput when placeholders and grids differ in number.
Result<std::vector<TokenId>> expand_placeholders(std::span<const TokenId> ids, std::span<const VisionGrid> images,
                                                 std::span<const Video> videos, const VisionRules& rules);

struct RopePositions {
  std::vector<Position> rows;
  int32_t rope_delta = 0;  // largest position + 1 - length: a later token at index i has position i + rope_delta
};
/// Positions of expanded ids: text counts on in all rows; a grid starting at s has T = s + trunc(ti * seconds_per_grid *
/// tokens_per_second) (images: s), H = s + row, W = s + column; text goes on at the largest of them + 1.
Result<RopePositions> rope_positions(std::span<const TokenId> expanded, std::span<const VisionGrid> images,
                                     std::span<const Video> videos, const VisionRules& rules);

struct ChatPrompt {
  std::string text;                    // as rendered, one placeholder per image
  std::vector<TokenId> ids;            // expanded
  std::vector<SlotSpan> vision_spans;  // where the images' and videos' tokens stand, in order of appearance
  RopePositions positions;
};
/// All of the above in one.
Result<ChatPrompt> make_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                               const ChatOptions& options = {}, std::span<const VisionGrid> images = {},
                               std::span<const Video> videos = {});

}  // namespace slip
