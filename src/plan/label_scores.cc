// SPDX-License-Identifier: Apache-2.0
// Ratios of counts.
#include "plan/label_scores.h"

namespace slip {
namespace {

double ratio(int64_t a, int64_t b) { return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b); }

template <class Score>
double mean_of(std::span<const YesNoCounts> classes, Score score) {
  double sum = 0;
  int n = 0;
  for (const YesNoCounts& c : classes) {
    if (!c.has_yes()) continue;
    sum += score(c);
    ++n;
  }
  return n == 0 ? 0.0 : sum / n;
}

}  // namespace

void YesNoCounts::add(bool predicted, bool truth) { ++(predicted ? (truth ? true_yes : false_yes) : (truth ? false_no : true_no)); }
double YesNoCounts::precision() const { return ratio(true_yes, true_yes + false_yes); }
double YesNoCounts::recall() const { return ratio(true_yes, true_yes + false_no); }
double YesNoCounts::f1() const { return ratio(2 * true_yes, 2 * true_yes + false_yes + false_no); }
double YesNoCounts::prior() const { return ratio(true_yes + false_no, total()); }
double YesNoCounts::always_yes_f1() const { return 2 * prior() / (1 + prior()); }

double macro_f1(std::span<const YesNoCounts> classes) {
  return mean_of(classes, [](const YesNoCounts& c) { return c.f1(); });
}
double macro_always_yes_f1(std::span<const YesNoCounts> classes) {
  return mean_of(classes, [](const YesNoCounts& c) { return c.always_yes_f1(); });
}

}  // namespace slip
