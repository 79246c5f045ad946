// SPDX-License-Identifier: Apache-2.0
// See resources.h.
#include "engine/resources.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/log.h"
#include "decode/draft_length/model_file.h"
#include "engine/engine.h"
#include "models/adapter.h"
#include "models/draft/block_pilot.h"
#include "models/draft/commit_sampler.h"
#include "models/draft/dflash.h"
#include "models/draft/dflash_config.h"
#include "models/draft/flow_head.h"

namespace slip {
namespace {

constexpr size_t kMostMeasured = 256;
constexpr int32_t kHeadBlockRows = 1024;  // blocks of all strands of a pass together

/// The bins of a form's first field that has any. Codes are no bins: neighbours in number are none on the road, and in two vocabularies they
/// are spelled alike.
const BinsMeaning* bins_of(const CompiledForm* form) {
  if (!form || form->codebook) return nullptr;
  for (const FieldMeaning& m : form->meanings)
    if (const auto* bins = std::get_if<BinsMeaning>(&m)) return bins;
  return nullptr;
}

/// A token's identity across vocabularies: its bytes, or, for added tokens, its spelling.
std::string key_of(const Tokenizer& t, TokenId id) {
  if (t.is_added(id)) return std::string("a").append(t.token_text(id));
  const std::string_view bytes = t.token_bytes(id);
  return bytes.empty() ? std::string() : std::string("b").append(bytes);
}

void map_bins(const BinsMeaning& target, const BinsMeaning& draft, VocabularyMaps& maps) {
  for (int32_t b = 0; b < std::min(target.size(), draft.size()); ++b) {
    const TokenId t = target.id_of(b), d = draft.id_of(b);
    maps.to_draft.set(t, d);
    maps.to_target.set(d, t);
  }
}

}  // namespace

Result<VocabularyMaps> map_vocabularies(const Tokenizer& target, int32_t target_vocab, const Tokenizer& draft, int32_t draft_vocab,
                                        const CompiledForm* target_form, const CompiledForm* draft_form) {
  VocabularyMaps maps{VocabularyMap(target_vocab), VocabularyMap(draft_vocab)};
  std::unordered_map<std::string, TokenId> known;
  for (int32_t d = 0; d < std::min(draft.size(), draft_vocab); ++d)
    if (std::string key = key_of(draft, {d}); !key.empty()) known.try_emplace(std::move(key), TokenId{d});
  int32_t shared = 0;
  for (int32_t t = 0; t < std::min(target.size(), target_vocab); ++t) {
    const auto at = known.find(key_of(target, {t}));
    if (at == known.end() || maps.to_target[at->second]) continue;
    maps.to_draft.set({t}, at->second);
    maps.to_target.set(at->second, TokenId{t});
    ++shared;
  }
  const BinsMeaning *target_bins = bins_of(target_form), *draft_bins = bins_of(draft_form);
  if (target_bins) {
    if (!draft_bins || draft_bins->size() != target_bins->size())
      return bad_input("draft model: expected {} action bins as the target has, got {}", target_bins->size(),
                       draft_bins ? draft_bins->size() : 0);
    if (draft_bins->count != target_bins->count || draft_bins->low != target_bins->low || draft_bins->high != target_bins->high)
      return bad_input("draft model: expected {} numbers from {} to {} as the target has, got {} from {} to {}", target_bins->count,
                       target_bins->low, target_bins->high, draft_bins->count, draft_bins->low, draft_bins->high);
    map_bins(*target_bins, *draft_bins, maps);
  } else if (shared == 0) {
    return bad_input("draft model: expected a vocabulary that shares tokens with the target's {}, got none of {}", target.size(),
                     draft.size());
  }
  return maps;
}

namespace {

/// A draft that has no name in the other vocabulary is never made.
Status check_names(const std::string& name, const VocabularyMap& to_draft) {
  int32_t named = 0;
  for (int32_t id = 0; id < to_draft.size(); ++id) named += to_draft[TokenId{id}].has_value();
  if (named == 0)
    return bad_input("{}: expected a draft model that spells tokens as the target does, got one that has none of its {}", name,
                     to_draft.size());
  constexpr int32_t kFew = 10;
  if (named < to_draft.size() / kFew)
    log(LogLevel::kWarn, "draft model {}: has {} of the target's {} tokens: the others are never drafted", name, named,
        to_draft.size());
  return {};
}

Result<PreviousAnswer> previous_of(const json::value& v, const std::string& where, const Form* form, int32_t vocab) {
  if (!v.is_object()) return bad_input("{}: expected the result of run --json, got another type", where);
  const json::object& o = v.get_object();
  SLIP_TRY(const json::array* tokens, get_array(o, "tokens", where));
  SLIP_TRY(const std::string name, string_or(o, "form", "", where));
  PreviousAnswer out{.form = name, .fields = {}, .tokens = {}};
  for (const json::value& t : *tokens) {
    if (!t.is_int64() || t.get_int64() < 0 || t.get_int64() > (int64_t{1} << 30))
      return bad_input("{}: tokens: expected ids, got {}", where, json::serialize(t));
    if (t.get_int64() >= vocab)
      return bad_input("{}: tokens: expected ids below the model's {}, got {}", where, vocab, t.get_int64());
    out.tokens.push_back({static_cast<int32_t>(t.get_int64())});
  }
  if (!form && !name.empty()) return bad_input("{}: expected an answer in free text, got one of form {}", where, name);
  if (!form) return out;
  if (name != form->name())
    return bad_input("{}: expected an answer of form {}, got one of {}", where, form->name(), name.empty() ? "none" : name);
  auto fields = split_answer(*form, out.tokens);
  if (!fields) return bad_input("{}: expected an answer of form {}, got another: {}", where, form->name(), fields.error().message);
  out.fields = std::move(*fields);
  return out;
}

}  // namespace

Result<PreviousAnswer> read_previous(const std::filesystem::path& file, const Form* form, int32_t vocab) {
  SLIP_TRY(const json::value v, read_json(file));
  return previous_of(v, file.string(), form, vocab);
}

Result<PreviousAnswer> previous_answer(std::string_view document, std::string_view name, const Form* form, int32_t vocab) {
  SLIP_TRY(const json::value v, parse_json(document, name));
  return previous_of(v, std::string(name), form, vocab);
}

int32_t kept_rows(bool image_context, const Prompt& prompt) {
  if (image_context) return static_cast<int32_t>(prompt.inputs.size());
  return static_cast<int32_t>(std::count_if(prompt.inputs.begin(), prompt.inputs.end(),
                                            [](const RowInput& x) { return std::holds_alternative<TokenId>(x); }));
}

std::string own_head_folder(const Engine& engine) {
  const std::filesystem::path own = engine.folder() / "dflash";
  std::error_code ec;
  return std::filesystem::exists(own / "config.json", ec) ? own.string() : std::string();
}

std::string own_adapter_folder(const Engine& engine) {
  const std::filesystem::path own = engine.folder() / kDraftAdapterFolder;
  std::error_code ec;
  return std::filesystem::is_directory(own, ec) ? own.string() : std::string();
}

std::filesystem::path calibration_file(const std::filesystem::path& folder, const Form* form) {
  const std::filesystem::path text = folder / "text.width.json";
  std::error_code ec;
  return !form && std::filesystem::exists(text, ec) ? text : folder / "width.json";
}

Result<std::optional<DraftLengthModel>> calibration_of(const Engine& engine, const Method& method, const Form* form) {
  const auto* head = std::get_if<DFlashSpec>(&method.drafter);
  const auto* diffusion = std::get_if<DiffusionSpec>(&method.drafter);
  const std::string beside = head ? head->name : diffusion && diffusion->adapter ? own_adapter_folder(engine) : std::string();
  if (!beside.empty()) {
    SLIP_TRY(std::optional<DraftLengthModel> own, calibration_in(calibration_file(beside, form), form));
    if (own) return own;
  }
  return calibration_in(calibration_file(engine.folder(), form), form);
}

struct Resources::Parts {
  std::string draft_name, head_name, sampler_name;
  bool has_bad_head = false;           // the model's own
  std::optional<HeadFacts> own_facts;  // of it
  std::unique_ptr<Engine> draft_engine;
  DraftModel draft;
  PrefixCache draft_prefix_cache;  // of the draft engine's model
  FormPtr mapped_for;              // the form that the draft's maps were made for
  std::unique_ptr<DFlashHead> head;
  std::unique_ptr<LearnedCommitSampler> sampler;
  struct Measured {
    DraftLengthModel model;
    DraftLengthTracker tracker;
  };
  std::map<std::string, std::shared_ptr<Measured>, std::less<>> measured;  // by file, form and kind of drafter
  std::optional<CostTable> cost;                                           // a quarter of a second to measure
  /// What a deadline has ended, by what was measured: the next request goes on with it, so that short ones come to an end too.
  std::map<std::string, CostTimes, std::less<>> measuring;
  std::string plans_of;  // the folder of:
  std::shared_ptr<FlowHead> trajectory_head;
  std::string pilot_name;
  std::unique_ptr<BlockPilot> pilot;

