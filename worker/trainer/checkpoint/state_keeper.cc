#include "worker/trainer/checkpoint/state_keeper.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include "common/base/hex.h"
#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::milliseconds kNow{0};
constexpr std::chrono::milliseconds kBetweenLooks{100};

}  // namespace

StateKeeper::StateKeeper(KeeperOptions options, TrainableState state, MembershipSource& membership,
                         const Clock& clock)
    : options_(std::move(options)),
      state_(std::move(state)),
      membership_(membership),
      clock_(clock),
      watch_(options_.stuck_after) {}

Result<std::unique_ptr<StateKeeper>> StateKeeper::Open(KeeperOptions options, TrainableState state,
                                                       MembershipSource& membership,
                                                       const Clock& clock) {
  std::unique_ptr<StateKeeper> keeper(
      new StateKeeper(std::move(options), std::move(state), membership, clock));
  const KeeperOptions& chosen = keeper->options_;
  // A snapshot would contain only this rank's share, which is not a complete state.
  if (!chosen.snapshot_folder.empty() && chosen.sharded == nullptr) {
    keeper->snapshots_.emplace(chosen.snapshot_folder);
  }
  if (chosen.checkpoints.volume.empty()) return keeper;
  const CheckpointFolder folder(chosen.checkpoints.Own());
  // Failures are reported once the rank is in a world, where the launcher receives them.
  const Result<void> made = folder.Make();
  if (!made.ok() && made.error().kind == ErrorKind::kInvalid) return made.error();
  keeper->folder_ = folder;
  const auto failing = [&membership, restoring = &keeper->keeps_other_](const std::string& why) {
    membership.Unprotected(*restoring ? kRestoreProtection : kCheckpointProtection, why);
  };
  std::function<Result<int>(const StateVersion&, const std::stop_token&)> parts;
  if (chosen.sharded != nullptr) {
    keeper->parts_ = std::make_unique<PartWriter>(folder, failing);
    parts = [gate = &keeper->gate_](const StateVersion& version, const std::stop_token& stop) {
      return gate->Await(version, stop);
    };
  }
  keeper->writer_ = std::make_unique<CheckpointWriter>(
      folder, chosen.checkpoint_keep,
      CheckpointCalls{.parts = std::move(parts),
                      .grant =
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
                          [&membership](const StateVersion& version, int64_t bytes) {
                            membership.CheckpointComplete(version.step, bytes);
                          },
                      .failing = failing});
  return keeper;
}

Result<LocalState> StateKeeper::Restore(const LocalState& held, bool to_begin) {
  LocalState now = held;
  if (to_begin && held.origin != StateOrigin::kOther) beginning_.reset();
  const std::vector<uint64_t> parts = PartsOf(state_);
  if (snapshots_) {
    const auto loaded = snapshots_->Load(now.version, options_.identity, parts);
    if (loaded) now = TakeOver(*loaded, StateOrigin::kSnapshot);
  }
  if (!folder_) return now;
  const auto looking = [](const Error& error) {
    return error.WithContext("looking for a checkpoint to resume from");
  };
  if (Result<void> made = folder_->Make(); !made.ok()) return looking(made.error());
  // Once the job has checkpoints, checkpoints of other jobs are not used.
  const bool others = now.origin == StateOrigin::kOther;
  const Result<std::optional<LoadedShard>> newest = folder_->LoadNewest(
      others ? StateVersion{} : now.version, options_.identity, parts, damaged_);
  if (!newest.ok()) return looking(newest.error());
  if (*newest) {
    now = TakeOver(**newest, StateOrigin::kCheckpoint);
    restored_ = now.version;
    return now;
  }
  if (!to_begin || now.version != StateVersion{}) return now;
  if (!options_.checkpoints.Restores()) {
    if (Result<void> noted = NoteNamesakes(); !noted.ok()) return looking(noted.error());
    return now;
  }
  const Result<LocalState> other = RestoreOther();
  if (!other.ok()) return looking(other.error());
  return other;
}

