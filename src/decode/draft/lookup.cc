// SPDX-License-Identifier: Apache-2.0
// Look-up drafting (prompt look-up, n-gram copying): the longest run of last tokens, at most `longest`, that stands earlier in the
// prompt or in the answer so far; what followed it there is proposed, the most recent of equally long ones. Where a form's fixed
// tokens lead away from what followed, the run behind them is looked up anew.
//
// What is searched: prompt tokens (image rows left out), then what the strand knows: in text and on a chain the answer so far, in a
// field of a graph the scaffold before it and its ancestors' contents, in the form's order, and its own content. One pass over a
// few thousand ids per strand and round: microseconds. Tests: Lookup.*
#include <algorithm>

#include "decode/draft/methods.h"
#include "decode/sequence/known_visibility.h"

namespace slip {
namespace {

class LookupDrafter : public Drafter {
 public:
  LookupDrafter(int32_t longest, bool graph, Passes& passes) : longest_(static_cast<size_t>(longest)), request_(passes.request()) {
    for (const RowInput& input : request_.prompt.inputs)
      if (const auto* id = std::get_if<TokenId>(&input)) known_.push_back(*id);
    prompt_ids_ = known_.size();
    if (graph) visibility_ = known_visibility(*request_.form);
  }

  Status propose(std::span<Strand* const> strands) override {
    for (Strand* s : strands) along(*s);
    return {};
  }
  void propose_child(Strand& s) override { along(s); }

 private:
  void along(Strand& s) {
    known_.resize(prompt_ids_);
    if (known_.capacity() < prompt_ids_ + room()) known_.reserve(prompt_ids_ + room());
    if (s.field) {
      add_before(s);
    } else if (request_.form) {
      known_.insert(known_.end(), s.answer->tokens.begin(), s.answer->tokens.end());  // of a rollout's branch: what it forked from
    }
    followed_.reset();
    size_t taken = 0;
    propose_along(s, [&](const Cursor&, DraftToken&) -> std::optional<TokenId> {
      for (; taken < s.round.path.size(); ++taken) take(s.round.path[taken]);
      if (!followed_) followed_ = look_up();
      return followed_ ? std::optional(known_[*followed_]) : std::nullopt;
    });
  }

  /// Most ids that an answer adds, so that nothing allocates after the first round.
  size_t room() const { return static_cast<size_t>(request_.form ? 2 * request_.form->length() : 2 * request_.options.limit); }

  void take(TokenId id) {
    if (followed_) followed_ = known_[*followed_] == id ? std::optional(*followed_ + 1) : std::nullopt;
    known_.push_back(id);
  }

  /// The index behind the best earlier occurrence of the last tokens.
  std::optional<size_t> look_up() const {
    const size_t n = known_.size();
    size_t best = 0;
    std::optional<size_t> at;
    for (size_t end = n; end-- > 1 && best < longest_;) {
      size_t run = 0;
      while (run < std::min(longest_, end) && known_[end - 1 - run] == known_[n - 1 - run]) ++run;
      if (run > best) {
        best = run;
        at = end;
      }
    }
    return at;
  }

  /// Scaffold and ancestors' contents before the field.
  void add_before(const Strand& s) {
    const auto ancestors = visibility_->ancestors(*s.field);
    const auto sees = [&](int32_t f) { return std::binary_search(ancestors.begin(), ancestors.end(), f); };
    const auto& contents = s.answer->fields;
    for (size_t p = 0; p < request_.form->pieces().size(); ++p) {
      const Piece& piece = request_.form->pieces()[p];
      const auto optional = request_.form->optional_field(static_cast<int32_t>(p));
      if (optional && *optional != s.field &&
          (!sees(*optional) || is_absent(*request_.form, contents, static_cast<size_t>(*optional))))
        continue;
      if (const auto* fixed = std::get_if<FixedRun>(&piece)) {
        known_.insert(known_.end(), fixed->ids.begin(), fixed->ids.end());
        continue;
      }
      const int32_t f = std::get<FieldRef>(piece).field;
      if (f == s.field) {
        known_.resize(known_.size() - static_cast<size_t>(request_.field(f).hand_off));  // its hand-off begins the strand
        return;
      }
      if (!sees(f)) continue;
      const auto& content = contents[static_cast<size_t>(f)];
      known_.insert(known_.end(), content.begin(), content.end());
    }
  }

  size_t longest_;
  const DecodeRequest& request_;
  std::shared_ptr<const GraphVisibility> visibility_;
  std::vector<TokenId> known_;
  size_t prompt_ids_ = 0;
  std::optional<size_t> followed_;  // what is proposed next, among the known ids
};

}  // namespace

std::unique_ptr<Drafter> make_lookup_drafter(int32_t longest, bool graph, Passes& passes) {
  return std::make_unique<LookupDrafter>(longest, graph, passes);
}

}  // namespace slip
