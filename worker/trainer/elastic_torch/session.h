#pragma once

// The elastic step, and the only place that knows a world can change. A step begins, its gradients
// are reduced bucket by bucket while backward runs, and only when every bucket is known good may
// the caller update the parameters and say so:
//
//   session.Join();                        // wait for a world, connect, come to one state
//   while (session.applied_steps() < total) {
//     session.Begin();
//     ... forward ...;  session.SetLoss(loss_sum);  ... backward ...   // may use collectives()
//     auto step = session.Reduce();        // gradients are now means over the global batch
//     if (!step.ok()) return step.error();
//     if (!*step) continue;                // the step did not happen; another world goes on
//     optimizer.Step(...);  session.Applied(progress);
//   }
//
// When the world changes, calls that take part in it wait for the next world, without a time limit,
// connect and level (elastic/levelling.h) before they return; applied_steps(), world() and share()
// may then be others. Gradients may travel compressed (compression/). Errors are final: the rank
// should end. Knows nothing of workloads or flags. Nothing here throws.
//
// Sources: session.cc (the steps within a world), session_worlds.cc (one world after another).

#include <atomic>
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
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/compression/compressed_reducer.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/elastic/levelling.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/sharded_state.h"
#include "worker/trainer/elastic/state_mirror.h"
#include "worker/trainer/elastic/step_collectives.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/telemetry/position.h"
#include "worker/trainer/telemetry/timeline.h"

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
  StateKeeper* keeper = nullptr;    // outlives the session; null: the state is kept nowhere else
  ShardedState* sharded = nullptr;  // outlives the session; null: all state is replicated
  Timeline* timeline = nullptr;     // outlives the session; null: no timeline
  // Outlives the session; null: gradients travel as they are, as averages and scalars always do.
  RowCodec* codec = nullptr;
  StateMirror* mirror = nullptr;  // outlives the session; null: the state is in host memory
};

struct StepResult {
  double loss = 0;                        // mean over the global batch
  bool finite = true;                     // the loss, and all gradients; the same on every rank
  std::chrono::nanoseconds waited{0};     // for collectives that computing did not hide
  std::chrono::nanoseconds networked{0};  // all collectives' time, hidden or not
};

// Whose own gradient of which parameter is no finite number, before ranks add theirs up.
struct NotFinite {
  int rank = -1;       // the lowest; -1: nobody's, their sum alone is too large
  int parameter = -1;  // in the buckets' order of parameters
  int ranks = 0;       // how many have such a gradient
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
  // What computing the step may ask of the other ranks, from Begin() to Reduce(). After an error of
  // it, Reduce() is the next call.
  StepCollectives& collectives() { return collectives_; }
  // Whether a collective has failed since Begin(): Reduce() will say that the step did not happen.
  bool step_broken() const { return step_error_.has_value(); }
  // The sum of this rank's samples' losses; before backward, as it travels with the last bucket.
  void SetLoss(double sum);
  // The same, from a tensor of one on any device: nothing waits for its value.
  void SetLoss(const at::Tensor& sum);
  // Nothing: the step did not happen, the state is untouched or another rank's newer one.
  Result<std::optional<StepResult>> Reduce();
  // After a step that is not finite, on every rank: `compute` runs forward and backward once more,
  // and its gradients stay this rank's own. Nothing: this is another world.
  Result<std::optional<NotFinite>> FindNotFinite(const std::function<Result<void>()>& compute);
  // The update of the reduced step is done, or was left out on every rank. Leaves the world here
  // when all its ranks were asked to. `progress` is reported once the step is committed.
  Result<void> Applied(const control::Progress& progress);

  // Sums `values` over the ranks, in place; between steps, on every rank. False: it did not happen,
  // and this is another world.
  Result<bool> Sum(std::span<float> values);

  // After the last step, on every rank: true when all of them may end. False: this is another
  // world, in which the state may be measured again.
  Result<bool> Finish(const control::Progress& progress);

 private:
  class Collectives final : public StepCollectives {
   public:
    explicit Collectives(Session& session) : session_(session) {}
    int rank() const override { return session_.world_.rank; }
    int size() const override { return session_.world_.size; }
    Result<void> AllReduce(Elements values, ReduceOp op) override;
    Result<void> ReduceScatter(Elements all, Elements mine, ReduceOp op) override;
    Result<void> AllGather(std::span<const std::byte> mine, std::span<std::byte> all) override;
    Result<void> AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                          std::span<std::byte> receive,
                          std::vector<std::size_t> receive_bytes) override;

   private:
    Session& session_;
  };

  Deadline StepDeadline() const { return clock_.Now() + options_.timeout; }
  Result<void> EnterNext(const Error& cause);
  Result<void> Enter();
  Result<Adopted> Level();
  Result<HeldState> LookAgain(const HeldState& held);
  Result<void> KeepOther();
  void TellBeginning();
  void TellUnreadable(const std::string& reason);
  void Pause(int attempt);
  Result<Adopted> LevelReplicated();
  Result<ShardedOutcome> LevelSharded();
  Result<Adopted> GoBack(std::string lost);
  template <typename Nothing>
  Result<Nothing> GoOn(const Error& cause, Nothing nothing);
  void Leave(const Error& cause);
  void CloseWorld();
  void Committed(control::RankPhase phase);
  Result<bool> FinishParts();
  Result<void> Await(const WorkHandle& work, const char* what, std::size_t bytes, int bucket = -1);
  Result<void> Confirm();
  Result<void> Collect(const WorkHandle& work, const char* what, std::size_t bytes);
  WorkHandle ReduceBucket(int index);
  void EnterCompression(const Adopted& adopted);
  std::function<bool()> WorldOver() const;

  MembershipSource& membership_;
  const CommunicatorFactory make_communicator_;
  Buckets& buckets_;
  const TrainableState state_;
  AuditLog& audit_;
  const Clock& clock_;
  const SessionOptions options_;
  const std::shared_ptr<Position> position_;

  World world_;
  // The membership's thread tells; shared with it.
  std::shared_ptr<std::atomic<bool>> world_over_ = std::make_shared<std::atomic<bool>>(false);
  HeldState held_;
  std::optional<HeldState> resumed_;
  Collectives collectives_{*this};
  Deadline deadline_{};            // of the step under way, with all below
  std::vector<WorkHandle> works_;  // the buckets' reductions
  bool all_began_ = false;         // every rank is known to have begun it
  std::chrono::nanoseconds networked_{0};
  std::chrono::nanoseconds waited_{0};        // for collectives
  std::optional<Error> step_error_;           // of the first that failed
  std::optional<StateVersion> part_written_;  // of the checkpoint that this rank says it of
  bool finite_ = true;                        // what it reduced
  bool switching_ = false;                    // all ranks leave this world after the step under way
  bool checkpoint_wanted_ = false;            // of the step under way, out of turn
  bool unreadable_ = false;                   // it was said that what is kept cannot be read
  // Of a step that this world applied and nobody has been told of.
  std::optional<control::Progress> unreported_;
  // Where gradients are compressed.
  std::optional<ErrorFeedback> feedback_;
  std::vector<std::string> members_;            // of the last world
  std::unique_ptr<CompressedReducer> reducer_;  // outlives the communicator that it works on
  std::unique_ptr<Levelling> levelling_;        // its memory outlives what works on it
  std::unique_ptr<Communicator> communicator_;  // null: in no world
};

}  // namespace ringmaster::trainer
