// SPDX-License-Identifier: Apache-2.0
// See automatic.h. Tests: tests/models/automatic_test.cc
#include "engine/automatic.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>

#include "base/content_hash.h"
#include "base/log.h"
#include "decode/types/capacity.h"
#include "decode/types/presets.h"
#include "kernels/kernels.h"
#include "models/weights/packed_folder.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr double kBudgetMs = 100;   // of measuring; every point once at least
constexpr size_t kRounds = 3;       // of all points, so that a pass that was disturbed is outvoted ...
constexpr double kMostMs = 600;     // ... where that takes no longer
constexpr int32_t kMostRows = 128;  // prompts beyond are the same for every candidate
constexpr int32_t kLeastKeys = 64, kMostKeys = 4096;
constexpr int32_t kMostForetold =
    16;  // rollouts: of 64 not many more part, and to foretell them all would take longer than they do
/// Tests that stand for "not calibrated": of a form's drafts half hold, of free text's a third. Drafts must earn their rows first.
constexpr int64_t kDoubt = 60;
/// Is a change of persistence worth a forecast? The nearer to 1, the more a hundredth does.
bool is_another(double persistence, double chosen_at) { return std::abs(persistence - chosen_at) > 0.01 + 0.3 * (1 - chosen_at); }
bool is_another(const Persistence& now, const Persistence& chosen_at) {
  return is_another(now.with_parents, chosen_at.with_parents) || is_another(now.behind_others, chosen_at.behind_others);
}
/// Which of them fit, as text: a longer prompt may leave no room for masks, and a shorter one does.
std::string fitting(std::span<const Candidate> candidates, const std::function<bool(const Method&)>& fits) {
  std::string out;
  for (const Candidate& c : candidates) out += fits(c.method) ? '1' : '0';
  return out;
}
/// Milliseconds a pass of n rows where there is no time to measure: c = 4 r, as on the demo models (docs/lab/0011-decoders.md).
const CostTable& guessed_costs() {
  static const CostTable table = *CostTable::make({1, 128}, {0.05, 1.32}, "guess");
  return table;
}

/// What passes cost, each measured about `kRounds` times where there is time for that: the prices of one round alone differ by half where anything
/// else runs.
Result<CostTable> measured_passes(Lm& lm, CostSettings s) {
  SLIP_TRY(CostTable table, measure_costs(lm, s));
  const size_t rounds = s.times->ms.back().size();
  s.budget_ms = s.times->spent_ms / static_cast<double>(rounds) * kRounds;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(kMostMs));
  if (rounds >= kRounds || s.budget_ms > kMostMs || s.cancel.late(until)) return table;
  s.fill = false;
  return measure_costs(lm, s);
}

/// Without spikes: a pass costs at most what one of more rows does, for it could carry these. What took longer was disturbed. To the nanosecond, as
/// prices are kept: the run that measures them chooses as the next one does.
CostTable without_spikes(const CostTable& measured) {
  std::vector<double> ms(measured.measured_ms().begin(), measured.measured_ms().end());
  for (size_t i = ms.size(); i-- > 1;) ms[i - 1] = std::min(ms[i - 1], ms[i]);
  for (double& x : ms) x = std::round(x * 1e6) * 1e-6;
  auto table = CostTable::make({measured.rows().begin(), measured.rows().end()}, std::move(ms), "auto");
  return table ? std::move(*table) : measured;
}

/// A request's share of a pass that `company` such requests share.
CostTable share_of(const CostTable& costs, int32_t company) {
  if (company <= 1) return costs;
  std::vector<double> ms;
  for (const int32_t rows : costs.rows()) ms.push_back(costs.ms(rows * company) / company);
  auto table = CostTable::make({costs.rows().begin(), costs.rows().end()}, std::move(ms), "auto");
  return table ? std::move(*table) : costs;
}

/// What is drawn, in words: where rollouts part decides what is quick.
std::string drawn_in(const DecodeOptions& o) {
  std::string out = o.temperature > 0 ? "all" : "none";
  for (const auto& [section, t] : o.section_temperature) out += fmt::format(",{}{}", t > 0 ? "" : "not ", section);
  return out;
}

/// Powers of two: the choice is worth making anew when the load is another, not whenever it changes.
int32_t level_of(const double* company) {
  if (!company || *company < 1.5) return 1;
  return int32_t{1} << static_cast<int32_t>(std::lround(std::log2(*company)));
}

