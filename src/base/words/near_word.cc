// SPDX-License-Identifier: Apache-2.0
#include "base/words/near_word.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace slip {

namespace {

// Letters to add, leave out, change or swap with their neighbour (Damerau, restricted).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string near_word(std::string_view given, std::span<const std::string> names) {
  std::string best;
  size_t least = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string& name : names) {
    if (std::max(given.size(), name.size()) - std::min(given.size(), name.size()) >= least) continue;
    const size_t n = distance(given, name);
    if (n < least) best = name;
    least = std::min(least, n);
  }
  return best;
}

}  // namespace slip
