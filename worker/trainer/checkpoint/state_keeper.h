#pragma once

// Keeps the training's state outside of the process, and finds it again: snapshots in memory after
// steps (snapshot.h), a checkpoint every so many committed ones (checkpoint_writer.h). The session
// tells it of steps; who may complete a checkpoint it asks the MembershipSource.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/checkpoint_writer.h"
#include "worker/trainer/checkpoint/other_checkpoints.h"
#include "worker/trainer/checkpoint/part_writer.h"
#include "worker/trainer/checkpoint/snapshot.h"
#include "worker/trainer/elastic/membership_source.h"
#include "worker/trainer/elastic/sharded_state.h"
#include "worker/trainer/elastic/state_mirror.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

struct KeeperOptions {
  CheckpointPlace checkpoints;
  int64_t checkpoint_every = 500;
  int checkpoint_keep = 3;
  std::string snapshot_folder;  // empty: no snapshots
  int slot = 0;
  StateIdentity identity;
  StateMirror* mirror = nullptr;          // outlives the keeper; null: the state is in host memory
  const ShardedState* sharded = nullptr;  // outlives the keeper; null: all state is replicated
};

// Thread-safety: one thread.
class StateKeeper {
 public:
  // `state` is the memory that is kept and restored; it, `membership` and `clock` outlive the
  // object. kInvalid: the checkpoint folder can never be used.
  static Result<std::unique_ptr<StateKeeper>> Open(KeeperOptions options, TrainableState state,
                                                   MembershipSource& membership,
                                                   const Clock& clock);

  // Puts the newest kept state that is above `held` into the state's memory, and says what is held
  // then. Cheap where there is none. Only with `to_begin`, in a world where nobody has trained, is
  // it another job's where this one has none and is told so. kInvalid, in a sentence: there are
  // checkpoints, and this rank must not begin without them (another model, a newer format, all
  // damaged). kUnavailable: what there is cannot be read now.
  Result<HeldState> Restore(const HeldState& held, bool to_begin);
  // Of what the last Restore() to begin found, where there is something to say of it.
  const std::optional<Beginning>& beginning() const { return beginning_; }

  // This job's newest complete checkpoint up to a version, damaged ones left out; nothing where
  // there is none, or it cannot be read now.
  std::optional<control::KeptCheckpoint> NewestKept(const StateVersion& up_to) const;

  // Takes another job's state, with which this world begins, towards a complete checkpoint of this
  // one: called on every rank, again and again until it is complete. Whether it is, rank 0 knows.
  bool KeepOther(const World& world, const HeldState& held);
  // A version that Restore() found lacks something, which Restore() does not read: it is not found
  // again.
  void Distrust(const StateVersion& version, const std::string& reason);

  // The update of a step is done.
  void Applied(const World& world, const HeldState& held);
  // The state is that of a committed step, now, in this world. `out_of_turn`, which all its ranks
  // agree on: a checkpoint is wanted of it in any case.
  void Committed(const World& world, const HeldState& held, bool out_of_turn = false);
  // Waits until no checkpoint is being written; false when that takes longer than `limit`.
  bool AwaitWritten(std::chrono::milliseconds limit);
  // Of a state that is spread over ranks: whose part of the checkpoint that was due last, in this
  // world, is on disk here; and the news that it is on all ranks'.
  std::optional<StateVersion> PartWritten() const;
  void PartsWritten(const StateVersion& version);
  // Reads rows of a version that Restore() found. kInvalid: a sentence that names the file.
  Result<void> LoadRows(const StateVersion& version, int64_t begin, int64_t end,
                        std::span<float> values) const;
  // The world is over: a checkpoint whose parts are not all written is given up.
  void WorldEnded();
  // The next two return early once `given_up` says so: what is being written goes on.
  using GivenUp = std::function<bool()>;
  // Training is over with this state: this rank's part of it is written, within a limit.
  void FinishPart(const World& world, const HeldState& held, const GivenUp& given_up = {});

  // Training is over with this state, which every rank has: waits until its checkpoint is complete,
  // within a limit.
  void Finished(const World& world, const HeldState& held, const GivenUp& given_up = {});

 private:
  StateKeeper(KeeperOptions options, TrainableState state, MembershipSource& membership,
              const Clock& clock);

  Result<HeldState> RestoreOther();
  Result<void> NoteNamesakes();
  HeldState TakeOver(const LoadedShard& loaded, StateOrigin origin);
  void Offer(const World& world, const HeldState& held);
  Result<CheckpointFolder> FolderWith(const StateVersion& version) const;
  ShardHeader HeaderFor(const HeldState& held) const;
  void Checkpoint(const World& world, const HeldState& held);
  void OfferPart(const World& world, const HeldState& held);

  const KeeperOptions options_;
  const TrainableState state_;
  MembershipSource& membership_;
  const Clock& clock_;

  std::optional<CheckpointFolder> folder_;
  // With reasons that were told; the other job's apart.
  std::map<StateVersion, std::string> damaged_;
  std::map<StateVersion, std::string> others_damaged_;
  std::optional<Beginning> beginning_;
  std::atomic<bool> keeps_other_ = false;  // training waits for it
  bool skipped_ = false;                   // that one was skipped has been said
  StateVersion restored_;                  // the checkpoint that training goes on from
  StateVersion offered_;                   // the newest that rank 0 has being written

  std::optional<SnapshotFiles> snapshots_;
  SnapshotPace pace_;

  StateVersion due_;  // of the newest part in this world that is written or being written
  PartsGate gate_;
  std::unique_ptr<PartWriter> parts_;
  std::unique_ptr<CheckpointWriter> writer_;  // last: its thread uses the others
};

}  // namespace ringmaster::trainer
