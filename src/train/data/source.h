// SPDX-License-Identifier: Apache-2.0
// Where training samples come from. No torch here: a source over simulator records, a toy one for tests, and whatever else
// can be tokenised share this interface. Shapes: n tokens in sequence order, prompt first, response after it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "lm/graph_visibility.h"
#include "sim/record.h"
#include "train/data/parts.h"

namespace slip {

/// A form and who sees whom in it, shared by all samples of a source.
struct GraphForm {
  explicit GraphForm(Form f) : form(std::move(f)), visibility(form) {}
  GraphForm(const GraphForm&) = delete;  // visibility points into the form
  GraphForm& operator=(const GraphForm&) = delete;
  Form form;
  GraphVisibility visibility;
};

/// One teacher-forced sequence. All per-token vectors have tokens.size() entries unless said otherwise. Where `graph` is set the
/// tokens are the prompt alone, block, response and fixed may be empty, and the answer is `contents`.
struct Sample {
  std::vector<TokenId> tokens;
  std::vector<int32_t> block;                  // prompt: -1; response: block id, a run of equal ids is one turn
  std::vector<float> weight;                   // factor on top of the section's weight; empty: 1 everywhere
  std::vector<uint8_t> response;               // 1: counts, and is predicted by the clean half
  std::vector<uint8_t> fixed;                  // 1: scaffold, never masked
  std::vector<uint8_t> always_masked;          // 1: masked in both rows (the closing <|im_end|>); empty: none
  std::vector<int32_t> grounding;              // a target id for the clean row itself (image cells), -1: none; empty: none at all
  std::vector<float> grounding_weight;         // of each; same length as grounding
  std::vector<int32_t> section;                // index into SampleSource::outline().sections, -1 outside; empty: -1 everywhere
  std::vector<Position> positions;             // as the engine gives them
  std::vector<float> future;                   // steps x (dx, dy, dyaw) of 0.1 s, ego frame at the start; empty: not known
  std::vector<float> pixel_values;             // patches x patch numbers of all images, in order; empty without images
  std::vector<std::array<int, 3>> grids;       // (t, h, w) in patches, one per image
  int32_t cell = 2;                            // cell x cell patches are a feature; what fills none is left out
  TokenId image_token{-1};                     // k-th token of this id takes the k-th merged feature; -1: no images
  std::vector<float> history;                  // of a model that takes the ego history as a row: its numbers (HistoryConfig)
  TokenId history_token{-1};                   // where that row stands
  TokenId mask_token;                          // what stands in for a masked token
  std::shared_ptr<const GraphForm> graph;      // for the graph objective
  std::vector<std::vector<TokenId>> contents;  // of each field of the graph's form, END left out
  int32_t next_position = 0;                   // of the form's first token
  std::shared_ptr<const Form> form;            // of the response under chain visibility; null: free text
};

/// What the answers of a source consist of, by name: the sections that Sample::section counts, and the form's fields. Empty: free text.
struct Outline {
  std::vector<std::string> sections, fields;
};
Outline outline_of(const Form& form);

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Sample number `index` >= 0; a source decides itself how an index maps to data (wraps around, regenerates). Called from one
  /// background thread; must not touch torch. An error ends the training with its message.
  virtual Result<Sample> get(int64_t index) = 0;
  virtual Outline outline() const { return {}; }
  /// What its samples are taken from; one part, and an endless one, unless it says more.
  virtual std::vector<SamplePart> parts() const { return {SamplePart{}}; }
};

/// The source that the config's "data" object describes. Kinds: toy (below), mixed (mixed_source.h), texts (text_source.h), actions
/// (robot_source.h), records and simulated (record_source.cc). `tokenizer_folder` may be empty (toy).
Result<std::unique_ptr<SampleSource>> make_source(const json::object& data, const std::string& tokenizer_folder);
/// A source of short arithmetic-like answers with a scaffold, for tests: {"kind": "toy", "seed": 1, "vocab": 64, "images": false,
/// "prompt": 12, "fields": 4}. Its fields go through Fast-dDrive's four sections in turn.
Result<std::unique_ptr<SampleSource>> make_toy_source(const json::object& data);
/// Sources over simulator records; kUnsupported for a kind it does not know. Implemented in record_source.cc.
Result<std::unique_ptr<SampleSource>> make_record_source(const json::object& data, const std::string& tokenizer_folder);

/// Sample::future of a record: what it knows of it.
std::vector<float> future_steps(const sim::Labels& labels);
/// What is wrong with a sample's shapes, or nothing.
Status check_sample(const Sample& s);

}  // namespace slip
