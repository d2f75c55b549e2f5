#pragma once

// Moves a rank from one world to the next: waits for a world, connects its ranks, synchronises
// their state, and leaves the world when it has ended. The session (elastic_torch/) uses it and
// runs the steps in between.

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/session_options.h"
#include "worker/trainer/elastic/state_sync.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// Why there will not be another world.
enum class SessionEnd {
  kNone,      // another world may follow, or an error ended the rank
  kPeerLost,  // the last world lost a rank
  kDone,      // this rank has finished
};

// Returns the pause after this number of polls. The pause grows, but stays far below `timeout`,
// after which other ranks consider this rank lost.
std::chrono::milliseconds PauseAfter(int looks, std::chrono::milliseconds timeout);

// Not thread-safe. If a world is abandoned, a thread of the membership source aborts the
// communicator. That thread accesses nothing else.
class WorldEntry {
 public:
  // `options.position` must not be null. Arguments and state memory must outlive the object.
  WorldEntry(MembershipSource& membership, CommunicatorFactory make_communicator,
             TrainableState state, StepAudit& audit, const Clock& clock,
             const SessionOptions& options);
  ~WorldEntry() { Close(); }
  WorldEntry(const WorldEntry&) = delete;
  WorldEntry& operator=(const WorldEntry&) = delete;

  // Loads saved state, then blocks until this rank is in a world, like Next().
  Result<void> Join();
  // Blocks, without a time limit, until this rank is in a new world whose ranks have the same
  // state. `cause`: why this rank is not in a world. After an error, no world follows; see end().
  Result<void> Next(const Error& cause);

  // Leaves the world because of `cause`; reports it, unless the membership source ended the world.
  void Leave(const Error& cause);
  // Leaves the world together with all its ranks, after the last applied step.
  void LeaveAtBoundary();

  // Call when the current step was applied. `excluded`: the step had no update.
  void Advance(bool excluded);

  // REQUIRES, for all functions below: this rank is or was in a world.
  const World& world() const { return world_; }
  Communicator& communicator() { return *communicator_; }
  const LocalState& local() const { return local_; }
  // Returns the state from which training resumed in this world, if no rank had one in memory.
  const std::optional<LocalState>& resumed() const { return resumed_; }
  Deadline StepDeadline() const { return clock_.Now() + options_.timeout; }
  // Returns a function that checks whether the current world has ended. Callable on any thread.
  std::function<bool()> WorldOver() const;
  SessionEnd end() const { return end_; }

 private:
  Result<void> Enter();
  Result<Adopted> Sync();
  Result<Adopted> SyncReplicated();
  Result<ShardedOutcome> SyncSharded();
  Result<Adopted> RollBack(std::string lost);
  Result<LocalState> LookAgain(const LocalState& local);
  Result<void> KeepOther();
  void ReportBeginning();
  void ReportUnreadable(const std::string& reason);
  void Pause(int attempt);
  void Close();

  MembershipSource& membership_;
  const CommunicatorFactory make_communicator_;
  const TrainableState state_;
  StepAudit& audit_;
  const Clock& clock_;
  const SessionOptions& options_;
  RankPosition& position_;

  World world_;
  LocalState local_;
  std::optional<LocalState> resumed_;
  bool unreadable_ = false;  // whether it was reported that saved state is unreadable
  SessionEnd end_ = SessionEnd::kNone;
  // Whether the world has ended. A thread of the membership source sets it.
  std::shared_ptr<std::atomic<bool>> world_over_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<StateSync> sync_;             // its memory must outlive the operations on it
  std::array<float, 2> kept_{};                 // the same applies to the sums of KeepOther()
  std::unique_ptr<Communicator> communicator_;  // null: this rank is not in a world
};

}  // namespace ringmaster::trainer
