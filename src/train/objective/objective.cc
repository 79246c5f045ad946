// SPDX-License-Identifier: Apache-2.0
// Masks, noise and weights of the dual-stream objectives; contracts in objective.h.
#include "train/objective/objective.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "base/check.h"

namespace slip {
namespace {

double section_weight(const Sample& s, size_t i, const std::vector<SectionRule>& sections) {
  const int32_t section = s.section.empty() ? -1 : s.section[i];
  const double rule =
      section >= 0 && static_cast<size_t>(section) < sections.size() ? sections[static_cast<size_t>(section)].weight : 1.0;
  return rule * (s.weight.empty() ? 1.0 : static_cast<double>(s.weight[i]));
}

bool always(const Sample& s, size_t i) { return !s.always_masked.empty() && s.always_masked[i] != 0; }

std::vector<double> weights(const Sample& s, const std::vector<SectionRule>& sections) {
  std::vector<double> w(s.tokens.size());
  for (size_t i = 0; i < w.size(); ++i) w[i] = section_weight(s, i, sections);
  return w;
}

double response_count(const Sample& s) {
  return static_cast<double>(std::count_if(s.response.begin(), s.response.end(), [](uint8_t r) { return r != 0; }));
}

}  // namespace

PhiloxStream noise_stream(const NoiseKey& k, uint32_t block) {
  const Philox4 word =
      philox4x32({k.rank, k.step, k.sample, block}, {static_cast<uint32_t>(k.seed), static_cast<uint32_t>(k.seed >> 32)});
  return {(uint64_t{word[1]} << 32) | word[0], (uint64_t{word[3]} << 32) | word[2]};
}

std::vector<SectionRule> fast_ddrive_sections() {
  return {{"critical_objects", 1.5, 1, 2},
          {"explanation", 1.0, 1, 1},
          {"future_meta_behavior", 2.0, 1, 1.5},
          {"trajectory", 3.0, 2, 1}};
}

namespace {

std::vector<SectionRule>::const_iterator rule_for(const std::vector<SectionRule>& rules, std::string_view name) {
  return std::find_if(rules.begin(), rules.end(), [&](const SectionRule& r) { return r.name == name; });
}

Status check_names(const std::vector<SectionRule>& rules, std::span<const std::string> sections) {
  std::string all;
  for (const std::string& name : sections) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", name);
  if (sections.empty() && !rules.empty())
    return bad_input("objective: sections: expected none, since these samples have no sections, got \"{}\"", rules[0].name);
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (std::find(sections.begin(), sections.end(), rule->name) == sections.end())
      return bad_input("objective: sections: name: expected one of {}, got \"{}\"", all, rule->name);
    if (rule_for(rules, rule->name) != rule)
      return bad_input("objective: sections: name: expected each of {} once, got \"{}\" again", all, rule->name);
  }
  for (const std::string& name : sections)
    if (rule_for(rules, name) == rules.end())
      return bad_input("objective: sections: expected a rule for each of {}, got none for \"{}\"", all, name);
  return {};
}

}  // namespace

Result<std::vector<SectionRule>> rules_of_sections(const std::optional<std::vector<SectionRule>>& asked,
                                                   std::span<const std::string> sections) {
  std::vector<SectionRule> rules = asked.value_or(fast_ddrive_sections());
  if (asked) SLIP_TRY_(check_names(rules, sections));
  const auto is_there = [&](const SectionRule& r) { return std::find(sections.begin(), sections.end(), r.name) != sections.end(); };
  if (!std::all_of(rules.begin(), rules.end(), is_there)) rules.clear();
  std::vector<SectionRule> out;
  for (const std::string& name : sections) {
    const auto rule = rule_for(rules, name);
    out.push_back(rule == rules.end() ? SectionRule{.name = name} : *rule);
  }
  return out;
}

double beta_quantile(double a, double b, double u) {
  if (a == 1) return 1 - std::pow(1 - u, 1 / b);
  if (b == 1) return std::pow(u, 1 / a);
  return boost::math::ibeta_inv(a, b, u);
}

Noise sasd_noise(const Sample& s, const std::vector<SectionRule>& sections, const NoiseKey& key) {
  const int32_t blocks = 1 + *std::max_element(s.block.begin(), s.block.end());
  Noise noise;
  noise.t_of_block.resize(static_cast<size_t>(std::max(blocks, 0)));
  noise.draw.assign(s.tokens.size(), 1.0);
  for (int32_t b = 0; b < blocks; ++b) {
    PhiloxStream stream = noise_stream(key, static_cast<uint32_t>(b));
    int32_t section = -1;
    for (size_t i = s.tokens.size(); i-- > 0;)
      if (s.block[i] == b && !s.fixed[i] && !s.section.empty()) section = s.section[i];
    const bool known = section >= 0 && static_cast<size_t>(section) < sections.size();
    const SectionRule rule = known ? sections[static_cast<size_t>(section)] : SectionRule{};
    noise.t_of_block[static_cast<size_t>(b)] = beta_quantile(rule.beta_a, rule.beta_b, stream.uniform());
    for (size_t i = 0; i < s.tokens.size(); ++i)
      if (s.block[i] == b) noise.draw[i] = stream.uniform();
  }
  return noise;
}

