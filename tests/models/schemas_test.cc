// SPDX-License-Identifier: Apache-2.0
// Schemas as people write them, answered by shipped models: the 250 of tests/fixtures/form/schemas.jsonl and those of the guide's tables, by
// every exact preset that the model runs, greedy and sampled. All presets write the same answer, and it is valid by valijson; with
// SLIP_ANSWERS it goes to tests/form/validate.py too. SLIP_EVERY: all of them, otherwise every 25th.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "decode/types/presets.h"
#include "engine/engine.h"
#include "form/schema_testing.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// `{...}` in the cells of the guide's tables.
void add_guides(std::vector<json::value>& out) {
  std::ifstream in(fs::path(SLIP_SOURCE_DIR) / "docs/guide/forms.md");
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find("`{"), end = line.find("}`", begin);
    if (!line.starts_with("| ") || begin == std::string::npos || end == std::string::npos) continue;
    auto schema = parse_json(line.substr(begin + 1, end - begin), "guide");
    if (schema) out.push_back(std::move(*schema));
  }
}

std::vector<json::value> schemas() {
  std::vector<json::value> out;
  std::ifstream in(fs::path(SLIP_SOURCE_DIR) / "tests/fixtures/form/schemas.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto entry = parse_json(line, "schemas.jsonl");
    if (entry && line.find("nullable") == std::string::npos)  // OpenAPI's word, which validators of JSON Schema pass over
      out.push_back(entry->at("schema"));
  }
  add_guides(out);
  return out;
}

class SchemasOnModels : public testing::TestWithParam<const char*> {};

TEST_P(SchemasOnModels, AllExactPresetsWriteOneValidAnswer) {
  auto engine = Engine::load(fs::path(SLIP_SOURCE_DIR) / "models" / GetParam(), {.threads = 2, .slots = 16384});
  ASSERT_TRUE(engine) << engine.error().message;
  const bool every = std::getenv("SLIP_EVERY") != nullptr;
  std::ofstream out;
  if (const char* file = std::getenv("SLIP_ANSWERS")) out.open(file, std::ios::app);
  const std::vector<json::value> all = schemas();
  ASSERT_GT(all.size(), 250U);
  int answered = 0, compared = 0, refused = 0, gave_up = 0;
  for (size_t n = 0; n < all.size(); n += every ? 1 : 25) {
    const std::string document = json::serialize(all[n]);
    Request request;
    request.prompt = "What is ahead?";
    request.form_schema = document;
    if (!(*engine)->form_of(request)) {
      ++refused;
      continue;
    }
    for (const float temperature : {0.0F, 0.9F}) {
      std::optional<std::string> text;
      for (const std::string_view preset :
           {"scaffold-ar", "ar", "scaffold-spec", "self-spec", "self-spec-quadratic", "fields", "fields-spec", "auto"}) {
        const auto method = method_of(preset);
        ASSERT_TRUE(method) << preset;
        request.method = *method;
        request.decode.temperature = temperature;
        request.decode.seed = n;
        const auto answer = (*engine)->run(request);
        if (!answer) {  // a preset that is not for this model, or more positions than it was made for
          ASSERT_EQ(answer.error().kind, ErrorKind::kUnsupported) << answer.error().message << "\n" << document;
          continue;
        }
        if (!text) {
          text = answer->text;
          continue;
        }
        ++compared;
        ASSERT_EQ(answer->text, *text) << preset << " at " << temperature << "\n" << document;
      }
      if (!text) {
        ++refused;
        continue;
      }
      ++answered;
      const auto parsed = parse_json(*text, "answer");
      ASSERT_TRUE(parsed) << *text << "\n" << document;
      EXPECT_EQ(test::why_invalid(all[n], *parsed, &gave_up), "") << *text << "\n" << document;
      if (out.is_open()) out << json::object{{"schema", all[n]}, {"answer", *text}} << "\n";
    }
  }
  printf("%s: %d answers, %d compared with another preset's, %d refused, %d on which valijson gave up\n", GetParam(), answered,
         compared, refused, gave_up);
  EXPECT_GT(answered, 3 * refused);
  EXPECT_GT(compared, 2 * answered) << "three presets at least run on each model";
  EXPECT_LT(10 * gave_up, answered);
}

INSTANTIATE_TEST_SUITE_P(Shipped, SchemasOnModels, testing::Values("demo", "demo-cot"),
                         [](const auto& info) { return std::string(info.param) == "demo" ? "chain" : "graph"; });

}  // namespace
}  // namespace slip
