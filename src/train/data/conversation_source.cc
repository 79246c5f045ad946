// SPDX-License-Identifier: Apache-2.0
// See conversation_source.h.
#include "train/data/conversation_source.h"

#include <algorithm>
#include <tuple>

#include "image/image.h"
#include "image/qwen_preprocess.h"
#include "import/conversation.h"
#include "text/chat.h"
#include "train/data/known_keys.h"
#include "train/data/shuffle.h"
#include "train/data/special_token.h"

namespace slip {
namespace {

constexpr std::string_view kEnd = "<|im_end|>";

struct Parts {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
  std::optional<PreprocessorConfig> preprocessor;
  TokenId mask{-1}, end, image_pad{-1};
  int32_t block_size = 32;
  int64_t longest = 4096, first = 0, count = 0;
};

class ConversationSource : public SampleSource {
 public:
  ConversationSource(Parts parts, ConversationSet set) : p_(std::move(parts)), set_(std::move(set)) {}

  Result<Sample> get(int64_t index) override {
    const int64_t i = p_.first + shuffled(index, p_.count);
    SLIP_TRY(const Conversation c, set_.get(i));
    auto sample = make(c);
    if (!sample) return bad_input("conversation {} ({}): {}", i, c.id, sample.error().message);
    return sample;
  }
  std::vector<SamplePart> parts() const override { return {{.size = p_.count, .shuffled = true}}; }

 private:
  Result<Sample> make(const Conversation& c) const {
    Sample out;
    out.mask_token = p_.mask;
    if (p_.image_pad.value >= 0) out.image_token = p_.image_pad;
    std::vector<ChatMessage> messages;
    std::vector<VisionGrid> waiting, all;  // pictures since the last answer, and all
    std::string text;                      // of the template so far, as tokenised
    int32_t block = 0;
    for (const ConversationTurn& turn : c.turns) {
      if (turn.role != "assistant") {
        SLIP_TRY(ChatMessage m, message(turn, out, waiting));
        messages.push_back(std::move(m));
        continue;
      }
      SLIP_TRY(const std::string before, p_.chat->render(messages));
      if (!before.starts_with(text)) return bad_input("expected a chat template that only appends, got another");
      SLIP_TRY(const std::vector<TokenId> prompt, p_.tokenizer->encode(before.substr(text.size())));
      SLIP_TRY(const std::vector<TokenId> ids, expanded(prompt, waiting));
      append(ids, -1, out);
      all.insert(all.end(), waiting.begin(), waiting.end());
      waiting.clear();
      SLIP_TRY(const std::string answer, answer_of(turn));
      SLIP_TRY(std::vector<TokenId> answered, p_.tokenizer->encode(answer));
      answered.push_back(p_.end);
      block = append_answer(answered, block, out);
      messages.push_back({"assistant", {TextItem{answer}}});
      text = before + answer + std::string(kEnd);
      if (static_cast<int64_t>(out.tokens.size()) > p_.longest)
        return bad_input("expected at most {} tokens (\"longest\"), got more", p_.longest);
    }
    SLIP_TRY(const RopePositions positions, positions_of(out.tokens, all));
    out.positions = positions.rows;
    return out;
  }

  static Status check_text(std::string_view text) {
    if (text.find("<|") == std::string_view::npos) return {};
    return bad_input("expected texts without special tokens, got one with <|");
  }

  Result<ChatMessage> message(const ConversationTurn& turn, Sample& out, std::vector<VisionGrid>& grids) const {
    ChatMessage m{turn.role, {}};
    for (const auto& item : turn.content) {
      if (const auto* text = std::get_if<std::string>(&item)) {
        SLIP_TRY_(check_text(*text));
        m.content.emplace_back(TextItem{*text});
        continue;
      }
      const auto& picture = std::get<ConversationImage>(item);
      if (!p_.preprocessor) return bad_input("expected \"model\" with a preprocessor_config.json for pictures, got none");
      SLIP_TRY(const Image image, decode_image(picture.bytes, picture.path));
      SLIP_TRY(const PatchGrid g, qwen_patches(image, *p_.preprocessor));
      out.pixel_values.insert(out.pixel_values.end(), g.values.begin(), g.values.end());
      out.grids.push_back({g.t, g.h, g.w});
      grids.push_back({g.t, g.h, g.w});
      m.content.emplace_back(ImageItem{});
    }
    return m;
  }

