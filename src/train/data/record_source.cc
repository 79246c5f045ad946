// SPDX-License-Identifier: Apache-2.0
// Training samples of the driving task. Config object "data":
//   {"kind": "records", "records": DIR, "model": "config.json", "waypoint_step_m": 0.5, "first": 0, "count": N}
//     "only": "braking": those in which the expert brakes (to 0.6 of its speed within 5 s) or stands and stays, alone
//   {"kind": "simulated", "first_seed": S, "count": N, "model": "config.json", "waypoint_step_m": 0.5, "perturbed": 0}
// "waypoint_step_m": metres; without it the model's own.
// "perturbed": the share of seeds whose records begin where the expert would not be (sim/record/make.h: make_mixed).
// "steady_history": the share of samples whose car is said to have come straight here at the speed that it has now, so that how hard to
// brake is learned from pictures and not from how hard it brakes already (ChauffeurNet's dropout of past motion [Bansal 2018]).
// "tokenizer_vocab": V makes the tokenizer from simulated texts (seeds from "tokenizer_seed") where its folder has none yet.
// Imported records (`slipstream import`) teach what they know: sections that they know nothing of have weight 0.
// "grounding": {"weight": 1, "background": 0.1} adds a target to every image cell (grounding.h): the weight of cells that show
// something, and of those that do not. "range": true asks every second of the first kind for how far it is in place of what.
// A model whose config says "cameras": false gets no pictures, and they are not rendered.
// A model whose config says "form": "action" gets other samples: action_source.h.
// A model whose config says "visibility": "graph" (task/prompt.h) gets the answer as contents of the form's fields, for the graph objective.
// `model` is the model's config.json: its "slipstream" object gives prompt style and budgets; preprocessor_config.json stands
// beside it, and the codebook of a model that answers in codes beside the tokenizer, whose tokens they are. Sample i is record i mod count (in a keyed order that differs from epoch to epoch). The answer is the form's
// canonical tokens and <|im_end|>, which belongs to the last block and is always masked (Fast-dDrive's always_mask_im_end).
#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "form/schema/values.h"
#include "image/qwen_preprocess.h"
#include "import/conversation.h"
#include "sim/record.h"
#include "sim/record/make.h"
#include "sim/record/seen.h"
#include "sim/record/shards.h"
#include "sim/render/render.h"
#include "sim/world.h"
#include "task/task_tokenizer.h"
#include "task/wod.h"
#include "text/chat.h"
#include "train/data/action_source.h"
#include "train/data/conversation_source.h"
#include "train/data/grounding.h"
#include "train/data/known_keys.h"
#include "train/data/scene_seeds.h"
#include "train/data/shuffle.h"
#include "train/data/source.h"
#include "train/data/special_token.h"
#include "train/data/vit_inputs.h"

