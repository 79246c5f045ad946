// SPDX-License-Identifier: Apache-2.0
// What a method names beside the model: draft lengths of the folder and by name, and what a second model's steps cost.
#include "engine/resources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/file.h"
#include "base/folder_testing.h"
#include "core/safetensors.h"
#include "decode/draft_length/model_file.h"
#include "engine/engine.h"
#include "sim/record.h"
#include "sim/record/make.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

/// A copy of the small fixture, to put files beside.
class WidthsOfAFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("slip_resources_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::copy(kSmall, folder_, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Request text(Method method) {
    Request r;
    r.form.clear();
    r.prompt = "go on";
    r.method = std::move(method);
    r.decode.limit = 12;
    return r;
  }
  static Method measured(std::string_view preset, const std::string& file) {
    Method m = *method_of(preset);
    m.draft_length = {.kind = DraftLengthSpec::Kind::kMeasured, .tokens = 8, .name = file};
    return m;
  }
  static constexpr const char* kSmall = SLIP_FIXTURES "/decode/models/small";
  fs::path folder_;
};

/// A calibration for a form that the model was not trained for.
DraftLengthModel of_another_form() {
  Form::Parts p;
  p.name = "another";
  p.pieces = {FixedRun{{{3}}, 0}, FieldRef{0}};
  p.fields.push_back({.name = "a", .budget = 2});
  const Form form = *Form::make(std::move(p));
  return DraftLengthModel::uninformed(*CostTable::make({1, 8}, {1.0, 2.0}, "test"), &form);
}

TEST_F(WidthsOfAFolder, OfAnotherFormServeNobodyWhoDidNotAskForThem) {
  ASSERT_TRUE(write_draft_length_model(of_another_form(), folder_ / "width.json"));
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto slow = (*engine)->run(text(*method_of("ar")));
  ASSERT_TRUE(slow) << slow.error().message;
  const auto fast = (*engine)->run(text(measured("self-spec", "")));
  ASSERT_TRUE(fast) << fast.error().message;
  EXPECT_EQ(fast->decoded.tokens, slow->decoded.tokens);
  const auto named = (*engine)->run(text(measured("self-spec", (folder_ / "width.json").string())));
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(named.error().message.find("width.json: draft length model: expected one for free text, got one for form another"),
            std::string::npos)
      << named.error().message;
}

TEST_F(WidthsOfAFolder, KnowWhatASecondModelsStepsCost) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request = text(measured("draft-model", ""));
  request.method.drafter = ModelSpec{.name = kSmall};
  const auto prompt = (*engine)->prompt(request);
  ASSERT_TRUE(prompt) << prompt.error().message;
  Resources resources;
  DecodeContext context = request.context;
  ASSERT_TRUE(resources.attach(**engine, request, nullptr, context));
  ASSERT_TRUE(resources.attach_draft_length(**engine, request, nullptr, *prompt, context));
  EXPECT_GT(context.draft_length_model->draft.ms(1), 0) << "else its passes count as free";
  const auto slow = (*engine)->run(text(*method_of("ar"))), fast = (*engine)->run(request);
  ASSERT_TRUE(slow && fast);
  EXPECT_EQ(fast->decoded.tokens, slow->decoded.tokens);
}

/// A classifier of `vocab` logits with one layer.
Status write_pilot(const fs::path& file, int64_t vocab) {
  const std::vector<float> zeros(static_cast<size_t>(vocab), 0);
  const auto bytes = [&](size_t n) { return std::as_bytes(std::span(zeros).first(n)); };
  const std::vector<TensorToWrite> tensors{{"layers.0.weight", DType::kF32, {1, vocab}, bytes(zeros.size())},
                                           {"layers.0.bias", DType::kF32, {1}, bytes(1)},
                                           {"fc_out.weight", DType::kF32, {3, 1}, bytes(3)},
                                           {"fc_out.bias", DType::kF32, {3}, bytes(3)}};
  return write_safetensors(file, tensors);
}

TEST_F(WidthsOfAFolder, ABlockPilotOfAnotherVocabularyIsRefusedEveryTime) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  Method m = *method_of("self-spec");
  m.draft_length = {.kind = DraftLengthSpec::Kind::kBlockPilot, .tokens = 8, .name = (folder_ / "pilot.safetensors").string()};
  const Request request = text(m);
  constexpr int64_t kVocab = 64;  // the fixture's, all of them tokens
  ASSERT_TRUE(write_pilot(folder_ / "pilot.safetensors", kVocab / 2));
  for (int i = 0; i < 2; ++i) {
    const auto refused = (*engine)->run(request);
    ASSERT_FALSE(refused) << i;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(refused.error().message.find("expected a classifier that reads 64 to 64 logits"), std::string::npos)
        << refused.error().message;
  }
  ASSERT_TRUE(write_pilot(folder_ / "pilot.safetensors", kVocab));
  const auto slow = (*engine)->run(text(*method_of("ar"))), fast = (*engine)->run(request);
  ASSERT_TRUE(slow && fast) << (fast ? "" : fast.error().message);
  EXPECT_EQ(fast->decoded.tokens, slow->decoded.tokens);
}

