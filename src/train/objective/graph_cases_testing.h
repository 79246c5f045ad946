// SPDX-License-Identifier: Apache-2.0
// For tests: the cases of tests/fixtures/decode that are decoded along a graph, as samples of the graph objective whose contents
// are the recorded answers.
#pragma once
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/must_testing.h"
#include "train/data/source.h"

namespace slip {

inline const std::filesystem::path kDecode = std::filesystem::path(SLIP_FIXTURES) / "decode";

inline std::vector<TokenId> ids_of(const json::value& v) {
  std::vector<TokenId> out;
  for (const auto& x : v.as_array()) out.push_back({static_cast<int32_t>(x.as_int64())});
  return out;
}

/// Parents are names or numbers.
inline std::vector<int32_t> parents_of(const json::array& parents, const std::map<std::string, int32_t>& index) {
  std::vector<int32_t> out;
  for (const auto& p : parents)
    out.push_back(p.is_string() ? index.at(std::string(p.as_string())) : static_cast<int32_t>(p.as_int64()));
  return out;
}

struct Case {
  json::object source;
  Sample sample;
  std::vector<std::string> names;
};

inline Case case_of(const json::object& o) {
  Case c;
  c.source = o;
  Form::Parts parts;
  parts.name = std::string(o.at("name").as_string());
  std::map<std::string, int32_t> index;
  for (const auto& v : o.at("form").as_array()) {
    const auto& piece = v.as_object();
    if (piece.contains("fixed")) {
      parts.pieces.emplace_back(FixedRun{ids_of(piece.at("fixed")), 0});
      continue;
    }
    Field f;
    f.name = std::string(piece.at("field").as_string());
    f.budget = static_cast<int32_t>(piece.at("budget").as_int64());
    if (!piece.at("end").is_null()) f.end = TokenId{static_cast<int32_t>(piece.at("end").as_int64())};
    if (!piece.at("allowed").is_null()) f.rules = TokenRules::only(ids_of(piece.at("allowed")));
    index[f.name] = static_cast<int32_t>(parts.fields.size());
    c.names.push_back(f.name);
    parts.pieces.emplace_back(FieldRef{static_cast<int32_t>(parts.fields.size())});
    parts.fields.push_back(std::move(f));
  }
  size_t f = 0;
  for (const auto& v : o.at("form").as_array())
    if (v.as_object().contains("field")) parts.fields[f++].parents = parents_of(v.as_object().at("parents").as_array(), index);
  Sample& s = c.sample;
  s.graph = std::make_shared<GraphForm>(must(Form::make(std::move(parts))));
  s.tokens = ids_of(o.at("prompt"));
  for (size_t i = 0; i < s.tokens.size(); ++i) s.positions.push_back(Position::text(static_cast<int32_t>(i)));
  s.next_position = static_cast<int32_t>(s.tokens.size());
  s.mask_token = {1};
  for (const std::string& name : c.names) s.contents.push_back(ids_of(o.at("expected").at("fields").at(name)));
  return c;
}

/// Contents of a form behind a prompt of two tokens.
inline Sample sample_of(Form::Parts p, std::vector<std::vector<TokenId>> contents) {
  Sample s;
  s.graph = std::make_shared<GraphForm>(must(Form::make(std::move(p))));
  s.tokens = {{40}, {41}};
  s.positions = {Position::text(0), Position::text(1)};
  s.next_position = 2;
  s.mask_token = {1};
  s.contents = std::move(contents);
  return s;
}

/// "e: a;b  1: .. 2: .. rest: ..": an enumeration of at most two instances that are absent where it does not name them, and a field that
/// depends on both. 22 ends fields and begins the text before and behind an instance; 21 separates, 23 stands for none.
inline Sample sample_with_absent(std::vector<std::vector<TokenId>> contents) {
  const TokenId colon{20}, end{22};
  Form::Parts p{.name = "absent", .section_names = {"cot", "rest"}};
  for (int32_t f = 0; f < 4; ++f) {
    p.pieces.emplace_back(FixedRun{{end, {30 + f}, colon}, f < 3 ? 0 : 1});
    p.pieces.emplace_back(FieldRef{f});
  }
  p.pieces.emplace_back(FixedRun{{end}, 1});
  p.fields.push_back({.name = "e", .budget = 3, .end = end, .separators = {{21}}, .placeholder = {{23}}, .leaves_out = true});
  for (int32_t f = 1; f < 3; ++f)
    p.fields.push_back(
        {.name = "one_" + std::to_string(f), .budget = 4, .end = end, .parents = {0}, .instance_of = Field::InstanceOf{0, f - 1}});
  p.fields.push_back({.name = "sum", .budget = 2, .parents = {1, 2}, .section = 1});
  return sample_of(std::move(p), std::move(contents));
}

inline std::vector<Case> cases_of(const std::string& file) {
  std::vector<Case> out;
  const json::value root = must(read_json(kDecode / file));
  for (const auto& v : root.as_object().at("cases").as_array()) out.push_back(case_of(v.as_object()));
  return out;
}

}  // namespace slip
