// SPDX-License-Identifier: Apache-2.0
// A source without data files: the answer's fields repeat numbers of the prompt, inside a scaffold, so that a model learns it in
// minutes; with images it has the row counts of a driving sample, for throughput. Also what is common to all sources.
#include <algorithm>

#include "base/philox.h"
#include "train/data/known_keys.h"
#include "train/data/mixed_source.h"
#include "train/data/robot_source.h"
#include "train/data/source.h"
#include "train/data/text_source.h"

namespace slip {
namespace {

struct ToyShape {
  uint64_t seed = 1;
  int32_t vocab = 64, prompt = 12, fields = 4, scaffold = 3, values = 3, images = 0, grid_h = 10, grid_w = 12, patch_numbers = 1176;
  int64_t size = 0;  // distinct samples; 0: endless
};

constexpr int64_t kMost = 1 << 20;  // of every number: products of three fit 63 bits
constexpr int32_t kMask = 1, kNull = 2, kEnd = 3, kImage = 4, kColon = 5, kFirstValue = 8;

class ToySource final : public SampleSource {
 public:
  explicit ToySource(ToyShape shape) : s_(shape) {}

  Result<Sample> get(int64_t index) override {
    PhiloxStream draw(s_.seed, static_cast<uint64_t>(s_.size > 0 ? index % s_.size : index));
    Sample s;
    s.mask_token = {kMask};
    s.image_token = {kImage};
    int32_t position = 0;
    for (int32_t i = 0; i < s_.images; ++i) add_image(s, draw, position);
    std::vector<int32_t> said;
    for (int32_t i = 0; i < s_.prompt; ++i) {
      said.push_back(kFirstValue + static_cast<int32_t>(draw.below(static_cast<uint32_t>(s_.vocab - kFirstValue))));
      add(s, said.back(), -1, false, position);
    }
    for (int32_t f = 0; f < s_.fields; ++f) {
      for (int32_t i = 0; i < s_.scaffold; ++i) add(s, i + 1 < s_.scaffold ? 6 + i % 2 : kColon, f, true, position);
      for (int32_t i = 0; i < s_.values; ++i) {
        const int64_t at = int64_t{f} * s_.values + i;
        add(s, at < s_.prompt ? said[static_cast<size_t>(at)] : kNull, f, false, position);
      }
    }
    add(s, kEnd, s_.fields - 1, false, position);
    s.always_masked.back() = 1;
    return s;
  }

  Outline outline() const override { return {{"critical_objects", "explanation", "future_meta_behavior", "trajectory"}, {}}; }
  std::vector<SamplePart> parts() const override { return {{.size = std::max<int64_t>(0, s_.size)}}; }

 private:
  void add(Sample& s, int32_t token, int32_t block, bool fixed, int32_t& position) const {
    s.tokens.push_back({token});
    s.block.push_back(block);
    s.response.push_back(block >= 0);
    s.fixed.push_back(fixed);
    s.always_masked.push_back(0);
    s.section.push_back(block < 0 ? -1 : block % 4);
    s.positions.push_back(Position::text(position++));
  }
  void add_image(Sample& s, PhiloxStream& draw, int32_t& position) const {
    s.grids.push_back({1, s_.grid_h, s_.grid_w});
    const auto numbers = static_cast<size_t>(s_.grid_h) * static_cast<size_t>(s_.grid_w) * static_cast<size_t>(s_.patch_numbers);
    for (size_t i = 0; i < numbers; i += 4) {  // blotches: a number for every four
      const auto v = static_cast<float>(draw.uniform(-2, 2));
      for (size_t k = i; k < std::min(numbers, i + 4); ++k) s.pixel_values.push_back(v);
    }
    const int32_t first = position;
    for (int32_t y = 0; y < s_.grid_h / 2; ++y) {
      for (int32_t x = 0; x < s_.grid_w / 2; ++x) {
        add(s, kImage, -1, false, position);
        s.positions.back() = {first, first + y, first + x};
      }
    }
    position = first + std::max(s_.grid_h, s_.grid_w) / 2;
  }

