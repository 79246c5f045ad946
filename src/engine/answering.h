// SPDX-License-Identifier: Apache-2.0
// One request under way: what it owns while the stages admit, form, encode, prefill, draft, verify, plan turn it into an answer. What all
// requests share (weights, forms, kept prompt, loaded helpers) stays with the engine. Inside of engine/.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/measure.h"
#include "engine/engine.h"
#include "image/qwen_preprocess.h"
#include "models/video_prompt.h"

namespace slip {

class FlowHead;
struct KindOfRequest;  // automatic.h

class Answering {
 public:
  /// Without a seat it takes its turn.
  Answering(Engine& engine, const Request& request, Seat* seat = nullptr)
      : engine_(engine), model_(engine.model()), request_(request), seat_(seat) {}
  /// Everything; waits for its turn where passes begin.
  Result<Answer> run();
  /// The prompt's rows, images encoded; the caller has the turn (prompt.cc).
  Result<Prompt> encode();

 private:
  // Prompts (prompt.cc).
  Status preprocess(std::span<const Image> images, std::vector<PatchGrid>& grids);
  Result<std::vector<VideoPatches>> preprocess(std::span<const VideoClip> clips) const;
  Result<std::string> user_text() const;
  std::vector<float> history_of_prompt() const;
  Status wanted(int64_t done, std::string_view what) const;

  // Models of actions (action.cc).
  Result<Prompt> action_prompt(std::span<const PatchGrid> images);
  bool asks_actions() const;
  Status check_statistics() const;
  Status read_action();
  /// Physical units per normalised one, by dimension, of an action form's numbers; empty for other forms.
  Result<std::vector<double>> action_scale() const;

  // Trajectory heads (head_plan.cc).
  /// Loads the head that the request names and sees whether it fits the form; the caller has the turn.
  Status take_head();
  /// Asks for the keys that the head reads.
  Status ask_for_keys(DecodeContext& context, const DecodeOptions& options);
  Status read_plan(const KnownKeys& keys);

  Status read_form();
  Status take_section_temperatures(DecodeOptions& options) const;
  /// The limit of free text where the model's positions end before; kBadInput for a prompt or a form beyond them.
  Status fit_positions(const Prompt& prompt, DecodeOptions& options) const;
  /// Half a character at the end of a field that its budget cut short.
  void check_characters();
  Finish end_text(const std::vector<TokenId>& tokens, std::string& text) const;
  /// Once an engine: the model is decoded otherwise than it was trained for.
  void warn_of_visibility(Visibility asked);
  Result<DecodeOptions> decode_options();
  Result<DecodeContext> decode_context(const Prompt& prompt, const DecodeOptions& options);
  Result<std::vector<Decoded>> decode(const Prompt& prompt);
  Result<std::vector<Decoded>> encode_and_decode();
  int64_t slots_for(const Prompt& prompt, const DecodeOptions& options) const;
  /// Texts, values and plan of what was decoded.
  Status read(std::vector<Decoded> decoded);
  void log_reply() const;
  const Form* form() const { return out_.form ? &out_.form->form : nullptr; }

  Engine& engine_;
  Model& model_;
  const Request& request_;
  Seat* seat_;
  const Clock::time_point begun_ = Clock::now();
  std::shared_ptr<KindOfRequest> kind_;  // of decoder `auto`
  std::shared_ptr<FlowHead> head_;       // of a request that names one
  int32_t head_sections_ = 0;            // of the form, that it reads
  std::optional<Plan> head_plan_;
  Answer out_;
};

}  // namespace slip
