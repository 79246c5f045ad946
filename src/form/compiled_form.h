// SPDX-License-Identifier: Apache-2.0
// A form for one vocabulary: its tokens, and what its fields' tokens mean.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "form/form.h"
#include "plan/codebook.h"
#include "text/tokenizer.h"

namespace slip {

/// What a form needs to know of the model. `tokenizer` is only used while compiling.
struct FormTokens {
  const Tokenizer* tokenizer = nullptr;
  std::optional<TokenId> null_token;  // |NULL|, where the checkpoint was trained with it
  int32_t vocab = 0;                  // rows of the model's head; ids beyond the tokenizer are denied in free text
  int32_t positions = 0;              // that the model was made for, prompt and answer together; 0: any number
  bool graph = false;                 // every value that may be there has its own
};

/// " +000.00": a leading space, a forced sign, digits before and after the point.
struct NumberFormat {
  bool space = false, sign = false;
  int32_t integer_digits = 1, decimals = 0;
  std::string spelled;
  /// Characters of a rendered number: space, sign, digits, point.
  std::string render(double value) const;
  /// |value| that still fits, e.g. 999.99.
  double largest() const;
};

/// A field's values and their tokens in place.
struct ChoiceMeaning {
  std::vector<std::string> words;
  std::vector<std::vector<TokenId>> ids;  // content tokens of each word, without NULL
  std::map<std::string, std::string> aliases;
};
struct TextMeaning {
  bool space = false;       // written behind a space that belongs to the content
  std::string placeholder;  // of enumerations and instances
};
struct NumberMeaning {
  NumberFormat format;
  int32_t skip = 0;                          // leading characters that went into the scaffold (a space that is its own token)
  std::vector<std::map<char, TokenId>> ids;  // per content token; keyed by its last character
};
/// Ids of a range, in ascending order of values or descending: bin b of n stands for the integer b, or for the number in the middle
/// of [edge(b), edge(b + 1)] between n edges that divide low .. high evenly; the last bin, which is above all edges, for the number
/// of the one before it [OpenVLA, ActionTokenizer; docs/notes/checkpoints.md#openvla].
struct BinsMeaning {
  TokenId first, last;
  int32_t count = 0;  // numbers of an array, side by side in one field; 0: one number by itself
  bool number = false, descending = false;
  double low = 0, high = 0;
  int32_t size() const { return last.value - first.value + 1; }
  TokenId id_of(int32_t bin) const { return {descending ? last.value - bin : first.value + bin}; }
  int32_t bin_of(TokenId id) const { return descending ? last.value - id.value : id.value - first.value; }
  double value_of(int32_t bin) const;
  int32_t bin_holding(double value) const;  // clipped to low .. high
};
/// A value as JSON writes it, between quotes that are fixed or with its own; or a choice of what comes next, which is no value.
struct JsonMeaning {
  bool quoted = false, space = false, choice = false;
  std::vector<std::pair<std::string, std::vector<TokenId>>>
      words;                                   // where there are few: as written between the quotes, and their tokens
  std::map<std::string, std::string> aliases;  // written likewise
};
using FieldMeaning = std::variant<ChoiceMeaning, TextMeaning, NumberMeaning, BinsMeaning, JsonMeaning>;

/// A form together with what its fields mean; meanings are in the order of form.fields().
struct CompiledForm {
  Form form;
  std::vector<FieldMeaning> meanings;
  std::optional<TokenId> null_token;
  std::shared_ptr<const TrajectoryCodebook> codebook =
      {};  // what the integers of section `trajectory` stand for, where they are codes
};

}  // namespace slip