namespace slip {

namespace {

constexpr uint64_t kHistoryStream = 0x57EAD0000;
constexpr std::array<std::string_view, 4> kSections = {"critical_objects", "explanation", "future_meta_behavior", "trajectory"};
constexpr std::array<uint32_t, kSections.size()> kUnknown = {sim::kUnknownObjects, sim::kUnknownExplanation, sim::kUnknownBehaviour,
                                                             sim::kUnknownFuture};

struct Setup {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
  std::unique_ptr<CompiledForm> form;
  std::shared_ptr<const GraphForm> graph;  // set where visibility is the graph's
  std::shared_ptr<const Form> chain;       // set where it is the chain's
  TaskOptions task;
  PreprocessorConfig preprocessor;
  std::optional<VitInputs> vit;  // of dino_qwen, in place of the preprocessor
  TokenId mask, im_end, image_pad;
  double waypoint_step_m = 0.01;
  double steady_history = 0;
  float grounding = 0, background = 0;                  // weights; 0: no grounding
  std::array<int32_t, kGroundingWords.size()> words{};  // ids of kGroundingWords
  std::vector<int32_t> letters;                         // ids of the letters for distances; empty: not asked for
};

Status make_missing_tokenizer(const json::object& data, const std::string& folder, const Setup& s) {
  if (std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json")) return {};
  TaskTokenizerOptions o{
      .form = s.task.form, .prompt = s.task.prompt, .waypoint_step_m = s.waypoint_step_m, .codes = s.task.drive_cot};
  SLIP_TRY(const int64_t vocab, int_or(data, "tokenizer_vocab", 0, "data"));
  if (vocab == 0) return {};
  SLIP_TRY(const uint64_t seed, scene_seed_or(data, "tokenizer_seed", 0));
  o.vocab = static_cast<int32_t>(vocab);
  o.first_seed = seed;
  o.cancel = CancelToken::of_process();
  return make_task_tokenizer(folder, o);
}

Status read_grounding(const json::object& data, Setup& s) {
  if (!data.contains("grounding")) return {};
  SLIP_TRY(const json::object* o, get_object(data, "grounding", "data"));
  SLIP_TRY_(only_keys(*o, {"weight", "background", "range"}, "data: grounding"));
  SLIP_TRY(const double weight, number_or(*o, "weight", 1, "data: grounding"));
  SLIP_TRY(const double background, number_or(*o, "background", 0.1, "data: grounding"));
  if (!(weight > 0 && background >= 0))
    return bad_input("data: grounding: expected positive weights, got {} and {}", weight, background);
  s.grounding = static_cast<float>(weight);
  s.background = static_cast<float>(background);
  for (size_t i = 0; i < kGroundingWords.size(); ++i) {
    SLIP_TRY(const std::vector<TokenId> ids, s.tokenizer->encode(kGroundingWords[i]));
    if (ids.size() != 1)
      return bad_input("data: grounding: expected \"{}\" to be one token, got {}", kGroundingWords[i], ids.size());
    s.words[i] = ids[0].value;
  }
  SLIP_TRY(const bool range, bool_or(*o, "range", false, "data: grounding"));
  for (int k = 0; range && k < kRangeLetters; ++k) {
    const std::string letter(1, static_cast<char>('A' + k));
    SLIP_TRY(const std::vector<TokenId> ids, s.tokenizer->encode(letter));
    if (ids.size() != 1) return bad_input("data: grounding: range: expected \"{}\" to be one token, got {}", letter, ids.size());
    s.letters.push_back(ids[0].value);
  }
  return {};
}

Result<Setup> set_up(const json::object& data, const std::string& folder) {
  Setup s;
  SLIP_TRY(const std::string model, get_string(data, "model", "data"));
  SLIP_TRY(const json::value config, read_json(model));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", model);
  SLIP_TRY(s.task, task_options(config.get_object(), model));
  SLIP_TRY(s.waypoint_step_m, number_or(data, "waypoint_step_m", s.task.waypoint_step_m, "data"));
  if (!(s.waypoint_step_m >= 0.01 && s.waypoint_step_m <= 10))
    return bad_input("data: waypoint_step_m: expected 0.01 to 10, got {}", s.waypoint_step_m);
  SLIP_TRY(s.steady_history, number_or(data, "steady_history", 0, "data"));
  if (!(s.steady_history >= 0 && s.steady_history <= 1))
    return bad_input("data: steady_history: expected a number in [0, 1], got {}", s.steady_history);
  SLIP_TRY(s.vit, VitInputs::load(config.get_object(), model));
  if (s.vit) {
    if (data.contains("grounding")) return unsupported("data: grounding: expected a model with Qwen2.5-VL's tower, got dino_qwen");
  } else if (s.task.cameras) {
    SLIP_TRY(s.preprocessor, read_preprocessor_config(std::filesystem::path(model).parent_path() / "preprocessor_config.json"));
  } else if (data.contains("grounding")) {
    return bad_input("data: grounding: expected a model with cameras, got one without");
  }
  const json::object* language = &config.get_object();
  if (language->contains("text_config")) {
    SLIP_TRY(language, get_object(config.get_object(), "text_config", model));
  }
  SLIP_TRY(const int64_t vocab, get_int(*language, "vocab_size", model));
  SLIP_TRY_(make_missing_tokenizer(data, folder, s));
  SLIP_TRY(const CodebookPtr codebook, load_codebook(s.task, folder));
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(folder));
  s.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  SLIP_TRY(ChatTemplate chat, ChatTemplate::load(folder));
  s.chat = std::make_unique<ChatTemplate>(std::move(chat));
  SLIP_TRY(s.mask, special_token(*s.tokenizer, "|<MASK>|", folder));
  SLIP_TRY(s.im_end, special_token(*s.tokenizer, "<|im_end|>", folder));
  SLIP_TRY(s.image_pad, special_token(*s.tokenizer, "<|image_pad|>", folder));
  SLIP_TRY_(read_grounding(data, s));
  SLIP_TRY(CompiledForm form,
           task_form(s.task, {s.tokenizer.get(), s.tokenizer->find("<|NULL|>"), static_cast<int32_t>(vocab)}, codebook));
  s.form = std::make_unique<CompiledForm>(std::move(form));
  if (s.task.visibility == Visibility::kGraph)
    s.graph = std::make_shared<GraphForm>(s.form->form);
  else
    s.chain = std::make_shared<Form>(s.form->form);
  return s;
}

// One sample from a record: prompt, answer, blocks, what is fixed.
class SampleMaker {
 public:
  bool cameras() const { return s_.task.cameras; }
  Outline outline() const { return outline_of(s_.form->form); }
  explicit SampleMaker(Setup setup) : s_(std::move(setup)) {
    for (const Section& section : s_.form->form.sections()) {
      const auto at = std::find(kSections.begin(), kSections.end(), section.name);
      known_.push_back(at == kSections.end() ? 0 : kUnknown[static_cast<size_t>(at - kSections.begin())]);
    }
  }

