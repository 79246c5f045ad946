// SPDX-License-Identifier: Apache-2.0
// What a request names beside the model: a draft model, a draft head, an earlier answer, a commit sampler, a model of draft lengths, a
// trajectory head. Loaded when a request first asks for them, kept while requests ask for the same.
#pragma once
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/decoder.h"
#include "decode/draft_length/model.h"
#include "engine/forms.h"
#include "form/schema/schema.h"
#include "text/tokenizer.h"

namespace slip {

class Engine;
class FlowHead;
struct Request;

/// What a draft head's config.json says of its drafting.
struct HeadFacts {
  int32_t block = 16;
  bool image_context = true;  // whether it keeps rows of pictures
};

class Resources {
 public:
  Resources();
  ~Resources();
  Resources(Resources&&) noexcept;

  /// Points `context` at what the request's method needs; valid until the next call.
  Status attach(Engine& engine, const Request& request, const FormPtr& form, DecodeContext& context);
  /// Draft length `measured`: the calibration (calibration_file) of the adapter, the head or the model (or the one that the method names), or, where there is
  /// none, an uninformed one; costs are measured on this machine once, behind the prompt of the first request; a second model's or a draft
  /// head's with them. The tracker follows from answer to answer, whichever file an earlier answer comes from. kCancelled between
  /// measurements as `context` says; the next call goes on from there.
  Status attach_draft_length(Engine& engine, const Request& request, const FormPtr& form, const Prompt& prompt,
                             DecodeContext& context);
  /// What is known of the head that lies in the model's folder as `dflash` without loading it; nothing: none, or one that cannot be read, which is
  /// said once.
  std::optional<HeadFacts> own_head_facts(Engine& engine);
  /// That head, loaded when first asked for; null: none, or one that cannot be read. It stays until a request names another one.
  Result<DraftHead*> own_head(Engine& engine, const CancelToken& cancel);
  /// A trajectory head's folder; requests that use one hold on to it.
  Result<std::shared_ptr<FlowHead>> trajectory_head(Engine& engine, const std::string& folder);
  /// What a round of a head costs behind what it keeps of this prompt. Writes context behind the prompt: no row that is kept may lie there.
  Result<CostTable> measure_rounds(DraftHead& head, const Prompt& prompt, const CancelToken& cancel);
  /// What passes cost behind so many keys: measured anew, and what `measured` goes by from now on.
  Result<CostTable> measure_passes(Engine& engine, int32_t visible, const CancelToken& cancel);
  void use_passes(const CostTable& costs);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Rows of a prompt that are context of a head.
int32_t kept_rows(bool image_context, const Prompt& prompt);

/// kUsage for a second model that drafts and is not named.
Status check_drafter(const Method& method);

/// Where a model's own draft head lies; empty where there is none.
std::string own_head_folder(const Engine& engine);

/// Where the model's own draft adapter lies; empty where there is none.
std::string own_adapter_folder(const Engine& engine);
/// Where a folder keeps how its drafts hold: text.width.json (`bench text --calibrate`) for free text where it is there, else width.json.
std::filesystem::path calibration_file(const std::filesystem::path& folder, const Form* form);
/// What a calibration says of this form; nothing where the file is not there or was made for another form.
Result<std::optional<DraftLengthModel>> calibration_in(const std::filesystem::path& file, const Form* form);
/// That of a method's drafts: beside its adapter or head, where one of this form is there, else beside the model.
Result<std::optional<DraftLengthModel>> calibration_of(const Engine& engine, const Method& method, const Form* form);

/// The folder's own calibration, or the file that was named; nothing where neither is there. The folder's is optional: one for
/// another form is ignored, and the draft length learns from the answers instead.
Result<std::optional<DraftLengthModel>> stored_draft_length_model(const Engine& engine, const std::string& name, const Form* form);

/// The result object of an earlier answer, read for a form (or free text when null). kBadInput: an answer of another form (of any where
/// there is none), one whose tokens are not the form's, ids that are not below `vocab`.
Result<PreviousAnswer> read_previous(const std::filesystem::path& file, const Form* form,
                                     int32_t vocab = std::numeric_limits<int32_t>::max());
/// The same of a document; `name` opens error messages.
Result<PreviousAnswer> previous_answer(std::string_view document, std::string_view name, const Form* form, int32_t vocab);

inline constexpr int32_t kAnswerKeys = 128;  // that a row sees behind the prompt, half-way through an answer

/// Ids of two vocabularies that stand for the same bytes (special and added tokens: the same spelling), and action bins of the same
/// number where both forms have bins.
struct VocabularyMaps {
  VocabularyMap to_draft, to_target;
};
Result<VocabularyMaps> map_vocabularies(const Tokenizer& target, int32_t target_vocab, const Tokenizer& draft, int32_t draft_vocab,
                                        const CompiledForm* target_form, const CompiledForm* draft_form);

}  // namespace slip
