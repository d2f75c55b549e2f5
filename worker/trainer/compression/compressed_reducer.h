#pragma once

// Sums gradient buckets over the ranks of a world in a narrow format, with half or a quarter of the
// bytes. The session uses it instead of Communicator::AllReduce, through the interface
// GradientReducer, which CompressedGradients implements with one CompressedReducer per world.
//
//   encode the bucket (own contribution and its residuals), a piece for each rank
//   → all-to-all: every rank has all contributions to its piece → decode, add up in the order of
//   the ranks, in float → encode the sum → all-gather → decode
//
// Each number is thus sent twice, for any number of ranks. All ranks decode the same codes, so the
// result has the same bits on every rank. A chunk's scale is sent with its codes. In a world of one
// rank nothing is sent, and residuals are added to the gradients.
//
// The work runs on a thread of this object, so backward continues in the meantime. The order of the
// thread's communicator calls depends only on the bucket numbers, so it is the same on all ranks.
// The thread starts a bucket's all-to-all before the previous bucket's all-gather, to encode one
// bucket while another is sent. A codec on the GPU encodes gradients once they are computed.

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/compression/error_feedback.h"
#include "worker/trainer/compression/row_codec.h"
#include "worker/trainer/elastic/gradient_reducer.h"

namespace ringmaster::trainer {

// Not thread-safe. While a step is reduced, no other code may call the communicator, except for
// Abort() and LostPeer().
class CompressedReducer {
 public:
  // `feedback` must use the same codec and have at least one bucket. The references must outlive
  // the object. Throws if the codec cannot allocate memory for the codes.
  CompressedReducer(Communicator& communicator, RowCodec& codec, ErrorFeedback& feedback);
  // REQUIRES: the communicator's operations have ended, because they use this object's memory. To
  // ensure this, call Stop() and destroy the communicator.
  ~CompressedReducer();

  // Sums `values` (compressed) and `exact` (not compressed) in place, after all work that the
  // calling thread has queued. Called for the buckets 0, 1, … in each step, after
  // ErrorFeedback::Begin(). `exact` may be empty, on all ranks or on none. The memory must stay
  // valid and untouched until the work has ended or Stop() has returned. After the first failure,
  // all later calls fail with the same error, because the communicator is broken.
  WorkHandle Reduce(int bucket, std::span<float> values, std::span<float> exact, Deadline deadline);

  // Ends the thread within milliseconds, or, on a GPU, once the backward pass has ended. Aborts the
  // communicator if a step is being reduced. Unfinished work ends with kCancelled, and the caller's
  // memory is not accessed afterwards.
  void Stop();

 private:
  struct Task {
    int bucket = 0;
    std::span<float> values;
    std::span<float> exact;
    RowCodec::Mark computed;
    WorkHandle work;
  };
  // The memory of a bucket in progress. Gathered pieces overwrite the sent pieces, and the reduced
  // piece overwrites received pieces.
  struct Wire {
    RowMemory outgoing;
    RowMemory incoming;
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
  Result<void> AddMoved(const Task& task);
  Result<Travelling> Send(const Task& task);
  Result<void> SumAndGather(Travelling& bucket);
  Result<void> Receive(const Travelling& bucket);
  Result<void> Finish(const Task& task);
  void Fail(const Error& error);
  std::size_t SlotBytes(std::size_t count) const;
  std::span<std::byte> All(RowMemory& memory, std::size_t count);

  // Constant after construction.
  Communicator& communicator_;
  RowCodec& codec_;
  ErrorFeedback& feedback_;

  // Used by the thread. Up to three buckets are in progress: in all-to-all, sum and all-gather.
  std::array<Wire, 3> wires_;
  RowMemory sum_;
  std::optional<Travelling> exchanging_;
  std::optional<Travelling> gathering_;

  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> queue_ RINGMASTER_GUARDED_BY(mutex_);       // not started
  std::deque<Task> travelling_ RINGMASTER_GUARDED_BY(mutex_);  // started
  std::optional<Error> broken_ RINGMASTER_GUARDED_BY(mutex_);
  bool stopping_ RINGMASTER_GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // the last member, so it is destroyed first
};

// Reduces a rank's gradients in all of its worlds, and keeps the rounding errors of earlier steps.
// Not thread-safe.
class CompressedGradients final : public GradientReducer {
 public:
  // `gradients` is the number of gradients in each bucket. `codec` must outlive the object.
  CompressedGradients(RowCodec& codec, std::vector<std::size_t> gradients)
      : codec_(codec), feedback_(codec, std::move(gradients)) {}

  std::string EnterWorld(Communicator& communicator, const World& world,
                         const Adopted& adopted) override;
  void Stop() override;
  void LeaveWorld() override { reducer_.reset(); }
  void Begin(const StateVersion& version) override;
  WorkHandle Reduce(int bucket, Elements values, std::size_t exact, Deadline deadline) override;
  void Applied() override { feedback_.Applied(); }

 private:
  RowCodec& codec_;
  ErrorFeedback feedback_;
  int rank_ = 0;  // this rank's number in the world, which has `size_` ranks
  int size_ = 0;
  std::vector<std::string> members_;            // members of the previous world
  std::unique_ptr<CompressedReducer> reducer_;  // null: this rank is not in a world
};

// Returns null if `codec` is null, so that gradients are sent uncompressed.
std::unique_ptr<GradientReducer> MakeCompressedGradients(RowCodec* codec,
                                                         std::vector<std::size_t> gradients);

}  // namespace ringmaster::trainer
