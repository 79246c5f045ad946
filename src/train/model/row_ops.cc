// SPDX-License-Identifier: Apache-2.0
// Fused row operations; contracts in row_ops.h. The bodies are templates that are always inlined into entry points cloned
// for AVX-512, AVX2 and baseline, over plain loops that the compiler vectorises (reductions are marked as such).
#include "train/model/row_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "lm/visibility.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SLIP_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SLIP_CLONES
#endif
#define SLIP_INLINE inline __attribute__((always_inline))

namespace slip {
namespace {

constexpr int64_t kSlices = 32;  // of rows: fixed, so that sums over rows do not depend on the thread count

template <class T>
SLIP_INLINE T load(const T& v) {
  return v;
}
SLIP_INLINE float load(const BF16& v) { return std::bit_cast<float>(uint32_t{v.bits} << 16); }
SLIP_INLINE void store(float& to, float v) { to = v; }
SLIP_INLINE void store(double& to, double v) { to = v; }
SLIP_INLINE void store(BF16& to, float v) {  // nearest even; a NaN may become an infinity: losses show it before
  const uint32_t u = std::bit_cast<uint32_t>(v);
  to.bits = static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

SLIP_INLINE double exp_of(double x) { return std::exp(x); }
/// e^x for x <= 88, error below 2 ulp (Cody-Waite reduction, degree 6): without calls, so that loops over it vectorise.
SLIP_INLINE float exp_of(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float n = (x * 1.44269504F + 12582912.0F) - 12582912.0F;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

template <class T, class A, class Y>
SLIP_INLINE void add_norm_rows(int64_t begin, int64_t end, int64_t D, T eps, const T* x, const A* delta, const T* gain, T* x_out,
                               Y* y, T* scale) {
  for (int64_t r = begin; r < end; ++r) {
    const T* from = x + r * D;
    T sum = 0;
    if (delta != nullptr) {
      T* to = x_out + r * D;
      const A* more = delta + r * D;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < D; ++d) {
        const T v = from[d] + load(more[d]);
        to[d] = v;
        sum += v * v;
      }
      from = to;
    } else {
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < D; ++d) sum += from[d] * from[d];
    }
    const T s = T(1) / std::sqrt(sum / T(D) + eps);
    scale[r] = s;
    Y* out = y + r * D;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) store(out[d], from[d] * s * gain[d]);
  }
}

template <class T, class A, class Y>
SLIP_INLINE void add_norm_back_rows(int64_t begin, int64_t end, int64_t D, const Y* d_y, const T* d_sum, const T* x, const T* gain,
                                    const T* scale, T* d_x, A* d_delta, T* d_gain) {
  for (int64_t r = begin; r < end; ++r) {
    const Y* dy = d_y + r * D;
    const T* v = x + r * D;
    T* to = d_x + r * D;
    const T s = scale[r];
    T dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t d = 0; d < D; ++d) {
      const T g = load(dy[d]);
      d_gain[d] += g * v[d] * s;
      dot += g * gain[d] * v[d];
    }
    const T pull = dot * s * s * s / T(D);
    if (d_sum != nullptr) {
      const T* more = d_sum + r * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) to[d] = load(dy[d]) * gain[d] * s - v[d] * pull + more[d];
    } else {
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) to[d] = load(dy[d]) * gain[d] * s - v[d] * pull;
    }
    if (d_delta != nullptr) {
      A* out = d_delta + r * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) store(out[d], to[d]);
    }
  }
}

template <class T, class A>
SLIP_INLINE void swiglu_rows(int64_t begin, int64_t end, int64_t F, const A* gate_up, A* y) {
  for (int64_t r = begin; r < end; ++r) {
    const A* gate = gate_up + r * 2 * F;
    const A* up = gate + F;
    A* out = y + r * F;
#pragma omp simd
    for (int64_t f = 0; f < F; ++f) {
      const T g = load(gate[f]);
      store(out[f], g / (T(1) + exp_of(-g)) * load(up[f]));
    }
  }
}

template <class T, class A>
SLIP_INLINE void swiglu_back_rows(int64_t begin, int64_t end, int64_t F, const A* gate_up, const A* d_y, A* d_gate_up) {
  for (int64_t r = begin; r < end; ++r) {
    const A* gate = gate_up + r * 2 * F;
    const A* up = gate + F;
    const A* dy = d_y + r * F;
    A* d_gate = d_gate_up + r * 2 * F;
    A* d_up = d_gate + F;
#pragma omp simd
    for (int64_t f = 0; f < F; ++f) {
      const T g = load(gate[f]), d = load(dy[f]);
      const T s = T(1) / (T(1) + exp_of(-g));
      store(d_up[f], d * g * s);
      store(d_gate[f], d * load(up[f]) * s * (T(1) + g * (T(1) - s)));
    }
  }
}

