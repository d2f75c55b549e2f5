#pragma once

// Agrees on how to create the communicator of a new world: each rank publishes its description in
// the world's store, and rank 0 decides (nccl_path.h) and publishes the plan with NCCL's unique id.

#include <functional>
#include <vector>

#include "worker/trainer/comm/nccl/nccl_path.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

struct NcclPlan {
  NcclPath path = NcclPath::kNew;
  std::vector<int> excluded{};  // for a shrink: the parent's ranks to exclude
  int old_ranks = 0;            // for kGrow: the parent's size; the parent's ranks come first
  NcclUniqueId id{};            // used by kNew and kGrow
  bool registers = false;       // true: all ranks register their memory; false: none does
};

// Returns rank 0's plan, for which rank 0 needs the statements of all ranks. Calls `make_id` only
// on rank 0, for the chosen path, and `missing` if exactly one rank did not answer in time. Does
// not use the store in a world of one rank. Errors are those of the store and of make_id.
Result<NcclPlan> AgreeOnPlan(const World& world, const NcclStatement& mine, Deadline deadline,
                             const std::function<Result<NcclUniqueId>(NcclPath)>& make_id,
                             const std::function<void(int rank)>& missing);

}  // namespace ringmaster::trainer
