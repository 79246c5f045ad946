// SPDX-License-Identifier: Apache-2.0
// The lists of keys in slipstream.h are those that the documents have.
#include "capi/request_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "base/json.h"

namespace slip {
namespace {

using Words = std::set<std::string>;

/// The header from `first` up to `last`, without what opens each line of a comment.
std::string part_of_header(const std::string& first, const std::string& last) {
  std::ifstream in(std::string(SLIP_SOURCE_DIR) + "/include/slipstream.h");
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  const size_t begin = all.find(first), end = all.find(last, begin);
  EXPECT_TRUE(begin != std::string::npos && end != std::string::npos) << first;
  if (begin == std::string::npos || end == std::string::npos) return {};
  return std::regex_replace(all.substr(begin, end - begin), std::regex("\n \\* "), " ");
}

Words matches_of(const std::string& text, const char* pattern) {
  const std::regex word(pattern);
  Words out;
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

/// What stands in quotes and may be a key by its letters, but for `values`: words that keys stand for.
Words quoted_keys(const std::string& text, const Words& values) {
  Words out;
  for (const std::string& word : matches_of(text, "\"([a-z][a-z0-9_]*)\""))
    if (!values.contains(word)) out.insert(word);
  return out;
}

template <class Names>
Words words_of(const Names& names) {
  return Words(names.begin(), names.end());
}

TEST(Header, NamesEveryKeyOfARequestAndNoOther) {
  const std::string told = part_of_header("`json`: null, or an object", "It may name files");
  EXPECT_EQ(quoted_keys(told, {"model", "none", "intent", "history", "role", "content"}), words_of(request_keys()));
}

TEST(Header, NamesEveryOptionOfLoadingAndNoOther) {
  const std::string told = part_of_header("Loads a model folder. `options`", "`on_progress`");
  EXPECT_EQ(quoted_keys(told, {"auto", "f32", "bf16", "int8", "int4", "cpu"}), words_of(engine_option_keys()));
}

TEST(Header, NamesWhatIsToldOfALoadedModel) {
  const auto told = parse_json(info_json({}), "info");
  ASSERT_TRUE(told);
  Words keys;
  for (const auto& member : told->as_object()) keys.insert(std::string(member.key()));
  const std::string text = part_of_header("as a JSON object: folder", ". Null for a null handle");
  EXPECT_EQ(matches_of(text.substr(text.find(':')), "([a-z_]+)"), keys);
}

}  // namespace
}  // namespace slip
