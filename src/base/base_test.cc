// SPDX-License-Identifier: Apache-2.0
// Promises of the ground floor: keyed uniforms against their fixture, JSON errors that point at the place, files that appear
// whole or not at all, a pool that does every index exactly once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/files/beside.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/json/flaws.h"
#include "base/log.h"
#include "base/measure.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/threads/threads.h"

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

TEST(Measure, TheMedianOfAnEvenCountIsTheUpperMiddleAndOfNoneZero) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

TEST(Measure, ALapEndsWhereTheNextBegins) {
  const Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  const double laps = lap(last) + lap(last), whole = std::chrono::duration<double, std::milli>(last - start).count();
  EXPECT_NEAR(laps, whole, 1e-9 * (1 + whole));
  EXPECT_GE(ms_since(start), whole);
}

TEST(Json, RefusesTrailingTextDeepNestingAndHalfADocument) {
  EXPECT_FALSE(parse_json("{} x", "t"));
  EXPECT_FALSE(parse_json("{\"a\": [1, 2", "t"));
  EXPECT_FALSE(parse_json("", "t"));
  EXPECT_FALSE(parse_json(std::string(100000, '['), "t"));
  EXPECT_TRUE(parse_json(" {\"a\": [1, 2]} \n", "t"));
  const auto marked = parse_json("\xEF\xBB\xBF{}", "t");
  ASSERT_FALSE(marked);
  EXPECT_NE(marked.error().message.find("byte order mark"), std::string::npos);
}

TEST(Json, ReadsTheDoubleThatIsNearestToWhatIsWritten) {
  PhiloxStream draw(5, 1);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = uint64_t{draw.below(0x7FE00000)} << 32 | draw.below(0xFFFFFFFF);
    const double want = std::bit_cast<double>(bits);
    const auto v = parse_json(fmt::format("[{}{:.17g}]", i % 2 ? "-" : "", want), "t");
    ASSERT_TRUE(v) << v.error().message;
    ASSERT_EQ(v->at(0).to_number<double>(), i % 2 ? -want : want) << fmt::format("{:.17g}", want);
  }
  EXPECT_EQ(parse_json("[0.1111111111111111111, 1e-999]", "t")->at(0), 0.1111111111111111);
}
TEST(Json, RefusesNumbersBeyondTheDoublesAndSaysWhere) {
  for (const char* number : {"1e999", "-1e309", "1.7976935e308"}) {
    const auto r = parse_json(R"({"a": [0, {"b": )" + std::string(number) + "}]}", "x.json");
    ASSERT_FALSE(r) << number;
    EXPECT_NE(r.error().message.find("x.json: $.a[1].b: "), std::string::npos) << r.error().message;
  }
  EXPECT_TRUE(parse_json("[1.797693134862315e308, -1e308, 1e-999]", "t"));
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

TEST(AtomicFile, WritesADeviceOrAPipeWhereItStands) {
  const fs::path dir = temp_dir() / "special";
  fs::create_directories(dir);
  const fs::path fifo = dir / "pipe", null = dir / "null";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(write_file(fifo, "through"));
  char got[16] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  {
    auto f = AtomicFile::create(fifo);
    ASSERT_TRUE(f);
    const Status s = f->write_at(8, "x", 1);
    ASSERT_FALSE(s);
    EXPECT_NE(s.error().message.find("seek"), std::string::npos) << s.error().message;
  }
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(fifo));
  fs::create_symlink("/dev/null", null);
  ASSERT_TRUE(write_file(null, "gone"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(null));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 2);
  EXPECT_FALSE(AtomicFile::create(dir));
  fs::remove_all(dir);
}

TEST(AtomicFile, ReplacesWhatALinkNamesAndKeepsTheLink) {
  const fs::path dir = temp_dir() / "links";
  fs::create_directories(dir / "far");
  fs::create_symlink("far/second", dir / "first");
  fs::create_symlink("real", dir / "far" / "second");
  for (const char* text : {"new", "newer"}) {  // a dangling chain, then one that ends in a file
    ASSERT_TRUE(write_file(dir / "first", text));
    EXPECT_TRUE(fs::is_symlink(dir / "first"));
    EXPECT_TRUE(fs::is_symlink(dir / "far" / "second"));
    EXPECT_EQ(*read_file(dir / "far" / "real"), text);
  }
  fs::remove_all(dir);
}

