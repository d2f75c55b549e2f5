#pragma once

// Implements Checkpointer for the session: saves snapshots in memory after steps (snapshot.h) and
// checkpoints at intervals of committed steps (checkpoint_writer.h). Asks the MembershipSource
// whether a checkpoint may be completed.

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
#include "worker/trainer/checkpoint/checkpoint_paths.h"
#include "worker/trainer/checkpoint/checkpoint_writer.h"
#include "worker/trainer/checkpoint/part_writer.h"
#include "worker/trainer/checkpoint/snapshot.h"
#include "worker/trainer/checkpoint/volume_watch.h"
#include "worker/trainer/elastic/checkpointer.h"
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
  StateIdentity identity;
  StateMirror* mirror = nullptr;          // outlives the keeper; null: the state is in host memory
  const ShardedState* sharded = nullptr;  // outlives the keeper; null: all state is replicated
  // After the last step, a volume that takes no data for this time is not waited for.
  std::chrono::milliseconds stuck_after = std::chrono::seconds(60);
};

// Not thread-safe.
class StateKeeper final : public Checkpointer {
 public:
  // Saves and restores the memory of `state`. That memory, `membership` and `clock` must outlive
  // the object. kInvalid: the checkpoint folder can never be used.
  static Result<std::unique_ptr<StateKeeper>> Open(KeeperOptions options, TrainableState state,
                                                   MembershipSource& membership,
                                                   const Clock& clock);

  Result<LocalState> Restore(const LocalState& held, bool to_begin) override;
  const std::optional<Beginning>& beginning() const override { return beginning_; }
  std::optional<control::KeptCheckpoint> NewestKept(const StateVersion& up_to) const override;
  bool KeepOther(const World& world, const LocalState& held) override;
  void Distrust(const StateVersion& version, const std::string& reason) override;
  bool SnapshotDue() const override;
  void Applied(const World& world, const LocalState& held, bool snapshot) override;
  void Committed(const World& world, const LocalState& held, bool out_of_turn = false) override;
  std::optional<StateVersion> PartWritten() const override;
  bool PartFailed() const override;
  void PartsWritten(const StateVersion& version) override;
  void PartsFailed() override;
  Result<void> LoadRows(const StateVersion& version, int64_t begin, int64_t end,
                        std::span<float> values) const override;
  void WorldEnded() override;
  bool FinishPart(const World& world, const LocalState& held,
                  const GivenUp& given_up = {}) override;
  void Finished(const World& world, const LocalState& held, const GivenUp& given_up = {}) override;

  // Waits up to `limit` until no checkpoint is being written. Returns false after a timeout.
  bool AwaitWritten(std::chrono::milliseconds limit);

  // Abandons what is being written, and writes no more. Returns false if a writer still uses the
  // volume after `limit`: the destructor would wait for it, as long as the volume hangs.
  bool Stop(std::chrono::milliseconds limit);

 private:
  StateKeeper(KeeperOptions options, TrainableState state, MembershipSource& membership,
              const Clock& clock);

  Result<LocalState> RestoreOther();
  Result<void> NoteNamesakes();
  LocalState TakeOver(const LoadedShard& loaded, StateOrigin origin);
  void Offer(const World& world, const LocalState& held);
  Result<CheckpointFolder> FolderWith(const StateVersion& version) const;
  ShardHeader HeaderFor(const LocalState& held) const;
  void Checkpoint(const World& world, const LocalState& held);
  void OfferPart(const World& world, const LocalState& held);
  bool Await(const LocalState& held, const GivenUp& given_up);
  bool Stuck(const LocalState& held);

  const KeeperOptions options_;
  const TrainableState state_;
  MembershipSource& membership_;
  const Clock& clock_;

  std::optional<CheckpointFolder> folder_;
  // Damaged checkpoints of this job, and of the job to start from, with the reasons.
  std::map<StateVersion, std::string> damaged_;
  std::map<StateVersion, std::string> others_damaged_;
  std::optional<Beginning> beginning_;
  std::atomic<bool> keeps_other_ = false;  // true: training waits for KeepOther()
  int64_t skipped_ = 0;                    // step of a skipped checkpoint; -1: one has been logged
  StateVersion restored_;                  // the checkpoint that training resumed from
  StateVersion offered_;                   // the newest version that rank 0 passed to the writer

  std::optional<SnapshotFiles> snapshots_;
  SnapshotPace pace_;

  VolumeWatch watch_;  // used after the last step
  bool stuck_ = false;

  StateVersion due_;  // version of the newest part in this world that is written or being written
  bool parts_pending_ = false;  // the same on all ranks: a checkpoint's parts are being written
  PartsGate gate_;
  std::unique_ptr<PartWriter> parts_;
  std::unique_ptr<CheckpointWriter> writer_;  // the last member, because its thread uses the others
};

}  // namespace ringmaster::trainer
