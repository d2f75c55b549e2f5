#pragma once

// Draws at random the faults to inject, their order and their workers. The schedule is a pure
// function of the seed, so that a failed run can be repeated. Used by main.cc and a test.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::chaos {

enum class FaultKind {
  kKillRank,   // SIGKILL to one rank; its Pod continues
  kHangRank,   // SIGSTOP to a worker's ranks; their agent continues
  kKillAgent,  // SIGKILL to the agent: its ranks die with it, and a new Pod replaces it
  kStop,       // SIGSTOP to all processes of one worker; its connections remain open
  kCut,        // all packets to and from one worker's host are dropped
  kCutIn,      // only packets to one worker's host are dropped
  kLauncher    // SIGKILL to the launcher; a launcher of the next term takes over
};

// Returns the kind's name in --faults.
const char* ToString(FaultKind kind);
// Returns all kinds, separated by commas.
std::string AllFaults();
// Parses a list of kinds. kInvalid: a word is not a kind; the message names it.
Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated);

// Returns true if no process reports the fault, so that only a time limit can detect it.
bool IsSilent(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKillRank;
  int worker = 0;  // 0 … workers - 1; unused for kLauncher
};

// Returns `count` faults. REQUIRES: `kinds` is not empty, and `workers` >= 1.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int count,
                                uint64_t seed);

}  // namespace ringmaster::chaos
