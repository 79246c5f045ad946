// SPDX-License-Identifier: Apache-2.0
// Which instruction set runs: the best that the processor has, unless SLIPSTREAM_ISA or a test says otherwise.
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "kernels/isa/ops.h"
#include "kernels/kernels.h"

namespace slip {
namespace {

constexpr std::array<const char*, 4> kNames{"portable", "avx2", "avx512", "neon"};  // by Isa
constexpr const char* kAvx512Needs = "avx512 f bw vl dq bf16 vnni vbmi, fma";

bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::kAvx2) return avx2;
  if (isa == Isa::kAvx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vbmi");
#elif defined(__aarch64__) && defined(__linux__)
  if (isa == Isa::kNeon) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
  return isa == Isa::kPortable;
}

const char* name_of_isa(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

const Ops* table_of(Isa isa) {
  if (!cpu_has(isa)) return nullptr;
  const std::array<const Ops*, 4> tables{portable_ops(), avx2_ops(), avx512_ops(), neon_ops()};
  return tables[static_cast<size_t>(isa)];
}

IsaChoice best_isa() {
  if (table_of(Isa::kAvx512)) return {Isa::kAvx512, fmt::format("avx512: cpu has {}", kAvx512Needs)};
  if (table_of(Isa::kAvx2)) return {Isa::kAvx2, fmt::format("avx2: cpu has avx2, fma, and lacks one of {}", kAvx512Needs)};
  if (table_of(Isa::kNeon)) return {Isa::kNeon, "neon: cpu has asimddp"};
  return {Isa::kPortable, "portable: cpu lacks avx2 and fma, or, on ARM, asimddp"};
}

IsaChoice choose_isa() {
  const IsaChoice best = best_isa();
  const char* wish = std::getenv("SLIPSTREAM_ISA");
  if (wish == nullptr || *wish == 0) return best;
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kNeon})
    if (std::string_view(wish) == name_of_isa(isa)) {
      if (table_of(isa)) return {isa, fmt::format("{}: SLIPSTREAM_ISA", wish)};
      return {best.isa, fmt::format("{} (SLIPSTREAM_ISA: expected what this machine has, got {})", best.reason, wish)};
    }
  return {best.isa, fmt::format("{} (SLIPSTREAM_ISA: expected portable, avx2, avx512 or neon, got {})", best.reason, wish)};
}

IsaChoice& choice() {
  static IsaChoice c = choose_isa();
  return c;
}

std::atomic<const Ops*> g_ops{nullptr};

}  // namespace

const IsaChoice& isa_choice() { return choice(); }

Status force_isa(Isa isa) {
  const Ops* table = table_of(isa);
  if (table == nullptr) return unsupported("instruction set: expected one that this machine has, got {}", name_of_isa(isa));
  choice() = {isa, fmt::format("{}: forced", name_of_isa(isa))};
  g_ops.store(table, std::memory_order_release);
  return {};
}

const Ops& ops() {
  const Ops* table = g_ops.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = table_of(choice().isa);
    g_ops.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace slip
