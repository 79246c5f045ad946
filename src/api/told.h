// SPDX-License-Identifier: Apache-2.0
// What a caller sees while passes run: each pass, a form's fields as they are complete, and text as it becomes certain.
#pragma once
#include <optional>
#include <vector>

#include "base/measure.h"
#include "engine/engine.h"
#include "engine/text_end.h"
#include "slipstream/answer.h"
#include "text/tokenizer.h"

namespace slip::api {

class Told {
 public:
  /// `text`: free text is told as it grows; a form's, with `form_text`, from its beginning on as far as its fields are complete.
  /// What may yet become one of `stops` is held back.
  Told(const slipstream::OnEvent& on_event, const Tokenizer* tokenizer, FormPtr form, bool text, std::vector<std::string> stops,
       bool form_text = false);
  /// The request's hooks, which point here.
  void listen(Request& request, const PlanFit& fit);
  /// What the last passes left unsaid of a text.
  void end(const Answer& answer);

 private:
  void field(int32_t index, std::span<const TokenId> content);
  void tell(int32_t index, std::span<const TokenId> content);
  void plan(int32_t index, const FieldValue& value);
  void plan(const HeadPlan& plan);
  void pass(const DecodeProgress& p);
  void prefill(int64_t done, int64_t total);
  slipstream::Event at(int64_t forwards, int64_t tokens) const;
  void text(std::span<const TokenId> tokens, const slipstream::Event& event);
  void say(const std::string& fresh, slipstream::Event event);
  bool is_missing(int32_t field) const;
  void walk();
  void push(TokenId token);

  const slipstream::OnEvent on_event_;
  const Tokenizer* tokenizer_;
  const FormPtr form_;
  int64_t forwards_ = 0, tokens_ = 0, of_fields_ = 0;  // of_fields_: tokens of those that were told
  const Clock::time_point start_ = Clock::now();
  std::optional<StreamDecoder> stream_;
  HeldText held_;
  size_t said_ = 0;  // bytes of text
  size_t seen_ = 0;
  const bool form_text_;
  bool in_order_ = false;                                  // which fields the answer has is known along its pieces alone
  std::vector<std::optional<std::vector<TokenId>>> done_;  // contents by field
  std::vector<FieldValue> plan_values_;                    // by field, of those that the plan is made of
  size_t plan_left_ = 0;                                   // of these, not complete
  std::optional<EgoInput> ego_;                            // what the fit goes by
  PlanFit fit_;
  size_t piece_ = 0;  // of the form, the next that walk() comes to
  std::string fresh_;
};

}  // namespace slip::api