  ToyShape s_;
};

}  // namespace

Result<std::unique_ptr<SampleSource>> make_toy_source(const json::object& data) {
  ToyShape s;
  const std::string where = "data";
  SLIP_TRY_(only_keys(
      data,
      {"kind", "seed", "size", "vocab", "prompt", "fields", "scaffold", "values", "images", "grid_h", "grid_w", "patch_numbers"},
      where));
  const auto read = [&](std::string_view key, int32_t& to, int64_t least) -> Status {
    SLIP_TRY(const int64_t n, int_or(data, key, to, where));
    if (n < least) return bad_input("{}: {}: expected at least {}, got {}", where, key, least, n);
    if (n > kMost) return bad_input("{}: {}: expected at most {}, got {}", where, key, kMost, n);
    to = static_cast<int32_t>(n);
    return {};
  };
  SLIP_TRY(const int64_t seed, int_or(data, "seed", 1, where));
  s.seed = static_cast<uint64_t>(seed);
  SLIP_TRY(s.size, int_or(data, "size", 0, where));
  SLIP_TRY_(read("vocab", s.vocab, kFirstValue + 1));
  SLIP_TRY_(read("prompt", s.prompt, 1));
  SLIP_TRY_(read("fields", s.fields, 1));
  SLIP_TRY_(read("scaffold", s.scaffold, 1));
  SLIP_TRY_(read("values", s.values, 1));
  SLIP_TRY_(read("images", s.images, 0));
  SLIP_TRY_(read("grid_h", s.grid_h, 2));
  SLIP_TRY_(read("grid_w", s.grid_w, 2));
  SLIP_TRY_(read("patch_numbers", s.patch_numbers, 1));
  return std::unique_ptr<SampleSource>(std::make_unique<ToySource>(s));
}

Result<std::unique_ptr<SampleSource>> make_source(const json::object& data, const std::string& tokenizer_folder) {
  SLIP_TRY(const std::string kind, get_string(data, "kind", "data"));
  if (kind == "toy") return make_toy_source(data);
  if (kind == "mixed") return make_mixed_source(data, tokenizer_folder);
  if (kind == "actions") return make_robot_source(data, tokenizer_folder);
  if (kind == "texts") return make_text_source(data, tokenizer_folder);
  return make_record_source(data, tokenizer_folder);
}

Outline outline_of(const Form& form) {
  Outline out;
  for (const Section& s : form.sections()) out.sections.push_back(s.name);
  for (const Field& f : form.fields()) out.fields.push_back(f.name);
  return out;
}

std::vector<float> future_steps(const sim::Labels& labels) {
  std::vector<float> out;
  sim::FutureState before;
  for (const sim::FutureState& at : std::span(labels.future).first(sim::known_future_steps(labels))) {
    for (const float step : {at.x - before.x, at.y - before.y, at.yaw - before.yaw}) out.push_back(step);
    before = at;
  }
  return out;
}

Status check_sample(const Sample& s) {
  const size_t n = s.tokens.size();
  const auto length = [&](size_t got, std::string_view what, bool optional) -> Status {
    if (got != n && !(optional && got == 0)) return bad_input("sample: {}: expected {} entries, got {}", what, n, got);
    return {};
  };
  if (n < 2) return bad_input("sample: expected at least 2 tokens, got {}", n);
  const bool graph = s.graph != nullptr;
  SLIP_TRY_(length(s.block.size(), "block", graph));
  SLIP_TRY_(length(s.weight.size(), "weight", true));
  SLIP_TRY_(length(s.response.size(), "response", graph));
  SLIP_TRY_(length(s.fixed.size(), "fixed", graph));
  SLIP_TRY_(length(s.always_masked.size(), "always_masked", true));
  SLIP_TRY_(length(s.section.size(), "section", true));
  SLIP_TRY_(length(s.positions.size(), "positions", false));
  SLIP_TRY_(length(s.grounding.size(), "grounding", true));
  SLIP_TRY_(length(s.grounding_weight.size(), "grounding_weight", s.grounding.empty()));
  if (!graph && s.response[0]) return bad_input("sample: expected a prompt before the response, got a response at token 0");
  if (!graph && std::find(s.response.begin(), s.response.end(), 1) == s.response.end())
    return bad_input("sample: expected a response, got none");
  for (size_t i = 0; i < s.response.size(); ++i)
    if (s.response[i] && s.block[i] < 0)
      return bad_input("sample: token {}: expected a block id on a response token, got {}", i, s.block[i]);
  int64_t patches = 0, cells = 0;
  for (const auto& g : s.grids) {
    patches += int64_t{g[0]} * g[1] * g[2];
    cells += int64_t{g[0]} * (g[1] / s.cell) * (g[2] / s.cell);
  }
  const auto images = static_cast<int64_t>(std::count(s.tokens.begin(), s.tokens.end(), s.image_token));
  if (!s.grids.empty() && images != cells)
    return bad_input("sample: expected {} image tokens for {} patches, got {}", cells, patches, images);
  if (const auto rows = std::count(s.tokens.begin(), s.tokens.end(), s.history_token); !s.history.empty() && rows != 1)
    return bad_input("sample: expected one token for the ego history, got {}", rows);
  if (!s.grids.empty() && (patches == 0 || s.pixel_values.size() % static_cast<size_t>(patches) != 0))
    return bad_input("sample: pixel_values: expected a multiple of {} patches, got {} numbers", patches, s.pixel_values.size());
  return {};
}

}  // namespace slip
