// SPDX-License-Identifier: Apache-2.0
// The trainer: what it learns by hand-checked example, determinism, whole tokens, and that the written folder loads and
// reads every text back.
#include "text/train_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> driving_texts() {
  PhiloxStream random(3, 0);
  const std::vector<std::string> actors = {"car", "pedestrian", "cyclist", "truck"}, places = {"ahead", "on the left", "behind"},
                                 acts = {"keep lane", "slow down", "stop", "turn left"};
  std::vector<std::string> out;
  for (int i = 0; i < 400; ++i) {
    const auto pick = [&](const std::vector<std::string>& v) { return v[random.below(static_cast<uint32_t>(v.size()))]; };
    out.push_back(fmt::format("A {} is {}. Therefore {}.", pick(actors), pick(places), pick(acts)));
    out.push_back(fmt::format("{{\"speed_mps\": {}.{}, \"action\": \"{}\"}}", random.below(30), random.below(10), pick(acts)));
  }
  return out;
}

class TrainBpe : public testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / fmt::format("slip-train-bpe-{}", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(TrainBpe, MergesTheMostFrequentPairAndOfEqualOnesTheLowest) {
  const std::vector<std::string> texts = {"abab", "abab", "cd", "cd", "cd", "zy zy"};
  TrainBpeOptions options;
  options.special_tokens = {"<e>"};
  options.vocab_size = 256 + 1 + 5;
  const auto r = train_bpe(texts, options);
  ASSERT_TRUE(r) << r.error().message;
  // ab: 4; then (99 c, 100 d) and (ab, ab) have 3 and 2; (z, y) 2: once as "zy", once in " zy".
  ASSERT_GE(r->merges.size(), 3u);
  EXPECT_EQ(r->merges[0], (std::pair<int32_t, int32_t>{'a', 'b'}));
  EXPECT_EQ(r->merges[1], (std::pair<int32_t, int32_t>{'c', 'd'}));
  EXPECT_EQ(r->merges[2], (std::pair<int32_t, int32_t>{'z', 'y'}));
  EXPECT_EQ(r->merges[3], (std::pair<int32_t, int32_t>{256, 256}));
  EXPECT_EQ(r->merges.size(), 4u);  // " zy" occurs once
  EXPECT_EQ(r->tokens[259], "abab");
  EXPECT_EQ(r->added[0].id, 260);
}

TEST_F(TrainBpe, TheWrittenFolderReadsEveryTextBack) {
  std::vector<std::string> texts = driving_texts();
  TrainBpeOptions options;
  options.vocab_size = 800;
  options.added_tokens = {"<|mask|>"};
  options.whole = {"speed", " pedestrian", "unheard", " left"};
  const auto start = std::chrono::steady_clock::now();
  const auto r = train_bpe(texts, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_LT(seconds.count(), 5.0);
  EXPECT_LE(r->tokens.size() + r->added.size(), 800u);
  ASSERT_TRUE(write_tokenizer(*r, folder_));
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(static_cast<size_t>(t->size()), r->tokens.size() + r->added.size());
  texts.insert(texts.end(), {"caf\u00e9 \u8eca \xf0\x9f\x9a\x97\r\n\t x", "", "   ", "Unseen WORDS 123!"});
  size_t tokens = 0, bytes = 0;
  for (const std::string& text : texts) {
    const auto ids = t->encode(text);
    ASSERT_TRUE(ids);
    EXPECT_EQ(t->decode(*ids), text);
    tokens += ids->size();
    bytes += text.size();
  }
  EXPECT_GT(static_cast<double>(bytes) / static_cast<double>(tokens), 2.5);  // it did learn
  for (const std::string& piece : options.whole) EXPECT_EQ(t->encode(piece)->size(), 1u) << piece;
  const auto end = t->find("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_TRUE(t->is_special(*end));
  EXPECT_FALSE(t->is_special(*t->find("<|mask|>")));
  EXPECT_EQ(t->encode("<|im_end|>")->size(), 1u);
  const auto chat = ChatTemplate::load(folder_);
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_TRUE(chat->takes_images());
  EXPECT_TRUE(vision_rules(*t));
}

TEST_F(TrainBpe, ManyWholeTokensTakeTheRoomOfLearnedMerges) {
  const std::vector<std::string> texts = driving_texts();
  TrainBpeOptions options;
  options.vocab_size = 330;
  options.whole = {"xylophone", " quizzical", "wolfram", "keeping", " keep"};
  const auto r = train_bpe(texts, options);
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->tokens.size() + r->added.size(), 330u);
  ASSERT_TRUE(write_tokenizer(*r, folder_));
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t);
  for (const std::string& piece : options.whole) EXPECT_EQ(t->encode(piece)->size(), 1u) << piece;
}

TEST_F(TrainBpe, IsTheSameWhateverTheOrderOfTexts) {
  std::vector<std::string> texts = driving_texts();
  TrainBpeOptions options;
  options.vocab_size = 500;
  const auto a = train_bpe(texts, options);
  std::reverse(texts.begin(), texts.end());
  const auto b = train_bpe(texts, options);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->merges, b->merges);
  EXPECT_EQ(a->tokens, b->tokens);
}