  /// `index`: the sample's, which decides with the record what history is told.
  Result<Sample> make(const sim::Labels& labels, std::span<const uint8_t> images, int64_t index) const {
    Sample out;
    const EgoInput ego = told_history(labels, index);
    SLIP_TRY(const int32_t rope_delta, s_.vit ? add_vit_prompt(ego, images, out) : add_prompt(labels, ego, images, out));
    SLIP_TRY(const std::vector<FieldValue> values, truth_values(labels, *s_.form, *s_.tokenizer, s_.waypoint_step_m));
    out.mask_token = s_.mask;
    out.form = s_.chain;
    out.future = future_steps(labels);
    const size_t n = out.tokens.size();
    out.block.assign(n, -1);
    out.section.assign(n, -1);
    out.response.assign(n, 0);
    out.fixed.assign(n, 0);
    out.always_masked.assign(n, 0);
    if (s_.graph && (labels.unknown & ~uint32_t{sim::kMoved}) != 0)
      return bad_input("record {}: expected a simulated one for a model with graph visibility, got an imported one", labels.seed);
    if (s_.graph) {
      out.graph = s_.graph;
      out.next_position = static_cast<int32_t>(n) + rope_delta;
      SLIP_TRY(out.contents, render_fields(*s_.form, values, *s_.tokenizer));
      return out;
    }
    SLIP_TRY(const std::vector<TokenId> answer, render(*s_.form, values, *s_.tokenizer));
    add_answer(answer, rope_delta, out);
    if ((labels.unknown & ~uint32_t{sim::kMoved}) != 0) weigh(labels.unknown, out);
    out.grounding.resize(s_.grounding > 0 ? out.tokens.size() : 0, -1);
    out.grounding_weight.resize(out.grounding.size(), 0);
    return out;
  }

 private:
  EgoInput told_history(const sim::Labels& labels, int64_t index) const {
    PhiloxStream g(labels.seed, kHistoryStream + static_cast<uint64_t>(index));
    return g.uniform() < s_.steady_history ? steady(ego_of(labels)) : ego_of(labels);
  }

