// SPDX-License-Identifier: Apache-2.0
// slipstream-train: the trainer's door.
//   slipstream-train --config F.json            train
//   slipstream-train --resume DIR [--config F]  go on from a checkpoint, in its run's folder (its own config, with the --steps and
//                                               --max-minutes that it was given, unless another is given, whose output folder counts then)
//   slipstream-train --forward ROWS.json --model DIR --out X.safetensors [--pixels P.safetensors] [--dtype f32|bf16|f64]
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/standard_streams.h"
#include "train/loop/checkpoint.h"
#include "train/loop/learners/learner.h"
#include "train/loop/same_config.h"
#include "train/loop/trainer.h"
#include "train/model/forward_rows.h"
#include "train/parallel/launch.h"
#include "train/parallel/processes.h"
#include "train/parallel/shard_sum.h"

namespace {

/// OpenBLAS 0.3.21 takes Zen 5 for Haswell (a third of the speed) unless told before it loads, which is before main: say it and
/// start over once. An OPENBLAS_CORETYPE from outside is replaced (SLIP_OPENBLAS_CORETYPE is kept): it is usually set for the machine's
/// other programs, and f32 products take twice as long with it. Short spinning leaves the cores to the batch thread.
void prepare_environment(char** argv) {
  if (std::getenv("SLIP_TRAIN_STARTED") != nullptr) return;
  setenv("SLIP_TRAIN_STARTED", "1", 1);
  if (const char* wanted = std::getenv("SLIP_OPENBLAS_CORETYPE"); wanted != nullptr)
    setenv("OPENBLAS_CORETYPE", wanted, 1);
  else if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  setenv("GOMP_SPINCOUNT", "20000", 0);
  slip::hold_interrupts();        // while the libraries are loaded once more
  execv("/proc/self/exe", argv);  // on failure: slower, but right
}

struct Arguments {
  std::string config, resume, forward, model, out, pixels, dtype = "f32";
  int64_t steps = 0;
  double max_minutes = -1;
  bool quiet = false;
};

/// What is wrong with a number on the command line, or nothing.
template <class Number>
std::string number_error(const std::string& text, Number least, Number most) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc{} && end == text.data() + text.size() && n >= least && n <= most) return {};
  return fmt::format("expected a {}number from {} to {}, got {}", std::is_integral_v<Number> ? "whole " : "", least, most, text);
}

/// Until all processes have met there is nothing to save: Ctrl-C ends at once. interrupt.h's handler comes in its place.
void end_at_once(int) {
  static constexpr char kText[] = "slipstream-train: interrupted\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(130);
}

void install_early_handlers() {
  // A process that is gone closes its connections: writing to one is an error (exit code 5), not an end without a word.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  for (const int signal : {SIGINT, SIGTERM}) static_cast<void>(std::signal(signal, end_at_once));
  if (std::signal(SIGHUP, end_at_once) == SIG_IGN) static_cast<void>(std::signal(SIGHUP, SIG_IGN));
  slip::release_interrupts();
}

/// The configuration of a checkpoint, with the working folder that its relative paths start from made ours. Where that folder is
/// gone, as on another machine, they start from here.
slip::Result<slip::TrainConfig> resumed_config(const std::filesystem::path& from) {
  SLIP_TRY(const std::filesystem::path folder, slip::checkpoint_working_folder(from));
  std::error_code ec;
  if (!folder.empty()) std::filesystem::current_path(folder, ec);
  return slip::checkpoint_config(from);
}

// Without instructions for it bf16 is emulated number by number: many times slower than f32, for fewer digits.
void choose_precision(slip::TrainConfig& config, bool quiet) {
#if defined(__x86_64__)
  const bool native = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
  const bool native = true;
#endif
  if (config.precision != slip::Precision::kBF16 || native || std::getenv("SLIP_TRAIN_BF16") != nullptr) return;
  config.precision = slip::Precision::kF32;
  if (quiet) return;
  slip::say(
      "slipstream-train: precision: bf16 is asked for and f32 used: this processor has no AVX-512, without which bf16 is many "
      "times "
      "slower (SLIP_TRAIN_BF16=1 insists)\n");
}

