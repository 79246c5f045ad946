// SPDX-License-Identifier: Apache-2.0
// See codes.h.
#include "task/codes.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip {

namespace {

constexpr size_t kFuture = std::tuple_size_v<decltype(sim::Labels::future)>;  // 6.4 s of 0.1 s
constexpr int32_t kLeastSteps = 50;                                           // 5 s: what plans are measured over

/// The run of codes in the form's section `trajectory`, or nothing.
std::optional<size_t> code_field(const CompiledForm& form) {
  for (size_t f = 0; f < form.meanings.size(); ++f) {
    const auto* bins = std::get_if<BinsMeaning>(&form.meanings[f]);
    const Field& field = form.form.fields()[f];
    if (bins && !bins->number && bins->count > 0 && form.form.sections()[static_cast<size_t>(field.section)].name == "trajectory")
      return f;
  }
  return std::nullopt;
}

double percentile_99(std::vector<double> values) {
  const size_t at = (values.size() * 99 + 99) / 100 - 1;  // the least value that 99 % do not exceed
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

Result<CodebookPtr> load_codebook(const TaskOptions& task, const std::filesystem::path& folder) {
  const DriveCotOptions& form = task.drive_cot;
  if (task.form != TaskForm::kDriveCot || form.codes == 0) return CodebookPtr();
  const std::filesystem::path file = folder / task.codebook;
  std::error_code ec;
  if (!std::filesystem::exists(file, ec))
    return bad_input("{}: expected the codebook {} that its config.json names (slipstream codebook makes one), got none",
                     folder.string(), task.codebook);
  SLIP_TRY(CodebookPtr book, TrajectoryCodebook::load(file));
  const std::string where = file.string();
  if (book->codes() != form.code_values)
    return bad_input("{}: expected {} codes, as many as config.json says that the model has tokens for, got {}", where,
                     form.code_values, book->codes());
  const int64_t all = int64_t{form.codes} * book->steps(), last_begins = all - book->steps();
  if (all < kLeastSteps || last_begins >= static_cast<int64_t>(kFuture))
    return bad_input("{}: expected pieces of which {} are at least {} s and begin within {} s, got pieces of {:.1f} s", where,
                     form.codes, kLeastSteps / 10, 6.4, book->steps() * TrajectoryCodebook::kStepS);
  return book;
}

void lend_codebook(CompiledForm& form, const CodebookPtr& book, const TaskOptions& task, const Tokenizer& tokenizer) {
  if (!book) return;
  const auto f = code_field(form);
  if (!f) return;
  const auto& bins = std::get<BinsMeaning>(form.meanings[*f]);
  const bool same = !bins.descending && bins.size() == book->codes() &&
                    tokenizer.token_text(bins.first) == code_token(task.drive_cot, 0) &&
                    int64_t{bins.count - 1} * book->steps() < static_cast<int64_t>(kFuture);
  if (same) form.codebook = book;
}

std::vector<Pose> future_poses(const sim::Labels& labels) {
  std::vector<Pose> out;
  for (const sim::FutureState& s : labels.future)
    out.push_back({static_cast<double>(s.x), static_cast<double>(s.y), static_cast<double>(s.yaw)});
  return out;
}

std::vector<int32_t> codes_of(std::span<const double> numbers) {
  std::vector<int32_t> out;
  for (const double n : numbers) out.push_back(static_cast<int32_t>(n));
  return out;
}

std::vector<Pose> path_of(const CompiledForm& form, std::span<const FieldValue> values) {
  if (!form.codebook) return {};
  const auto f = code_field(form);
  SLIP_CHECK(f.has_value(), "a form has a codebook for its codes");
  const auto* numbers = *f < values.size() ? std::get_if<std::vector<double>>(&values[*f]) : nullptr;
  if (!numbers) return {};
  std::vector<Pose> path = form.codebook->decode(codes_of(*numbers));
  path.resize(std::min(path.size(), kFuture));
  return path;
}

CodebookError codebook_error(const TrajectoryCodebook& book, std::span<const std::vector<Pose>> futures, int32_t count) {
  SLIP_CHECK(!futures.empty(), "an error of no path means nothing");
  CodebookError out{.paths = static_cast<int64_t>(futures.size())};
  std::vector<std::vector<Pose>> paths;
  for (const std::vector<Pose>& future : futures) {
    paths.push_back(book.decode(book.encode(future, count)));
    SLIP_CHECK(future.size() >= kFuture && paths.back().size() >= kFuture, "callers have codes that reach as far as the futures");
  }
  for (CodebookError::At* at : {&out.at_3s, &out.at_6_4s}) {
    const size_t n = at == &out.at_3s ? 30 : kFuture;
    std::vector<double> last, average;
    for (size_t p = 0; p < paths.size(); ++p) {
      const std::vector<Pose>&future = futures[p], &path = paths[p];
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += distance_m({path[i].x, path[i].y}, {future[i].x, future[i].y});
      average.push_back(sum / static_cast<double>(n));
      last.push_back(distance_m({path[n - 1].x, path[n - 1].y}, {future[n - 1].x, future[n - 1].y}));
    }
    *at = {mean(last), percentile_99(last), mean(average), percentile_99(average)};
  }
  return out;
}

}  // namespace slip