  ChatMessage message(const EgoInput& ego) const {
    const PromptText text = prompt_text(s_.task, ego);
    ChatMessage m{"user", {}};
    if (!text.before_images.empty()) m.content.emplace_back(TextItem{text.before_images});
    for (int c = 0; s_.task.cameras && c < sim::kCameras; ++c) m.content.emplace_back(ImageItem{});
    m.content.emplace_back(TextItem{text.after_images});
    return m;
  }

  /// Tokens, positions and pictures of the prompt; how far the answer's positions are ahead of its tokens.
  Result<int32_t> add_prompt(const sim::Labels& labels, const EgoInput& ego, std::span<const uint8_t> images, Sample& out) const {
    std::vector<VisionGrid> grids;
    if (s_.task.cameras) {
      SLIP_TRY(grids, add_images(images, out));
    }
    SLIP_TRY(const ChatPrompt prompt, make_prompt(*s_.chat, *s_.tokenizer, std::vector{message(ego)}, {}, grids));
    out.image_token = s_.image_pad;
    out.tokens = prompt.ids;
    out.positions = prompt.positions.rows;
    if (s_.grounding > 0) SLIP_TRY_(add_grounding(labels, prompt.vision_spans, out));
    return prompt.positions.rope_delta;
  }

  Result<int32_t> add_vit_prompt(const EgoInput& ego, std::span<const uint8_t> images, Sample& out) const {
    const std::vector<Image> pictures = s_.task.cameras ? camera_images(images) : std::vector<Image>();
    SLIP_TRY_(s_.vit->add_prompt(*s_.chat, *s_.tokenizer, prompt_text(s_.task, ego), ego, pictures, out));
    return 0;
  }

  Result<std::vector<VisionGrid>> add_images(std::span<const uint8_t> images, Sample& out) const {
    std::vector<VisionGrid> grids;
    for (const Image& image : camera_images(images)) {
      SLIP_TRY(const PatchGrid g, qwen_patches(image, s_.preprocessor));
      out.pixel_values.insert(out.pixel_values.end(), g.values.begin(), g.values.end());
      out.grids.push_back({g.t, g.h, g.w});
      grids.push_back({g.t, g.h, g.w});
    }
    return grids;
  }

  /// Weight 0 for sections of which an imported record knows nothing.
  void weigh(uint32_t unknown, Sample& out) const {
    out.weight.assign(out.tokens.size(), 1);
    for (size_t i = 0; i < out.section.size(); ++i)
      if (out.section[i] >= 0 && (unknown & known_[static_cast<size_t>(out.section[i])]) != 0) out.weight[i] = 0;
  }

  static Result<std::vector<sim::SeenBody>> bodies_around(const sim::Labels& labels) {
    if (labels.bodies) return *labels.bodies;
    if ((labels.unknown & sim::kImported) != 0)
      return bad_input("record {}: expected a simulated one for \"grounding\", got an imported one", labels.seed);
    if ((labels.unknown & sim::kMoved) != 0)
      return bad_input("record {}: expected the bodies around the ego for \"grounding\", got a record of before they were kept",
                       labels.seed);
    SLIP_TRY(const sim::Moment moment, sim::moment_at(labels.seed, labels.family, static_cast<double>(labels.frame_s)));
    return sim::seen_bodies(moment);
  }