// Loads the checkpoint from which the job starts according to its spec.
Result<LocalState> StateKeeper::RestoreOther() {
  const Result<OtherCheckpoints> other = FindToBeginWith(options_.checkpoints);
  if (!other.ok()) return other.error();
  const Result<LoadedShard> loaded =
      LoadOther(*other, options_.identity, PartsOf(state_), others_damaged_);
  if (!loaded.ok()) return loaded.error();
  const LocalState now = TakeOver(*loaded, StateOrigin::kOther);
  if (!beginning_) beginning_ = Beginning{.version = now.version};
  const std::string other_flags = beginning_->text;
  beginning_->text = "it started from step " + std::to_string(now.version.step) + " of " +
                     other->folder.PathOf(now.version) +
                     (other_flags.empty() ? "" : "; " + other_flags);
  return now;
}

// A job that is deleted and created again under the same name starts over. Reports how to resume
// from the earlier job's checkpoints instead.
Result<void> StateKeeper::NoteNamesakes() {
  const CheckpointPlace& place = options_.checkpoints;
  if (place.uid.empty()) return {};
  const Result<std::optional<OtherCheckpoints>> other = FindOfJob(place, place.name);
  if (!other.ok()) return other.error();
  if (!*other) return {};
  beginning_ = Beginning{
      .version = {},
      .text =
          "it started from its first step although an earlier job of the same name has checkpoints "
          "up to step " +
          std::to_string((*other)->newest.step) + " (" + (*other)->folder.path() +
          "); to resume from them, apply the job with spec.checkpoint.restoreFrom: {job: " +
          place.name + "}"};
  return {};
}

std::optional<control::KeptCheckpoint> StateKeeper::NewestKept(const StateVersion& up_to) const {
  if (!folder_) return std::nullopt;
  const Result<std::vector<StateVersion>> complete = folder_->Complete();
  if (!complete.ok()) return std::nullopt;
  const auto newest = std::ranges::find_if(*complete, [&](const StateVersion& version) {
    return version <= up_to && !damaged_.contains(version);
  });
  if (newest == complete->end()) return std::nullopt;
  const auto at = folder_->CompletedAt(*newest);
  if (!at.ok() || !*at) return std::nullopt;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow() - **at);
  const Result<int64_t> bytes = folder_->BytesOfNewest(*complete, options_.checkpoint_keep);
  return control::KeptCheckpoint{.step = newest->step,
                                 .bytes = bytes.ok() ? *bytes : 0,
                                 .age_millis = std::max<int64_t>(0, age.count())};
}

void StateKeeper::Distrust(const StateVersion& version, const std::string& reason) {
  damaged_[version] = "the checkpoint " + CheckpointName(version) + " does not contain " + reason;
  others_damaged_[version] = damaged_[version];
}

LocalState StateKeeper::TakeOver(const LoadedShard& loaded, StateOrigin origin) {
  for (std::size_t i = 0; i < state_.size(); ++i) {
    std::copy(loaded.values[i].begin(), loaded.values[i].end(), state_[i].begin());
  }
  if (options_.mirror != nullptr) options_.mirror->Push();
  const ShardHeader& header = loaded.header;
  const bool same_run =
      !header.identity.run.empty() && header.identity.run == options_.identity.run;
  const LocalState held{.version = header.version,
                        .term_base = same_run ? header.term_base : header.version.epoch.term,
                        .origin = origin};
  const std::string differs = WhatDiffers(header.identity.shaping, options_.identity.shaping);
  LogInfo("Loaded a state", {{"from", NameOf(origin)},
                             {"version", CheckpointName(held.version)},
                             {"of_this_run", same_run ? "yes" : "no"},
                             {"trained_with", differs.empty() ? "the same options" : differs}});
  if (!differs.empty()) {
    beginning_ =
        Beginning{.version = held.version, .text = "its state was trained with " + differs};
  }
  return held;
}

ShardHeader StateKeeper::HeaderFor(const LocalState& held) const {
  return {.identity = options_.identity,
          .version = held.version,
          .term_base = held.term_base,
          .shard = 0,
          .shards = 1,
          .parts = PartsOf(state_),
          .checksum = 0};
}

