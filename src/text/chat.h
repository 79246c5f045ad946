// SPDX-License-Identifier: Apache-2.0
// Chat messages to ids and positions: the folder's own chat template, run (jinja/jinja.h); image and video placeholders repeated
// to one per merged patch; three-row positions for multimodal RoPE (the rule of transformers 4.50 to 4.57, of 4.49, or of 5.x:
// docs/decisions/0013-video-positions.md). Message text that spells a special token becomes that token, as it
// does in the library: whoever passes on foreign text must look for "<|" first.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/jinja/jinja.h"
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
  bool add_vision_id = false;                // "Picture 1: ", "Video 1: " in front of placeholders
  std::optional<bool> enable_thinking = {};  // for templates that ask (Qwen3)
  /// "2026-11-20" for templates that ask for the date. Empty: a template with a date of its own to fall back on (Llama 3) takes that,
  /// so that a request's prompt does not change over night; one without gets today's.
  std::string date = {};
};

class ChatTemplate {
 public:
  /// The template that a folder carries (chat_template.jinja, chat_template.json, tokenizer_config.json, in this order) and its special
  /// tokens' texts. kUnsupported for a folder without one, and for constructs that are not done, with their line.
  static Result<ChatTemplate> load(const std::filesystem::path& folder);
  /// The same from the template's own text; `tokens`: what bos_token, eos_token ... stand for.
  static Result<ChatTemplate> compile(std::string_view jinja, std::string_view where,
                                      std::vector<std::pair<std::string, std::string>> tokens = {});

  /// kBadInput for an image or video in a template that has none, for a role that is not one word, and for what the template itself
  /// raises (two user messages in a row ...).
  Result<std::string> render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// Whether it marks images as Qwen's templates do, with one <|image_pad|> each.
  bool takes_images() const { return takes_images_; }

 private:
  ChatTemplate() = default;
  std::shared_ptr<const jinja::Template> program_;
  std::vector<std::pair<std::string, std::string>> tokens_;
  bool takes_images_ = false, knows_images_ = false;  // knows: of some kind
};

/// A template of Qwen2.5-VL's behaviour for a tokenizer_config.json, ours and other tools'.
std::string_view qwen_vl_template_text();

/// Size of one image or video in patches (before merging): frames / temporal patch, rows, columns.
struct VisionGrid {
  int32_t t = 1, h = 0, w = 0;
};
struct Video {
  VisionGrid grid;
  double seconds_per_grid = 1.0;  // temporal patch size / frames per second
};
/// Releases of transformers place videos differently (images agree but for 5.0 to 5.3, whose stills were a bug).
enum class VideoPositions : uint8_t {
  k4,       // T = s + ti trunc(seconds) tokens_per_second; text goes on at the largest of the run + 1 (4.50 to 4.57)
  k4Float,  // the same with T = s + trunc(ti seconds tokens_per_second) (4.49)
  k5Whole,  // T as in k4; text goes on at s + max(rows, columns), whatever T reached (5.4 on)
  k5,       // the same with T as in k4Float
};
struct VisionRules {
  TokenId image_pad, video_pad;
  int32_t merge = 2;              // patches per token, each way
  int32_t tokens_per_second = 2;  // of the temporal position
  VideoPositions videos = VideoPositions::k4;
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
/// Positions of expanded ids: text counts on in all rows; a grid starting at s has T as VideoPositions says (images: s), H = s + row,
/// W = s + column.
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
