// SPDX-License-Identifier: Apache-2.0
// Kinds of files that the fixtures do not hold as they are (Metaspace, splits that keep matches only), held against the fixtures' ids
// where both mean the same; and the published vectors of the real Qwen and Llama 2 vocabularies where those are at hand.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>

#include "text/tokenizer_testing.h"

namespace slip {
namespace {

using namespace tokenizer_testing;

// Metaspace says where U+2581 goes in front: once, at every segment or nowhere, and never twice; the normalizer of the older files
// puts it in front of each segment whatever it begins with.
class Metaspace : public Files {
 protected:
  Tokenizer with(std::string_view scheme, bool split, bool strip = true) {
    json::value v = fixture(kFixtures / "llama2/tokenizer.json");
    v.as_object()["normalizer"] = nullptr;
    v.as_object()["pre_tokenizer"] =
        json::object{{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", scheme}, {"split", split}};
    if (!strip) v.at("decoder").at("decoders").as_array().pop_back();
    put("tokenizer.json", json::serialize(v));
    auto t = Tokenizer::load(folder_);
    EXPECT_TRUE(t) << t.error().message;
    return std::move(*t);
  }
  static constexpr const char* kMark = "\u2581";
  // Texts of the fixture in which no added token is found.
  static std::vector<json::value> plain_cases(const Tokenizer& t) {
    std::vector<json::value> out;
    const json::value all = fixture(kFixtures / "llama2/cases.json");
    for (const json::value& c : all.at("cases").as_array()) {
      // Of the normalizer's kind and of this one: normalized contents differ.
      std::vector<TokenId> ids = ids_in(c.at("ids"));
      const std::vector<TokenId> own = *t.encode(text_in(c.at("text")));
      ids.insert(ids.end(), own.begin(), own.end());
      if (std::none_of(ids.begin(), ids.end(), [&](TokenId id) { return t.is_added(id); })) out.push_back(c);
    }
    return out;
  }
};

TEST_F(Metaspace, IsThePrependingNormalizerWhereATextBeginsWithALetterAndHasNoAddedTokens) {
  for (const char* scheme : {"always", "first"}) {
    const Tokenizer t = with(scheme, false);
    int same = 0;
    for (const json::value& c : plain_cases(t)) {
      const std::string text = text_in(c.at("text"));
      if (text.starts_with(' ') || text.starts_with(kMark)) continue;
      EXPECT_EQ(values(*t.encode(text)), values(ids_in(c.at("ids")))) << text;
      EXPECT_EQ(t.decode(*t.encode(text)), text_in(c.at("decoded"))) << text;
      ++same;
    }
    EXPECT_GT(same, 50);
  }
}

TEST_F(Metaspace, PutsAtMostOneMarkInFrontAndOnlyWhereItsSchemeSays) {
  const Tokenizer always = with("always", false), first = with("first", false), never = with("never", false);
  // One blank in front or none: the same, since the mark is there already.
  for (const Tokenizer* t : {&always, &first}) EXPECT_EQ(*t->encode(" a"), *t->encode("a"));
  EXPECT_NE(*never.encode(" a"), *never.encode("a"));
  EXPECT_EQ(*always.encode(" a"), *never.encode(" a"));
  // Behind an added token a segment begins that is not the text's first.
  const json::value added = fixture(kFixtures / "llama2/tokenizer.json").at("added_tokens");
  std::string word;
  for (const json::value& a : added.as_array()) {
    const bool flags = a.at("lstrip").as_bool() || a.at("rstrip").as_bool() || a.at("single_word").as_bool();
    if (!flags && !a.at("normalized").as_bool()) word = text_in(a.at("content"));
  }
  ASSERT_FALSE(word.empty());
  const auto after = [&](const Tokenizer& t) {
    const std::vector<TokenId> ids = *t.encode(word + "a");
    return std::vector<TokenId>(ids.begin() + 1, ids.end());
  };
  EXPECT_EQ(after(always), *always.encode("a"));
  EXPECT_EQ(after(first), *never.encode("a"));
  EXPECT_EQ(*first.encode("a" + word), *always.encode("a" + word));
  EXPECT_TRUE(always.encode("")->empty());
}

TEST_F(Metaspace, SplitCutsBeforeEveryMarkSoThatNoTokenHoldsOneInside) {
  const Tokenizer whole = with("first", false), cut = with("first", true);
  int differ = 0;
  for (const json::value& c : plain_cases(cut)) {
    const std::string text = text_in(c.at("text"));
    const std::vector<TokenId> ids = *cut.encode(text);
    for (const TokenId id : ids)
      EXPECT_EQ(cut.token_text(id).rfind(kMark), cut.token_text(id).find(kMark) == std::string::npos ? std::string::npos : 0u);
    EXPECT_EQ(cut.decode(ids), whole.decode(*whole.encode(text))) << text;
    differ += ids != *whole.encode(text);
  }
  EXPECT_GT(differ, 0);  // runs of blanks are tokens of this vocabulary
}

TEST_F(Metaspace, DecodingDropsTheFirstBlankOnlyWhereTheFileStripsIt) {
  const Tokenizer strips = with("always", false), keeps = with("always", false, false);
  const std::vector<TokenId> ids = *strips.encode("left");
  EXPECT_EQ(strips.decode(ids), "left");
  EXPECT_EQ(keeps.decode(ids), " left");
}

TEST_F(Files, ASplitThatKeepsItsMatchesOnlyDropsWhatLiesBetween) {
  json::value v = fixture(kFixtures / "llama3/tokenizer.json");
  const auto before = Tokenizer::load(kFixtures / "llama3");
  json::object* split = nullptr;
  for (json::value& part : v.at("pre_tokenizer").at("pretokenizers").as_array()) {
    if (part.at("type").as_string() == "Split") split = &part.as_object();
  }
  ASSERT_NE(split, nullptr);
  (*split)["behavior"] = "Removed";
  (*split)["invert"] = true;
  put("tokenizer.json", json::serialize(v));
  {  // the published patterns match everything: both spellings mean the same
    const auto t = Tokenizer::load(folder_);
    ASSERT_TRUE(before && t) << t.error().message;
    const json::value cases = fixture(kFixtures / "llama3/cases.json");
    for (const json::value& c : cases.at("cases").as_array())
      EXPECT_EQ(values(*t->encode(text_in(c.at("text")))), values(ids_in(c.at("ids"))));
  }
  split->at("pattern").as_object()["Regex"] = "[a-z]+";
  put("tokenizer.json", json::serialize(v));
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->decode(*t->encode("ab 12 cd!")), "abcd");
}

// 47 texts with the ids that a real vocabulary gives them; the files are too large to keep here.
fs::path shared_tokenizers() { return fs::path(SLIP_SHARED_DATA) / "tokenizers"; }

void expect_vectors(const Tokenizer& t, const std::string& name) {
  const std::string in = *read_file(shared_tokenizers() / ("vectors_" + name + ".inp"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(*read_file(shared_tokenizers() / ("vectors_" + name + ".out")));
  int count = 0;
  for (size_t at = 0; at <= in.size(); ++count) {  // the last text is empty and has no line of ids
    const size_t end = std::min(in.find(separator, at), in.size());
    const std::string text = in.substr(at, end - at);
    at = end + separator.size();
    std::string line;
    std::getline(lines, line);
    std::istringstream numbers(line);
    std::vector<int> expected;
    for (int id; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(expected.empty(), text.empty());
    const auto ids = t.encode(text);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(values(*ids), expected) << text;
    EXPECT_EQ(t.decode(*ids), text);
    StreamDecoder stream(t);
    std::string joined;
    for (const TokenId id : *ids) {
      const std::string piece = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(piece));
      joined += piece;
    }
    EXPECT_EQ(joined + stream.flush(), text);
  }
  EXPECT_EQ(count, 47);
}

class RealLlama : public Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    const fs::path file = shared_tokenizers() / "llama2_style_tokenizer.json";
    if (!fs::exists(file)) GTEST_SKIP() << "no Llama 2 vocabulary at " << file;
    fs::create_symlink(fs::absolute(file), folder_ / "tokenizer.json");
  }
};

TEST_F(RealLlama, GivesThe47PublishedVectorsOfLlama2AndPhi3) {
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  for (const char* name : {"llama-spm", "phi-3"}) expect_vectors(*t, name);
  EXPECT_EQ(values(t->template_ids().front), (std::vector<int>{1}));
}

// The prompt of OpenVLA's model card and what its processor makes of it, and all action tokens [docs/notes/checkpoints.md#openvla].
TEST_F(RealLlama, SpellsOpenVlaPromptsAndActions) {
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(values(*t->encode("In: What action should the robot take to pick up the black bowl?\nOut:")),
            (std::vector<int>{512, 29901, 1724, 3158, 881, 278, 19964, 2125, 304, 5839, 701, 278, 4628, 12580, 29880, 29973, 13,
                              3744, 29901}));
  std::vector<TokenId> actions;
  for (int32_t id = 31744; id < 32000; ++id) actions.push_back({id});
  EXPECT_EQ(*t->encode("Out: " + t->decode(actions)), [&] {
    std::vector<TokenId> out = *t->encode("Out:");
    out.push_back({29871});
    out.insert(out.end(), actions.begin(), actions.end());
    return out;
  }());
}

class RealQwen : public Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    const fs::path data = shared_tokenizers();
    if (!fs::exists(data / "qwen_vocab.json")) GTEST_SKIP() << "no Qwen vocabulary at " << data;
    fs::create_symlink(fs::absolute(data / "qwen_vocab.json"), folder_ / "vocab.json");
    fs::create_symlink(fs::absolute(data / "qwen_merges.txt"), folder_ / "merges.txt");
    auto t = Tokenizer::load(folder_);
    ASSERT_TRUE(t) << t.error().message;
    tokenizer_.emplace(std::move(*t));
  }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(RealQwen, GivesThe47PublishedVectors) { expect_vectors(*tokenizer_, "qwen2"); }

TEST_F(RealQwen, FoldsLongSAndComposes) {
  EXPECT_EQ(values(*tokenizer_->encode("'\u017fo")), (std::vector<int>{6, 144815, 78}));
  EXPECT_EQ(values(*tokenizer_->encode("e\u0301")), (std::vector<int>{963}));
  EXPECT_EQ(values(*tokenizer_->encode("\u212b")), (std::vector<int>{144044}));
  EXPECT_EQ(tokenizer_->size(), 151643);
}

TEST_F(RealQwen, EncodesAMegabyteInUnderASecond) {
  const std::string in = *read_file(fs::path(SLIP_SHARED_DATA) / "tokenizers/vectors_qwen2.inp");
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += in;
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer_->encode(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(ids);
  std::printf("%.1f MB/s\n", static_cast<double>(text.size()) / 1e6 / seconds.count());
  EXPECT_LT(seconds.count(), 1.0);
  const std::string run(size_t{1} << 20, 'a'), blanks(size_t{1} << 20, ' ');  // one piece each
  EXPECT_EQ(tokenizer_->decode(*tokenizer_->encode(run)), run);
  EXPECT_EQ(tokenizer_->decode(*tokenizer_->encode(blanks)), blanks);
}

}  // namespace
}  // namespace slip
