// SPDX-License-Identifier: Apache-2.0
// See launch.h.
#include "train/parallel/launch.h"

#include <charconv>
#include <cstdlib>

namespace slip {

std::optional<std::string> environment_variable(const char* name) {
  const char* v = std::getenv(name);
  return v ? std::optional<std::string>(v) : std::nullopt;
}

std::string first_host(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string out = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return out;
  return out + list.substr(end + 1, list.find_first_of(",-]", end + 1) - end - 1);
}

namespace {

Result<int> number(const Variables& variable, const char* name, std::optional<int> other, int least, int most) {
  const std::optional<std::string> text = variable(name);
  if (!text && other) return *other;
  if (!text) return usage_error("{}: expected a number, got no such variable", name);
  int v = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), v);
  if (error != std::errc{} || end != text->data() + text->size() || v < least || v > most)
    return usage_error("{}: expected a whole number from {} to {}, got {}", name, least, most, *text);
  return v;
}

constexpr int kMostProcesses = 1 << 16, kMostMeetSeconds = 86400;  // a day

Status read_ranks(const Variables& variable, const char* rank, const char* size, const char* local, Launch& out) {
  SLIP_TRY(out.size, number(variable, size, {}, 1, kMostProcesses));
  SLIP_TRY(out.rank, number(variable, rank, {}, 0, out.size - 1));
  SLIP_TRY(out.local_rank, number(variable, local, 0, 0, kMostProcesses));
  return {};
}

/// Where a Slurm step's processes meet: the first node's name, and a port that follows job and step, so that two jobs on a node do not meet.
Status meet_by_slurm(const Variables& variable, Launch& out) {
  constexpr int kFirstPort = 20000, kPorts = 20000;
  SLIP_TRY(const int job, number(variable, "SLURM_JOB_ID", 0, 0, 1 << 30));
  SLIP_TRY(const int step, number(variable, "SLURM_STEP_ID", 0, 0, 1 << 30));
  out.port = kFirstPort + (job % kPorts * 31 + step) % kPorts;
  if (const auto nodes = variable("SLURM_STEP_NODELIST")) out.address = first_host(*nodes);
  return {};
}

}  // namespace

Result<Launch> launch_from(const Variables& variable) {
  Launch out;
  if (variable("RANK") || variable("WORLD_SIZE")) {
    out.by = "torchrun";
    SLIP_TRY_(read_ranks(variable, "RANK", "WORLD_SIZE", "LOCAL_RANK", out));
    out.store_is_there = variable("TORCHELASTIC_USE_AGENT_STORE") == std::optional<std::string>("True");
    out.key = variable("TORCHELASTIC_RESTART_COUNT").value_or("");
  } else if (variable("OMPI_COMM_WORLD_SIZE")) {
    out.by = "mpirun";
    SLIP_TRY_(read_ranks(variable, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", out));
    SLIP_TRY(const int here, number(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", out.size, 1, kMostProcesses));
    if (here < out.size && !variable("MASTER_ADDR"))
      return usage_error("MASTER_ADDR: expected the first process's host where mpirun uses several, got no such variable");
  } else if (variable("SLURM_PROCID") && variable("SLURM_STEP_NUM_TASKS")) {
    out.by = "srun";
    SLIP_TRY_(read_ranks(variable, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", out));
    SLIP_TRY_(meet_by_slurm(variable, out));
  } else if (variable("PMI_RANK") && variable("PMI_SIZE")) {
    out.by = "mpirun";
    SLIP_TRY_(read_ranks(variable, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", out));
  }
  if (const auto address = variable("MASTER_ADDR")) out.address = *address;
  SLIP_TRY(out.port, number(variable, "MASTER_PORT", out.port, 1, 65535));
  SLIP_TRY(const int meet, number(variable, "SLIP_MEET_SECONDS", static_cast<int>(out.meet.count()), 1, kMostMeetSeconds));
  out.meet = std::chrono::seconds(meet);
  return out;
}

}  // namespace slip
