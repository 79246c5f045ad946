// SPDX-License-Identifier: Apache-2.0
// What Capacity says of an answer's slots is what decoding takes.
#include <gtest/gtest.h>

#include "decode/draft_length/model.h"
#include "decode/testing/drafter_testing.h"
#include "decode/types/capacity.h"

namespace slip {
namespace {

using namespace test;  // NOLINT: the trials' own headers

/// The slots that a decoder asks for where it is given none.
int64_t slots_asked(const std::string& message) {
  const size_t at = message.find("expected an arena of at least ");
  return at == std::string::npos ? -1 : std::stoll(message.substr(at + 30));
}

TEST(Capacity, IsWhatDecodersReserve) {
  for (const Path path : kPaths)
    for (uint64_t n = 0; n < 400 && !testing::Test::HasFailure(); ++n) {
      Trial t = trial_on(path, n);
      const DrafterSpec drafters[] = {NoDraftSpec{}, DiffusionSpec{}, QuadraticSpec{}, LookupSpec{2},
                                      PreviousSpec{.name = "", .then = DiffusionSpec{}}};
      Method m = method_on(path, drafters[n % 5], static_cast<int32_t>(2 + n % 9));
      if (path == Path::kFields && n % 2) m.drafter = DiffusionSpec{.ahead = true};
      if (n % 11 == 3) m.draft_length.kind = DraftLengthSpec::Kind::kMeasured;
      const DraftLengthModel model = DraftLengthModel::uninformed(*CostTable::make({1, 8}, {1, 2}, "test"), nullptr);
      const PreviousAnswer previous{t.form.name(), std::vector<std::vector<TokenId>>(t.form.fields().size()), {}};
      const DecodeContext context{.previous = &previous, .draft_length_model = &model};
      const int32_t rollouts = rollouts_of(n);
      const Form* form = form_on(path, t);
      FormSize size{.positions = t.form.length(), .fields = static_cast<int64_t>(t.form.fields().size())};
      const auto most = Capacity::of(m, t.options, form != nullptr).slots_of_answers(rollouts, t.options.limit, size) +
                        static_cast<int64_t>(t.prompt.inputs.size());
      t.lm.slots = 1;
      HashLm none(t.lm);
      const auto refused = Decoder(none, m).rollouts(t.prompt, form, t.options, rollouts, context);
      ASSERT_FALSE(refused);
      const int64_t asked = slots_asked(refused.error().message);
      ASSERT_GT(asked, 0) << refused.error().message;
      ASSERT_LE(asked, most) << n;
      if (path == Path::kText || path == Path::kChain) {
        EXPECT_EQ(asked, most) << n;
      }
      t.lm.slots = static_cast<int32_t>(asked);  // a row outside of the arena would be out of range
      HashLm enough(t.lm);
      const auto d = Decoder(enough, m).rollouts(t.prompt, form, t.options, rollouts, context);
      ASSERT_TRUE(d) << n << ": " << d.error().message;
    }
}

TEST(Capacity, KnowsHowAnAnswerComesAbout) {
  const DecodeOptions chain, graph{.visibility = Visibility::kGraph}, forced{.forced = true};
  EXPECT_EQ(route_of(*method_of("self-spec"), chain, true), Route::kText) << "read against the form afterwards";
  EXPECT_EQ(route_of(*method_of("self-spec"), forced, true), Route::kChain);
  EXPECT_EQ(route_of(*method_of("self-spec"), forced, false), Route::kText);
  EXPECT_EQ(route_of(*method_of("scaffold-spec"), chain, true), Route::kChain);
  EXPECT_EQ(route_of(*method_of("scaffold-spec"), graph, true), Route::kGraph) << "one field after another";
  EXPECT_EQ(route_of(*method_of("fields"), chain, true), Route::kGraph);
  EXPECT_EQ(route_of(*method_of("section-diffusion"), chain, true), Route::kSections);
}

}  // namespace
}  // namespace slip
