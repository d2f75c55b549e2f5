#pragma once

// Reduces one step at a time over the ranks of a world: the gradients bucket by bucket while
// backward runs, and the loss and the ranks' votes with the last bucket. Also runs the collectives
// of the step's computation. Used by the session; it does not handle changes of the world.

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/control/membership.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/elastic/session_options.h"
#include "worker/trainer/elastic/step_collectives.h"
#include "worker/trainer/elastic_torch/buckets.h"

namespace ringmaster::trainer {

struct StepResult {
  double loss = 0;                        // the mean over the global batch
  bool finite = true;                     // whether the reduced loss and gradients are finite
  std::chrono::nanoseconds waited{0};     // time of collectives that did not overlap computation
  std::chrono::nanoseconds networked{0};  // duration of all collectives, including the overlap
};

// The first rank and parameter with a gradient that is not finite, before gradients are summed.
struct NotFinite {
  int rank = -1;       // the lowest such rank; -1: none, because only the sum is too large
  int parameter = -1;  // index in the list of parameters with which Buckets was created
  int ranks = 0;       // number of ranks with such a gradient
};

// The values that a rank adds to the last bucket of a step, and their sums over all ranks.
struct StepVotes {
  float leave = 0;       // the ranks must leave the world after the step
  float parts = 0;       // 1: the rank's part of a checkpoint is on disk; < 0: it failed
  float checkpoint = 0;  // an extra checkpoint is requested
  float snapshot = 0;    // a snapshot is due on the rank's worker
};

struct ReducedStep {
  StepResult result;
  StepVotes votes;
};

// Not thread-safe.
class StepReducer final : private StepCollectives {
 public:
  // Called when all ranks are known to have begun the step, and thus to have applied the previous
  // one. `next` is the phase that this rank enters next.
  using Committed = std::function<void(control::RankPhase next)>;

  // `options.position` must not be null. The references must outlive the object.
  StepReducer(Buckets& buckets, const Clock& clock, const SessionOptions& options,
              Committed committed);

  // REQUIRES: `communicator` exists until the next call of Begin(), or until Reduce() has failed.
  void Begin(Communicator& communicator, Deadline deadline, const StepVotes& votes);
  void ExpectAnotherBackward() { buckets_.ExpectAnotherBackward(); }
  StepCollectives& collectives() { return *this; }
  bool broken() const { return error_.has_value(); }
  void SetLoss(double sum);
  void SetLoss(const at::Tensor& sum);
  // An error means that the step had no effect and the communicator is broken.
  Result<ReducedStep> Reduce();
  // See Session::FindNotFinite(). Returns the communicator's error if broken(), otherwise that of
  // `compute`.
  Result<NotFinite> FindNotFinite(Deadline deadline, const std::function<Result<void>()>& compute);

 private:
  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  Result<void> AllReduce(Elements values, ReduceOp op) override;
  Result<void> ReduceScatter(Elements all, Elements mine, ReduceOp op) override;
  Result<void> AllGather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Result<void> AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                        std::span<std::byte> receive,
                        std::vector<std::size_t> receive_bytes) override;

  WorkHandle ReduceBucket(int index);
  Result<void> Await(const WorkHandle& work, const char* what, std::size_t bytes, int bucket = -1);
  Result<void> AwaitConfirmed(const WorkHandle& confirmation);
  Result<void> Collect(const WorkHandle& work, const char* what, std::size_t bytes);

  Buckets& buckets_;
  const Clock& clock_;
  const SessionOptions& options_;
  RankPosition& position_;
  const Committed committed_;

  // State of the current step.
  Communicator* communicator_ = nullptr;
  Deadline deadline_{};
  std::vector<WorkHandle> works_;  // reductions of the buckets
  bool all_began_ = false;         // whether every rank is known to have begun the step
  std::chrono::nanoseconds networked_{0};
  std::chrono::nanoseconds waited_{0};
  std::optional<Error> error_;  // error of the first collective that failed
  // Memory of FindNotFinite(). A failed collective may use this memory until the communicator
  // is closed.
  int32_t own_not_finite_ = -1;
  std::vector<int32_t> all_not_finite_;
};

}  // namespace ringmaster::trainer
