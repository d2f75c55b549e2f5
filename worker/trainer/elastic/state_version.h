#pragma once

// The version of a rank's state and its origin. Plain values, compared by state_sync.h and stored
// in checkpoints and snapshots (checkpoint/).

#include <compare>
#include <cstdint>

#include "common/control/membership.h"

namespace ringmaster::trainer {

// The version of a rank's state: its last applied step, and the epoch that computed it. Versions
// are ordered by epoch, then by step. Epoch {0, 0} and step 0 are the initial state.
struct StateVersion {
  control::Epoch epoch;
  int64_t step = 0;

  friend auto operator<=>(const StateVersion&, const StateVersion&) = default;
};

// kOther: a checkpoint of another job, from which this job was configured to start.
enum class StateOrigin : int64_t { kStart, kCheckpoint, kSnapshot, kTraining, kOther };

// Returns the kind of saved state that was loaded; empty if none was, or if training has continued.
constexpr const char* NameOf(StateOrigin origin) {
  switch (origin) {
    case StateOrigin::kCheckpoint:
    case StateOrigin::kOther:
      return "checkpoint";
    case StateOrigin::kSnapshot:
      return "snapshot";
    case StateOrigin::kStart:
    case StateOrigin::kTraining:
      break;
  }
  return "";
}

// A run that starts from another run's checkpoint adds that checkpoint's term to its epochs' terms,
// so its versions are higher than all earlier ones, regardless of its launcher's terms.
struct LocalState {
  StateVersion version;
  int64_t term_base = 0;  // added to the term of a world's epoch
  StateOrigin origin = StateOrigin::kStart;
  bool last_step_skipped = false;  // because its gradients were not finite

  // Returns the version after the next step in a world of `epoch`.
  StateVersion Next(control::Epoch epoch) const {
    return {.epoch = {.term = term_base + epoch.term, .number = epoch.number},
            .step = version.step + 1};
  }
  // Returns the epoch of this run that computed the state; term 0 if another run computed it.
  control::Epoch EpochOfRun() const {
    return {.term = version.epoch.term - term_base, .number = version.epoch.number};
  }
  // Returns whether this run has computed a step of the state.
  bool TrainedHere() const { return version.step > 0 && version.epoch.term > term_base; }
};

// Returns whether `a` is used instead of `b`. A state that this job has trained or saved is used
// instead of another job's checkpoint, whatever their versions are.
inline bool Outranks(const LocalState& a, const LocalState& b) {
  const auto rank = [](const LocalState& held) {
    if (held.version == StateVersion{}) return 0;
    return held.origin == StateOrigin::kOther ? 1 : 2;
  };
  return rank(a) != rank(b) ? rank(a) > rank(b) : b.version < a.version;
}

}  // namespace ringmaster::trainer