/// The first process alone makes what a source makes on the way (a tokenizer); the others wait for it.
slip::Result<std::unique_ptr<slip::SampleSource>> source_of(const slip::TrainConfig& c) {
  const bool first = c.processes->rank() == 0;
  std::optional<slip::Result<std::unique_ptr<slip::SampleSource>>> made;
  if (first) made = slip::make_source(c.data, c.tokenizer);
  const double failed = first && !*made ? 1 : 0;
  const auto all = c.processes->gather({&failed, 1});
  if (first) return std::move(*made);
  if (!all) return all.error();
  if (all->front() != 0)
    return slip::resource_error("process 0: expected its data, got an error there; its own message says which");
  return slip::make_source(c.data, c.tokenizer);
}

/// The configuration that the arguments ask for, and the checkpoint that it goes on from.
slip::Result<slip::TrainConfig> asked_config(const Arguments& a, std::optional<std::filesystem::path>& from) {
  std::filesystem::path out = a.out;
  if (!out.empty()) out = std::filesystem::absolute(out);  // before the working folder changes
  if (!a.resume.empty()) {
    SLIP_TRY(from, slip::newest_checkpoint(std::filesystem::absolute(a.resume)));
  }
  SLIP_TRY(slip::TrainConfig config, a.config.empty() ? resumed_config(*from) : slip::TrainConfig::load(a.config));
  if (!out.empty()) config.out = out;
  if (config.out.empty()) return slip::usage_error("{}: expected \"out\" or --out, the run's folder, got neither", a.config);
  if (a.steps > 0) config.set_steps(a.steps);
  if (a.max_minutes >= 0) config.set_max_minutes(a.max_minutes);
  choose_precision(config, a.quiet);
  return config;
}

slip::Status run_training(const Arguments& a) {
  std::optional<std::filesystem::path> from;
  SLIP_TRY(slip::TrainConfig config, asked_config(a, from));
  SLIP_TRY(const slip::Launch launch, slip::launch_from());
  SLIP_TRY_(slip::shards_of(config.shards, launch.rank, launch.size));
  SLIP_TRY(config.processes, slip::join(launch));
  SLIP_TRY_(slip::check_same_config(config, from));
  slip::install_interrupt_handler(
      120000, "\nslipstream-train: interrupted: ends this step and writes a checkpoint (again: ends at once, without)\n");
  SLIP_TRY(const auto source, source_of(config));
  const char* core = std::getenv("OPENBLAS_CORETYPE");
  const bool first = launch.rank == 0 && !a.quiet;
  if (first)
    slip::say(fmt::format("slipstream-train: {}, OPENBLAS_CORETYPE={}{}{}\n",
                          config.precision == slip::Precision::kBF16 ? "bf16" : "f32", core != nullptr ? core : "(its own guess)",
                          launch.size > 1 ? fmt::format(", {} processes by {}", launch.size, launch.by) : "",
                          from ? ", from " + from->string() : ""));
  SLIP_TRY(const slip::TrainReport report, slip::train(config, *source, {.resume = from, .quiet = a.quiet}));
  if (report.interrupted)
    return slip::Error{slip::ErrorKind::kCancelled, fmt::format("interrupted after {} steps; --resume goes on from {}",
                                                                report.steps, report.checkpoint.string())};
  if (first && report.samples_per_s == 0)
    slip::say(fmt::format("slipstream-train: nothing left to do: {} steps are in {}\n", report.steps, report.checkpoint.string()));
  else if (first)
    slip::say(fmt::format("slipstream-train: {} after {} steps, loss {:.4f}, {:.2f} samples/s, {}\n",
                          report.stopped_early ? "stopped" : "done", report.steps, report.loss, report.samples_per_s,
                          report.checkpoint.string()));
  return {};
}