// Ends the process as a signal without anyone polling does.
[[noreturn]] void interrupt_myself(const fs::path& folder) {
  install_interrupt_handler(0);
  remember_temporary(folder);
  fs::create_directories(folder / "inner");
  std::thread writer([&] {  // goes on writing while the handler removes
    for (int i = 0;; ++i) std::ofstream(folder / "inner" / std::to_string(i % 1000));
  });
  ::usleep(5000);
  ::raise(SIGINT);
  writer.join();
  std::abort();
}

// The same while files of their own temporary names, and the folders above them, are made.
[[noreturn]] void interrupt_who_makes_files(const fs::path& folder) {
  install_interrupt_handler(0);
  remember_temporary(folder);
  fs::create_directories(folder / "inner");
  for (int i = 0; i < 400; ++i) std::ofstream(folder / "inner" / std::to_string(i));  // whose removal takes a while
  std::thread writer([&] {
    for (int i = 0;; ++i) EXPECT_TRUE(AtomicFile::create(folder / std::to_string(i) / "file"));
  });
  ::usleep(5000);
  ::raise(SIGINT);
  writer.join();
  std::abort();
}

TEST(InterruptDeathTest, NoFolderThatWasRemovedComesBack) {
  for (int i = 0; i < 5; ++i) {
    const fs::path folder = temp_dir() / "x.tmp-1-0";
    EXPECT_EXIT(interrupt_who_makes_files(folder), testing::ExitedWithCode(130), "interrupted");
    EXPECT_FALSE(fs::exists(folder));
  }
}

TEST(InterruptDeathTest, RemovesUnfinishedFoldersThoughTheyAreStillWritten) {
  const fs::path folder = temp_dir() / "step-1.partial";
  EXPECT_EXIT(interrupt_myself(folder), testing::ExitedWithCode(130), "interrupted");
  EXPECT_FALSE(fs::exists(folder));
}

[[noreturn]] void interrupt_who_made_folders(const fs::path& folder) {
  install_interrupt_handler(0);
  fs::create_directories(folder / "outer" / "inner");
  fs::create_directories(folder / "used");
  std::ofstream(folder / "used" / "file") << "another's";
  for (const char* made : {"outer", "outer/inner", "used", "forgotten"}) {
    fs::create_directory(folder / made);
    remember_folder(folder / made);
  }
  forget_folder(folder / "forgotten");
  ::raise(SIGINT);
  for (;;) ::pause();
}

TEST(InterruptDeathTest, FoldersThatWereMadeGoWhereTheyAreEmpty) {
  const fs::path folder = temp_dir() / "made";
  EXPECT_EXIT(interrupt_who_made_folders(folder), testing::ExitedWithCode(130), "interrupted");
  EXPECT_FALSE(fs::exists(folder / "outer"));
  EXPECT_TRUE(fs::exists(folder / "used" / "file"));
  EXPECT_TRUE(fs::exists(folder / "forgotten"));
  fs::remove_all(folder);
}

TEST(RemoveTree, HoldsOneDescriptor) {
  const fs::path root = temp_dir() / "tree", kept = temp_dir() / "kept";
  for (const char* below : {"", "a", "a/b", "a/b/c", "d"}) {
    fs::create_directories(root / below);
    for (int i = 0; i < 20; ++i) std::ofstream(root / below / std::to_string(i)) << i;
  }
  fs::create_directories(kept);
  std::ofstream(kept / "file");
  fs::create_directory_symlink(kept, root / "a" / "link");
  const int next = ::dup(STDERR_FILENO);
  ASSERT_EQ(::close(next), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit one{static_cast<rlim_t>(next) + 1, before.rlim_max}, none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool with_none = remove_tree(root);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one), 0);
  const bool with_one = remove_tree(root);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(with_none);
  EXPECT_TRUE(with_one);
  EXPECT_FALSE(fs::exists(root));
  EXPECT_TRUE(fs::exists(kept / "file")) << "links are not followed";
  EXPECT_TRUE(remove_tree(root)) << "what is not there is gone";
}

