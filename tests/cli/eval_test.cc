// SPDX-License-Identifier: Apache-2.0
// What `eval` promises where something is wrong: before the first record what can be known then, and afterwards no number is lost.
#include <algorithm>

#include "base/file.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

class Eval : public Demo {
 protected:
  Words eval(std::initializer_list<std::string> more, const char* count = "1") const {
    Words out{"eval", "--model", model_, "--count", count};
    out.insert(out.end(), more);
    return out;
  }
  /// The one document on stdout, which holds the numbers and what stderr says.
  json::value failed(Words arguments, int code) {
    arguments.emplace_back("--json");
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, code) << ran.err;
    const auto v = parse_json(ran.out, "stdout");
    EXPECT_TRUE(v) << v.error().message << "\n" << ran.out;
    if (!v) return {};
    EXPECT_EQ(missing_keys(*v, {"records", "macro_f1", "decoder", "model", "error"}), "");
    EXPECT_EQ(missing_keys(v->at("error"), {"kind", "exit_code", "message"}), "");
    EXPECT_EQ(v->at("error").at("exit_code").as_int64(), code);
    const std::string message(v->at("error").at("message").as_string());
    EXPECT_TRUE(ran.err.ends_with("slipstream: " + message + "\n")) << ran.err;
    return *v;
  }
};

TEST_F(Eval, RefusesBeforeTheFirstRecordWhatCanBeKnownThen) {
  const char* days = "100000";  // of records: whoever begins with them does not come back in time
  refused(eval({"--out", "/dev/null/lines.jsonl"}, days), 3, "/dev/null/lines.jsonl");
  refused(eval({"--calibrate", "/dev/null/width.json"}, days), 3, "/dev/null/width.json");
  refused(eval({"--calibrate", path("width.json"), "--decoder", "scaffold-ar"}, days), 2, "expected a decoder that drafts");
  for (const char* limits : {"[]", R"({"macro_f1": 0.5})", R"({"macro_f1": {}})", R"({"macro_f1": {"above": 1}})"}) {
    SCOPED_TRACE(limits);
    refused(eval({"--require", write("limits.json", limits)}, days), 3, "limits.json");
  }
  const std::string limits = write("limits.json", R"({"vaild": {"min": 1}})");
  refused(eval({"--require", limits}, days), 3, "got vaild (did you mean valid?)");
  refused(eval({"--require", write("limits.json", R"({"valid": {"min": 1}})"), "--decoders", "ar"}, days), 3,
          "by_decoder.NAME.valid");
  refused(eval({"--calibrate", path("width.json"), "--resume", "--out", path("lines.jsonl")}, days), 2, "got --resume");
  refused(eval({"--calibrate", path("width.json"), "--shard", "0/2"}, days), 2, "got --shard");
  EXPECT_FALSE(fs::exists(path("width.json")));
}

// The first decoder's first prompt runs whole, and so does the next one's: rows that one left are not the other's gain.
TEST_F(Eval, ADecodersRowsDoNotGoByItsPlaceAmongTheOthers) {
  const auto rows = [&](const std::string& decoders, const char* decoder) {
    return run_json(eval({"--decoders", decoders}, "2")).at("by_decoder").at(decoder).at("measures").at("rows");
  };
  const json::value first = rows("scaffold-ar,ar", "ar"), second = rows("ar,scaffold-ar", "ar");
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, run_json(eval({"--decoder", "ar"}, "2")).at("measures").at("rows")) << "as alone";
}

TEST_F(Eval, WritesOverNothingThatItReads) {
  const std::string text = R"({"macro_f1": {"min": 0.1}})", limits = write("limits.json", text), link = path("link.json");
  fs::create_hard_link(limits, link);
  const auto kept = [&](Words words, std::string_view writes, std::string_view reads) {
    refused(std::move(words), 2, fmt::format("{}: expected another place to write than what {} reads", writes, reads));
    EXPECT_EQ(*read_file(limits), text);
  };
  kept(eval({"--require", limits, "--out", limits}), "--out", "--require");
  kept(eval({"--require", limits, "--csv", path("./limits.json")}), "--csv", "--require");
  kept(eval({"--require", limits, "--out", link}), "--out", "--require");
  kept(eval({"--decoder", "scaffold-spec", "--width", "measured:" + limits, "--csv", limits}), "--csv", "--width");
  kept({"eval", "--merge", limits, "--csv", limits}, "--csv", "--merge");
  kept({"import", "mcap", limits, "--out", limits}, "--out", "SOURCE");
  kept({"export", "wod-submission", "--records", path("set"), "--answers", limits, "--account", "a@b.org", "--method", "m", "--out",
        limits},
       "--out", "--answers");
  kept({"import", "nuscenes", path("."), "--out", path("")}, "--out", "SOURCE");
}

TEST_F(Eval, AMissedLimitStandsInTheOneDocument) {
  const json::value v = failed(eval({"--require", write("limits.json", R"({"macro_f1": {"min": 1.5}})")}), 6);
  EXPECT_EQ(v.at("error").at("kind"), "check_failed");
  EXPECT_EQ(v.at("records").as_int64(), 1);
}

TEST_F(Eval, AnUnknownPathAmongTheLimitsCostsNoNumbers) {
  const json::value v = failed(eval({"--require", write("limits.json", R"({"measures.beauty": {"min": 1}})")}), 3);
  EXPECT_EQ(v.at("error").at("kind"), "bad_input");
}

