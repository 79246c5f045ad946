// SPDX-License-Identifier: Apache-2.0
// Record sets (a shard, the index of a folder), the ego file of a request, and codebooks of trajectories.
#include <cmath>
#include <cstring>

#include "fuzz/targets.h"
#include "plan/codebook.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"
#include "task/prompt.h"

namespace slip::fuzz {

namespace {

constexpr size_t kHeader = 64, kRecords = 12, kRecordBytes = 16, kLabelBytes = 24, kChecksum = 40;  // sim/record/shards.cc

template <class T>
T number_at(std::string_view s, size_t at) {
  T v;
  std::memcpy(&v, s.data() + at, sizeof v);
  return v;
}

/// Makes the sum true, so that what stands behind it is reached.
void repair_sum(std::string& s) {
  if (s.size() < kHeader) return;
  const auto records = number_at<uint32_t>(s, kRecords);
  const auto record = number_at<uint64_t>(s, kRecordBytes), label = number_at<uint64_t>(s, kLabelBytes);
  if (record == 0 || label == 0 || records > s.size() / record) return;  // refused before the sum is taken
  uint64_t sum = 0xCBF29CE484222325ULL;
  for (uint64_t i = 0; i < records; ++i) {
    const uint64_t at = kHeader + i * record;
    if (record > s.size() || at > s.size() || label > s.size() - at) return;
    for (uint64_t k = 0; k < label; ++k) sum = (sum ^ static_cast<uint8_t>(s[at + k])) * 0x100000001B3ULL;
  }
  std::memcpy(s.data() + kChecksum, &sum, sizeof sum);
}

void read_set(const std::filesystem::path& path) {
  const auto set = sim::RecordSet::open(path);
  if (!set) return require_refusal(set.error());
  for (int64_t i = -1; i <= std::min<int64_t>(set->size(), 8); ++i) {
    const auto labels = set->labels(i);
    if (!labels) require_refusal(labels.error());
    const auto pictures = set->pictures(i);
    require(pictures ? pictures->size() == sim::kCameras * sim::kImageBytes : !pictures.error().message.empty(),
            "pictures are whole");
    if (labels) require(sim::future_at(*labels, 1.0).x == sim::future_at(*labels, 1.0).x, "positions are numbers");
  }
}

std::string shard_of(uint64_t seed, int records) {
  const std::filesystem::path folder = scratch() / ("set" + std::to_string(seed));
  auto writer = sim::RecordSetWriter::create(folder, seed, records, {});
  require(static_cast<bool>(writer), "a set can be written");
  for (int i = 0; i < records; ++i) {
    const auto record = sim::make_record(seed + static_cast<uint64_t>(i), {}, false);
    require(record && writer->add(*record), "a record is added");
  }
  require(static_cast<bool>(writer->finish()), "a set is finished");
  std::string out;
  {
    const auto file = folder / "shard-00000.slip";
    out.resize(std::filesystem::file_size(file));
    std::FILE* f = std::fopen(file.c_str(), "rb");
    require(f && std::fread(out.data(), 1, out.size(), f) == out.size(), "a shard is read");
    std::fclose(f);
  }
  std::filesystem::remove_all(folder);
  return out;
}

}  // namespace

void run_shard(Bytes bytes) {
  std::string s(text_of(bytes));
  put("a.slip", s);
  read_set(scratch() / "a.slip");
  repair_sum(s);
  put("a.slip", s);
  read_set(scratch() / "a.slip");
}

std::vector<std::string> seeds_shard() { return {shard_of(1, 1), shard_of(5, 2)}; }

void run_record_index(Bytes bytes) {
  static const bool once = [] {
    std::filesystem::create_directories(scratch() / "records");
    put("records/shard-00000.slip", shard_of(1, 2));
    put("records/shard-00001.slip", shard_of(3, 1));
    return true;
  }();
  require(once, "the shards are there");
  put("records/index.json", text_of(bytes));
  read_set(scratch() / "records");
}

std::vector<std::string> seeds_record_index() {
  return {
      R"({"format":"slipstream record set","version":1,"records":3,"first_seed":1,"shards":[{"file":"shard-00000.slip","records":2},)"
      R"({"file":"shard-00001.slip","records":1}]})"};
}

void run_ego(Bytes bytes) {
  put("ego.json", text_of(bytes));
  const auto ego = read_ego(scratch() / "ego.json");
  if (!ego) require_refusal(ego.error());
}

std::vector<std::string> seeds_ego() {
  std::string history;
  for (int i = 0; i < 16; ++i) history += fmt::format("{}[{},{},0,8.5,0,-0.25,1e-3]", i == 0 ? "" : ",", (i - 15) * 0.25, i * 2);
  return {R"({"intent":"GO_LEFT","history":[)" + history + "]}"};
}

void run_codebook(Bytes bytes) {
  put("codebook.json", text_of(bytes));
  const auto book = TrajectoryCodebook::load(scratch() / "codebook.json");
  if (!book) return require_refusal(book.error());
  const std::vector<int32_t> codes{0, (*book)->codes() - 1, (*book)->codes() / 2};
  const std::vector<Pose> path = (*book)->decode(codes);
  require(path.size() == 3 * static_cast<size_t>((*book)->steps()), "a code has its steps");
  for (const Pose& p : path) require(std::isfinite(p.x) && std::isfinite(p.y) && std::isfinite(p.yaw_rad), "a path is finite");
  const std::vector<int32_t> said = (*book)->encode(path, 3);
  for (const int32_t c : said) require(c >= 0 && c < (*book)->codes(), "a code is of the book");
  const auto again = TrajectoryCodebook::parse((*book)->to_json(), "again");
  require(again && json::serialize(again->to_json()) == json::serialize((*book)->to_json()),
          "what was read can be written and read again");
}

std::vector<std::string> seeds_codebook() {
  return {R"({"format":"slipstream-codebook","step_s":0.1,"steps":2,"codes":[[1,0,0,2,0,0],[0.5,0,0.1,1.25,0.5,-3.1416],)"
          R"([0,0,0,0,0,0]]})"};
}

}  // namespace slip::fuzz
