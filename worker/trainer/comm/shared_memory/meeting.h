#pragma once

// Synchronises ranks on one machine through shared memory. All ranks pass the same points in the
// same order. A rank announces that it has reached a point, and waits for other ranks there. A
// waiting rank first polls, because peers usually arrive soon. It then sleeps in a futex until the
// peer wakes it, and regularly checks whether the peer's process has ended. What a rank writes
// before a point is visible to ranks that waited for this rank there. Used only by the
// shared-memory transport.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// The state of one rank in shared memory. Initially zero.
struct alignas(128) MeetingCell {  // two cells never share a pair of cache lines
  std::atomic<uint64_t> arrived;   // the last point that the rank has reached
  std::atomic<uint64_t> settled;   // the last point that counts after the rank has left
  std::atomic<uint64_t> awaits;    // the rank and point for which this rank waits; 0: awake
  std::atomic<uint32_t> bell;      // futex on which this rank sleeps; a change wakes the rank
  std::atomic<uint32_t> gone;      // 1: the rank has left permanently
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// A process on this machine for which ranks wait. Owns the descriptor.
class PeerProcess {
 public:
  // Opens a process by its id. The calling process never counts as ended.
  explicit PeerProcess(int pid);
  ~PeerProcess();
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool HasEnded() const;

  // Returns whether this machine supports watching processes (pidfd_open).
  static bool CanBeWatched();

 private:
  int fd_ = -1;  // -1: this process, or one that had already ended
  bool ended_ = false;
};

// Thread-safety: any thread may call ShutDown(); one thread at a time may call the other functions.
class Meeting {
 public:
  // `cells` and `processes` are by rank. The memory must outlive the object.
  Meeting(std::span<MeetingCell> cells, int rank, std::vector<PeerProcess> processes);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(cells_.size()); }

  // Announces that this rank has reached its next point. Returns the point's number.
  uint64_t Arrive();

  // Makes the last point count even after this rank leaves. Later points count only until this rank
  // leaves, because a rank that leaves during an operation does not take part in it.
  void Settle();

  // Blocks until `peer`, or every rank, has reached the point. Throws at the deadline, after
  // ShutDown(), and if the peer has left or its process has ended.
  void Await(int peer, uint64_t point, Deadline deadline);
  void AwaitAll(uint64_t point, Deadline deadline);

  // Leaves the meeting. Waits of this rank and waits for this rank end within milliseconds.
  void ShutDown();

 private:
  bool Came(int peer, uint64_t point) const;
  MeetingCell& Self() const { return cells_[static_cast<std::size_t>(rank_)]; }
  void Sleep(int peer, uint64_t point, Deadline deadline);
  void Ring(MeetingCell& cell);

  const std::span<MeetingCell> cells_;
  const int rank_;
  const std::vector<PeerProcess> processes_;
  uint64_t arrived_ = 0;
  std::atomic<bool> down_ = false;
};

}  // namespace ringmaster::trainer