// Returns true if this rank makes no snapshots, so that it does not delay those of other ranks.
bool StateKeeper::SnapshotDue() const {
  return options_.sharded == nullptr && (!snapshots_ || pace_.Due(clock_.Now()));
}

void StateKeeper::Applied(const World& world, const LocalState& held, bool snapshot) {
  keeps_other_ = false;
  if (skipped_ > 0) {
    LogWarn(
        "Skipped a checkpoint because the previous one is still being written; increase the "
        "interval or use a faster volume",
        {{"step", std::exchange(skipped_, -1)}});
  }
  if (!snapshot || !snapshots_ || world.local_rank != 0) return;
  const Clock::Time began = clock_.Now();
  if (options_.mirror != nullptr) options_.mirror->Pull();
  ShardHeader header = HeaderFor(held);
  header.checksum = Checksum(state_);
  const Result<void> written = snapshots_->Write(header, state_);
  if (written.ok()) return pace_.Took(began, clock_.Now());
  LogWarn("Failed to take a snapshot; training continues without snapshots",
          {{"reason", written.error().message}});
  membership_.Unprotected(kSnapshotProtection, written.error().message);
  snapshots_.reset();
}

void StateKeeper::Committed(const World& world, const LocalState& held, bool out_of_turn) {
  if (!writer_ || held.version.step == 0) return;
  const bool in_turn = held.version.step % options_.checkpoint_every == 0;
  if (in_turn || out_of_turn) Checkpoint(world, held);
}

void StateKeeper::Checkpoint(const World& world, const LocalState& held) {
  if (held.version == restored_) return;  // this version is already a checkpoint
  // All ranks skip the same checkpoints, so none of them writes a part that is of no use.
  const bool skip = parts_pending_ && due_ != held.version;
  if (parts_ && !skip && due_ != held.version) {
    OfferPart(world, held);
    parts_pending_ = true;
  }
  if (world.rank != 0 || offered_ == held.version) return;
  if (!skip) Offer(world, held);
  if (skipped_ >= 0) skipped_ = offered_ == held.version ? 0 : held.version.step;
}

void StateKeeper::Offer(const World& world, const LocalState& held) {
  if (parts_) {
    if (!writer_->AwaitIdle(kNow)) return;  // it may still need the parts of an earlier version
    gate_.Expect(held.version, world.size);
  }
  if (options_.mirror != nullptr) options_.mirror->Pull();
  if (writer_->Offer(world.epoch, HeaderFor(held), state_)) offered_ = held.version;
}

bool StateKeeper::KeepOther(const World& world, const LocalState& held) {
  if (!writer_) return true;
  keeps_other_ = true;
  if (parts_ && parts_->AwaitIdle(kNow) &&
      (due_ != held.version || parts_->written() != held.version)) {
    OfferPart(world, held);
  }
  if (world.rank != 0) return false;
  if (writer_->completed() == held.version) {
    offered_ = held.version;
    return true;
  }
  if (writer_->AwaitIdle(kNow)) Offer(world, held);
  return false;
}

bool StateKeeper::AwaitWritten(std::chrono::milliseconds limit) {
  return !writer_ || writer_->AwaitIdle(limit);
}

bool StateKeeper::Stop(std::chrono::milliseconds limit) {
  return (!parts_ || parts_->Stop(limit)) && (!writer_ || writer_->Stop(limit));
}

// Skips the checkpoint if this rank's previous part is still being written.
void StateKeeper::OfferPart(const World& world, const LocalState& held) {
  const ShardView view = options_.sharded->view();
  ShardHeader header = HeaderFor(held);
  header.shard = world.rank;
  header.shards = world.size;
  header.parts = {view.values.size()};
  due_ = parts_->Offer(world.epoch, std::move(header), view.values) ? held.version : StateVersion{};
}

std::optional<StateVersion> StateKeeper::PartWritten() const {
  if (!parts_ || due_ == StateVersion{} || parts_->written() != due_) return std::nullopt;
  return due_;
}

