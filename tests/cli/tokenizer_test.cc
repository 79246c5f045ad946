// SPDX-License-Identifier: Apache-2.0
// `tokenize` and `detokenize` against published ids: text in on standard input, ids out; ids in, the text's bytes out. The small
// vocabularies of tests/fixtures/text always; the 47 published vectors of three released vocabularies where their files are at hand.
// Each text is two processes, and a released vocabulary takes one a quarter of a second: SLIP_EVERY=1 takes every text.
#include <algorithm>
#include <cstdlib>

#include "tests/cli/process.h"

namespace slip::test {
namespace {

struct Vector {
  std::string text, decoded;
  json::array ids;
};

// Every `step`-th of the texts in an ordinary run.
size_t stride(size_t step) { return std::getenv("SLIP_EVERY") != nullptr ? 1 : step; }

class CliTokenizer : public Cli {
 protected:
  void expect(const std::string& model, const Vector& v) {
    SCOPED_TRACE(v.text);
    const Ran ids = run({"tokenize", "--model", model, "--json"}, v.text);
    ASSERT_EQ(ids.code, 0) << ids.err;
    const auto got = parse_json(ids.out, "stdout");
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->at("ids"), v.ids);
    EXPECT_EQ(got->at("count").to_number<size_t>(), v.ids.size());
    const Ran text = run({"detokenize", "--model", model}, json::serialize(v.ids));
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out, v.decoded);
  }
};

class SmallVocabulary : public CliTokenizer, public testing::WithParamInterface<const char*> {};

TEST_P(SmallVocabulary, GivesTheIdsOfTheReference) {
  const std::string folder = fixture(std::string("text/") + GetParam());
  const json::value file = *parse_json(read_bytes(folder + "/cases.json"), "cases.json");
  const json::array& cases = file.at("cases").as_array();
  ASSERT_GE(cases.size(), 300u);
  for (size_t i = 0; i < cases.size(); i += stride(20)) {  // tokenizer_test takes all of them without processes
    const json::value& c = cases[i];
    expect(folder, {std::string(c.at("text").as_string()), std::string(c.at("decoded").as_string()), c.at("ids").as_array()});
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, SmallVocabulary, testing::Values("qwen", "llama2", "llama3", "tekken"),
                         [](const auto& i) { return std::string(i.param); });

// Texts between separator lines; one line of ids for each but the last, which is empty.
std::vector<Vector> published(const std::string& texts, const std::string& lines) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<Vector> out;
  for (size_t at = 0, line = 0; at <= texts.size();) {
    const size_t end = std::min(texts.find(separator, at), texts.size()), stop = std::min(lines.find('\n', line), lines.size());
    Vector v{texts.substr(at, end - at), texts.substr(at, end - at), {}};
    std::string ids = lines.substr(std::min(line, lines.size()), stop - std::min(line, lines.size()));
    while (!ids.empty()) {
      size_t used = 0;
      v.ids.emplace_back(static_cast<int64_t>(std::stoi(ids, &used)));
      ids.erase(0, used);
      ids.erase(0, ids.find_first_not_of(' '));
    }
    out.push_back(std::move(v));
    at = end + separator.size();
    line = stop + 1;
  }
  return out;
}

struct Released {
  const char* vectors;
  std::vector<std::pair<const char*, const char*>> files;  // in the folder of data, and in a model folder
};

class ReleasedVocabulary : public CliTokenizer, public testing::WithParamInterface<Released> {};

TEST_P(ReleasedVocabulary, GivesThe47PublishedVectors) {
  const auto data = shared_data("tokenizers");
  if (!data) GTEST_SKIP() << "expected released vocabularies beside the checkout, got none";
  for (const auto& [from, to] : GetParam().files) fs::create_symlink(fs::absolute(fs::path(*data) / from), path(to));
  const std::string base = *data + "/vectors_" + GetParam().vectors;
  const std::vector<Vector> vectors = published(read_bytes(base + ".inp"), read_bytes(base + ".out"));
  ASSERT_EQ(vectors.size(), 47u);
  for (const Vector& v : vectors) EXPECT_EQ(v.text.empty(), v.ids.empty());
  for (size_t i = 0; i < vectors.size(); i += stride(9)) expect(path("."), vectors[i]);
}

INSTANTIATE_TEST_SUITE_P(Published, ReleasedVocabulary,
                         testing::Values(Released{"qwen2", {{"qwen_vocab.json", "vocab.json"}, {"qwen_merges.txt", "merges.txt"}}},
                                         Released{"llama-spm", {{"llama2_style_tokenizer.json", "tokenizer.json"}}},
                                         Released{"phi-3", {{"llama2_style_tokenizer.json", "tokenizer.json"}}}),
                         [](const auto& i) {
                           std::string name = i.param.vectors;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace slip::test