/// A file's place, size and time: what a rebuilt library or retrained model changes.
std::string identity(const fs::path& file) {
  struct stat s {};
  if (stat(file.c_str(), &s) != 0) return file.string();
  return fmt::format("{} {} {}.{:09}", file.string(), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

/// The library, or the program itself, which dladdr knows by how it was called: a name that PATH found is no file here.
std::string this_build() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&guessed_costs), &info) || !info.dli_fname) return "?";
  std::error_code ec;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec);
  const bool library = fs::path(info.dli_fname).filename().string().find(".so") != std::string::npos;
  return identity(library || ec ? fs::path(info.dli_fname) : program);
}

/// What tells one processor from the next of the same name: clouds call several generations alike.
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string out;
  for (std::string line; std::getline(in, line) && !line.empty();)
    for (const std::string_view key : {"cpu family", "model", "stepping", "cache size", "CPU implementer", "CPU part"})
      if (line.starts_with(key)) out += line.substr(std::min(line.size(), line.find(':') + 1));
  return out.empty() ? "processor" : out;
}

std::string this_model(const fs::path& folder) {
  std::error_code ec;
  std::vector<std::string> files;
  for (fs::directory_iterator at(fs::weakly_canonical(folder, ec), ec), end; !ec && at != end; at.increment(ec))
    if (const auto x = at->path().extension(); x == ".safetensors" || x == ".json") files.push_back(identity(at->path()));
  std::sort(files.begin(), files.end());
  std::string out;
  for (const std::string& f : files) out += f + ";";
  return out;
}

/// Keys that a row sees when costs are measured: whole powers of two, so that prompts of about one length share a table.
int32_t visible_keys(const Prompt& prompt, int32_t slots) {
  const auto keys = static_cast<uint32_t>(prompt.inputs.size()) + kAnswerKeys;
  const auto rounded = std::clamp(static_cast<int32_t>(std::bit_ceil(keys * 3 / 4)), kLeastKeys, kMostKeys);
  return std::max(1, std::min(rounded, slots - kMostRows));
}

void doubt(Survival& survival, bool form) {
  for (int32_t top = 0; top < Survival::kTop; ++top) survival.add({.top = top}, {form ? kDoubt / 2 : kDoubt / 3, kDoubt});
  survival.fit();
}

bool is_of(const PreviousAnswer& previous, const Form* form) {
  if (!form) return previous.form.empty() && !previous.tokens.empty();
  return previous.form == form->name() && previous.fields.size() == form->fields().size();
}

}  // namespace

DraftLengthModel known_acceptance(const Engine& engine, const Form* form, CostTable costs, bool& calibrated) {
  auto stored = stored_draft_length_model(engine, "", form);
  if (!stored) log(LogLevel::kWarn, "auto: goes without a calibration: {}", stored.error().message);
  calibrated = stored && *stored;
  DraftLengthModel model = calibrated ? std::move(**stored) : DraftLengthModel::uninformed(costs, form);
  model.pass = std::move(costs);
  if (!calibrated) doubt(model.survival, form != nullptr);
  return model;
}

void Automatic::lend(const CostTable& costs) {
  lent_ = costs;
  costs_.reset();
  forget();
}

DraftLengthModel acceptance_of_head(const std::string& folder, const DraftLengthModel& own, const Form* form, bool& calibrated) {
  auto stored = calibration_in(calibration_file(folder, form), form);
  if (!stored) log(LogLevel::kWarn, "auto: goes without a calibration: {}", stored.error().message);
  calibrated = stored && *stored;
  DraftLengthModel model = calibrated ? std::move(**stored) : DraftLengthModel::uninformed(own.pass, form);
  if (!calibrated) {
    doubt(model.survival, form != nullptr);
    model.lengths = own.lengths;  // what answers say is the model's
  }
  return model;
}

std::optional<DraftLengthModel> acceptance_of_adapter(const Engine& engine, const CostTable& costs, const Form* form) {
  const std::string folder = own_adapter_folder(engine);
  if (folder.empty()) return std::nullopt;
  auto stored = calibration_in(calibration_file(folder, form), form);
  if (!stored) log(LogLevel::kWarn, "auto: goes without a calibration: {}", stored.error().message);
  if (!stored || !*stored) return std::nullopt;
  (*stored)->pass = costs;
  return std::move(*stored);
}

