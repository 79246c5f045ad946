// SPDX-License-Identifier: Apache-2.0
// See recorded_acceptance.h.
#include "cli/bench/recorded_acceptance.h"

#include <algorithm>

#include "decode/draft_length/model_file.h"
#include "decode/types/capacity.h"
#include "forecast/automatic.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

/// By field of the file its number in the form; kBadInput where the form has a field that the file does not know.
Result<std::vector<std::optional<int32_t>>> fields_in(const Form& form, const DraftLengthModel& read, const fs::path& file) {
  std::vector<std::optional<int32_t>> out(read.fields.size());
  for (size_t f = 0; f < form.fields().size(); ++f) {
    const auto at = std::find(read.fields.begin(), read.fields.end(), form.fields()[f].name);
    if (at == read.fields.end())
      return bad_input("{}: expected how often drafts hold of `{}`, as the recorded answer {} has it, got none", file.string(),
                       form.fields()[f].name, form.name());
    out[static_cast<size_t>(at - read.fields.begin())] = static_cast<int32_t>(f);
  }
  return out;
}

/// What the file says of the form's fields; lengths are the recorded contents'.
DraftLengthModel model_for(const RecordedForm& answer, const DraftLengthModel& read, std::span<const std::optional<int32_t>> fields,
                           CostTable costs) {
  DraftLengthModel out = DraftLengthModel::uninformed(std::move(costs), &answer.form);
  out.drafter = read.drafter;
  out.most_drafts = read.most_drafts;
  out.static_draft_length = read.static_draft_length;
  out.survival = Survival(static_cast<int32_t>(answer.form.fields().size()));
  read.survival.for_each([&](Survival::Cell cell, const Survival::Count& count) {
    if (cell.field) cell.field = fields[static_cast<size_t>(*cell.field)];
    if (cell.field) out.survival.add(cell, count);
  });
  out.survival.fit();
  constexpr int64_t kSure = 100;
  for (size_t f = 0; f < answer.contents.size(); ++f)
    out.lengths.add(static_cast<int32_t>(f), static_cast<int32_t>(answer.contents[f].size()), kSure);
  return out;
}

}  // namespace

Result<RecordedAcceptance> recorded_acceptance(const fs::path& file_or_folder, CostTable costs) {
  std::error_code ec;
  const fs::path file = fs::is_directory(file_or_folder, ec) ? file_or_folder / "width.json" : file_or_folder;
  SLIP_TRY(const DraftLengthModel read, read_draft_length_model(file));
  const bool graph =
      read.form == "drive-cot" || std::find(read.fields.begin(), read.fields.end(), "ego_behavior") != read.fields.end();
  SLIP_TRY(RecordedForm answer, graph ? drive_cot_answer() : fast_ddrive_answer());
  SLIP_TRY(const auto fields, fields_in(answer.form, read, file));
  DraftLengthModel model = model_for(answer, read, fields, std::move(costs));
  return RecordedAcceptance{file, std::move(answer), graph ? Visibility::kGraph : Visibility::kChain, std::move(model)};
}

Result<QuickestMethod> quickest_method(const RecordedAcceptance& of, const LmInfo& info, const DecodeOptions& options,
                                       int32_t prompt_rows, bool earlier, CancelToken cancel) {
  const Form& form = of.answer.form;
  const auto fits = [&](const Method& m) {
    const FormSize size{form.length(), static_cast<int64_t>(form.fields().size())};
    return prompt_rows + Capacity::of(m, options, true).slots_of_answers(1, options.limit, size) <= info.slots;
  };
  const ForecastSettings settings{
      .info = info, .form = &form, .options = options, .prompt_rows = prompt_rows, .model = &of.model, .cancel = std::move(cancel)};
  SLIP_TRY(const AutomaticChoice choice, AutomaticChoice::make(settings, earlier, fits));
  return QuickestMethod{choice.best().method, choice.best().name, choice.why()};
}

}  // namespace slip::cli
