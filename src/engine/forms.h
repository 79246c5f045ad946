// SPDX-License-Identifier: Apache-2.0
// The forms of a loaded model: each is compiled for its tokenizer once and shared by all requests that ask for it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "form/schema/schema.h"
#include "models/model.h"
#include "task/codes.h"
#include "task/prompt.h"

namespace slip {

using FormPtr = std::shared_ptr<const CompiledForm>;

/// Is `name` the form of actions that a model of actions has of its own?
bool is_action_form(const ModelConfig& config, std::string_view name);

/// The schema of a built-in, or of a file. kBadInput for a name that is neither.
Result<json::value> schema_named(const std::string& name);
/// That of a document, whose title is its form's name.
Result<json::value> schema_of_document(const std::string& document);
std::string title_of(const json::value& schema);

/// About what a form holds in memory, the masks that it has so far left out.
size_t bytes_of(const CompiledForm& form);

/// Thread-safe.
class Forms {
 public:
  static constexpr size_t kMostBytes = size_t{256} << 20;
  /// `most_bytes`: of the forms of documents that are kept, their texts included, and of those of names.
  Forms(Model& model, const TaskOptions& task, CodebookPtr codebook, size_t most_bytes = kMostBytes)
      : model_(&model), task_(&task), codebook_(std::move(codebook)), most_bytes_(most_bytes) {}
  /// "model", a built-in's name or a schema file's. kBadInput for an unknown name or a schema that this tokenizer cannot meet. A model
  /// of actions has its own form under the names model, openvla-action and minivla-action, with as many dimensions as the statistics
  /// of `unnorm_key`.
  Result<FormPtr> named(const std::string& name, std::string_view unnorm_key);
  /// Of a schema document; its title is the form's name, "schema" where it has none.
  Result<FormPtr> of_schema(const std::string& document);

 private:
  Result<CompiledForm> compile(const std::string& name, std::string_view unnorm_key) const;
  Result<FormTokens> tokens() const;
  struct Kept {
    FormPtr form;
    uint64_t used = 0;  // when last, counted in uses
    size_t bytes = 0;   // without masks
  };
  using Known = std::map<std::string, Kept, std::less<>>;
  FormPtr find(Known& known, const std::string& key);
  FormPtr keep(Known& known, const std::string& key, CompiledForm form);
  /// Those used longest ago, so that there is room for a further one.
  std::vector<FormPtr> forget(Known& known, size_t further) const;
  size_t masks_of(const CompiledForm& form) const;  // bytes of its masks so far

  Model* model_;
  const TaskOptions* task_;
  CodebookPtr codebook_;  // of a model that answers in codes: forms that hold a run of them get it
  std::mutex mutex_;
  Known named_, documents_;
  const size_t most_bytes_;
  uint64_t uses_ = 0;
};

}  // namespace slip
