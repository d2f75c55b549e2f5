#pragma once

// The ranks that train together, and how they find each other. A world never changes; the next one
// has a higher epoch. The session enters worlds, and communicators connect their ranks.

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
  int full_size = 0;                   // the ranks that the job wants; 0: not known
  int ranks_on_host = 1;               // how many ranks share this rank's node
  int local_rank = 0;                  // among the ranks of its worker, in the order of ranks
  int workers = 1;                     // how many the ranks are on
  bool one_machine = false;            // perhaps all ranks are on one, as those of one Pod are
  std::string address{};               // where this rank listens for the others; empty: loopback
  std::vector<std::string> members{};  // who the ranks are, by rank: "pod/slot/start"; for logs
  std::shared_ptr<Store> store{};      // of this world alone; null where nobody is to be found
  // Told, on any thread, whom a connection waits for, how far it has come, and how many collectives
  // the rank has got to.
  std::function<void(int peer)> waits_for{};
  std::function<void(control::ConnectStage stage)> comes_to{};
  std::function<void(const control::CollectiveCounts& counts)> counts{};
};

}  // namespace ringmaster::trainer
