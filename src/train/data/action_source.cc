// SPDX-License-Identifier: Apache-2.0
// See action_source.h. The answer is a line break, the action's ids, and <|im_end|>, which is always masked, as for other forms.
#include "train/data/action_source.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "form/schema/values.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "task/action.h"
#include "task/arm_prompt.h"
#include "task/wod.h"
#include "text/chat.h"
#include "train/data/known_keys.h"
#include "train/data/scene_seeds.h"
#include "train/data/special_token.h"

namespace slip {

namespace {

constexpr int64_t kMostScenes = int64_t{1} << 31;
constexpr uint64_t kFrameSeed = 0xf4a3e;  // the key of the frames: any, but no other stream's
constexpr uint32_t kFrames = 4;           // 0, 0.5, 1 and 1.5 s: as far as sim::kMostFrameS lets a scene go on
constexpr double kFrameS = 0.5;

struct Parts {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
  std::unique_ptr<CompiledForm> form;
  TaskOptions task;
  TokenId mask, im_end;
  double step = 0;
  uint64_t first_seed = 0;
  int64_t count = 0;
};

class ActionSource : public SampleSource {
 public:
  explicit ActionSource(Parts parts) : p_(std::move(parts)) {}

  Result<Sample> get(int64_t index) override { return p_.task.body == Body::kArm ? arm_sample(index) : car_sample(index); }

  /// The schema names no section: its only one goes by the form's name.
  Outline outline() const override { return {{"action"}, outline_of(p_.form->form).fields}; }
  std::vector<SamplePart> parts() const override { return {{.size = p_.count}}; }

 private:
  Result<Sample> arm_sample(int64_t index) const {
    const sim::ArmSight sight = sim::arm_state(p_.first_seed + static_cast<uint64_t>(index % p_.count));
    const sim::ArmStep step = sim::arm_expert(sight);
    return sample(arm_prompt(sight), {FieldValue(std::vector<double>(step.begin(), step.end()))});
  }

  Result<Sample> car_sample(int64_t index) const {
    PhiloxStream draw(kFrameSeed, static_cast<uint64_t>(index));
    const double t_s = kFrameS * draw.below(kFrames);
    SLIP_TRY(const sim::Record r, sim::make_frame(p_.first_seed + static_cast<uint64_t>(index % p_.count), {}, t_s, false));
    const PromptText text = prompt_text(p_.task.prompt, ego_of(r.labels), p_.task.form);
    SLIP_TRY(std::vector<FieldValue> values, truth_values(r.labels, *p_.form, *p_.tokenizer));
    if (p_.step > 0)
      for (double& a : std::get<std::vector<double>>(values[0])) a = rounded(a);
    SLIP_TRY(Sample s, sample(text.before_images + text.after_images, values));
    s.future = future_steps(r.labels);
    return s;
  }

  double rounded(double a) const {
    const auto& bins = std::get<BinsMeaning>(p_.form->meanings[0]);
    return std::clamp(std::round(a / p_.step) * p_.step, bins.low, bins.high);
  }

  Result<Sample> sample(std::string text, const std::vector<FieldValue>& values) const {
    const ChatMessage message{"user", {TextItem{std::move(text)}}};
    SLIP_TRY(const ChatPrompt prompt, make_prompt(*p_.chat, *p_.tokenizer, std::vector{message}));
    SLIP_TRY(const std::vector<TokenId> answer, render(*p_.form, values, *p_.tokenizer));
    Sample out;
    const size_t n = prompt.ids.size();
    out.mask_token = p_.mask;
    out.tokens = prompt.ids;
    out.positions = prompt.positions.rows;
    out.block.assign(n, -1);
    out.section.assign(n, -1);
    out.response.assign(n, 0);
    out.fixed.assign(n, 0);
    out.always_masked.assign(n, 0);
    for (size_t i = 0; i <= answer.size(); ++i) {
      const bool closing = i == answer.size();
      out.positions.push_back(Position::text(static_cast<int32_t>(out.tokens.size()) + prompt.positions.rope_delta));
      out.tokens.push_back(closing ? p_.im_end : answer[i]);
      out.block.push_back(p_.form->form.block_at(static_cast<int32_t>(closing ? i - 1 : i)));
      out.section.push_back(0);
      out.response.push_back(1);
      out.fixed.push_back(!closing && p_.form->form.fixed_at(static_cast<int32_t>(i)).has_value());
      out.always_masked.push_back(closing);
    }
    return out;
  }

