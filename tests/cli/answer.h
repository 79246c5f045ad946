// SPDX-License-Identifier: Apache-2.0
// What answers of the command line promise, and the two models that tests ask: Small, a fixture of 28 kB with a form of its alphabet,
// and Demo, the trained driving model of the tree.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/process.h"

namespace slip::test {

inline constexpr const char* kSmallForm = R"({"type": "object", "properties": {
  "light": {"enum": ["red", "green"]},
  "lead": {"enum": ["car", "van", "bus"]},
  "speed": {"type": "string", "x-content": {"type": "number", "x-format": "+00.0"}}}})";

/// The keys that every result object has, and what must hold among its numbers.
void expect_result_keys(const json::value& v, bool with_form);
/// The answer is the form wod-e2e filled in: a JSON document with its keys, words and number format.
void expect_driving_answer(const json::value& v);
/// A line of `bench decoders --json`.
void expect_bench_line(const json::value& v);
bool one_of(const json::value& v, std::initializer_list<std::string_view> words);
/// The JSON documents of a command that prints one per line.
std::vector<json::value> lines_of(const Ran& ran);

using Words = std::vector<std::string>;
Words joined(Words a, const Words& b);

class Small : public Cli {
 protected:
  Words over(const Words& more) { return joined(over_form({}), more); }
  std::vector<std::string> request(std::initializer_list<std::string> more,
                                   const std::string& model = fixture("decode/models/small")) {
    std::vector<std::string> out{"run", "--model", model, "--prompt", "go on"};
    out.insert(out.end(), more);
    return out;
  }
  std::vector<std::string> over_form(std::initializer_list<std::string> more) {
    std::vector<std::string> out = request({"--form", write("form.json", kSmallForm)});
    out.insert(out.end(), more);
    return out;
  }
  const std::string small_ = fixture("decode/models/small");
};

class Demo : public Cli {
 protected:
  void SetUp() override {
    model_ = demo_model();
    ASSERT_TRUE(fs::exists(fs::path(model_) / "model.safetensors")) << "the tree ships " << model_;
  }
  std::string simulate(int count) {
    EXPECT_EQ(run({"simulate", "--seed", "910000001", "--count", std::to_string(count), "--out", path("set")}).code, 0);
    return path("set");
  }
  std::vector<std::string> ask(std::initializer_list<std::string> more) const {
    std::vector<std::string> out{"run", "--model", model_};
    out.insert(out.end(), more);
    return out;
  }
  std::string model_;
};

}  // namespace slip::test