template <class T>
SLIP_INLINE T exp_sum_in_place(T* row, int64_t n, T top) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const T e = exp_of(row[i] - top);
    row[i] = e;
    sum += e;
  }
  return sum;
}

template <class T>
SLIP_INLINE T max_of(const T* row, int64_t n, T top) {
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) top = row[i] > top ? row[i] : top;
  return top;
}

template <class T>
SLIP_INLINE void cross_entropy_rows(int64_t begin, int64_t end, int64_t V, T* z, const int32_t* target, const double* weight,
                                    double* loss) {
  for (int64_t r = begin; r < end; ++r) {
    T* row = z + r * V;
    const T top = max_of(row, V, row[0]);
    const T hit = row[target[r]];
    const T sum = exp_sum_in_place(row, V, top);
    loss[r] = weight[r] * (std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(hit));
    const T w = static_cast<T>(weight[r]), factor = w / sum;
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) row[v] *= factor;
    row[target[r]] -= w;
  }
}

template <class T>
SLIP_INLINE void softmax_ranges_row(T* row, int32_t n, const IndexRange* seen, int32_t ranges) {
  T top = row[seen[0].begin];
  for (int32_t k = 0; k < ranges; ++k) top = max_of(row + seen[k].begin, seen[k].end - seen[k].begin, top);
  T sum = 0;
  for (int32_t k = 0; k < ranges; ++k) sum += exp_sum_in_place(row + seen[k].begin, seen[k].end - seen[k].begin, top);
  const T factor = T(1) / sum;
  int32_t at = 0;
  for (int32_t k = 0; k < ranges; ++k) {
    for (; at < seen[k].begin; ++at) row[at] = 0;
#pragma omp simd
    for (int32_t i = seen[k].begin; i < seen[k].end; ++i) row[i] *= factor;
    at = seen[k].end;
  }
  for (; at < n; ++at) row[at] = 0;
}

template <class T>
SLIP_INLINE void softmax_back(int32_t n, const T* p, T* d) {
  T dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int32_t i = 0; i < n; ++i) dot += p[i] * d[i];
#pragma omp simd
  for (int32_t i = 0; i < n; ++i) d[i] = p[i] * (d[i] - dot);
}

// The cloned entry points: one name per combination of types, since a clone cannot be a template.
#define SLIP_ADD_NORM(name, T, A, Y)                                                                                       \
  SLIP_CLONES void name(int64_t b, int64_t e, int64_t D, T eps, const T* x, const A* delta, const T* gain, T* x_out, Y* y, \
                        T* scale) {                                                                                        \
    add_norm_rows<T, A, Y>(b, e, D, eps, x, delta, gain, x_out, y, scale);                                                 \
  }                                                                                                                        \
  SLIP_CLONES void name##_back(int64_t b, int64_t e, int64_t D, const Y* d_y, const T* d_sum, const T* x, const T* gain,   \
                               const T* scale, T* d_x, A* d_delta, T* d_gain) {                                            \
    add_norm_back_rows<T, A, Y>(b, e, D, d_y, d_sum, x, gain, scale, d_x, d_delta, d_gain);                                \
  }
SLIP_ADD_NORM(add_norm_fff, float, float, float)
SLIP_ADD_NORM(add_norm_fbb, float, BF16, BF16)
SLIP_ADD_NORM(add_norm_fbf, float, BF16, float)
SLIP_ADD_NORM(add_norm_ddd, double, double, double)
#undef SLIP_ADD_NORM

#define SLIP_SWIGLU(name, T, A)                                                                                    \
  SLIP_CLONES void name(int64_t b, int64_t e, int64_t F, const A* gu, A* y) { swiglu_rows<T, A>(b, e, F, gu, y); } \
  SLIP_CLONES void name##_back(int64_t b, int64_t e, int64_t F, const A* gu, const A* d_y, A* d_gu) {              \
    swiglu_back_rows<T, A>(b, e, F, gu, d_y, d_gu);                                                                \
  }
SLIP_SWIGLU(swiglu_ff, float, float)
SLIP_SWIGLU(swiglu_fb, float, BF16)
SLIP_SWIGLU(swiglu_dd, double, double)
#undef SLIP_SWIGLU

