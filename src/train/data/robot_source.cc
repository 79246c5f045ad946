// SPDX-License-Identifier: Apache-2.0
// See robot_source.h.
#include "train/data/robot_source.h"

#include "base/file.h"
#include "image/image.h"
#include "import/json_records.h"
#include "models/config/openvla.h"
#include "models/model.h"
#include "train/data/known_keys.h"
#include "train/data/shuffle.h"
#include "train/data/special_token.h"
#include "train/data/vit_inputs.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

struct Step {
  RobotStep said;
  std::vector<TokenId> answer;
  std::string where;
};

struct Parts {
  ModelConfig config;
  Tokenizer tokenizer;
  VitInputs vit;
  TokenId blank;
  fs::path folder;
  std::vector<Step> steps;
  int64_t first = 0, count = 0;
};

class RobotSource : public SampleSource {
 public:
  explicit RobotSource(Parts parts) : p_(std::move(parts)) {}

  Result<Sample> get(int64_t index) override {
    const Step& step = p_.steps[static_cast<size_t>(p_.first + shuffled(index, p_.count))];
    auto sample = make(step);
    if (!sample) return bad_input("{}: {}", step.where, sample.error().message);
    return sample;
  }
  std::vector<SamplePart> parts() const override { return {{.size = p_.count, .shuffled = true}}; }

 private:
  Result<Sample> make(const Step& step) const {
    Sample out;
    std::vector<Image> images;
    for (const std::string& name : step.said.pictures) {
      const fs::path file = p_.folder / name;
      SLIP_TRY(const std::string bytes, read_file(file));
      SLIP_TRY(Image image, decode_image(std::as_bytes(std::span(bytes)), file.string()));
      images.push_back(std::move(image));
    }
    const std::string text = openvla_prompt(p_.config.action->prompt, step.said.instruction);
    SLIP_TRY(std::vector<TokenId> prompt, prompt_tokens(p_.config, p_.tokenizer, text));
    if (prompt.empty() || prompt.back() != p_.blank) prompt.push_back(p_.blank);
    SLIP_TRY_(p_.vit.add_rows(prompt, images, out));
    out.block.assign(out.tokens.size(), -1);
    out.response.assign(out.tokens.size(), 0);
    for (const TokenId id : step.answer) {
      out.positions.push_back(Position::text(static_cast<int32_t>(out.tokens.size())));
      out.tokens.push_back(id);
      out.block.push_back(0);
      out.response.push_back(1);
    }
    out.fixed.assign(out.tokens.size(), 0);
    SLIP_TRY_(check_sample(out));
    return out;
  }

  Parts p_;
};

Result<std::vector<Step>> read_steps(const fs::path& file, const ActionConfig& action, const ActionStatistics& statistics,
                                     TokenId end) {
  const ActionBins bins(action.bound, action.bins);
  std::vector<Step> out;
  SLIP_TRY_(each_robot_step(file, [&](RobotStep&& step, std::string_view where) -> Status {
    if (step.action.size() != statistics.q01.size())
      return bad_input("{}: action: expected {} numbers as the statistics have, got {}", where, statistics.q01.size(),
                       step.action.size());
    SLIP_TRY(const std::vector<double> normalised, normalise(step.action, statistics));
    Step& s = out.emplace_back(Step{std::move(step), {}, std::string(where)});
    for (const double x : normalised) s.answer.push_back(bins.encode(x));
    s.answer.push_back(end);
    return {};
  }));
  return out;
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_robot_source(const json::object& data, const std::string& folder) {
  SLIP_TRY_(only_keys(data, {"kind", "records", "model", "unnorm_key", "first", "count"}, "data"));
  if (folder.empty()) return bad_input("tokenizer: expected a folder beside data of kind \"actions\", got none");
  SLIP_TRY(const std::string records, get_string(data, "records", "data"));
  SLIP_TRY(const std::string model, get_string(data, "model", "data"));
  SLIP_TRY(const std::string key, string_or(data, "unnorm_key", "", "data"));
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(folder));
  SLIP_TRY(ModelConfig config, load_config(fs::path(model).parent_path(), &tokenizer));
  if (!config.action)
    return bad_input("{}: expected a model that answers with actions (OpenVLA), got {}", model, config.architecture);
  const auto chosen = choose_statistics(*config.action, key);
  if (!chosen) return bad_input("data: unnorm_key: {}", chosen.error().message);
  SLIP_TRY(const TokenId blank, special_token(tokenizer, action_blank(config.action->prompt), folder));
  const bool qwen = config.action->prompt == ActionConfig::Prompt::kQwen;
  SLIP_TRY(const TokenId end, special_token(tokenizer, qwen ? "<|im_end|>" : "</s>", folder));
  SLIP_TRY(std::vector<Step> steps, read_steps(records, *config.action, (*chosen)->second, end));
  SLIP_TRY(const auto asked, asked_of(data, static_cast<int64_t>(steps.size()), "steps of " + records));
  SLIP_TRY(VitInputs vit, VitInputs::of(config, model));
  return std::unique_ptr<SampleSource>(
      std::make_unique<RobotSource>(Parts{std::move(config), std::move(tokenizer), std::move(vit), blank,
                                          fs::path(records).parent_path(), std::move(steps), asked.first, asked.second}));
}

}  // namespace slip
