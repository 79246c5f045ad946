// SPDX-License-Identifier: Apache-2.0
// `verify` and `bench` through the binary over small fixtures.
#include <map>

#include "tests/cli/answer.h"

namespace slip::test {
namespace {

TEST_F(Small, VerifyProvesEqualBytesAndHoldsGoldenValues) {
  const std::string model = copy_fixture("decode/models/small", "model");
  const json::value v = run_json({"verify", "--model", model, "--max-width", "9"});
  ASSERT_EQ(missing_keys(v, {"model", "isa", "bits", "type", "hash", "checks", "passed"}), "");
  EXPECT_TRUE(v.at("passed").as_bool());
  std::map<std::string, int64_t> bytes;
  for (const json::value& c : v.at("checks").as_array()) {
    ASSERT_EQ(missing_keys(c, {"check", "compared", "bytes", "passed"}), "");
    EXPECT_TRUE(c.at("passed").as_bool()) << json::serialize(c);
    bytes[std::string(c.at("check").as_string())] += c.at("bytes").to_number<int64_t>();
  }
  for (const char* check : {"widths", "threads", "layouts", "decoders", "free text"}) EXPECT_GT(bytes[check], 0) << check;

  const std::string bits(v.at("bits").as_string()), hash(v.at("hash").as_string());
  const auto golden = [&](const std::string& value) {
    write_bytes(model + "/golden.json", "{\"" + bits + "\": {\"f32\": \"" + value + "\"}}");
    return run({"verify", "--model", model, "--max-width", "2"});
  };
  const Ran same = golden(hash), other = golden("0123456789abcdef");
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_EQ(other.code, 6) << other.out;
  EXPECT_TRUE(other.err.starts_with("slipstream: verify: golden: ")) << other.err;
  EXPECT_NE(other.err.find("expected 0x0123456789abcdef, got 0x" + hash), std::string::npos) << other.err;
  refused({"verify", "--model", path("nowhere")}, 3, "nowhere");
}

TEST_F(Small, VerifyProvesAModelWithATower) {
  const json::value v = run_json({"verify", "--model", fixture("models/qwen2_5_vl"), "--max-width", "5"});
  EXPECT_TRUE(v.at("passed").as_bool());
  for (const json::value& c : v.at("checks").as_array()) {
    if (c.at("check").as_string() == "images") {
      EXPECT_GT(c.at("bytes").to_number<int64_t>(), 0);
    }
  }
}

TEST_F(Small, BenchForwardPutsEveryWidthBesideItsCeiling) {
  const Ran ran =
      run({"bench", "forward", "--model", fixture("models/qwen2"), "--widths", "1", "8", "64", "--seconds", "0.02", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::vector<json::value> lines = lines_of(ran);
  ASSERT_EQ(lines.size(), 3u);
  const int widths[] = {1, 8, 64};
  for (size_t i = 0; i < 3; ++i) {
    const json::value& v = lines[i];
    ASSERT_EQ(missing_keys(v, {"rows", "type", "ms", "read_gbps", "dot_gops", "ceiling_ms", "share", "bound", "fork_join_ns"}), "");
    EXPECT_EQ(v.at("rows").as_int64(), widths[i]);
    EXPECT_EQ(v.at("type").as_string(), "bf16");
    for (const char* key : {"ms", "read_gbps", "dot_gops", "ceiling_ms"}) EXPECT_GT(v.at(key).to_number<double>(), 0) << key;
    EXPECT_NEAR(v.at("share").to_number<double>(), v.at("ceiling_ms").to_number<double>() / v.at("ms").to_number<double>(), 1e-9);
    EXPECT_TRUE(one_of(v.at("bound"), {"memory", "compute"}));
  }
  EXPECT_EQ(
      run({"bench", "forward", "--model", fixture("models/qwen2"), "--widths", "4", "--seconds", "0.02", "--dtype", "int8"}).code,
      0);
  refused({"bench", "forward", "--model", path("nowhere")}, 3, "nowhere");
}

TEST_F(Small, BenchDecodersSaysWhichGaveEqualTokens) {
  const std::vector<std::string> request{"bench",     "decoders", "--model", fixture("decode/models/small"), "--prompt", "go on",
                                         "--repeats", "1",        "--json"};
  std::vector<std::string> text = request, form = request;
  text.insert(text.end(), {"--form", "none", "--max-tokens", "12"});
  form.insert(form.end(), {"--form", write("form.json", kSmallForm)});
  const Ran over_text = run(text), filled = run(form);
  EXPECT_EQ(over_text.code, 0) << over_text.err;
  EXPECT_EQ(filled.code, 0) << filled.err;
  // Presets may be joined by combinations under the same name: a decoder is all its words.
  const auto forwards_of = [](const Ran& ran) {
    std::map<std::string, int64_t> out;
    for (const json::value& v : lines_of(ran)) {
      expect_bench_line(v);
      out[json::serialize(v.at("decoder"))] = v.at("statistics").at("forwards").as_int64();
    }
    return out;
  };
  const auto in_run = [&](const json::value& v) {
    return std::pair{json::serialize(v.at("decoder")), v.at("statistics").at("forwards").as_int64()};
  };
  const auto texts = forwards_of(over_text), forms = forwards_of(filled);
  // A preset costs here what it costs in `run`.
  for (const char* preset : {"ar", "self-spec"}) {
    const auto [name, n] = in_run(run_json(Small::request({"--form", "none", "--max-tokens", "12", "--decoder", preset})));
    ASSERT_TRUE(texts.contains(name)) << name << "\n" << over_text.out;
    EXPECT_EQ(texts.at(name), n);
  }
  std::map<std::string_view, int64_t> passes;
  for (const char* preset : {"ar", "scaffold-ar", "scaffold-spec"}) {
    const auto [name, n] = in_run(run_json(over_form({"--decoder", preset})));
    ASSERT_TRUE(forms.contains(name)) << name << "\n" << filled.out;
    EXPECT_EQ(forms.at(name), n);
    passes[preset] = n;
  }
  EXPECT_GT(passes["ar"], passes["scaffold-ar"]);
}

}  // namespace
}  // namespace slip::test
