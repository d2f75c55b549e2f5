#pragma once

// Creates the NCCL communicator of a world, from the previous one if all ranks can, otherwise from
// scratch. It polls each NCCL call until it completes, is given up or exceeds its deadline.

#include <functional>
#include <string>

#include "common/control/membership.h"
#include "worker/trainer/comm/nccl/nccl_runtime.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

// Belongs to the one thread that makes NCCL's calls.
struct NcclPatience {
  Deadline deadline;
  std::function<bool()> given_up;  // asked between looks
  std::function<void()> pause;     // a moment, less where it is given up meanwhile
};

// Waits until the call that `comm` is busy with has ended: `first` is what the call returned.
// kTimeout, kCancelled, or kUnavailable with NCCL's words.
Result<void> Settle(const NcclApi& nccl, NcclComm comm, NcclResult first, const std::string& call,
                    const NcclPatience& patience);

// Told while a communicator is formed, on the forming thread.
struct NcclFormingObserver {
  std::function<void(int rank)> missing;  // as in nccl_rendezvous.h
  // What has been reached; another poll of NCCL does not count.
  std::function<void(control::ConnectStage stage)> comes_to;
};

// On every rank of `world`. Blocks in the world's store, and then in the calls of NCCL. On an error
// nothing is left: what was made, and a parent that was used, are aborted. REQUIRES: the
// device is this thread's.
Result<NcclComm> FormCommunicator(NcclRuntime& runtime, const World& world,
                                  const NcclPatience& patience,
                                  const NcclFormingObserver& observer);

// The name of a world's communicator: worlds of one job have different epochs.
std::string CommunicatorName(const World& world);

}  // namespace ringmaster::trainer
