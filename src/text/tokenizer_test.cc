// SPDX-License-Identifier: Apache-2.0
// The tokenizer against what the `tokenizers` library 0.23.1 makes of 300 strings in each of four kinds, byte decoding and
// streaming, ill-formed UTF-8, hostile files, and the vectors of the real Qwen vocabulary where it is at hand.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "text/bpe.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "text";

json::value fixture(const fs::path& file) {
  auto r = read_json(file);
  EXPECT_TRUE(r) << r.error().message;
  return r ? *r : json::value();
}
std::vector<TokenId> ids_in(const json::value& v) {
  std::vector<TokenId> out;
  for (const json::value& id : v.as_array()) out.push_back({static_cast<int32_t>(id.as_int64())});
  return out;
}
std::vector<int> values(const std::vector<TokenId>& ids) {
  std::vector<int> out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}
std::string text_in(const json::value& v) { return std::string(v.as_string()); }

class Kind : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder() const { return kFixtures / GetParam(); }
  Tokenizer load() const {
    auto t = Tokenizer::load(folder());
    EXPECT_TRUE(t) << t.error().message;
    return std::move(*t);
  }
};
INSTANTIATE_TEST_SUITE_P(Tokenizer, Kind, testing::Values("qwen", "llama2", "llama3", "tekken"));

TEST_P(Kind, EncodesAndDecodesAsTheLibraryDoes) {
  const Tokenizer t = load();
  const json::value cases = fixture(folder() / "cases.json");
  EXPECT_EQ(t.size(), cases.at("vocab_size").as_int64());
  ASSERT_EQ(cases.at("cases").as_array().size(), 300u);
  for (const json::value& c : cases.at("cases").as_array()) {
    const std::string text = text_in(c.at("text"));
    const auto ids = t.encode(text);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(values(*ids), values(ids_in(c.at("ids")))) << text;
    EXPECT_EQ(t.decode(*ids), text_in(c.at("decoded"))) << text;
    const json::value* skipped = c.as_object().if_contains("decoded_skip_special");
    EXPECT_EQ(t.decode(*ids, true), text_in(skipped ? *skipped : c.at("decoded"))) << text;
  }
}

TEST_P(Kind, DecodesCutCharactersAndStreamsOnlyWhatIsCertain) {
  const Tokenizer t = load();
  const json::value cases = fixture(folder() / "bytes.json");
  ASSERT_FALSE(cases.at("decode").as_array().empty());
  for (const json::value& c : cases.at("decode").as_array()) {
    const std::vector<TokenId> ids = ids_in(c.at("ids"));
    const std::string decoded = text_in(c.at("decoded"));
    EXPECT_EQ(t.decode(ids), decoded);
    std::vector<std::string> sent;
    StreamDecoder stream(t);
    for (const TokenId id : ids) sent.push_back(stream.push(id));
    sent.push_back(stream.flush());
    std::string joined;
    for (const std::string& s : sent) {
      EXPECT_TRUE(is_valid_utf8(s));
      joined += s;
    }
    EXPECT_EQ(joined, decoded);
    if (const json::value* expected = c.as_object().if_contains("stream")) {
      ASSERT_EQ(sent.size(), expected->as_array().size());
      for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i], text_in(expected->as_array()[i]));
    }
  }
}

TEST_P(Kind, RefusesTextThatIsNotUtf8AndReadsItLossilyOnRequest) {
  const Tokenizer t = load();
  const json::value cases = fixture(folder() / "bytes.json");
  for (const json::value& c : cases.at("invalid_utf8").as_array()) {
    const std::string hex = text_in(c.at("hex"));
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    const std::string lossy = to_valid_utf8(bytes);
    EXPECT_EQ(is_valid_utf8(bytes), lossy == bytes);
    if (lossy != bytes) {  // U+FFFF, a noncharacter, is in the list and is valid
      const auto refused = t.encode(bytes);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
    }
    EXPECT_EQ(lossy, text_in(c.at("lossy_text"))) << hex;
    EXPECT_TRUE(is_valid_utf8(lossy));
    const auto ids = t.encode(lossy);
    ASSERT_TRUE(ids);
    EXPECT_EQ(values(*ids), values(ids_in(c.at("ids_of_lossy_text")))) << hex;
    if (const json::value* single = c.as_object().if_contains("byte_ids")) {
      EXPECT_EQ(t.decode(ids_in(*single)), lossy);
    }
  }
}