  void refuse_own_head(const Error& why) {
    has_bad_head = true;
    own_facts.reset();
    log(LogLevel::kWarn, "auto: goes without the model's draft head: {}", why.message);
  }

  Status attach_head(Engine& engine, const std::string& name) {
    if (head && head_name == name) return {};
    SLIP_TRY(head, load_dflash(name, engine.model(), kHeadBlockRows));
    head_name = name;
    return {};
  }

  Status attach_draft(Engine& engine, const std::string& name, const Request& request, const FormPtr& form) {
    if (!draft_engine || draft_name != name) {
      draft_engine.reset();
      draft.lm = nullptr;
      draft_prefix_cache = {};
      EngineOptions options = engine.options();
      options.trajectory_head.clear();  // the target's
      SLIP_TRY(draft_engine, Engine::load(name, options, {{}, request.context.cancel}));
      draft_name = name;
    }
    Model &target = engine.model(), &small = draft_engine->model();
    if (!target.tokenizer() || !small.tokenizer())
      return bad_input("{}: expected a tokenizer in both models' folders, got one without", name);
    if (engine.task().body != draft_engine->task().body)
      return bad_input("{}: expected a draft model of the target's task, {}, got one of {}", name, words(engine.task().body),
                       words(draft_engine->task().body));
    if (!draft.lm || mapped_for != form) {
      const CompiledForm* own = nullptr;
      if (bins_of(form.get())) {
        auto made = draft_engine->form("model");
        if (!made)
          return bad_input("{}: expected a draft model with action bins as the target has, got one without: {}", name,
                           made.error().message);
        own = made->get();
      }
      SLIP_TRY(VocabularyMaps maps, map_vocabularies(*target.tokenizer(), target.lm().info().vocab, *small.tokenizer(),
                                                     small.lm().info().vocab, form.get(), own));
      SLIP_TRY_(check_names(name, maps.to_draft));
      draft.lm = &small.lm();
      draft.prefix_cache = &draft_prefix_cache;
      draft.to_draft = std::move(maps.to_draft);
      draft.to_target = std::move(maps.to_target);
      mapped_for = form;
    }
    Request its;
    its.context.cancel = request.context.cancel;
    its.ego = request.ego;
    its.prompt = request.prompt;
    its.raw_prompt = request.raw_prompt;
    its.turns = request.turns;
    its.messages = request.messages;
    if (small.vision()) its.images = request.images;
    if (small.config().video_token) its.videos = request.videos;
    SLIP_TRY(draft.prompt, draft_engine->prompt(its));
    return {};
  }

