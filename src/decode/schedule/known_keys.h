// SPDX-License-Identifier: Apache-2.0
// Who asks for the keys of an answer's sections (DecodeContext::on_keys) is told of them here, in the order that was asked for. Schedules know
// where their rows lie and when they are final. Tests: HeadPlans.*
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "decode/pass/passes.h"
#include "decode/sequence/strand.h"

namespace slip {

class Drafter;
struct GraphScaffold;

/// A field of a graph that has closed: its strand, and how many of the context's spans are not the field's own first rows.
struct ClosedField {
  Strand* strand = nullptr;
  size_t spans_before = 0;
};

class KeysTeller {
 public:
  explicit KeysTeller(Passes& passes) : p_(passes) {}
  /// Of how many sections the next one wants to know; nothing where nobody asks any more.
  std::optional<int32_t> next() const;
  /// Where these sections end in the form.
  int32_t end(int32_t sections) const;
  /// Where the prompt's keys are asked for: runs it, `drafter` (may be null) being told, if it is not in the arena, and tells of them.
  Status prompt(Drafter* drafter);
  /// A chain: what of the strand's rows is final. At its end the rows that no pass has fed run in one of their own.
  Status chain(Strand& s, std::span<const std::vector<TokenId>> contents);
  /// A graph: the fields of the next number of sections have closed.
  Status graph(std::span<const ClosedField> fields, const GraphScaffold& scaffold);
  /// All of an answer that is known in whole, from `slot` on: its rows run causally. Tells of the last number alone.
  Status whole(std::span<const TokenId> tokens, std::span<const std::vector<TokenId>> contents, int32_t slot);

 private:
  const DecodeRequest& request() const { return p_.request(); }
  Status tell(std::span<const SlotSpan> slots, int32_t position);
  /// Rows of the strand that no pass has fed, up to so many.
  void add(Strand& s, int32_t rows);
  Passes& p_;
  size_t told_ = 0;
};

}  // namespace slip