// If the previous part was still being written, this rank reports the failure once it can write.
bool StateKeeper::PartFailed() const {
  return parts_pending_ && parts_->AwaitIdle(kNow) && !PartWritten();
}

void StateKeeper::PartsWritten(const StateVersion& version) {
  gate_.Complete(version);
  parts_pending_ = false;
}

void StateKeeper::PartsFailed() {
  gate_.GiveUp();
  due_ = {};
  parts_pending_ = false;
}

Result<void> StateKeeper::LoadRows(const StateVersion& version, int64_t begin, int64_t end,
                                   std::span<float> values) const {
  if (!folder_) {
    return Error{ErrorKind::kInvalid, "cannot read rows: no checkpoint folder is set"};
  }
  const Result<CheckpointFolder> folder = FolderWith(version);
  if (!folder.ok()) return folder.error();
  const int64_t row_values =
      static_cast<int64_t>(values.size()) / std::max<int64_t>(1, end - begin);
  return folder->LoadRows(version, options_.identity,
                          {.all_rows = options_.sharded->all_rows(),
                           .row_values = row_values,
                           .begin = begin,
                           .end = end},
                          values);
}

// Returns this job's folder if it has the version, otherwise the folder of the job to start from.
Result<CheckpointFolder> StateKeeper::FolderWith(const StateVersion& version) const {
  const Result<bool> own = folder_->IsComplete(version);
  if (!own.ok()) return own.error();
  if (*own || !options_.checkpoints.Restores()) return *folder_;
  const Result<OtherCheckpoints> other = FindToBeginWith(options_.checkpoints);
  if (!other.ok()) return other.error();
  return other->folder;
}

void StateKeeper::WorldEnded() {
  if (!parts_) return;
  gate_.GiveUp();
  due_ = offered_ = restored_ = {};
  parts_pending_ = false;
}

bool StateKeeper::FinishPart(const World& world, const LocalState& held, const GivenUp& given_up) {
  if (!parts_ || held.version.step == 0 || held.version == restored_ || stuck_) return true;
  const bool completing = offered_ == held.version;  // rank 0's writer waits for this part
  if (due_ != held.version || (world.rank == 0 && !completing)) {
    if (!completing) gate_.GiveUp();  // ends the writer's wait for earlier parts
    parts_pending_ = false;
    if (parts_->AwaitIdle(kBetweenLooks) && (completing || writer_->AwaitIdle(kBetweenLooks))) {
      Checkpoint(world, held);
    }
  }
  if (due_ == held.version && parts_->AwaitIdle(kBetweenLooks)) return true;
  return (given_up && given_up()) || Stuck(held);
}

void StateKeeper::Finished(const World& world, const LocalState& held, const GivenUp& given_up) {
  if (!writer_ || world.rank != 0 || held.version.step == 0) return;
  if (!Await(held, given_up) || parts_) return;
  Checkpoint(world, held);
  Await(held, given_up);
}

// Returns true once rank 0's writer is idle; false if the world ended or the volume is stuck.
bool StateKeeper::Await(const LocalState& held, const GivenUp& given_up) {
  while (!writer_->AwaitIdle(kBetweenLooks)) {
    if ((given_up && given_up()) || Stuck(held)) return false;
  }
  return true;
}

// Call it after each wait of `kBetweenLooks`. Reports a stuck volume once.
bool StateKeeper::Stuck(const LocalState& held) {
  if (stuck_) return true;
  stuck_ = watch_.Stuck(writer_->taken() + (parts_ ? parts_->taken() : 0),
                        writer_->uses_volume() || (parts_ && parts_->uses_volume()), kBetweenLooks);
  if (!stuck_) return false;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.stuck_after);
  const std::string reason = "the volume took no data of the last checkpoint for " +
                             std::to_string(seconds.count()) + " s";
  LogWarn("Training ends without a checkpoint of its last step",
          {{"step", held.version.step}, {"reason", reason}});
  membership_.Unprotected(kCheckpointProtection, reason);
  return true;
}

}  // namespace ringmaster::trainer
