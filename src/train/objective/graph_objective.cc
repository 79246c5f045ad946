// SPDX-License-Identifier: Apache-2.0
// Rows and weights of the graph objective; contracts in graph_objective.h.
#include "train/objective/graph_objective.h"

#include <algorithm>

#include "base/check.h"

namespace slip {
namespace {

/// One sample's rows, piece by piece.
class Maker {
 public:
  Maker(const Sample& s, const GraphRule& rule) : s_(s), form_(s.graph->form), visibility_(s.graph->visibility), rule_(rule) {}

  GraphRows make(std::span<const DraftBlock> blocks) {
    add_prompt();
    add_scaffold();
    const size_t n = form_.fields().size();
    auto row = static_cast<int32_t>(rows().tokens.size());
    for (size_t f = 0; f < n; ++f) {
      out_.field_row.push_back(row);
      const int32_t hand_off = is_absent(form_, s_.contents, f) ? 0 : form_.fields()[f].hand_off;
      out_.field_rows.push_back(hand_off + static_cast<int32_t>(s_.contents[f].size()));
      row += out_.field_rows.back();
    }
    for (size_t f = 0; f < n; ++f) {
      forced_.push_back(is_unused(form_, s_.contents, f));
      items_.push_back(drawn_items(form_.fields()[f], s_.contents[f]));
      weight_.push_back(graph_weight(form_, f, rule_.weights));
      add_field(f);
    }
    out_.draft_row.assign(n, -1);
    for (size_t f = 0; f < n; ++f)
      if (blocks[f].width > 0) add_draft(f, blocks[f]);
    rows().count = static_cast<double>(rows().terms.size());
    slip::add_grounding(s_, rows());
    return std::move(out_);
  }

 private:
  SequenceRows& rows() { return out_.rows; }

  void add(TokenId token, Position position, int32_t feature, IndexRanges sees) {
    rows().tokens.push_back(token.value);
    rows().positions.push_back(position);
    rows().feature.push_back(feature);
    rows().sees.push_back(std::move(sees));
  }
  Position at(int32_t u) const { return Position::text(s_.next_position + u); }

  void add_prompt() {
    out_.prompt = static_cast<int32_t>(s_.tokens.size());
    const std::vector<int32_t> feature = features_of(s_);
    for (int32_t i = 0; i < out_.prompt; ++i) {
      const auto k = static_cast<size_t>(i);
      add(s_.tokens[k], s_.positions[k], feature[k], causal_row(i));
    }
  }

  void add_scaffold() {
    out_.scaffold.assign(static_cast<size_t>(form_.length()), -1);
    for (int32_t u = 0; u < form_.length(); ++u) {
      scaffold_before_.push_back(static_cast<int32_t>(rows().tokens.size()));
      if (!form_.is_scaffold(u)) continue;
      const auto row = static_cast<int32_t>(rows().tokens.size());
      out_.scaffold[static_cast<size_t>(u)] = row;
      add(*form_.fixed_at(u), at(u), -1, causal_row(row));
    }
    scaffold_before_.push_back(static_cast<int32_t>(rows().tokens.size()));
  }

  /// What all rows of a field see before their own. Scaffold first, then fields: the order of keys moves rounding alone, and
  /// so neighbouring ancestors join to one range.
  IndexRanges context(size_t field) const {
    IndexRanges sees;
    append_range(sees, 0, out_.prompt);
    const auto segments = visibility_.context(static_cast<int32_t>(field));
    for (const GraphVisibility::Segment& g : segments)
      if (!g.field)
        append_range(sees, scaffold_before_[static_cast<size_t>(g.begin)], scaffold_before_[static_cast<size_t>(g.end)]);
    for (const GraphVisibility::Segment& g : segments) {
      if (!g.field) continue;
      const auto a = static_cast<size_t>(*g.field);
      append_range(sees, out_.field_row[a], out_.field_row[a] + out_.field_rows[a]);
    }
    return sees;
  }

  /// Token of row (field, i): of the hand-off, then of the content.
  TokenId row_token(size_t field, int32_t i) const {
    const Field& f = form_.fields()[field];
    return i < f.hand_off ? *form_.fixed_at(f.start - f.hand_off + i) : s_.contents[field][static_cast<size_t>(i - f.hand_off)];
  }

  void add_field(size_t f) {
    const Field& field = form_.fields()[f];
    const IndexRanges before = context(f);
    const int32_t first = out_.field_row[f], before_content = field.hand_off - 1;
    SLIP_CHECK(static_cast<size_t>(first) == rows().tokens.size(), "fields' rows lie as counted");
    for (int32_t i = 0; i < out_.field_rows[f]; ++i) {
      IndexRanges sees = before;
      append_range(sees, first, first + i + 1);
      add(row_token(f, i), at(field.start - field.hand_off + i), -1, std::move(sees));
      const auto item = static_cast<size_t>(i - before_content);
      if (!forced_[f] && i >= before_content && item < items_[f].size())
        rows().terms.push_back({first + i, items_[f][item].value, weight_[f], false});
    }
  }

