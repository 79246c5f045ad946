// SPDX-License-Identifier: Apache-2.0
// What a method names beside the model: widths of the folder and by name, and what a second model's steps cost.
#include "engine/resources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "decode/width_model.h"
#include "engine/engine.h"

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
    m.width = {.kind = Width::Kind::kMeasured, .tokens = 8, .name = file};
    return m;
  }
  static constexpr const char* kSmall = SLIP_FIXTURES "/decode/models/small";
  fs::path folder_;
};

/// A calibration for a form that the model was not trained for.
WidthModel of_another_form() {
  Form::Parts p;
  p.name = "another";
  p.pieces = {FixedRun{{{3}}, 0}, FieldRef{0}};
  p.fields.push_back({.name = "a", .budget = 2});
  const Form form = *Form::make(std::move(p));
  return WidthModel::uninformed(*CostTable::make({1, 8}, {1.0, 2.0}, "test"), &form);
}

TEST_F(WidthsOfAFolder, OfAnotherFormServeNobodyWhoDidNotAskForThem) {
  ASSERT_TRUE(write_width_model(of_another_form(), folder_ / "width.json"));
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
  EXPECT_NE(named.error().message.find("width.json: width model: expected one for free text, got one for form another"),
            std::string::npos)
      << named.error().message;
}

TEST_F(WidthsOfAFolder, KnowWhatASecondModelsStepsCost) {
  auto engine = Engine::load(folder_, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  Request request = text(measured("draft-model", ""));
  request.method.drafter = ModelDrafter{.name = kSmall};
  const auto prompt = (*engine)->prompt(request);
  ASSERT_TRUE(prompt) << prompt.error().message;
  Resources resources;
  DecodeOptions options = request.decode;
  ASSERT_TRUE(resources.attach(**engine, request, nullptr, options));
  ASSERT_TRUE(resources.attach_width(**engine, request, nullptr, *prompt, options));
  EXPECT_GT(options.width_model->draft.ms(1), 0) << "else its passes count as free";
  const auto slow = (*engine)->run(text(*method_of("ar"))), fast = (*engine)->run(request);
  ASSERT_TRUE(slow && fast);
  EXPECT_EQ(fast->decoded.tokens, slow->decoded.tokens);
}

}  // namespace
}  // namespace slip
