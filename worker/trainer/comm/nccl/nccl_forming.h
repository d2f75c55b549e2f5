#pragma once

// Creates a world's NCCL communicator: from the previous one if all ranks can, otherwise a new one.
// Each NCCL call is polled until it completes, is abandoned or exceeds its deadline.

#include <functional>
#include <string>

#include "common/control/membership.h"
#include "worker/trainer/comm/nccl/nccl_runtime.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

// Used only by the thread that makes the NCCL calls.
struct NcclPatience {
  Deadline deadline;
  std::function<bool()> given_up;  // called between polls
  std::function<void()> pause;     // waits briefly; returns early if the attempt is abandoned
};

// Waits until the call named `call`, which runs on `comm`, has ended. `first` is its return value.
// Errors: kTimeout, kCancelled, or kUnavailable with NCCL's message.
Result<void> Settle(const NcclApi& nccl, NcclComm comm, NcclResult first, const std::string& call,
                    const NcclPatience& patience);

// These functions are called on the thread that creates a communicator, during the creation.
struct NcclFormingObserver {
  std::function<void(int rank)> missing;  // see nccl_rendezvous.h
  // Called when a stage is reached, but not each time NCCL is polled.
  std::function<void(control::ConnectStage stage)> comes_to;
};

// Creates the communicator of `world`. Call it on every rank; it blocks in the world's store and
// then in NCCL. After an error, the new communicator and a parent that was used have been aborted.
// REQUIRES: the device is current for this thread.
Result<NcclComm> FormCommunicator(NcclRuntime& runtime, const World& world,
                                  const NcclPatience& patience,
                                  const NcclFormingObserver& observer);

// Returns the name of a world's communicator. It is unique, because worlds differ in epoch.
std::string CommunicatorName(const World& world);

}  // namespace ringmaster::trainer
