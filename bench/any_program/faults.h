#pragma once

// Which faults strike whom, and when: a pure function of the seed, so that a run that failed can be
// repeated.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::any_program {

enum class FaultKind {
  kKillRank,     // SIGKILL to one of a worker's ranks
  kKillProgram,  // SIGKILL to a worker's torchrun, whose ranks go on
  kKillAgent,    // SIGKILL to a container's first process: all of a worker ends
  kCut,          // every packet of a worker's host vanishes, both ways
  kKillLauncher  // SIGKILL to the launcher
};

const char* ToString(FaultKind kind);
// Every kind there is, separated by commas.
std::string AllFaults();
// kInvalid names the word that is not a fault.
Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated);

struct Fault {
  FaultKind kind = FaultKind::kKillRank;
  int worker = 0;  // without meaning for kKillLauncher
  int rank = 0;    // of the worker's; for kKillRank
  // How long training runs before it.
  std::chrono::milliseconds after{};
};

// REQUIRES: `kinds` is not empty; workers and ranks (of each) >= 1.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int ranks,
                                int count, uint64_t seed);

}  // namespace ringmaster::any_program