Result<std::optional<HeadFacts>> Automatic::head_for(Engine& engine, const Prompt& prompt, const DecodeContext& context) {
  constexpr std::chrono::milliseconds kTime{200};
  const std::optional<HeadFacts> none;
  if (context.company || context.draft_head || costs_key_.empty()) return none;
  const std::optional<HeadFacts> facts = engine.resources_.own_head_facts(engine);
  if (!facts || rounds_) return facts;
  const fs::path folder = own_head_folder(engine);
  rounds_key_ =
      fmt::format("{}|dflash|{}|{}", costs_key_, identity(folder / "model.safetensors"), identity(folder / "config.json"));
  const CostStore store(UserCache::of_user());
  if ((rounds_ = store.find(rounds_key_))) return facts;
  SLIP_TRY(DraftHead * head, engine.resources_.own_head(engine, context.cancel));
  if (!head) return none;
  const bool room = head->info().context_slots > static_cast<int32_t>(prompt.inputs.size()) + kAnswerKeys;
  if (!room || context.cancel.late(std::chrono::steady_clock::now() + kTime)) return none;
  if (context.prefix_cache) context.prefix_cache->crop(prompt.inputs.size());
  SLIP_TRY(const CostTable measured, engine.resources_.measure_rounds(*head, prompt, context.cancel));
  rounds_ = without_spikes(measured);
  store.keep(rounds_key_, *rounds_);
  return facts;
}

Status Automatic::measure(Engine& engine, const Prompt& prompt, const DecodeContext& context) {
  if (context.company) {
    if (costs_) return {};
    costs_ = lent_ ? without_spikes(*lent_) : guessed_costs();
    costs_from_ = lent_ ? "measured before the first request" : "guessed: nobody has measured";
    return {};
  }
  Lm& lm = engine.model().lm();
  const ModelOptions& o = engine.model().options();
  const int32_t visible = visible_keys(prompt, lm.info().slots);
  // Of this machine, program and model: some tenths of a millisecond of looking up, which no answer pays twice.
  if (here_.empty())
    here_ = fmt::format("{}|{}|{}|{}", processor(), isa_choice().reason, this_build(), this_model(engine.folder()));
  const std::string key =
      fmt::format("{}|{}|{}|{}|{} threads|{} keys", here_, word_of_type(o.type), o.kv_type ? static_cast<int>(*o.kv_type) : -1,
                  o.device, engine.model().pool().threads(), visible);
  if (costs_ && key == costs_key_) return {};
  watch_.other_prices();
  forget();
  rounds_.reset();
  times_ = {};  // of other passes
  costs_key_ = key;
  const CostStore store(UserCache::of_user());
  if ((costs_ = store.find(key))) {
    costs_from_ = "kept from an earlier run";
    return {};
  }
  constexpr std::chrono::milliseconds kTime{400};  // what measuring takes of small models, with room
  if (context.cancel.late(std::chrono::steady_clock::now() + kTime) || lm.info().slots < visible + kMostRows) {
    costs_ = guessed_costs();
    costs_key_.clear();  // measured as soon as a request leaves time
    costs_from_ = "guessed: no time or room to measure";
    return {};
  }
  const CostSettings settings{
      .visible = visible, .most_rows = kMostRows, .budget_ms = kBudgetMs, .cancel = context.cancel, .times = &times_};
  auto measured = measured_passes(lm, settings);
  if (!measured) return measured.error();
  times_ = {};
  costs_ = without_spikes(*measured);
  costs_from_ = "measured now";
  store.keep(key, *costs_);
  return {};
}

/// Whatever forecasts go by: this machine, program and model, prices, calibrations, the kind of request.
std::string Automatic::forecasts_key(const Engine& engine, const Request& request, const ForecastSettings& s,
                                     const std::string& kind) const {
  std::string out = fmt::format("{}|{}|{}", costs_key_, words_of(*costs_), kind);
  std::error_code ec;
  if (!request.form_schema.empty()) out += fmt::format("|schema {:016x}", fnv1a(request.form_schema));
  if (fs::is_regular_file(request.form, ec)) out += "|" + identity(fs::weakly_canonical(request.form, ec));
  if (!s.form) out += fmt::format("|{} tokens", s.text_tokens);
  if (s.adapter) out += "|" + identity(calibration_file(own_adapter_folder(engine), s.form));
  if (s.head) out += fmt::format("|{}|{}|{}", rounds_key_, words_of(*rounds_), identity(calibration_file(s.head->folder, s.form)));
  return out;
}

