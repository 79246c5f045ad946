// SPDX-License-Identifier: Apache-2.0
// Which of how many processes this one is, by the variables of whoever started it: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
// MASTER_PORT), mpirun (OMPI_COMM_WORLD_*; PMI_RANK and PMI_SIZE of MPICH and its kin), srun (SLURM_PROCID with SLURM_STEP_NUM_TASKS: a batch
// script's own SLURM_PROCID is no launch).
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace slip {

struct Launch {
  int rank = 0, size = 1, local_rank = 0;
  std::string address = "127.0.0.1";  // of the process group's store
  int port = 29500;
  bool store_is_there = false;     // torchrun's agent serves it
  std::string key;                 // what keeps restarts of one launch apart
  std::string by = "itself";       // "torchrun", "mpirun", "srun"
  std::chrono::seconds meet{300};  // until all are there: SLIP_MEET_SECONDS
};

using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

/// One process alone where nothing says otherwise. kUsage names the variable that is wrong or missing.
Result<Launch> launch_from(const Variables& variable = environment_variable);

/// The first name of Slurm's list: "node[03-05,7],other" -> "node03".
std::string first_host(const std::string& list);

}  // namespace slip
