#pragma once

// Builds the environment of a rank that the agent starts: the container's environment without the
// agent's own variables, plus those of the slot. Pure functions, except for AvailableCpus().

#include <string>
#include <vector>

#include "worker/agent/config/config.h"
#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

// "NAME=VALUE" entries. OMP_NUM_THREADS gets the slot's share of `cpus` unless the user set it: the
// default of LibTorch and OpenMP, all CPUs for every rank, makes ranks of one worker fight.
// `position_page` is the file of rank_page.h; empty: none. `gpus` are the UUIDs of the slot's GPUs
// with commas between, which are all that its rank sees; empty: what the container does.
std::vector<std::string> RankEnvironment(const Config& config, int slot, int cpus,
                                         const std::string& position_page = "",
                                         const std::string& gpus = "");

// For a program without our protocol, which lives in one world: the variables from which PyTorch,
// torchrun and JAX read the rank and the peers. `port` is free on rank 0's host. In mode PerWorker
// the program starts ranks of its own, and RANK and WORLD_SIZE count the programs.
std::vector<std::string> ProgramEnvironment(const Config& config, const ProgramPlace& place,
                                            int cpus, int port);

// CPUs this container may use: those it may be scheduled on, no more than its quota. At least 1.
int AvailableCpus();

// The quota in a cgroup v2 cpu.max file ("150000 100000", "max 100000"), rounded up; 0 when there
// is none. Pure.
int CpusOfQuota(const std::string& cpu_max);

}  // namespace ringmaster::agent