TEST(ReadFile, SaysWhatItExpected) {
  EXPECT_EQ(read_file("/nonexistent/x").error().kind, ErrorKind::kBadInput);
  EXPECT_NE(read_file("/").error().message.find("folder"), std::string::npos);
}

TEST(MappedFile, HasTheFilesBytesInWhateverPagesItIsCached) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("slip-pages-" + std::to_string(::getpid()));
  std::string bytes(size_t{5} << 20, ' ');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761U >> 24);
  ASSERT_TRUE(write_file(file, bytes));
  const auto before = MappedFile::open(file);  // holds its pages while the system is told to forget them
  ASSERT_TRUE(before);
  cache_in_large_pages(file);
  const auto after = MappedFile::open(file);
  ASSERT_TRUE(after);
  after->prefer_large_pages();
  for (const MappedFile* map : {&*before, &*after})
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(map->bytes().data()), map->bytes().size()), bytes);
  std::filesystem::remove(file);
  cache_in_large_pages(file);  // not there any more: nothing happens
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

// Every run has its own function and its own counters on the stack, gone as soon as the run is over: a worker that wakes late and
// still called it would hit another run's counters (and ThreadSanitizer or AddressSanitizer would say so). Empty runs end before
// workers wake; pauses let them fall asleep.
TEST(ThreadPool, ALateWorkerTouchesNothingOfARunThatIsOver) {
  ThreadPool pool(8);  // more than the cores: some are always late
  PhiloxStream draw(1, 1);
  for (int round = 0; round < 4000; ++round) {
    const auto n = static_cast<int64_t>(2 + draw.below(9));
    int hits[10] = {};  // not atomic: two hits of one index would be a race
    const auto work = draw.below(4) == 0 ? 2000 : 0;
    pool.run(n, [&hits, work](int64_t i) {
      volatile int sink = 0;
      for (int k = 0; k < work; ++k) sink = k;
      (void)sink;
      ++hits[i];
    });
    for (int64_t i = 0; i < 10; ++i) ASSERT_EQ(hits[i], i < n ? 1 : 0) << round;
    if (round % 500 == 499) ::usleep(1000);
  }
}

TEST(ThreadPool, SharesARunWithItsWorkers) {
  ThreadPool pool(2);  // both must be inside at once for either to go on
  std::atomic<int> inside{0};
  pool.run(2, [&](int64_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadPool, SaysWhichThreadCallsAndNoTwoAreTheSameAtOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::array<std::atomic<int>, 5> inside{};
    std::atomic<int> wrong{0}, calls{0};
    for (int round = 0; round < 200; ++round)
      pool.run(40, [&](int64_t, int thread) {
        ++calls;
        if (thread < 0 || thread >= threads) return void(++wrong);
        if (inside[static_cast<size_t>(thread)]++ != 0) ++wrong;
        --inside[static_cast<size_t>(thread)];
      });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(calls, 200 * 40);
  }
}
TEST(ThreadPool, WhatAnIndexThrowsIsThrownWhenAllAreDone) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> done{0};
    EXPECT_THROW(pool.run(1000,
                          [&](int64_t i) {
                            if (i == 7) throw std::bad_alloc();
                            ++done;
                          }),
                 std::bad_alloc);
    done = 0;
    pool.run(100, [&](int64_t) { ++done; });  // and the pool works on
    EXPECT_EQ(done, 100);
  }
}

TEST(ThreadPool, StopsInTheMiddleOfARunAndOfThoseBehind) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> done{0};
    std::atomic<bool> stop{false};
    const std::function<bool()> asked = [&] { return stop.load(); };
    pool.stop_when(&asked);
    pool.run(100000, [&](int64_t) { stop = ++done > 10; });
    EXPECT_TRUE(pool.stopped());
    EXPECT_LT(done, 100000);
    done = 0;
    pool.run(10, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 0);
    pool.stop_when(nullptr);
    pool.run(10, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 10);
    EXPECT_FALSE(pool.stopped());
  }
}

