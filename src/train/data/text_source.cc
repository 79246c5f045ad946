// SPDX-License-Identifier: Apache-2.0
// See text_source.h.
#include "train/data/text_source.h"

#include <filesystem>

#include "task/scene_text.h"
#include "text/chat.h"
#include "text/train_bpe.h"
#include "train/data/known_keys.h"
#include "train/data/scene_seeds.h"
#include "train/data/special_token.h"

namespace slip {
namespace {

constexpr int64_t kMostTexts = int64_t{1} << 31, kTokenizerTexts = 3000;
constexpr int32_t kBlock = 8;  // of objectives that ask for blocks: answers have none of their own

class TextSource : public SampleSource {
 public:
  TextSource(Tokenizer tokenizer, ChatTemplate chat, uint64_t first_seed, int64_t count, TokenId mask, TokenId end)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), first_seed_(first_seed), count_(count), mask_(mask), end_(end) {}

  Result<Sample> get(int64_t index) override {
    SLIP_TRY(const SceneText text, scene_text_at(first_seed_, index % count_));
    const ChatMessage message{"user", {TextItem{text.prompt}}};
    SLIP_TRY(const ChatPrompt prompt, make_prompt(chat_, tokenizer_, std::vector{message}));
    SLIP_TRY(std::vector<TokenId> answer, tokenizer_.encode(text.answer));
    answer.push_back(end_);
    Sample s;
    s.mask_token = mask_;
    s.tokens = prompt.ids;
    s.positions = prompt.positions.rows;
    const size_t n = s.tokens.size();
    s.block.assign(n, -1);
    s.response.assign(n, 0);
    for (size_t i = 0; i < answer.size(); ++i) {
      s.positions.push_back(Position::text(static_cast<int32_t>(s.tokens.size()) + prompt.positions.rope_delta));
      s.tokens.push_back(answer[i]);
      s.block.push_back(static_cast<int32_t>(i) / kBlock);
      s.response.push_back(1);
    }
    s.fixed.assign(s.tokens.size(), 0);
    s.always_masked.assign(s.tokens.size(), 0);
    s.always_masked.back() = 1;
    return s;
  }
  std::vector<SamplePart> parts() const override { return {{.size = count_}}; }

 private:
  Tokenizer tokenizer_;
  ChatTemplate chat_;
  uint64_t first_seed_;
  int64_t count_;
  TokenId mask_, end_;
};

Status make_missing_tokenizer(const json::object& data, const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "tokenizer.json")) return {};
  SLIP_TRY(const int64_t vocab, int_or(data, "tokenizer_vocab", 0, "data"));
  if (vocab == 0) return {};
  if (vocab < 0 || vocab > 65536) return bad_input("data: tokenizer_vocab: expected at most 65536, got {}", vocab);
  std::vector<std::string> texts = {
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"};
  for (int64_t i = 0; i < kTokenizerTexts; ++i) {
    SLIP_TRY(const SceneText text, scene_text_at(0, i));
    texts.push_back(text.prompt);
    texts.push_back(text.answer);
  }
  TrainBpeOptions options{.vocab_size = static_cast<int32_t>(vocab)};
  options.special_tokens.emplace_back("|<MASK>|");
  SLIP_TRY(const TrainedBpe bpe, train_bpe(texts, options));
  return write_tokenizer(bpe, folder);
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_text_source(const json::object& data, const std::string& folder) {
  SLIP_TRY_(only_keys(data, {"kind", "first_seed", "count", "tokenizer_vocab"}, "data"));
  if (folder.empty()) return bad_input("tokenizer: expected a folder beside data of kind \"texts\", got none");
  SLIP_TRY(const uint64_t first, scene_seed(data, "first_seed"));
  SLIP_TRY(const int64_t count, get_int(data, "count", "data"));
  if (count < 1 || count > kMostTexts) return bad_input("data: count: expected 1 to {}, got {}", kMostTexts, count);
  SLIP_TRY_(make_missing_tokenizer(data, folder));
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(folder));
  SLIP_TRY(ChatTemplate chat, ChatTemplate::load(folder));
  SLIP_TRY(const TokenId mask, special_token(tokenizer, "|<MASK>|", folder));
  SLIP_TRY(const TokenId end, special_token(tokenizer, "<|im_end|>", folder));
  return std::unique_ptr<SampleSource>(
      std::make_unique<TextSource>(std::move(tokenizer), std::move(chat), first, count, mask, end));
}

}  // namespace slip
