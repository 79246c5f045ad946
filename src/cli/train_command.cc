// SPDX-License-Identifier: Apache-2.0
// `train`: hands over to slipstream-train, which stands beside this binary where libtorch was found at build time.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/interrupt.h"
#include "base/stack.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace slip::cli {

namespace fs = std::filesystem;

fs::path own_folder(const char* self) {
  std::error_code ec;
  const fs::path exe = fs::read_symlink("/proc/self/exe", ec);
  return ec ? fs::path(self).parent_path() : exe.parent_path();
}

Status train(const TrainOptions& o, const char* self) {
  const fs::path trainer = own_folder(self) / "slipstream-train";
  if (!fs::exists(trainer)) {
    return unsupported("train: expected {} (built where libtorch-dev is installed), got nothing there", trainer.string());
  }
  std::vector<std::string> args{trainer.string()};
  const auto flag = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    args.emplace_back(name);
    args.push_back(value);
  };
  flag("--config", o.config);
  flag("--resume", o.resume);
  flag("--out", o.out);
  flag("--max-minutes", o.max_minutes >= 0 ? fmt::format("{}", o.max_minutes) : "");
  flag("--steps", o.steps > 0 ? fmt::format("{}", o.steps) : "");
  if (is_quiet()) args.emplace_back("--quiet");
  // libtorch and OpenBLAS map a gigabyte before main(). Where they may not, one throws there and the other waits for ever.
  SLIP_TRY_(check_address_space(uint64_t{2} << 30, "training"));
  hold_interrupts();  // until the trainer's own handler stands: libraries of hundreds of megabytes are loaded before
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  release_interrupts();
  return resource_error("{}: expected to start it, got: {}", trainer.string(), std::strerror(errno));
}

}  // namespace slip::cli
