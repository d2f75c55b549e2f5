#pragma once

// Where the ranks of a bench come from. Started by an agent, as the command of a TrainingJob, this
// process is one of the job's; otherwise it starts them itself, as processes on this machine. Both
// give a world to meet in, so that everything else is written once.

#include <functional>
#include <string>
#include <vector>

#include "worker/trainer/membership_source.h"

namespace ringmaster::bench {

struct RankOptions {
  int ranks = 2;  // where this process starts them
  // Of each rank, where they are on hosts of their own: a network namespace, and the address in it.
  std::vector<std::string> namespaces{};
  std::vector<std::string> addresses{};
};

// Whether an agent started this process.
bool UnderAgent();

// Runs `rank_main` on every rank of the world, on one of them in this process where an agent
// started it, and returns when all have ended: the worst exit code. Ranks end with their parent,
// which must not have started threads. A rank that cannot take part says why and counts as 1.
int RunOnRanks(const RankOptions& options,
               const std::function<int(const trainer::World& world)>& rank_main);

}  // namespace ringmaster::bench