/// Every frame of a drive brings another file: what was measured and learned stays, and nothing piles up.
TEST_F(WidthsOfAFolder, LearnFromFrameToFrameWhicheverFileAnEarlierAnswerComesFrom) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request = text(measured("self-spec", ""));
  const auto prompt = (*engine)->prompt(request);
  ASSERT_TRUE(prompt) << prompt.error().message;
  Resources resources;
  const auto tracker = [&](const DrafterSpec& drafter) -> DraftLengthTracker* {
    request.method.drafter = drafter;
    DecodeContext context = request.context;
    const Status attached = resources.attach_draft_length(**engine, request, nullptr, *prompt, context);
    EXPECT_TRUE(attached) << (attached ? "" : attached.error().message);
    return context.draft_length_tracker;
  };
  DraftLengthTracker* const first = tracker(PreviousSpec{"frame 1.json"});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(tracker(PreviousSpec{"frame 2.json"}), first);
  EXPECT_NE(tracker(PreviousSpec{"frame 2.json", DiffusionSpec{}}), first) << "another kind of drafter";
  EXPECT_NE(tracker(DiffusionSpec{}), first);
  EXPECT_EQ(tracker(PreviousSpec{"frame 3.json"}), first);
}

TEST_F(WidthsOfAFolder, EndWithARequestThatNobodyWaitsForAndGoOnWithTheNext) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  const Request request = text(measured("self-spec", ""));
  const auto prompt = (*engine)->prompt(request);
  ASSERT_TRUE(prompt) << prompt.error().message;
  Resources resources;
  DecodeContext context = request.context;
  context.cancel.set_deadline(std::chrono::steady_clock::now());
  const Status late = resources.attach_draft_length(**engine, request, nullptr, *prompt, context);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(late.error().message, "draft length: expected to finish before the deadline, got 0 measurements done");
  EXPECT_EQ(context.draft_length_model, nullptr);
  // A measurement of 200 ms by requests that wait for 20 each: every one goes on where the last had to stop.
  for (int requests = 0; !context.draft_length_model; ++requests) {
    ASSERT_LT(requests, 2000);
    context.cancel = {};
    context.cancel.set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
    const Status some = resources.attach_draft_length(**engine, request, nullptr, *prompt, context);
    ASSERT_TRUE(some || some.error().kind == ErrorKind::kCancelled) << some.error().message;
  }
  EXPECT_GT(context.draft_length_model->pass.ms(1), 0);
}

TEST_F(WidthsOfAFolder, ASecondModelsPromptEndsWithItsRequest) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request = text(*method_of("draft-model"));
  request.method.drafter = ModelSpec{.name = kSmall};
  request.context.cancel.cancel();
  Resources resources;
  DecodeContext context = request.context;
  const Status attached = resources.attach(**engine, request, nullptr, context);
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(attached.error().message, "loading: expected to finish, got cancelled after 0 MB");
  request.context.cancel = {};
  EXPECT_TRUE(resources.attach(**engine, request, nullptr, context));
}