  // vision_spans: where each image's tokens stand among the prompt's.
  Status add_grounding(const sim::Labels& labels, std::span<const SlotSpan> vision_spans, Sample& out) const {
    SLIP_TRY(const std::vector<sim::SeenBody> bodies, bodies_around(labels));
    const auto cameras = sim::front_cameras();
    out.grounding.assign(out.tokens.size(), -1);
    out.grounding_weight.assign(out.tokens.size(), 0);
    for (size_t c = 0; c < sim::kCameras; ++c) {
      const int merge = s_.preprocessor.merge_size;
      const int columns = out.grids[c][2] / merge;
      const std::vector<SeenCell> cells = seen_in_cells(bodies, cameras[c], out.grids[c][1] / merge, columns);
      for (size_t i = 0; i < cells.size(); ++i) {
        const size_t row = static_cast<size_t>(vision_spans[c].begin) + i;
        const auto& [what, distance_m] = cells[i];
        // A chessboard whose colours change from scene to scene: a row predicts one token, and both are learned.
        const auto square = i / static_cast<size_t>(columns) + i % static_cast<size_t>(columns) + labels.seed;
        const bool how_far = !s_.letters.empty() && what != sim::Seen::kNothing && square % 2 == 1;
        out.grounding[row] =
            how_far ? s_.letters[static_cast<size_t>(range_letter(distance_m))] : s_.words[static_cast<size_t>(what)];
        out.grounding_weight[row] = what == sim::Seen::kNothing ? s_.background : s_.grounding;
      }
    }
    return {};
  }

  void add_answer(std::span<const TokenId> answer, int32_t rope_delta, Sample& out) const {
    const Form& form = s_.form->form;
    for (size_t i = 0; i <= answer.size(); ++i) {
      const bool closing = i == answer.size();
      const auto u = static_cast<int32_t>(closing ? i - 1 : i);
      const auto position = static_cast<int32_t>(out.tokens.size()) + rope_delta;
      out.tokens.push_back(closing ? s_.im_end : answer[i]);
      out.positions.push_back(Position::text(position));
      out.block.push_back(form.block_at(u));
      out.section.push_back(form.section_at(u));
      out.response.push_back(1);
      out.fixed.push_back(!closing && form.fixed_at(u).has_value());
      out.always_masked.push_back(closing);
    }
  }

  Setup s_;
  std::vector<uint32_t> known_;  // by the form's section: the bit of an imported record that knows nothing of it
};

/// Does the expert brake, to 0.6 of its speed 2 or 5 s on, or stand and stay? A future that nobody recorded tells of neither.
bool brakes(const sim::Labels& l) {
  if ((l.unknown & sim::kUnknownFuture) != 0) return false;
  const auto speed = [&](double t) {
    const sim::Vec2 a = sim::future_at(l, t - 0.5), b = sim::future_at(l, t);
    return std::hypot(b.x - a.x, b.y - a.y) / 0.5;
  };
  const double soon = speed(2), late = speed(5), now = static_cast<double>(l.v0_mps);
  return now > 1.5 ? std::min(soon, late) < 0.6 * now : soon < 0.7 && late < 1.5;
}

class RecordSource : public SampleSource {
 public:
  RecordSource(Setup setup, sim::RecordSet set, std::vector<int64_t> records)
      : maker_(std::move(setup)), set_(std::move(set)), records_(std::move(records)) {}
  Result<Sample> get(int64_t index) override {
    const int64_t i = records_[static_cast<size_t>(shuffled(index, static_cast<int64_t>(records_.size())))];
    SLIP_TRY(const sim::Labels labels, set_.labels(i));
    SLIP_TRY(const auto pictures, set_.pictures(i));
    return maker_.make(labels, pictures, index);
  }
  Outline outline() const override { return maker_.outline(); }
  std::vector<SamplePart> parts() const override { return {{.size = static_cast<int64_t>(records_.size()), .shuffled = true}}; }

