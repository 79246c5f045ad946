// SPDX-License-Identifier: Apache-2.0
// The host program's floating-point environment: how it rounds, which exceptions trap, whether denormals are zeros. Answers do not depend on it.
#pragma once
#include <cfenv>

namespace slip::api {

/// IEEE 754's defaults on this thread, and on threads that it starts, as long as this lives; then the host's environment again, without the
/// flags that were raised meanwhile.
class UsualArithmetic {
 public:
  UsualArithmetic() noexcept {
    std::fegetenv(&host_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualArithmetic() { std::fesetenv(&host_); }
  UsualArithmetic(const UsualArithmetic&) = delete;
  UsualArithmetic& operator=(const UsualArithmetic&) = delete;

 private:
  std::fenv_t host_{};
};

}  // namespace slip::api