Result<std::shared_ptr<KindOfRequest>> Automatic::known(Engine& engine, const Request& request, const FormPtr& form,
                                                        const Prompt& prompt, const DecodeOptions& options, bool earlier,
                                                        const std::optional<HeadFacts>& head, const DecodeContext& context) {
  const Form* f = form ? &form->form : nullptr;
  const int32_t level = level_of(context.company);
  const LmInfo& info = engine.model().lm().info();
  const auto fits = [&](const Method& m) {
    const FormSize size{f ? f->length() : 0, f ? static_cast<int64_t>(f->fields().size()) : 0};
    const int64_t slots = Capacity::of(m, options, f != nullptr).slots_of_answers(request.rollouts, options.limit, size);
    return static_cast<int64_t>(prompt.inputs.size()) + slots <= info.slots;
  };
  std::optional<OwnHead> own;
  if (head) own = OwnHead{.folder = own_head_folder(engine), .block = head->block};
  const std::string kind =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", f ? f->name() : "", request.form, request.unnorm_key,
                  static_cast<int>(options.visibility), options.most_rows, options.activation, fmt::join(options.wanted_first, ","),
                  earlier, request.rollouts, request.rollouts > 1 ? drawn_in(options) : "", level, head.has_value(),
                  fitting(exact_candidates(info, f != nullptr, options.visibility, earlier, own ? &*own : nullptr), fits));
  const std::string key = kind + "|" + request.form_schema;  // whole: others send it, and might send two of one hash
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  auto fresh = std::make_shared<KindOfRequest>();
  KindOfRequest& k = *fresh;
  k.form = form;
  k.model = known_acceptance(engine, f, *costs_, k.calibrated);
  k.shared = k.model;
  k.rollouts = std::max(1, request.rollouts);
  k.shared.pass = share_of(*costs_, level);
  ForecastSettings s{.info = info,
                     .form = f,
                     .options = options,
                     .rollouts = std::min(k.rollouts, kMostForetold),
                     .prompt_rows = static_cast<int32_t>(prompt.inputs.size()),
                     .model = &k.shared,
                     .calibrated = k.calibrated,
                     .shared = level > 1,
                     .cancel = context.cancel};
  s.text_tokens = std::min(s.text_tokens, options.limit);
  if (info.has_draft_adapter) k.of_adapter = acceptance_of_adapter(engine, k.model.pass, f);
  k.shared_of_adapter = k.of_adapter;
  if (k.shared_of_adapter) {
    k.shared_of_adapter->pass = k.shared.pass;
    s.adapter = &*k.shared_of_adapter;
  }
  if (own) {
    own->prompt_ms = rounds_->ms(kept_rows(head->image_context, prompt));
    k.of_head = acceptance_of_head(own->folder, k.model, f, own->calibrated);
    k.of_head->pass = k.shared.pass;
    k.of_head->draft = *rounds_;
    k.of_head->most_drafts = std::min(k.of_head->most_drafts, std::max(1, own->block - 1));
    own->model = &*k.of_head;
    s.head = std::move(own);
  }
  const ForecastStore store(!context.company && !costs_key_.empty() ? UserCache::of_user() : UserCache({}));
  const std::string kept_as = forecasts_key(engine, request, s, kind);
  const std::optional<Foretold> kept = store.find(kept_as);
  SLIP_TRY(k.choice, AutomaticChoice::make(s, earlier, fits, kept ? &*kept : nullptr));
  if (!kept || !(*kept == k.choice->foretold())) store.keep(kept_as, k.choice->foretold());
  return keep(key, std::move(fresh));
}

std::shared_ptr<KindOfRequest> Automatic::keep(const std::string& key, std::shared_ptr<KindOfRequest> kind) {
  constexpr size_t kMostKinds = 256, kMostBytes = size_t{256} << 20;
  constexpr size_t kOfField = 20 << 10;  // what is known of a field's drafts, at most five times
  const size_t fields = kind->form ? kind->form->form.fields().size() : 0;
  const size_t bytes = key.size() + (kind->form ? bytes_of(*kind->form) : 0) + (fields + 1) * kOfField;
  if (known_.size() >= kMostKinds || known_bytes_ + bytes > kMostBytes) forget();
  const auto [at, is_new] = known_.emplace(key, std::move(kind));  // or another request's, who asked for the same meanwhile
  if (is_new) known_bytes_ += bytes;
  return at->second;
}

