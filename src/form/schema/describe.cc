// SPDX-License-Identifier: Apache-2.0
// A form explained, for people and for tools. Same content in both.
#include <fmt/ranges.h>
#include <algorithm>

#include "form/schema/values.h"

namespace slip {
namespace {

std::string spelled(std::span<const TokenId> ids, const Tokenizer* tokenizer) {
  if (tokenizer) return json::serialize(json::string(tokenizer->decode(ids)));
  std::string s;
  for (const TokenId id : ids) s += fmt::format("{}{}", s.empty() ? "" : " ", id.value);
  return s;
}

json::array ids_json(std::span<const TokenId> ids) {
  json::array out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}

std::string parents_line(const Form& form, const Field& f) {
  return f.parents.empty() ? "-" : fmt::format("{}", fmt::join(parent_names(form, f), ", "));
}

/// What an enumeration or an instance has besides; empty for a plain field.
std::string stages(const Form& form, const Field& f, const Tokenizer* tokenizer) {
  std::string s;
  const Field* of = f.instance_of ? &form.fields()[static_cast<size_t>(f.instance_of->field)] : nullptr;
  if (!f.separators.empty()) s += fmt::format("  enumerates, {} separators", f.separators.size());
  if (f.instance_of)
    s += fmt::format("  instance {} of {}{}", f.instance_of->instance, of->name, of->leaves_out ? ", absent where not named" : "");
  if (!f.placeholder.empty()) s += fmt::format("  placeholder {}", spelled(f.placeholder, tokenizer));
  return s;
}

int32_t values_in(const Form& form, const Block& b) {
  int32_t n = 0;
  for (int32_t u = b.begin; u < b.end; ++u) n += form.fixed_at(u) ? 0 : 1;
  return n;
}

int32_t depth_of(const Form& form, size_t f, std::vector<int32_t>& known) {
  if (known[f] >= 0) return known[f];
  int32_t before = 0;
  for (const int32_t p : form.fields()[f].parents) before = std::max(before, depth_of(form, static_cast<size_t>(p), known));
  return known[f] = before + form.fields()[f].budget;
}

}  // namespace

std::vector<std::vector<size_t>> waves_of(const Form& form) {
  std::vector<size_t> wave(form.fields().size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t f = 0; f < wave.size(); ++f)
      for (const int32_t p : form.fields()[f].parents)
        if (wave[f] <= wave[static_cast<size_t>(p)]) wave[f] = wave[static_cast<size_t>(p)] + 1, moved = true;
  }
  std::vector<std::vector<size_t>> out;
  for (size_t f = 0; f < wave.size(); ++f) {
    if (out.size() <= wave[f]) out.resize(wave[f] + 1);
    out[wave[f]].push_back(f);
  }
  return out;
}

std::vector<std::string> parent_names(const Form& form, const Field& field) {
  std::vector<std::string> names;
  for (const int32_t p : field.parents) names.push_back(form.fields()[static_cast<size_t>(p)].name);
  return names;
}

int32_t critical_path(const Form& form) {
  std::vector<int32_t> known(form.fields().size(), -1);
  int32_t longest = 0;
  for (size_t f = 0; f < known.size(); ++f) longest = std::max(longest, depth_of(form, f, known));
  return longest;
}

std::string describe(const Form& form, const Tokenizer* tokenizer) {
  std::string s = fmt::format("form {}: {} positions, {} fixed, {} fields, {} sections, {} blocks, critical path {}\n", form.name(),
                              form.length(), form.fixed_tokens(), form.fields().size(), form.sections().size(),
                              form.blocks().size(), critical_path(form));
  for (const Section& section : form.sections())
    s += fmt::format("section {:<24} [{}, {})\n", section.name, section.begin, section.end);
  for (size_t b = 0; b < form.blocks().size(); ++b) {
    const Block& block = form.blocks()[b];
    s += fmt::format("block {:<3} [{}, {}), {} values\n", b, block.begin, block.end, values_in(form, block));
  }
  const auto waves = waves_of(form);
  for (size_t w = 0; w < waves.size(); ++w) {
    s += fmt::format("wave {:<4}", w);
    for (size_t i = 0; i < waves[w].size(); ++i) s += (i ? ", " : "") + form.fields()[waves[w][i]].name;
    s += "\n";
  }
  int32_t at = 0;
  for (const Piece& piece : form.pieces()) {
    if (const auto* run = std::get_if<FixedRun>(&piece)) {
      s += fmt::format("{:>5}  fixed  {}\n", at, spelled(run->ids, tokenizer));
      at += static_cast<int32_t>(run->ids.size());
      continue;
    }
    const Field& f = form.fields()[static_cast<size_t>(std::get<FieldRef>(piece).field)];
    s += fmt::format("{:>5}  field  {}  budget {}  end {}  parents {}{}\n", at, f.name, f.budget,
                     f.end ? spelled(std::span(&*f.end, 1), tokenizer) : "-", parents_line(form, f), stages(form, f, tokenizer));
    at += f.budget;
  }
  return s;
}

json::object describe_json(const Form& form, const Tokenizer* tokenizer) {
  json::object out{{"name", form.name()},
                   {"positions", form.length()},
                   {"fixed_tokens", form.fixed_tokens()},
                   {"critical_path", critical_path(form)}};
  json::array pieces, fields, sections, blocks, waves;
  for (const Piece& piece : form.pieces()) {
    const auto* run = std::get_if<FixedRun>(&piece);
    if (!run) {
      pieces.push_back(json::object{{"field", std::get<FieldRef>(piece).field}});
      continue;
    }
    json::object fixed{{"fixed", ids_json(run->ids)}, {"section", run->section}};
    if (tokenizer) fixed["text"] = tokenizer->decode(run->ids);
    pieces.push_back(std::move(fixed));
  }
  for (const Field& f : form.fields()) {
    json::value end = nullptr;
    if (f.end) end = f.end->value;
    json::object field{{"name", f.name},
                       {"start", f.start},
                       {"budget", f.budget},
                       {"end", std::move(end)},
                       {"section", form.sections()[static_cast<size_t>(f.section)].name},
                       {"parents", json::value_from(parent_names(form, f))}};
    if (!f.separators.empty()) field["separators"] = ids_json(f.separators);
    if (f.leaves_out) field["unused"] = "absent";
    if (!f.placeholder.empty()) field["placeholder"] = ids_json(f.placeholder);
    if (f.instance_of)
      field["instance_of"] = json::object{{"field", form.fields()[static_cast<size_t>(f.instance_of->field)].name},
                                          {"instance", f.instance_of->instance}};
    fields.push_back(std::move(field));
  }
  for (const auto& wave : waves_of(form)) {
    json::array names;
    for (const size_t f : wave) names.push_back(json::string(form.fields()[f].name));
    waves.push_back(std::move(names));
  }
  for (const Section& s : form.sections()) sections.push_back(json::object{{"name", s.name}, {"begin", s.begin}, {"end", s.end}});
  for (const Block& b : form.blocks())
    blocks.push_back(json::object{{"begin", b.begin}, {"end", b.end}, {"values", values_in(form, b)}});
  out["waves"] = std::move(waves);
  out["sections"] = std::move(sections);
  out["fields"] = std::move(fields);
  out["pieces"] = std::move(pieces);
  out["blocks"] = std::move(blocks);
  return out;
}

}  // namespace slip
