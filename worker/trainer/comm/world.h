#pragma once

// The ranks that train together, and the store through which they connect. A world never changes;
// the next world has a higher epoch. The session enters worlds; communicators connect ranks.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/control/membership.h"
#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// A world, as one of its ranks sees it.
struct World {
  control::Epoch epoch;
  int rank = 0;
  int size = 1;
  int full_size = 0;                   // number of ranks that the job wants; 0: unknown
  int ranks_on_host = 1;               // number of ranks on this rank's node
  int local_rank = 0;                  // index among the ranks of its worker, in rank order
  int workers = 1;                     // number of workers that have ranks in this world
  bool one_machine = false;            // all ranks may be on one machine, for example in one Pod
  std::string address{};               // address of this rank for other ranks; empty: loopback
  std::vector<std::string> members{};  // identity of each rank, for logs: "pod/slot/start"
  std::shared_ptr<Store> store{};      // store of this world; null if this is the only rank
  // Callbacks, which may run on any thread. They receive the peer for which a connection waits, the
  // stage that it has reached, and the number of collectives that this rank has reached.
  std::function<void(int peer)> waits_for{};
  std::function<void(control::ConnectStage stage)> comes_to{};
  std::function<void(const control::CollectiveCounts& counts)> counts{};
};

}  // namespace ringmaster::trainer