  Parts p_;
};

Status make_missing_tokenizer(const json::object& data, const std::string& folder, const TaskOptions& task) {
  if (std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json")) return {};
  SLIP_TRY(const int64_t vocab, int_or(data, "tokenizer_vocab", 0, "data"));
  if (vocab == 0) return {};
  if (vocab < 0 || vocab > 65536) return bad_input("data: tokenizer_vocab: expected at most 65536, got {}", vocab);
  SLIP_TRY(const uint64_t seed, scene_seed_or(data, "tokenizer_seed", 0));
  ActionTokenizerOptions o{.action = task.action, .prompt = task.prompt, .body = task.body, .vocab = static_cast<int32_t>(vocab)};
  o.first_seed = seed;
  o.cancel = CancelToken::of_process();
  SLIP_TRY(o.bins_last, bool_or(data, "bins_last", true, "data"));
  return make_action_tokenizer(folder, o);
}

Status read_numbers(const json::object& data, Parts& p) {
  SLIP_TRY(p.step, number_or(data, "action_step", 0, "data"));
  if (!(p.step >= 0 && p.step <= 10)) return bad_input("data: action_step: expected 0 to 10, got {}", p.step);
  SLIP_TRY(p.first_seed, scene_seed(data, "first_seed"));
  SLIP_TRY(p.count, get_int(data, "count", "data"));
  if (p.count < 1 || p.count > kMostScenes) return bad_input("data: count: expected 1 to {}, got {}", kMostScenes, p.count);
  return {};
}

Result<int32_t> vocabulary(const std::string& model) {
  SLIP_TRY(const json::value config, read_json(model));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", model);
  SLIP_TRY(const int64_t vocab, get_int(config.get_object(), "vocab_size", model));
  return static_cast<int32_t>(vocab);
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_action_source(const json::object& data, const TaskOptions& task,
                                                         const std::string& tokenizer_folder) {
  SLIP_TRY(const std::string kind, get_string(data, "kind", "data"));
  if (kind != "simulated") return unsupported("data: kind: expected simulated for the form action, got {}", kind);
  SLIP_TRY(const std::string model, get_string(data, "model", "data"));
  for (const char* key : {"grounding", "steady_history", "waypoint_step_m", "perturbed"})
    if (data.contains(key)) return bad_input("data: {}: expected none with the form action, got one", key);
  SLIP_TRY_(only_keys(
      data, {"kind", "first_seed", "count", "model", "action_step", "tokenizer_vocab", "tokenizer_seed", "bins_last"}, "data"));
  if (task.body == Body::kArm && data.contains("action_step"))
    return bad_input("data: action_step: expected none of an arm, got one");
  if (task.cameras) return unsupported("{}: expected \"cameras\": false with the form action, got cameras", model);
  Parts p{.tokenizer = {}, .chat = {}, .form = {}, .task = task, .mask = {}, .im_end = {}};
  SLIP_TRY_(read_numbers(data, p));
  SLIP_TRY_(make_missing_tokenizer(data, tokenizer_folder, task));
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(tokenizer_folder));
  p.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  SLIP_TRY(ChatTemplate chat, ChatTemplate::load(tokenizer_folder));
  p.chat = std::make_unique<ChatTemplate>(std::move(chat));
  SLIP_TRY(p.mask, special_token(*p.tokenizer, "|<MASK>|", tokenizer_folder));
  SLIP_TRY(p.im_end, special_token(*p.tokenizer, "<|im_end|>", tokenizer_folder));
  SLIP_TRY(const int32_t vocab, vocabulary(model));
  SLIP_TRY(CompiledForm form, task_form(task, {p.tokenizer.get(), std::nullopt, vocab}));
  p.form = std::make_unique<CompiledForm>(std::move(form));
  return std::unique_ptr<SampleSource>(std::make_unique<ActionSource>(std::move(p)));
}

}  // namespace slip
