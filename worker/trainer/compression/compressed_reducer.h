#pragma once

// Sums gradient buckets over the ranks of a world in a narrow format: half or a quarter of the
// bytes. Used by the session in place of Communicator::AllReduce.
//
//   encode the bucket (own contribution and what is owed of it), a piece for each rank
//   → all-to-all: every rank has all contributions to its piece → decode, add up in the order of
//   the ranks, in float → encode the sum → all-gather → decode
//
// So each number travels twice, whatever the number of ranks, and all ranks decode the same codes:
// the result has the same bits on every rank. A chunk's scale travels with its codes. In a world of
// one nothing travels, and what is owed is paid off.
//
// A thread of the object's own does it, so that backward goes on. It calls the communicator in an
// order that depends on nothing but the buckets' numbers, as all ranks must: a bucket's all-to-all,
// then the all-gather of the bucket before it, so that one bucket is encoded while another travels.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/compression/codec.h"
#include "worker/trainer/compression/error_feedback.h"

namespace ringmaster::trainer {

// Thread-safety: one caller. While a step is reduced, nobody else calls the communicator, but for
// Abort() and LostPeer().
class CompressedReducer {
 public:
  // REQUIRES: `compression` is not kNone, and bucket_count is above 0. The references outlive the
  // object.
  CompressedReducer(Communicator& communicator, Compression compression, int bucket_count,
                    ErrorFeedback& feedback);
  // REQUIRES: the communicator's operations have ended, best by its own destruction after Stop():
  // they work on this object's memory.
  ~CompressedReducer();

  // Sums `values`, and without loss of precision `exact`, in place. Called for the buckets 0, 1, …
  // in each step, after ErrorFeedback::Begin(); `exact` may be empty, but is so on all ranks or on
  // none. The memory stays valid, and untouched by the caller, until the work ended or Stop(). The
  // first failure counts for all later calls: the communicator is broken.
  WorkHandle Reduce(int bucket, std::span<float> values, std::span<float> exact, Deadline deadline);

  // Ends the thread, within milliseconds; aborts the communicator where a step is under way. What
  // has not ended ends with kCancelled; no memory of the caller is touched after it.
  void Stop();

 private:
  struct Task {
    int bucket = 0;
    std::span<float> values;
    std::span<float> exact;
    WorkHandle work;
  };
  // Of one bucket on its way. Gathered pieces take the place of sent ones, the reduced piece that
  // of received ones.
  struct Wire {
    std::vector<std::byte> outgoing;
    std::vector<std::byte> incoming;
  };
  struct Travelling {
    Task task;
    Wire* wire = nullptr;
    WorkHandle exchange;  // all-to-all, then all-gather
    WorkHandle exact;
  };

  void Serve();
  std::optional<Task> Next();
  Result<void> Advance(const Task& task);
  Result<void> PayOff(const Task& task);
  Travelling Send(const Task& task);
  Result<void> SumAndGather(Travelling& bucket);
  Result<void> Receive(const Travelling& bucket);
  void Finish(const Task& task);
  void Fail(const Error& error);
  std::size_t SlotBytes(std::size_t count) const;

  // Constant.
  Communicator& communicator_;
  const Compression compression_;
  const int bucket_count_;
  ErrorFeedback& feedback_;

  // Of the thread. Three buckets travel at once: one exchanges, one is summed, one is gathered.
  std::array<Wire, 3> wires_;
  std::vector<float> sum_;
  std::optional<Travelling> exchanging_;
  std::optional<Travelling> gathering_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> queue_;       // not begun
  std::deque<Task> travelling_;  // begun
  std::optional<Error> broken_;
  bool stopping_ = false;

  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::trainer