std::array<std::vector<uint8_t>, 2> sasd_masks(const Sample& s, const Noise& noise, double minimum_noise) {
  std::array<std::vector<uint8_t>, 2> masks{std::vector<uint8_t>(s.tokens.size(), 0), std::vector<uint8_t>(s.tokens.size(), 0)};
  for (size_t i = 0; i < s.tokens.size(); ++i) {
    if (!s.response[i] || s.fixed[i]) continue;
    const double p = (1 - minimum_noise) * noise.t_of_block[static_cast<size_t>(s.block[i])] + minimum_noise;
    const bool masked = noise.draw[i] < p;
    masks[0][i] = masked || always(s, i);
    masks[1][i] = !masked || always(s, i);
  }
  return masks;
}

void add_grounding(const Sample& s, SequenceRows& rows) {
  for (size_t i = 0; i < s.grounding.size(); ++i)
    if (s.grounding[i] >= 0) rows.terms.push_back({static_cast<int32_t>(i), s.grounding[i], s.grounding_weight[i], false});
}

SequenceRows sasd_rows(const Sample& s, const std::array<std::vector<uint8_t>, 2>& masks, const std::vector<SectionRule>& sections,
                       const SasdRule& rule) {
  const std::vector<double> w = weights(s, sections);
  const std::array<NoisyRow, 2> noisy{NoisyRow{masks[0], w}, NoisyRow{masks[1], w}};
  const std::vector<uint8_t> none(s.tokens.size(), 0);
  SequenceRows rows = dual_rows(s, turns_of_blocks(s.block), std::span(noisy).first(rule.complement ? 2 : 1),
                                rule.ar_weight > 0 ? s.response : none, true);
  if (rule.ar_weight > 0 && rule.ar_weight != 1)
    for (auto& term : rows.terms) term.weight *= term.noisy ? 1 : rule.ar_weight;
  add_grounding(s, rows);
  rows.count = 2 * response_count(s);
  if (!rule.by_sequence || rows.count <= 0) return rows;
  for (auto& term : rows.terms) term.weight /= rows.count;
  rows.count = 1;
  return rows;
}

std::vector<SequenceRows> sasd_rows_unshared(const Sample& s, const std::array<std::vector<uint8_t>, 2>& masks,
                                             const std::vector<SectionRule>& sections) {
  const std::vector<double> w = weights(s, sections);
  std::vector<SequenceRows> out;
  for (size_t k = 0; k < 2; ++k) {
    const NoisyRow noisy{masks[k], w};
    const std::vector<uint8_t> none(s.tokens.size(), 0);
    out.push_back(dual_rows(s, turns_of_blocks(s.block), {&noisy, 1}, k == 0 ? s.response : none, true));
    if (k == 0) add_grounding(s, out.back());
    out.back().count = response_count(s);
  }
  return out;
}

NldNoise nld_noise(const Sample& s, const NldRule& rule, const NoiseKey& key) {
  NoiseKey of = key;
  if (rule.noise_of_step) of.sample = 0;
  PhiloxStream stream = noise_stream(of, 0);
  NldNoise noise;
  noise.t = stream.uniform();
  for (size_t i = 0; i < s.tokens.size(); ++i) noise.draw.push_back(stream.uniform());
  return noise;
}

namespace {

/// A row whose input is no embedding of its token: an image's, or the one of the ego history.
bool is_feature(const Sample& s, size_t i) {
  const bool image = s.image_token.value >= 0 && s.tokens[i] == s.image_token;
  return image || (!s.history.empty() && s.tokens[i] == s.history_token);
}
bool in_answer(const Sample& s, size_t i) { return i < s.response.size() && s.response[i] != 0; }

}  // namespace

SequenceRows nld_rows(const Sample& s, const NldNoise& noise, const NldRule& rule, bool ar_only) {
  const size_t n = s.tokens.size();
  const bool diffusion = !ar_only && rule.alpha > 0;
  const double p = (1 - rule.minimum_noise) * noise.t + rule.minimum_noise;
  NoisyRow noisy{std::vector<uint8_t>(n, 0), std::vector<double>(n, rule.alpha / p)};
  std::vector<int32_t> turn(n);
  std::vector<uint8_t> label(n, 0);
  double count = 0;
  for (size_t i = 0; i < n; ++i) {
    turn[i] = static_cast<int32_t>(i) / rule.block_size;
    if (is_feature(s, i)) continue;
    noisy.masked[i] = diffusion && noise.draw[i] < p && (!rule.answers_masked || in_answer(s, i));
    label[i] = i >= 1 && rule.ar_weight > 0 && (!rule.answers_predicted || in_answer(s, i));
    count += noisy.masked[i] + label[i];
  }
  SequenceRows rows = dual_rows(s, turn, {&noisy, diffusion ? size_t{1} : size_t{0}}, label, false);
  const double unit = rule.by_sequence && count > 0 ? 1 / count : 1;
  for (auto& term : rows.terms) term.weight *= unit * (term.noisy ? 1 : rule.ar_weight);
  rows.count = rule.by_sequence ? (count > 0 ? 1 : 0) : count;
  return rows;
}

}  // namespace slip
