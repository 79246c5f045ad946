// SPDX-License-Identifier: Apache-2.0
// See label_blocks.h.
#include "sim/record/label_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/record/make.h"

namespace slip::sim {

namespace {

constexpr float kMostBodySize = 1e4F;  // m
constexpr uint32_t kMostUnknown = 2 * kMoved - 1;

uint16_t mask_of(const std::array<bool, 12>& b) {
  uint16_t m = 0;
  for (size_t i = 0; i < 12; ++i) m = static_cast<uint16_t>(m | (b[i] ? 1U << i : 0U));
  return m;
}
void unmask(uint16_t m, std::array<bool, 12>& b) {
  for (size_t i = 0; i < 12; ++i) b[i] = ((m >> i) & 1U) != 0;
}

}  // namespace

LabelBlock label_block(const Labels& l) {
  LabelBlock b{};
  b.seed = l.seed;
  b.family = l.family;
  b.intent = static_cast<uint8_t>(l.intent);
  b.longitudinal = static_cast<uint8_t>(l.longitudinal);
  b.lateral = static_cast<uint8_t>(l.lateral);
  b.pre_onset = l.pre_onset ? 1 : 0;
  b.v0 = l.v0_mps;
  b.unknown = l.unknown;
  b.critical = mask_of(l.critical);
  b.visible = mask_of(l.visible);
  b.causal = mask_of(l.causal);
  b.text_bytes = static_cast<uint16_t>(std::min(l.explanation.size(), kExplanationBytes));
  for (size_t i = 0; i < 16; ++i) {
    const EgoState& e = l.history[i];
    const float row[7] = {e.t_s, e.x, e.y, e.vx, e.vy, e.ax, e.ay};
    std::memcpy(b.history[i], row, sizeof row);
  }
  for (size_t i = 0; i < 64; ++i) {
    const FutureState& f = l.future[i];
    const float row[6] = {f.x, f.y, f.yaw, f.v, f.a, f.kappa};
    std::memcpy(b.future[i], row, sizeof row);
  }
  std::memcpy(b.text, l.explanation.data(), b.text_bytes);
  return b;
}

Result<Labels> labels_in(const LabelBlock& b, const std::string& name) {
  if (b.intent > 2 || b.longitudinal > 3 || b.lateral > 5 || b.text_bytes > kExplanationBytes ||
      b.family >= family_names().size() || b.unknown > kMostUnknown)
    return bad_input("{}: record of seed {}: expected enumerators and lengths in range, got others", name, b.seed);
  const auto finite = [](const float* from, size_t n) {
    return std::all_of(from, from + n, [](float v) { return std::isfinite(v); });
  };
  if (!finite(&b.v0, 1) || !finite(&b.history[0][0], 16 * 7) || !finite(&b.future[0][0], 64 * 6))
    return bad_input("{}: record of seed {}: expected finite speeds, history and future, got others", name, b.seed);
  Labels l;
  l.seed = b.seed;
  l.family = b.family;
  l.intent = static_cast<Intent>(b.intent);
  l.longitudinal = static_cast<Longitudinal>(b.longitudinal);
  l.lateral = static_cast<Lateral>(b.lateral);
  l.pre_onset = b.pre_onset != 0;
  l.v0_mps = b.v0;
  l.unknown = b.unknown;
  unmask(b.critical, l.critical);
  unmask(b.visible, l.visible);
  unmask(b.causal, l.causal);
  l.explanation.assign(b.text, b.text_bytes);
  for (size_t i = 0; i < 16; ++i) {
    const float* r = b.history[i];
    l.history[i] = {r[0], r[1], r[2], r[3], r[4], r[5], r[6]};
  }
  for (size_t i = 0; i < 64; ++i) {
    const float* r = b.future[i];
    l.future[i] = {r[0], r[1], r[2], r[3], r[4], r[5]};
  }
  return l;
}

BodyBlock body_block(std::span<const SeenBody> bodies) {
  BodyBlock b{};
  b.count = static_cast<uint32_t>(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    const SeenBody& x = bodies[i];
    const float box[7] = {x.x, x.y, x.yaw, x.length, x.width, x.low, x.high};
    b.what[i] = static_cast<uint8_t>(x.what);
    std::memcpy(b.box[i], box, sizeof box);
  }
  return b;
}

Result<std::vector<SeenBody>> bodies_in(const BodyBlock& b, const std::string& name, uint64_t seed) {
  std::vector<SeenBody> out;
  if (b.count > kMostBodies)
    return bad_input("{}: record of seed {}: expected at most {} bodies, got {}", name, seed, kMostBodies, b.count);
  for (size_t i = 0; i < b.count; ++i) {
    const float* r = b.box[i];
    if (b.what[i] >= kSeenKinds || !std::all_of(r, r + 7, [](float v) { return std::abs(v) < kMostBodySize; }))
      return bad_input("{}: record of seed {}: expected bodies with kinds and sizes in range, got others", name, seed);
    out.push_back({static_cast<Seen>(b.what[i]), r[0], r[1], r[2], r[3], r[4], r[5], r[6]});
  }
  return out;
}

namespace {

/// Every text of `c`, a CotLabels or a const one, in the order of the form.
template <class Cot, class Each>
void each_text(Cot& c, Each&& each) {
  for (auto* text : {&c.lighting, &c.road_condition, &c.weather, &c.junction, &c.road_type, &c.lanes}) each(*text);
  for (auto& lane : c.lane) each(lane);
  each(c.critical_objects);
  for (auto& o : c.object)
    for (auto* text : {&o.position, &o.type, &o.justification}) each(*text);
  for (auto* text : {&c.traffic_light, &c.traffic_sign, &c.additional_regulation, &c.traffic_regulation, &c.non_interactive,
                     &c.interactive, &c.ego_behavior})
    each(*text);
}

}  // namespace

Result<CotBlock> cot_block(const CotLabels& cot, uint64_t seed) {
  std::string all;
  each_text(cot, [&](const std::string& text) { all += text + "\n"; });
  if (all.size() > kCotBytes)
    return bad_input("record of seed {}: expected texts of at most {} bytes, got {}", seed, kCotBytes, all.size());
  CotBlock out{};
  out.text_bytes = static_cast<uint16_t>(all.size());
  std::memcpy(out.text, all.data(), all.size());
  return out;
}

Result<CotLabels> cot_in(const CotBlock& b, const std::string& name, uint64_t seed) {
  CotLabels out;
  bool whole = b.text_bytes <= kCotBytes;
  std::string_view rest(b.text, whole ? b.text_bytes : 0);
  each_text(out, [&](std::string& text) {
    const size_t end = rest.find('\n');
    whole = whole && end != std::string_view::npos;
    if (!whole) return;
    text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  });
  if (!whole || !rest.empty())
    return bad_input("{}: record of seed {}: expected a line for each text of drive-cot, got others", name, seed);
  return out;
}

}  // namespace slip::sim