/// The exception that is being handled. Torch's messages go on with a stack trace after the first line, and its allocator throws
/// c10::Error, not bad_alloc.
slip::Error error_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return slip::resource_error("memory: expected enough for this run, got less");
  } catch (const std::system_error& e) {
    return slip::resource_error("system: expected its help, got: {}", e.what());
  } catch (const std::exception& e) {
    const std::string text = e.what(), line = text.substr(0, text.find('\n'));
    const bool memory = text.find("DefaultCPUAllocator") != std::string::npos;
    if (memory) return slip::resource_error("memory: expected enough for this run, got: {}", line);
    return {slip::ErrorKind::kInternal, line};
  }
}

slip::Status dispatch(const Arguments& a) {
  if (!a.forward.empty()) {
    if (a.model.empty() || a.out.empty())
      return slip::usage_error("--forward: expected --model and --out, got {}", a.model.empty() ? "no --model" : "no --out");
    const slip::Precision p = a.dtype == "bf16"  ? slip::Precision::kBF16
                              : a.dtype == "f64" ? slip::Precision::kF64
                                                 : slip::Precision::kF32;
    slip::install_interrupt_handler();
    return slip::forward_rows(a.model, a.forward, a.pixels, a.out, p);
  }
  SLIP_TRY_(slip::check_address_space(uint64_t{2} << 30, "training"));
  if (a.config.empty() && a.resume.empty())
    return slip::usage_error("arguments: expected --config, --resume or --forward, got none of them");
  return run_training(a);
}

/// The end of the process. Libraries of torch clear up after themselves when a process ends, in whatever order the loader finds: with PyTorch 2.11's
/// wheel for CUDA that ended in "free(): invalid pointer", after all work was done. Files are closed by now; what is left is in memory.
[[noreturn]] void leave(int code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

int run(int argc, char** argv) {
  slip::open_closed_streams();
  prepare_environment(argv);
  CLI::App app{"Slipstream's trainer: dual-stream objectives on libtorch", "slipstream-train"};
  Arguments a;
  app.add_option("--config", a.config, "configuration (src/train/loop/config.h lists its keys)");
  app.add_option(
      "--resume", a.resume,
      "a step-N folder, or a run's folder: its newest; goes on with its own configuration unless --config gives another");
  constexpr int64_t kMostSteps = (int64_t{1} << 31) - 1;
  app.add_option("--steps", a.steps, "in place of the configuration's")->check([](const std::string& text) {
    return number_error<int64_t>(text, 1, kMostSteps);
  });
  app.add_option("--max-minutes", a.max_minutes, "in place of the configuration's; 0: no limit")
      ->check([](const std::string& text) { return number_error<double>(text, 0, 1e6); });
  app.add_flag("-q,--quiet", a.quiet, "errors alone");
  app.add_option("--forward", a.forward, "rows file: write their logits and stop");
  app.add_option("--model", a.model, "checkpoint folder for --forward");
  app.add_option("--pixels", a.pixels, "pixel_values and grid_thw for --forward");
  app.add_option("--out", a.out, "output file of --forward; else the run's folder in place of the configuration's");
  app.add_option("--dtype", a.dtype, "f32, bf16 or f64 for --forward")->check(CLI::IsMember({"f32", "bf16", "f64"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  // Activations of tens of megabytes come and go every step: keep their pages (a sixth of the f32 step was page faults).
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
  install_early_handlers();
  if (a.quiet) slip::set_log_level(slip::LogLevel::kError);
  slip::Status status;
  try {
    status = dispatch(a);
  } catch (...) {
    status = error_of_exception();
  }
  if (status) return 0;
  slip::say(fmt::format("slipstream-train: {}\n", status.error().message));
  return static_cast<int>(status.error().kind);
}

}  // namespace

int main(int argc, char** argv) { leave(run(argc, argv)); }
