// SPDX-License-Identifier: Apache-2.0
// Certified compaction. Invariant: `witness_` leads from the state to t. Hence it ends with t in at most as many commits as places;
// and where the greedy rule reaches t from the start, the first prefix tried at every step is the greedy one, so K is no larger.
// Forwards beyond the serial ones are all greedy's: a state that the search moves to was asked by the rollout that certified it.
#include "limits/speed_of_light.h"

#include <algorithm>
#include <unordered_map>

namespace slip {
namespace {

using State = uint64_t;  // bit i: place i holds t's token
using Sets = std::vector<std::vector<int32_t>>;

class Search {
 public:
  Search(std::span<const std::optional<TokenId>> start, const BlockModel& model, const SpeedOfLightOptions& options)
      : block_(start.begin(), start.end()), model_(model), options_(options) {}

  Result<SpeedOfLight> run() {
    SLIP_TRY_(serial());
    SLIP_TRY(const auto whole, options_.budget > 0 ? greedy(0) : Result<std::optional<Sets>>(std::optional<Sets>()));
    if (whole) out_.greedy = static_cast<int32_t>(whole->size());
    for (State x = 0; x != full_;) {
      SLIP_TRY(auto step, certified(x));
      for (const int32_t place : step) x |= bit(place);
      out_.commits.push_back(std::move(step));
    }
    for (const auto& token : block_) out_.block.push_back(*token);
    return std::move(out_);
  }

 private:
  static State bit(int32_t place) { return State{1} << place; }

  /// Fills t place by place; its states are remembered like all others.
  Status serial() {
    std::vector<std::optional<TokenId>> x = block_;
    std::vector<PlaceGuess> guesses(x.size());
    State state = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (!x[i]) full_ |= bit(static_cast<int32_t>(i));
    while (state != full_) {
      SLIP_TRY_(model_(x, guesses));
      ++out_.serial_forwards;
      ++out_.forwards;
      known_[state] = guesses;
      const int32_t best = surest_first(state, guesses).front();
      x[static_cast<size_t>(best)] = guesses[static_cast<size_t>(best)].top;
      state |= bit(best);
      out_.serial.push_back(best);
      witness_.push_back({best});
    }
    block_ = x;
    return {};
  }

  std::vector<int32_t> surest_first(State state, std::span<const PlaceGuess> guesses) const {
    std::vector<int32_t> places;
    for (size_t i = 0; i < guesses.size(); ++i)
      if (full_ & ~state & bit(static_cast<int32_t>(i))) places.push_back(static_cast<int32_t>(i));
    std::stable_sort(places.begin(), places.end(), [&](int32_t a, int32_t b) {
      return guesses[static_cast<size_t>(a)].confidence > guesses[static_cast<size_t>(b)].confidence;
    });
    return places;
  }

  /// Places whose guess is t's, surest first; nothing where the budget does not allow to ask.
  Result<std::optional<std::vector<int32_t>>> matched(State state) {
    auto found = known_.find(state);
    if (found == known_.end()) {
      if (out_.forwards - out_.serial_forwards >= options_.budget) {
        out_.exhausted = true;
        return std::nullopt;
      }
      std::vector<std::optional<TokenId>> x = block_;
      for (size_t i = 0; i < x.size(); ++i)
        if (full_ & ~state & bit(static_cast<int32_t>(i))) x[i].reset();
      std::vector<PlaceGuess> guesses(x.size());
      ++out_.forwards;
      SLIP_TRY_(model_(x, guesses));
      found = known_.emplace(state, std::move(guesses)).first;
    }
    std::vector<int32_t> places = surest_first(state, found->second);
    std::erase_if(places, [&](int32_t p) { return found->second[static_cast<size_t>(p)].top != *block_[static_cast<size_t>(p)]; });
    return std::optional(std::move(places));
  }

  /// All matches at once until t; nothing where no place matches or the budget is out.
  Result<std::optional<Sets>> greedy(State state) {
    Sets path;
    while (state != full_) {
      SLIP_TRY(auto places, matched(state));
      if (!places || places->empty()) return std::nullopt;
      for (const int32_t p : *places) state |= bit(p);
      path.push_back(std::move(*places));
    }
    return std::optional(std::move(path));
  }

  /// The next set to commit; the witness is behind it afterwards.
  Result<std::vector<int32_t>> certified(State x) {
    SLIP_TRY(const auto places, matched(x));
    for (size_t k = places && options_.budget > 0 ? places->size() : 0; k > 0; k = options_.every_size ? k - 1 : k / 2) {
      State y = x;
      for (size_t i = 0; i < k; ++i) y |= bit((*places)[i]);
      SLIP_TRY(auto path, greedy(y));
      if (!path) continue;
      witness_ = std::move(*path);
      return std::vector<int32_t>(places->begin(), places->begin() + static_cast<ptrdiff_t>(k));
    }
    std::vector<int32_t> step = std::move(witness_.front());
    witness_.erase(witness_.begin());
    return step;
  }

  std::vector<std::optional<TokenId>> block_;
  const BlockModel& model_;
  SpeedOfLightOptions options_;
  SpeedOfLight out_;
  State full_ = 0;
  Sets witness_;
  std::unordered_map<State, std::vector<PlaceGuess>> known_;
};

}  // namespace

Result<SpeedOfLight> speed_of_light(std::span<const std::optional<TokenId>> start, const BlockModel& model,
                                    const SpeedOfLightOptions& options) {
  if (start.size() > 64) return usage_error("speed of light: expected a block of at most 64 places, got {}", start.size());
  if (options.budget < 0) return usage_error("speed of light: expected a budget of at least 0, got {}", options.budget);
  return Search(start, model, options).run();
}

}  // namespace slip
