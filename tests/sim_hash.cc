// SPDX-License-Identifier: Apache-2.0
// Prints a hash of records and frames (labels' bytes, pixels, texts) of some seeds: sim_compilers.sh compares it between compilers.
#include <cstdio>
#include <cstring>

#include "sim/cot.h"
#include "sim/record.h"
#include "sim/record/make.h"

int main() {
  uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ULL;
  };
  for (uint64_t seed = 0; seed < 56; ++seed) {
    const auto r = slip::sim::make_record(seed, static_cast<uint32_t>(seed % slip::sim::family_names().size()));
    if (!r) return std::puts(r.error().message.c_str()), 1;
    const slip::sim::Labels& l = r->labels;
    add(l.history.data(), sizeof l.history);
    add(l.future.data(), sizeof l.future);
    add(l.critical.data(), sizeof l.critical);
    add(l.causal.data(), sizeof l.causal);
    add(l.explanation.data(), l.explanation.size());
    add(r->images.data(), r->images.size());
    const auto frame = slip::sim::make_frame(seed, l.family, 0.7, false);
    const auto cot = slip::sim::cot_labels(seed, l.family, 0.7);
    if (!frame || !cot) return std::puts("no frame"), 1;
    add(frame->labels.history.data(), sizeof l.history);
    add(frame->labels.future.data(), sizeof l.future);
    for (const std::string& text : {cot->junction, cot->lanes, cot->critical_objects, cot->object[0].position, cot->ego_behavior})
      add(text.data(), text.size());
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(hash));
}