// A record set is an input: whatever is written stands elsewhere.
TEST_F(Eval, NothingIsWrittenIntoTheRecordSet) {
  const std::string set = path("set");
  ASSERT_EQ(run({"simulate", "--seed", "1", "--count", "1", "--out", set}).code, 0);
  const auto shard = read_file(set + "/shard-00000.slip");
  ASSERT_TRUE(shard);
  for (const char* option : {"--out", "--csv", "--calibrate"})
    refused(eval({"--records", set, option, set + "/shard-00000.slip"}), 2, "outside of the record set");
  refused({"export", "mcap", "--records", set, "--out", set + "/../set/index.json"}, 2, "outside of the record set");
  EXPECT_EQ(*read_file(set + "/shard-00000.slip"), *shard);
  refused(eval({"--records", set, "--seed", "7"}), 2, "--seed");
  const auto index = read_file(set + "/index.json");
  ASSERT_TRUE(index);
  ASSERT_TRUE(write_file(set + "/index.json", R"({"format": "slipstream-records", "version": 1, "records": 0, "shards": []})"));
  refused(eval({"--records", set}), 3, "");
}

// Lines are kept as they are done: where one cannot be, the rest would have to be answered again.
TEST_F(Eval, ARunToResumeEndsWithTheLineThatFindsNoRoom) {
  const Ran ran = run(eval({"--resume", "--out", "/dev/full", "--json"}, "100000"));
  EXPECT_EQ(ran.code, 5) << ran.err;
}

TEST_F(Eval, TooFewDraftsForACalibrationCostNoNumbers) {
  const std::string lines = path("lines.jsonl"), width = path("width.json");
  const json::value v = failed(eval({"--calibrate", width, "--out", lines}), 3);
  EXPECT_NE(std::string(v.at("error").at("message").as_string()).find("at least 200 tested drafts"), std::string::npos);
  const std::string kept = read_bytes(lines);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 1);
  EXPECT_FALSE(fs::exists(width));
  const Ran words = run(eval({"--calibrate", width}));
  EXPECT_EQ(words.code, 3) << words.err;
  EXPECT_NE(words.out.find("records 1 "), std::string::npos) << words.out;
}

// A study keeps its evaluations. One that was changed, or whose checkpoint was, must not take them for its own.
TEST_F(Eval, AStudyRefusesTheEvaluationsOfAnother) {
  fs::copy(model_, path("model"), fs::copy_options::recursive);
  const auto study = [&](const char* decoder, int seed) {
    return write("study.json",
                 fmt::format(R"({{"name": "s", "seeds": [1], "arms": [{{"name": "a", "checkpoint": "{}"}}], "out": "{}",
      "modes": [{{"name": "m", "decoder": "{}", "count": 1, "seed": {}}}], "columns": ["m:forwards_per_answer"]}})",
                             path("model"), path("study"), decoder, seed));
  };
  const Ran first = run({"study", study("ar", 900000000), "--json"}), again = run({"study", study("ar", 900000000), "--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(first.out, again.out);
  refused({"study", study("scaffold-ar", 900000000)}, 3, "eval-m.json: decoder: expected");
  refused({"study", study("ar", 900000001)}, 3, "eval-m.json: seed: expected");
  write_bytes(path("model/generation_config.json"), "{}");
  refused({"study", study("ar", 900000000)}, 3, "eval-m.json: weights: expected");
}

// The index of another record set of as many records may be the same: the shards tell. And what the decoder names counts, be it one file.
TEST_F(Eval, AStudyRefusesTheEvaluationsOfOtherRecordsAndFiles) {
  const std::string set = path("set"), other = path("other"), width = path("width.json");
  for (const auto& [seed, out] : {std::pair{"1", set}, {"2", other}})
    ASSERT_EQ(run({"simulate", "--seed", seed, "--count", "1", "--out", out}).code, 0);
  fs::copy_file(model_ + "/width.json", width);
  const Words study{"study", write("study.json", fmt::format(R"({{"name": "s", "seeds": [1], "out": "{}",
      "arms": [{{"name": "a", "checkpoint": "{}"}}], "columns": ["m:forwards_per_answer"],
      "modes": [{{"name": "m", "decoder": "scaffold-spec", "width": "measured:{}", "records": "{}", "count": 1}}]}})",
                                                             path("study"), model_, width, set))};
  const Ran first = run(study), again = run(study);
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(again.code, 0) << again.err;
  const std::string calibrated = read_bytes(width);
  write_bytes(width, calibrated + "\n");
  refused(study, 3, "eval-m.json: parts: expected");
  write_bytes(width, calibrated);
  fs::copy_file(other + "/shard-00000.slip", set + "/shard-00000.slip", fs::copy_options::overwrite_existing);
  refused(study, 3, "eval-m.json: records: expected");
}

TEST_F(Eval, LinesOfOtherRecordsAndFilesAreNotGoneOnWith) {
  const std::string set = path("set"), other = path("other"), width = path("width.json");
  for (const auto& [seed, out] : {std::pair{"1", set}, {"2", other}})
    ASSERT_EQ(run({"simulate", "--seed", seed, "--count", "1", "--out", out}).code, 0);
  fs::copy_file(model_ + "/width.json", width);
  const Words words = eval(
      {"--records", set, "--decoder", "scaffold-spec", "--width", "measured:" + width, "--out", path("lines.jsonl"), "--resume"});
  ASSERT_EQ(run(words).code, 0);
  const std::string calibrated = read_bytes(width);
  write_bytes(width, calibrated + "\n");
  refused(words, 3, "parts: expected a line that was asked for with");
  write_bytes(width, calibrated);
  fs::copy_file(other + "/shard-00000.slip", set + "/shard-00000.slip", fs::copy_options::overwrite_existing);
  refused(words, 3, "records: expected a line that was asked for with");
}

}  // namespace
}  // namespace slip::test