 private:
  SampleMaker maker_;
  sim::RecordSet set_;
  std::vector<int64_t> records_;
};

/// The numbers of the records that are asked for, in order.
Result<std::vector<int64_t>> records_of(const json::object& data, const sim::RecordSet& set, int64_t first, int64_t count) {
  SLIP_TRY(const std::string only, string_or(data, "only", "", "data"));
  if (!only.empty() && only != "braking") return bad_input("data: only: expected braking, got {}", only);
  std::vector<int64_t> out;
  for (int64_t i = first; i < first + count; ++i) {
    if (!only.empty()) {
      SLIP_TRY(const sim::Labels labels, set.labels(i));
      if (!brakes(labels)) continue;
    }
    out.push_back(i);
  }
  if (out.size() < 3) return bad_input("data: only: expected at least 3 records that are {}, got {}", only, out.size());
  return out;
}

class SimulatedSource : public SampleSource {
 public:
  SimulatedSource(Setup setup, uint64_t first_seed, int64_t count, double perturbed)
      : maker_(std::move(setup)), first_seed_(first_seed), count_(count), perturbed_(perturbed) {}
  Result<Sample> get(int64_t index) override {
    const uint64_t seed = first_seed_ + static_cast<uint64_t>(shuffled(index, count_));
    SLIP_TRY(const sim::Record r, sim::make_mixed(seed, perturbed_, {}, maker_.cameras()));
    return maker_.make(r.labels, r.images, index);
  }
  Outline outline() const override { return maker_.outline(); }
  std::vector<SamplePart> parts() const override { return {{.size = count_, .shuffled = true}}; }

 private:
  SampleMaker maker_;
  uint64_t first_seed_;
  int64_t count_;
  double perturbed_;
};

Status check_keys(const json::object& data, std::string_view kind) {
  if (kind == "simulated")
    return only_keys(data,
                     {"kind", "first_seed", "count", "model", "waypoint_step_m", "perturbed", "steady_history", "tokenizer_vocab",
                      "tokenizer_seed", "grounding"},
                     "data");
  return only_keys(data,
                   {"kind", "records", "model", "waypoint_step_m", "first", "count", "only", "steady_history", "tokenizer_vocab",
                    "tokenizer_seed", "grounding"},
                   "data");
}

Result<TaskOptions> task_of(const json::object& data) {
  SLIP_TRY(const std::string model, get_string(data, "model", "data"));
  SLIP_TRY(const json::value config, read_json(model));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", model);
  return task_options(config.get_object(), model);
}

}  // namespace

Result<std::unique_ptr<SampleSource>> make_record_source(const json::object& data, const std::string& tokenizer_folder) {
  SLIP_TRY(const std::string kind, get_string(data, "kind", "data"));
  if (kind != "records" && kind != "simulated")
    return unsupported("data: kind: expected simulated, records, actions, texts, mixed or toy, got {}", kind);
  if (tokenizer_folder.empty()) return bad_input("tokenizer: expected a folder beside data of kind \"{}\", got none", kind);
  const json::value* records = kind == "records" ? data.if_contains("records") : nullptr;
  if (records && records->is_string() && ConversationSet::is_one(std::string(records->get_string())))
    return make_conversation_source(data, tokenizer_folder);
  SLIP_TRY(const TaskOptions task, task_of(data));
  if (task.form == TaskForm::kAction) return make_action_source(data, task, tokenizer_folder);
  SLIP_TRY_(check_keys(data, kind));
  SLIP_TRY(Setup setup, set_up(data, tokenizer_folder));
  if (kind == "simulated") {
    SLIP_TRY(const uint64_t first, scene_seed(data, "first_seed"));
    SLIP_TRY(const int64_t count, get_int(data, "count", "data"));
    if (count < 3 || count > kMostShuffled) return bad_input("data: count: expected 3 to {}, got {}", kMostShuffled, count);
    SLIP_TRY(const double perturbed, number_or(data, "perturbed", 0, "data"));
    if (!(perturbed >= 0 && perturbed <= 1)) return bad_input("data: perturbed: expected a number in [0, 1], got {}", perturbed);
    return std::unique_ptr<SampleSource>(std::make_unique<SimulatedSource>(std::move(setup), first, count, perturbed));
  }
  SLIP_TRY(const std::string folder, get_string(data, "records", "data"));
  SLIP_TRY(sim::RecordSet set, sim::RecordSet::open(folder));
  SLIP_TRY(const auto part, asked_of(data, set.size(), "records of " + folder));
  SLIP_TRY(std::vector<int64_t> asked, records_of(data, set, part.first, part.second));
  return std::unique_ptr<SampleSource>(std::make_unique<RecordSource>(std::move(setup), std::move(set), std::move(asked)));
}

}  // namespace slip
