#pragma once

// Decides how to create the communicator of a new world from the previous one, if possible. A pure
// function of what all ranks of the new world report. Rank 0 decides for all (nccl_rendezvous.h),
// so that all ranks do the same.

#include <span>
#include <string>
#include <vector>

#include "worker/trainer/comm/nccl/nccl_api.h"

namespace ringmaster::trainer {

// The state of a rank's last communicator.
enum class ParentState : int {
  kNone = 0,     // aborted, or never created
  kHealthy = 1,  // healthy, without running operations
  kRevoked = 2,  // broken; NCCL stopped what was under way, and lets it be shrunk
  kBroken = 3,   // broken, without running operations on this rank
};

struct NcclStatement {
  int version = 0;       // of this rank's NCCL
  std::string parent{};  // the last communicator's name, the same on all its ranks; empty: none
  int parent_rank = 0;
  int parent_size = 0;
  ParentState state = ParentState::kNone;
  bool registers = false;  // has memory that it could register
};

enum class NcclPath : int {
  kNew = 0,          // parents are aborted, a new one is made
  kShrink = 1,       // from a parent that all have revoked
  kShrinkAbort = 2,  // from one whose other ranks may be in any state
  kGrow = 3,         // from a healthy one, all of whose ranks stay and keep their numbers
};

// `ranks` by new rank. One version on all ranks, else kNew: NCCL itself refuses to mix some, and
// what each lacks is known for equal ones alone.
NcclPath PathOf(std::span<const NcclStatement> ranks);

// Whether all ranks register their memory. NCCL leaves undefined what an operation does whose
// memory is registered on some ranks only.
bool AllRegister(std::span<const NcclStatement> ranks);

// The parent's ranks that are not among `ranks`, ascending. REQUIRES: a path that shrinks.
std::vector<int> ExcludedFrom(std::span<const NcclStatement> ranks);

}  // namespace ringmaster::trainer