#define SLIP_SOFT(T, suffix)                                                                                        \
  SLIP_CLONES void cross_entropy_##suffix(int64_t b, int64_t e, int64_t V, T* z, const int32_t* t, const double* w, \
                                          double* loss) {                                                           \
    cross_entropy_rows<T>(b, e, V, z, t, w, loss);                                                                  \
  }                                                                                                                 \
  SLIP_CLONES void softmax_##suffix(T* row, int32_t n, const IndexRange* seen, int32_t ranges) {                    \
    softmax_ranges_row<T>(row, n, seen, ranges);                                                                    \
  }                                                                                                                 \
  SLIP_CLONES void softmax_back_##suffix(int32_t n, const T* p, T* d) { softmax_back<T>(n, p, d); }
SLIP_SOFT(float, f)
SLIP_SOFT(double, d)
#undef SLIP_SOFT

/// f(slice, begin, end) over kSlices slices of R rows, in parallel.
template <class F>
void for_slices(int64_t R, F&& f) {
#pragma omp parallel for schedule(static) if (R > 64)
  for (int64_t s = 0; s < kSlices; ++s) f(s, R * s / kSlices, R * (s + 1) / kSlices);
}

}  // namespace

#define SLIP_DEFINE_NORM(name, T, A, Y)                                                                                          \
  template <>                                                                                                                    \
  void add_norm_forward<T, A, Y>(int64_t R, int64_t D, double eps, const T* x, const A* delta, const T* gain, T* x_out, Y* y,    \
                                 T* scale) {                                                                                     \
    for_slices(R, [&](int64_t, int64_t b, int64_t e) { name(b, e, D, T(eps), x, delta, gain, x_out, y, scale); });               \
  }                                                                                                                              \
  template <>                                                                                                                    \
  void add_norm_backward<T, A, Y>(int64_t R, int64_t D, const Y* d_y, const T* d_sum, const T* x, const T* gain, const T* scale, \
                                  T* d_x, A* d_delta, T* d_gain) {                                                               \
    std::vector<T> parts(static_cast<size_t>(kSlices * D), T(0));                                                                \
    for_slices(R, [&](int64_t s, int64_t b, int64_t e) {                                                                         \
      name##_back(b, e, D, d_y, d_sum, x, gain, scale, d_x, d_delta, parts.data() + s * D);                                      \
    });                                                                                                                          \
    for (int64_t s = 0; s < kSlices; ++s)                                                                                        \
      for (int64_t d = 0; d < D; ++d) d_gain[d] += parts[static_cast<size_t>(s * D + d)];                                        \
  }
SLIP_DEFINE_NORM(add_norm_fff, float, float, float)
SLIP_DEFINE_NORM(add_norm_fbb, float, BF16, BF16)
SLIP_DEFINE_NORM(add_norm_fbf, float, BF16, float)
SLIP_DEFINE_NORM(add_norm_ddd, double, double, double)
#undef SLIP_DEFINE_NORM

#define SLIP_DEFINE_SWIGLU(name, T, A)                                                          \
  template <>                                                                                   \
  void swiglu_forward<T, A>(int64_t R, int64_t F, const A* gu, A* y) {                          \
    for_slices(R, [&](int64_t, int64_t b, int64_t e) { name(b, e, F, gu, y); });                \
  }                                                                                             \
  template <>                                                                                   \
  void swiglu_backward<T, A>(int64_t R, int64_t F, const A* gu, const A* d_y, A* d_gu) {        \
    for_slices(R, [&](int64_t, int64_t b, int64_t e) { name##_back(b, e, F, gu, d_y, d_gu); }); \
  }
SLIP_DEFINE_SWIGLU(swiglu_ff, float, float)
SLIP_DEFINE_SWIGLU(swiglu_fb, float, BF16)
SLIP_DEFINE_SWIGLU(swiglu_dd, double, double)
#undef SLIP_DEFINE_SWIGLU

#define SLIP_DEFINE_SOFT(T, suffix)                                                                                  \
  template <>                                                                                                        \
  void cross_entropy<T>(int64_t R, int64_t V, T * z, const int32_t* target, const double* weight, double* loss) {    \
    for_slices(R, [&](int64_t, int64_t b, int64_t e) { cross_entropy_##suffix(b, e, V, z, target, weight, loss); }); \
  }                                                                                                                  \
  template <>                                                                                                        \
  void softmax_ranges<T>(T * row, int32_t n, const IndexRange* seen, int32_t ranges) {                               \
    softmax_##suffix(row, n, seen, ranges);                                                                          \
  }                                                                                                                  \
  template <>                                                                                                        \
  void softmax_backward_row<T>(int32_t n, const T* p, T* d) {                                                        \
    softmax_back_##suffix(n, p, d);                                                                                  \
  }
SLIP_DEFINE_SOFT(float, f)
SLIP_DEFINE_SOFT(double, d)
#undef SLIP_DEFINE_SOFT

}  // namespace slip