  CostSettings settings(const DecodeContext& context, const std::string& of) {
    return {.cancel = context.cancel, .times = &measuring[of]};
  }
  Result<DraftLengthModel> measured_model(Engine& engine, const Request& request, const Form* form, const Prompt& prompt,
                                          const DecodeContext& context);
};

Status check_drafter(const Method& method) {
  const auto* d = std::get_if<ModelSpec>(&method.drafter);
  if (d && d->name.empty()) return usage_error("--drafter: expected model:DIR for preset {}, got no folder", method.preset);
  return {};
}

Resources::Resources() : parts_(std::make_unique<Parts>()) {}
Resources::~Resources() = default;
Resources::Resources(Resources&&) noexcept = default;

Status Resources::attach(Engine& engine, const Request& request, const FormPtr& form, DecodeContext& context) {
  Parts& p = *parts_;
  if (const auto* d = std::get_if<ModelSpec>(&request.method.drafter); d && !context.draft_model) {
    SLIP_TRY_(check_drafter(request.method));
    SLIP_TRY_(p.attach_draft(engine, d->name, request, form));
    context.draft_model = &p.draft;
  }
  if (const auto* d = std::get_if<DFlashSpec>(&request.method.drafter); d && !context.draft_head) {
    if (d->name.empty())
      return usage_error(
          "--drafter: expected dflash:DIR, or a model with a head of its own (folder dflash in its own), got neither");
    SLIP_TRY_(p.attach_head(engine, d->name));
    context.draft_head = p.head.get();
  }
  if (const auto* d = std::get_if<PreviousSpec>(&request.method.drafter); d && !context.previous) {
    // The request's own: others that are under way draft from other answers.
    SLIP_TRY(PreviousAnswer read, read_previous(d->name, form ? &form->form : nullptr, engine.model().lm().info().vocab));
    auto earlier = std::make_shared<const PreviousAnswer>(std::move(read));
    context.previous = earlier.get();
    context.keeps.push_back(std::move(earlier));
  }
  if (const auto* v = std::get_if<SamplerSpec>(&request.method.verifier); v && !context.commit_sampler) {
    if (!p.sampler || p.sampler_name != v->name) {
      SLIP_TRY(p.sampler, load_commit_sampler(v->name, engine.model()));
      p.sampler_name = v->name;
    }
    context.commit_sampler = p.sampler.get();
  }
  return {};
}

Result<std::shared_ptr<FlowHead>> Resources::trajectory_head(Engine& engine, const std::string& folder) {
  Parts& p = *parts_;
  if (!p.trajectory_head || p.plans_of != folder) {
    SLIP_TRY(std::shared_ptr<FlowHead> loaded, load_flow_head(folder, engine.model()));
    p.trajectory_head = std::move(loaded);
    p.plans_of = folder;
  }
  return p.trajectory_head;
}

namespace {

/// What a step of the second model costs behind its prompt.
Result<CostTable> step_costs(const DraftModel& draft, CostSettings s) {
  constexpr int32_t kMostStrands = 32;  // a step is a row per strand, fields or rollouts
  s.visible = static_cast<int32_t>(draft.prompt.inputs.size()) + kAnswerKeys;
  s.most_rows = kMostStrands;
  return measure_costs(*draft.lm, s);
}

/// What a round of a draft head costs behind what it keeps of the prompt, which stays.
Result<CostTable> round_costs(DraftHead& head, const Prompt& prompt, CostSettings s) {
  const DraftHeadInfo& info = head.info();
  const auto first = static_cast<int32_t>(prompt.inputs.size()), kept = kept_rows(info.image_context, prompt);
  const int32_t room = info.context_slots - first;
  s.visible = std::max(1, std::min(kept + kAnswerKeys, room));
  s.most_rows = std::max(1, std::min({s.most_rows, info.block_slots, room}));
  return measure_costs(head, first, s);
}

/// The drafter's kind and its network. Not the file of an earlier answer: that is another one every frame, and how its drafts hold is
/// learned from frame to frame.
std::string kind_of_drafter(Method m) {
  if (auto* previous = std::get_if<PreviousSpec>(&m.drafter)) previous->name.clear();
  return words_of(m).drafter;
}

}  // namespace

std::optional<HeadFacts> Resources::own_head_facts(Engine& engine) {
  Parts& p = *parts_;
  if (p.own_facts || p.has_bad_head) return p.own_facts;
  const std::string folder = own_head_folder(engine);
  if (folder.empty()) return std::nullopt;
  if (const auto config = read_dflash_config(folder, engine.model()))
    p.own_facts = HeadFacts{config->block, config->image_context};
  else
    p.refuse_own_head(config.error());
  return p.own_facts;
}

Result<DraftHead*> Resources::own_head(Engine& engine, const CancelToken& cancel) {
  Parts& p = *parts_;
  const std::string folder = own_head_folder(engine);
  if (folder.empty() || p.has_bad_head) return static_cast<DraftHead*>(nullptr);
  SLIP_TRY_(cancel.check("loading", 0, "MB"));
  if (const Status loaded = p.attach_head(engine, folder); !loaded) {
    if (loaded.error().kind == ErrorKind::kCancelled) return loaded.error();
    p.refuse_own_head(loaded.error());
    return static_cast<DraftHead*>(nullptr);
  }
  return static_cast<DraftHead*>(p.head.get());
}

Result<CostTable> Resources::measure_rounds(DraftHead& head, const Prompt& prompt, const CancelToken& cancel) {
  constexpr double kBudgetMs = 50;
  return round_costs(head, prompt, {.budget_ms = kBudgetMs, .cancel = cancel});
}

Result<std::optional<DraftLengthModel>> calibration_in(const std::filesystem::path& file, const Form* form) {
  std::error_code ec;
  if (!std::filesystem::exists(file, ec)) return std::optional<DraftLengthModel>();
  SLIP_TRY(DraftLengthModel model, read_draft_length_model(file));
  if (!model.form.empty() && (!form || model.form != form->name())) return std::optional<DraftLengthModel>();
  if (const Status fits = check_draft_length_model(model, form); !fits)
    return bad_input("{}: {}", file.string(), fits.error().message);
  return std::optional(std::move(model));
}

Result<std::optional<DraftLengthModel>> stored_draft_length_model(const Engine& engine, const std::string& name, const Form* form) {
  if (name.empty()) return calibration_in(calibration_file(engine.folder(), form), form);
  SLIP_TRY(DraftLengthModel model, read_draft_length_model(name));
  if (const Status fits = check_draft_length_model(model, form); !fits) return bad_input("{}: {}", name, fits.error().message);
  return std::optional(std::move(model));
}

Result<DraftLengthModel> Resources::Parts::measured_model(Engine& engine, const Request& request, const Form* form,
                                                          const Prompt& prompt, const DecodeContext& context) {
  const std::string& named = request.method.draft_length.name;
  SLIP_TRY(std::optional<DraftLengthModel> stored,
           named.empty() ? calibration_of(engine, request.method, form) : stored_draft_length_model(engine, named, form));
  // Costs are this machine's, whatever the file says of the one that it was made on.
  if (!cost) {
    CostSettings s = settings(context, "passes");
    s.visible = static_cast<int32_t>(prompt.inputs.size()) + kAnswerKeys;
    SLIP_TRY(cost, measure_costs(engine.model().lm(), s));
  }
  DraftLengthModel model = stored ? std::move(*stored) : DraftLengthModel::uninformed(*cost, form);
  model.pass = *cost;
  const std::string drafter = kind_of_drafter(request.method);
  const auto head = [](std::string_view word) { return word.substr(0, word.find(':')); };
  if (!named.empty() && !model.drafter.empty() && head(model.drafter) != head(drafter))
    log(LogLevel::kWarn, "draft length: {}: calibrated for drafter {}, used for {}: how its drafts hold is learned anew", named,
        model.drafter, drafter);
  if (std::holds_alternative<ModelSpec>(request.method.drafter) && context.draft_model && context.draft_model->lm) {
    SLIP_TRY(model.draft, step_costs(*context.draft_model, settings(context, drafter)));
  }
  if (std::holds_alternative<DFlashSpec>(request.method.drafter) && context.draft_head) {
    // Its slots behind this prompt are written: what is kept of a longer one ends there, whatever becomes of this request.
    if (context.prefix_cache) context.prefix_cache->crop(prompt.inputs.size());
    SLIP_TRY(model.draft, round_costs(*context.draft_head, prompt, settings(context, drafter)));
    model.most_drafts = std::min(model.most_drafts, std::max(1, context.draft_head->info().block - 1));
  }
  measuring.erase("passes");
  measuring.erase(drafter);
  return model;
}

Status Resources::attach_draft_length(Engine& engine, const Request& request, const FormPtr& form, const Prompt& prompt,
                                      DecodeContext& context) {
  Parts& p = *parts_;
  const DraftLengthSpec& w = request.method.draft_length;
  if (w.kind == DraftLengthSpec::Kind::kBlockPilot && !context.block_pilot) {
    if (!p.pilot || p.pilot_name != w.name) {
      SLIP_TRY(std::unique_ptr<BlockPilot> pilot, load_block_pilot(w.name));
      SLIP_TRY_(check_block_pilot(w.name, *pilot, engine.model()));
      p.pilot = std::move(pilot);
      p.pilot_name = w.name;
    }
    context.block_pilot = p.pilot.get();
  }
  if (w.kind != DraftLengthSpec::Kind::kMeasured || context.draft_length_model) return {};
  const std::string key =
      fmt::format("{}|{}|{}|{}", w.name, form ? form->form.name() : "", kind_of_drafter(request.method), request.form_schema);
  auto at = p.measured.find(key);
  if (at == p.measured.end()) {
    SLIP_TRY(DraftLengthModel model, p.measured_model(engine, request, form ? &form->form : nullptr, prompt, context));
    if (p.measured.size() >= kMostMeasured) p.measured.clear();  // forms come from whoever asks; answers hold on to theirs
    at = p.measured.emplace(key, std::make_shared<Parts::Measured>(Parts::Measured{std::move(model), {}})).first;
  }
  context.draft_length_model = &at->second->model;
  context.draft_length_tracker = &at->second->tracker;
  context.keeps.push_back(at->second);
  return {};
}

Result<CostTable> Resources::measure_passes(Engine& engine, int32_t visible, const CancelToken& cancel) {
  CostSettings s{.visible = visible, .cancel = cancel};
  SLIP_TRY(parts_->cost, measure_costs(engine.model().lm(), s));
  return *parts_->cost;
}

void Resources::use_passes(const CostTable& costs) { parts_->cost = costs; }

Status resolve_method(Method& method, const CompiledForm* form, std::span<const double> scale) {
  auto* relaxed = std::get_if<RelaxedSpec>(&method.verifier);
  if (!relaxed || relaxed->end.value > relaxed->first.value) return {};
  const BinsMeaning* bins = bins_of(form);
  if (!bins)
    return unsupported("--verifier relaxed: expected a form with action bins, got {}", form ? form->form.name() : "free text");
  relaxed->first = bins->first;
  relaxed->end = {bins->last.value + 1};
  relaxed->radius_of_number.resize(form->meanings.size());
  relaxed->unit_of_number.resize(form->meanings.size());
  for (size_t f = 0; f < form->meanings.size(); ++f) {
    const auto* its = std::get_if<BinsMeaning>(&form->meanings[f]);
    if (!its || its->first < relaxed->first || its->last >= relaxed->end) continue;
    const double step = its->number ? (its->high - its->low) / (its->size() - 1) : 1;
    for (size_t i = 0; i < static_cast<size_t>(std::max(1, its->count)); ++i) {
      const double unit = std::abs(step * (i < scale.size() ? scale[i] : 1));
      // A number that never moves (q01 = q99) is no further off in any bin.
      const double bins_within = !relaxed->units ? relaxed->radius : unit > 0 ? *relaxed->units / unit + 1e-9 : its->size();
      relaxed->unit_of_number[f].push_back(unit);
      relaxed->radius_of_number[f].push_back(static_cast<int32_t>(std::min<double>(bins_within, its->size())));
    }
  }
  return {};
}

}  // namespace slip
