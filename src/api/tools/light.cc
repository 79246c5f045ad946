// SPDX-License-Identifier: Apache-2.0
// See light.h.
#include "api/tools/light.h"

#include "decode/types/presets.h"
#include "limits/speed_of_light.h"

namespace slip::api {
namespace {

constexpr int64_t kBudget = 500;  // passes of a block's search beyond the serial ones

/// Sums over all blocks of all answers.
struct Sums {
  int64_t answers = 0, blocks = 0, places = 0;
  int64_t certified = 0, exhausted = 0;  // commits; blocks whose search ended early
  int64_t greedy = 0, greedy_blocks = 0, greedy_places = 0;
  int64_t sure = 0, sure_same = 0, speculated = 0, speculated_same = 0;  // passes; answers that are the serial one
};

/// The search over the places to draw alone: a block may hold more fixed tokens than the search has room for.
Result<SpeedOfLight> search(std::span<const std::optional<TokenId>> block, const BlockModel& ask) {
  std::vector<size_t> drawn;
  for (size_t u = 0; u < block.size(); ++u)
    if (!block[u]) drawn.push_back(u);
  std::vector<std::optional<TokenId>> whole(block.begin(), block.end());
  std::vector<PlaceGuess> guesses(block.size());
  const auto of_drawn = [&](std::span<const std::optional<TokenId>> x, std::span<PlaceGuess> out) -> Status {
    for (size_t i = 0; i < drawn.size(); ++i) whole[drawn[i]] = x[i];
    SLIP_TRY_(ask(whole, guesses));
    for (size_t i = 0; i < drawn.size(); ++i) out[i] = guesses[drawn[i]];
    return {};
  };
  return speed_of_light(std::vector<std::optional<TokenId>>(drawn.size()), of_drawn, {.budget = kBudget});
}

/// The serial answer, every block of which is searched before it is written.
Result<std::vector<TokenId>> serial_answer(Engine& engine, Request request, Sums& sums) {
  std::vector<TokenId> searched;
  request.method = *method_of("section-diffusion");
  request.method.verifier = ConfidenceSpec{1};  // nothing is that sure: a place a pass
  request.context.on_block = [&](std::span<const std::optional<TokenId>> start, const BlockModel& ask) -> Status {
    SLIP_TRY(const SpeedOfLight light, search(start, ask));
    const auto places = static_cast<int64_t>(light.serial.size());
    ++sums.blocks;
    sums.places += places;
    sums.certified += static_cast<int64_t>(light.commits.size());
    sums.exhausted += light.exhausted;
    if (light.greedy) {
      ++sums.greedy_blocks;
      sums.greedy += *light.greedy;
      sums.greedy_places += places;
    }
    searched.insert(searched.end(), light.block.begin(), light.block.end());
    return {};
  };
  SLIP_TRY(const Answer answer, engine.run(request));
  std::vector<TokenId> written;
  for (int32_t u = 0; u < answer.form->form.length(); ++u)
    if (!answer.form->form.fixed_at(u)) written.push_back(answer.decoded.tokens[static_cast<size_t>(u)]);
  if (written != searched)
    return Error{ErrorKind::kInternal, "limits: the search and the decoder disagree about the serial answer"};
  return answer.decoded.tokens;
}

json::array row(std::string_view way, double passes, double tokens_a_pass, double share, json::value same) {
  return {json::string(way), passes, tokens_a_pass, share, std::move(same)};
}

Table table_of(const Sums& s) {
  const auto blocks = static_cast<double>(s.blocks), places = static_cast<double>(s.places),
             answers = static_cast<double>(s.answers);
  Table t{.name = "speed_of_light",
          .title = fmt::format("Diffusion over {} answers, {} blocks, {:.1f} drawn places a block:", s.answers, s.blocks,
                               places / blocks),
          .columns = {"way", "passes_a_block", "tokens_a_pass", "of_blocks", "answers_as_serial"},
          .rows = {}};
  const auto add = [&](std::string_view way, int64_t passes, double over_blocks, double over_places, json::value same) {
    const auto p = static_cast<double>(passes);
    t.rows.push_back(row(way, p / over_blocks, over_places / p, over_blocks / blocks, std::move(same)));
  };
  add("serial: a place a pass", s.places + s.blocks, blocks, places, 1.0);
  add("section-diffusion: what is sure", s.sure, blocks, places, static_cast<double>(s.sure_same) / answers);
  if (s.greedy_blocks > 0)
    add("all that is right at once, where that ends in the serial answer", s.greedy + s.greedy_blocks,
        static_cast<double>(s.greedy_blocks), static_cast<double>(s.greedy_places), 1.0);
  add(s.exhausted > 0 ? fmt::format("speed of light, at most (the search of {} blocks ended early)", s.exhausted)
                      : std::string("speed of light, certified"),
      s.certified + s.blocks, blocks, places, 1.0);
  add("scaffold-spec: linear self-speculation", s.speculated, blocks, places, static_cast<double>(s.speculated_same) / answers);
  return t;
}

}  // namespace

Result<Table> speed_of_light_table(Engine& engine, std::vector<Request> requests,
                                   const std::function<void(int64_t, int64_t)>& tell) {
  Sums s;
  for (Request& request : requests) {
    tell(s.answers, static_cast<int64_t>(requests.size()));
    SLIP_TRY(const std::vector<TokenId> serial, serial_answer(engine, request, s));
    request.method = *method_of("section-diffusion");
    SLIP_TRY(const Answer sure, engine.run(request));
    s.sure += sure.decoded.statistics.forwards;  // the prompt's, and no last one over the last block
    s.sure_same += sure.decoded.tokens == serial;
    request.method = *method_of(preset("scaffold-spec"));
    SLIP_TRY(const Answer speculated, engine.run(request));
    s.speculated += speculated.decoded.statistics.forwards - 1;
    s.speculated_same += speculated.decoded.tokens == serial;
    ++s.answers;
  }
  if (s.blocks == 0) return bad_input("limits: expected answers with places to draw, got none");
  return table_of(s);
}

}  // namespace slip::api
