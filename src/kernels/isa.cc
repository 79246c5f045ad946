// SPDX-License-Identifier: Apache-2.0
// Which instruction set runs: the best that the processor has, unless SLIPSTREAM_ISA or a test says otherwise.
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "kernels/isa/ops.h"
#include "kernels/kernels.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 6> kNames{"portable", "avx2", "avx512", "neon", "amx", "avx512vnni"};  // by Isa
constexpr const char* kAvx512Needs = "avx512 f bw vl dq bf16 vnni vbmi, fma";
constexpr const char* kVnniNeeds = "avx512 f bw vl dq vnni, fma";

/// Whether there are tiles, and the kernel lets this process use them (8 KB more to save of a thread; asked for once, for all threads).
bool has_tiles() {
#if defined(SLIP_EMULATED_TILES)
  return true;
#elif defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25, kBf16 = 1u << 22;  // CPUID.7.0:EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & (kTile | kInt8 | kBf16)) != (kTile | kInt8 | kBf16)) return false;
  constexpr long kArchReqXcompPerm = 0x1023, kTileData = 18;  // asm/prctl.h, of Linux 5.16 and newer
  static const bool allowed = ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
  return allowed;
#else
  return false;
#endif
}

/// Dot products of bytes for vectors of 256 bits, whatever AVX-512 is there.
bool has_avx_vnni() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
#else
  return false;
#endif
}

/// Products of 2 x 8 bytes with 8 x 2.
bool has_i8mm() {
#if defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#else
  return false;
#endif
}

/// Permutations of bytes over a whole vector of 512 bits.
bool has_vbmi() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vbmi") != 0;
#else
  return false;
#endif
}

/// Intel's product of two pairs of bf16 takes two cycles of one unit: half of what two units of f32 do in that time.
bool has_slow_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::kAvx2) return avx2;
  if (isa == Isa::kAvx512Vnni)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  if (isa == Isa::kAvx512) return cpu_has(Isa::kAvx512Vnni) && __builtin_cpu_supports("avx512bf16") && has_vbmi();
  if (isa == Isa::kAmx) return cpu_has(Isa::kAvx512) && has_tiles();
#elif defined(__aarch64__) && defined(__linux__)
  if (isa == Isa::kNeon) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
  return isa == Isa::kPortable;
}

const Ops* table_of(Isa isa) {
  if (!cpu_has(isa)) return nullptr;
  const std::array<const Ops*, 6> tables{portable_ops(), has_avx_vnni() ? avxvnni_ops() : avx2_ops(),
                                         avx512_ops(),   has_i8mm() ? i8mm_ops() : neon_ops(),
                                         amx_ops(),      has_vbmi() ? avx512vbmi_ops() : avx512vnni_ops()};
  return tables[static_cast<size_t>(isa)];
}

IsaChoice best_isa() {
#ifdef SLIP_EMULATED_TILES
  if (table_of(Isa::kAmx)) return {Isa::kAmx, fmt::format("amx: emulated, cpu has {}", kAvx512Needs)};
#endif
  if (table_of(Isa::kAmx)) return {Isa::kAmx, fmt::format("amx: cpu has amx tile bf16 int8, {}", kAvx512Needs)};
  if (table_of(Isa::kAvx512) && !has_slow_bf16()) return {Isa::kAvx512, fmt::format("avx512: cpu has {}", kAvx512Needs)};
  if (table_of(Isa::kAvx512Vnni))
    return {Isa::kAvx512Vnni, fmt::format("avx512vnni: cpu has {}{}, and {}", kVnniNeeds, has_vbmi() ? ", vbmi" : "",
                                          table_of(Isa::kAvx512) ? "its bf16 is slow" : "lacks bf16 or vbmi")};
  if (table_of(Isa::kAvx2))
    return {Isa::kAvx2,
            fmt::format("avx2: cpu has avx2, fma{}, and lacks one of {}", has_avx_vnni() ? ", avx_vnni" : "", kVnniNeeds)};
  if (table_of(Isa::kNeon)) return {Isa::kNeon, fmt::format("neon: cpu has asimddp{}", has_i8mm() ? ", i8mm" : "")};
  return {Isa::kPortable, "portable: cpu lacks avx2 and fma, or, on ARM, asimddp"};
}

IsaChoice choose_isa() {
  const IsaChoice best = best_isa();
  const char* wish = std::getenv("SLIPSTREAM_ISA");
  if (wish == nullptr || *wish == 0) return best;
  for (const Isa isa : kIsas)
    if (wish == word_of(isa) && table_of(isa)) return {isa, fmt::format("{}: SLIPSTREAM_ISA", wish)};
  return {best.isa, fmt::format("{}; {}", best.reason, check_isa_wish().error().message)};
}

IsaChoice& choice() {
  static IsaChoice c = choose_isa();
  return c;
}

std::atomic<const Ops*> g_ops{nullptr};

}  // namespace

std::string_view bits_of(Isa isa) { return word_of(isa == Isa::kNeon || isa == Isa::kAvx512Vnni ? Isa::kAvx2 : isa); }
std::string_view word_of(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

const IsaChoice& isa_choice() { return choice(); }

Status check_isa_wish() {
  const char* wish = std::getenv("SLIPSTREAM_ISA");
  if (wish == nullptr || *wish == 0) return {};
  std::string here;
  bool known = false;
  for (const Isa isa : kIsas) {
    known |= wish == word_of(isa);
    if (!table_of(isa)) continue;
    if (wish == word_of(isa)) return {};
    here += fmt::format("{}{}", here.empty() ? "" : ", ", word_of(isa));
  }
  const std::string text = fmt::format("SLIPSTREAM_ISA: expected one of {}, which this machine has, got {}", here, wish);
  return Error{known ? ErrorKind::kUnsupported : ErrorKind::kUsage, text};
}

Status force_isa(Isa isa) {
  const Ops* table = table_of(isa);
  if (table == nullptr) return unsupported("instruction set: expected one that this machine has, got {}", word_of(isa));
  choice() = {isa, fmt::format("{}: forced", word_of(isa))};
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
