// SPDX-License-Identifier: Apache-2.0
// `bench text`: texts about simulated scenes whose right answers are known (task/scene_text.h), asked of one model by several decoders: how
// many answers are exactly right, tokens per forward pass, milliseconds. For models/tri, which has one folder for three modes.
#include <algorithm>

#include "base/interrupt.h"
#include "cli/bench/commands.h"
#include "cli/output.h"
#include "cli/study.h"
#include "decode/decoder.h"
#include "models/model.h"
#include "task/scene_text.h"

namespace slip::cli {

namespace {

struct Tally {
  int64_t right = 0, same = 0;  // as the truth; as the first decoder
  int64_t tokens = 0, forwards = 0;
  double ms = 0;
};

struct Question {
  Prompt prompt;
  std::string answer;
};

Result<std::vector<Question>> questions(Model& model, const BenchTextOptions& o) {
  std::vector<Question> out;
  for (int64_t i = 0; i < o.count; ++i) {
    SLIP_TRY_(check_interrupt());
    SLIP_TRY(SceneText text, scene_text_at(static_cast<uint64_t>(o.first_seed), i));
    const ChatMessage message{"user", {TextItem{text.prompt}}};
    SLIP_TRY(Prompt prompt, model.build_prompt(std::vector{message}));
    out.push_back({std::move(prompt), std::move(text.answer)});
  }
  return out;
}

/// Greedy answers of one decoder; `first`: those of the first decoder, filled where it is empty.
Result<Tally> ask_all(Model& model, const Method& method, std::span<const Question> asked, int32_t limit,
                      std::vector<std::string>& first) {
  SLIP_TRY(const Tokenizer* tokenizer, model.need_tokenizer());
  Decoder decoder(model.lm(), method);
  DecodeOptions options;
  options.limit = limit;
  options.end_tokens = model.config().eos;
  const bool leads = first.empty();
  Tally t;
  for (size_t i = 0; i < asked.size(); ++i) {
    SLIP_TRY(const Decoded d, decoder.decode(asked[i].prompt, nullptr, options, {.cancel = CancelToken::of_process()}));
    const std::string text = tokenizer->decode(d.tokens, true);
    if (leads) first.push_back(text);
    t.right += text == asked[i].answer;
    t.same += text == first[i];
    t.tokens += d.statistics.tokens;
    t.forwards += d.statistics.forwards;
    t.ms += d.statistics.ms.total;
  }
  return t;
}

Result<std::unique_ptr<Model>> load(const std::string& folder, int threads) {
  ModelOptions options;
  options.threads = threads;
  options.slots = 1024;
  return load_model(folder, options);
}

double tokens_per_forward(const Tally& t) {
  return static_cast<double>(t.tokens) / static_cast<double>(std::max<int64_t>(1, t.forwards));
}

}  // namespace

Result<json::value> text_answers(const std::string& folder, const StudyMode& mode) {
  const slipstream::DecoderChoice& c = mode.options.decoder;
  SLIP_TRY(Method method, method_of(c.preset));
  SLIP_TRY(method, with_parts(method, "", c.drafter, c.verifier, c.width));
  SLIP_TRY(auto model, load(folder, 0));
  BenchTextOptions o;
  o.count = mode.options.count;
  o.first_seed = static_cast<int64_t>(mode.options.first_seed);
  SLIP_TRY(const std::vector<Question> asked, questions(*model, o));
  std::vector<std::string> first;
  SLIP_TRY(const Tally t, ask_all(*model, method, asked, o.max_tokens, first));
  const auto n = static_cast<double>(asked.size());
  return json::value{{"texts", asked.size()},
                     {"right", static_cast<double>(t.right) / n},
                     {"tokens_per_forward", tokens_per_forward(t)},
                     {"ms", t.ms / n}};
}

Status bench_text(const BenchTextOptions& o) {
  SLIP_TRY(auto model, load(o.model, o.threads));
  SLIP_TRY(const std::vector<Question> asked, questions(*model, o));
  std::vector<std::string> first;
  if (!o.json)
    print_text(fmt::format("{:<28} {:>8} {:>10} {:>16} {:>12}\n", "decoder", "right", "as first", "tokens/forward", "ms/answer"));
  for (const std::string& words : o.decoders) {  // PRESET or PRESET/VERIFIER or PRESET/VERIFIER/WIDTH
    const size_t a = words.find('/'), b = a == std::string::npos ? a : words.find('/', a + 1);
    SLIP_TRY(Method method, method_of(words.substr(0, a)));
    const std::string verifier = a == std::string::npos ? "" : words.substr(a + 1, b == std::string::npos ? b : b - a - 1);
    SLIP_TRY(method, with_parts(method, "", "", verifier, b == std::string::npos ? "" : words.substr(b + 1)));
    SLIP_TRY(const Tally t, ask_all(*model, method, asked, o.max_tokens, first));
    const double n = static_cast<double>(asked.size()), per = tokens_per_forward(t);
    if (o.json)
      print_json({{"decoder", words},
                  {"texts", asked.size()},
                  {"right", static_cast<double>(t.right) / n},
                  {"as_first", static_cast<double>(t.same) / n},
                  {"tokens_per_forward", per},
                  {"ms", t.ms / n},
                  {"lossy", method.lossy()}});
    else
      print_text(fmt::format("{:<28} {:>8.3f} {:>10.3f} {:>16.2f} {:>12.2f}\n", words, static_cast<double>(t.right) / n,
                             static_cast<double>(t.same) / n, per, t.ms / n));
  }
  return {};
}

}  // namespace slip::cli
