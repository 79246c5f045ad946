// SPDX-License-Identifier: Apache-2.0
// The answer of one action: what the expert did as numbers, its form in two numberings of the bins, and the options that say which.
#include "task/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/folder_testing.h"
#include "task/wod.h"

namespace slip {
namespace {

using testing::HasSubstr;

/// Four seconds at 2 m/s^2 from 3 m/s, then steady.
sim::Labels speeding_up() {
  sim::Labels l;
  l.v0_mps = 3;
  for (size_t i = 0; i < l.future.size(); ++i) l.future[i].v = 3 + 2 * std::min(0.1F * static_cast<float>(i + 1), 2.0F);
  return l;
}

TEST(Action, IsTheMeanAccelerationOfEachHalfSecond) {
  const std::vector<double> a = action_of(speeding_up(), 7);
  ASSERT_EQ(a.size(), 7u);
  for (size_t k = 0; k < 7; ++k) EXPECT_NEAR(a[k], k < 4 ? 2 : 0, 1e-5) << k;
  EXPECT_EQ(action_of(speeding_up(), kMostActionSteps).size(), 12u);
}

class ActionForms : public testing::Test {
 protected:
  static Tokenizer tokenizer(const ActionTokenizerOptions& o) {
    const test::TemporaryFolder folder;
    const Status made = make_action_tokenizer(folder.path, o);
    if (!made) throw std::runtime_error(made.error().message);
    auto t = Tokenizer::load(folder.path);
    if (!t) throw std::runtime_error(t.error().message);
    return std::move(*t);
  }
};

TEST_F(ActionForms, SayTheSameWithOtherIds) {
  ActionTokenizerOptions last{.vocab = 600, .records = 20}, first = last;
  first.bins_last = false;
  first.action.tokens = "extra";
  first.action.descending = false;
  const Tokenizer a = tokenizer(last), b = tokenizer(first);
  EXPECT_EQ(a.find("<|action_255|>"), TokenId{a.size() - 1});
  EXPECT_LT(b.find("<|extra_255|>")->value, b.find("<|im_start|>")->value);
  std::vector<std::vector<FieldValue>> values;
  for (const auto& [o, t] : {std::pair{&last, &a}, std::pair{&first, &b}}) {
    TaskOptions task;
    task.form = TaskForm::kAction;
    task.action = o->action;
    const auto form = task_form(task, {t, std::nullopt, t->size()});
    ASSERT_TRUE(form) << form.error().message;
    EXPECT_EQ(form->form.name(), "action");
    ASSERT_EQ(form->form.fields().size(), 1u);
    EXPECT_EQ(form->form.length(), 8);
    const auto truth = truth_values(speeding_up(), *form, *t);
    ASSERT_TRUE(truth) << truth.error().message;
    const auto answer = render(*form, *truth, *t);
    ASSERT_TRUE(answer) << answer.error().message;
    const auto back = parse(*form, *answer, *t);
    ASSERT_TRUE(back);
    values.push_back(*back);
    const auto& meaning = std::get<BinsMeaning>(form->meanings[0]);
    const auto bin = [&](size_t i) { return meaning.bin_of((*answer)[i]); };
    EXPECT_EQ(bin(1), 170) << "2 m/s^2 of -6 .. 6";
    EXPECT_EQ(bin(7), 127) << "nothing is the middle of a bin";
    EXPECT_EQ((*answer)[1] < (*answer)[7], o->action.descending);
  }
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(std::get<std::vector<double>>(values[0][0])[6], 0.0);
}

TEST_F(ActionForms, BrakingBeyondTheRangeIsItsEnd) {
  const ActionTokenizerOptions o{.vocab = 600, .records = 20};
  const Tokenizer t = tokenizer(o);
  TaskOptions task;
  task.form = TaskForm::kAction;
  const auto form = task_form(task, {&t, std::nullopt, t.size()});
  ASSERT_TRUE(form) << form.error().message;
  sim::Labels l;
  l.v0_mps = 9;  // and 0 after half a second: -18 m/s^2
  const auto truth = truth_values(l, *form, t);
  ASSERT_TRUE(truth);
  EXPECT_EQ(std::get<std::vector<double>>((*truth)[0])[0], -6.0);
}

TEST(ActionOptions, AreReadOrRefusedByName) {
  const auto read = [](const char* slipstream) {
    return task_options(parse_json(std::string(R"({"slipstream": )") + slipstream + "}", "c")->as_object(), "c");
  };
  const auto good = read(R"({"form": "action", "cameras": false, "action": {"tokens": "extra", "descending": false, "bins": 64}})");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->form, TaskForm::kAction);
  EXPECT_EQ(good->visibility, Visibility::kChain);
  EXPECT_FALSE(good->cameras);
  EXPECT_EQ(good->action.bins, 64);
  EXPECT_EQ(good->action.tokens, "extra");
  EXPECT_FALSE(good->action.descending);
  EXPECT_TRUE(read("{}")->cameras);
  const auto why = [&](const char* text) {
    const auto o = read(text);
    return o ? std::string("read") : o.error().message;
  };
  EXPECT_THAT(why(R"({"form": "actions"})"), HasSubstr("expected wod-e2e, drive-cot or action, got actions"));
  EXPECT_THAT(why(R"({"form": "action", "action": {"dimensions": 13}})"), HasSubstr("dimensions: expected 1 to 12, got 13"));
  EXPECT_THAT(why(R"({"form": "action", "action": {"bin": 64}})"), HasSubstr("got bin"));
  EXPECT_THAT(why(R"({"form": "action", "action": 7})"), HasSubstr("action"));
}

}  // namespace
}  // namespace slip
