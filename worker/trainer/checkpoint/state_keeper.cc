#include "worker/trainer/checkpoint/state_keeper.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::seconds kFinishLimit{60};

}  // namespace

StateKeeper::StateKeeper(KeeperOptions options, TrainableState state, MembershipSource& membership,
                         const Clock& clock)
    : options_(std::move(options)),
      state_(std::move(state)),
      membership_(membership),
      clock_(clock) {}

Result<std::unique_ptr<StateKeeper>> StateKeeper::Open(KeeperOptions options, TrainableState state,
                                                       MembershipSource& membership,
                                                       const Clock& clock) {
  std::unique_ptr<StateKeeper> keeper(
      new StateKeeper(std::move(options), std::move(state), membership, clock));
  const KeeperOptions& chosen = keeper->options_;
  if (!chosen.snapshot_folder.empty()) {
    keeper->snapshots_.emplace(chosen.snapshot_folder, chosen.slot);
  }
  if (chosen.checkpoint_folder.empty()) return keeper;
  Result<CheckpointFolder> folder = CheckpointFolder::Open(chosen.checkpoint_folder);
  if (!folder.ok()) return folder.error();
  keeper->folder_ = *folder;
  keeper->writer_ = std::make_unique<CheckpointWriter>(
      *std::move(folder), chosen.checkpoint_keep,
      CheckpointCalls{.grant =
                          [&membership](const StateVersion& version, const DoneShard& shard,
                                        const std::stop_token& stop) {
                            return membership.AwaitGrant(
                                {.step = version.step,
                                 .shard = shard.shard,
                                 .bytes = static_cast<int64_t>(shard.bytes),
                                 .checksum = HexOf(shard.checksum)},
                                stop);
                          },
                      .complete =
                          [&membership](const StateVersion& version) {
                            membership.CheckpointComplete(version.step);
                          },
                      .failing =
                          [&membership](const std::string& reason) {
                            membership.Unprotected(kCheckpointProtection, reason);
                          }});
  return keeper;
}

Result<HeldState> StateKeeper::Restore(const HeldState& held) {
  HeldState now = held;
  const std::vector<uint64_t> parts = PartsOf(state_);
  if (snapshots_) {
    const auto loaded = snapshots_->Load(now.version, options_.identity, parts);
    if (loaded) now = TakeOver(*loaded, StateOrigin::kSnapshot);
  }
  if (!folder_) return now;
  const Result<std::optional<LoadedShard>> newest =
      folder_->LoadNewest(now.version, options_.identity, parts, damaged_);
  if (!newest.ok()) return newest.error().WithContext("looking for a checkpoint to go on from");
  if (*newest) {
    now = TakeOver(**newest, StateOrigin::kCheckpoint);
    offered_ = now.version;
  }
  return now;
}

HeldState StateKeeper::TakeOver(const LoadedShard& loaded, StateOrigin origin) {
  for (std::size_t i = 0; i < state_.size(); ++i) {
    std::copy(loaded.values[i].begin(), loaded.values[i].end(), state_[i].begin());
  }
  const ShardHeader& header = loaded.header;
  const bool same_run =
      !header.identity.run.empty() && header.identity.run == options_.identity.run;
  const HeldState held{.version = header.version,
                       .term_base = same_run ? header.term_base : header.version.epoch.term,
                       .origin = origin};
  LogInfo("Loaded a state", {{"from", NameOf(origin)},
                             {"version", CheckpointName(held.version)},
                             {"of_this_run", same_run ? "yes" : "no"}});
  return held;
}

ShardHeader StateKeeper::HeaderFor(const HeldState& held) const {
  return {.identity = options_.identity,
          .version = held.version,
          .term_base = held.term_base,
          .shard = 0,
          .shards = 1,
          .parts = PartsOf(state_),
          .checksum = 0};
}

void StateKeeper::Applied(const World&, const HeldState& held) {
  if (!snapshots_) return;
  const Clock::Time began = clock_.Now();
  if (!pace_.Due(began)) return;
  ShardHeader header = HeaderFor(held);
  header.checksum = Checksum(state_);
  const Result<void> written = snapshots_->Write(header, state_);
  if (written.ok()) return pace_.Took(began, clock_.Now());
  LogWarn("Snapshots fail; training goes on without them", {{"reason", written.error().message}});
  membership_.Unprotected(kSnapshotProtection, written.error().message);
  snapshots_.reset();
}

void StateKeeper::Committed(const World& world, const HeldState& held) {
  if (!writer_ || world.rank != 0 || held.version.step == 0) return;
  if (held.version.step % options_.checkpoint_every == 0) Checkpoint(held);
}

void StateKeeper::Checkpoint(const HeldState& held) {
  if (held.version == offered_) return;
  if (writer_->Offer(HeaderFor(held), state_)) {
    offered_ = held.version;
  } else if (!std::exchange(skipped_, true)) {
    LogWarn(
        "Skipped a checkpoint, because the one before is still being written: raise the steps "
        "between them, or use a faster volume",
        {{"step", held.version.step}});
  }
}

void StateKeeper::Finished(const World& world, const HeldState& held) {
  if (!writer_ || world.rank != 0 || held.version.step == 0) return;
  bool idle = writer_->AwaitIdle(kFinishLimit);
  if (idle) {
    Checkpoint(held);
    idle = writer_->AwaitIdle(kFinishLimit);
  }
  if (!idle) LogWarn("Ended without waiting for the last checkpoint any longer");
}

}  // namespace ringmaster::trainer
