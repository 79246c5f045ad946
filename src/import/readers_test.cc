// SPDX-License-Identifier: Apache-2.0
// Promises of the readers of public data, against tests/fixtures/import: what is in a file comes out, and what is wrong with one is named with
// its place.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "base/json.h"
#include "image/sha256_testing.h"
#include "import/comma.h"
#include "import/conversation.h"
#include "import/mcap.h"
#include "import/nuscenes.h"
#include "import/tfrecord.h"
#include "import/wire.h"
#include "import/wod_e2e.h"
#include "plan/metrics.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "import";

std::string_view text(const json::value& v) { return v.as_string(); }

Bytes bytes_of_text(const std::string& s) { return std::as_bytes(std::span(s)); }

std::string unhex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

TEST(Crc, EqualsPublishedSums) {
  const auto cases = read_json(kFixtures / "wod" / "crc.json");
  ASSERT_TRUE(cases);
  for (const json::value& c : cases->at("crc32c").as_array()) {
    const std::string bytes = unhex(text(c.at("hex")));
    EXPECT_EQ(crc32c(bytes_of_text(bytes)), c.at("crc").to_number<uint32_t>());
    EXPECT_EQ(masked_crc32c(bytes_of_text(bytes)), c.at("masked").to_number<uint32_t>());
  }
  const std::string digits = "123456789";
  EXPECT_EQ(crc32(bytes_of_text(digits)), 0xCBF43926U);
  EXPECT_EQ(crc32c(bytes_of_text("6789"), crc32c(bytes_of_text("12345"))), 0xE3069283U);
}

/// What a message must say for a kind of error of files.json.
std::string_view phrase_of(std::string_view kind) {
  if (kind == "truncated_header") return "expected a header of 12 bytes";
  if (kind == "length_crc") return "expected the length's masked CRC-32C";
  if (kind == "truncated_data") return "bytes of data and their CRC-32C";
  if (kind == "data_crc") return "expected the data's masked CRC-32C";
  return "";  // protobuf: one of many
}

TEST(WodE2e, EveryFileGivesItsRecordsAndThenItsError) {
  const auto files = read_json(kFixtures / "wod" / "files.json");
  ASSERT_TRUE(files);
  int errors = 0;
  for (const json::value& c : files->at("cases").as_array()) {
    const std::string name(text(c.at("file")));
    const auto map = MappedFile::open(kFixtures / "wod" / name);
    ASSERT_TRUE(map) << name;
    TfRecordReader reader(map->bytes(), name);
    std::optional<Error> error;
    int64_t good = 0;
    uint64_t begin = 0;
    for (;;) {
      begin = reader.offset();
      const std::string place = reader.place();
      const auto data = reader.next();
      if (!data) error = data.error();
      if (!data || !*data) break;
      const auto frame = parse_wod_frame(**data, place);
      if (!frame) {
        error = frame.error();
        break;
      }
      ++good;
    }
    EXPECT_EQ(good, c.at("records_before_error").to_number<int64_t>()) << name;
    EXPECT_EQ(error.has_value(), !c.at("error").is_null()) << name;
    if (!error) continue;
    ++errors;
    EXPECT_EQ(error->kind, ErrorKind::kBadInput);
    EXPECT_EQ(begin, c.at("error_offset").to_number<uint64_t>()) << name;
    EXPECT_NE(error->message.find(phrase_of(text(c.at("error")))), std::string::npos) << error->message;
    EXPECT_TRUE(error->message.starts_with(fmt::format("{}: record {} at byte {}: expected", name, good, begin))) << error->message;
  }
  EXPECT_GE(errors, 14);
}

