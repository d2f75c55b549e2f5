#pragma once

// The elastic step, and the only place that knows a world can change. A step begins, its gradients
// are reduced bucket by bucket while backward runs, and only when every bucket is known good may
// the caller update the parameters and commit:
//
//   session.Join();                                  // wait for a world, connect, check that all
//   ranks agree for (...) {
//     session.Begin();
//     ... forward ...;  session.SetLoss(loss_sum);  ... backward ...
//     auto step = session.Reduce();                  // gradients are now means over the global
//     batch if (!step.ok()) return step.error();           // parameters are untouched: the step
//     did not happen optimizer.Step(...);  session.Commit();
//   }
//   session.Finish(...);
//
// Knows nothing of workloads or flags. Nothing here throws.

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/buckets.h"
#include "worker/trainer/communicator.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/membership_source.h"

namespace ringmaster::trainer {

struct SessionOptions {
  int64_t global_batch = 1;
  std::chrono::milliseconds timeout{30'000};  // for connecting, and for each step's reductions
  // Of everything besides the parameters that must be the same on all ranks: flags, data, versions.
  uint64_t fingerprint = 0;
};

struct StepResult {
  double loss = 0;                     // mean over the global batch
  std::chrono::nanoseconds waited{0};  // for reductions that backward did not hide
};

// Thread-safety: one thread.
class Session {
 public:
  // The references outlive the session.
  Session(MembershipSource& membership, CommunicatorFactory make_communicator, Buckets& buckets,
          const Clock& clock, const SessionOptions& options);
  ~Session();

  // Blocks until there is a world, this rank is connected to all others, and all have the same
  // parameters and fingerprint (kInvalid names a rank that differs).
  Result<void> Join();

  // REQUIRES, for all below: Join() succeeded.
  const World& world() const { return world_; }
  Share share() const { return ShareOf(world_.rank, world_.size, options_.global_batch); }
  int64_t committed_steps() const { return committed_; }

  void Begin();
  // The sum of this rank's samples' losses; before backward, as it travels with the last bucket.
  void SetLoss(double sum);
  Result<StepResult> Reduce();
  void Commit() { ++committed_; }

  // Sums `values` over the ranks, in place; between steps, on every rank.
  Result<void> Sum(std::span<float> values);

  // Committed progress for whoever watches; kept only on rank 0.
  void Report(const control::Progress& progress);

  // After the last step, on every rank: returns when all of them may end.
  Result<void> Finish(const control::Progress& progress);

 private:
  Deadline StepDeadline() const { return clock_.Now() + options_.timeout; }
  Result<void> CheckAgreement(Deadline deadline);
  Error Broken(const Error& error);

  MembershipSource& membership_;
  const CommunicatorFactory make_communicator_;
  Buckets& buckets_;
  const Clock& clock_;
  const SessionOptions options_;

  World world_;
  std::vector<WorkHandle> works_;  // of the step under way
  int64_t committed_ = 0;
  std::unique_ptr<Communicator> communicator_;  // ends before what it works on
};

}  // namespace ringmaster::trainer
