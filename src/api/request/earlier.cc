// SPDX-License-Identifier: Apache-2.0
// See earlier.h.
#include "api/request/earlier.h"

#include <algorithm>
#include <optional>

#include "api/answers.h"
#include "engine/resources.h"
#include "form/schema/values.h"
#include "text/tokenizer.h"

namespace slip::api {

namespace {

std::string name_of(const CompiledForm* form) { return form ? form->form.name() : ""; }

/// Nothing of another form.
std::optional<PreviousAnswer> of_answer(const Answer& before, const CompiledForm* form) {
  if (name_of(before.form.get()) != name_of(form)) return std::nullopt;
  return PreviousAnswer{.form = name_of(form), .fields = before.decoded.fields, .tokens = before.decoded.tokens};
}

/// Nothing of a text that is none of the form's.
std::optional<PreviousAnswer> of_text(const std::string& text, const CompiledForm* form, const Tokenizer* tokenizer) {
  if (!tokenizer) return std::nullopt;
  auto tokens = tokenizer->encode(text);
  if (!tokens) return std::nullopt;
  PreviousAnswer out{.form = name_of(form), .fields = {}, .tokens = std::move(*tokens)};
  if (!form) return out;
  auto fields = split_text(*form, text, *tokenizer);
  if (!fields) fields = split_answer(form->form, out.tokens);
  if (!fields) return std::nullopt;
  out.fields = std::move(*fields);
  return out;
}

/// An answer of another model may have more fields, or ids that this one lacks.
bool fits(const PreviousAnswer& before, const CompiledForm* form, int32_t vocab) {
  const auto known = [&](const std::vector<TokenId>& ids) {
    return std::ranges::all_of(ids, [&](TokenId id) { return id.value >= 0 && id.value < vocab; });
  };
  return (!form || before.fields.size() == form->form.fields().size()) && known(before.tokens) &&
         std::ranges::all_of(before.fields, known);
}

void lend(PreviousAnswer before, Request& request) {
  request.previous = std::make_shared<const PreviousAnswer>(std::move(before));
  request.context.previous = request.previous.get();
}

}  // namespace

bool may_draft_earlier(const slipstream::Request& asked) {
  return asked.previous_answer.empty() && asked.decoder.drafter.empty() &&
         ((asked.previous && asked.previous->impl) || !asked.prediction.empty());
}

Result<Method> with_earlier(const Method& method) { return with_parts(method, "", "previous:request", "", ""); }

Status take_earlier(const slipstream::Request& asked, Engine& engine, const CompiledForm* form, Request& request) {
  const int32_t vocab = engine.model().lm().info().vocab;
  if (!asked.previous_answer.empty()) {  // named as the drafter by decoder_of
    SLIP_TRY(PreviousAnswer before, previous_answer(asked.previous_answer, "previous_answer", form ? &form->form : nullptr, vocab));
    lend(std::move(before), request);
    return {};
  }
  if (!may_draft_earlier(asked)) return {};
  const bool answered = asked.previous && asked.previous->impl;
  std::optional<PreviousAnswer> before =
      answered ? of_answer(asked.previous->impl->answer, form) : of_text(asked.prediction, form, engine.model().tokenizer());
  if (!before || !fits(*before, form, vocab)) return {};
  auto method = with_earlier(request.method);
  if (!method) return {};
  request.method = std::move(*method);
  lend(std::move(*before), request);
  return {};
}

}  // namespace slip::api
