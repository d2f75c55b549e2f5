#pragma once

// Records each applied step immediately. Reports and saves a step once it is committed, that is,
// when every rank is known to have applied it. Used by the session.

#include <optional>

#include "common/control/membership.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/session_options.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// Not thread-safe.
class CommitLog {
 public:
  // `options.position` must not be null. Arguments and state memory must outlive the object.
  CommitLog(MembershipSource& membership, TrainableState state, StepAudit& audit,
            const SessionOptions& options);

  // Call when a world begins. Steps of the previous world are no longer reported.
  void EnterWorld();
  // Call when a step was applied. `local` is this rank's newest state. `progress` is reported once
  // the step is committed. `snapshot`: all workers make a snapshot of this step.
  void Applied(const World& world, const LocalState& local, Share samples,
               const control::Progress& progress, bool snapshot);
  // Call when a collective has completed, which shows that every rank has applied the previous
  // step. `next` is the phase that follows.
  void Committed(const World& world, const LocalState& local, control::RankPhase next);
  // If `wanted`, saves the current step once it is committed, even if no checkpoint is due.
  void SetCheckpointRequested(bool wanted) { checkpoint_wanted_ = wanted; }

 private:
  MembershipSource& membership_;
  const TrainableState state_;
  StepAudit& audit_;
  const SessionOptions& options_;
  RankPosition& position_;

  std::optional<control::Progress> unreported_;  // progress of a step that this world applied
  bool checkpoint_wanted_ = false;
};

}  // namespace ringmaster::trainer
