#pragma once

// Builds the environment of a rank that the agent starts: the container's environment without the
// agent's own variables, plus the slot's variables. Pure functions, except for AvailableCpus().

#include <string>
#include <vector>

#include "worker/agent/config/config.h"
#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

// Returns "NAME=VALUE" entries. OMP_NUM_THREADS is the slot's share of `cpus` unless the user set
// it: by default, LibTorch and OpenMP use all CPUs in every rank, and ranks of one worker compete.
// `position_page` is the file of rank_page.h; empty: none. `gpus` are the UUIDs of the GPUs that
// the rank sees, separated by commas; empty: all of the container's GPUs.
std::vector<std::string> RankEnvironment(const Config& config, int slot, int cpus,
                                         const std::string& position_page = "",
                                         const std::string& gpus = "");

// Returns the environment of a program without the rank protocol, which runs in one world: PyTorch,
// torchrun and JAX read rank and peers from it. `port` is unused on rank 0's host. In mode
// PerWorker the program starts its own ranks, and RANK and WORLD_SIZE count the programs.
std::vector<std::string> ProgramEnvironment(const Config& config, const ProgramPlace& place,
                                            int cpus, int port);

// Returns how many CPUs the affinity mask and the quota of this container allow; at least 1.
int AvailableCpus();

// Returns the CPUs of a cgroup v2 cpu.max file ("150000 100000", "max 100000"), rounded up; 0 if
// the file sets no quota. Pure function.
int CpusOfQuota(const std::string& cpu_max);

}  // namespace ringmaster::agent
