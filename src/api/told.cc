// SPDX-License-Identifier: Apache-2.0
#include "api/told.h"

#include <algorithm>

#include "api/answers.h"

namespace slip::api {

using slipstream::Event;

Told::Told(const slipstream::OnEvent& on_event, const Tokenizer* tokenizer, FormPtr form, bool text, std::vector<std::string> stops,
           bool form_text)
    : on_event_(on_event),
      tokenizer_(tokenizer),
      form_(std::move(form)),
      held_(std::move(stops)),
      form_text_(form_text && form_ && tokenizer) {
  if (text && tokenizer) stream_.emplace(*tokenizer, true);
  if (form_) {
    plan_left_ = plan_fields(form_->form).size();
    plan_values_.resize(form_->form.fields().size());
  }
  const auto branches = [](const Field& f) { return !f.exits.empty(); };
  in_order_ = form_ && tokenizer && std::ranges::any_of(form_->form.fields(), branches);
  if (form_text_ || in_order_) done_.resize(form_->form.fields().size());
  if (form_text_) stream_.emplace(*tokenizer, false, ByteRuns::kCharacters);  // as answer_text() decodes it
}

void Told::listen(Request& request, const PlanFit& fit) {
  ego_ = request.ego;
  fit_ = fit;
  request.context.on_field = [this](int32_t index, std::span<const TokenId> content, int64_t forwards) {
    forwards_ = forwards;
    of_fields_ += static_cast<int64_t>(content.size());
    tokens_ = std::max(tokens_, of_fields_);
    field(index, content);
  };
  request.context.on_prefill = [this](int64_t done, int64_t total) { prefill(done, total); };
  request.on_plan = [this](const HeadPlan& p) { plan(p); };
  request.context.on_progress = [this](const DecodeProgress& p) { pass(p); };
}

void Told::field(int32_t index, std::span<const TokenId> content) {
  if (!form_ || !tokenizer_) return;
  if (!done_.empty()) done_[static_cast<size_t>(index)].emplace(content.begin(), content.end());
  if (!in_order_) tell(index, content);
  walk();
}

void Told::tell(int32_t index, std::span<const TokenId> content) {
  const auto* own = std::get_if<JsonMeaning>(&form_->meanings[static_cast<size_t>(index)]);
  if (own && own->choice) return;  // between texts: no value of the answer's
  if (is_missing(index)) return;
  const auto value = parse_field(*form_, static_cast<size_t>(index), content, *tokenizer_);
  if (!value) return;  // the answer will say what is wrong with it
  const slipstream::FieldValue told = field_value(form_->form.fields()[static_cast<size_t>(index)].name, *value);
  Event event = at(forwards_, tokens_);
  event.kind = Event::Kind::kField;
  event.field = &told;
  on_event_(event);
  plan(index, *value);
}

/// As soon as the last number of the plan is there: the plan of this answer, fitted as the whole answer's will be.
void Told::plan(int32_t index, const FieldValue& value) {
  const std::vector<int32_t> of_plan = plan_fields(form_->form);
  if (std::find(of_plan.begin(), of_plan.end(), index) == of_plan.end()) return;
  plan_values_[static_cast<size_t>(index)] = value;
  if (--plan_left_ > 0) return;
  Plan plan;
  const SaidPlan said = said_plan(*form_, plan_values_);
  plan.waypoints = said.waypoints;
  if (!fit_plan(fit_, ego_, std::span(&said, 1), plan)) return;  // the answer will say why
  const slipstream::Trajectory told = trajectory_from(plan);
  Event event = at(forwards_, tokens_);
  event.kind = Event::Kind::kPlan;
  event.plan = &told;
  on_event_(event);
}

void Told::plan(const HeadPlan& plan) {
  const slipstream::Trajectory told = trajectory_from(plan.plan);
  Event event = at(forwards_, tokens_);
  event.kind = Event::Kind::kPlan;
  event.plan = &told;
  event.plan_source = "head";
  event.after_section = plan.after_section;
  event.final = plan.final;
  on_event_(event);
}

void Told::push(TokenId token) {
  if (form_text_ && (!form_->null_token || token != *form_->null_token)) fresh_ += stream_->push(token);
}

/// An instance that its enumeration, which is done, does not name.
bool Told::is_missing(int32_t field) const {
  const Form& form = form_->form;
  if (!form.may_be_absent(field) || done_.empty()) return false;
  const auto& of = *form.fields()[static_cast<size_t>(field)].instance_of;
  const auto& names = done_[static_cast<size_t>(of.field)];
  return names && instances_in(form.fields()[static_cast<size_t>(of.field)], *names) <= of.instance;
}

/// Fixed tokens and complete fields along the form's pieces, as far as they are certain.
void Told::walk() {
  if (done_.empty()) return;
  const Form& form = form_->form;
  const auto pieces = form.pieces();
  while (piece_ < pieces.size()) {
    if (const auto optional = form.optional_field(static_cast<int32_t>(piece_)); optional && is_missing(*optional)) {
      piece_ = static_cast<size_t>(form.next_piece(static_cast<int32_t>(piece_)));
      continue;
    }
    if (const auto* run = std::get_if<FixedRun>(&pieces[piece_])) {
      for (const TokenId t : run->ids) push(t);
      piece_ = static_cast<size_t>(form.next_piece(static_cast<int32_t>(piece_)));
      continue;
    }
    const auto f = static_cast<size_t>(std::get<FieldRef>(pieces[piece_]).field);
    if (!done_[f]) break;
    if (in_order_) tell(static_cast<int32_t>(f), *done_[f]);
    // An END that says what comes next stands behind the content, and is no part of the text.
    const auto exit = exit_piece(form.fields()[f], *done_[f]);
    for (size_t i = 0; i + (exit ? 1 : 0) < done_[f]->size(); ++i) push((*done_[f])[i]);
    piece_ = static_cast<size_t>(exit.value_or(form.next_piece(static_cast<int32_t>(piece_))));
  }
  if (form_text_) say(fresh_, at(forwards_, tokens_));
  fresh_.clear();
}

void Told::pass(const DecodeProgress& p) {
  forwards_ = p.forwards;
  tokens_ = p.decided;
  Event event = at(p.forwards, p.decided);
  if (stream_ && !form_text_) text(p.tokens, event);
  event.kind = Event::Kind::kPass;
  if (p.statistics) {
    event.rows = p.statistics->rows;
    event.proposed = p.statistics->proposed;
    event.tested = p.statistics->tested;
    event.accepted = p.statistics->accepted;
  }
  on_event_(event);
}

void Told::prefill(int64_t done, int64_t total) {
  Event event = at(forwards_, tokens_);
  event.kind = Event::Kind::kPrefill;
  event.done = done;
  event.total = total;
  on_event_(event);
}

void Told::end(const Answer& a) {
  const Event event = at(a.decoded.statistics.forwards, static_cast<int64_t>(a.decoded.tokens.size()));
  if (!done_.empty() && a.decoded.fields.size() == done_.size()) {
    for (size_t f = 0; f < done_.size(); ++f) done_[f] = a.decoded.fields[f];
    walk();
  }
  if (!stream_) return;
  if (form_text_) return say(stream_->flush(), event);
  text(a.decoded.tokens, event);
  if (a.finish != Finish::kLength) return say(held_.push(stream_->flush()) + held_.flush(), event);
  // Half a character at a limit is no part of the answer, and not told.
  if (said_ < a.text.size()) say(a.text.substr(said_), event);
}

Event Told::at(int64_t forwards, int64_t tokens) const {
  Event out;
  out.forwards = forwards;
  out.tokens = tokens;
  out.elapsed_ms = ms_since(start_);
  return out;
}

void Told::text(std::span<const TokenId> tokens, const Event& event) {
  std::string fresh;
  for (; seen_ < tokens.size(); ++seen_) fresh += stream_->push(tokens[seen_]);
  say(held_.push(fresh), event);
}

void Told::say(const std::string& fresh, Event event) {
  if (fresh.empty()) return;
  said_ += fresh.size();
  event.kind = Event::Kind::kText;
  event.text = fresh;
  on_event_(event);
}

}  // namespace slip::api