/// A head's passes are no more free than a second model's, and it drafts no more than a block.
TEST(WidthsOfADraftHead, KnowWhatItsRoundsCost) {
  const fs::path models = fs::path(SLIP_FIXTURES) / "models";
  auto engine = Engine::load(models / "qwen3", {.dtype = "f32", .threads = 1, .slots = 512});
  ASSERT_TRUE(engine) << engine.error().message;
  Prompt prompt;
  for (const int32_t id : {11, 40, 7, 99}) {
    prompt.positions.push_back(Position::text(static_cast<int32_t>(prompt.inputs.size())));
    prompt.inputs.emplace_back(TokenId{id});
  }
  prompt.next_position = 4;
  Request request;
  request.form.clear();
  request.method = *method_of("dflash");
  request.method.drafter = DFlashSpec{(models / "qwen3_dflash").string()};
  request.method.draft_length = {.kind = DraftLengthSpec::Kind::kMeasured};
  request.decode.limit = 12;
  Resources resources;
  DecodeContext context = request.context;
  ASSERT_TRUE(resources.attach(**engine, request, nullptr, context));
  const Status attached = resources.attach_draft_length(**engine, request, nullptr, prompt, context);
  ASSERT_TRUE(attached) << attached.error().message;
  EXPECT_GT(context.draft_length_model->draft.ms(1), 0) << "else its passes count as free";
  EXPECT_EQ(context.draft_length_model->most_drafts, 7) << "blocks of 8, the anchor included";
  // Its slots behind this prompt were written: of a longer one that was kept, no more than this one's rows are left.
  Prompt longer = prompt;
  for (int32_t i = 0; i < 20; ++i) {
    longer.positions.push_back(Position::text(static_cast<int32_t>(longer.inputs.size())));
    longer.inputs.emplace_back(TokenId{50 + i});
  }
  PrefixCache memory;
  DecodeContext again = context;
  again.draft_length_model = nullptr;
  again.prefix_cache = &memory;
  const LmInfo& info = (*engine)->model().lm().info();
  memory.assign(longer, info.hidden_size, context.draft_head);
  memory.ran((*engine)->model().lm());
  ASSERT_EQ(memory.crop_to((*engine)->model().lm(), longer, context.draft_head), 24);
  EXPECT_EQ(memory.crop_to((*engine)->model().lm(), longer, nullptr), 24) << "nor does it matter to a decoder without a head";
  request.method.draft_length.name = "no such file";
  ASSERT_FALSE(resources.attach_draft_length(**engine, request, nullptr, prompt, again)) << "a file that is named must be there";
  request.method.draft_length.name.clear();
  EXPECT_EQ(memory.crop_to((*engine)->model().lm(), longer, context.draft_head), 24) << "nothing was measured";
  Request shorter = request;
  shorter.method.drafter = DFlashSpec{(models / "qwen3_dflash" / ".").string()};  // another name: measured anew
  ASSERT_TRUE(resources.attach_draft_length(**engine, shorter, nullptr, prompt, again));
  EXPECT_EQ(memory.crop_to((*engine)->model().lm(), longer, context.draft_head), 4);
  const auto fast = Decoder((*engine)->model().lm(), request.method).decode(prompt, nullptr, request.decode, context);
  ASSERT_TRUE(fast) << fast.error().message;
  const auto slow = decode((*engine)->model().lm(), prompt, nullptr, "ar", request.decode, context);
  ASSERT_TRUE(slow) << slow.error().message;
  EXPECT_EQ(fast->tokens, slow->tokens);
}

/// Two requests are under way at a time, each with a file of its own to draft from.
TEST(Resources, AnEarlierAnswerIsTheRequestsOwn) {
  auto engine = Engine::load(SLIP_SOURCE_DIR "/models/tri", {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  const test::TemporaryFolder folder;
  Resources resources;
  const auto attached = [&](const std::string& name, std::string_view tokens) {
    const std::string file = (folder.path / name).string();
    EXPECT_TRUE(write_file(file, fmt::format(R"({{"tokens": [{}]}})", tokens)));
    Request request;
    request.method = *method_of("self-spec");
    request.method.drafter = PreviousSpec{file};
    DecodeContext context;
    const Status done = resources.attach(**engine, request, nullptr, context);
    EXPECT_TRUE(done) << done.error().message;
    return context;
  };
  const DecodeContext first = attached("first.json", "5, 6, 7"), second = attached("second.json", "8");
  ASSERT_NE(first.previous, nullptr);
  EXPECT_EQ(first.previous->tokens, (std::vector<TokenId>{{5}, {6}, {7}}));
  EXPECT_EQ(second.previous->tokens, (std::vector<TokenId>{{8}}));
}

/// Asked before the first; between two of them it is the same question.
TEST(Images, AreNotEncodedForARequestThatNobodyWaitsFor) {
  auto engine = Engine::load(SLIP_SOURCE_DIR "/models/demo", {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  const sim::Record record = *sim::make_record(900000001);
  Request request;
  request.ego = ego_of(record.labels);
  request.images = camera_images(record.images);
  request.context.cancel.cancel();
  const auto cancelled = (*engine)->prompt(request);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(cancelled.error().message, "encode: expected to finish, got cancelled after 0 images");
  request.context.cancel = {};
  request.context.cancel.set_deadline(std::chrono::steady_clock::now());
  const auto late = (*engine)->prompt(request);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "encode: expected to finish before the deadline, got 0 images done");
  request.context.cancel = {};
  EXPECT_TRUE((*engine)->prompt(request));
}

}  // namespace
}  // namespace slip
