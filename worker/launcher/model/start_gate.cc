#include "worker/launcher/model/start_gate.h"

#include <algorithm>

namespace ringmaster::launcher {

void StartGate::Expect(std::set<Slot> slots) {
  expected_ = std::move(slots);
  attached_.clear();
  fault_.reset();
}

void StartGate::Attach(const Slot& slot, int mpi_rank, int mpi_world_size) {
  const auto [it, fresh] = attached_.try_emplace(slot, Process{mpi_rank, mpi_world_size});
  if (fault_) return;
  if (!fresh) {
    if (it->second.mpi_rank != mpi_rank) fault_ = Fault{Fault::Kind::kAttachedTwice, slot, 0};
    return;
  }
  if (!expected_.contains(slot)) {
    fault_ = Fault{Fault::Kind::kNotExpected, slot, 0};
  } else if (mpi_world_size != static_cast<int>(expected_.size())) {
    fault_ = Fault{Fault::Kind::kOtherWorldSize, slot, mpi_world_size};
  } else if (attached_.size() == expected_.size()) {
    std::set<int> ranks;
    for (const auto& [name, process] : attached_) ranks.insert(process.mpi_rank);
    if (ranks.size() != expected_.size()) fault_ = Fault{Fault::Kind::kSameRank, slot, 0};
  }
}

std::set<StartGate::Slot> StartGate::AttachedSlots() const {
  std::set<Slot> slots;
  for (const auto& [slot, process] : attached_) slots.insert(slot);
  return slots;
}

}  // namespace ringmaster::launcher
