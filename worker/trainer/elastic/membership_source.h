#pragma once

// The interface through which a rank learns about worlds and reports its progress. The session uses
// it; the rest of the trainer does not depend on whether an agent or flags decide on membership.

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/result.h"
#include "common/control/kept_checkpoint.h"
#include "common/control/membership.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// Kinds of data that a rank may be unable to save or read (MembershipSource::Unprotected).
inline constexpr char kCheckpointProtection[] = "checkpoint";
inline constexpr char kSnapshotProtection[] = "snapshot";
inline constexpr char kCopyProtection[] = "copy";        // copy of a share of sharded state
inline constexpr char kRestoreProtection[] = "restore";  // no state can be read, so training waits

// A part of a checkpoint that this rank has written to the volume.
struct WrittenShard {
  int64_t step = 0;
  int32_t shard = 0;
  int64_t bytes = 0;
  std::string checksum{};  // hex checksum of the shard's data
};

// The state with which a world began, if none of its ranks had a state.
struct Beginning {
  StateVersion version;
  std::string text{};  // a message for users; empty if there is nothing to report
  std::optional<control::KeptCheckpoint> kept{};  // the job's newest checkpoint to resume from
};

// Not thread-safe, except that another thread may call the functions for checkpoints. Callbacks run
// on any thread.
class MembershipSource {
 public:
  virtual ~MembershipSource() = default;

  // Blocks, without a time limit, until this rank is in a world with a higher epoch than `after`.
  // The first call reports that the rank has loaded and is ready. kNotFound: there will not be
  // another world. kUnavailable: the source is closed.
  virtual Result<World> AwaitWorld(control::Epoch after) = 0;
  // After AwaitWorld() returned kNotFound: returns whether this rank has finished all its work
  // (world_sources/static/replay_membership.h).
  virtual bool Done() const { return false; }

  // Calls `over` once, with the reason, when `epoch` is abandoned or followed by a higher one, or
  // when this source is closed; immediately if that has already happened. Only one watch at a time.
  using OverCallback = std::function<void(const std::string& reason)>;
  virtual void Watch(control::Epoch epoch, OverCallback over) = 0;
  // When Unwatch() returns, the callback is not running and will not be called again.
  virtual void Unwatch() = 0;

  // Returns whether the ranks of `epoch` must leave it together after the next step, `step`.
  virtual bool SwitchWanted(control::Epoch epoch, int64_t step) = 0;
  // Returns whether this rank is known not to be in the next world. Data that only this rank has
  // must then be handed over before the ranks leave `epoch` at a boundary.
  virtual bool Leaving(control::Epoch /*epoch*/) { return false; }

  // Returns whether the ranks of `epoch` should write an additional checkpoint of the next step.
  // Called on rank 0; returns true once.
  virtual bool CheckpointWanted(control::Epoch /*epoch*/) { return false; }

  // Reports that the world cannot continue because of a peer (-1: unknown). Does not block.
  virtual void Broken(const World& world, int peer, const std::string& reason) = 0;
  // Reports that this rank left the world after `step` because of SwitchWanted(), and now waits.
  virtual void AtBoundary(const World& world, int64_t step) = 0;
  // Reports committed progress; called on rank 0. May drop reports that are too frequent.
  virtual void Report(const World& world, const control::Progress& progress) = 0;

  // Reports that the last step is done. Blocks until all ranks of the world may exit (returns true)
  // or another world follows (returns false). Calls AtBoundary() if a switch is wanted.
  virtual Result<bool> Finish(const World& world, const control::Progress& progress) = 0;

  // Blocks until this source grants the checkpoint: this rank must be in the current world and not
  // fenced. Continues to wait if the world changes. kCancelled: `stop` was requested.
  virtual Result<void> AwaitGrant(const WrittenShard& /*shard*/, const std::stop_token& /*stop*/) {
    return {};
  }
  // Reports that the last granted checkpoint, which is of this step, is complete. `bytes` is the
  // total size of the checkpoints that are kept.
  virtual void CheckpointComplete(int64_t /*step*/, int64_t /*bytes*/) {}
  // Reports the state with which the world began. Called on rank 0, if there is a text for users or
  // a kept checkpoint.
  virtual void Began(const World& /*world*/, const Beginning& /*beginning*/) {}
  // Reports that the state contains no step of this job. Called before Finish().
  virtual void NothingTrained() {}
  // Reports why `what` cannot be saved or read now. An empty reason means that the fault is over.
  virtual void Unprotected(const std::string& /*what*/, const std::string& /*reason*/) {}
};

}  // namespace ringmaster::trainer
