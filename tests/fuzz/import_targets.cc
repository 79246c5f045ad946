// SPDX-License-Identifier: Apache-2.0
// Recorded data on its way into record sets: TFRecords of WOD-E2E, MCAP, conversations and their sets, steps of robots, NumPy arrays, nuScenes tables.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "fuzz/targets.h"
#include "import/comma.h"
#include "import/conversation.h"
#include "import/json_records.h"
#include "import/mcap_drive.h"
#include "import/nuscenes.h"
#include "import/tfrecord.h"
#include "import/wod_e2e.h"

namespace slip::fuzz {

namespace {

std::string import_fixture(const std::string& name) {
  std::ifstream in(std::string(SLIP_FIXTURES) + "/import/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void read_frame(slip::Bytes data, const std::string& place) {
  const auto frame = parse_wod_frame(data, place);
  if (!frame) return require_refusal(frame.error());
  const auto record = record_of(*frame, place);
  if (!record) return require_refusal(record.error());
  require(std::isfinite(record->record.labels.future.back().x), "futures are numbers");
  require(record->record.images.empty() || record->record.images.size() == sim::kCameras * sim::kImageBytes, "pictures are whole");
}

}  // namespace

// The file as it is; then as the data of one frame, which a wrong sum would keep out of reach.
void run_tfrecord(Bytes bytes) {
  TfRecordReader reader(bytes, "fuzz");
  for (int i = 0; i < 16; ++i) {
    const std::string place = reader.place();
    const auto data = reader.next();
    if (!data) {
      require_refusal(data.error());
      break;
    }
    if (!*data) break;
    read_frame(**data, place);
  }
  read_frame(bytes, "fuzz");
}

std::vector<std::string> seeds_tfrecord() {
  const std::string whole = import_fixture("wod/frames.tfrecord");
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  return {whole, whole.substr(12, length), import_fixture("wod/unusual.tfrecord"), import_fixture("wod/cut_in_data.tfrecord")};
}

void run_mcap(Bytes bytes) {
  const auto drives = read_mcap_drives(bytes, "fuzz");
  if (!drives) return require_refusal(drives.error());
  for (const McapDrive& d : *drives) {
    const auto track = TrackPieces::of(d.poses, "fuzz");
    if (!track) {
      require_refusal(track.error());
      continue;
    }
    for (const Track& t : track->pieces) require(std::isfinite(t.at((t.first_s() + t.last_s()) / 2).x), "places are numbers");
    if (d.cameras[1].empty()) continue;
    const auto pictures = d.pictures_at(d.cameras[1].front().t_s);
    if (!pictures) require_refusal(pictures.error());
  }
}

std::vector<std::string> seeds_mcap() {
  return {import_fixture("mcap/drive.mcap"), import_fixture("mcap/OneMessage-ch-chx-mx-rch-rsh-st-sum.mcap"),
          import_fixture("mcap/OneAttachment-ax-st-sum.mcap"), import_fixture("mcap/OneMetadata-mdx-st-sum.mcap")};
}

void run_conversation(Bytes bytes) {
  put("chat.jsonl", text_of(bytes));
  const Status s = each_conversation(scratch() / "chat.jsonl", [](const Conversation& c, std::string_view, int64_t) -> Status {
    require(!c.turns.empty() && c.turns.back().role == "assistant", "a conversation ends with an answer");
    return {};
  });
  if (!s) require_refusal(s.error());
}

std::vector<std::string> seeds_conversation() {
  return {import_fixture("conversation/good.jsonl"), import_fixture("conversation/bad_09.jsonl")};
}

void run_robot_steps(Bytes bytes) {
  put("0.png", "");
  put("steps.jsonl", text_of(bytes));
  const Status s = each_robot_step(scratch() / "steps.jsonl", [](RobotStep&& step, std::string_view) -> Status {
    require(!step.pictures.empty() && !step.instruction.empty() && !step.action.empty(), "a step has all of its parts");
    for (const double a : step.action) require(std::isfinite(a), "actions are finite");
    return {};
  });
  if (!s) require_refusal(s.error());
}

std::vector<std::string> seeds_robot_steps() {
  const std::string step = R"({"image": "0.png", "instruction": "pick up the cup", "action": [0.1, -0.2, 0, 1]})";
  return {step + "\n" + step + "\n", "[" + step + "]", R"({"images": ["0.png", "0.png"], "instruction": "go", "action": [1e3]})"};
}

void run_conversation_set(Bytes bytes) {
  std::filesystem::create_directories(scratch() / "chat");
  put("chat/conversations.slip", text_of(bytes));
  const auto set = ConversationSet::open(scratch() / "chat");
  if (!set) return require_refusal(set.error());
  for (int64_t i = -1; i <= std::min<int64_t>(set->size(), 8); ++i) {
    const auto c = set->get(i);
    if (!c) require_refusal(c.error());
  }
}

std::vector<std::string> seeds_conversation_set() {
  const std::filesystem::path folder = scratch() / "chat-seed";
  std::filesystem::remove_all(folder);
  auto writer = ConversationSetWriter::create(folder);
  require(static_cast<bool>(writer), "a set can be written");
  Conversation c{"a", {{"user", {std::string("2+2?")}}, {"assistant", {std::string("4")}}}};
  require(writer->add(c, folder, "seed") && writer->add(c, folder, "seed") && writer->finish(), "a set is written");
  std::ifstream in(folder / "conversations.slip", std::ios::binary);
  return {std::string(std::istreambuf_iterator<char>(in), {})};
}

void run_npy(Bytes bytes) {
  const auto a = read_npy(text_of(bytes), "fuzz");
  if (!a) return require_refusal(a.error());
  uint64_t n = 1;
  for (const int64_t d : a->shape) n *= static_cast<uint64_t>(d);
  require(n == a->values.size(), "an array has as many numbers as its shape says");
}

std::vector<std::string> seeds_npy() {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto n = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&n), 2).append(header).append(48, '\0');
  return {out};
}

// One document with all tables: {"scene": [...], "sample": [...], ...}.
void run_nuscenes(Bytes bytes) {
  const auto v = parse_json(text_of(bytes), "fuzz");
  if (!v || !v->is_object()) return;
  std::filesystem::create_directories(scratch() / "tables");
  for (const char* table :
       {"scene", "sample", "sample_data", "ego_pose", "sensor", "calibrated_sensor", "sample_annotation", "instance", "category"}) {
    const json::value* t = v->get_object().if_contains(table);
    put(std::string("tables/") + table + ".json", t ? json::serialize(*t) : "null");
  }
  const auto scenes = read_nuscenes(scratch() / "tables");
  if (!scenes) return require_refusal(scenes.error());
  for (const NuScenesScene& s : *scenes) require(s.samples.size() == s.seconds.size(), "a time for each sample");
}

std::vector<std::string> seeds_nuscenes() {
  json::object all;
  for (const char* table :
       {"scene", "sample", "sample_data", "ego_pose", "sensor", "calibrated_sensor", "sample_annotation", "instance", "category"}) {
    const auto v = parse_json(import_fixture(std::string("nuscenes/v1.0-tiny/") + table + ".json"), table);
    require(static_cast<bool>(v), "a table is JSON");
    all[table] = *v;
  }
  // The first scene alone: a small seed is changed more often where it matters.
  return {json::serialize(all)};
}

}  // namespace slip::fuzz