TEST(Tokenizer, LooksUpTokensBothWays) {
  auto loaded = Tokenizer::load(kFixtures / "qwen");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Tokenizer t = std::move(*loaded);
  const auto end = t.find("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->value, 858);
  EXPECT_TRUE(t.is_special(*end));
  EXPECT_TRUE(t.is_added(*end));
  EXPECT_EQ(t.token_text(*end), "<|im_end|>");
  EXPECT_EQ(t.token_bytes(*end), "<|im_end|>");
  const auto the = t.find("\u0120t");
  ASSERT_TRUE(the);
  EXPECT_EQ(t.token_bytes(*the), " t");
  EXPECT_EQ(t.token_text(*the), "\u0120t");
  EXPECT_FALSE(t.is_added(*the));
  EXPECT_FALSE(t.find("no such token"));
  for (const int unknown : {-1, t.size(), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(t.token_bytes({unknown}), "");
    EXPECT_FALSE(t.is_special({unknown}));
    const std::vector<TokenId> ids = {{unknown}, *the};
    EXPECT_EQ(t.decode(ids), " t");
  }
}

TEST(Tokenizer, MovesWithItsTables) {
  auto a = Tokenizer::load(kFixtures / "qwen");
  auto b = Tokenizer::load(kFixtures / "llama3");
  ASSERT_TRUE(a && b);
  const auto before = a->encode("keep left");
  Tokenizer t = std::move(*b);
  t = std::move(*a);
  const auto after = t.encode("keep left");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(*before, *after);
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("slip-tokenizer-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(std::string_view name, std::string_view text) { ASSERT_TRUE(write_file(folder_ / name, text)); }
  void refused(const json::value& tokenizer, ErrorKind kind, std::string_view part) {
    put("tokenizer.json", json::serialize(tokenizer));
    const auto r = Tokenizer::load(folder_);
    ASSERT_FALSE(r) << part;
    EXPECT_EQ(r.error().kind, kind) << r.error().message;
    EXPECT_THAT(r.error().message, HasSubstr(std::string(part)));
    EXPECT_THAT(r.error().message, HasSubstr(folder_.string()));
  }
  fs::path folder_;
};

TEST_F(Files, VocabAndMergesGiveTheSameAsTokenizerJson) {
  for (const char* name : {"vocab.json", "merges.txt"}) fs::copy_file(kFixtures / "qwen" / name, folder_ / name);
  const json::value whole = fixture(kFixtures / "qwen/tokenizer.json");
  json::object decoder;
  for (const json::value& added : whole.at("added_tokens").as_array()) {
    decoder[std::to_string(added.at("id").as_int64())] = added;
  }
  put("tokenizer_config.json",
      json::serialize(json::object{{"tokenizer_class", "Qwen2Tokenizer"}, {"added_tokens_decoder", decoder}}));
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  const json::value cases = fixture(kFixtures / "qwen/cases.json");
  for (const json::value& c : cases.at("cases").as_array()) {
    const auto ids = t->encode(text_in(c.at("text")));
    ASSERT_TRUE(ids);
    EXPECT_EQ(values(*ids), values(ids_in(c.at("ids"))));
  }
}

TEST_F(Files, AddedTokensFileIsReadAndTheConfigOverridesIt) {
  for (const char* name : {"vocab.json", "merges.txt"}) fs::copy_file(kFixtures / "qwen" / name, folder_ / name);
  put("added_tokens.json", R"({"<|im_end|>": 900, "<a>": 901, "<b>": 902})");
  put("tokenizer_config.json", R"({"eos_token":"<|im_end|>","added_tokens_decoder":{"902":{"content":"<c>","special":true}}})");
  const auto t = Tokenizer::load(folder_);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->find("<|im_end|>"), TokenId{900});
  EXPECT_TRUE(t->is_special({900}));
  EXPECT_FALSE(t->is_special({901}));
  EXPECT_FALSE(t->find("<b>"));
  EXPECT_TRUE(t->is_special({902}));
  EXPECT_EQ(t->size(), 903);
  EXPECT_EQ(t->token_bytes({870}), "");  // a hole between vocabulary and added tokens
  EXPECT_EQ(values(*t->encode("<a><c>")), (std::vector<int>{901, 902}));
}

TEST_F(Files, RefusesWhatItDoesNotDoByName) {
  const json::value good = fixture(kFixtures / "qwen/tokenizer.json");
  const auto with = [&](std::string_view key, json::value v) {
    json::value out = good;
    out.as_object()[key] = std::move(v);
    return out;
  };
  const auto with_model = [&](std::string_view key, json::value v) {
    json::value out = good;
    out.at("model").as_object()[key] = std::move(v);
    return out;
  };
  refused(with("normalizer", {{"type", "Lowercase"}}), ErrorKind::kUnsupported, "normalizer: expected NFC or none, got Lowercase");
  refused(with("pre_tokenizer", {{"type", "Whitespace"}}), ErrorKind::kUnsupported, "pre_tokenizer");
  refused(with("pre_tokenizer", nullptr), ErrorKind::kUnsupported, "expected ByteLevel, got none");
  refused(with("pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}}), ErrorKind::kUnsupported, "add_prefix_space");
  refused(with("pre_tokenizer", {{"type", "Split"}, {"behavior", "Removed"}, {"pattern", {{"Regex", "a"}}}}),
          ErrorKind::kUnsupported, "Removed");
  refused(with("decoder", {{"type", "WordPiece"}}), ErrorKind::kUnsupported, "decoder");
  refused(with_model("type", "Unigram"), ErrorKind::kUnsupported, "got Unigram");
  refused(with_model("dropout", 0.1), ErrorKind::kUnsupported, "dropout");
  refused(with_model("end_of_word_suffix", "</w>"), ErrorKind::kUnsupported, "end_of_word_suffix");
  refused(with_model("byte_fallback", true), ErrorKind::kUnsupported, "normalizer");
  json::value bad = good;
  bad.at("pre_tokenizer").at("pretokenizers").as_array()[0].at("pattern").as_object()["Regex"] = "(";
  refused(bad, ErrorKind::kUnsupported, "split pattern");
  put("tokenizer.json", "");
  fs::remove(folder_ / "tokenizer.json");
  put("vocab.json", "{}");
  put("merges.txt", "");
  put("tokenizer_config.json", R"({"tokenizer_class":"GPT2Tokenizer"})");
  const auto r = Tokenizer::load(folder_);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::kUnsupported);
}

TEST_F(Files, RefusesBrokenFilesWithTheReason) {
  const json::value good = fixture(kFixtures / "qwen/tokenizer.json");
  const auto vocab_with = [&](std::string_view token, json::value id) {
    json::value out = good;
    out.at("model").at("vocab").as_object()[token] = std::move(id);
    return out;
  };
  const auto merge_with = [&](json::value merge) {
    json::value out = good;
    out.at("model").at("merges").as_array().push_back(std::move(merge));
    return out;
  };
  refused(vocab_with("new", -1), ErrorKind::kBadInput, "token \"new\": expected an id from 0");
  refused(vocab_with("new", int64_t{1} << 40), ErrorKind::kBadInput, "token \"new\": expected an id from 0");
  refused(vocab_with("new", 0), ErrorKind::kBadInput, "which another has");
  refused(vocab_with("new", "7"), ErrorKind::kBadInput, "expected an integer id");
  refused(merge_with("a b c"), ErrorKind::kBadInput, "expected two tokens with a blank between");
  refused(merge_with("ab"), ErrorKind::kBadInput, "expected two tokens with a blank between");
  refused(merge_with(7), ErrorKind::kBadInput, "another kind of JSON");
  refused(merge_with(json::array{"a"}), ErrorKind::kBadInput, "another kind of JSON");
  refused(merge_with(json::array{"qq", "qqq"}), ErrorKind::kBadInput, "expected tokens of the vocabulary, got \"qq\" + \"qqq\"");
  json::value out = good;
  out.at("model").at("vocab").as_object().erase("!");
  put("tokenizer.json", json::serialize(out));
  {  // a small alphabet is no error of the file, but text outside it is one of the text
    const auto small = Tokenizer::load(folder_);
    ASSERT_TRUE(small) << small.error().message;
    EXPECT_THAT(small->encode("a!").error().message, HasSubstr("alphabet"));
    EXPECT_TRUE(small->encode("a"));
  }
  out = good;
  out.as_object().erase("model");
  refused(out, ErrorKind::kBadInput, "model");
  refused(json::array{}, ErrorKind::kBadInput, "expected an object");
  out = good;
  out.at("added_tokens").as_array().push_back({{"id", -5}, {"content", "x"}});
  refused(out, ErrorKind::kBadInput, "expected an id from 0");
  put("tokenizer.json", "{\"model\":");
  EXPECT_EQ(Tokenizer::load(folder_).error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(Tokenizer::load(folder_ / "none").error().kind, ErrorKind::kBadInput);
}

TEST(Bpe, HeapAndScanMergeTheSame) {
  PhiloxStream random(7, 0);
  Bpe bpe;
  constexpr int kSymbols = 12;
  for (int rank = 0; rank < 60; ++rank) {
    bpe.add_merge(static_cast<int32_t>(random.below(kSymbols)), static_cast<int32_t>(random.below(kSymbols)), rank,
                  static_cast<int32_t>(random.below(kSymbols)));
  }
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> a(random.below(120));
    for (int32_t& s : a) s = static_cast<int32_t>(random.below(4));
    std::vector<int32_t> b = a;
    bpe.merge_by_scan(a);
    bpe.merge_by_heap(b);
    ASSERT_EQ(a, b);
  }
}

// 47 texts with the ids that the Qwen2 vocabulary gives them; the files are too large to keep here.
class RealQwen : public Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    const fs::path data = fs::path(SLIP_SHARED_DATA) / "tokenizers";
    if (!fs::exists(data / "qwen_vocab.json")) GTEST_SKIP() << "no Qwen vocabulary at " << data;
    fs::create_symlink(fs::absolute(data / "qwen_vocab.json"), folder_ / "vocab.json");
    fs::create_symlink(fs::absolute(data / "qwen_merges.txt"), folder_ / "merges.txt");
    auto t = Tokenizer::load(folder_);
    ASSERT_TRUE(t) << t.error().message;
    tokenizer_.emplace(std::move(*t));
  }
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(RealQwen, GivesThe47PublishedVectors) {
  const fs::path data = fs::path(SLIP_SHARED_DATA) / "tokenizers";
  const std::string in = *read_file(data / "vectors_qwen2.inp"), out = *read_file(data / "vectors_qwen2.out");
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(out);
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
    EXPECT_EQ(values(*tokenizer_->encode(text)), expected) << text;
    EXPECT_EQ(tokenizer_->decode(*tokenizer_->encode(text)), text);
  }
  EXPECT_EQ(count, 47);
}

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
