#pragma once

// Where a rank learns which world it is in, and whom it tells how it fares. The session asks it;
// nothing else of the trainer knows whether an agent, flags or nobody decides.

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "worker/trainer/store.h"

namespace ringmaster::trainer {

// One world of ranks, as one of them sees it.
struct World {
  control::Epoch epoch;
  int rank = 0;
  int size = 1;
  int ranks_on_host = 1;  // how many ranks share this rank's node
  std::string address;    // where this rank listens for the others; empty: loopback
};

// Thread-safety: one caller.
class MembershipSource {
 public:
  virtual ~MembershipSource() = default;

  // Says that this rank has loaded and is ready, and blocks until there is a world. kUnavailable
  // when whoever decides has gone.
  virtual Result<World> AwaitWorld() = 0;

  // The current world's store. REQUIRES: AwaitWorld() has returned one.
  virtual Store& store() = 0;

  // Committed progress, from rank 0; may drop reports that come more often than they are wanted.
  virtual void Report(const control::Progress& progress) = 0;

  // Past the last step: says so, and blocks until every rank of the world may end.
  virtual Result<void> Finish(const control::Progress& progress) = 0;

  // The world broke (a peer cannot be reached). Blocks while somebody else may still decide what
  // happens to this rank; returns when it should end by itself.
  virtual void Broken(const std::string& reason) = 0;
};

// Worlds that never change: `size` ranks that meet in a folder, or a single process.
std::unique_ptr<MembershipSource> MakeSingleMembership();
std::unique_ptr<MembershipSource> MakeStaticMembership(World world, std::unique_ptr<Store> store);

}  // namespace ringmaster::trainer
