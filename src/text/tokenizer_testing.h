// SPDX-License-Identifier: Apache-2.0
// What the tests of tokenizers share: fixtures, ids as numbers, a folder to write tokenizer files in.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace slip::tokenizer_testing {

namespace fs = std::filesystem;
using testing::HasSubstr;

inline const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "text";

inline json::value fixture(const fs::path& file) {
  auto r = read_json(file);
  EXPECT_TRUE(r) << r.error().message;
  return r ? *r : json::value();
}
inline std::vector<TokenId> ids_in(const json::value& v) {
  std::vector<TokenId> out;
  for (const json::value& id : v.as_array()) out.push_back({static_cast<int32_t>(id.as_int64())});
  return out;
}
inline std::vector<int> values(const std::vector<TokenId>& ids) {
  std::vector<int> out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}
inline std::string text_in(const json::value& v) { return std::string(v.as_string()); }

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

}  // namespace slip::tokenizer_testing
