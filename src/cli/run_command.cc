// SPDX-License-Identifier: Apache-2.0
// `run`: one answer.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/progress.h"
#include "base/standard_streams.h"
#include "cli/output.h"
#include "cli/requests.h"
#include "image/image.h"
#include "nn/arena.h"

namespace slip::cli {

namespace {

/// Bins are ids without a spelling that says anything: their numbers do.
bool answers_in_bins(const Answer& a) {
  return a.form && a.decoded.valid && std::any_of(a.form->meanings.begin(), a.form->meanings.end(), [](const FieldMeaning& m) {
           return std::holds_alternative<BinsMeaning>(m);
         });
}

void print_answer(const Answer& a) {
  print_text(a.text + "\n");
  if (!a.action && answers_in_bins(a)) print_text(json::serialize(values_to_json(a.form->form, a.values)) + "\n");
  if (a.action) print_text(fmt::format("{}: {:.6f}\n", a.action->unnorm_key, fmt::join(a.action->values, " ")));
  const Statistics& s = a.decoded.statistics;
  const MethodWords w = words_of(a.method);
  std::string line = fmt::format("{} ({} x {} x {}, width {}){}: {} forward passes, {} rows, {} tokens ({} forced)",
                                 a.method.preset, w.schedule, w.drafter, w.verifier, w.width, a.method.lossy() ? " (lossy)" : "",
                                 s.forwards, s.rows, s.tokens, s.forced_tokens);
  if (s.drafter_forwards > 0) line += fmt::format(", {} passes of the drafter", s.drafter_forwards);
  if (s.tested > 0) line += fmt::format(", {}/{} drafts accepted", s.accepted, s.tested);
  if (s.relaxed_accepts > 0) line += fmt::format(", {} of them by relaxed bins", s.relaxed_accepts);
  line += fmt::format("; {:.1f} ms: encode {:.1f}, prefill {:.1f}, draft {:.1f}, verify {:.1f}, plan {:.1f}", a.stages.total_ms,
                      a.stages.encode_ms, s.ms.prefill, s.ms.draft, s.ms.verify, a.stages.plan_ms);
  if (!a.decoded.valid) line += "\nthe answer is not one of the form's";
  say(line + "\n");
}

std::string_view key_word(KvType type) { return type == KvType::kF32 ? "f32" : type == KvType::kBF16 ? "bf16" : "int8"; }

/// What the answer depends on besides the question, the decoder and the seed: with them it can be had again.
void add_settings(const RunOptions& o, Engine& engine, const Request& request, json::object& out) {
  const ModelOptions& m = engine.model().options();
  out["dtype"] = word_of(m.type);
  out["kv"] = key_word(m.kv_type.value_or(kv_type_of(m.type)));
  out["device"] = m.device;
  if (!request.form.empty())
    out["law"] = request.visibility.value_or(engine.visibility()) == Visibility::kGraph ? "graph" : "chain";
  out["temperature"] = o.temperature;
  out["section_temperatures"] = json::value_from(o.section_temperatures);
  out["top_k"] = o.top_k;
  out["top_p"] = o.top_p;
  out["min_p"] = o.min_p;
  out["repetition_penalty"] = o.repetition;
  out["repetition_last"] = o.repetition_last;
  if (request.form.empty()) out["max_tokens"] = request.decode.limit;
  out["rollouts"] = o.rollouts;
  out["fit"] = o.fit;
  out["blank_images"] = o.blank_images;
}

/// The picture would replace the trace, or half of it.
Status check_outputs(const RunOptions& o) {
  namespace fs = std::filesystem;
  if (o.trace.empty() || o.picture.empty()) return {};
  std::error_code ec;
  if (fs::exists(o.trace, ec) && !fs::is_regular_file(o.trace, ec)) return {};  // /dev/null takes both
  if (fs::weakly_canonical(fs::absolute(o.trace, ec), ec) != fs::weakly_canonical(fs::absolute(o.picture, ec), ec)) return {};
  return usage_error("--picture: expected another file than that of --trace, got {}", o.picture);
}

}  // namespace

Status run(const RunOptions& o) {
  SLIP_TRY_(check_outputs(o));
  SLIP_TRY(Prepared prepared, prepare(o));
  SLIP_TRY(const int slots, slots_for(o, prepared.request));
  SLIP_TRY(const std::unique_ptr<Engine> engine, load_engine(o.model, o.dtype, o.threads, slots, o.device, o.kv));
  SLIP_TRY(prepared.request.method, method_from(o, engine.get(), !prepared.request.form.empty()));
  Progress progress("decoding", 0);
  prepared.request.context.on_progress = [&](const DecodeProgress& p) { progress.update(p.decided, "tokens"); };
  SLIP_TRY(const Answer answer, engine->run(prepared.request));
  progress.finish();
  if (!o.trace.empty()) SLIP_TRY_(write_file(o.trace, json::serialize(trace_of(answer)) + "\n"));
  if (!o.picture.empty()) SLIP_TRY_(save_png(o.picture, draw_picture(picture_of(prepared, answer))));
  if (o.json) {
    json::object result = answer_json(*engine, answer, prepared.request, o.model);
    add_settings(o, *engine, prepared.request, result);
    print_json(result);
  } else {
    print_answer(answer);
  }
  return {};
}

}  // namespace slip::cli
