// SPDX-License-Identifier: Apache-2.0
// Turns of a conversation with marks for pictures, as messages of a chat template.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat.h"

namespace slip {

/// "<image>" in the text marks where images go, "<video>" where videos go.
struct ChatTurn {
  std::string role, text;
};

/// Where the pictures stand. No mark of a kind: in front of the first user's text, images before videos. One "<image>" and several pictures:
/// all there, videos too where they have no mark of their own (Fast-dDrive's prompts have one mark for three cameras). Otherwise a mark for
/// each. kBadInput for another number of marks.
Result<std::vector<ChatMessage>> messages_of(std::span<const ChatTurn> turns, size_t images, size_t videos);
/// The same of a prompt of our own, whose one mark takes whatever pictures there are, or none.
std::vector<ChatMessage> own_message(const std::string& text, size_t images, size_t videos);

}  // namespace slip
