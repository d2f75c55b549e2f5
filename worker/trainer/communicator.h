#pragma once

// Collective operations among the ranks of one world. Implemented over Gloo (gloo_communicator.h)
// and for a world of one (loopback_communicator.h). Operations run in the order of the calls, on a
// thread or stream of the communicator's own, so that the caller computes meanwhile:
//
//   auto work = communicator.AllReduce(bucket, deadline);
//   ...                                   // backward goes on
//   if (auto done = work->Wait(); !done.ok()) ...   // the world is broken: form a new communicator
//
// Every rank calls the same operations with the same sizes in the same order. The first failure (a
// peer gone, a deadline passed, Abort) breaks the communicator: that and every later operation
// returns the error. Destruction ends all operations: no memory is touched after it. Nothing here
// throws.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/membership_source.h"

namespace ringmaster::trainer {

// One operation under way. Thread-safe.
class Work {
 public:
  // Blocks until the operation ended. Never longer than the deadline given to the operation and a
  // grace of the communicator's: past it, kTimeout.
  Result<void> Wait();

  // For communicators: how the operation ended. The first call counts.
  void Complete(Result<void> outcome);

  explicit Work(Deadline deadline) : deadline_(deadline) {}
  Deadline deadline() const { return deadline_; }

 private:
  const Deadline deadline_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<void>> outcome_;
};

using WorkHandle = std::shared_ptr<Work>;

// Thread-safety: operations by one thread at a time; Abort() by any.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Memory stays valid, and untouched by the caller, until the work ended.
  // The sum over ranks, in place, with the same bits on every rank.
  virtual WorkHandle AllReduce(std::span<float> values, Deadline deadline) = 0;
  // Every rank's `mine`, by rank. REQUIRES: all.size() == size() * mine.size().
  virtual WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                               Deadline deadline) = 0;
  virtual WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) = 0;
  virtual WorkHandle Barrier(Deadline deadline) = 0;

  // Breaks the communicator: what is under way, connecting included, ends within milliseconds with
  // kCancelled and `reason`.
  virtual void Abort(const std::string& reason) = 0;

  // Once an operation has failed: the rank that could not be reached, -1 where nobody knows. Not
  // known of a connection that breaks later: a rank that lost another one closes all of its own.
  virtual int LostPeer() const { return -1; }
};

// Makes the communicator of a world; returns at once, the operations wait until it is connected.
// An error means that this rank cannot take part in any world.
using CommunicatorFactory =
    std::function<Result<std::unique_ptr<Communicator>>(const World& world, Deadline deadline)>;

}  // namespace ringmaster::trainer
