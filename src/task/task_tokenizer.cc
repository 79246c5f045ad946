// SPDX-License-Identifier: Apache-2.0
// See task_tokenizer.h.
#include "task/task_tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "sim/record/make.h"
#include "task/wod.h"
#include "text/tokenizer.h"
#include "text/train_bpe.h"

namespace slip {

Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& o) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < o.records; ++i) {
    SLIP_TRY_(o.cancel.check("tokenizer", i, "records"));
    SLIP_TRY(const sim::Record r, sim::make_record(o.first_seed + static_cast<uint64_t>(i), {}, false));
    const PromptText prompt = prompt_text(o.prompt, ego_of(r.labels), o.form);
    texts.push_back(prompt.before_images + prompt.after_images);
    for (const TaskForm form : {TaskForm::kWodE2e, TaskForm::kDriveCot}) {
      if (form != TaskForm::kWodE2e && form != o.form) continue;
      SLIP_TRY(texts.emplace_back(), truth_text(form, r.labels, o.waypoint_step_m));
      if (texts.back().back() == '\n') texts.back().pop_back();  // behind "]]": a line break never merges with what is before it
    }
    texts.push_back(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  }
  TrainBpeOptions bpe;
  bpe.vocab_size = o.vocab;
  bpe.special_tokens.emplace_back("|<MASK>|");
  bpe.special_tokens.emplace_back("<|NULL|>");
  bpe.whole = {"yes", "no",        "keep", "speed",   " speed", " up",   "slow",   " down",  "come", " to", " stop",
               "go",  " straight", "lane", " follow", "turn",   " left", " right", "change", " +",   " -",  "],"};
  if (o.form ==
      TaskForm::kDriveCot)  // the words of a training run's grounding targets (train/data/grounding.h) are single tokens too
    bpe.whole.insert(bpe.whole.end(), {" N", "/A", "\n", " vehicle", "pedestrian", "cyclist", "construction", "traffic", "road",
                                       "emergency", "animal", "special", "door"});
  for (int32_t i = 0; o.codes.codes > 0 && i < o.codes.code_values; ++i) bpe.added_tokens.push_back(code_token(o.codes, i));
  SLIP_TRY(const TrainedBpe trained, train_bpe(texts, bpe));
  return write_tokenizer(trained, folder);
}

namespace {

/// One past the highest id of a tokenizer.json.
Result<int64_t> first_free_id(const json::object& tokenizer, const std::string& where) {
  int64_t next = 0;
  const auto seen = [&](const json::value& id) {
    if (id.is_int64()) next = std::max(next, id.get_int64() + 1);
  };
  SLIP_TRY(const json::object* model, get_object(tokenizer, "model", where));
  SLIP_TRY(const json::object* vocab, get_object(*model, "vocab", where + ": model"));
  for (const auto& entry : *vocab) seen(entry.value());
  SLIP_TRY(const json::array* added, get_array(tokenizer, "added_tokens", where));
  for (const json::value& t : *added)
    if (t.is_object() && t.get_object().contains("id")) seen(t.get_object().at("id"));
  return next;
}

json::object code_entry(const DriveCotOptions& form, int32_t code) {
  return {{"content", code_token(form, code)},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", true}};
}

}  // namespace

Status add_code_tokens(const std::filesystem::path& from, const std::filesystem::path& to, const DriveCotOptions& form) {
  const std::string where = (from / "tokenizer.json").string();
  std::error_code ec;
  if (!std::filesystem::exists(from / "tokenizer.json", ec))
    return unsupported("{}: expected a tokenizer.json, got none", from.string());
  SLIP_TRY(const Tokenizer known, Tokenizer::load(from));  // says what is wrong with it
  for (int32_t c = 0; c < form.code_values; ++c)
    if (known.find(code_token(form, c)))
      return bad_input("{}: expected a tokenizer without the token {}, got one with it", where, code_token(form, c));
  SLIP_TRY(json::value tokenizer, read_json(from / "tokenizer.json"));
  if (!tokenizer.is_object()) return bad_input("{}: expected an object, got another type", where);
  SLIP_TRY(const int64_t first, first_free_id(tokenizer.get_object(), where));
  for (int32_t c = 0; c < form.code_values; ++c) {
    json::object entry{{"id", first + c}};
    for (const auto& [key, value] : code_entry(form, c)) entry[key] = value;
    tokenizer.get_object().at("added_tokens").get_array().push_back(std::move(entry));
  }
  SLIP_TRY_(write_file(to / "tokenizer.json", pretty(tokenizer)));
  if (!std::filesystem::exists(from / "tokenizer_config.json", ec)) return {};
  SLIP_TRY(json::value config, read_json(from / "tokenizer_config.json"));
  json::value* decoder = config.is_object() ? config.get_object().if_contains("added_tokens_decoder") : nullptr;
  for (int32_t c = 0; decoder && decoder->is_object() && c < form.code_values; ++c)
    decoder->get_object()[std::to_string(first + c)] = code_entry(form, c);
  return write_file(to / "tokenizer_config.json", pretty(config));
}

}  // namespace slip
