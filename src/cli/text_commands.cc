// SPDX-License-Identifier: Apache-2.0
// `tokenize` and `detokenize`.
#include <charconv>

#include "cli/commands.h"
#include "cli/output.h"
#include "slipstream/model.h"

namespace slip::cli {

namespace {

Result<std::vector<int32_t>> parse_ids(std::string_view text, std::string_view where) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == ' ' || c == ',' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']') {
      ++i;
      continue;
    }
    int32_t id = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), id);
    if (error != std::errc{} || id < 0) {
      return bad_input("{}: expected ids separated by spaces or commas, got \"{}\" at byte {}", where,
                       slipstream::to_valid_utf8(text.substr(i, 12)), i);
    }
    out.push_back(id);
    i = static_cast<size_t>(end - text.data());
  }
  return out;
}

}  // namespace

Status tokenize(const TokenizeOptions& o) {
  std::string text = o.text;
  std::string where = "--text";
  if (!o.has_text) {
    where = o.file.empty() ? "standard input" : o.file;
    SLIP_TRY(text, read_input(o.file.empty() ? "-" : o.file));
  }
  SLIP_TRY(const slipstream::Tokenizer tokenizer, slipstream::Tokenizer::load(o.model));
  if (!slipstream::is_valid_utf8(text)) {
    if (!o.lossy) return bad_input("{}: expected valid UTF-8, got other bytes (--lossy reads them as U+FFFD)", where);
    text = slipstream::to_valid_utf8(text);
  }
  SLIP_TRY(const std::vector<int32_t> ids, tokenizer.encode(text));
  json::array pieces;
  for (const int32_t id : ids) pieces.emplace_back(tokenizer.piece(id));
  if (o.json) {
    print_json({{"ids", json::value_from(ids)}, {"pieces", pieces}, {"count", ids.size()}});
    return {};
  }
  for (size_t i = 0; i < ids.size(); ++i) print_text(fmt::format("{}\t{}\n", ids[i], std::string(pieces[i].as_string())));
  return {};
}

Status detokenize(const DetokenizeOptions& o) {
  std::string text = o.ids;
  const std::string where = o.has_ids ? "--ids" : o.file.empty() ? "standard input" : o.file;
  if (!o.has_ids) {
    SLIP_TRY(text, read_input(o.file.empty() ? "-" : o.file));
  }
  SLIP_TRY(const slipstream::Tokenizer tokenizer, slipstream::Tokenizer::load(o.model));
  SLIP_TRY(const std::vector<int32_t> ids, parse_ids(text, where));
  for (const int32_t id : ids)
    if (id >= tokenizer.size()) return bad_input("{}: expected ids below {}, got {}", where, tokenizer.size(), id);
  SLIP_TRY(const std::string decoded, tokenizer.decode(ids, o.skip_special));
  if (o.json) {
    print_json({{"text", decoded}, {"count", ids.size()}});
  } else {
    print_text(decoded);
  }
  return {};
}

}  // namespace slip::cli
