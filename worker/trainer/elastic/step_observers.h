#pragma once

// The interfaces through which the session reports worlds, steps and its current activity.
// Implemented by telemetry/. Observers do not affect the training.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/control/membership.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_sync.h"
#include "worker/trainer/numeric/share.h"

namespace ringmaster::trainer {

// A record of each step, with which an audit can prove that no step was lost. Only the session's
// thread may use it.
class StepAudit {
 public:
  virtual ~StepAudit() = default;

  // Returns whether steps are recorded. If not, the session does not compute checksums.
  virtual bool on() const = 0;
  // `residuals`: the result of GradientReducer::EnterWorld(); empty if gradients are not
  // compressed.
  virtual void Entered(const World& world, int64_t global_batch, const Adopted& adopted,
                       const std::string& residuals) = 0;
  // Called before any gradient of the step is sent.
  virtual void Begun(const World& world, int64_t step, Share samples) = 0;
  // Called after the update. `part`: checksum of the rank's share of the sharded state, if any.
  virtual void Applied(const World& world, int64_t step, Share samples, uint64_t checksum,
                       std::optional<uint64_t> part) = 0;
};

// Receives the position of this rank, which is used to find ranks that hang. This base class does
// nothing. Thread-safety: one thread, except WaitsFor(), ComesTo() and Counts().
class RankPosition {
 public:
  RankPosition() = default;
  virtual ~RankPosition() = default;
  RankPosition(const RankPosition&) = delete;
  RankPosition& operator=(const RankPosition&) = delete;

  // A new phase begins. `bucket` is the number of the bucket or piece for which the rank waits.
  virtual void Enter(control::RankPhase /*phase*/, int /*bucket*/ = 0) {}
  // The rank starts to enter this world. SetStep() sets the number of steps applied so far.
  virtual void EnterWorld(const control::Epoch& /*epoch*/) {}
  virtual void SetStep(int64_t /*steps*/) {}
  // A step was applied. `took` is its duration; `own` excludes the time spent waiting for others.
  virtual void Applied(int64_t /*steps*/, std::chrono::nanoseconds /*took*/,
                       std::chrono::nanoseconds /*own*/) {}
  // This rank waits for `peer`; -1: not for a particular rank. Callable on any thread.
  virtual void WaitsFor(int /*peer*/) {}
  // The rank has reached this stage of connecting to its next world. Callable on any thread.
  virtual void ComesTo(control::ConnectStage /*stage*/) {}
  // Reports how many collectives this rank has reached. Callable on any thread.
  virtual void Counts(const control::CollectiveCounts& /*counts*/) {}
};

// Receives the times at which collectives ran.
class CollectiveTrace {
 public:
  virtual ~CollectiveTrace() = default;

  // `name` has static storage; `bucket` is -1 for operations that do not reduce gradients.
  virtual void AddCollective(const char* name, std::chrono::steady_clock::time_point begin,
                             std::chrono::steady_clock::time_point end, int bucket,
                             std::size_t bytes) = 0;
};

}  // namespace ringmaster::trainer
