#pragma once

// The version of a rank's state and its origin. Plain values, compared by state_sync.h and stored
// in checkpoints and snapshots (checkpoint/).

#include <compare>
#include <cstdint>

#include "common/control/membership.h"

namespace ringmaster::trainer {

// The version of a rank's state: its last applied step, and the epoch that computed it. A step of a
// higher epoch wins over any of a lower one. {0, 0} and 0: the initial state.
struct StateVersion {
  control::Epoch epoch;
  int64_t step = 0;

  friend auto operator<=>(const StateVersion&, const StateVersion&) = default;
};

// kOther: the checkpoint of another job, as one was told to begin with.
enum class StateOrigin : int64_t { kStart, kCheckpoint, kSnapshot, kTraining, kOther };

// Empty for a state that was trained on without a break, or never.
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

// A run that starts from another run's checkpoint counts its terms from those of that run, so its
// versions are higher than all earlier ones, whatever the term of its own launcher.
struct LocalState {
  StateVersion version;
  int64_t term_base = 0;  // added to the term of a world's epoch
  StateOrigin origin = StateOrigin::kStart;
  bool left_out = false;  // the last step changed nothing, as its gradients were not finite numbers

  // The version after the next step in a world of `epoch`.
  StateVersion Next(control::Epoch epoch) const {
    return {.epoch = {.term = term_base + epoch.term, .number = epoch.number},
            .step = version.step + 1};
  }
  // The epoch of this run that computed the state; of term 0 if another run did.
  control::Epoch EpochOfRun() const {
    return {.term = version.epoch.term - term_base, .number = version.epoch.number};
  }
  // Whether any of its steps is this run's.
  bool TrainedHere() const { return version.step > 0 && version.epoch.term > term_base; }
};

// Whether `a` is taken over rather than `b`: what this job has trained or kept wins over what it
// could begin with, whatever the versions.
inline bool Outranks(const LocalState& a, const LocalState& b) {
  const auto rank = [](const LocalState& held) {
    if (held.version == StateVersion{}) return 0;
    return held.origin == StateOrigin::kOther ? 1 : 2;
  };
  return rank(a) != rank(b) ? rank(a) > rank(b) : b.version < a.version;
}

}  // namespace ringmaster::trainer