void expect_floats(const json::value& want, const std::vector<float>& got, std::string_view what) {
  ASSERT_EQ(want.as_array().size(), got.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(static_cast<float>(want.as_array()[i].to_number<double>()), got[i]) << what << i;
}

void expect_states(const json::value& want, const WodStates& got) {
  if (want.is_null()) {
    EXPECT_TRUE(got.x.empty());
    return;
  }
  const json::object& o = want.as_object();
  const std::pair<const char*, const std::vector<float>*> rows[] = {{"pos_x", &got.x},   {"pos_y", &got.y},  {"pos_z", &got.z},
                                                                    {"vel_x", &got.vx},  {"vel_y", &got.vy}, {"accel_x", &got.ax},
                                                                    {"accel_y", &got.ay}};
  for (const auto& [key, values] : rows)
    if (const json::value* v = o.if_contains(key)) expect_floats(*v, *values, key);
  if (const json::value* score = o.if_contains("score")) {
    EXPECT_EQ(static_cast<float>(score->to_number<double>()), got.preference_score);
  }
}

TEST(WodE2e, FramesHoldWhatTheOracleReads) {
  const auto want = read_json(kFixtures / "wod" / "frames.json");
  const auto map = MappedFile::open(kFixtures / "wod" / "frames.tfrecord");
  ASSERT_TRUE(want && map);
  TfRecordReader reader(map->bytes(), "frames");
  static constexpr std::array<std::string_view, 4> kIntents = {"UNKNOWN", "GO_STRAIGHT", "GO_LEFT", "GO_RIGHT"};
  for (const json::value& w : want->at("frames").as_array()) {
    const auto data = reader.next();
    ASSERT_TRUE(data && *data);
    const auto f = parse_wod_frame(**data, "frame");
    ASSERT_TRUE(f) << f.error().message;
    EXPECT_EQ(f->name, text(w.at("name")));
    EXPECT_EQ(f->timestamp_us, w.at("timestamp_micros").to_number<int64_t>());
    EXPECT_EQ(kIntents[static_cast<size_t>(f->intent)], text(w.at("intent")));
    expect_states(w.at("past"), f->past);
    expect_states(w.at("future"), f->future);
    const json::array& raters = w.at("preferences").as_array();
    ASSERT_EQ(f->preferences.size(), raters.size());
    for (size_t i = 0; i < raters.size(); ++i) expect_states(raters[i], f->preferences[i]);
    const json::array& images = w.at("images").as_array();
    ASSERT_EQ(f->images.size(), images.size());
    for (size_t i = 0; i < images.size(); ++i) {
      EXPECT_EQ(f->images[i].camera, images[i].at("camera").to_number<int64_t>());
      EXPECT_EQ(sha256_hex(f->images[i].jpeg), text(images[i].at("sha256")));
    }
    const json::array& cameras = w.at("cameras").as_array();
    ASSERT_EQ(f->calibrations.size(), cameras.size());
    for (size_t i = 0; i < cameras.size(); ++i) {
      EXPECT_EQ(f->calibrations[i].width, cameras[i].at("width").to_number<int64_t>());
      ASSERT_EQ(f->calibrations[i].extrinsic.size(), 16U);
      for (size_t k = 0; k < 16; ++k)  // JSON is read within an ulp
        EXPECT_NEAR(f->calibrations[i].extrinsic[k], cameras[i].at("extrinsic").as_array()[k].to_number<double>(), 1e-12);
    }
  }
}

TEST(WodE2e, UnusualEncodingsAreRead) {
  const auto map = MappedFile::open(kFixtures / "wod" / "unusual.tfrecord");
  ASSERT_TRUE(map);
  TfRecordReader reader(map->bytes(), "unusual");
  const auto data = reader.next();
  ASSERT_TRUE(data && *data);
  const auto f = parse_wod_frame(**data, "unusual");
  ASSERT_TRUE(f) << f.error().message;
  EXPECT_EQ(f->intent, 3);
  EXPECT_EQ(f->past.x, (std::vector<float>{1.5F, -2.5F}));
  EXPECT_EQ(f->past.y, (std::vector<float>{0.5F, -0.25F}));
}

TEST(WodE2e, ASubmissionIsTheOraclesBytes) {
  const auto want = read_json(kFixtures / "wod" / "submission.json");
  ASSERT_TRUE(want);
  WodSubmission s;
  for (const json::value& p : want->at("predictions").as_array()) {
    WodPrediction& out = s.predictions.emplace_back();
    out.frame = text(p.at("frame_name"));
    for (const json::value& v : p.at("pos_x").as_array()) out.x.push_back(static_cast<float>(v.to_number<double>()));
    for (const json::value& v : p.at("pos_y").as_array()) out.y.push_back(static_cast<float>(v.to_number<double>()));
  }
  s.account_name = text(want->at("account_name"));
  s.method_name = text(want->at("unique_method_name"));
  for (const json::value& a : want->at("authors").as_array()) s.authors.emplace_back(text(a));
  s.parameters = text(want->at("num_model_parameters"));
  for (const json::value& m : want->at("public_model_names").as_array()) s.pretraining.emplace_back(text(m));
  EXPECT_EQ(wod_submission(s), unhex(text(want->at("hex"))));
}

/// One record's framing around its data.
void append_tfrecord(std::string& file, std::string_view data) {
  const uint64_t length = data.size();
  const uint32_t length_sum = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  const uint32_t data_sum = masked_crc32c(std::as_bytes(std::span(data)));
  file.append(reinterpret_cast<const char*>(&length), sizeof length);
  file.append(reinterpret_cast<const char*>(&length_sum), sizeof length_sum);
  file.append(data);
  file.append(reinterpret_cast<const char*>(&data_sum), sizeof data_sum);
}

TEST(WodE2e, ATfRecordIsReadAgain) {
  std::string file;
  append_tfrecord(file, "one");
  append_tfrecord(file, "");
  TfRecordReader reader(bytes_of_text(file), "made");
  for (const std::string_view want : {"one", ""}) {
    const auto got = reader.next();
    ASSERT_TRUE(got && *got) << (got ? "end" : got.error().message);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>((*got)->data()), (*got)->size()), want);
  }
  EXPECT_FALSE(*reader.next());
}

