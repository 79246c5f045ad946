// SPDX-License-Identifier: Apache-2.0
// What a model's folder says of itself: room, type and form, the same by every door.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "api/slots.h"
#include "base/folder_testing.h"
#include "base/json.h"
#include "slipstream/engine.h"
#include "slipstream/model.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kScene = 900000017;

// A conversation needs as much room whether its texts are whole or in parts.
TEST(Slots, PartsOfMessagesCountAsTheirText) {
  const std::string folder = std::string(SLIP_SOURCE_DIR) + "/models/demo", text(50'000, 'a');
  Request whole;
  whole.form = "none";
  Request parts = whole;
  whole.messages = {{.role = "user", .text = text}};
  parts.messages = {{.role = "user", .text = "", .parts = {{.text = text.substr(0, 20'000)}, {.text = text.substr(20'000)}}}};
  const auto slots = slip::api::slots_for(whole, folder), same = slip::api::slots_for(parts, folder);
  ASSERT_TRUE(slots && same);
  EXPECT_GT(*slots, 50'000);
  EXPECT_EQ(*same, *slots);
}

// What both doors are asked, one after the other: the engine is the service's from then on.
void expect_equal_doors(const std::string& folder, const std::vector<Request>& requests) {
  auto engine = Engine::load(folder, {.threads = 2, .slots = 8192});
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<Answer> alone;
  for (const Request& r : requests) {
    auto answer = engine->answer(r);
    ASSERT_TRUE(answer) << answer.error().message;
    alone.push_back(std::move(*answer));
  }
  auto service = Service::start(std::move(*engine));
  ASSERT_TRUE(service) << service.error().message;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto answer = service->answer(requests[i]);
    ASSERT_TRUE(answer) << i << ": " << answer.error().message;
    EXPECT_EQ(answer->text, alone[i].text) << i;
    EXPECT_EQ(answer->tokens, alone[i].tokens) << i;
    EXPECT_EQ(answer->finish, alone[i].finish) << i;
    EXPECT_EQ(answer->token_log_probs(), alone[i].token_log_probs()) << i;
  }
}

std::vector<Request> with_forms(const std::string& own) {
  Request words;
  words.prompt = "go on";
  words.raw_prompt = true;
  words.max_tokens = 12;
  std::vector<Request> out(4, words);
  out[0].form = own;
  out[1].form_schema =
      R"({"title": "light", "type": "object", "properties": {"light": {"enum": ["green", "red"]}, "n": {"type": "string", "maxLength": 6}},
          "required": ["light", "n"]})";
  out[2].form = "none";
  out[2].log_probs = true;
  out[3].form = "none";
  out[3].sampling.temperature = 0.8;
  out[3].seed = 3;
  return out;
}

TEST(Types, AConfigNamesTheTypeThatAutoTakes) {
  const std::string folder = std::string(SLIP_SOURCE_DIR) + "/models/demo-cot";
  for (const auto& [asked, type] : {std::pair{"auto", "int8"}, {"bf16", "bf16"}}) {
    const auto engine = Engine::load(folder, {.dtype = asked, .threads = 1});
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_EQ(engine->info().dtype, type);
  }
}

TEST(Doors, EngineAndServiceTakeAFormByNameBySchemaAndNoneAlike) {
  const std::string folder = std::string(SLIP_SOURCE_DIR) + "/models/demo";
  std::vector<Request> requests = with_forms("wod-e2e");
  auto scene = request_of_scene(kScene);
  ASSERT_TRUE(scene);
  scene->log_probs = true;
  requests.push_back(*scene);  // "model", which stands for the folder's own
  expect_equal_doors(folder, requests);
}

TEST(Doors, AModelWithoutAFormOfItsOwnAnswersWithText) {
  namespace fs = std::filesystem;
  const slip::test::TemporaryFolder made;
  const fs::path from = fs::path(SLIP_SOURCE_DIR) / "models/demo", folder = made.path;
  for (const auto& entry : fs::directory_iterator(from))
    if (entry.is_regular_file() && entry.path().filename() != "config.json")
      fs::create_symlink(entry.path(), folder / entry.path().filename());
  std::ifstream in(from / "config.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t own = text.find("\"slipstream\"");
  ASSERT_NE(own, std::string::npos);
  text.replace(own, 12, "\"stranger\"");
  std::ofstream(folder / "config.json") << text;
  EXPECT_EQ(own_form(folder.string()), "none");
  expect_equal_doors(folder.string(), with_forms("model"));
}

/// A folder with the config.json of the fixture of OpenVLA, changed: what it is taken for can be told without weights.
std::string own_form_of(const std::filesystem::path& folder, const char* architecture, const char* text_model) {
  auto config = slip::read_json(std::filesystem::path(SLIP_FIXTURES) / "models/openvla/config.json");
  EXPECT_TRUE(config);
  config->as_object()["architectures"] = slip::json::array{architecture};
  slip::json::object& text = config->as_object()["text_config"].as_object();
  text["model_type"] = text_model;
  text["num_key_value_heads"] = text.at("num_attention_heads");
  std::ofstream(folder / "config.json") << slip::json::serialize(*config);
  return own_form(folder.string());
}

TEST(OwnForm, ModelsOfActionsAreToldFromPrismaticAndFromEachOther) {
  const slip::test::TemporaryFolder made;
  const std::string folder = made.path.string();
  Request request;
  request.prompt = "open the drawer";
  request.unnorm_key = "bridge_orig";
  EXPECT_EQ(own_form_of(made.path, "OpenVLAForActionPrediction", "llama"), "openvla-action");
  EXPECT_TRUE(check_request(request, folder));
  EXPECT_EQ(own_form_of(made.path, "OpenVLAForActionPrediction", "qwen2"), "minivla-action");
  EXPECT_TRUE(check_request(request, folder));
  EXPECT_EQ(own_form_of(made.path, "PrismaticForConditionalGeneration", "llama"), "none");
  const auto refused = check_request(request, folder);
  ASSERT_FALSE(refused) << "it has no actions to put in units";
  EXPECT_THAT(refused.error().message, HasSubstr("expected a model of actions"));
  EXPECT_EQ(own_form_of(made.path, "OpenVLAForActionPrediction", "no-such-model"), "") << "loading says why";
  EXPECT_EQ(own_form((made.path / "no such folder").string()), "");
}

}  // namespace
}  // namespace slipstream
