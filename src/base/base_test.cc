// SPDX-License-Identifier: Apache-2.0
// Promises of the ground floor: keyed uniforms against their fixture, JSON errors that point at the place, files that appear
// whole or not at all, a pool that does every index exactly once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/threads.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

fs::path temp_dir() {
  const fs::path d = fs::temp_directory_path() / ("slip_base_test_" + std::to_string(::getpid()));
  fs::create_directories(d);
  return d;
}

TEST(Philox, GivesRandom123sPublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, GivesTheFixturesUniforms) {
  auto file = read_json(fs::path(SLIP_FIXTURES) / "decode" / "philox.json");
  ASSERT_TRUE(file) << file.error().message;
  const json::array& cases = file->at("cases").as_array();
  ASSERT_GT(cases.size(), 10u);
  for (const json::value& v : cases) {
    const json::object& c = v.as_object();
    const uint64_t seed = std::stoull(std::string(c.at("seed").as_string()));
    const DrawKey key{c.at("request").to_number<uint32_t>(), c.at("field").to_number<uint32_t>(),
                      c.at("index").to_number<uint32_t>(), static_cast<Purpose>(c.at("purpose").to_number<uint32_t>())};
    const json::array& words = c.at("words").as_array();
    const Philox4 out = philox4x32({key.request, key.field, key.index, static_cast<uint32_t>(key.purpose)},
                                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], words[i].to_number<uint32_t>());
    EXPECT_DOUBLE_EQ(keyed_uniform(seed, key), c.at("uniform").to_number<double>());  // Boost.JSON 1.81 reads within 1 ulp
  }
}

TEST(PhiloxStream, IsAFunctionOfItsKeyAndStaysInRange) {
  PhiloxStream a(7, 1), b(7, 1), c(7, 2);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const double u = a.uniform();
    EXPECT_EQ(u, b.uniform());
    differs |= u != c.uniform();
    EXPECT_GT(u, 0);
    EXPECT_LT(u, 1);
    EXPECT_LT(a.below(3), 3u);
    b.below(3);
    c.below(3);
  }
  EXPECT_TRUE(differs);
}

TEST(Json, PointsAtTheLineAndColumnOfAMistake) {
  const auto r = parse_json("{\n  \"a\": 1,\n  \"b\" 2}", "x.json");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(r.error().message.find("x.json"), std::string::npos);
  EXPECT_NE(r.error().message.find("line 3"), std::string::npos) << r.error().message;
}

TEST(Json, RefusesTrailingTextDeepNestingAndHalfADocument) {
  EXPECT_FALSE(parse_json("{} x", "t"));
  EXPECT_FALSE(parse_json("{\"a\": [1, 2", "t"));
  EXPECT_FALSE(parse_json("", "t"));
  EXPECT_FALSE(parse_json(std::string(100000, '['), "t"));
  EXPECT_TRUE(parse_json(" {\"a\": [1, 2]} \n", "t"));
}

TEST(Json, TypedAccessNamesFileKeyExpectedAndGot) {
  const json::value v = *parse_json(R"({"n": "five", "f": 2.5, "i": 1e6, "z": null})", "t");
  const json::object& o = v.as_object();
  const auto n = get_int(o, "n", "config.json");
  ASSERT_FALSE(n);
  EXPECT_EQ(n.error().message, "config.json: key \"n\": expected an integer, got a string");
  EXPECT_FALSE(get_int(o, "f", "t"));
  EXPECT_FALSE(get_int(o, "absent", "t"));
  EXPECT_EQ(*get_int(o, "i", "t"), 1000000);
  EXPECT_EQ(*int_or(o, "z", 7, "t"), 7);
  EXPECT_FALSE(int_or(o, "n", 7, "t"));
}

TEST(Json, PrettyTextParsesBackToTheSameValue) {
  const json::value v = *parse_json(R"({"b": [1, [2, 3], {"x": "é\n"}], "a": {}, "c": []})", "t");
  EXPECT_EQ(*parse_json(pretty(v), "t"), v);
}

TEST(AtomicFile, LeavesNothingBehindUnlessCommitted) {
  const fs::path dir = temp_dir() / "atomic";
  fs::create_directories(dir);
  {
    auto f = AtomicFile::create(dir / "a");
    ASSERT_TRUE(f);
    ASSERT_TRUE(f->write("half", 4));
  }
  EXPECT_TRUE(fs::is_empty(dir));
  ASSERT_TRUE(write_file(dir / "a", "whole"));
  EXPECT_EQ(*read_file(dir / "a"), "whole");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1);
  fs::remove_all(dir);
}

TEST(ReadFile, SaysWhatItExpected) {
  EXPECT_EQ(read_file("/nonexistent/x").error().kind, ErrorKind::kBadInput);
  EXPECT_NE(read_file("/").error().message.find("folder"), std::string::npos);
}

TEST(ThreadPool, DoesEveryIndexExactlyOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      const int n = round % 37;
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      pool.run(n, [&](int64_t i) { hits[static_cast<size_t>(i)]++; });
      for (auto& h : hits) ASSERT_EQ(h.load(), 1);
      if (round % 100 == 99) ::usleep(2000);  // let the workers fall asleep
    }
  }
}

TEST(Progress, WritesDurationsAsPeopleDo) {
  EXPECT_EQ(human_duration(3.2), "3 s");
  EXPECT_EQ(human_duration(125), "2 min 5 s");
  EXPECT_EQ(human_duration(3840), "1 h 4 min");
}

TEST(Check, ThrowsWithTheReason) {
  try {
    SLIP_CHECK(1 > 2, "because");
    FAIL();
  } catch (const CheckFailure& e) {
    EXPECT_NE(std::string(e.what()).find("because"), std::string::npos);
  }
}

}  // namespace
}  // namespace slip
