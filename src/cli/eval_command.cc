// SPDX-License-Identifier: Apache-2.0
// `eval`: a decoder over a record set, or over held-out scenes simulated on the way.
#include "base/file.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "eval/evaluate.h"

namespace slip::cli {

namespace {

// Records of a set, or made from seeds.
class Records {
 public:
  static Result<Records> open(const EvalOptions& o) {
    Records out;
    if (o.records.empty()) {
      out.first_seed_ = o.seed ? o.seed : kFirstHeldOutScene;
      out.size_ = o.count > 0 ? o.count : 500;
      return out;
    }
    SLIP_TRY(out.set_, sim::RecordSet::open(o.records));
    out.size_ = o.count > 0 ? std::min(o.count, out.set_->size()) : out.set_->size();
    return out;
  }
  int64_t size() const { return size_; }
  Result<sim::Record> get(int64_t i) const {
    if (!set_) return sim::make_record(first_seed_ + static_cast<uint64_t>(i));
    SLIP_TRY(const sim::Labels labels, set_->labels(i));
    SLIP_TRY(const auto images, set_->pictures(i));
    return sim::Record{labels, {images.begin(), images.end()}};
  }

 private:
  std::optional<sim::RecordSet> set_;
  uint64_t first_seed_ = 0;
  int64_t size_ = 0;
};

json::object record_line(const sim::Labels& labels, const Answer& a) {
  return {{"seed", labels.seed},      {"family", sim::family_names()[labels.family]},     {"pre_onset", labels.pre_onset},
          {"valid", a.decoded.valid}, {"fields", values_to_json(a.form->form, a.values)}, {"statistics", statistics_json(a)}};
}

}  // namespace

Status eval(const EvalOptions& o) {
  SLIP_TRY(const Method method, method_of(o.decoder));
  json::value limits;
  if (!o.require.empty()) {
    SLIP_TRY(limits, read_json(o.require));
    if (!limits.is_object()) return bad_input("{}: expected an object, got another type", o.require);
  }
  SLIP_TRY(const Records records, Records::open(o));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads));
  EvalSettings settings{method, static_cast<float>(o.temperature), o.seed, o.blank_images};
  Evaluation sums;
  std::string lines;
  Progress progress("evaluating", records.size());
  for (int64_t i = 0; i < records.size(); ++i) {
    SLIP_TRY_(check_interrupt());
    SLIP_TRY(const sim::Record r, records.get(i));
    SLIP_TRY(const Answer answer, evaluate_record(*engine, r.labels, r.images, settings, sums));
    if (!o.out.empty()) lines += json::serialize(record_line(r.labels, answer)) + "\n";
    progress.update(i + 1);
  }
  progress.finish();
  if (!o.out.empty()) SLIP_TRY_(write_file(o.out, lines));
  json::object result = sums.to_json();
  result["decoder"] = decoder_json(method);
  result["blank_images"] = o.blank_images;
  result["model"] = o.model;
  if (o.json) {
    print_json(result);
  } else {
    print_text(evaluation_table(sums));
  }
  if (!o.require.empty()) return check_limits(result, limits.get_object(), o.require);
  return {};
}

}  // namespace slip::cli
