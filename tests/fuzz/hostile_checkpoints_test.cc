// SPDX-License-Identifier: Apache-2.0
// Damaged model folders: headers, configurations, indexes, names, lengths and numbers changed at random. Every one is refused in
// words, or loads and answers: twice the same bits (nothing unwritten is read), all logits there. No crash, no hang, and no
// allocation that a small folder does not justify: outside of sanitizers the address space is limited.
// SLIP_MUTANTS: how many folders; SLIP_FIRST: the first one's number, to repeat a finding.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "fuzz/mutate.h"
#include "models/model.h"

namespace slip::fuzz {
namespace {

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang's way to say it
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr const char* kModels[] = {"qwen2", "llama3", "qwen2_5_vl", "nemotron_labs_diffusion", "qwen3"};
constexpr double kMostSeconds = kSanitized ? 60 : 10;  // measured: 0.05 s; a busy machine is not a hang
constexpr rlim_t kMostBytes = rlim_t{4} << 30;         // the folders have 1 MB

int number_from(const char* name, int otherwise) {
  const char* const s = std::getenv(name);
  return s ? std::atoi(s) : otherwise;
}

/// A copy of a fixture that may be damaged.
class Mutant {
 public:
  Mutant(const fs::path& model, PhiloxStream& random) : random_(random) {
    folder_ = fs::temp_directory_path() / fmt::format("slip-mutant-{}", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const auto& e : fs::recursive_directory_iterator(model)) {
      const fs::path to = folder_ / fs::relative(e.path(), model);
      const std::string name = e.path().filename();
      if (e.is_directory()) {
        fs::create_directories(to);
      } else if (!name.starts_with("expected") && !name.starts_with("rows") && name != "README.md") {
        fs::copy_file(e.path(), to);
        (to.extension() == ".safetensors" ? weights_ : documents_).push_back(to);
      }
    }
    std::sort(weights_.begin(), weights_.end());
    std::sort(documents_.begin(), documents_.end());
  }
  ~Mutant() { fs::remove_all(folder_); }
  const fs::path& folder() const { return folder_; }

  /// Does one kind of damage; says which.
  std::string damage() {
    switch (random_.below(9)) {
      case 0:
        return bytes_of_header();
      case 1:
        return header();
      case 2:
      case 3:
        return document();
      case 4:
        return truncation();
      case 5:
        return renamed_tensor();
      case 6:
        return number(true);
      case 7:
        return number(false);
      default:
        return removed_file();
    }
  }

 private:
  const fs::path& one_of(const std::vector<fs::path>& files) { return files[random_.below(static_cast<uint32_t>(files.size()))]; }
  std::string read(const fs::path& file) { return *read_file(file); }
  void write(const fs::path& file, std::string_view bytes) { std::ofstream(file, std::ios::binary) << bytes; }
  static uint64_t header_length(const std::string& s) {
    uint64_t n = 0;
    std::memcpy(&n, s.data(), 8);
    return n;
  }

