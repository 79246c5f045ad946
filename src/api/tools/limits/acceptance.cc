// SPDX-License-Identifier: Apache-2.0
// See acceptance.h.
#include "api/tools/limits/acceptance.h"

#include <algorithm>

#include "decode/types/presets.h"
#include "engine/resources.h"

namespace slip::api {

namespace {

/// Where nothing was calibrated: of a form's drafts half hold, of free text's a third, as `auto` assumes (engine/automatic.cc).
constexpr double kFormOdds = 0.5, kTextOdds = 1.0 / 3;

/// Survival that says one share of every draft.
DraftLengthModel with_odds(double kept, CostTable pass, const Form* form) {
  constexpr int64_t kMany = 10'000'000;
  DraftLengthModel m = DraftLengthModel::uninformed(std::move(pass), form);
  m.survival = Survival(m.survival.fields());  // nothing else is known: every cell leans on these
  for (int32_t top = 0; top < Survival::kTop; ++top)
    m.survival.add({.top = top}, {static_cast<int64_t>(std::lround(kept * kMany)), kMany});
  m.survival.fit();
  return m;
}

Result<AcceptanceProfile> profile_of(const LimitsWork& w, const CostTable& pass, const CostTable* rounds) {
  const Form* form = w.model.plain_form();
  const double asked = w.options.acceptance;
  AcceptanceProfile p;
  p.guessed = asked < 0;
  p.odds = asked >= 0 ? asked : form ? kFormOdds : kTextOdds;
  p.words = asked >= 0 ? fmt::format("{:.3g} of tested drafts hold", asked)
                       : fmt::format("{:.3g} of tested drafts hold, a guess: nothing was calibrated (eval --calibrate)", p.odds);
  p.own = with_odds(p.odds, pass, form);
  const auto stored = [&](const std::filesystem::path& folder) -> std::optional<DraftLengthModel> {
    auto found = w.model.lone ? Result<std::optional<DraftLengthModel>>(std::optional<DraftLengthModel>())
                              : calibration_in(calibration_file(folder, form), form);
    if (!found) p.words += "; " + found.error().message;
    if (!found || !*found) return std::nullopt;
    (**found).pass = pass;
    return std::move(*found);
  };
  if (auto own = stored(w.model.folder)) {
    if (asked < 0) {
      p.guessed = false;
      p.own = std::move(*own);
      p.words = "the folder's " + calibration_file(w.model.folder, form).filename().string();
    } else {
      p.own.lengths = own->lengths;
    }
  }
  if (!w.model.adapter.empty()) {
    if (asked < 0) p.adapter = stored(w.model.adapter);
    if (asked >= 0) {
      p.adapter = p.own;
      p.adapter->drafter = "diffusion:lora";  // no surer than what was asked for
    }
  }
  if (!w.model.head || !rounds) return p;
  if (asked < 0) p.head = stored(w.model.head->folder);
  p.head_calibrated = asked >= 0 || p.head.has_value();
  if (!p.head) {
    p.head = with_odds(p.odds, pass, form);
    p.head->lengths = p.own.lengths;
  }
  p.head->draft = *rounds;
  p.head->most_drafts = std::min(p.head->most_drafts, std::max(1, w.model.head->block - 1));
  return p;
}

Candidate candidate_of(std::string_view name, Method method) {
  return {.method = std::move(method), .name = std::string(name), .expected = {}};
}

}  // namespace

Status fill_prices(const LimitsWork& w, const CostTable& pass, const CostTable* rounds, double head_prompt, int32_t text_tokens,
                   Prices& to) {
  SLIP_TRY(to.profile, profile_of(w, pass, rounds));
  to.head_prompt_ms = head_prompt;
  to.settings = {.info = w.model.info,
                 .form = w.model.plain_form(),
                 .options = {.visibility = w.model.task.visibility},
                 .prompt_rows = w.model.prompt_rows,
                 .text_tokens = text_tokens,
                 .model = &to.profile.own,
                 .adapter = to.profile.adapter ? &*to.profile.adapter : nullptr,
                 .cancel = w.cancel,
                 .typical = std::make_shared<TypicalAnswers>()};
  if (!to.profile.head) return {};
  to.settings.head = OwnHead{.folder = w.model.head->folder,
                             .block = w.model.head->block,
                             .model = &*to.profile.head,
                             .calibrated = to.profile.head_calibrated};
  return {};
}

std::vector<Candidate> candidates_of(const LimitsWork& w, const OwnHead* head) {
  const bool form = w.model.form.has_value();
  std::vector<Candidate> all = exact_candidates(w.model.info, form, w.model.task.visibility, false, head);
  if (form) all.insert(all.begin(), candidate_of("ar", *method_of("ar")));
  for (const Preset& p : kPresets) {
    const auto known = [&](const Candidate& c) { return c.name == p.name; };
    if (std::ranges::none_of(all, known)) all.push_back(candidate_of(p.name, *method_of(p.name)));
  }
  return all;
}

std::string refusal_of(const Candidate& c, const LimitsWork& w, bool head) {
  if (std::holds_alternative<DFlashSpec>(c.method.drafter) && !head)
    return "expected a draft head in the model's folder (dflash), got none";
  if (c.method.schedule == Schedule::kFields && w.model.form && w.model.task.visibility != Visibility::kGraph)
    return "expected a model that was trained for graph visibility, got one of chain visibility";
  return "";
}

}  // namespace slip::api
