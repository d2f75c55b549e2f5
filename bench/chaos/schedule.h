#pragma once

// Which faults strike whom, in which order: a pure function of the seed, so that a run that failed
// can be repeated. Used by the chaos program and its test.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::chaos {

enum class FaultKind {
  kKillRank,   // SIGKILL to one rank; its Pod lives on
  kHangRank,   // SIGSTOP to a worker's ranks, while their agent lives on
  kKillAgent,  // SIGKILL to the agent: its ranks die with it, and a new Pod takes its place
  kStop,       // everything of one worker is stopped (SIGSTOP): it is silent, its connections stay
  kCut,        // every packet of one worker's host vanishes, both ways
  kCutIn,      // only those towards it
  kLauncher    // SIGKILL to the launcher; the next term takes over
};

// As --faults names them.
const char* ToString(FaultKind kind);
// Every kind there is, separated by commas.
std::string AllFaults();
// kInvalid names the word that is not a fault.
Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated);

// True where nobody is told: only silence, or a rule on it, can end the wait.
bool IsSilent(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKillRank;
  int worker = 0;  // 0 … workers - 1; without meaning for kLauncher
};

// REQUIRES: `kinds` is not empty, workers >= 1.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int count,
                                uint64_t seed);

}  // namespace ringmaster::chaos
