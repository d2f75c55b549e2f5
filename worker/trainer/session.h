#pragma once

// The elastic step, and the only place that knows a world can change. A step begins, its gradients
// are reduced bucket by bucket while backward runs, and only when every bucket is known good may
// the caller update the parameters and say so:
//
//   session.Join();                        // wait for a world, connect, come to one state
//   while (session.applied_steps() < total) {
//     session.Begin();
//     ... forward ...;  session.SetLoss(loss_sum);  ... backward ...
//     auto step = session.Reduce();        // gradients are now means over the global batch
//     if (!step.ok()) return step.error();
//     if (!*step) continue;                // the step did not happen; another world goes on
//     optimizer.Step(...);  session.Applied(progress);
//   }
//
// When the world changes, calls that take part in it wait for the next world, without a time limit,
// connect and level (levelling.h) before they return; applied_steps(), world() and share() may then
// be others. Errors are final: the rank should end. Knows nothing of workloads or flags. Nothing
// here throws.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/audit_log.h"
#include "worker/trainer/buckets.h"
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/communicator.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/levelling.h"
#include "worker/trainer/membership_source.h"
#include "worker/trainer/position.h"

namespace ringmaster::trainer {

// Error::reason of a rank that lost another one in a world that never changes.
inline constexpr char kPeerLost[] = "PeerLost";

struct SessionOptions {
  int64_t global_batch = 1;
  std::chrono::milliseconds timeout{30'000};  // for connecting, and for each step's reductions
  // Of everything besides the state that must be the same on all ranks: flags, data, versions.
  uint64_t fingerprint = 0;
  std::function<void(const World& world)>
      entered{};                         // called for each world, before its first step
  std::shared_ptr<Position> position{};  // where this rank says where it stands; null: nowhere
  StateKeeper* keeper = nullptr;  // outlives the session; null: the state is kept nowhere else
};

struct StepResult {
  double loss = 0;                     // mean over the global batch
  std::chrono::nanoseconds waited{0};  // for reductions that backward did not hide
};

// Thread-safety: one thread. A world that is given up meanwhile is aborted from the membership's
// thread, which touches nothing but the communicator.
class Session {
 public:
  // `state` is all that training changes, the buckets' parameters included. The references, and the
  // state's memory, outlive the session.
  Session(MembershipSource& membership, CommunicatorFactory make_communicator, Buckets& buckets,
          TrainableState state, AuditLog& audit, const Clock& clock, SessionOptions options);
  ~Session();

  // Blocks until this rank is in a world, connected to all others, and all have the same state
  // (kInvalid names a rank that differs).
  Result<void> Join();

  // REQUIRES, for all below: Join() succeeded.
  const World& world() const { return world_; }
  Share share() const { return ShareOf(world_.rank, world_.size, options_.global_batch); }
  int64_t applied_steps() const { return held_.version.step; }
  // What training went on from in this world, where that was no rank's memory: empty otherwise.
  const std::optional<HeldState>& resumed() const { return resumed_; }

  // For the phases of a step that the session does not see: data, computing, update, evaluation.
  Position& position() { return *position_; }

  void Begin();
  // The sum of this rank's samples' losses; before backward, as it travels with the last bucket.
  void SetLoss(double sum);
  // Nothing: the step did not happen, the state is untouched or another rank's newer one.
  Result<std::optional<StepResult>> Reduce();
  // The update of the reduced step is done. Leaves the world here when all its ranks were asked to.
  // `progress` is reported once the step is committed.
  Result<void> Applied(const control::Progress& progress);

  // Sums `values` over the ranks, in place; between steps, on every rank. False: it did not happen,
  // and this is another world.
  Result<bool> Sum(std::span<float> values);

  // After the last step, on every rank: true when all of them may end. False: this is another
  // world, in which the state may be measured again.
  Result<bool> Finish(const control::Progress& progress);

 private:
  Deadline StepDeadline() const { return clock_.Now() + options_.timeout; }
  Result<void> EnterNext(const Error& cause);
  Result<void> Enter();
  Result<void> Recover(const Error& cause);
  void Leave(const Error& cause);
  void CloseWorld();
  void Committed();

  MembershipSource& membership_;
  const CommunicatorFactory make_communicator_;
  Buckets& buckets_;
  const TrainableState state_;
  AuditLog& audit_;
  const Clock& clock_;
  const SessionOptions options_;
  const std::shared_ptr<Position> position_;

  World world_;
  HeldState held_;
  std::optional<HeldState> resumed_;
  std::vector<WorkHandle> works_;  // of the step under way
  bool switching_ = false;         // all ranks leave this world after the step under way
  // Of a step that this world applied and nobody has been told of.
  std::optional<control::Progress> unreported_;
  std::unique_ptr<Communicator> communicator_;  // null: in no world
};

}  // namespace ringmaster::trainer
