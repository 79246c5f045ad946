// SPDX-License-Identifier: Apache-2.0
// What `codebook` promises at the command line, and that a model which answers in codes is asked, evaluated and driven as any other.
#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/cli/answer.h"

namespace slip::test {
namespace {

using testing::HasSubstr;

class Codebook : public Cli {
 protected:
  /// models/demo-cot with twelve codes in rows of its vocabulary that no token used.
  std::string coded() {
    const fs::path from = fs::path(demo_model()).parent_path() / "demo-cot", to = path("coded");
    EXPECT_EQ(
        run({"codebook", "--count", "40", "--codes", "12", "--out", (to / "codebook.json").string(), "--tokenizer", from.string()})
            .code,
        0);
    fs::create_symlink(from / "model.safetensors", to / "model.safetensors");
    fs::copy_file(from / "preprocessor_config.json", to / "preprocessor_config.json");
    json::value config = *read_json(from / "config.json");
    config.at("slipstream").as_object()["codes"] = {{"count", 6}, {"values", 12}};
    write("coded/config.json", pretty(config));
    return to.string();
  }
};

TEST_F(Codebook, IsMadeOfRecordsAndTellsItsErrorOnOthers) {
  const json::value made = run_json({"codebook", "--count", "60", "--codes", "24", "--out", path("a/book.json")});
  EXPECT_EQ(made.at("codes").as_int64(), 24);
  EXPECT_EQ(made.at("length").as_int64(), 6);
  EXPECT_EQ(made.at("error_m").at("paths").as_int64(), 6) << "every tenth";
  for (const char* at : {"3s", "6.4s"}) {
    const json::value& e = made.at("error_m").at(at);
    EXPECT_GT(e.at("mean").to_number<double>(), 0.01);
    EXPECT_LE(e.at("mean").to_number<double>(), e.at("p99").to_number<double>());
    EXPECT_LE(e.at("ade_mean").to_number<double>(), e.at("ade_p99").to_number<double>());
  }
  // The same from a record set of these scenes; and again.
  ASSERT_EQ(run({"simulate", "--count", "60", "--out", path("set")}).code, 0);
  ASSERT_EQ(run({"codebook", "--records", path("set"), "--codes", "24", "--out", path("b.json")}).code, 0);
  EXPECT_EQ(*read_file(path("a/book.json")), *read_file(path("b.json")));
  const json::value other = run_json({"codebook", "--measure", path("b.json"), "--seed", "777", "--count", "12"});
  EXPECT_EQ(other.at("error_m").at("paths").as_int64(), 12);
  const Ran told = run({"codebook", "--measure", path("b.json"), "--seed", "777", "--count", "12"});
  EXPECT_THAT(told.out, HasSubstr("24 codes of 1.1 s; 6 are a trajectory of 6.4 s"));
  // More codes, less error.
  const json::value more = run_json({"codebook", "--count", "60", "--codes", "96", "--out", path("more.json")});
  EXPECT_LT(more.at("error_m").at("6.4s").at("mean").to_number<double>(),
            made.at("error_m").at("6.4s").at("mean").to_number<double>());
}

TEST_F(Codebook, IsRefusedInWords) {
  refused_in_words({"codebook"}, 2, "--out or --measure");
  refused({"codebook", "--count", "20", "--out", path("x.json"), "--length", "4"}, 2, "--length");
  refused({"codebook", "--count", "20", "--out", path("x.json"), "--codes", "1"}, 2, "--codes");
  refused({"codebook", "--count", "2", "--out", path("x.json")}, 3, "different pieces of path");
  // Of an imported record 5 s are known: codes are of 6.4 s.
  ASSERT_EQ(run({"import", "wod-e2e", fixture("import/wod/frames.tfrecord"), "--out", path("wod")}).code, 0);
  refused({"codebook", "--records", path("wod"), "--out", path("x.json")}, 3, "expected records that know 6.4 s of their future");
  refused({"codebook", "--records", path("nowhere"), "--out", path("x.json")}, 3, "nowhere");
  refused({"codebook", "--count", "2", "--measure", path("nowhere.json")}, 3, "nowhere.json");
  write("no.json", "{\"format\": \"another\"}");
  refused({"codebook", "--count", "2", "--measure", path("no.json")}, 3, "expected slipstream-codebook, got another");
  EXPECT_FALSE(fs::exists(path("x.json")));
}

TEST_F(Codebook, AModelOfCodesIsAskedEvaluatedAndDriven) {
  const std::string model = coded();
  ASSERT_EQ(run({"simulate", "--seed", "910000001", "--count", "2", "--out", path("set")}).code, 0);
  const json::value answer = run_json({"run", "--model", model, "--record", path("set") + ":0"});
  EXPECT_EQ(answer.at("fields").at("trajectory").as_array().size(), 6U);
  EXPECT_EQ(answer.at("trajectory").at("waypoints").as_array().size(), 6U);
  EXPECT_EQ(answer.at("trajectory").at("fit").at("points").as_array().size(), 25U);
  EXPECT_THAT(std::string(answer.at("answer").as_string()), HasSubstr("trajectory:<|code_"));
  const json::value slow = run_json({"run", "--model", model, "--record", path("set") + ":0", "--decoder", "ar"});
  EXPECT_EQ(slow.at("tokens"), answer.at("tokens"));
  const json::value measured = run_json({"eval", "--model", model, "--records", path("set")});
  EXPECT_GT(measured.at("all").at("model").at("ade_5s").to_number<double>(), 0);
  EXPECT_EQ(measured.at("valid").to_number<double>(), 1);
  const json::value driven =
      run_json({"drive", "--model", model, "--family", "lead_stopped", "--decoder", "fields", "--delays", "1500"});
  EXPECT_GT(driven.at("rows").at(0).at("passes").to_number<double>(), 0);
  // What was packed answers as well: the book goes along.
  ASSERT_EQ(run({"quantize", model, "--type", "bf16", "--no-compare", "--out", path("packed")}).code, 0);
  EXPECT_EQ(run_json({"run", "--model", path("packed"), "--record", path("set") + ":0"})
                .at("trajectory")
                .at("waypoints")
                .as_array()
                .size(),
            6U);
  fs::remove(fs::path(model) / "codebook.json");
  refused({"run", "--model", model, "--record", path("set") + ":0"}, 3, "expected the codebook codebook.json");
}

}  // namespace
}  // namespace slip::test