TEST_F(TrainBpe, WritesTheKeysThatTheLibraryWrites) {
  const auto r = train_bpe(driving_texts(), {.vocab_size = 300});
  ASSERT_TRUE(r);
  ASSERT_TRUE(write_tokenizer(*r, folder_));
  const auto own = read_json(folder_ / "tokenizer.json");
  const auto theirs = read_json(fs::path(SLIP_FIXTURES) / "text/qwen/tokenizer.json");
  ASSERT_TRUE(own && theirs);
  // The same keys with the same kinds of values all the way down; of arrays the first element stands for all.
  const std::function<void(const json::value&, const json::value&, const std::string&)> same =
      [&](const json::value& a, const json::value& b, const std::string& at) {
        if (a.is_string() && a.get_string().empty() && b.is_null()) return;  // no affix, either way
        EXPECT_EQ(a.kind(), b.kind()) << at;
        if (a.is_object() && b.is_object() && !at.ends_with("/vocab")) {
          for (const auto& [key, value] : b.get_object()) {
            const json::value* mine = a.get_object().if_contains(key);
            ASSERT_NE(mine, nullptr) << at << "/" << key;
            same(*mine, value, at + "/" + std::string(key));
          }
          EXPECT_EQ(a.get_object().size(), b.get_object().size()) << at;
        } else if (a.is_array() && b.is_array()) {
          ASSERT_FALSE(a.get_array().empty()) << at;
          same(a.get_array()[0], b.get_array()[0], at + "/0");
        }
      };
  same(*own, *theirs, "");
  EXPECT_EQ(own->at("pre_tokenizer").at("pretokenizers").as_array()[0],
            theirs->at("pre_tokenizer").at("pretokenizers").as_array()[0]);
}

TEST_F(TrainBpe, RefusesWhatCannotBe) {
  const std::vector<std::string> texts = {"a b"}, bad = {"\xff"};
  const auto refused = [&](const TrainBpeOptions& o, const std::vector<std::string>& t) {
    const auto r = train_bpe(t, o);
    return !r && r.error().kind == ErrorKind::kBadInput;
  };
  EXPECT_FALSE(refused({}, texts));
  EXPECT_TRUE(refused({}, bad));
  EXPECT_TRUE(refused({.vocab_size = 263}, texts));
  EXPECT_TRUE(refused({.special_tokens = {"x", "x"}}, texts));
  EXPECT_TRUE(refused({.special_tokens = {""}}, texts));
  EXPECT_TRUE(refused({.whole = {"two words"}}, texts));
  EXPECT_TRUE(refused({.whole = {""}}, texts));
  EXPECT_TRUE(refused({.vocab_size = 266, .whole = {"impossible"}}, texts));
}

}  // namespace
}  // namespace slip
