// SPDX-License-Identifier: Apache-2.0
// See conversation.h.
#include "engine/conversation.h"

namespace slip {

namespace {

constexpr std::string_view kImage = "<image>", kVideo = "<video>";

size_t count_of(std::string_view mark, std::span<const ChatTurn> turns) {
  size_t n = 0;
  for (const ChatTurn& turn : turns)
    for (size_t at = turn.text.find(mark); at != std::string::npos; at = turn.text.find(mark, at + mark.size())) ++n;
  return n;
}

Status check_marks(std::string_view mark, size_t marks, size_t pictures, std::string_view what, bool one_takes_all) {
  if (marks == 0 || marks == pictures || (one_takes_all && marks == 1)) return {};
  return bad_input("prompt: expected {} for {} {}, got {} of them",
                   pictures == 0 ? fmt::format("no mark {}", mark) : fmt::format("a mark {} each, or none,", mark), pictures, what,
                   marks);
}

/// What a mark stands for.
struct Marks {
  size_t images_each = 1, videos_with_images = 0;
};

void add_items(std::vector<ContentItem>& out, size_t images, size_t videos) {
  for (size_t i = 0; i < images; ++i) out.emplace_back(ImageItem{});
  for (size_t i = 0; i < videos; ++i) out.emplace_back(VideoItem{});
}

std::vector<ContentItem> content_of(std::string_view text, const Marks& marks) {
  std::vector<ContentItem> out;
  for (;;) {
    const size_t image = text.find(kImage), video = text.find(kVideo), at = std::min(image, video);
    if (at == std::string_view::npos) break;
    if (at > 0) out.emplace_back(TextItem{std::string(text.substr(0, at))});
    if (image < video)
      add_items(out, marks.images_each, marks.videos_with_images);
    else
      add_items(out, 0, 1);
    text.remove_prefix(at + (image < video ? kImage : kVideo).size());
  }
  out.emplace_back(TextItem{std::string(text)});
  return out;
}

}  // namespace

std::vector<ChatMessage> own_message(const std::string& text, size_t images, size_t videos) {
  return {{"user", content_of(text, {.images_each = images, .videos_with_images = videos})}};
}

Result<std::vector<ChatMessage>> messages_of(std::span<const ChatTurn> turns, size_t images, size_t videos) {
  const size_t image_marks = count_of(kImage, turns), video_marks = count_of(kVideo, turns);
  const bool together = image_marks == 1 && video_marks == 0 && images + videos > 0;
  SLIP_TRY_(check_marks(kImage, image_marks, images, "images", together));
  SLIP_TRY_(check_marks(kVideo, video_marks, videos, "videos", false));
  const Marks marks{.images_each = image_marks == 1 ? images : 1, .videos_with_images = together ? videos : 0};
  bool in_front = (image_marks == 0 && images > 0) || (video_marks == 0 && videos > 0 && !together);
  std::vector<ChatMessage> out;
  for (const ChatTurn& turn : turns) {
    ChatMessage& m = out.emplace_back(ChatMessage{turn.role, {}});
    if (in_front && turn.role == "user") {
      add_items(m.content, image_marks == 0 ? images : 0, video_marks == 0 && !together ? videos : 0);
      in_front = false;
    }
    for (ContentItem& item : content_of(turn.text, marks)) m.content.push_back(std::move(item));
  }
  return out;
}

}  // namespace slip