  std::string bytes_of_header() {
    const fs::path file = one_of(weights_);
    std::string s = read(file);
    const auto end = static_cast<uint32_t>(8 + header_length(s));
    for (uint32_t n = 1 + random_.below(4); n > 0; --n) {
      const uint32_t at = random_.below(4) == 0 ? random_.below(8) : random_.below(end);
      s[at] = static_cast<char>(random_.below(2) ? random_.bits() : static_cast<uint32_t>(s[at] ^ 1 << random_.below(8)));
    }
    write(file, s);
    return "bytes of the header of " + file.filename().string();
  }
  std::string header() {
    const fs::path file = one_of(weights_);
    std::string s = read(file);
    const uint64_t length = header_length(s);
    json::value v = json::parse(std::string_view(s).substr(8, length));
    mutate_json(v, random_);
    const std::string changed = json::serialize(v);
    const uint64_t n = changed.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &n, 8);
    write(file, out + changed + s.substr(8 + length));
    return "header of " + file.filename().string();
  }
  std::string document() {
    const fs::path file = one_of(documents_);
    if (file.extension() != ".json") return "nothing";
    json::value v = json::parse(read(file));
    mutate_json(v, random_);
    write(file, json::serialize(v));
    return file.filename().string() + ": " + json::serialize(v).substr(0, 3000);
  }
  std::string truncation() {
    const fs::path file = one_of(random_.below(4) == 0 ? documents_ : weights_);
    fs::resize_file(file, random_.below(static_cast<uint32_t>(fs::file_size(file)) + 1));
    return "truncation of " + file.filename().string();
  }
  // Of the same length, so that nothing else is wrong.
  std::string renamed_tensor() {
    const fs::path file = one_of(weights_);
    std::string s = read(file);
    const uint64_t length = header_length(s);
    std::vector<size_t> places;
    for (size_t at = 0; (at = s.find("weight\"", at)) < 8 + length; ++at) places.push_back(at);
    if (places.empty()) return "nothing";
    const size_t at = places[random_.below(static_cast<uint32_t>(places.size()))];
    s[at + random_.below(6)] = static_cast<char>('a' + random_.below(26));
    write(file, s);
    return "name of a tensor in " + file.filename().string();
  }
  std::string number(bool nan) {
    const fs::path file = one_of(weights_);
    std::string s = read(file);
    const size_t first = 8 + header_length(s), at = first + random_.below(static_cast<uint32_t>(s.size() - first));
    const char c = nan ? '\xff' : static_cast<char>(random_.bits());
    for (size_t i = at / 4 * 4; i < std::min(s.size(), at / 4 * 4 + 4); ++i) s[i] = c;
    write(file, s);
    return (nan ? "NaN in " : "numbers of ") + file.filename().string();
  }
  std::string removed_file() {
    const fs::path file = one_of(random_.below(2) ? documents_ : weights_);
    fs::remove(file);
    return "no " + file.filename().string();
  }

  PhiloxStream& random_;
  fs::path folder_;
  std::vector<fs::path> weights_, documents_;
};

/// Logits of six tokens, or the refusal.
Result<std::vector<float>> answer(const fs::path& folder) {
  SLIP_TRY(const auto model, load_model(folder, {.type = WeightType::kF32, .threads = 1, .slots = 64}));
  RowsFile file;
  for (int32_t i = 0; i < 6; ++i) file.rows.push_back({TokenId{1 + 3 * i}, {i, i, i}, {{0, i + 1}}});
  SLIP_TRY(auto logits, forward_rows(model->lm(), file, {}));
  if (logits.size() != 6 * static_cast<size_t>(model->config().decoder.vocab))
    return Error{ErrorKind::kInternal, fmt::format("expected six rows of logits, got {} numbers", logits.size())};
  return logits;
}

class LimitedMemory {
 public:
  LimitedMemory() {
    if (kSanitized) return;  // their shadows need all of it
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min(limit.rlim_max, kMostBytes);
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~LimitedMemory() {
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &before_);
  }

 private:
  rlimit before_{};
};

TEST(HostileCheckpoints, AreRefusedOrGiveTheSameAnswerTwice) {
  const LimitedMemory limited;
  const int first = number_from("SLIP_FIRST", 0), count = number_from("SLIP_MUTANTS", 120);
  int answers = 0, refusals = 0;
  for (int i = first; i < first + count; ++i) {
    PhiloxStream random(11, static_cast<uint64_t>(i));
    const char* const model = kModels[random.below(std::size(kModels))];
    Mutant mutant(fs::path(SLIP_FIXTURES) / "models" / model, random);
    const std::string what = fmt::format("mutant {} of {}: {}", i, model, mutant.damage());
    SCOPED_TRACE(what);
    const auto start = std::chrono::steady_clock::now();
    try {
      const auto one = answer(mutant.folder());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_LT(took.count(), kMostSeconds);
      if (!one) {
        ++refusals;
        EXPECT_TRUE(one.error().kind == ErrorKind::kBadInput || one.error().kind == ErrorKind::kUnsupported ||
                    one.error().kind == ErrorKind::kResource)
            << one.error().message;
        EXPECT_FALSE(one.error().message.empty());
        continue;
      }
      ++answers;
      const auto two = answer(mutant.folder());
      ASSERT_TRUE(two) << two.error().message;
      EXPECT_EQ(std::memcmp(one->data(), two->data(), one->size() * sizeof(float)), 0);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "threw: " << e.what();
    }
  }
  std::printf("%d answers, %d refusals\n", answers, refusals);
  if (count >= 100) {
    EXPECT_GT(answers, count / 20);  // both ways out were walked
    EXPECT_GT(refusals, count / 5);
  }
}

}  // namespace
}  // namespace slip::fuzz
