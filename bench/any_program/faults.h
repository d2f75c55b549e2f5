#pragma once

// Draws at random which fault is injected into which worker, and when. The schedule is a pure
// function of the seed, so that a failed run can be repeated.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::any_program {

enum class FaultKind {
  kKillRank,     // SIGKILL to one of a worker's ranks
  kKillProgram,  // SIGKILL to a worker's torchrun; its ranks continue
  kKillAgent,    // SIGKILL to a container's first process, which ends all processes of the worker
  kCut,          // all packets to and from a worker's host are dropped
  kKillLauncher  // SIGKILL to the launcher
};

const char* ToString(FaultKind kind);
// Returns all kinds, separated by commas.
std::string AllFaults();
// Parses a list of kinds. kInvalid: a word is not a kind; the message names it.
Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated);

struct Fault {
  FaultKind kind = FaultKind::kKillRank;
  int worker = 0;  // unused for kKillLauncher
  int rank = 0;    // the local rank on the worker; used only for kKillRank
  // How long the job trains before the fault.
  std::chrono::milliseconds after{};
};

// Returns `count` faults. REQUIRES: `kinds` is not empty; `workers`, `ranks` (per worker) >= 1.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int ranks,
                                int count, uint64_t seed);

}  // namespace ringmaster::any_program
