// SPDX-License-Identifier: Apache-2.0
// See graph_scaffold.h.
#include "decode/schedule/graph_scaffold.h"

#include <algorithm>

namespace slip {

void GraphScaffold::lay(const Form& form) {
  const auto fields = form.fields();
  for (int32_t u = 0; u < form.length(); ++u) {  // what stands behind the last field is seen by nobody
    if (!form.is_scaffold(u) || (!fields.empty() && u >= fields.back().start)) continue;
    ids.push_back(*form.fixed_at(u));
    positions.push_back(u);
  }
  before.assign(static_cast<size_t>(form.length()) + 1, 0);
  for (const int32_t u : positions) before[static_cast<size_t>(u) + 1] = 1;
  for (size_t u = 1; u < before.size(); ++u) before[u] += before[u - 1];
}

void GraphScaffold::lay_sees(const GraphVisibility& visibility) {
  sees.resize(positions.size());
  for (size_t k = 0; k < positions.size(); ++k)
    for (const GraphVisibility::Segment& g : visibility.scaffold_before(positions[k])) {
      const SlotSpan stretch{rows_before(g.begin), std::min(rows_before(g.end), static_cast<int32_t>(k))};
      if (stretch.begin < stretch.end) sees[k].push_back(stretch);
    }
}

}  // namespace slip
