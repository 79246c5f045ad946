// SPDX-License-Identifier: Apache-2.0
// SLIP_CHECK: an invariant of our own that no input may break (one that does is a bug here). Always on; throws CheckFailure, which is caught
// at the request boundary, the command line and the language bindings only.
#pragma once
#include <stdexcept>
#include <string>

namespace slip {

class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed_at(const char* file, int line, const char* condition, const char* why) {
  throw CheckFailure(std::string(file) + ":" + std::to_string(line) + ": " + condition + " is false: " + why);
}

}  // namespace slip

#define SLIP_CHECK(cond, why)                                             \
  do {                                                                    \
    if (!(cond)) ::slip::check_failed_at(__FILE__, __LINE__, #cond, why); \
  } while (0)
