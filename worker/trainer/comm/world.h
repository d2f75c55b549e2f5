#pragma once

// The ranks that train together, and the store through which they find each other. A world never
// changes; the next one has a higher epoch. The session enters worlds; communicators connect ranks.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/control/membership.h"
#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// One world of ranks, as one of them sees it.
struct World {
  control::Epoch epoch;
  int rank = 0;
  int size = 1;
  int full_size = 0;                   // number of ranks that the job wants; 0: not known
  int ranks_on_host = 1;               // number of ranks on this rank's node
  int local_rank = 0;                  // index among the ranks of its worker, in rank order
  int workers = 1;                     // number of workers that the ranks are on
  bool one_machine = false;            // all ranks may be on one machine, as those of one Pod are
  std::string address{};               // where this rank listens for other ranks; empty: loopback
  std::vector<std::string> members{};  // identity of each rank, for logs: "pod/slot/start"
  std::shared_ptr<Store> store{};      // of this world only; null if there is no rank to find
  // Callbacks, on any thread: the peer that a connection waits for, the stage that it has reached,
  // and the number of collectives that this rank has reached.
  std::function<void(int peer)> waits_for{};
  std::function<void(control::ConnectStage stage)> comes_to{};
  std::function<void(const control::CollectiveCounts& counts)> counts{};
};

}  // namespace ringmaster::trainer