  static Result<std::string> answer_of(const ConversationTurn& turn) {
    std::string out;
    for (const auto& item : turn.content) {
      const auto* text = std::get_if<std::string>(&item);
      if (!text) return bad_input("expected answers of text, got a picture in one");
      SLIP_TRY_(check_text(*text));
      out += *text;
    }
    return out;
  }

  Result<std::vector<TokenId>> expanded(const std::vector<TokenId>& ids, std::span<const VisionGrid> grids) const {
    if (!p_.preprocessor) return ids;
    SLIP_TRY(const VisionRules rules, vision_rules(*p_.tokenizer));
    return expand_placeholders(ids, grids, {}, rules);
  }

  Result<RopePositions> positions_of(const std::vector<TokenId>& ids, std::span<const VisionGrid> grids) const {
    if (p_.preprocessor) {
      SLIP_TRY(const VisionRules rules, vision_rules(*p_.tokenizer));
      return rope_positions(ids, grids, {}, rules);
    }
    RopePositions out;
    for (size_t i = 0; i < ids.size(); ++i) out.rows.push_back(Position::text(static_cast<int32_t>(i)));
    return out;
  }

  static void append(std::span<const TokenId> ids, int32_t block, Sample& out) {
    for (const TokenId id : ids) {
      out.tokens.push_back(id);
      out.block.push_back(block);
      out.response.push_back(block >= 0);
      out.fixed.push_back(0);
    }
  }
  int32_t append_answer(std::span<const TokenId> ids, int32_t block, Sample& out) const {
    for (size_t i = 0; i < ids.size(); i += static_cast<size_t>(p_.block_size))
      append(ids.subspan(i, std::min(ids.size() - i, static_cast<size_t>(p_.block_size))), block++, out);
    return block;
  }

  Parts p_;
  ConversationSet set_;
};

Status read_numbers(const json::object& data, const ConversationSet& set, Parts& p) {
  SLIP_TRY(const auto asked, asked_of(data, set.size(), "conversations"));
  std::tie(p.first, p.count) = asked;
  SLIP_TRY(const int64_t block, int_or(data, "block_size", p.block_size, "data"));
  if (block < 1 || block > 4096) return bad_input("data: block_size: expected 1 to 4096, got {}", block);
  p.block_size = static_cast<int32_t>(block);
  SLIP_TRY(p.longest, int_or(data, "longest", p.longest, "data"));
  if (p.longest < 2) return bad_input("data: longest: expected at least 2 tokens, got {}", p.longest);
  return {};
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_conversation_source(const json::object& data, const std::string& folder) {
  SLIP_TRY_(only_keys(data, {"kind", "records", "first", "count", "block_size", "longest", "model"}, "data"));
  SLIP_TRY(const std::string records, get_string(data, "records", "data"));
  SLIP_TRY(ConversationSet set, ConversationSet::open(records));
  Parts p;
  SLIP_TRY_(read_numbers(data, set, p));
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(folder));
  p.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  SLIP_TRY(ChatTemplate chat, ChatTemplate::load(folder));
  p.chat = std::make_unique<ChatTemplate>(std::move(chat));
  SLIP_TRY(p.end, special_token(*p.tokenizer, kEnd, folder));
  if (const auto mask = p.tokenizer->find("|<MASK>|")) p.mask = *mask;
  SLIP_TRY(const std::string model, string_or(data, "model", "", "data"));
  const std::filesystem::path beside = std::filesystem::path(model).parent_path() / "preprocessor_config.json";
  if (!model.empty() && std::filesystem::exists(beside)) {
    SLIP_TRY(p.preprocessor, read_preprocessor_config(beside));
    SLIP_TRY(const VisionRules rules, vision_rules(*p.tokenizer));
    p.image_pad = rules.image_pad;
  }
  return std::unique_ptr<SampleSource>(std::make_unique<ConversationSource>(std::move(p), std::move(set)));
}

}  // namespace slip
