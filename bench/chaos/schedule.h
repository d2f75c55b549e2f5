#pragma once

// Draws which faults hit which worker, in which order. A pure function of the seed, so that a
// failed run can be repeated. Used by the chaos program and its test.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::chaos {

enum class FaultKind {
  kKillRank,   // SIGKILL to one rank; its Pod continues
  kHangRank,   // SIGSTOP to a worker's ranks; their agent continues
  kKillAgent,  // SIGKILL to the agent: its ranks die with it, and a new Pod replaces it
  kStop,       // SIGSTOP to all processes of one worker: it is silent, its connections stay
  kCut,        // all packets to and from one worker's host are dropped
  kCutIn,      // only packets to it are dropped
  kLauncher    // SIGKILL to the launcher; a launcher of the next term takes over
};

// Returns the name that --faults uses.
const char* ToString(FaultKind kind);
// Returns all kinds, separated by commas.
std::string AllFaults();
// Parses a list of kinds. kInvalid names the word that is not a fault.
Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated);

// Whether no process reports the fault, so that only a time limit can detect it.
bool IsSilent(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKillRank;
  int worker = 0;  // 0 … workers - 1; unused for kLauncher
};

// REQUIRES: `kinds` is not empty, and `workers` >= 1.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int count,
                                uint64_t seed);

}  // namespace ringmaster::chaos