void expect_pose(const json::value& want, const Pose& got, const std::string& where) {
  EXPECT_NEAR(want.as_array()[0].to_number<double>(), got.x, 1e-6) << where;
  EXPECT_NEAR(want.as_array()[1].to_number<double>(), got.y, 1e-6) << where;
  EXPECT_NEAR(want.as_array()[2].to_number<double>(), got.yaw_rad, 1e-6) << where;
}

using Six = NuscenesL2::Six;

void check_sample(const json::value& want, const NuScenesSample& got, NuscenesL2& l2) {
  const std::string where = got.token;
  EXPECT_EQ(text(want.at("sample")), got.token);
  EXPECT_EQ(want.at("timestamp").to_number<int64_t>(), got.timestamp_us);
  for (const auto& [channel, file] : want.at("files").as_object())
    EXPECT_EQ(got.files.at(std::string(channel)), text(file)) << where;
  const json::array &past = want.at("past_xy_yaw").as_array(), &future = want.at("future_xy_yaw").as_array();
  ASSERT_EQ(past.size(), got.past.size()) << where;
  ASSERT_EQ(future.size(), got.future.size()) << where;
  for (size_t i = 0; i < past.size(); ++i) expect_pose(past[i], got.past[i], where);
  for (size_t i = 0; i < future.size(); ++i) expect_pose(future[i], got.future[i], where);
  const json::array& boxes = want.at("boxes").as_array();
  ASSERT_EQ(boxes.size(), got.boxes.size()) << where;
  for (const json::value& b : boxes) {
    const auto at = std::find_if(got.boxes.begin(), got.boxes.end(),
                                 [&](const NuScenesBox& g) { return g.instance == text(b.at("instance")); });
    ASSERT_NE(at, got.boxes.end()) << where;
    EXPECT_EQ(at->category, text(b.at("category")));
    expect_pose(b.at("xy_yaw"), at->pose, where);
  }
  Six plan{}, truth{};
  std::array<bool, 6> mask{};
  for (size_t i = 0; i < 6; ++i) {  // the last step again and again
    if (!got.past.empty())
      plan[i] = {-got.past.back().x * static_cast<double>(i + 1), -got.past.back().y * static_cast<double>(i + 1)};
    if ((mask[i] = i < got.future.size())) truth[i] = {got.future[i].x, got.future[i].y};
  }
  l2.add(plan, truth, mask);
}

TEST(NuScenes, SamplesAreWhatTheOracleComputes) {
  const auto want = read_json(kFixtures / "nuscenes" / "expected.json");
  const auto got = read_nuscenes(kFixtures / "nuscenes" / "v1.0-tiny");
  ASSERT_TRUE(want && got) << (got ? "" : got.error().message);
  for (const json::value& w : want->at("scenes").as_array()) {
    const auto at = std::find_if(got->begin(), got->end(), [&](const NuScenesScene& s) { return s.name == text(w.at("scene")); });
    ASSERT_NE(at, got->end());
    const json::array& samples = w.at("samples").as_array();
    ASSERT_EQ(samples.size(), at->samples.size());
    NuscenesL2 l2;
    for (size_t i = 0; i < samples.size(); ++i) check_sample(samples[i], at->samples[i], l2);
    const json::object& means = w.at("l2").as_object();
    for (size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(means.at("uniad").as_array()[k].to_number<double>(), l2.uniad().at_1s_2s_3s[k], 1e-6);
    EXPECT_EQ(means.at("samples_with_full_future").to_number<int64_t>(), l2.stp3().samples);
    if (!means.at("stp3_mean").is_null()) {
      EXPECT_NEAR(means.at("stp3_mean").to_number<double>(), l2.stp3().average, 1e-6);
    }
  }
}

/// Differences of two times are taken: of any two integers they would overflow.
TEST(NuScenes, TimesAreMicrosecondsOfOurEra) {
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("nuscenes_times_{}", getpid());
  for (const char* table : {"sample", "sample_data"})
    for (const int64_t time : {std::numeric_limits<int64_t>::min(), int64_t{-1}, (int64_t{1} << 53) + 1}) {
      fs::remove_all(folder);
      fs::copy(kFixtures / "nuscenes" / "v1.0-tiny", folder);
      const fs::path file = folder / fmt::format("{}.json", table);
      auto rows = read_json(file);
      ASSERT_TRUE(rows) << rows.error().message;
      for (json::value& row : rows->as_array()) row.as_object()["timestamp"] = time;
      fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
      std::ofstream(file) << *rows;
      const auto got = read_nuscenes(folder);
      ASSERT_FALSE(got) << table << " " << time;
      EXPECT_NE(got.error().message.find(fmt::format("{}.json: timestamp: expected 0 to", table)), std::string::npos)
          << got.error().message;
    }
  fs::remove_all(folder);
}

TEST(NuScenes, AMissingTableIsNamed) {
  const auto got = read_nuscenes(kFixtures / "wod");
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("scene.json"), std::string::npos) << got.error().message;
}

