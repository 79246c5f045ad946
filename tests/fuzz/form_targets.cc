// SPDX-License-Identifier: Apache-2.0
// What is read for forms: earlier answers, calibrations of widths, and the classifier of block sizes, which reads its matrices out of a
// safetensors file itself.
#include <algorithm>
#include <numeric>

#include "decode/draft_length/model_file.h"
#include "engine/resources.h"
#include "form/builtin/builtin.h"
#include "form/schema/values.h"
#include "fuzz/byte_tokens.h"
#include "fuzz/targets.h"
#include "models/draft/block_pilot.h"
#include "sim/record/make.h"
#include "task/wod.h"

namespace slip::fuzz {

namespace {

const CompiledForm& waypoint_form() {
  static const CompiledForm kForm = [] {
    auto f = wod_e2e_form(byte_tokens(), {.explanation_budget = 400, .behaviour_budget = 24});  // tokens are bytes
    require(static_cast<bool>(f), f ? "" : f.error().message);
    return std::move(*f);
  }();
  return kForm;
}

}  // namespace

void run_previous(Bytes bytes) {
  put("previous.json", text_of(bytes));
  for (const Form* form : {static_cast<const Form*>(nullptr), &waypoint_form().form}) {
    const auto previous = read_previous(scratch() / "previous.json", form);
    if (!previous) {
      require_refusal(previous.error());
    } else if (form) {
      require(previous->fields.size() == form->fields().size(), "an answer has the form's fields");
      require(static_cast<bool>(parse(waypoint_form(), previous->tokens, byte_tokenizer())), "what was split can be parsed");
    }
  }
}

std::vector<std::string> seeds_previous() {
  std::vector<std::string> out = {R"({"tokens":[1,2,3]})"};
  const CompiledForm& form = waypoint_form();
  for (const uint64_t seed : {1, 2}) {
    const auto record = sim::make_record(seed, {}, false);
    require(static_cast<bool>(record), "a record is made");
    const auto values = truth_values(record->labels, form, byte_tokenizer());
    require(static_cast<bool>(values), "a record has an answer");
    const auto ids = render(form, *values, byte_tokenizer());
    require(static_cast<bool>(ids), "an answer is rendered");
    json::array tokens;
    for (const TokenId id : *ids) tokens.emplace_back(id.value);
    out.push_back(json::serialize(json::object{{"form", form.form.name()}, {"tokens", std::move(tokens)}, {"text", "x"}}));
  }
  return out;
}

void run_width(Bytes bytes) {
  put("width.json", text_of(bytes));
  const auto m = read_draft_length_model(scratch() / "width.json");
  if (!m) return require_refusal(m.error());
  for (const int32_t rows : {1, 7, 4096}) require(m->pass.ms(rows) > 0, "a pass takes time");
  const auto fits = check_draft_length_model(*m, &waypoint_form().form);
  if (!fits) require_refusal(fits.error());
  for (int32_t f = 0; f < m->lengths.fields(); ++f) {
    const double p = m->lengths.at_least(f, 2, 1);
    require(p >= 0 && p <= 1, "a probability lies between 0 and 1");
  }
  require(static_cast<bool>(write_draft_length_model(*m, scratch() / "again.json")), "a calibration is written");
  require(static_cast<bool>(read_draft_length_model(scratch() / "again.json")), "what was written is read");
}

std::vector<std::string> seeds_width() {
  return {R"({"format":"slipstream-width","version":1,"model":"m","form":"","drafter":"diffusion","machine":"x","visible":512,)"
          R"("most_draws":32,"static_width":8,"ece_per_million":12000,"pass":{"rows":[1,8,64],"microseconds":[900,1200,4000]},)"
          R"("draft":{"rows":[1,4],"microseconds":[20,50]},"survival":[[0,0,0,3,4],[1,2,3,7,9]],)"
          R"("fields":[{"name":"a","lengths":[0,3,1],"survival":[[0,0,5,10,12]]},{"name":"b","lengths":[4],"survival":[]}]})"};
}

void run_pilot(Bytes bytes) {
  put("pilot.safetensors", text_of(bytes));
  const auto pilot = load_block_pilot(scratch() / "pilot.safetensors");
  if (!pilot) return require_refusal(pilot.error());
  require((*pilot)->vocab() > 0 && (*pilot)->classes() > 0, "a classifier has inputs and outputs");
  std::vector<float> logits(static_cast<size_t>((*pilot)->vocab()));
  std::iota(logits.begin(), logits.end(), -2.0F);
  const int32_t picked = (*pilot)->pick(logits);
  require(picked >= 0 && picked < (*pilot)->classes(), "a class is picked");
}

std::vector<std::string> seeds_pilot() {
  return {safetensors_file(R"({"layers.0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("layers.0.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
                           R"("layers.1.weight":{"dtype":"BF16","shape":[2,2],"data_offsets":[32,40]},)"
                           R"("layers.1.bias":{"dtype":"BF16","shape":[2],"data_offsets":[40,44]},)"
                           R"("fc_out.weight":{"dtype":"F32","shape":[5,2],"data_offsets":[44,84]},)"
                           R"("fc_out.bias":{"dtype":"F32","shape":[5],"data_offsets":[84,104]}})",
                           104)};
}

}  // namespace slip::fuzz
