// SPDX-License-Identifier: Apache-2.0
// slipstream::verify: the proof of eval/verify.h for one model, told line by line; golden values where the folder has them.
//
// golden.json: {"<bits>": {"<dtype>": "<16 hex digits>"}}, the "hash" of `verify --json` on an instruction set with these "bits".
#include "eval/verify.h"

#include <filesystem>

#include "api/boundary.h"
#include "api/engines.h"
#include "api/request/requests.h"
#include "api/tools/reports.h"
#include "base/threads/threads.h"
#include "decode/types/method.h"
#include "eval/evaluate.h"
#include "models/weights/packed_folder.h"
#include "sim/record/make.h"
#include "slipstream/engine.h"
#include "task/arm_prompt.h"

namespace slip::api {

namespace {

// One, two, and what `run` uses here.
std::vector<int> thread_counts() {
  std::vector<int> out{1, 2};
  if (usable_threads() > 2) out.push_back(usable_threads());
  return out;
}

bool was_trained_for_driving(const std::filesystem::path& folder) {
  const auto config = read_json(folder / "config.json");
  return config && config->is_object() && config->get_object().contains("slipstream");
}

// Against golden.json; nothing where the folder, the kind of bits or the type has no value.
Result<Check> check_golden(const std::filesystem::path& folder, std::string_view bits, std::string_view type,
                           const std::string& hash) {
  Check check{.name = "golden", .compared = fmt::format("nothing: no golden value for {} {}", bits, type)};
  const std::filesystem::path file = folder / "golden.json";
  std::error_code ec;
  if (!std::filesystem::exists(file, ec)) return check;
  SLIP_TRY(const json::value stored, read_json(file));
  if (!stored.is_object()) return bad_input("{}: expected an object, got another type", file.string());
  const json::value* types = stored.get_object().if_contains(bits);
  if (!types) return check;
  if (!types->is_object()) return bad_input("{}: {}: expected an object, got another type", file.string(), bits);
  if (!types->get_object().contains(type)) return check;
  SLIP_TRY(const std::string expected, get_string(types->get_object(), type, file.string()));
  check.compared = fmt::format("the hash of the logits with golden.json, {} {}", bits, type);
  check.bytes = sizeof(uint64_t);
  check.passed = expected == hash;
  if (!check.passed) check.difference = fmt::format("{} {}: expected 0x{}, got 0x{}", bits, type, expected, hash);
  return check;
}

/// What the model was trained to be asked: a scene, or an arm's state.
Request question(const Engine& engine, const sim::Record& record, const EvalSettings& settings) {
  Request out = request_of(record.labels, record.images, settings);
  if (engine.task().body != Body::kArm) return out;
  out.ego.reset();
  out.images.clear();
  out.prompt = arm_prompt(sim::arm_state(kHeldOutScene));
  return out;
}

// A preset that needs a folder beside the model, over the scene's form, against ar.
Result<Check> check_helper(Engine& engine, std::string_view preset, const std::string& drafter, const sim::Record& record,
                           const CancelToken& cancel) {
  Check check{.name = std::string(preset), .compared = fmt::format("{} against ar, greedy and a seed at temperature 0.8", drafter)};
  for (const float temperature : {0.0F, 0.8F}) {
    Request request =
        question(engine, record, {.temperature = temperature, .seed = 1, .context = {.cancel = cancel}, .reuse_prompt = false});
    SLIP_TRY(request.method, method_of("ar"));
    SLIP_TRY(const Answer slow, engine.run(request));
    SLIP_TRY(request.method, with_parts(*method_of(preset), "", drafter, "", ""));
    SLIP_TRY(const Answer fast, engine.run(request));
    check.bytes += static_cast<int64_t>(fast.decoded.tokens.size() * sizeof(TokenId));
    if (fast.decoded.tokens == slow.decoded.tokens || !check.passed) continue;
    check.passed = false;
    check.difference = fmt::format("{} at temperature {}: expected the tokens of ar, got others", preset, temperature);
  }
  return check;
}

// A simulated record or an arm's state over the form that the model was trained for, or a form of two fields; free text besides.
Status check_answers(Engine& engine, const slipstream::VerifyOptions& o, const slipstream::Progress& progress,
                     const CancelToken& cancel, std::vector<Check>& checks) {
  Model& model = engine.model();
  const int32_t vocab = model.lm().info().vocab;
  const Prompt plain = random_tokens(32, vocab, 7);
  DecodeOptions options{.visibility = engine.visibility(), .limit = 48};  // no end tokens: all 48 are compared
  DecodeContext context{.cancel = cancel};
  context.on_progress = [&](const DecodeProgress& p) {
    if (progress) progress("comparing", p.forwards, 0);
  };
  if (model.tokenizer() && was_trained_for_driving(model.folder())) {
    SLIP_TRY(const sim::Record record, sim::make_record(kHeldOutScene));
    SLIP_TRY(const FormPtr form, engine.form("model"));
    SLIP_TRY(const Prompt prompt, engine.prompt(question(engine, record, {.context = context})));
    SLIP_TRY(Check check, check_decoders(model.lm(), prompt, &form->form, options, context));
    checks.push_back(std::move(check));
    for (const auto& [preset, drafter, folder] :
         {std::tuple{"draft-model", "model:", o.draft_model}, {"dflash", "dflash:", o.dflash}}) {
      if (folder.empty()) continue;
      SLIP_TRY(Check one, check_helper(engine, preset, drafter + folder, record, cancel));
      checks.push_back(std::move(one));
    }
  } else if (!o.draft_model.empty() || !o.dflash.empty()) {
    return unsupported("verify: --draft-model and --dflash: expected a model that was trained for the driving task, got another");
  } else {
    SLIP_TRY(const Form form, plain_form(vocab));
    SLIP_TRY(Check check, check_decoders(model.lm(), plain, &form, options, context));
    checks.push_back(std::move(check));
  }
  SLIP_TRY(Check text, check_decoders(model.lm(), plain, nullptr, options, context));
  checks.push_back(std::move(text));
  return {};
}

// Whether a packed folder's weights are those that were written; nothing of other folders.
Result<std::optional<Check>> check_weights(const std::filesystem::path& folder, const CancelToken& cancel) {
  SLIP_TRY(const std::optional<PackedFolder> packed, read_packed_folder(folder));
  if (!packed) return std::optional<Check>();
  if (packed->hash.empty())
    return std::optional(
        Check{.name = "weights", .compared = fmt::format("nothing: {} has no checksum (quantize again)", kPackedFile)});
  SLIP_TRY(const std::string now, hash_of_weights(folder, cancel));
  std::error_code ec;
  Check check{.name = "weights", .compared = fmt::format("model.safetensors with its checksum in {}", kPackedFile)};
  check.bytes = static_cast<int64_t>(std::filesystem::file_size(folder / "model.safetensors", ec));
  check.passed = now == packed->hash;
  if (!check.passed) check.difference = fmt::format("model.safetensors: expected checksum {}, got {}", packed->hash, now);
  return std::optional(std::move(check));
}

json::object check_json(const Check& c) {
  json::object out{{"check", c.name}, {"compared", c.compared}, {"bytes", c.bytes}, {"passed", c.passed}};
  if (!c.passed) out["difference"] = c.difference;
  return out;
}

std::string check_line(const Check& c) {
  const std::string_view word = !c.passed ? "FAILED" : c.bytes ? "equal" : "-";
  std::string line = fmt::format("  {:<10} {:<7} {:>14} bytes  {}\n", c.name, word, c.bytes, c.compared);
  if (!c.passed) line += fmt::format("  {:<10} {}\n", "", c.difference);
  return line;
}

Status outcome_of(const std::vector<Check>& checks) {
  for (const Check& c : checks)
    if (!c.passed) return check_failed("verify: {}: {}", c.name, c.difference);
  return {};
}

Result<slipstream::Report> verify(const std::string& folder, const slipstream::VerifyOptions& o,
                                  const slipstream::Progress& progress, const slipstream::CancelToken& cancel) {
  const auto verifying = [&](int64_t done, int64_t total) {
    if (progress) progress("verifying", done, total);
  };
  // First: whatever else is wrong with weights that were changed says less.
  SLIP_TRY(const std::optional<Check> weights, check_weights(folder, cancel));
  if (weights && !weights->passed) return check_failed("verify: weights: {}", weights->difference);
  std::shared_ptr<Engine> engine;  // one at a time: a big model fits once
  const LmFactory make = [&](int threads) -> Result<std::shared_ptr<Lm>> {
    engine.reset();
    const EngineOptions how{.dtype = o.dtype, .threads = threads, .device = o.device, .kv_type = o.kv_type};
    SLIP_TRY(engine, Engine::load(folder, how, load_progress(progress, cancel)));
    return std::shared_ptr<Lm>(engine, &engine->model().lm());
  };
  const VerifySettings settings{.max_width = o.max_width, .progress = verifying, .cancel = cancel};
  SLIP_TRY(RowProof proof, prove_rows(make, thread_counts(), settings));
  SLIP_TRY(Check images, check_images(engine->model(), cancel));
  proof.checks.push_back(std::move(images));
  SLIP_TRY_(check_answers(*engine, o, progress, cancel, proof.checks));
  const bool here = o.device == "cpu";
  const std::string_view isa = here ? word_of(isa_choice().isa) : "cuda", bits = here ? bits_of(isa_choice().isa) : "cuda",
                         type = word_of_type(engine->model().options().type);
  const std::string hash = fmt::format("{:016x}", proof.alone.hash(settings.prompt_rows));
  SLIP_TRY(Check golden, check_golden(folder, bits, type, hash));
  if (weights) proof.checks.push_back(*weights);
  proof.checks.push_back(std::move(golden));

  json::array lines;
  std::string text = fmt::format("{}, {}, {}; hash of the logits {}\n", folder, type, isa_choice().reason, hash);
  for (const Check& c : proof.checks) {
    lines.push_back(check_json(c));
    text += check_line(c);
  }
  Status outcome = outcome_of(proof.checks);
  const json::object result{{"model", folder},
                            {"isa", isa},
                            {"bits", bits},
                            {"type", type},
                            {"hash", hash},
                            {"checks", lines},
                            {"passed", outcome.has_value()}};
  return report_of(result, std::move(text), std::move(outcome));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> verify(const std::string& folder, const VerifyOptions& options, const Progress& progress,
                      const CancelToken& cancel) {
  return slip::api::bounded([&] { return slip::api::verify(folder, options, progress, cancel); });
}

}  // namespace slipstream