struct ReadMcap {
  std::vector<McapMessage> messages;
  std::optional<Error> error;
};

ReadMcap read_all(McapReader& reader) {
  ReadMcap out;
  for (;;) {
    auto m = reader.next();
    if (!m) out.error = m.error();
    if (!m || !*m) return out;
    out.messages.push_back(**m);
  }
}

std::string_view mcap_phrase(std::string_view kind) {
  return kind == "magic"       ? "expected an MCAP file"
         : kind == "truncated" ? "a file that ends after"
                               : "expected the CRC-32 of its records";
}

TEST(Mcap, EveryFileGivesItsMessagesAndThenItsError) {
  const auto files = read_json(kFixtures / "mcap" / "files.json");
  ASSERT_TRUE(files);
  for (const json::value& c : files->at("cases").as_array()) {
    const std::string name(text(c.at("file")));
    const auto map = MappedFile::open(kFixtures / "mcap" / name);
    ASSERT_TRUE(map);
    McapReader reader(map->bytes(), name);
    const ReadMcap got = read_all(reader);
    EXPECT_EQ(static_cast<int64_t>(got.messages.size()), c.at("messages").to_number<int64_t>()) << name;
    EXPECT_EQ(got.error.has_value(), !c.at("error").is_null()) << name << (got.error ? got.error->message : "");
    if (got.error && !c.at("error").is_null()) {
      EXPECT_NE(got.error->message.find(mcap_phrase(text(c.at("error")))), std::string::npos) << got.error->message;
      EXPECT_EQ(got.error->kind, ErrorKind::kBadInput);
    }
  }
}

TEST(Mcap, MessagesOfADriveAreTheOracles) {
  const auto want = read_json(kFixtures / "mcap" / "drive.json");
  const auto map = MappedFile::open(kFixtures / "mcap" / "drive.mcap");
  ASSERT_TRUE(want && map);
  McapReader reader(map->bytes(), "drive");
  const ReadMcap got = read_all(reader);
  const json::array& file_order = want->at("file_order").as_array();
  ASSERT_EQ(got.messages.size(), file_order.size());
  for (size_t i = 0; i < file_order.size(); ++i) {
    const McapMessage& m = got.messages[i];
    EXPECT_EQ(reader.channel(m.channel_id).topic, text(file_order[i].at("topic")));
    EXPECT_EQ(reader.channel(m.channel_id).encoding, text(file_order[i].at("encoding")));
    EXPECT_EQ(m.sequence, file_order[i].at("sequence").to_number<uint32_t>());
    EXPECT_EQ(std::to_string(m.log_time_ns), text(file_order[i].at("log_time")));
    EXPECT_EQ(std::to_string(m.publish_time_ns), text(file_order[i].at("publish_time")));
    EXPECT_EQ(sha256_hex(m.data), text(file_order[i].at("sha256")));
  }
  EXPECT_EQ(reader.library(), "oracle");
  ASSERT_EQ(reader.attachments().size(), 1U);
  EXPECT_EQ(reader.attachments()[0].name, text(want->at("attachment").at("name")));
  EXPECT_EQ(reader.metadata().at("vehicle").at("wheelbase"), "2.9");
}

