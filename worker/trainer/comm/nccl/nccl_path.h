#pragma once

// Decides how to create the communicator of a new world, if possible from the previous world's. The
// decision depends only on the statements of all ranks of the new world. Rank 0 decides for all
// (nccl_rendezvous.h), so that all ranks do the same.

#include <span>
#include <string>
#include <vector>

#include "worker/trainer/comm/nccl/nccl_api.h"

namespace ringmaster::trainer {

// The state of a rank's last communicator.
enum class ParentState : int {
  kNone = 0,     // aborted, or never created
  kHealthy = 1,  // healthy, without running operations
  kRevoked = 2,  // broken; NCCL stopped its operations, and it can be shrunk
  kBroken = 3,   // broken, without running operations on this rank
};

struct NcclStatement {
  int version = 0;       // NCCL version of this rank
  std::string parent{};  // the last communicator's name, the same on all its ranks; empty: none
  int parent_rank = 0;
  int parent_size = 0;
  ParentState state = ParentState::kNone;
  bool registers = false;  // this rank has memory that it can register
};

enum class NcclPath : int {
  kNew = 0,          // abort all parents and create a new communicator
  kShrink = 1,       // shrink a parent that all ranks have revoked
  kShrinkAbort = 2,  // shrink a parent whose other ranks may be in any state
  kGrow = 3,         // grow a healthy parent; all its ranks stay and keep their numbers
};

// Returns how to create the communicator of `ranks`, given in their new order. Returns kNew if
// versions differ, because NCCL refuses to mix some versions, and others may lack functions.
NcclPath PathOf(std::span<const NcclStatement> ranks);

// Returns whether all ranks register their memory. The behaviour of NCCL is undefined if the memory
// of an operation is registered on only some ranks.
bool AllRegister(std::span<const NcclStatement> ranks);

// Returns the parent's ranks that are not in `ranks`, ascending. REQUIRES: the path is a shrink.
std::vector<int> ExcludedFrom(std::span<const NcclStatement> ranks);

}  // namespace ringmaster::trainer
