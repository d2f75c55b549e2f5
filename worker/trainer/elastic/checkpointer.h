#pragma once

// Saves the training state outside of the process and restores it. The session reports steps and
// worlds to a Checkpointer; checkpoint/ implements it.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/control/kept_checkpoint.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// Only the session's thread may use it.
class Checkpointer {
 public:
  virtual ~Checkpointer() = default;

  // Loads the newest saved state above `local` into the state's memory, and returns the resulting
  // state. Returns quickly if there is none. `to_begin`: no rank of the world has trained; a job
  // without saved state may then load the state of another job that its spec names. kInvalid, with
  // a message: there are checkpoints, and this rank must not start without them (another model, a
  // newer format, all damaged). kUnavailable: they cannot be read now.
  virtual Result<LocalState> Restore(const LocalState& local, bool to_begin) = 0;
  // Returns the result of the last Restore() with `to_begin`, if it must be reported.
  virtual const std::optional<Beginning>& beginning() const = 0;

  // Returns this job's newest complete checkpoint up to a version, except damaged ones; empty if
  // there is none or it cannot be read now.
  virtual std::optional<control::KeptCheckpoint> NewestKept(const StateVersion& up_to) const = 0;

  // Saves another job's state, with which this world begins, as a checkpoint of this job. Called on
  // every rank repeatedly, until it returns true on rank 0.
  virtual bool KeepOther(const World& world, const LocalState& local) = 0;
  // Call if the version that Restore() found lacks data, which Restore() does not check. Later
  // calls of Restore() skip this version.
  virtual void Distrust(const StateVersion& version, const std::string& reason) = 0;

  // Returns whether a snapshot of the next step is due. If one is due on all workers, each worker's
  // first rank makes it. Ranks wait for each other, so snapshots of different steps would delay the
  // world once for each snapshot.
  virtual bool SnapshotDue() const = 0;
  // Called after the update of a step. `snapshot`: SnapshotDue() was true on all workers.
  virtual void Applied(const World& world, const LocalState& local, bool snapshot) = 0;
  // Called when the state of this world is that of a committed step. `out_of_turn`, which is equal
  // on all ranks: write a checkpoint even if none is due.
  virtual void Committed(const World& world, const LocalState& local, bool out_of_turn = false) = 0;

  // Only for a sharded state: PartWritten() returns the version of the world's last due checkpoint,
  // once this rank has written its part. PartsWritten() is called once all ranks wrote their parts.
  // PartFailed() returns true if this rank will not write the part that is due; PartsFailed() is
  // then called on all ranks. Until one of these calls, which all ranks receive in the same step,
  // the world begins no other checkpoint.
  virtual std::optional<StateVersion> PartWritten() const = 0;
  virtual bool PartFailed() const = 0;
  virtual void PartsWritten(const StateVersion& version) = 0;
  virtual void PartsFailed() = 0;
  // Reads rows of a version that Restore() found. kInvalid: the message names the file.
  virtual Result<void> LoadRows(const StateVersion& version, int64_t begin, int64_t end,
                                std::span<float> values) const = 0;
  // Called when the world has ended. A checkpoint that lacks parts is abandoned.
  virtual void WorldEnded() = 0;

  // The two functions below return early once `given_up` returns true; writing continues.
  using GivenUp = std::function<bool()>;
  // Called when training ends with this state, repeatedly until it returns true on all ranks: this
  // rank's part of the state is written, or will not be. A call takes less than a second.
  virtual bool FinishPart(const World& world, const LocalState& local,
                          const GivenUp& given_up = {}) = 0;
  // Called when training ends with this state, which every rank has. Completes the checkpoint
  // of this state, unless it fails or the volume takes no more data.
  virtual void Finished(const World& world, const LocalState& local,
                        const GivenUp& given_up = {}) = 0;
};

}  // namespace ringmaster::trainer
