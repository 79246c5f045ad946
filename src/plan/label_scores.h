// SPDX-License-Identifier: Apache-2.0
// Scores of yes/no labels (the critical objects), one count per class, beside what the class's prior alone would reach.
#pragma once
#include <cstdint>
#include <span>

namespace slip {

struct YesNoCounts {
  int64_t true_yes = 0, false_yes = 0, false_no = 0, true_no = 0;

  void add(bool predicted, bool truth);
  int64_t total() const { return true_yes + false_yes + false_no + true_no; }
  /// Of those predicted yes, how many are; of those that are, how many were found. 0 where nothing is counted.
  double precision() const;
  double recall() const;
  /// 2 yes-hits / (predicted yes + real yes); 0 where there is neither.
  double f1() const;
  /// Share of yes in the truth, and the F1 of always answering yes.
  double prior() const;
  double always_yes_f1() const;
  /// Whether yes occurs on either side; a class without it has no F1 to speak of.
  bool has_yes() const { return true_yes + false_yes + false_no > 0; }
};

/// Unweighted mean of the classes' F1 over the classes with has_yes(); 0 where there is none.
double macro_f1(std::span<const YesNoCounts> classes);
/// The same of always_yes_f1(), to print beside it.
double macro_always_yes_f1(std::span<const YesNoCounts> classes);

}  // namespace slip
