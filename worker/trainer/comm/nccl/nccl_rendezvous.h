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
  std::vector<int> excluded{};  // of the parent's ranks, where it is shrunk
  int old_ranks = 0;            // the first so many were in the parent, where it grows
  NcclUniqueId id{};            // of kNew and kGrow
  bool registers = false;       // all ranks register their memory, otherwise none
};

// Blocks until rank 0 has heard all ranks and decided. `make_id` is called on rank 0 alone, for the
// path taken; `missing` is told the only rank that did not come in time. A world of one does not
// use the store. Errors are the store's and make_id's.
Result<NcclPlan> AgreeOnPlan(const World& world, const NcclStatement& mine, Deadline deadline,
                             const std::function<Result<NcclUniqueId>(NcclPath)>& make_id,
                             const std::function<void(int rank)>& missing);

}  // namespace ringmaster::trainer