  void add_draft(size_t f, DraftBlock block) {
    const Field& field = form_.fields()[f];
    const auto first = static_cast<int32_t>(rows().tokens.size());
    const int32_t masks = std::min(block.width - 1, field.budget - block.cut);
    const int32_t left = static_cast<int32_t>(items_[f].size()) - block.cut;
    SLIP_CHECK(!forced_[f] && block.cut >= 0 && masks > 0 && left > 0, "a block has something to draft");
    out_.draft_row[f] = first;
    // Rows that the engine has not fed before the block: the newest, or the hand-off.
    const int32_t fed = block.cut == 0 ? 0 : field.hand_off - 1 + block.cut, known = block.cut == 0 ? field.hand_off : 1;
    IndexRanges sees = context(f);
    append_range(sees, out_.field_row[f], out_.field_row[f] + fed);
    append_range(sees, first, first + known + masks);
    for (int32_t k = 0; k < known + masks; ++k) {
      add(k < known ? row_token(f, fed + k) : s_.mask_token, at(field.start - field.hand_off + fed + k), -1, sees);
      const int32_t item = k - (known - 1);
      if (item >= 0 && item < std::min(masks, left))
        rows().terms.push_back(
            {first + k, items_[f][static_cast<size_t>(block.cut + item)].value, weight_[f] * rule_.draft_weight, true});
    }
  }

  const Sample& s_;
  const Form& form_;
  const GraphVisibility& visibility_;
  const GraphRule& rule_;
  GraphRows out_;
  std::vector<int32_t> scaffold_before_;  // by form position: the row of the first fixed token at or after it
  std::vector<uint8_t> forced_;
  std::vector<std::vector<TokenId>> items_;
  std::vector<double> weight_;
};

}  // namespace

std::vector<TokenId> drawn_items(const Field& field, std::span<const TokenId> content) {
  std::vector<TokenId> items(content.begin(), content.end());
  if (field.end && static_cast<int32_t>(content.size()) < field.budget) items.push_back(*field.end);
  return items;
}

Status check_graph_weights(const std::vector<GraphWeight>& rules, std::span<const std::string> sections,
                           std::span<const std::string> fields) {
  for (const GraphWeight& rule : rules) {
    const bool of_section = std::find(sections.begin(), sections.end(), rule.of) != sections.end();
    const bool of_field = std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.starts_with(rule.of); });
    if (of_section || of_field) continue;
    std::string all;
    for (const std::string& name : sections) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", name);
    return bad_input("objective: weights: of: expected one of the sections {} or the beginning of a field's name, got \"{}\"", all,
                     rule.of);
  }
  return {};
}

double graph_weight(const Form& form, size_t field, const std::vector<GraphWeight>& rules) {
  const Field& f = form.fields()[field];
  const std::string& section = form.sections()[static_cast<size_t>(f.section)].name;
  double weight = 1;
  for (const GraphWeight& rule : rules)
    if (rule.of == section || f.name.starts_with(rule.of)) weight = rule.weight;
  return weight;
}

Status check_graph_sample(const Sample& s) {
  if (!s.graph)
    return bad_input("sample: expected a form with fields for the graph objective (a model with graph visibility), got none");
  const auto fields = s.graph->form.fields();
  if (s.contents.size() != fields.size())
    return bad_input("sample: expected contents of {} fields, got {}", fields.size(), s.contents.size());
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto n = static_cast<int32_t>(s.contents[f].size());
    if (is_absent(s.graph->form, s.contents, f)) {
      if (n > 0)
        return bad_input("sample: field {}: expected nothing of an instance that is not named, got {} tokens", fields[f].name, n);
      continue;
    }
    if (n > fields[f].budget || (!fields[f].end && n < fields[f].budget))
      return bad_input("sample: field {}: expected {}{} tokens, got {}", fields[f].name, fields[f].end ? "at most " : "",
                       fields[f].budget, n);
    if (is_unused(s.graph->form, s.contents, f) && s.contents[f] != fields[f].placeholder)
      return bad_input("sample: field {}: expected the placeholder in an instance that is not named, got other content",
                       fields[f].name);
  }
  return {};
}

std::vector<DraftBlock> draft_blocks(const Sample& s, const GraphRule& rule, const NoiseKey& key) {
  const Form& form = s.graph->form;
  std::vector<DraftBlock> out(form.fields().size());
  for (size_t f = 0; f < out.size(); ++f) {
    if (is_unused(form, s.contents, f)) continue;
    PhiloxStream draw = noise_stream(key, static_cast<uint32_t>(f));
    const auto items = static_cast<uint32_t>(drawn_items(form.fields()[f], s.contents[f]).size());
    const bool chosen = draw.chance(rule.draft_share), from_start = draw.chance(rule.draft_first);
    const auto cut = static_cast<int32_t>(draw.below(items));
    const bool narrow = draw.chance(rule.draft_narrow);
    const auto width = 2 + static_cast<int32_t>(draw.below(static_cast<uint32_t>(rule.draft_length - 1)));
    if (chosen) out[f] = {from_start ? 0 : cut, narrow ? width : rule.draft_length};
  }
  return out;
}

GraphRows graph_rows(const Sample& s, std::span<const DraftBlock> blocks, const GraphRule& rule) {
  SLIP_CHECK(s.graph && blocks.size() == s.graph->form.fields().size(), "callers check the sample; one block per field");
  return Maker(s, rule).make(blocks);
}

}  // namespace slip
