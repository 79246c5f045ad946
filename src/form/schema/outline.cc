// SPDX-License-Identifier: Apache-2.0
#include "form/schema/outline.h"

#include <fmt/ranges.h>

#include "form/schema/text.h"
#include "form/schema/typed/open_form.h"
#include "form/schema/typed/shape.h"
#include "form/schema/typed/typed.h"
#include "form/schema/values.h"

namespace slip {
namespace {

constexpr int32_t kFirstEntry = 256;  // ids below are bytes, those from here entries of x-before and x-after

struct Outline {
  FormText text;
  Form form;                         // with bytes for tokens
  std::vector<std::string> entries;  // spelled, by id
};

void append(const TextPiece& piece, bool in_tokens, Outline& out, Form::Parts& parts) {
  FixedRun* last = parts.pieces.empty() ? nullptr : std::get_if<FixedRun>(&parts.pieces.back());
  if (last == nullptr || last->section != piece.section) {
    parts.pieces.emplace_back(FixedRun{{}, piece.section});
    last = &std::get<FixedRun>(parts.pieces.back());
  }
  if (!in_tokens)
    for (const char c : piece.text) last->ids.push_back(TokenId{static_cast<unsigned char>(c)});
  for (const std::string& entry : piece.tokens) {
    last->ids.push_back({kFirstEntry + static_cast<int32_t>(out.entries.size())});
    out.entries.push_back(entry);
  }
}

/// A number's own space: known beforehand, so fixed text, as it is wherever it is a token (schema.cc).
bool leads_with_space(const FieldSpec& spec) {
  const auto* number = std::get_if<NumberFormat>(&spec.kind);
  return number != nullptr && number->space;
}

/// What stands for END, separators and placeholders here: their tokens are the tokenizer's, that they are there is the schema's.
Field field_of(const FieldSpec& spec) {
  Field f;
  f.name = spec.name;
  f.section = spec.section;
  f.budget = spec.budget > 0 ? spec.budget
                             : static_cast<int32_t>(longest_value(spec)) + (spec.space ? 1 : 0) - (leads_with_space(spec) ? 1 : 0);
  f.instance_of = spec.instance_of;
  f.leaves_out = spec.leaves_out;
  if (spec.separator != 0) f.separators = {TokenId{static_cast<unsigned char>(spec.separator)}};
  if (spec.instance_of) f.end = TokenId{'\n'};
  if (spec.instance_of && !spec.optional) f.placeholder = {TokenId{'-'}};
  return f;
}

Result<Outline> outline_of(const json::value& schema, std::string_view name) {
  Outline out;
  SLIP_TRY(out.text, read_schema(schema, name));
  Form::Parts parts{.name = std::string(name), .section_names = out.text.section_names, .block_size = out.text.block_size};
  for (const TextPiece& piece : out.text.pieces) {
    if (piece.field < 0) {
      append(piece, out.text.layout == Layout::kTokens, out, parts);
    } else {
      const FieldSpec& spec = out.text.fields[static_cast<size_t>(piece.field)];
      if (leads_with_space(spec)) append({.text = " ", .section = spec.section}, false, out, parts);
      parts.pieces.emplace_back(FieldRef{piece.field});
      parts.fields.push_back(field_of(spec));
    }
  }
  SLIP_TRY_(link_parents(out.text, name, parts.fields));
  SLIP_TRY(out.form, Form::make(std::move(parts)));
  return out;
}

std::string spelled(const Outline& o, const FixedRun& run) {
  std::string s;
  for (const TokenId id : run.ids)
    if (id.value < kFirstEntry)
      s += static_cast<char>(id.value);
    else
      s += o.entries[static_cast<size_t>(id.value - kFirstEntry)];
  return s;
}

std::string kind_of(const FieldSpec& spec) {
  if (const auto* choice = std::get_if<ChoiceSpec>(&spec.kind)) return fmt::format("one of {} words", choice->words.size());
  if (const auto* number = std::get_if<NumberFormat>(&spec.kind)) return fmt::format("number \"{}\"", number->spelled);
  if (const auto* bins = std::get_if<BinsSpec>(&spec.kind))
    return bins->count > 0 ? fmt::format("{} of {} bins", bins->count, bins->ids) : fmt::format("one of {} bins", bins->ids);
  return spec.instances > 0 ? fmt::format("enumeration of at most {}", spec.instances) : "text";
}

}  // namespace

Result<std::string> outline(const json::value& schema, std::string_view name) {
  SLIP_TRY(const Outline o, outline_of(schema, name));
  const Form& form = o.form;
  std::string s = fmt::format(
      "form {}: {} fields, {} sections, critical path at most {}\n"
      "tokens at most: a budget where the schema has one, otherwise bytes; --model counts those of its tokenizer\n",
      name, form.fields().size(), form.sections().size(), critical_path(form));
  for (const Section& section : form.sections()) s += fmt::format("section {}\n", section.name);
  const auto waves = waves_of(form);
  for (size_t w = 0; w < waves.size(); ++w) {
    s += fmt::format("wave {:<4}", w);
    for (size_t i = 0; i < waves[w].size(); ++i) s += (i ? ", " : "") + form.fields()[waves[w][i]].name;
    s += "\n";
  }
  for (const Piece& piece : form.pieces()) {
    if (const auto* run = std::get_if<FixedRun>(&piece)) {
      s += fmt::format("fixed  {}\n", json::serialize(json::string(spelled(o, *run))));
      continue;
    }
    const auto at = static_cast<size_t>(std::get<FieldRef>(piece).field);
    const Field& f = form.fields()[at];
    s += fmt::format("field  {}  {}  budget {}  parents {}", f.name, kind_of(o.text.fields[at]), f.budget,
                     f.parents.empty() ? "-" : fmt::format("{}", fmt::join(parent_names(form, f), ", ")));
    if (f.instance_of)
      s += fmt::format("  instance {} of {}{}", f.instance_of->instance,
                       form.fields()[static_cast<size_t>(f.instance_of->field)].name,
                       form.may_be_absent(static_cast<int32_t>(at)) ? ", absent where not named" : "");
    s += "\n";
  }
  return s;
}

Result<json::object> outline_json(const json::value& schema, std::string_view name) {
  SLIP_TRY(const Outline o, outline_of(schema, name));
  const Form& form = o.form;
  json::object out{{"name", name},
                   {"at_most", true},
                   {"positions", form.length()},
                   {"fixed_tokens", form.fixed_tokens()},
                   {"critical_path", critical_path(form)},
                   {"block_size", o.text.block_size}};
  json::array waves, sections, fields, pieces;
  for (const auto& wave : waves_of(form)) {
    json::array names;
    for (const size_t f : wave) names.push_back(json::string(form.fields()[f].name));
    waves.push_back(std::move(names));
  }
  for (const Section& section : form.sections()) sections.push_back(json::object{{"name", section.name}});
  for (size_t i = 0; i < form.fields().size(); ++i) {
    const Field& f = form.fields()[i];
    json::object field{{"name", f.name},
                       {"kind", kind_of(o.text.fields[i])},
                       {"budget", f.budget},
                       {"section", form.sections()[static_cast<size_t>(f.section)].name},
                       {"parents", json::value_from(parent_names(form, f))}};
    if (f.instance_of)
      field["instance_of"] = json::object{{"field", form.fields()[static_cast<size_t>(f.instance_of->field)].name},
                                          {"instance", f.instance_of->instance}};
    if (f.leaves_out) field["unused"] = "absent";
    fields.push_back(std::move(field));
  }
  for (const Piece& piece : form.pieces()) {
    if (const auto* run = std::get_if<FixedRun>(&piece))
      pieces.push_back(json::object{{"text", spelled(o, *run)}, {"section", run->section}});
    else
      pieces.push_back(json::object{{"field", std::get<FieldRef>(piece).field}});
  }
  out["waves"] = std::move(waves);
  out["sections"] = std::move(sections);
  out["fields"] = std::move(fields);
  out["pieces"] = std::move(pieces);
  return out;
}

std::vector<Error> errors_of_form(const json::value& schema, std::string_view name) {
  const auto as_trained = outline(schema, name);
  if (is_trained_form(schema)) return as_trained ? std::vector<Error>{} : std::vector{as_trained.error()};
  std::vector<Error> errors = errors_of_schema(schema, name);
  if (!errors.empty() || as_trained) return errors;
  const auto shape_at = [&](const UsualSizes& usual) {
    const auto typed = read_typed(schema, name, usual);
    return typed ? shape_of(*typed, name) : Result<Shape>(typed.error());
  };
  const auto shape = shape_at({});
  const bool ways = !shape && shape.error().message.find(kTooManyWays) != std::string::npos;
  if (!shape && !(ways && shape_at(kLeastSizes))) errors.push_back(shape.error());  // as compile_open takes it
  return errors;
}

Status check_told_apart(const json::value& schema, std::string_view name) { return try_in_bytes(schema, name); }

std::vector<std::string> notes_of_form(const json::value& schema, std::string_view name) {
  if (is_trained_form(schema)) return {};
  const auto typed = read_typed(schema, name);
  return typed ? typed->notes : std::vector<std::string>();
}

}  // namespace slip