TEST(ThreadPool, WorksWithTheThreadsItCouldGet) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than the address space: no thread can start
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  {
    ThreadPool pool(4);
    EXPECT_EQ(pool.threads(), 1);
    int sum = 0;
    pool.run(5, [&](int64_t i) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum, 10);
  }
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}

TEST(JsonFlaws, KeysThatStandTwiceAreFoundWhereTheyStand) {
  using Places = std::vector<std::string>;
  const auto places_in = [](std::string_view text, size_t most = 50) {
    Places places;
    for (const JsonFlaw& f : json_flaws(text, most)) places.push_back(f.pointer);
    return places;
  };
  EXPECT_EQ(places_in(R"({"a": 1, "b": {"a": 2}, "c": [{"a": 1}, {"a": 1}]})"), Places{});
  EXPECT_EQ(places_in(R"({"a": 1, "\u0061": 2})"), Places{"#/a"}) << "they say the same";
  EXPECT_EQ(places_in(R"([0, [], {"x/y": {"~": 1, "~": 2, "~": 3}, "x/y": 4}])"),
            (Places{"#/2/x~1y/~0", "#/2/x~1y/~0", "#/2/x~1y"}));
  EXPECT_EQ(places_in(R"({"": 1, "": 2})"), Places{"#/"});
  EXPECT_EQ(places_in(R"({"a": 1, "a": 2, "a": 3})", 1).size(), 1U);
  EXPECT_EQ(places_in(R"({"a": 1, "a": )"), Places{}) << "no JSON";
  EXPECT_EQ(check_json(R"({"a": 1, "a": 2})", "f.json").error().message, "f.json: #/a: expected each key once, got it again");
  std::string many = R"({"a": [{"0": 0)";
  for (int i = 1; i <= 1 << 16; ++i) many += fmt::format(R"(, "{}": 0)", i);
  EXPECT_EQ(check_json(many + "}]}", "f.json").error().message,
            "f.json: #/a/0: expected at most 65536 members of an object, got more");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"a":)";
  EXPECT_EQ(places_in(deep), Places{});
}

TEST(JsonFlaws, IntegersThatNothingHoldsAreFound) {
  EXPECT_EQ(check_json(R"({"const": 123456789012345678901})", "f.json").error().message,
            "f.json: #/const: expected integers that 64 bits or a double hold, got 123456789012345678901");
  EXPECT_EQ(json_flaws("[18446744073709551617, -9223372036854775809]").size(), 2U);
  for (const char* held : {"[18446744073709551615]", "[-9223372036854775808]", "[18446744073709551616]", "[100000000000000000000]",
                           "[1000000000000000019884624838656]", "[1.2345678901234567891]", "[123456789012345678901e0]"})
    EXPECT_TRUE(json_flaws(held).empty()) << held;
}

TEST(Log, ShowsWhatTheLevelAsksForOnOneLineEach) {
  const LogLevel before = log_level();
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  log(LogLevel::kDebug, "not {}", "shown");
  log(LogLevel::kInfo, "two\nlines {}", 1);
  set_log_level(LogLevel::kOff);
  log(LogLevel::kError, "nor this");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "slipstream: info: two lines 1\n");
  set_log_level(before);
  EXPECT_EQ(log_level_named("debug"), LogLevel::kDebug);
  EXPECT_EQ(log_level_named("loud"), LogLevel::kWarn);
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

TEST(File, ANameWithAZeroByteIsNoFile) {
  const std::string name = ::testing::TempDir() + "/slip_zero_byte";
  ASSERT_TRUE(write_file(name, "x"));
  const auto read = read_file(name + std::string("\0.json", 6));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("expected a file name without a zero byte"), std::string::npos) << read.error().message;
  std::filesystem::remove(name);
}

TEST(Json, AFileThatAPersonWroteHasEachKeyOnce) {
  const std::string name = ::testing::TempDir() + "/slip_written.json";
  ASSERT_TRUE(write_file(name, R"({"a": {"b": 1, "b": 2}})"));
  const auto read = read_written_json(name);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("expected each key once"), std::string::npos) << read.error().message;
  ASSERT_TRUE(write_file(name, R"({"a": {"b": 1}})"));
  EXPECT_TRUE(read_written_json(name));
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace slip
