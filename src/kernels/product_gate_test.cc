// SPDX-License-Identifier: Apache-2.0
// That rows share the reading and unpacking of weights: the point of the product kernels. Times are compared inside one run, medians
// of interleaved ratios; a lost tile path costs 8 rows 8 times one row, and the limits lie far above what is reached (docs/lab/0007).
#include <algorithm>
#include <chrono>

#include "kernels/testing.h"

namespace slip {
namespace {

template <class F>
double seconds_of(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median_ratio_of_8_rows_to_1(const PackedMatrix& w, ThreadPool& pool) {
  const auto x = plain_numbers(8 * w.k(), 61);
  std::vector<float> out(8 * w.n());
  Workspace workspace;
  const auto product = [&](int64_t rows) { matmul(w, x.data(), rows, w.k(), nullptr, out.data(), w.n(), pool, workspace); };
  product(8);
  std::vector<double> ratios;
  for (int i = 0; i < 21; i++) {
    const double one = seconds_of([&] { product(1); }), eight = seconds_of([&] { product(8); });
    ratios.push_back(eight / one);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

TEST(ProductGate, EightRowsCostLittleMoreThanOne) {
  // Reached on two cores: avx512 1.1 to 1.6, avx2 1.3 to 3.2; the portable path is bound by arithmetic from the first row.
  const int64_t n = 2048, k = 4096;
  ThreadPool pool(1);
  const auto weights = plain_numbers(n * k, 62);
  on_every_isa([&](Isa isa) {
    for (const WeightType type : kWeightTypes) {
      const PackedMatrix w = pack_matrix(type, n, k, weights.data(), pool);
      const double limit = isa == Isa::kAvx512     ? 3.5
                           : isa == Isa::kPortable ? 10.0
                                                   : 6.0,
                   ratio = median_ratio_of_8_rows_to_1(w, pool);
      RecordProperty("ratio_" + std::to_string(int(isa)) + "_" + std::to_string(int(type)), std::to_string(ratio));
      EXPECT_LT(ratio, limit) << "type " << int(type);
    }
  });
}

}  // namespace
}  // namespace slip