TEST(Mcap, WhatIsWrittenIsReadAgain) {
  McapWriter w("test");
  const uint16_t a = w.add_channel(
      {.topic = "/a", .encoding = "json", .schema = "A", .schema_encoding = "jsonschema", .metadata = {{"k", "v"}}}, "{}");
  const uint16_t b = w.add_channel({.topic = "/b", .encoding = "raw", .schema = {}, .schema_encoding = {}, .metadata = {}}, "");
  std::string file;
  for (uint64_t i = 0; i < 20; ++i) {
    w.add(i % 3 == 0 ? b : a, 1000 - i, std::string(600'000, static_cast<char>('a' + i)));  // several chunks
    file += w.take();
  }
  file += w.finish();
  McapReader reader(bytes_of_text(file), "made");
  const ReadMcap got = read_all(reader);
  ASSERT_FALSE(got.error) << got.error->message;
  ASSERT_EQ(got.messages.size(), 20U);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(got.messages[i].log_time_ns, 1000 - i);
    EXPECT_EQ(got.messages[i].data.size(), 600'000U);
    EXPECT_EQ(static_cast<char>(got.messages[i].data[0]), static_cast<char>('a' + i));
  }
  EXPECT_EQ(reader.channel(a).schema, "A");
  EXPECT_EQ(reader.channel(a).metadata.at("k"), "v");
  EXPECT_EQ(reader.channel(b).topic, "/b");
}

json::value as_json(const Conversation& c) {
  json::array turns;
  for (const ConversationTurn& t : c.turns) {
    json::array content;
    for (const auto& item : t.content)
      if (const auto* s = std::get_if<std::string>(&item))
        content.push_back(json::object{{"type", "text"}, {"text", *s}});
      else
        content.push_back(json::object{{"type", "image"}, {"path", std::get<ConversationImage>(item).path}});
    turns.push_back(json::object{{"role", t.role}, {"content", std::move(content)}});
  }
  return json::object{{"id", c.id}, {"turns", std::move(turns)}};
}

TEST(Conversations, GoodLinesGiveTheOraclesRecords) {
  const auto want = read_json(kFixtures / "conversation" / "good.json");
  ASSERT_TRUE(want);
  json::array got;
  std::vector<std::string> places;
  const Status s = each_conversation(kFixtures / "conversation" / "good.jsonl",
                                     [&](const Conversation& c, std::string_view where, int64_t) -> Status {
                                       got.push_back(as_json(c));
                                       places.emplace_back(where);
                                       return {};
                                     });
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(json::serialize(got), json::serialize(want->at("records")));
  const json::array& lines = want->at("lines").as_array();
  ASSERT_EQ(places.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_TRUE(places[i].ends_with(fmt::format("good.jsonl: line {}", lines[i].to_number<int>()))) << places[i];
}

std::string_view conversation_phrase(std::string_view kind) {
  if (kind == "role") return "expected a role of";
  if (kind == "order") return "by the ";
  if (kind == "image_count") return "expected as many <image> as there are pictures";
  if (kind == "image_file") return "expected an image file";
  return "expected";
}

TEST(Conversations, ABadLineIsNamedWithWhatIsWrong) {
  const auto cases = read_json(kFixtures / "conversation" / "bad.json");
  ASSERT_TRUE(cases);
  const fs::path out = fs::temp_directory_path() / fmt::format("slip-conversations-{}", ::getpid());
  for (const json::value& c : cases->at("cases").as_array()) {
    const std::string name(text(c.at("file")));
    fs::remove_all(out);
    auto writer = ConversationSetWriter::create(out);
    ASSERT_TRUE(writer);
    const Status s = each_conversation(
        kFixtures / "conversation" / name,
        [&](const Conversation& r, std::string_view where, int64_t) { return writer->add(r, kFixtures / "conversation", where); });
    ASSERT_FALSE(s) << name;
    EXPECT_EQ(s.error().kind, ErrorKind::kBadInput) << name;
    EXPECT_NE(s.error().message.find(fmt::format("{}: line {}", name, c.at("line").to_number<int>())), std::string::npos)
        << s.error().message;
    EXPECT_NE(s.error().message.find(conversation_phrase(text(c.at("error")))), std::string::npos) << s.error().message;
  }
  fs::remove_all(out);
}

std::string npy(std::string_view header, std::string_view data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto n = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&n), 2).append(header).append(data);
  return out;
}

TEST(Npy, IsReadOrRefused) {
  const std::array<double, 4> numbers = {1, 2, 3, 4};
  const std::string_view data(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  const auto good = read_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n", data), "a");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(good->values.back(), 4);
  for (const char* header :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }", "{", ""})
    EXPECT_FALSE(read_npy(npy(header, data), "a")) << header;
}

}  // namespace
}  // namespace slip
