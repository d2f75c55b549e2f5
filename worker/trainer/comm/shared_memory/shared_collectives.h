#pragma once

// Collectives through memory that all ranks of a world map: each rank writes a chunk of its data
// into its slot, announces it, and reads the slots of the others. Values are summed in the same
// order as over Gloo (reduction_order.h). Used only by the shared-memory transport.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/comm/collective_transport.h"
#include "worker/trainer/comm/reduction_order.h"
#include "worker/trainer/comm/shared_memory/meeting.h"

namespace ringmaster::trainer {

// The layout of a segment: a cell for each rank, then two slots for each.
class SharedLayout {
 public:
  explicit SharedLayout(int ranks);

  std::size_t bytes() const;
  std::size_t slot_bytes() const { return slot_bytes_; }

  // `memory` has bytes() bytes, which are zero at first.
  std::span<MeetingCell> Cells(std::span<std::byte> memory) const;
  std::byte* Slot(std::span<std::byte> memory, int rank, int which) const;

 private:
  std::size_t ranks_;
  std::size_t slot_bytes_;
};

// The collectives of one rank in a segment. Each rank creates one object. Thread-safety: any thread
// may call ShutDown(); one thread at a time may call the other functions.
class SharedCollectives final : public Collectives {
 public:
  // The memory must outlive the object.
  SharedCollectives(std::span<std::byte> memory, int rank, std::vector<PeerProcess> processes);

  void AllReduce(Elements values, ReduceOp op, Deadline deadline) override;
  void ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override;
  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                 Deadline deadline) override;
  void AllToAll(std::span<const std::byte> send, const std::vector<std::size_t>& send_bytes,
                std::span<std::byte> receive, const std::vector<std::size_t>& receive_bytes,
                Deadline deadline) override;
  void Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override;
  void Barrier(Deadline deadline) override;

  void ShutDown() { meeting_.ShutDown(); }

 private:
  int rank() const { return meeting_.rank(); }
  int size() const { return meeting_.size(); }
  std::byte* Slot(int rank) const { return layout_.Slot(memory_, rank, turn_); }

  // Waits until all ranks have read an earlier chunk, so that its slots can be used again.
  void OpenSlots(Deadline deadline);
  void LeaveSlots();

  void ReduceOfTwo(Elements chunk, ReduceFunction reduce, Deadline deadline);
  void ReduceOfMany(Elements chunk, std::size_t at, const std::vector<ReductionPart>& parts,
                    ReduceFunction reduce, Deadline deadline);
  std::vector<uint64_t> GatherSizes(const std::vector<std::size_t>& mine, Deadline deadline);

  const SharedLayout layout_;
  const std::span<std::byte> memory_;
  Meeting meeting_;
  int turn_ = 0;                       // index of the slot that each rank uses next
  std::array<uint64_t, 2> left_at_{};  // the point after which a slot is free
};

}  // namespace ringmaster::trainer
