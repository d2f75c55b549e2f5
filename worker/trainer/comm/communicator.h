#pragma once

// Collective operations among the ranks of one world, over Gloo (gloo/), shared memory or NCCL. In
// a world of one rank, they end at once (loopback_communicator.h). Operations run in call order on
// a thread or stream of the communicator, while the caller continues to compute:
//
//   auto work = communicator.AllReduce(bucket, deadline);
//   ...                                   // backward continues
//   if (auto done = work->Wait(); !done.ok()) ...   // the world is broken: form a new communicator
//
// Every rank must call the same operations with the same sizes in the same order. The first failure
// (a lost peer, an exceeded deadline, Abort) breaks the communicator: that operation and all later
// ones return the error. The destructor ends all operations and all accesses to memory. No
// function throws.
//
// On hosts, an operation that succeeds has received the data of every rank. On GPUs, a successful
// operation may have received invalid data from a rank that has abandoned the world. Confirm
// received data before acting on it (Confirm(), WaitConfirmed()).

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "worker/trainer/comm/elements.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

// One operation in progress. Thread-safe.
class Work {
 public:
  // Blocks until the operation has ended. kTimeout: it did not end by its deadline plus a grace
  // period of the communicator.
  Result<void> Wait();

  // The time during which the operation ran. span() is empty if the operation never began, as in a
  // world of one rank. REQUIRES: Wait() has returned.
  struct Span {
    std::chrono::steady_clock::time_point begin{};
    std::chrono::steady_clock::time_point end{};
  };
  std::optional<Span> span() const;

  // Called by communicators when the operation begins and ends. Repeated calls have no effect.
  void Begin();
  void Complete(Result<void> outcome);
  bool ended() const;

  // A thread that is about to wait calls `help` without holding a mutex. `help` may run the
  // operation on that thread.
  using Help = std::function<void(const Work& work)>;
  explicit Work(Deadline deadline, Help help = {}) : deadline_(deadline), help_(std::move(help)) {}
  Deadline deadline() const { return deadline_; }

 private:
  const Deadline deadline_;
  const Help help_;
  mutable Mutex mutex_;
  CondVar ended_;
  std::optional<std::chrono::steady_clock::time_point> began_at_ RINGMASTER_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point ended_at_ RINGMASTER_GUARDED_BY(mutex_){};
  std::optional<Result<void>> outcome_ RINGMASTER_GUARDED_BY(mutex_);
};

using WorkHandle = std::shared_ptr<Work>;

// Thread-safety: one thread at a time may call operations; any thread may call Abort().
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The caller must keep the memory valid and untouched until the work of an operation has ended.
  // Reduces `values` over ranks, in place. The result has the same bits on every rank.
  virtual WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) = 0;
  // Sums `values` over ranks.
  WorkHandle AllReduce(std::span<float> values, Deadline deadline) {
    return AllReduce(Elements(values), ReduceOp::kSum, deadline);
  }
  // `all` has one piece for each rank, in rank order. Reduces this rank's piece over ranks into
  // `mine`, with the same bits as any other reduction in rank order. `all` is unchanged. REQUIRES:
  // all.count == size() * mine.count, and both have the same type.
  virtual WorkHandle ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) = 0;
  // Gathers every rank's `mine`, in rank order. REQUIRES: all.size() == size() * mine.size().
  virtual WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                               Deadline deadline) = 0;
  // Sends the first send_bytes[0] bytes of `send` to rank 0, the next send_bytes[1] to rank 1, and
  // so on. `receive` gets the pieces of all ranks, in rank order. Pieces may be empty. REQUIRES:
  // send_bytes[j] of rank i equals receive_bytes[i] of rank j.
  virtual WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                              std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                              Deadline deadline) = 0;
  virtual WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) = 0;
  virtual WorkHandle Barrier(Deadline deadline) = 0;

  // Confirms all earlier operations, which may still be running: if they and the confirmation
  // succeed on this rank, they have succeeded on every rank. Ends at once if no operation needs
  // confirmation. Call on every rank.
  virtual WorkHandle Confirm(Deadline deadline);

  // Breaks the communicator: all operations, and the attempt to connect, end within milliseconds
  // with kCancelled and `reason`.
  virtual void Abort(const std::string& reason) = 0;

  // After an operation has failed, returns the rank that could not be reached; -1 if unknown.
  // Considers only the first failure, because a rank that lost a peer closes all its connections.
  virtual int LostPeer() const { return -1; }
};

// Waits for `work`, the last operation of `communicator`, and confirms it. Call on every rank.
Result<void> WaitConfirmed(Communicator& communicator, const WorkHandle& work);

// Creates the communicator of a world. Returns at once; operations wait until it is connected.
// An error means that this rank cannot take part in any world.
using CommunicatorFactory =
    std::function<Result<std::unique_ptr<Communicator>>(const World& world, Deadline deadline)>;

}  // namespace ringmaster::trainer
