// SPDX-License-Identifier: Apache-2.0
// Gate 19 at the level of types: no policy on draft lengths is handed an id, or anything that leads to one. What breaks it does not compile.
#include "decode/sequence/draft_view.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "decode/draft_length/policy.h"
#include "decode/sequence/strand.h"

namespace slip {
namespace {

/// Has T a member by which a strand or a draw leads to ids, as data or as a function?
template <class T>
concept LeadsToIds = requires(T& x) {
  x.tokens;
}
|| requires(T& x) { x.path; }
|| requires(T& x) { x.drafts; }
|| requires(T& x) { x.round; }
|| requires(T& x) { x.token; }
|| requires(T& x) { x.before; }
|| requires(T& x) { x.answer; }
|| requires(T& x) { x.cursor; }
|| requires(T& x) { x.ahead; }
|| requires(T& x) { x.template_rows; }
|| requires(T& x) { x.tokens(); }
|| requires(T& x) { x.path(); }
|| requires(T& x) { x.drafts(); }
|| requires(T& x) { x.token(); }
|| requires(T& x) { x.answer(); }
|| requires(T& x) { x.cursor(); }
|| requires(T& x) { x.strand(); }
|| requires(T& x) { x.strand_; }
|| requires(T& x) { x.strands_; }
|| requires(T& x, const Place& p) { x.history(p, 0); }
|| requires(T& x) { *x; }
|| requires(T& x) { x.get(); }
|| requires(T& x) { x.operator->(); };
static_assert(LeadsToIds<Strand> && LeadsToIds<StrandRound> && LeadsToIds<DraftToken> && LeadsToIds<Strand*>,
              "or the question finds nothing");
static_assert(!LeadsToIds<DraftView> && !LeadsToIds<DraftViews>);
static_assert(!std::is_convertible_v<DraftView, Strand&> && !std::is_convertible_v<DraftView, Strand*>);
static_assert(!std::is_convertible_v<DraftViews, std::span<Strand* const>>);

/// All that a view says is a number or a yes or no; all that it is told is numbers.
template <class R>
constexpr bool says_numbers(R (DraftView::*)() const) {
  return std::is_same_v<R, int32_t> || std::is_same_v<R, bool> || std::is_same_v<R, std::optional<int32_t>>;
}
static_assert(says_numbers(&DraftView::field) && says_numbers(&DraftView::done) && says_numbers(&DraftView::position) &&
              says_numbers(&DraftView::index) && says_numbers(&DraftView::rows) && says_numbers(&DraftView::cached) &&
              says_numbers(&DraftView::missed) && says_numbers(&DraftView::next_index));
static_assert(std::is_same_v<decltype(&DraftView::set_window), void (DraftView::*)(int32_t, int32_t)>);
static_assert(std::is_same_v<decltype(&DraftView::set_block), void (DraftView::*)(Block)>);
static_assert(std::is_same_v<decltype(&DraftView::set_masks), void (DraftView::*)(int32_t)>);
static_assert(std::is_same_v<decltype(*std::declval<DraftViews>().begin()), DraftView>);
static_assert(std::is_same_v<decltype(std::declval<DraftViews>()[0]), DraftView>);

/// What policies are called with.
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::open), void (DraftLengthPolicy::*)(DraftView)>);
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::open_all), void (DraftLengthPolicy::*)(DraftViews)>);
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::lay_masks), void (DraftLengthPolicy::*)(DraftViews)>);
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::starts), bool (DraftLengthPolicy::*)(int32_t)>);
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::seen), void (DraftLengthPolicy::*)(const DraftFacts&, bool)>);
static_assert(std::is_same_v<decltype(&DraftLengthPolicy::choose),
                             void (DraftLengthPolicy::*)(std::span<const std::span<const DraftFacts>>, std::span<int32_t>)>);

TEST(DraftView, SaysWhereAStrandStandsAndSetsItsWindow) {
  Decoded answer;
  Strand a, b;
  a.reset(answer);
  b.reset(answer);
  a.cursor = Cursor::text(3);
  a.tokens.assign(4, TokenId{5});
  a.cached = 2;
  a.missed = Place{};
  b.field = 7;
  b.round.next = {{7, 2, 9}, {}};
  Strand* const both[] = {&a, &b};
  const DraftViews views(both);
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].position(), 3);
  EXPECT_EQ(views[0].index(), 3);
  EXPECT_EQ(views[0].rows(), 4);
  EXPECT_EQ(views[0].cached(), 2);
  EXPECT_FALSE(views[0].done());
  EXPECT_TRUE(views[0].missed());
  EXPECT_FALSE(views[1].missed());
  EXPECT_EQ(views[1].field(), 7);
  EXPECT_EQ(views[0].next_index(), std::nullopt);
  EXPECT_EQ(views[1].next_index(), 2);
  int32_t n = 0;
  for (DraftView v : views) {
    v.set_window(10 + n, 20 + n);
    v.set_masks(30 + n++);
  }
  EXPECT_EQ(std::pair(a.round.window_drafts, a.round.window_end), std::pair(10, 20));
  EXPECT_EQ(std::pair(b.round.window_drafts, b.round.window_end), std::pair(11, 21));
  EXPECT_EQ(std::pair(a.round.masks, b.round.masks), std::pair(30, 31));
  views[1].set_block({4, 9});
  EXPECT_EQ(std::pair(b.round.block.begin, b.round.block.end), std::pair(4, 9));
  EXPECT_EQ(b.round.window_end, 9);
  EXPECT_EQ(b.round.window_drafts, 11);
}

}  // namespace
}  // namespace slip