void Automatic::forget() {
  known_.clear();
  known_bytes_ = 0;
}

Result<std::shared_ptr<KindOfRequest>> Automatic::choose(Engine& engine, const Request& request, const FormPtr& form,
                                                         const Prompt& prompt, const DecodeOptions& options, Method& method,
                                                         DecodeContext& context, ChosenDecoder& chosen) {
  SLIP_TRY_(measure(engine, prompt, context));
  const bool earlier = context.previous && is_of(*context.previous, form ? &form->form : nullptr);
  std::optional<HeadFacts> head;
  if (!form || options.visibility == Visibility::kChain) {
    SLIP_TRY(head, head_for(engine, prompt, context));
  }
  SLIP_TRY(const std::shared_ptr<KindOfRequest> used, known(engine, request, form, prompt, options, earlier, head, context));
  if (!form) SLIP_TRY_(used->choice->follow_lengths());
  if (const Persistence now = used->stays.all(); earlier && is_another(now, used->chosen_at)) {
    used->model.repeats = used->shared.repeats = now.with_parents;
    SLIP_TRY_(used->choice->persist(now));
    used->chosen_at = now;
  }
  if (earlier) used->stays.put(used->model.repeats_F);
  const auto* lent = std::get_if<PreviousSpec>(&method.drafter);
  const std::string name = lent && !lent->name.empty() ? lent->name : "earlier answer";
  const Candidate& best = used->choice->best();
  const bool by_head = std::holds_alternative<DFlashSpec>(best.method.drafter);
  if (by_head) {
    SLIP_TRY(context.draft_head, engine.resources_.own_head(engine, context.cancel));
    if (!context.draft_head) {  // it cannot be read: there is none from now on
      forget();
      return choose(engine, request, form, prompt, options, method, context, chosen);
    }
  }
  method = best.method;
  method.preset = kAutomatic;
  if (auto* previous = std::get_if<PreviousSpec>(&method.drafter)) previous->name = name;
  const auto* diffusion = std::get_if<DiffusionSpec>(&method.drafter);
  const bool by_adapter = diffusion && diffusion->adapter && used->of_adapter;
  context.draft_length_model = by_head ? &*used->of_head : by_adapter ? &*used->of_adapter : &used->model;
  context.draft_length_tracker = &used->trackers[words_of(best.method).drafter];
  chosen = {.name = best.name,
            .costs = costs_from_,
            .calibrated = used->calibrated,
            .expected_ms = used->choice->expected_ms(best),
            .why = used->choice->why(),
            .considered = {}};
  for (const Candidate& c : used->choice->candidates()) chosen.considered.emplace_back(c.name, used->choice->expected_ms(c));
  log(LogLevel::kInfo, "auto: {}", chosen.why);
  context.keeps.push_back(used);
  return used;
}

void Automatic::ran(KindOfRequest& kind, const Decoded& answer, const PreviousAnswer* previous, const Prompt& prompt, bool alone) {
  const Statistics& s = answer.statistics;
  const auto rows = static_cast<int32_t>(prompt.inputs.size());
  const Form* form = kind.form ? &kind.form->form : nullptr;
  const bool by_head = std::holds_alternative<DFlashSpec>(kind.choice->best().method.drafter);
  if (previous && is_of(*previous, form)) kind.stays.saw(*previous, answer, form);
  if (kind.rollouts == 1) kind.choice->ran(s, rows);    // of several, how many rows were whose is not told
  if (!alone || !costs_ || costs_key_.empty()) return;  // a guess is measured as soon as there is time
  // A head's rounds are no passes of the model, whose prices these are.
  const double took = s.ms.prefill + (by_head ? 0 : s.ms.draft) + s.ms.verify, priced = priced_ms(s, *costs_, rows);
  if (!watch_.disproved(took, priced, costs_from_ == "kept from an earlier run")) return;
  watch_.renewed();
  log(LogLevel::kInfo, "auto: costs say {:.2f} ms, the answer took {:.2f}: they will be measured again", priced, took);
  CostStore(UserCache::of_user()).drop(costs_key_);
  if (rounds_) CostStore(UserCache::of_user()).drop(rounds_key_);
  costs_.reset();
}

}  // namespace slip
