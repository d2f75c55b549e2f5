#pragma once

// Runs elastic steps. A step's gradients are reduced bucket by bucket while backward runs, and the
// caller may update the parameters only when every bucket is known to be valid:
//
//   session.Join();                        // wait for a world, connect, synchronise the state
//   while (session.applied_steps() < total) {
//     session.Begin();
//     ... forward ...;  session.SetLoss(loss_sum);  ... backward ...   // may use collectives()
//     auto step = session.Reduce();        // gradients are now means over the global batch
//     if (step.failed()) return step.error();
//     if (step.world_changed()) continue;  // the step had no effect; this is another world
//     optimizer.Step(...);  session.Applied(progress);
//   }
//
// When the world changes, the calls above wait for the next world without a time limit, connect and
// synchronise the state (elastic/state_sync.h) before they return; applied_steps(), world() and
// share() may change meanwhile. Errors are final: the rank should exit. The session does not depend
// on workloads or flags, and uses checkpoints, compression and telemetry only through the
// interfaces in elastic/. No function throws.
//
// Parts of the session: WorldEntry moves between worlds, StepReducer reduces a step, CommitLog
// records and reports applied steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/control/membership.h"
#include "worker/trainer/elastic/commit_log.h"
#include "worker/trainer/elastic/session_options.h"
#include "worker/trainer/elastic/world_entry.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/elastic_torch/step_reducer.h"

namespace ringmaster::trainer {

// The call had no effect, and the session is in another world now.
struct WorldChanged {};

// The call took effect on every rank.
struct Done {};

// The outcome of a call that all ranks of a world make: a result (the call succeeded on all of
// them), a change of the world, or an error that ended this rank's session.
template <typename T = Done>
class [[nodiscard]] Outcome {
 public:
  Outcome(T result) : what_(std::move(result)) {}
  Outcome(WorldChanged changed) : what_(changed) {}
  Outcome(Error error) : what_(std::move(error)) {}

  bool happened() const { return std::holds_alternative<T>(what_); }
  bool world_changed() const { return std::holds_alternative<WorldChanged>(what_); }
  bool failed() const { return std::holds_alternative<Error>(what_); }

  // REQUIRES: happened().
  const T& operator*() const { return std::get<T>(what_); }
  const T* operator->() const { return &std::get<T>(what_); }
  // REQUIRES: failed().
  const Error& error() const { return std::get<Error>(what_); }

 private:
  std::variant<T, WorldChanged, Error> what_;
};

// Not thread-safe.
class Session {
 public:
  // `state` is all data that training changes, including the buckets' parameters. The references
  // and the state's memory must outlive the session.
  Session(MembershipSource& membership, CommunicatorFactory make_communicator, Buckets& buckets,
          TrainableState state, StepAudit& audit, const Clock& clock, SessionOptions options);

  // Blocks until this rank is in a world and connected to all others, and all ranks have the same
  // state. kInvalid: ranks differ in flags or state; the message names two of them.
  Result<void> Join() { return worlds_.Join(); }
  // Returns why there will not be another world. Call it after another call has failed.
  SessionEnd end() const { return worlds_.end(); }

  // REQUIRES, for all functions below: Join() succeeded.
  const World& world() const { return worlds_.world(); }
  Share share() const { return ShareOf(world().rank, world().size, options_.global_batch); }
  // The largest number of samples that a rank computes at once.
  int64_t micro_batch() const;
  MicroBatches micro_batches() const { return {share(), micro_batch()}; }
  int64_t applied_steps() const { return worlds_.local().version.step; }
  // The saved state from which this world resumed; empty if a rank had a state in memory.
  const std::optional<LocalState>& resumed() const { return worlds_.resumed(); }

  // Use it to report phases outside of the session: data, computation, update and evaluation.
  RankPosition& position() { return *options_.position; }

  void Begin();
  // Call it after Begin(), before each backward pass of the step except the last one. Gradients are
  // added up, and are reduced during the last backward pass.
  void ExpectAnotherBackward() { step_.ExpectAnotherBackward(); }
  // Returns the collectives that the computation of a step may use between Begin() and Reduce().
  // If a collective fails, call Reduce() next.
  StepCollectives& collectives() { return step_.collectives(); }
  // Returns whether a collective has failed since Begin(); Reduce() then returns WorldChanged.
  bool step_broken() const { return step_.broken(); }
  // Sets the sum of the losses of this rank's samples. Call it before the last backward, because
  // the sum is sent with the last bucket.
  void SetLoss(double sum) { step_.SetLoss(sum); }
  // Like SetLoss(double), but reads a tensor with one element, without waiting for its device.
  void SetLoss(const at::Tensor& sum) { step_.SetLoss(sum); }
  // WorldChanged: the step had no effect; the state is unchanged or was received from another rank.
  Outcome<StepResult> Reduce();
  // Call it on every rank after a step with NaN or infinite values. `compute` runs forward and
  // backward again, and its gradients are not reduced.
  Outcome<NotFinite> FindNotFinite(const std::function<Result<void>()>& compute);
  // Call it after the update of the reduced step, or after all ranks skipped the update. Leaves the
  // world if all its ranks were asked to leave. `progress` is reported once the step is committed.
  Result<void> Applied(const control::Progress& progress);

  // Sums `values` over the ranks, in place. Call it between steps, on every rank.
  Outcome<> Sum(std::span<float> values);

  // Call it on every rank after the last step. Done: all ranks may exit. WorldChanged: the caller
  // may have to evaluate the state again.
  Outcome<> Finish(const control::Progress& progress);

 private:
  // Enters the next world after `cause` ended this one.
  Result<void> EnterNext(const Error& cause);
  template <typename T>
  Outcome<T> Change(const Error& cause);
  void Committed(control::RankPhase next);
  Outcome<> FinishParts();

  MembershipSource& membership_;
  StepAudit& audit_;
  const SessionOptions options_;

  WorldEntry worlds_;
  CommitLog commits_;
  StepReducer step_;
  std::optional<StateVersion> part_written_;  // checkpoint part that this rank reported in the step
  bool finite_ = true;                        // whether the step's loss and gradients are finite
  bool leaving_ = false;                      // whether all ranks leave this world after the step
  bool snapshot_ = false;                     // whether all workers write a snapshot of the step
};

}  // namespace ringmaster::trainer
